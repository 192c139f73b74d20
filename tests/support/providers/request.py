"""A request that came to a fake provider, and what every provider's requests tell alike."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.providers.wire import Wire


@dataclass
class Request:
    """A request, and what became of its connection."""

    wire: Wire = field(repr=False)
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    left: asyncio.Event = field(default_factory=asyncio.Event, repr=False)  # the client closed the connection
    over: asyncio.Event = field(default_factory=asyncio.Event, repr=False)  # it is answered

    @cached_property  # long answers ask for it with each of their pieces
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.wire.model(self)

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is to come piece by piece."""
        return self.wire.is_streamed(self)

    @property
    def system(self) -> str:
        """The system prompt."""
        return self.wire.system(self.json)

    @property
    def last_text(self) -> str:
        """What was last said to the model, tools' results apart; empty if nothing was."""
        texts = self.wire.said(self.json)
        return texts[-1] if texts else ""

    @property
    def texts(self) -> list[str]:
        """All that was said to the model, oldest first, tools' results apart."""
        return self.wire.said(self.json)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that are offered."""
        return self.wire.tools(self.json)

    @property
    def results(self) -> list[str]:
        """What tools have answered, oldest first, over the whole conversation."""
        return self.wire.results(self.json)

    @property
    def is_after_tool(self) -> bool:
        """Whether the last that the model is told is what tools have answered."""
        return self.wire.is_after_tool(self.json)
