"""What a fake provider answers: one reply for each request, made of these steps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.support.providers.request import Request

Reason = Literal["stop", "length", "filter"]
Trouble = Literal["", "context", "quota", "filter"]


class Step:
    """What every part of a reply is."""


class Say(Step):
    """Text: ``Say("Hello world")`` goes out word by word, ``Say("Hel", "lo")`` in these pieces."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces if len(pieces) != 1 else tuple(re.findall(r"\s*\S+\s*$|\s*\S+|\s+", pieces[0]))

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Call(Step):
    """A call of a tool, whose arguments go out in pieces; as text they go out as they are, JSON or not."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""  # made up, if it is empty
    piece_length: int = 7


@dataclass(frozen=True)
class Fails(Step):
    """An error in place of an answer, in the provider's own words if no ``body`` is given.

    After other steps it is an error inside the stream that has begun. ``kind`` names what the status does not tell:
    a context that is too long, an account that is empty, a prompt that is filtered.
    """

    status: int
    body: bytes | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: Trouble = ""
    message: str = ""
    retry_after: float | None = None  # seconds; the header of that name


@dataclass(frozen=True)
class Silent(Step):
    """Nothing more comes, until the client goes away. As the first step not even the status."""


@dataclass(frozen=True)
class Cut(Step):
    """The connection breaks after this text; ``with_head=False``, as the first step: before the status."""

    after: str = ""
    with_head: bool = True


@dataclass(frozen=True)
class Ends(Step):
    """Why the answer ends, if not because it is complete: the limit of tokens, or the provider's filter."""

    reason: Reason


@dataclass(frozen=True)
class EndsEarly(Step):
    """The body ends properly, but the provider has not said that the answer does; ``but_done`` leaves out only the
    words of OpenAI's protocol after that.
    """

    but_done: bool = False


@dataclass(frozen=True)
class Used(Step):
    """The tokens that the answer has used; ``None`` in place of the numbers: the provider does not tell."""

    input: int | None = 10
    output: int = 5
    cache_read: int = 0  # of those of the input
    cache_write: int = 0  # of those of the input


@dataclass(frozen=True)
class Raw(Step):
    """These bytes as the body, whatever they are, or as a part of it."""

    body: bytes


@dataclass(frozen=True)
class Wait(Step):
    """Nothing, until somebody sets the event."""

    event: asyncio.Event


Reply = Step | Sequence[Step]
Script = Sequence[Reply] | Callable[["Request"], Reply | Awaitable[Reply]]
"""The replies to one request after another, or a function that answers each; a plain list that is used up says so."""


def steps_of(reply: Reply) -> tuple[Step, ...]:
    """The steps of a reply that may be a single one."""
    return tuple(reply) if isinstance(reply, Sequence) else (reply,)
