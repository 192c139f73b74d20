"""What travels to an app: the envelope it goes in, how HTTP carries it, and what comes back.

https://docs.slack.dev/apis/events-api/using-socket-mode and https://docs.slack.dev/interactivity/handling-user-interaction
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlencode

import orjson

from slack_twin.errors import Json


class Envelope(StrEnum):
    """The `type` of a Socket Mode message that carries a parcel."""

    EVENTS_API = "events_api"
    INTERACTIVE = "interactive"
    SLASH_COMMANDS = "slash_commands"


class Parcel(Protocol):
    """Something for an app. The journal and the faults know it by `type` and `subtype`."""

    @property
    def envelope(self) -> Envelope: ...

    @property
    def accepts_response(self) -> bool:
        """Whether Slack does something with what the app says when it acknowledges."""

    @property
    def type(self) -> str: ...

    @property
    def subtype(self) -> str | None: ...

    @property
    def id(self) -> str:
        """Stays the same over redeliveries."""

    @property
    def channel(self) -> str | None: ...

    @property
    def ts(self) -> str | None:
        """The message it is about."""

    @property
    def payload(self) -> Json: ...


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How a delivery ended: `error` is None when the app acknowledged, and `body` is what it said with that."""

    error: str | None = None  # no_connection, timeout, socket_closed, connection_failed, http_STATUS
    body: object = None


def http_body(parcel: Parcel) -> tuple[bytes, str]:
    """The body and the content type: JSON for events, a form for everything that people do."""
    match parcel.envelope:
        case Envelope.EVENTS_API:
            return orjson.dumps(parcel.payload), "application/json"
        case Envelope.INTERACTIVE:
            return _form({"payload": orjson.dumps(parcel.payload).decode()})
        case Envelope.SLASH_COMMANDS:
            return _form({name: _field(value) for name, value in parcel.payload.items()})


def _form(fields: dict[str, str]) -> tuple[bytes, str]:
    return urlencode(fields).encode(), "application/x-www-form-urlencoded"


def _field(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
