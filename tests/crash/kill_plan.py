"""Which process is killed where: points that a seed spreads over the life of a scene, so that each can be repeated.

A point says after what share of the calls of a kind the kill comes; how many calls a scene makes is counted once, in a
scene that nobody disturbs. A quarter of the coordinators that are killed is killed again while it recovers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.support.kill_point import Kind, Moment


class Victim(StrEnum):
    """What is killed."""

    COORDINATOR = "coordinator"
    BACKEND = "backend"  # a process of the database; its server then ends all others and recovers by itself
    SERVER = "server"  # the whole database, while the coordinator stands still in the middle of a call
    BOTH = "both"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Where a process is killed."""

    victim: Victim
    kind: Kind
    share: float  # of the calls of this kind that a scene makes
    moment: Moment
    again: Point | None = None  # while it recovers from that

    def __str__(self) -> str:
        where = f"{self.victim} at {self.share:.1%} of its calls of {self.kind.name}, {self.moment.name}"
        return f"{where}; then {self.again}" if self.again else where


_ON_SQLITE = [(Victim.COORDINATOR, kind) for kind in Kind]
_ON_POSTGRESQL = [
    *[(Victim.COORDINATOR, Kind.SEND)] * 8,
    *[(Victim.BACKEND, kind) for kind in Kind] * 2,
    *[(Victim.SERVER, Kind.SEND)] * 2,
    *[(Victim.BOTH, Kind.SEND)] * 2,
]
_AGAIN = 0.25


def point(engine: str, seed: int, number: int) -> Point:
    """The point of that number; the same one each time."""
    chance = random.Random(f"{engine} {seed} {number}")
    among = _ON_SQLITE if engine == "sqlite" else _ON_POSTGRESQL
    victim, kind = among[number % len(among)]
    again = None
    if victim in (Victim.COORDINATOR, Victim.BOTH) and chance.random() < _AGAIN:
        again_kind = chance.choice([kind for _, kind in _ON_SQLITE] if engine == "sqlite" else [Kind.SEND])
        again = Point(
            victim=Victim.COORDINATOR, kind=again_kind, share=chance.random(), moment=chance.choice(list(Moment))
        )
    return Point(victim=victim, kind=kind, share=chance.random(), moment=chance.choice(list(Moment)), again=again)
