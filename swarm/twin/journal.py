"""A bounded log whose entries are numbered for good: `since` asks for what came after a number."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from swarm.twin.errors import Json

KEPT = 50_000


@dataclass(kw_only=True)
class Call:
    """One call of the Web API, refused ones included. Tokens are left out of `args`."""

    at: float  # seconds since 1970, the twin's clock
    app: str | None
    method: str
    args: Json
    ok: bool
    error: str | None
    status: int  # HTTP; 0 when the connection was cut


@dataclass(kw_only=True)
class Attempt:
    """One attempt to deliver one event to one app."""

    at: float  # seconds since 1970, the twin's clock
    app: str
    kind: str  # the event's type
    subtype: str | None
    event_id: str
    channel: str | None
    ts: str | None
    attempt: int  # 0 is the first
    acked: bool = False
    error: str | None = None  # why there was no acknowledgement, once that is certain
    dropped: bool = False  # the last attempt failed, the app will not get the event


Entry = TypeVar("Entry", Call, Attempt)


class Journal(Generic[Entry]):
    """The last 50,000 entries, numbered from 1."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._count = 0

    def add(self, entry: Entry) -> Entry:
        self._entries.append(entry)
        self._count += 1
        return entry

    def since(self, seq: int) -> list[Json]:
        """The entries numbered above `seq`, oldest first, each with its `seq`."""
        first = self._count - len(self._entries) + 1
        skipped = max(0, seq - first + 1)
        fresh = islice(self._entries, skipped, None)
        return [{"seq": first + skipped + place, **vars(entry)} for place, entry in enumerate(fresh)]

    def clear(self) -> None:
        """Forget the entries; the numbers go on."""
        self._entries.clear()
