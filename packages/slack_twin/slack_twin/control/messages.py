"""People's messages in a channel: posts, edits, deletions and reactions, and the list of visible messages."""

import base64
from dataclasses import replace

from starlette.requests import Request

from slack_twin.blocks.typed import with_rich_text
from slack_twin.control import file_kinds, posts
from slack_twin.control.body import Body, as_body, read_body
from slack_twin.control.lookup import find_channel, find_user
from slack_twin.errors import ControlError, Json
from slack_twin.files import File
from slack_twin.messages import Message
from slack_twin.methods.reactions import emoji_name
from slack_twin.people import Channel, User
from slack_twin.twin import Twin
from slack_twin.views import View
from slack_twin.workspace import Workspace


class Messages:
    """Handlers of `/twin/messages` and `/twin/reactions`."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    @property
    def _workspace(self) -> Workspace:
        return self._twin.workspace

    async def read(self, request: Request) -> Json:
        """Returns the messages of a channel with all replies, or of one thread, oldest first."""
        query = request.query_params
        user = find_user(self._workspace, query["user"]) if query.get("user") else None
        channel = self._readable_channel(query.get("channel", ""), user)
        thread_ts = query.get("thread_ts") or None
        messages = View(self._workspace).messages(channel, thread_ts=thread_ts)
        return {"messages": messages + (self._only_for(user, channel, thread_ts) if user else [])}

    def _only_for(self, user: User, channel: Channel, thread_ts: str | None) -> list[Json]:
        """Returns the ephemeral messages for one person, marked with `subtype`."""
        shown = self._workspace.ephemerals.seen_by(user.id, channel.id)
        found = [message for message in shown if thread_ts in (None, message.thread_ts)]
        return [View(self._workspace).message(message) for message in found]

    def _readable_channel(self, name: str, user: User | None) -> Channel:
        if not name:
            raise ControlError(422, "invalid", "'channel' is missing: a name or an id")
        return find_channel(self._workspace, name, user)

    async def post(self, request: Request) -> Json:
        """Posts a message as a person. The text may mention people with `@` and channels with `#`."""
        body = await read_body(request, known=posts.FIELDS)
        user = find_user(self._workspace, body.text("user"))
        channel = find_channel(self._workspace, body.text("channel"), user)
        files = body.items("files", lambda item: self._file(item, user))
        message = self._workspace.post(channel, posts.draft_of(self._workspace, user, body, files))
        return {"ts": message.ts, "channel": channel.id}

    def _file(self, item: object, user: User) -> File:
        """Creates a file of a `kind` from `content` (text) or `content_base64` (any bytes)."""
        given = as_body(item, known=f"name content content_base64 {file_kinds.FIELDS}")
        encoded = given.optional("content_base64")
        content = _decoded(encoded) if encoded else (given.optional("content") or given.optional("text") or "").encode()
        file = self._workspace.add_file(name=given.text("name"), user=user.id, content=content)
        return file_kinds.described(self._workspace.files, file, given)

    async def edit(self, request: Request) -> Json:
        """Edits one of the person's own messages."""
        body = await read_body(request, known="user channel ts text")
        channel, message = self._own(body, "cant_update_message")
        text = posts.typed_text(self._workspace, body, required=True)
        others = [block for block in message.blocks if block["type"] != "rich_text"]
        self._workspace.edit(channel, message, replace(message, text=text, blocks=with_rich_text(text, others)))
        return {"ok": True}

    async def delete(self, request: Request) -> Json:
        """Deletes one of the person's own messages. The arguments may be in the query."""
        body = await self._body_or_query(request, "user channel ts")
        channel, message = self._own(body, "cant_delete_message")
        self._workspace.delete(channel, message)
        return {"ok": True}

    async def _body_or_query(self, request: Request, known: str) -> Body:
        """Reads arguments from the query if there is no body, because some clients send none with DELETE."""
        if request.query_params:
            return Body(dict(request.query_params), known=known)
        return await read_body(request, known=f"{known} text")

    def _own(self, body: Body, refusal: str) -> tuple[Channel, Message]:
        """Returns the person's own message. Raises ControlError 403 if it has another author."""
        user = find_user(self._workspace, body.text("user"))
        channel = find_channel(self._workspace, body.text("channel"), user)
        message = self._workspace.message(channel, body.text("ts"))
        if message.user != user.id:
            raise ControlError(403, refusal, f"{user.name} did not write that message")
        return channel, message

    async def react(self, request: Request) -> Json:
        """Adds a reaction to a message, or removes it with `remove`."""
        body = await read_body(request, known="user channel ts name remove")
        user = find_user(self._workspace, body.text("user"))
        channel = find_channel(self._workspace, body.text("channel"), user)
        message = self._workspace.message(channel, body.text("ts"))
        act = self._workspace.unreact if body.flag("remove") else self._workspace.react
        act(channel, message, user=user.id, name=emoji_name(body.text("name"), self._workspace.directory))
        return {"ok": True}


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise ControlError(422, "invalid", "'content_base64' is not base64") from None
