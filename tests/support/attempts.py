"""Runs of one agent at messages of one thread, as a test wants them: begun again and again, each time another run."""

from __future__ import annotations

from itertools import count

from swarm.domain.model.agents import Agent
from swarm.domain.model.runs import RunStep
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.support.world import World, open_thread

_names = count(1)


async def attempt(
    world: World,
    agent: Agent,
    *entries: str,
    over: Run | None = None,
    how: RunStep = RunStep.ABANDON,
    thread_id: str | None = None,
) -> Run:
    """A run that answers these messages, in the usual thread or that one, once the one ``over`` has ended so."""
    world.clock.advance(1)
    return await world.database.write(_begin, agent, entries, over, how, thread_id)


def _begin(
    tx: Transaction, agent: Agent, entries: tuple[str, ...], over: Run | None, how: RunStep, thread_id: str | None
) -> Run:
    if over:
        assert runs.end(tx, over.id, how)
    thread = open_thread(tx, "100.1")
    name = next(_names)
    run = runs.start(
        tx,
        agent_id=agent.id,
        thread_id=thread_id or thread.id,
        lease_token=f"lease-{name}",
        trigger_id=entries[0],
        attempt=1,
        conversation_id="C1:100.1",
        agui_run_id=f"run-{name}",
        inbox_message_ids=entries,
        run_id=f"run-{1_000_000 - name}",  # their order says nothing
    )
    assert run is not None
    return run
