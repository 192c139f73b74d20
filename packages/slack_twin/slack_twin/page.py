"""The web page of the workspace, where people chat."""

import os
from pathlib import Path

from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import Scope
from starlette.websockets import WebSocket

from slack_twin.answers import answering
from slack_twin.control.body import read_body
from slack_twin.control.file_kinds import vtt
from slack_twin.control.lookup import find_channel, find_user
from slack_twin.directory import SLACKBOT
from slack_twin.errors import ControlError, Json
from slack_twin.page_acts import PageActs
from slack_twin.page_state import page_state
from slack_twin.people import User
from slack_twin.twin import Twin
from slack_twin.unread import ReadMarks
from slack_twin.views import View

_HERE = Path(__file__).parent
# Only the page's own scripts and styles may run or load, regardless of the content of messages.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FILE_HEADERS = {
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}
_SHOWN_MESSAGES = 100
_REFUSED = 1008  # RFC 6455, section 7.4.1: a policy is violated


def page_routes(twin: Twin) -> list[BaseRoute]:
    page, acts = Page(twin), PageActs(twin)
    return [
        Route("/", page.index),
        Route("/archives/{channel}/p{digits}", page.permalink),
        Route("/files/{file_id}/{name}", page.file),
        Route("/files/{user}/{file_id}/{name}", page.file_permalink),
        Route("/page/state", answering(page.state)),
        Route("/page/messages", answering(page.messages)),
        Route("/page/messages", answering(acts.post), methods=["POST"]),
        Route("/page/files", answering(acts.upload), methods=["POST"]),
        Route("/page/direct", answering(acts.open_direct), methods=["POST"]),
        Route("/page/read", answering(page.read), methods=["POST"]),
        WebSocketRoute("/page/live", page.live),
        Mount("/static", _Fresh(directory=_HERE / "static")),
    ]


class _Fresh(StaticFiles):
    """Static files that a browser revalidates each time, so that scripts and styles always match."""

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


class Page:
    """The routes of the page. The person is `?user=`, alice by default."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._marks = ReadMarks()

    async def index(self, request: Request) -> Response:
        return FileResponse(_HERE / "templates" / "index.html", headers=_HEADERS)

    async def permalink(self, request: Request) -> Response:
        """Opens the page at a message."""
        channel, digits = request.path_params["channel"], request.path_params["digits"]
        thread_ts = request.query_params.get("thread_ts", "")
        return RedirectResponse(f"/#{channel}/{digits[:-6]}.{digits[-6:]}/{thread_ts}".rstrip("/"))

    async def file_permalink(self, request: Request) -> Response:
        """Opens the page at the last message that shared a file."""
        shares = self._twin.workspace.files.shares(request.path_params["file_id"])
        if not shares:
            return Response("no such file", status_code=404, media_type="text/plain")
        said = shares[-1].channel.messages.get(shares[-1].ts)
        thread_ts = said.thread_ts or "" if said else ""
        return RedirectResponse(f"/#{shares[-1].channel.id}/{shares[-1].ts}/{thread_ts}".rstrip("/"))

    async def file(self, request: Request) -> Response:
        """Returns a shared file, for apps with a bot token that may read files, and for the page itself."""
        file = self._twin.workspace.files.get(request.path_params["file_id"])
        if file is None:
            return Response("no such file", status_code=404, media_type="text/plain")
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        app = self._twin.workspace.directory.app_by_bot_token(token)
        from_page = request.headers.get("sec-fetch-site") == "same-origin"
        if not from_page and (app is None or "files:read" not in app.scopes):
            return Response("a bot token with files:read is needed", status_code=403, media_type="text/plain")
        if app is not None and not self._twin.workspace.files.is_visible(file, app.bot_user):
            return Response("no such file", status_code=404, media_type="text/plain")
        if file.transcript and request.path_params["name"] == "transcript.vtt":
            return Response(vtt(file), media_type="text/vtt", headers=_FILE_HEADERS)
        return Response(file.content, media_type=file.mimetype, headers=_FILE_HEADERS)

    async def state(self, request: Request) -> Json:
        """Returns people, channels, unread counts and apps' displays. Everyone has a direct conversation with each app.

        `seen` is the number of changes so far: a stream whose `hello` has a different number has missed changes.
        """
        viewer, workspace = self._viewer(request), self._twin.workspace
        for app in workspace.directory.apps.values():
            workspace.direct_channel(viewer.id, app.bot_user)
        own = [channel for channel in workspace.directory.channels.values() if viewer.id in channel.members]
        unread, seen = self._marks.state(viewer.id, own), self._twin.feed.seen
        return page_state(workspace, viewer, own) | {"unread": unread, "seen": seen}

    def _viewer(self, request: HTTPConnection) -> User:
        """Returns the person of the request. Raises ControlError 404 for an unknown person."""
        name = request.query_params.get("user")
        if name:
            return find_user(self._twin.workspace, name)
        for user in self._twin.workspace.directory.users.values():
            if not user.is_bot and user is not SLACKBOT:
                return user
        raise ControlError(404, "not_found", "the workspace has no people")

    async def messages(self, request: Request) -> Json:
        """Returns a channel's visible messages, or a complete thread, oldest first.

        For a channel, these are the latest messages, or with `before` those before a timestamp; `has_earlier` says
        whether there are more.
        """
        workspace, query, viewer = self._twin.workspace, request.query_params, self._viewer(request)
        channel = find_channel(workspace, query.get("channel", ""), viewer)
        log, root, before = channel.messages, query.get("thread_ts") or None, query.get("before") or "~"
        shown = log.shown(before=before)
        found = [log.get(ts) for ts in ((root, *log.replies(root)) if root else shown[-_SHOWN_MESSAGES:])]
        private = [one for one in workspace.ephemerals.seen_by(viewer.id, channel.id) if one.thread_ts == root]
        view = View(workspace)
        return {
            "messages": [view.drawn(channel, one.as_seen_by(viewer.id)) for one in (*found, *private) if one],
            "has_earlier": root is None and len(shown) > _SHOWN_MESSAGES,
        }

    async def read(self, request: Request) -> Json:
        """Stores that a person has read a channel or a thread up to a message, and updates their other windows."""
        body = await read_body(request, known="user channel ts thread_ts")
        user = find_user(self._twin.workspace, body.text("user"))
        channel = find_channel(self._twin.workspace, body.text("channel"), user)
        ts, thread_ts = body.text("ts"), body.optional("thread_ts") or ""
        self._marks.read(user.id, channel, ts, thread_ts=thread_ts)
        self._twin.feed.tell(user.id, {"kind": "read", "channel": channel.id, "ts": ts, "thread_ts": thread_ts})
        return {"ok": True}

    async def live(self, socket: WebSocket) -> None:
        """Sends live updates."""
        try:
            viewer = self._viewer(socket)
        except ControlError as refusal:
            await socket.close(_REFUSED, refusal.message)
            return
        await socket.accept()
        await self._twin.feed.serve(socket, viewer.id)
