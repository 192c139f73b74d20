"""Slash commands and shortcuts, which people start in the composer or in the menu of a message."""

from slack_twin import payloads
from slack_twin.acts import Outcome
from slack_twin.delivery import Delivery
from slack_twin.errors import ControlError, Json, SlackError
from slack_twin.messages import Message
from slack_twin.people import App, Channel, User
from slack_twin.responses import Responses
from slack_twin.workspace import Workspace


class Commands:
    """Sends `slash_commands`, `shortcut` and `message_action`."""

    def __init__(self, workspace: Workspace, delivery: Delivery, responses: Responses) -> None:
        self._workspace = workspace
        self._delivery = delivery
        self._responses = responses

    async def run(self, user: User, channel: Channel, command: str, text: str) -> Outcome:
        """Runs a command in a channel; the app's immediate response becomes a message there.

        Raises ControlError 404 for an unknown command.
        """
        app = self._owner(command)
        trigger = self._workspace.triggers.issue(app_id=app.id, user_id=user.id, channel_id=channel.id)
        url = self._workspace.response_urls.issue("commands", app_id=app.id, user_id=user.id, channel_id=channel.id)
        sent = payloads.slash_command(
            app,
            user,
            channel,
            command=command,
            text=text,
            trigger_id=trigger.id,
            response_url=self._workspace.base_url + url.path,
        )
        reply = await self._delivery.ask(app, sent)
        error = reply.error
        if error is None and reply.body not in (None, "", {}):
            error = self._answer(app, user, channel, reply.body)
        return Outcome(error=error, trigger=trigger)

    def _owner(self, command: str) -> App:
        known: dict[str, App] = {}
        for app in self._workspace.directory.apps.values():
            known |= {declared.name: app for declared in app.commands}
        if command not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ControlError(404, "not_found", f"no app has the command {command!r}", f"available: {names}")
        return known[command]

    def _answer(self, app: App, user: User, channel: Channel, body: object) -> str | None:
        """Shows the app's acknowledgement as a message; returns the error in it, or None."""
        if not isinstance(body, dict):
            return "invalid_response"
        try:
            self._responses.post(app, user.id, channel, body)
        except SlackError as refusal:
            return refusal.code
        return None

    async def shortcut(self, user: User, app: App, callback_id: str) -> Outcome:
        """Runs an app's global shortcut. Raises ControlError 404 for an unknown shortcut."""
        _check_shortcut(app, callback_id, is_global=True)
        return await self._use(app, user, payloads.shortcut("shortcut", app, user, callback_id=callback_id))

    async def message_shortcut(
        self, user: User, app: App, callback_id: str, channel: Channel, message: Message
    ) -> Outcome:
        """Runs an app's message shortcut. Raises ControlError 404 for an unknown shortcut."""
        _check_shortcut(app, callback_id, is_global=False)
        url = self._workspace.response_urls.issue("app", app_id=app.id, user_id=user.id, channel_id=channel.id)
        payload = {
            **payloads.shortcut("message_action", app, user, callback_id=callback_id),
            "message_ts": message.ts,
            "channel": payloads.channel_shape(channel),
            "message": payloads.message_shape(message, channel, self._workspace.directory),
            "response_url": self._workspace.base_url + url.path,
        }
        return await self._use(app, user, payload, channel=channel.id, ts=message.ts)

    async def _use(
        self, app: App, user: User, payload: Json, *, channel: str | None = None, ts: str | None = None
    ) -> Outcome:
        trigger = self._workspace.triggers.issue(app_id=app.id, user_id=user.id, channel_id=channel)
        payload |= {"trigger_id": trigger.id, "action_ts": self._workspace.next_ts()}
        sent = payloads.interaction(payload, accepts_response=False, channel=channel, ts=ts)
        reply = await self._delivery.ask(app, sent)
        return Outcome(error=reply.error, trigger=trigger)


def _check_shortcut(app: App, callback_id: str, *, is_global: bool) -> None:
    if app.shortcuts is None:
        return
    known = [shortcut.callback_id for shortcut in app.shortcuts if shortcut.is_global is is_global]
    if callback_id not in known:
        kind = "shortcut" if is_global else "shortcut for messages"
        hint = f"available: {', '.join(known) or 'none'}"
        raise ControlError(404, "not_found", f"{app.name} has no {kind} {callback_id!r}", hint)
