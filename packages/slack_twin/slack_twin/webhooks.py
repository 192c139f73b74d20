"""Incoming webhooks: addresses that let an app post to one channel without a token.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from dataclasses import dataclass

from slack_twin.directory import TEAM_ID
from slack_twin.people import App, Channel


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An app's webhook for one channel. `path` is below the twin's address."""

    path: str
    app_id: str
    channel_id: str


class Webhooks:
    """The webhooks of all apps. Their addresses are derived from names, so that tests can predict them."""

    def __init__(self) -> None:
        self._known: dict[str, Webhook] = {}

    def issue(self, app: App, channel: Channel) -> None:
        path = f"services/{TEAM_ID}/{app.bot_id}/twin-{app.name}-{channel.name}"
        self._known[path] = Webhook(path=path, app_id=app.id, channel_id=channel.id)

    def withdraw(self, app: App) -> None:
        """Removes all webhooks of an app."""
        self._known = {path: one for path, one in self._known.items() if one.app_id != app.id}

    def get(self, path: str) -> Webhook | None:
        return self._known.get(path)

    def of(self, app_id: str) -> list[Webhook]:
        return [one for one in self._known.values() if one.app_id == app_id]

    def clear(self) -> None:
        self._known.clear()
