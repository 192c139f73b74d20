"""Uploads a file into a thread, once.

Who may act: a run with a valid lease, both when the upload begins and when the file is shared. What is guaranteed:
transferring the content to Slack is invisible and may be repeated; sharing happens once per call, despite repetitions
and crashes. From `Sharing` on, this call's file is not shared again before Slack was asked for the file, and before the
call in doubt can no longer arrive. What happens on failure: a call that Slack certainly did not execute is dropped and
may be repeated; a call in doubt stays so until its repetition, which looks for the file first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from typing import Final, assert_never

import structlog

from swarm.domain.errors import Conflict, OutcomeUnknown, RateLimited, SwarmError, TooLarge
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.files import INLINE_BYTES, SHARE_DOUBT_SECONDS, Counted, Share, Shared, new_file
from swarm.domain.ports import SlackFiles
from swarm.services.files import upload_stages as stages
from swarm.services.files.upload_stages import Upload, UploadClaim
from swarm.services.rules.fencing import ThreadReference
from swarm.services.rules.idempotency import Caller
from swarm.store.bridge.database import Database

LOOKS_SECONDS: Final = (0.0, 0.5, 1.5)
"""The pauses before each lookup of a file that Slack has accepted; it appears a little later."""

_log = structlog.get_logger(__name__)


class Uploads:
    """Uploads of agents' files into threads. No file larger than ``cap_bytes`` is transferred."""

    def __init__(self, database: Database, slack: SlackFiles, *, cap_bytes: int) -> None:
        self._database = database
        self._slack = slack
        self._cap_bytes = cap_bytes

    async def upload_content(
        self,
        caller: Caller,
        about: ThreadReference,
        name: str,
        content: bytes,
        *,
        title: str | None = None,
        comment: str | None = None,
    ) -> Shared:
        """Uploads a small file into a thread.

        Raises TooLarge above `INLINE_BYTES`, and the errors of :meth:`upload`.
        """
        if len(content) > INLINE_BYTES:
            raise TooLarge(
                f"The file has {len(content)} bytes; a tool call carries at most {INLINE_BYTES}.",
                hint="Send it as the body of POST /files.",
            )
        file = new_file(name, len(content), title=title, comment=comment, cap_bytes=self._cap_bytes)
        file = replace(file, sha256=hashlib.sha256(content).hexdigest())
        return await self._upload(Upload(caller=caller, about=about, file=file), _one(content))

    async def upload(
        self,
        caller: Caller,
        about: ThreadReference,
        name: str,
        size_bytes: int,
        chunks: AsyncIterable[bytes],
        *,
        title: str | None = None,
        comment: str | None = None,
    ) -> Shared:
        """Uploads a file into the thread of an inbox message or a task; ``chunks`` are its ``size_bytes`` bytes.

        A repeated call returns the first result; without a request id, equality includes the content. Raises Invalid
        and TooLarge for a file that may not be uploaded, BadRequest for another number of bytes, the errors of
        `authorize_message`, Conflict if Slack refuses, RateLimited and Unavailable if Slack does not take the file now,
        and OutcomeUnknown if the outcome is in doubt.
        """
        file = new_file(name, size_bytes, title=title, comment=comment, cap_bytes=self._cap_bytes)
        return await self._upload(Upload(caller=caller, about=about, file=file), chunks)

    async def _upload(self, upload: Upload, chunks: AsyncIterable[bytes]) -> Shared:
        reached = await self._database.write(stages.claim, upload, None)
        if reached is None:
            counted = Counted(chunks, upload.file.size_bytes)
            file_id = await self._slack.place(upload.file.name, upload.file.size_bytes, counted)
            upload = replace(upload, file=replace(upload.file, sha256=counted.sha256))
            await self._slack.ready_to_share()
            reached = await self._database.write(stages.claim, upload, file_id)
        match reached:
            case Shared():
                return reached
            case UploadClaim(is_repeat=True):
                return await self._repeat(upload, reached)
            case UploadClaim():
                return await self._share(upload, reached)
            case None:
                raise AssertionError("a placed file has a stage")

    async def _repeat(self, upload: Upload, claim: UploadClaim) -> Shared:
        """Shares the file only if Slack does not have it, and the previous call can no longer arrive."""
        ts = await self._look(claim)
        if ts is not None:
            return await self._database.write(stages.settle, upload, claim, ts)
        if not claim.ours:
            raise _unknown(upload)
        await self._slack.ready_to_share()
        return await self._share(upload, claim)

    async def _share(self, upload: Upload, claim: UploadClaim) -> Shared:
        answer = await self._slack.share(_share(claim))
        match answer:
            case DeliveryAccepted():
                return await self._database.write(stages.settle, upload, claim, await self._message_of(claim))
            case DeliveryRefused(error=code):
                return await self._give_up(
                    upload, claim, code, Conflict(f"Slack does not put the file into the thread: {code}.")
                )
            case NotSent(reason=reason, retry_after_seconds=seconds):
                error = RateLimited(f"Slack does not take the file now: {reason}.", retry_after_seconds=seconds)
                return await self._give_up(upload, claim, reason, error)
            case InDoubt():
                ts = await self._look(claim)
                if ts is None:
                    raise _unknown(upload)
                return await self._database.write(stages.settle, upload, claim, ts)
            case _:
                assert_never(answer)

    async def _give_up(self, upload: Upload, claim: UploadClaim, reason: str, error: SwarmError) -> Shared:
        """Drops the call and raises ``error``. A refusal after a repetition may mean that the file is there already."""
        ts = await self._look(claim) if claim.is_repeat else None
        if ts is not None:
            return await self._database.write(stages.settle, upload, claim, ts)
        await self._database.write(stages.drop, upload, claim, reason)
        raise error

    async def _message_of(self, claim: UploadClaim) -> str | None:
        """Returns the message with the file, which Slack creates a moment after accepting it; None if it is late."""
        for pause_seconds in LOOKS_SECONDS:
            await asyncio.sleep(pause_seconds)
            try:
                ts = await self._look(claim)
            except SwarmError as error:
                _log.warning(
                    "Cannot look for a file.", action="file_look", file=claim.sharing.file_id, why=error.message
                )
                return None
            if ts is not None:
                return ts
        _log.warning("Slack accepted a file and does not show it.", action="file_late", file=claim.sharing.file_id)
        return None

    async def _look(self, claim: UploadClaim) -> str | None:
        return await self._slack.shared_as(claim.sharing.file_id, claim.thread.channel, claim.thread.thread_ts)


def _share(claim: UploadClaim) -> Share:
    return Share(
        file_id=claim.sharing.file_id,
        channel=claim.thread.channel,
        thread_ts=claim.thread.thread_ts,
        title=claim.sharing.title,
        comment=claim.sharing.comment,
    )


def _unknown(upload: Upload) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"Nobody knows yet whether '{upload.file.name}' is in the thread.",
        hint=f"Make exactly the same call again after {SHARE_DOUBT_SECONDS} seconds: Slack is asked first.",
    )


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content
