"""The upload endpoint for files: `POST /upload/v1/{ticket}`, with the raw bytes or a multipart form."""

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from slack_twin.files import TooLarge
from slack_twin.twin import Twin

_FORM_OVERHEAD_BYTES = 64 * 1024


def upload_routes(twin: Twin) -> list[Route]:
    return [Route("/upload/v1/{ticket}", Uploads(twin).receive, methods=["POST", "PUT"])]


class Uploads:
    """Accepts announced uploads; the ticket in the address is the permission."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def receive(self, request: Request) -> Response:
        """Returns 200 and the size; 404 for an unknown address, 400 if the size differs from the announcement."""
        files = self._twin.workspace.files
        ticket = request.path_params["ticket"]
        upload = files.upload(ticket)
        if upload is None:
            return _plain("no such upload: call files.getUploadURLExternal for an address", 404)
        try:
            files.receive(ticket, await _content(request, upload.size))
        except TooLarge:
            return _plain(f"{upload.size} bytes were announced", 400)
        except KeyError:
            return _plain("the upload was completed or replaced in the meantime", 404)
        except ClientDisconnect:
            return Response()
        return _plain(f"OK - {upload.size}", 200)


async def _content(request: Request, size: int) -> bytes:
    """Returns the uploaded bytes, read up to the announced size. Raises TooLarge."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "multipart/form-data":
        return await _limited(request, size)
    declared = request.headers.get("content-length", "")
    if not (declared.isascii() and declared.isdecimal()) or int(declared) > size + _FORM_OVERHEAD_BYTES:
        raise TooLarge
    try:
        async with request.form(max_files=1, max_part_size=size + 1) as form:
            for value in form.values():
                if isinstance(value, UploadFile):
                    return await value.read()
    except (HTTPException, ValueError, KeyError):
        raise TooLarge from None
    raise TooLarge


async def _limited(request: Request, size: int) -> bytes:
    chunks, received = [], 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > size:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


def _plain(text: str, status: int) -> Response:
    return Response(text, status_code=status, media_type="text/plain")
