"""Runs for tests: begun as whoever runs streaming agents does it, and looked at."""

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


def begin(tx: Transaction, agent: Agent, trigger: Trigger, requester: str = "U1") -> Run | None:
    """Begin a run for a trigger."""
    return runs.start(
        tx,
        agent_id=agent.id,
        thread_id=trigger.thread.id if trigger.thread else None,
        lease_token=trigger.lease_token,
        trigger_id=trigger.id,
        attempt=trigger.attempt,
        conversation_id="conversation",
        agui_run_id=f"run-{next(_runs)}",
        requester=requester,
        task_id=trigger.id if trigger.kind is TriggerKind.TASK_ASSIGNED else None,
        inbox_message_ids=[entry.id for entry in trigger.inbox_messages],
    )


async def begun(world: World, agent: Agent, trigger: Trigger, requester: str = "U1") -> Run:
    """A run that runs for a trigger."""
    run = await world.database.write(begin, agent, trigger, requester)
    assert run is not None
    return run


async def asked(
    world: World, agent: Agent, text: str = f"{BOT} tell me", *, message: SlackMessage | None = None
) -> tuple[SlackMessage, Run]:
    """Somebody asks an agent, which runs for it: the message and the run."""
    root = await world.hears(message) if message else await world.says(text)
    return root, await begun(world, agent, await world.only(agent, hold=True))


async def now(world: World, run: Run) -> Run:
    """The run as it is now."""
    found = await world.database.read(runs.get, run.id)
    assert found is not None
    return found


async def failed(world: World, run: Run, *, step: InboxStep = InboxStep.BURY, note: str = "it broke") -> None:
    """A run has failed, or was stopped: what it worked on is set aside, or dismissed."""
    await world.database.write(_fail, run, step, note)


def _fail(tx: Transaction, run: Run, step: InboxStep, note: str) -> None:
    outcome = RunOutcome.FAILED if step is InboxStep.BURY else RunOutcome.STOPPED
    for entry in inbox.members(tx, run.lease_token):
        inbox.move(tx, step, entry, reason=note)
    runs.closing(tx, run.id, text="half of", closing=Closing(note=note, retry=True), outcome=outcome, note=note)
    runs.end(tx, run.id, RunStep.FAIL if outcome is RunOutcome.FAILED else RunStep.STOP)


def place_of(run: Run, root: SlackMessage) -> AnswerTarget:
    """Where the answer of a run appears."""
    return AnswerTarget(
        team=ME.team,
        channel=root.channel,
        thread_ts=root.root_ts,
        is_direct=False,
        requester=run.requester,
        agent_name="lead",
        run_id=run.id,
    )
