"""A polling agent as careful as an agent can be: it repeats every call that got no answer, and says each thing once.

It is the agent of `swarm bench storm`, which also answers an order (``s7: 40 deltas, 400 a second``) live, with
`slack-stream`. Its pieces carry the order's marks, so that a judge sees which of them arrived, and how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from swarm_lab.bench.agents import Agent, Line, Part, Refused
from swarm_lab.bench.figures import BenchError
from swarm_lab.bench.streaming_agent import Order, order_in

Json = dict[str, Any]

_PIECE = 8
"""So many deltas go out together."""

_AGAIN_SECONDS = 0.1
_UNCERTAIN = ("unavailable", "outcome_unknown")


class CarefulAgent(Agent):
    """The agent with all its runs."""

    async def _run(self) -> None:
        """Poll and work until cancelled; the bench takes a coordinator for lost that is killed again and again."""
        while True:
            with contextlib.suppress(BenchError):
                await super()._run()

    async def _act(self, line: Line, lease: str, trigger: Json) -> None:
        inbox_messages = trigger["inbox_messages"]
        orders = [
            (inbox_message, order) for inbox_message in inbox_messages if (order := order_in(inbox_message["text"]))
        ]
        if trigger["kind"] != "slack_inbox_message" or not orders:
            await super()._act(_Patient(line), lease, trigger)
            return
        assert len(orders) == len(inbox_messages) == 1, inbox_messages
        await _write(_Patient(line), lease, *orders[0])


async def _write(line: Line, lease: str, inbox_message: Json, order: Order) -> None:
    about = {"inbox_message_id": inbox_message["id"]}
    run = (await line.tool("slack-stream", lease, {"action": "open", **about}))["turn_id"]
    for first in range(0, order.deltas, _PIECE):
        last = min(first + _PIECE, order.deltas)
        text = "".join(order.delta(number) for number in range(first, last))
        said = {"action": "append", "turn_id": run, "text": text, "request_id": f"{lease}:{first}"}
        await line.tool("slack-stream", lease, said)
        await asyncio.sleep(_PIECE / order.per_second)
    await line.tool("slack-stream", lease, {"action": "close", "turn_id": run})


class _Patient(Line):
    """The same connection, which repeats a tool call also when nobody knows whether it was done."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def tool(self, name: str, lease: str, arguments: Json) -> Json:
        while True:
            try:
                return await self._line.tool(name, lease, arguments)
            except Refused as refused:
                if not any(f"{name}: {code}" in str(refused) for code in _UNCERTAIN):
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)


if __name__ == "__main__":
    asyncio.run(CarefulAgent(Part.read(os.environ)).play())
