"""Response URLs: each lets an app answer a person's act in its channel, five times within thirty minutes.

https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from slack_twin.clock import Clock
from slack_twin.errors import SlackError

LIFETIME_SECONDS = 30 * 60.0
MOST_USES = 5
_KEPT = 10_000


@dataclass(kw_only=True)
class ResponseUrl:
    """A URL for an app's responses. `path` is below the twin's address."""

    path: str
    app_id: str
    user_id: str
    channel_id: str
    expires_at: float  # in seconds since 1970, by the twin's clock
    message_ts: str | None = None  # the message with the element, which responses may replace or delete
    is_ephemeral: bool = False  # whether only the person sees the message
    uses_left: int = MOST_USES


class ResponseUrls:
    """The last ten thousand response URLs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, ResponseUrl] = OrderedDict()

    def issue(
        self,
        kind: str,
        *,
        app_id: str,
        user_id: str,
        channel_id: str,
        message_ts: str | None = None,
        is_ephemeral: bool = False,
    ) -> ResponseUrl:
        """Creates a response URL.

        `kind` is the first part of the path: `actions`, `commands` or `app`, as at hooks.slack.com.
        """
        url = ResponseUrl(
            path=f"{kind}/{secrets.token_urlsafe(24)}",
            app_id=app_id,
            user_id=user_id,
            channel_id=channel_id,
            expires_at=self._clock.now() + LIFETIME_SECONDS,
            message_ts=message_ts,
            is_ephemeral=is_ephemeral,
        )
        self._known[url.path] = url
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return url

    def use(self, path: str) -> ResponseUrl:
        """Counts one use of a URL. Raises `no_such_url`, `expired_url`, `used_url`."""
        url = self._known.get(path)
        if url is None:
            raise SlackError("no_such_url")
        if url.expires_at <= self._clock.now():
            raise SlackError("expired_url")
        if url.uses_left <= 0:
            raise SlackError("used_url")
        url.uses_left -= 1
        return url

    def clear(self) -> None:
        self._known.clear()
