"""Turns for tests: begun as whoever runs streaming agents does it, and looked at."""

from __future__ import annotations

from itertools import count

from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.runs import RunOutcome, RunStep
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger, TriggerKind
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.support.world import BOT, ME, World

_runs = count(1)


def begin(tx: Transaction, agent: Agent, trigger: Trigger) -> Run | None:
    """Begin a turn for a trigger."""
    return runs.start(
        tx,
        agent_id=agent.id,
        thread_id=trigger.thread.id if trigger.thread else None,
        lease_token=trigger.lease_token,
        trigger_id=trigger.id,
        attempt=trigger.attempt,
        conversation_id="conversation",
        run_id=f"run-{next(_runs)}",
        requester="U1",
        task_id=trigger.id if trigger.kind is TriggerKind.TASK_ASSIGNED else None,
        entry_ids=[entry.id for entry in trigger.inbox_messages],
    )


async def begun(world: World, agent: Agent, trigger: Trigger) -> Run:
    """A turn that runs for a trigger."""
    turn = await world.database.write(begin, agent, trigger)
    assert turn is not None
    return turn


async def asked(
    world: World, agent: Agent, text: str = f"{BOT} tell me", *, message: SlackMessage | None = None
) -> tuple[SlackMessage, Run]:
    """Somebody asks an agent, which runs for it: the message and the turn."""
    root = await world.hears(message) if message else await world.says(text)
    return root, await begun(world, agent, await world.only(agent, hold=True))


async def now(world: World, turn: Run) -> Run:
    """The turn as it is now."""
    found = await world.database.read(runs.get, turn.id)
    assert found is not None
    return found


async def failed(world: World, turn: Run, *, step: InboxStep = InboxStep.BURY, note: str = "it broke") -> None:
    """A run has failed, or was stopped: what it worked on is set aside, or dismissed."""
    await world.database.write(_fail, turn, step, note)


def _fail(tx: Transaction, turn: Run, step: InboxStep, note: str) -> None:
    outcome = RunOutcome.FAILED if step is InboxStep.BURY else RunOutcome.STOPPED
    for entry in inbox.members_locked(tx, turn.lease_token):
        inbox.move(tx, step, entry, reason=note)
    runs.closing(tx, turn.id, text="half of", closing=Closing(note=note, retry=True), outcome=outcome, note=note)
    runs.end(tx, turn.id, RunStep.FAIL if outcome is RunOutcome.FAILED else RunStep.STOP)


def place_of(turn: Run, root: SlackMessage) -> AnswerTarget:
    """Where the answer of a turn appears."""
    return AnswerTarget(
        team=ME.team,
        channel=root.channel,
        thread_ts=root.root_ts,
        is_direct=False,
        requester=turn.requester,
        agent_name="lead",
        turn_id=turn.id,
    )
