"""The messages to apps: their envelopes, their HTTP bodies, and the apps' replies.

https://docs.slack.dev/apis/events-api/using-socket-mode and
https://docs.slack.dev/interactivity/handling-user-interaction
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
    """A message to an app. The journal and the faults identify it by `type` and `subtype`."""

    @property
    def envelope(self) -> Envelope: ...

    @property
    def accepts_response(self) -> bool:
        """Returns whether Slack uses the content of the app's acknowledgement."""

    @property
    def type(self) -> str: ...

    @property
    def subtype(self) -> str | None: ...

    @property
    def id(self) -> str:
        """The id of the message, which stays the same in redeliveries."""

    @property
    def channel(self) -> str | None: ...

    @property
    def ts(self) -> str | None:
        """The timestamp of the message that the parcel refers to."""

    @property
    def payload(self) -> Json: ...


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The result of a delivery. `error` is None if the app acknowledged; `body` is the acknowledgement's content."""

    error: str | None = None  # no_connection, timeout, socket_closed, connection_failed, http_STATUS
    body: object = None


def http_body(parcel: Parcel) -> tuple[bytes, str]:
    """Returns the body and the content type: JSON for events, a form for people's actions."""
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
