"""OAuth codes, which apps exchange for their tokens after a person's consent."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from slack_twin.clock import Clock
from slack_twin.errors import SlackError

LIFETIME_SECONDS = 10 * 60.0
_KEPT = 1_000


@dataclass(kw_only=True)
class Grant:
    """The consent behind a code."""

    code: str
    app_id: str
    user_id: str
    redirect_uri: str  # the redirect address; empty if none was given
    expires_at: float  # in seconds since 1970, by the twin's clock
    is_used: bool = False


class Grants:
    """The last thousand codes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Grant] = OrderedDict()

    def issue(self, *, app_id: str, user_id: str, redirect_uri: str = "") -> Grant:
        grant = Grant(
            code=secrets.token_urlsafe(24),
            app_id=app_id,
            user_id=user_id,
            redirect_uri=redirect_uri,
            expires_at=self._clock.now() + LIFETIME_SECONDS,
        )
        self._known[grant.code] = grant
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return grant

    def use(self, code: str, *, app_id: str, redirect_uri: str) -> Grant:
        """Uses a code. Raises `invalid_code`, `code_already_used`, `bad_redirect_uri`."""
        grant = self._known.get(code)
        if grant is None or grant.app_id != app_id or grant.expires_at <= self._clock.now():
            raise SlackError("invalid_code")
        if grant.is_used:
            raise SlackError("code_already_used")
        if grant.redirect_uri not in ("", redirect_uri):
            raise SlackError("bad_redirect_uri")
        grant.is_used = True
        return grant

    def clear(self) -> None:
        self._known.clear()
