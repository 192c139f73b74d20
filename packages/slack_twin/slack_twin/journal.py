"""A bounded log whose entry numbers never change; `since` returns the entries after a number."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from slack_twin.errors import Json

KEPT = 50_000
KEPT_BYTES = 64 * 1024 * 1024


@dataclass(kw_only=True)
class Call:
    """One call of the Web API, including refused calls. `args` contains no tokens."""

    at: float  # seconds since 1970, the twin's clock
    app: str | None
    method: str
    args: Json
    ok: bool
    error: str | None
    status: int  # the HTTP status; 0 if the connection was cut

    @property
    def weight(self) -> int:
        """Returns the approximate memory of the entry, because arguments can be large."""
        return sum(len(value) if isinstance(value, str) else len(repr(value)) for value in self.args.values())


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
    attempt: int  # 0 for the first attempt
    acked: bool = False
    error: str | None = None  # the reason of a missing acknowledgement, once known
    dropped: bool = False  # the last attempt failed, so the app will not get the event

    @property
    def weight(self) -> int:
        return 0


Entry = TypeVar("Entry", Call, Attempt)


class Journal(Generic[Entry]):
    """The latest entries, numbered from 1: at most 50,000 entries and 64 MiB of arguments."""

    def __init__(self) -> None:
        self._entries: deque[tuple[Entry, int]] = deque()
        self._count = 0
        self._weight = 0

    def add(self, entry: Entry) -> Entry:
        weight = entry.weight
        self._entries.append((entry, weight))
        self._count += 1
        self._weight += weight
        while len(self._entries) > KEPT or (self._weight > KEPT_BYTES and len(self._entries) > 1):
            self._weight -= self._entries.popleft()[1]
        return entry

    def since(self, seq: int) -> list[Json]:
        """Returns the entries numbered above `seq`, oldest first, each with its `seq`."""
        first = self._count - len(self._entries) + 1
        skipped = max(0, seq - first + 1)
        fresh = islice(self._entries, skipped, None)
        return [{"seq": first + skipped + place, **vars(entry)} for place, (entry, _) in enumerate(fresh)]

    def clear(self) -> None:
        """Removes the entries; the numbers continue."""
        self._entries.clear()
        self._weight = 0
