"""Turns of one agent at messages of one thread, as a test wants them: begun again and again, each time another run."""

from __future__ import annotations

from itertools import count

from swarm.domain.model.agents import Agent
from swarm.domain.model.transcript import ChannelType
from swarm.domain.model.turns import TurnStep
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import turns
from swarm.store.runs.turns import Turn
from swarm.store.threads import threads
from tests.support.world import World

_names = count(1)


async def attempt(
    world: World,
    agent: Agent,
    *entries: str,
    over: Turn | None = None,
    how: TurnStep = TurnStep.ABANDON,
    thread_id: str | None = None,
) -> Turn:
    """A turn that answers these messages, in the usual thread or that one, once the one ``over`` has ended so."""
    world.clock.advance(1)
    return await world.database.write(_begin, agent, entries, over, how, thread_id)


def _begin(
    tx: Transaction, agent: Agent, entries: tuple[str, ...], over: Turn | None, how: TurnStep, thread_id: str | None
) -> Turn:
    if over:
        assert turns.end(tx, over.id, how)
    thread, _ = threads.opened(tx, "T1", "C1", "100.1", ChannelType.CHANNEL, watermark_ts="100.1", known_whole=True)
    name = next(_names)
    turn = turns.start(
        tx,
        agent_id=agent.id,
        thread_id=thread_id or thread.id,
        lease_token=f"lease-{name}",
        trigger_id=entries[0],
        attempt=1,
        conversation_id="C1:100.1",
        run_id=f"run-{name}",
        entry_ids=entries,
        turn_id=f"turn-{1_000_000 - name}",  # their order says nothing
    )
    assert turn is not None
    return turn
