"""Transfers files to and from Slack as streams with size limits. Only Slack's file host receives the bot's token.

A download uses the address in ``files.info``, but only at exactly Slack's file host (or, with a twin, at the host of
the Web API itself), and never follows a redirect. An upload uses the address of ``files.getUploadURLExternal``, under
the same rule and without the token; until ``files.completeUploadExternal`` nobody sees the file.
https://docs.slack.dev/messaging/working-with-files/
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from swarm.domain.errors import Conflict, Forbidden, NotFound, RefusedBySlack, SwarmError, Unavailable
from swarm.domain.model.deliveries import Answer, DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.files import TEXT_BYTES, FileInfo, Share, check_size
from swarm.domain.model.threads import FLAT
from swarm.slack.incoming.fields import JsonObject, count_at, id_at, object_at, objects_at, text_at, ts_at
from swarm.slack.incoming.message_text import cue_texts, files_of, transcript
from swarm.slack.outgoing.web_api import WebApi

FILE_HOST: Final = "files.slack.com"

TRANSFER_SECONDS: Final = 900.0
"""The time limit for the transfer of one file, regardless of which side is slow."""

TRANSFERS_AT_ONCE: Final = 16
_COMPLETE_SECONDS: Final = 1.5
"""Slack waits three seconds for the acknowledgement of an event."""

_CHUNK_BYTES: Final = 64 * 1024

_INFO: Final = "files.info"
_ANNOUNCE: Final = "files.getUploadURLExternal"
_COMPLETE: Final = "files.completeUploadExternal"

_SLACK_API_HOSTS: Final = frozenset({"slack.com", "www.slack.com"})
_NO_SUCH_FILE: Final = frozenset({"file_not_found", "file_deleted"})
_NO_ACCESS: Final = Forbidden(
    "Slack does not allow access to this file.",
    hint="The app's token lacks files:read: the operator has to reinstall the app with the manifest.",
)
_BROKEN_OFF: Final = (aiohttp.ClientError, TimeoutError, OSError)

_Origin = tuple[str, str | None, int | None]


class OpenDownload:
    """The content of one open download."""

    def __init__(self, response: aiohttp.ClientResponse, cap_bytes: int) -> None:
        self._response = response
        self._cap_bytes = cap_bytes

    @property
    def size_bytes(self) -> int | None:
        """The size according to Slack's headers; None if unknown."""
        return self._response.content_length

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the content. Raises TooLarge beyond the limit, and Unavailable if Slack breaks off the transfer."""
        count = 0
        try:
            async for chunk in self._response.content.iter_chunked(_CHUNK_BYTES):
                count += len(chunk)
                check_size(count, self._cap_bytes)
                yield chunk
        except _BROKEN_OFF as error:
            raise Unavailable("Slack broke off the download.") from error

    async def close(self) -> None:
        """Releases the connection. A connection with unread content is not reused."""
        self._response.close()


class SlackFileClient:
    """A client for Slack's files that uses the gateway's Web API client.

    ``timeout_seconds`` limits connecting, and each period without data from Slack.
    """

    def __init__(self, api: WebApi, *, timeout_seconds: float) -> None:
        self._api = api
        self._timeout_seconds = timeout_seconds
        self._origin = _file_origin(api.client.base_url)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes the connections. Running transfers are aborted."""
        if self._session is not None:
            await self._session.close()

    async def info(self, file_id: str) -> FileInfo:
        """Returns Slack's metadata for a file (``files.info``). Raises NotFound, Unavailable."""
        file = await self._ask(file_id)
        name = text_at(file, "name") or text_at(file, "title") or file_id
        return FileInfo(
            id=file_id,
            name=name,
            mimetype=text_at(file, "mimetype") or None,
            size_bytes=count_at(file, "size"),
            url=None if _is_elsewhere(file) else text_at(file, "url_private_download") or None,
        )

    async def complete(self, message: JsonObject) -> None:
        """Adds to the files of a message, in place, what Slack leaves out: the descriptions of other workspaces' files
        (``files.info``), and the rest of long transcripts. What Slack does not give in time stays as it is.
        """
        await asyncio.gather(*(self._complete(file) for file in files_of(message) if isinstance(file, dict)))

    async def open(self, file: FileInfo, cap_bytes: int) -> OpenDownload:
        """Opens a file without reading its content.

        Raises TooLarge if the known size exceeds the limit, NotFound if Slack only links to the file, Forbidden if
        Slack responds with different content, and Unavailable if Slack cannot be reached.
        """
        if file.url is None:
            raise NotFound(
                f"Slack has no content of '{file.name}': it is only linked, or hidden by the workspace's limits.",
                hint="Ask the person what it contains.",
            )
        check_size(file.size_bytes or 0, cap_bytes)
        self._insist_on_file_host(file.url)
        response = await self._get(file.url)
        try:
            _insist_on_content(response, file)
            check_size(response.content_length or 0, cap_bytes)
        except SwarmError:
            response.close()
            raise
        return OpenDownload(response, cap_bytes)

    async def place(self, name: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> str:
        """Uploads content that nobody sees yet (``files.getUploadURLExternal``, then the upload). Returns the file's
        id.

        Raises Conflict with Slack's reason for a refusal, Unavailable for an interrupted upload, and the errors of
        ``chunks``.
        """
        try:
            answer = await self._api.read(_ANNOUNCE, {"filename": name, "length": size_bytes})
        except RefusedBySlack as refused:
            raise _refusal(refused.slack_code) from refused
        url, file_id = text_at(answer, "upload_url"), id_at(answer, "file_id")
        if file_id is None:
            raise Unavailable("Slack's response does not name a file.")
        self._insist_on_file_host(url)
        await self._put(url, size_bytes, chunks)
        return file_id

    async def ready_to_share(self) -> None:
        """Waits until Slack's rate limits allow :meth:`share`."""
        await self._api.acquire_slot(_COMPLETE)

    async def share(self, share: Share) -> Answer:
        """Shows an uploaded file in a thread (``files.completeUploadExternal``) with one call. Returns the outcome of
        the call.
        """
        arguments = {
            "files": orjson.dumps([{"id": share.file_id, "title": share.title}]).decode(),
            "channel_id": share.channel,
        }
        if share.thread_ts:
            arguments["thread_ts"] = share.thread_ts
        if share.comment:
            arguments["initial_comment"] = share.comment
        answer = await self._api.call(_COMPLETE, arguments)
        return (
            answer
            if isinstance(answer, DeliveryRefused | NotSent | InDoubt)
            else DeliveryAccepted(thread_ts=share.thread_ts)
        )

    async def shared_as(self, file_id: str, channel: str, thread_ts: str) -> str | None:
        """Returns the message that shows a file in a thread, or outside threads for `FLAT`, according to ``shares`` in
        ``files.info``; None if there is none.
        """
        try:
            shares = object_at(await self._ask(file_id), "shares")
        except RefusedBySlack as refused:
            if refused.slack_code in _NO_SUCH_FILE:
                return None  # an upload that was never completed does not count as a file
            raise
        found = [share for kind in ("public", "private") for share in objects_at(object_at(shares, kind), channel)]
        return next((ts_at(share, "ts") for share in found if (ts_at(share, "thread_ts") or FLAT) == thread_ts), None)

    async def _complete(self, file: dict[str, object]) -> None:
        with suppress(SwarmError, TimeoutError):
            async with asyncio.timeout(_COMPLETE_SECONDS):
                if text_at(file, "file_access") == "check_file_info":
                    file.update(await self._ask(text_at(file, "id")))
                if transcript(file).get("has_more") is True:
                    vtt = await self._text(FileInfo(id="", name="vtt", url=text_at(file, "vtt")))
                    file["transcription"] = {"preview": {"content": cue_texts(vtt)}}

    async def _text(self, file: FileInfo) -> str:
        opened = await self.open(file, TEXT_BYTES)
        try:
            return b"".join([chunk async for chunk in opened.chunks()]).decode("utf-8-sig", "replace")
        finally:
            await opened.close()

    async def _ask(self, file_id: str) -> JsonObject:
        return object_at(await self._api.read(_INFO, {"file": file_id}), "file")

    async def _get(self, url: str) -> aiohttp.ClientResponse:
        headers = {"Authorization": f"Bearer {self._api.client.token}"}
        try:
            return await self._transfers().get(
                url, headers=headers, allow_redirects=False, proxy=self._api.client.proxy
            )
        except _BROKEN_OFF as error:
            raise Unavailable(f"Slack's files cannot be reached ({type(error).__name__}).") from error

    async def _put(self, url: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> None:
        """Sends the raw bytes. An error of ``chunks`` is raised unchanged, instead of Slack's response to it."""
        source = _Source(chunks)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size_bytes)}
        try:
            async with self._transfers().post(
                url, data=source.read(), headers=headers, allow_redirects=False, proxy=self._api.client.proxy
            ) as response:
                status = response.status
        except _BROKEN_OFF as error:
            raise source.failure or Unavailable(f"The upload broke off ({type(error).__name__}).") from error
        if source.failure:
            raise source.failure
        if status != 200:
            raise Unavailable(f"Slack did not accept the upload (HTTP status {status}).")

    def _transfers(self) -> aiohttp.ClientSession:
        """Creates a session separate from the Web API's, so that calls find a free connection even if many transfers
        are running.
        """
        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=TRANSFER_SECONDS,
                connect=self._timeout_seconds,  # also limits waiting for a free connection
                sock_connect=self._timeout_seconds,
                sock_read=self._timeout_seconds,
            )
            connector = aiohttp.TCPConnector(limit=TRANSFERS_AT_ONCE)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False)
        return self._session

    def _insist_on_file_host(self, url: str) -> None:
        if _origin(url) != self._origin:
            raise Forbidden(
                "Slack names an address for the file that is not Slack's file host, so it is not fetched.",
                hint=f"Files are transferred only to and from {self._origin[1]}.",
            )


class _Source:
    """Chunks for aiohttp. Keeps the source's errors, which aiohttp would replace with its own."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self.failure: Exception | None = None

    async def read(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except Exception as error:
            self.failure = error
            raise


def _file_origin(api_url: str) -> _Origin:
    """Returns the origin of files: Slack's file host, or the API's own origin if the Web API is not Slack's."""
    host = urlsplit(api_url).hostname
    return ("https", FILE_HOST, None) if host in _SLACK_API_HOSTS else _origin(api_url)


def _origin(url: str) -> _Origin:
    """Returns the scheme, host and port of an address. An address with a user or an invalid port has no host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ("", None, None)
    if "@" in parts.netloc:
        return (parts.scheme, None, port)
    return (parts.scheme, parts.hostname, None if (parts.scheme, port) == ("https", 443) else port)


def _is_elsewhere(file: JsonObject) -> bool:
    return file.get("is_external") is True or text_at(file, "mode") == "external"


def _insist_on_content(response: aiohttp.ClientResponse, file: FileInfo) -> None:
    """Raises Forbidden for Slack's login page or a redirect, and NotFound or Unavailable depending on the status."""
    match response.status:
        case 200 if not _is_login_page(response.headers, file):
            return
        case 200 | 401 | 403:
            raise Forbidden(_NO_ACCESS.message, hint=_NO_ACCESS.hint)
        case status if 300 <= status < 400:
            raise Forbidden(
                "Slack sent a redirect instead of the file. It was not followed, because it would receive the token.",
                hint=_NO_ACCESS.hint,
            )
        case 404 | 410:
            raise NotFound(f"Slack no longer has '{file.name}'.")
        case status:
            raise Unavailable(f"Slack does not provide the file now (HTTP status {status}).")


def _is_login_page(headers: Mapping[str, str], file: FileInfo) -> bool:
    """Returns whether Slack sent a page instead of the file: an HTML page for a non-HTML file, or one not sent as an
    attachment.
    """
    if not headers.get("Content-Type", "").startswith("text/html"):
        return False
    is_attachment = headers.get("Content-Disposition", "").startswith("attachment")
    return not (file.mimetype == "text/html" and is_attachment)


def _refusal(code: str) -> SwarmError:
    return Conflict(
        f"Slack does not accept the file: {code}.", hint="Describe the file's content in the thread instead."
    )
