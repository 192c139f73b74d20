"""File contents over HTTP, streamed through the coordinator and never held in memory.

An agent downloads attachments of threads in which it takes part, and uploads files under its lease. Slack needs an
upload's size before its first byte, so a request must have a Content-Length.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from swarm.domain.errors import BadRequest, TooLarge, Unavailable
from swarm.domain.model.files import FileInfo, Shared
from swarm.domain.ports import OpenFile
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import refuse_unstorable
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems
from swarm.entrypoints.web.schema import Input
from swarm.services.ground.idempotency import Caller
from swarm.services.use_cases import Services
from swarm.services.work.fencing import ThreadReference

DOWNLOAD_SECONDS: Final = 900.0
"""A slow or stuck client is cut off after this time, since it occupies one of few connections to Slack."""

_MAX_DIGITS: Final = 18
_BYTES: Final[dict[str, Any]] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

_Lease = Annotated[str | None, Header(alias="X-Swarm-Lease", description="The lease token of your run.")]
_Id = Annotated[str | None, Field(min_length=1, max_length=200)]


class AboutQuery(Input):
    """The subject of a download: exactly one of these fields."""

    inbox_message_id: _Id = None
    task_id: _Id = None
    thread_id: _Id = None


class UploadQuery(Input):
    inbox_message_id: _Id = None
    task_id: _Id = None
    name: Annotated[str, Field(max_length=1000, description="The file's name, without a path.")]
    title: Annotated[str | None, Field(max_length=1000)] = None
    comment: Annotated[str | None, Field(max_length=10_000, description="The text to post with the file.")] = None
    request_id: Annotated[
        str | None, Field(min_length=1, max_length=200, description="A repeated request with the same id does nothing.")
    ] = None


def file_router(services: Services, identities: Identities) -> APIRouter:
    """Returns the routes ``GET /files/{file_id}`` and ``POST /files``."""
    routes = _FileRoutes(services, identities)
    router = APIRouter(tags=["agent"])
    router.add_api_route(
        "/files/{file_id}", routes.download, response_class=Response,
        responses={200: {"content": _BYTES}, **problems(401, 403, 404, 413, 422, 503)},
    )  # fmt: skip
    router.add_api_route(
        "/files", routes.upload, methods=["POST"], status_code=HTTPStatus.CREATED, response_model=Shared,
        openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
        responses=problems(400, 401, 403, 404, 409, 413, 422, 429, 503),
    )  # fmt: skip
    return router


class _FileRoutes:
    """The endpoints for files."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._files = services.files
        self._uploads = services.uploads
        self._identities = identities

    async def download(self, request: Request, file_id: str, query: Annotated[AboutQuery, Query()]) -> Response:
        """Download an attachment of a thread in which the calling agent takes part."""
        agent = await self._identities.agent(request.scope)
        info, opened = await self._files.open(agent, ThreadReference(**query.model_dump()), file_id)
        return _Passing(info, opened)

    async def upload(self, request: Request, query: Annotated[UploadQuery, Query()], lease: _Lease = None) -> Response:
        """Upload the body as a file to the thread of an inbox message or a task. The message remains unanswered."""
        agent = await self._identities.agent(request.scope)
        refuse_unstorable(query.model_dump())
        shared = await self._uploads.upload(
            Caller(agent=agent, lease_token=lease, request_id=query.request_id),
            ThreadReference(inbox_message_id=query.inbox_message_id, task_id=query.task_id),
            query.name,
            _size(request),
            _body(request),
            title=query.title,
            comment=query.comment,
        )
        return Answer(shared, HTTPStatus.CREATED)


class _Passing(StreamingResponse):
    """The response for a download, streamed from Slack. Browsers save the file and do not run its content."""

    def __init__(self, info: FileInfo, opened: OpenFile) -> None:
        self._opened = opened
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(info.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
            "Cache-Control": "no-store",
        }
        if opened.size_bytes is not None:
            headers["Content-Length"] = str(opened.size_bytes)
        super().__init__(opened.chunks(), headers=headers, media_type=_media_type(info))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(DOWNLOAD_SECONDS):
                await super().__call__(scope, receive, send)
        except TimeoutError as error:
            raise Unavailable("The download took too long.") from error
        finally:
            await self._opened.close()


def _media_type(info: FileInfo) -> str:
    """Returns the file's own media type if it is valid in a header."""
    told = info.mimetype or ""
    return told if told.isascii() and told.isprintable() and "/" in told else "application/octet-stream"


def _size(request: Request) -> int:
    """Returns the size of the body. Raises BadRequest for a request without a size."""
    declared = request.headers.get("content-length", "")
    if not (declared.isascii() and declared.isdigit()):
        raise BadRequest("The request does not specify the size of the file.", hint="Send the header Content-Length.")
    if len(declared) > _MAX_DIGITS:
        raise TooLarge()
    return int(declared)


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Yields the body, piece by piece. Raises BadRequest if the client disconnects meanwhile."""
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as error:
        raise BadRequest("The body is incomplete.") from error
