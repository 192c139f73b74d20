"""The page: the workspace in a browser, for people to talk in."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import Scope

from swarm.twin.answers import answering
from swarm.twin.control.lookup import find_channel, find_user
from swarm.twin.errors import ControlError, Json
from swarm.twin.people import User
from swarm.twin.twin import Twin
from swarm.twin.views import View

_HERE = Path(__file__).parent
# Nothing but the page's own script and style runs or loads, whatever a message says.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
}
_SHOWN_MESSAGES = 200


def page_routes(twin: Twin) -> list[BaseRoute]:
    page = Page(twin)
    return [
        Route("/", page.index),
        Route("/archives/{channel}/p{digits}", page.permalink),
        Route("/files/{file_id}/{name}", page.file),
        Route("/page/state", answering(page.state)),
        Route("/page/messages", answering(page.messages)),
        Route("/page/stream", page.stream),
        Mount("/static", _Fresh(directory=_HERE / "static")),
    ]


class _Fresh(StaticFiles):
    """Files that a browser asks for anew each time, so that script and style always belong together."""

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


class Page:
    """What the browser asks for. The person is `?user=`, alice by default."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def index(self, request: Request) -> Response:
        return FileResponse(_HERE / "templates" / "index.html", headers=_HEADERS)

    async def permalink(self, request: Request) -> Response:
        """A message's link opens the page at that message."""
        channel, digits = request.path_params["channel"], request.path_params["digits"]
        thread_ts = request.query_params.get("thread_ts", "")
        return RedirectResponse(f"/#{channel}/{digits[:-6]}.{digits[-6:]}/{thread_ts}".rstrip("/"))

    async def file(self, request: Request) -> Response:
        """A shared file, for apps with a bot token that may read files, and for the page itself."""
        file = self._twin.workspace.files.get(request.path_params["file_id"])
        if file is None:
            return Response("no such file", status_code=404, media_type="text/plain")
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        app = self._twin.workspace.directory.app_by_bot_token(token)
        from_page = request.headers.get("sec-fetch-site") == "same-origin"
        if not from_page and (app is None or "files:read" not in app.scopes):
            return Response("a bot token with files:read is needed", status_code=403, media_type="text/plain")
        headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
        return Response(file.content, media_type=file.mimetype, headers=headers)

    async def state(self, request: Request) -> Json:
        """People, channels and what apps are doing; everybody has a direct conversation with every app."""
        viewer, workspace = self._viewer(request), self._twin.workspace
        for app in workspace.directory.apps.values():
            workspace.direct_channel(viewer.id, app.bot_user)
        return View(workspace).state(viewer)

    def _viewer(self, request: Request) -> User:
        """Raises ControlError 404 for a person who does not exist."""
        name = request.query_params.get("user")
        if name:
            return find_user(self._twin.workspace, name)
        for user in self._twin.workspace.directory.users.values():
            if not user.is_bot:
                return user
        raise ControlError(404, "not_found", "the workspace has no people")

    async def messages(self, request: Request) -> Json:
        """The latest messages of a channel as it shows them, or a whole thread, oldest first."""
        workspace = self._twin.workspace
        channel = find_channel(workspace, request.query_params.get("channel", ""), self._viewer(request))
        log, root = channel.messages, request.query_params.get("thread_ts")
        shown = (root, *log.replies(root)) if root else log.shown()[-_SHOWN_MESSAGES:]
        found = (log.get(ts) for ts in shown)
        view = View(workspace)
        return {"messages": [view.drawn(channel, message) for message in found if message]}

    async def stream(self, request: Request) -> Response:
        """Live updates as server-sent events."""
        try:
            viewer = self._viewer(request)
        except ControlError as refusal:
            return Response(refusal.message, status_code=refusal.status, media_type="text/plain")
        updates: AsyncIterator[bytes] = self._twin.feed.stream(viewer.id)
        return StreamingResponse(updates, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
