"""People's actions on the page that the control API does not offer.

Files of any kind are uploaded before a message shares them, and direct conversations are opened before the first
message.
"""

from starlette.requests import Request

from slack_twin.control import file_kinds, posts
from slack_twin.control.body import as_body, read_body
from slack_twin.control.lookup import find_channel, find_user
from slack_twin.errors import ControlError, Json
from slack_twin.files import File
from slack_twin.people import User
from slack_twin.twin import Twin

_LONGEST_NAME = 255


class PageActs:
    """Handlers of `POST /page/files`, `/page/messages` and so on."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def upload(self, request: Request) -> Json:
        """Stores the request body as a file until a message of the same person shares it."""
        workspace, query = self._twin.workspace, request.query_params
        user, name = find_user(workspace, query.get("user", "")), query.get("name", "").replace("\x00", "")
        if not 0 < len(name) <= _LONGEST_NAME:
            raise ControlError(422, "invalid", f"'name' must have 1 to {_LONGEST_NAME} characters")
        content = await _content(request, workspace.files.cap_bytes)
        file = workspace.add_file(name=name, user=user.id, content=content)
        return {"id": file.id, "name": file.name, "size": file.size, "mimetype": file.mimetype}

    async def post(self, request: Request) -> Json:
        """Posts a message with uploaded files; it needs a text or a file."""
        body = await read_body(request, known=posts.FIELDS)
        workspace = self._twin.workspace
        user = find_user(workspace, body.text("user"))
        channel = find_channel(workspace, body.text("channel"), user)
        files = body.items("files", lambda item: self._own_file(user, item))
        return {"ts": workspace.post(channel, posts.draft_of(workspace, user, body, files)).ts, "channel": channel.id}

    async def open_direct(self, request: Request) -> Json:
        """Returns the direct conversation with a person or an app, and creates it if necessary."""
        body = await read_body(request, known="user with")
        workspace = self._twin.workspace
        user, other = find_user(workspace, body.text("user")), workspace.directory.user(body.text("with"))
        if other is None:
            raise ControlError(404, "not_found", f"no user or app {body.text('with')!r}")
        return {"channel": workspace.direct_channel(user.id, other.id).id}

    def _own_file(self, user: User, item: object) -> File:
        """Returns an uploaded file as the chosen kind. Raises ControlError 404 if this person has not uploaded it."""
        given = as_body({"id": item} if isinstance(item, str) else item, known=f"id {file_kinds.FIELDS}")
        files, file_id = self._twin.workspace.files, given.text("id")
        file = files.get(file_id)
        if file is None or file.user != user.id:
            raise ControlError(404, "not_found", f"{user.name} has not uploaded {file_id}", "upload it again")
        return file_kinds.described(files, file, given)


async def _content(request: Request, cap_bytes: int) -> bytes:
    """Returns the body, read up to the maximum file size. Raises ControlError 413 or 422."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > cap_bytes:
            raise ControlError(413, "too_large", f"a file has at most {cap_bytes // 1_000_000} MB here")
    if not content:
        raise ControlError(422, "invalid", "the file is empty")
    return bytes(content)
