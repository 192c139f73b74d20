"""What a provider's wire protocol has to offer to the server that plays scripts over it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from swarm.domain.model.language_models import Provider
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Used


@dataclass(frozen=True)
class Whole:
    """A reply that has ended well, as one."""

    text: str
    calls: tuple[tuple[str, Call], ...]  # each with its id
    reason: Reason
    used: Used


class Encoder(Protocol):
    """Puts one streamed reply into bytes."""

    def start(self) -> bytes: ...

    def say(self, piece: str) -> bytes: ...

    def call(self, id: str, call: Call) -> Iterable[bytes]: ...

    def fail(self, fails: Fails) -> bytes:
        """An error inside the stream."""
        ...

    def finish(self, reason: Reason, used: Used) -> bytes: ...


class Wire(Protocol):
    """A provider's protocol."""

    provider: Provider
    base_path: str  # what follows host and port in the address that clients are given
    stream_type: str  # the Content-Type of a streamed answer
    api_key: str | None
    region: str | None
    model_name: str  # a name that the provider could have

    def is_for(self, request: Request) -> bool:
        """Whether there is something at this path."""
        ...

    def is_streamed(self, request: Request) -> bool: ...

    def model(self, request: Request) -> str: ...

    def system(self, body: Any) -> str: ...

    def said(self, body: Any) -> list[str]: ...

    def tools(self, body: Any) -> list[str]: ...

    def results(self, body: Any) -> list[str]: ...

    def is_after_tool(self, body: Any) -> bool: ...

    def encoder(self, request: Request) -> Encoder: ...

    def whole(self, request: Request, reply: Whole) -> Mapping[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def failure(self, fails: Fails) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Headers and body of an error, in the provider's words."""
        ...


def pieces(call: Call) -> list[str]:
    """The arguments of a call, cut up."""
    text = arguments(call)
    return [text[at : at + call.piece_length] for at in range(0, len(text), call.piece_length)]


def arguments(call: Call) -> str:
    """The arguments of a call, as text."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def flat(content: Any) -> str:
    """The text of a message's content, which may be text or blocks of it."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or () if isinstance(block, dict))
