"""What tests of agents that are run have in common: presses, states, and waiting for what people see."""

from __future__ import annotations

import asyncio

from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.requests.button_actions import ButtonPressed, PressResult
from swarm.store.runs.runs import Run
from tests.support.live import Gate, Show
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import World


async def status(world: World, message: SlackMessage) -> InboxStatus:
    return (await world.inbox_message(message)).status


def press(action: str, value: str, *, key: str = "press:1", by: str = "U1") -> ButtonPressed:
    return ButtonPressed(
        key=key, action_id=action, value=value, user_id=by, channel="C1", message_ts="1700000000.000900", thread_ts=None
    )


async def pressed(world: World, button: ButtonPressed) -> PressResult:
    return await world.buttons.press(button)


async def begun(show: Show, gate: Gate, root: SlackMessage) -> Run:
    """The run of a run, once people see what it has said."""
    await asyncio.wait_for(gate.arrived.wait(), PATIENCE_SECONDS)

    async def look() -> bool:
        return bool(show.live.of(root))

    await wait_until(look)
    return (await show.runs(root))[-1]


async def no_news(world: World) -> None:
    async def look() -> int:
        return len(await world.rows("SELECT 1 FROM notices WHERE status IN ('unread', 'claimed')"))

    await wait_until(look, lambda n: n == 0, what="all news is heard")
