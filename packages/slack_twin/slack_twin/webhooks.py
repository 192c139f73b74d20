"""Incoming webhooks: an address through which an app posts to one channel, without a token.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from dataclasses import dataclass

from slack_twin.directory import TEAM_ID
from slack_twin.people import App, Channel


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """Where an app may post to a channel. `path` is below the address of the twin."""

    path: str
    app_id: str
    channel_id: str


class Webhooks:
    """The webhooks of all apps. Their addresses follow from the names, so that a test knows them beforehand."""

    def __init__(self) -> None:
        self._known: dict[str, Webhook] = {}

    def issue(self, app: App, channel: Channel) -> None:
        path = f"services/{TEAM_ID}/{app.bot_id}/twin-{app.name}-{channel.name}"
        self._known[path] = Webhook(path=path, app_id=app.id, channel_id=channel.id)

    def withdraw(self, app: App) -> None:
        """Take all webhooks of an app away."""
        self._known = {path: one for path, one in self._known.items() if one.app_id != app.id}

    def get(self, path: str) -> Webhook | None:
        return self._known.get(path)

    def of(self, app_id: str) -> list[Webhook]:
        return [one for one in self._known.values() if one.app_id == app_id]

    def clear(self) -> None:
        self._known.clear()
