"""The workspace's records of Web API calls and delivery attempts."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from slack_twin.testing.server import TwinServer

_SHOWN_ENTRIES = 20
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class ApiCall:
    """One call of the Web API, including refused calls. `args` contains no tokens."""

    seq: int
    at: float  # seconds since 1970, the workspace's clock
    app: str | None  # the app's name; None if the token was invalid
    method: str
    args: dict[str, Any]
    ok: bool
    error: str | None
    status: int  # the HTTP status; 0 if the connection was cut


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One attempt to deliver an event or a person's action to an app."""

    seq: int
    at: float  # seconds since 1970, the workspace's clock
    app: str
    kind: str  # the type of the event
    subtype: str | None
    event_id: str
    channel: str | None
    ts: str | None
    attempt: int  # 0 for the first attempt
    acked: bool
    error: str | None  # the reason of a missing acknowledgement, once known
    dropped: bool  # the last attempt failed, so the app will not receive the event


Noted = TypeVar("Noted", ApiCall, Delivery)


def read_calls(server: TwinServer) -> list[ApiCall]:
    """Returns the recorded calls, oldest first."""
    return [_noted(ApiCall, entry) for entry in server.ask("GET", "calls")["calls"]]


def read_deliveries(server: TwinServer) -> list[Delivery]:
    """Returns the recorded delivery attempts, oldest first."""
    return [_noted(Delivery, entry) for entry in server.ask("GET", "deliveries")["deliveries"]]


def _noted(kind: type[Noted], entry: dict[str, Any]) -> Noted:
    return kind(**{field.name: entry[field.name] for field in fields(kind)})


def told(server: TwinServer) -> str:
    """Returns the latest twenty calls and deliveries of this test as text for an error message."""
    entries: list[ApiCall | Delivery] = [*read_calls(server), *read_deliveries(server)]
    if not entries:
        return "No app received a delivery or called the Web API."
    latest = sorted(entries, key=lambda entry: entry.at)[-_SHOWN_ENTRIES:]
    return "\n".join(["Calls and deliveries in this workspace:", *(f"  {_line(entry)}" for entry in latest)])


def _line(entry: ApiCall | Delivery) -> str:
    if isinstance(entry, ApiCall):
        args = str(entry.args)
        shown = args if len(args) <= _SHOWN_CHARACTERS else f"{args[:_SHOWN_CHARACTERS]}…"
        return f"{entry.app or 'somebody'} called {entry.method} {shown}: {'ok' if entry.ok else entry.error}"
    name = f"{entry.kind}/{entry.subtype}" if entry.subtype else entry.kind
    return f"delivery of {name} to {entry.app} ({entry.ts}, attempt {entry.attempt}): {_fate(entry)}"


def _fate(entry: Delivery) -> str:
    if entry.acked:
        return "acknowledged"
    hint = " - is the app connected, and with its own app_token?" if entry.error == "no_connection" else ""
    return f"{entry.error or 'not acknowledged yet'}{hint}"
