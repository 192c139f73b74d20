"""The workspace as people see it: plain text for the control API, and drawing data for the page."""

from collections.abc import Sequence

from slack_twin.assistants import Assistance
from slack_twin.blocks import plain_text
from slack_twin.errors import Json
from slack_twin.files import File
from slack_twin.messages import Message
from slack_twin.people import App, Channel, User
from slack_twin.text import LINKS, for_reader
from slack_twin.workspace import Workspace


class View:
    """Reads a workspace without changing it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._directory = workspace.directory

    def message(self, message: Message) -> Json:
        """Returns a message for readers: names instead of ids, unescaped entities."""
        return {
            "ts": message.ts,
            "thread_ts": message.thread_ts,
            "author": message.username or self._name(message.user),
            "kind": "bot" if message.app_id else "user",
            "text": self._text(message),
            "blocks": list(message.blocks),
            "attachments": list(message.attachments),
            "reactions": [
                {"name": reaction.name, "users": [self._name(user) for user in reaction.users]}
                for reaction in message.reactions
            ],
            "files": [self.file(file) for file in message.files],
            "streaming": message.streaming,
            "edited": message.edited is not None,
            "subtype": message.subtype,
            "metadata": message.metadata,
        }

    def _text(self, message: Message) -> str:
        """Returns the displayed text. In Markdown, Slack does not decode the targets of links."""
        text = message.text or plain_text(message.blocks)
        is_markdown = any(block["type"] == "markdown" and block["text"] == text for block in message.blocks)
        return self.readable(LINKS.sub(lambda link: link[0].replace("&", "&amp;"), text) if is_markdown else text)

    def file(self, file: File) -> Json:
        return {
            "id": file.id,
            "name": file.name,
            "size": file.size,
            "title": file.title,
            "mimetype": str(file.fields.get("mimetype", file.mimetype)),
            "alt_txt": file.alt_txt,
            "mode": file.fields.get("mode", "hosted"),
            "subtype": file.fields.get("subtype"),
            "transcript": file.transcript,
        }

    def readable(self, text: str) -> str:
        return for_reader(text, self._directory.name_of_user, self._directory.name_of_channel)

    def _name(self, user_id: str) -> str:
        return self._directory.name_of_user(user_id) or user_id

    def messages(self, channel: Channel, *, thread_ts: str | None = None) -> list[Json]:
        """Returns the messages of a channel with all replies, or one thread, oldest first."""
        log = channel.messages
        if thread_ts is None:
            return [self.message(message) for message in log.all()]
        found = (log.get(ts) for ts in (thread_ts, *log.replies(thread_ts)))
        return [self.message(message) for message in found if message]

    def drawn(self, channel: Channel, message: Message) -> Json:
        """Returns a message for the page: the displayed text, Slack's text, ids, and the state of its thread."""
        thread = channel.messages.thread(message.ts)
        return self.message(message) | {
            "channel": channel.id,
            "user": message.user,
            "raw": message.text,
            "reply_count": len(thread.replies) if thread else 0,
            "reply_users": list(thread.authors) if thread else [],
            "latest_reply": thread.replies[-1] if thread else None,
            "root_text": self._root_text(channel, message),
        }

    def _root_text(self, channel: Channel, message: Message) -> str | None:
        """Returns the root's text for a reply that was also sent to the channel."""
        root = (
            channel.messages.get(message.thread_ts)
            if message.subtype == "thread_broadcast" and message.thread_ts
            else None
        )
        return self.readable(root.text)[:80] if root else None

    def user(self, user: User) -> Json:
        return {
            "id": user.id,
            "name": user.name,
            "display_name": user.display_name,
            "real_name": user.real_name,
            "is_bot": user.is_bot,
        }

    def channel(self, channel: Channel) -> Json:
        latest = channel.messages.shown()
        return {
            "id": channel.id,
            "name": channel.name,
            "kind": channel.kind.value,
            "members": list(channel.members),
            "topic": channel.topic,
            "latest": latest[-1] if latest else None,
        }

    def app(self, app: App) -> Json:
        """Returns an app's commands, shortcuts and other features for people."""
        commands = [
            {"command": one.name, "description": one.description, "usage_hint": one.usage_hint} for one in app.commands
        ]
        return {"name": app.name, "user": app.bot_user, "commands": commands, "has_pane": app.has_pane}

    def status(self, channel: str, thread_ts: str, app_id: str, text: str, loading: Sequence[str] = ()) -> Json:
        """Returns an app's status in a thread; an empty text clears it."""
        return {
            "channel": channel,
            "thread_ts": thread_ts,
            "app": self._app_name(app_id),
            "text": text,
            "loading_messages": list(loading),
        }

    def _app_name(self, app_id: str) -> str:
        app = self._directory.apps.get(app_id)
        return app.name if app else app_id

    def assistance(self, shown: Assistance) -> Json:
        """Returns an app's display in a thread: title, prompts, and the status of its session."""
        return {
            "channel": shown.channel,
            "thread_ts": shown.thread_ts,
            "app": self._app_name(shown.app_id),
            "title": shown.title,
            "prompts_title": shown.prompts_title,
            "prompts": [{"title": prompt.title, "message": prompt.message} for prompt in shown.prompts],
            "session": shown.session.value if shown.session else None,
        }
