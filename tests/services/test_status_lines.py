"""The status line while a polling agent works without showing its answer as it comes, and Slack's Stop beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from swarm.domain.answers.calls import SessionState
from swarm.domain.answers.events import Asked, Interrupted, TextDelta
from swarm.domain.answers.sending import STATUS_SECONDS
from swarm.domain.model.agents import Reach, Role
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.requests import Decide, EntryPoint, HumanDecision, NewRequest
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import ChannelType, MessageDeleted, SlackMessage
from swarm.domain.policy.channels import ChannelPolicy, DirectReplies, Listen
from swarm.domain.requests.button_actions import SessionStopped
from swarm.services.outbox.status_lines import AFTER_SECONDS, StatusLines
from swarm.services.requests.human_requests import AskedWork
from swarm.store import agents
from swarm.store.threads.status_lines import SUSPENDED_AT, StatusLine
from tests.support.live import FakeLive, Scripted, Show, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.runs import begun, now
from tests.support.tasks import asked_and_handed, status_of
from tests.support.world import BOT, World, holding, said

pytestmark = pytest.mark.req("CHAN-08")

WORKING = "is working on it (lead)…"
CLEARED = ("", SessionState.ACTIVE)


@dataclass
class Watching:
    """The status lines of a world, and what Slack was told."""

    world: World
    live: FakeLive = field(default_factory=FakeLive)
    is_ours: bool = True

    def __post_init__(self) -> None:
        self.lines = StatusLines(self.world.database, self.live)

    async def look(self, after_seconds: float = 0.0) -> list[tuple[str, SessionState]]:
        """What Slack is told after some time."""
        self.world.clock.advance(after_seconds)
        before = len(self.live.told)
        await self.lines.look(self._may_call)
        await self.lines.settled()
        return [(text, session) for _, text, session in self.live.told[before:]]

    async def _may_call(self) -> bool:
        return self.is_ours


@pytest.fixture
def watching(world: World) -> Watching:
    return Watching(world)


@pytest.mark.both_engines
async def test_it_is_shown_for_work_that_lasts_renewed_and_cleared(world: World, watching: Watching) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    assert await watching.look() == []
    assert await watching.look(AFTER_SECONDS) == [(WORKING, SessionState.PROCESSING)]
    assert watching.live.statuses == {root.ts: WORKING}
    await world.services.work.renew(lead, [trigger.lease_token])
    assert await watching.look(LEASE_SECONDS - 1) == []
    await world.services.work.renew(lead, [trigger.lease_token])
    assert await watching.look(STATUS_SECONDS - LEASE_SECONDS + 1) == [(WORKING, SessionState.PROCESSING)]
    await world.answers(lead, trigger, "Hello.")
    assert await watching.look() == [CLEARED]
    assert await watching.look(STATUS_SECONDS) == []


async def test_an_answer_that_comes_at_once_needs_none(world: World, watching: Watching) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "Hello.")
    assert await watching.look(AFTER_SECONDS) == []


@pytest.mark.parametrize("end", ["lost", "failed", "released", "dismissed"])
async def test_it_is_cleared_however_the_work_ends(world: World, watching: Watching, end: str) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    tokens = [(await world.only(lead)).lease_token]
    await watching.look(AFTER_SECONDS)
    work = world.services.work
    match end:
        case "lost":
            await world.later(LEASE_SECONDS)
        case "failed":
            await work.finish(lead, tokens, FinishOutcome.FAILED, "no idea")
        case "released":
            await work.release(lead, tokens, delay_seconds=5)
        case _:
            await work.finish(lead, tokens, FinishOutcome.DISMISSED, "nothing to do")
    assert await watching.look() == [CLEARED]


async def test_work_that_is_done_has_none_while_its_lease_is_held(world: World, watching: Watching) -> None:
    lead, worker = await world.lead(), await world.worker("wim")
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    await watching.look(AFTER_SECONDS)
    await world.answers(lead, trigger, "Hello.")
    assert await watching.look() == [CLEARED]
    handed = await asked_and_handed(world, lead, worker)
    task = await world.only(worker, hold=True)
    await watching.look(AFTER_SECONDS)
    await world.services.task_work.complete(holding(task, worker), handed.task_id, "done")
    assert await watching.look() == [CLEARED]


async def test_agents_that_do_not_poll_show_their_own(world: World, watching: Watching) -> None:
    root = await world.says(f"{BOT} hello")
    remote = await world.database.write(agents.ensure, "lead", Role.LEAD, "", (), Reach.AGUI)
    await world.is_here(remote)
    await world.sweep()
    await world.only(remote)
    assert await watching.look(AFTER_SECONDS) == []
    await stop(world, root)
    assert (await world.inbox_message(root)).status is InboxStatus.CLAIMED


async def test_another_process_renews_and_clears_what_one_has_shown(world: World, watching: Watching) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await watching.look(AFTER_SECONDS)
    successor = Watching(world)
    assert await successor.look() == []
    await world.answers(lead, trigger, "Hello.")
    watching.is_ours = False
    assert await watching.look() == []
    assert await successor.look() == [CLEARED]


@pytest.mark.req("CHAN-02")
async def test_work_for_which_nobody_has_asked_has_none(world: World) -> None:
    policy = ChannelPolicy(listen=Listen.ALL, overthink=True)
    qa = world.governed_by(governing(channels={"C1": policy}))
    lead, watching = await qa.lead(), Watching(qa)
    root = await qa.says("Does anybody know the plan?")
    trigger = await qa.only(lead)
    assert await watching.look(AFTER_SECONDS) == []
    await qa.says(f"{BOT} please", thread=root)
    await qa.services.work.release(lead, [trigger.lease_token], 0)
    await qa.only(lead)
    assert await watching.look(AFTER_SECONDS) == [(WORKING, SessionState.PROCESSING)]


async def test_a_flat_direct_message_has_none(world: World) -> None:
    flat = world.governed_by(governing(everywhere=ChannelPolicy(dm_replies=DirectReplies.FLAT)))
    lead = await flat.lead()
    await flat.hears(said("hello", channel="D1", channel_type=ChannelType.DM))
    await flat.backfill.read_due()
    await flat.only(lead)
    assert await Watching(flat).look(AFTER_SECONDS) == []


async def test_a_run_shows_its_own(world: World, watching: Watching) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await watching.look(AFTER_SECONDS)
    run = await begun(world, lead, trigger)
    assert await watching.look() == []
    assert await watching.look(STATUS_SECONDS) == []
    await stop(world, root)  # is left to the run
    assert (await world.inbox_message(root)).status is InboxStatus.CLAIMED
    assert (await now(world, run)).stop_requested_by == "U2"


@pytest.mark.both_engines
async def test_it_is_cleared_while_the_lead_hears_of_the_end(world: World, watching: Watching) -> None:
    """The run of a built-in lead about a notice shows no status line, so it clears none either."""
    lead, worker = await world.lead(), await world.worker("wim")
    handed = await asked_and_handed(world, lead, worker)
    task = await world.only(worker, hold=True)
    assert await watching.look(AFTER_SECONDS) == [("is working on it (wim)…", SessionState.PROCESSING)]
    await world.services.task_work.complete(holding(task, worker), handed.task_id, "done")
    await begun(world, lead, await world.only(lead))
    assert await watching.look() == [CLEARED]


@pytest.mark.both_engines
async def test_a_worker_in_the_thread_has_one_with_its_name(world: World, watching: Watching) -> None:
    lead, worker = await world.lead(), await world.worker("wim")
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    assert await watching.look(AFTER_SECONDS) == [("is working on it (wim)…", SessionState.PROCESSING)]
    await world.says("!stop", thread=handed.root)
    assert await watching.look() == [CLEARED]


async def test_while_people_are_asked_the_session_waits_for_them(world: World, watching: Watching) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    await watching.look(AFTER_SECONDS)
    work = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
    question = NewRequest(key="q1", title="May I?")
    request = await world.services.requests.ask(holding(trigger, lead), work, question, wait=True)
    assert await watching.look() == [("", SessionState.SUSPENDED)]
    decision = Decide(request_id=request.id, decision=HumanDecision.APPROVE, person="U1", door=EntryPoint.SLACK)
    await world.services.decisions.decide(decision)
    assert await watching.look() == [(WORKING, SessionState.PROCESSING)]


async def test_a_session_does_not_wait_for_people_after_a_decision_that_is_followed_by_nothing_that_lasts(
    world: World, watching: Watching
) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await watching.look(AFTER_SECONDS)
    work = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
    request = await world.services.requests.ask(
        holding(trigger, lead), work, NewRequest(key="q1", title="May I?"), wait=False
    )
    assert await watching.look() == [("", SessionState.SUSPENDED)]
    assert await watching.look(STATUS_SECONDS) == []
    decision = Decide(request_id=request.id, decision=HumanDecision.REJECT, person="U1", door=EntryPoint.SLACK)
    await world.services.decisions.decide(decision)
    (again,) = [one for one in await world.poll(lead) if one.inbox_messages and one.notice is None]
    await world.answers(lead, again, "Then not.")
    assert await watching.look() == [CLEARED]
    assert await watching.look(STATUS_SECONDS) == []


async def stop(world: World, root: SlackMessage, key: str = "stop") -> None:
    stopped = SessionStopped(key=key, channel="C1", thread_ts=root.ts, user_id="U2", message_ts=())
    await world.turn_control.stop_session(stopped)


@pytest.mark.both_engines
@pytest.mark.req("STREAM-09")
async def test_slacks_stop_beside_it_ends_the_work(world: World, watching: Watching) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    await watching.look(AFTER_SECONDS)
    await stop(world, root)
    assert await watching.look() == [CLEARED]
    assert (await world.inbox_message(root)).status is InboxStatus.DISMISSED
    assert (await world.services.work.renew(lead, [trigger.lease_token])).renewed.lost == (trigger.lease_token,)
    await world.send()
    assert (root.ts, "octagonal_sign") in world.slack.reactions
    later = await world.says("swarm#lead once more", thread=root)
    assert (await world.only(lead)).inbox_messages[0].ts == later.ts
    await stop(world, root)  # the same press, reported twice
    assert (await world.inbox_message(later)).status is InboxStatus.CLAIMED


@pytest.mark.req("STREAM-09")
async def test_slacks_stop_cancels_a_workers_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await stop(world, handed.root)
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED


# Sessions follow from the rows, for every agent

QUESTION = Interrupted(asked=(Asked(id="i1", prompt="May I?"),))


@dataclass
class AskedIn:
    """Threads in which an agent that the coordinator runs has asked people."""

    show: Show
    roots: list[SlackMessage]

    def sessions(self) -> set[SessionState]:
        """What Slack shows now, in all threads."""
        told = {thread_ts: session for thread_ts, _, session in self.show.live.told}
        return {told[root.ts] for root in self.roots}


@asynccontextmanager
async def asking_in(world: World, count: int) -> AsyncIterator[AskedIn]:
    ada = Scripted(says("Then not."))
    ada.scripts += [ends(TextDelta(text="I could.", message_id="1"), QUESTION)] * count
    async with playing(world, hired("ada", ada, parallel=count)) as show:
        asked = AskedIn(show, [await world.says(f"{BOT} deploy") for _ in range(count)])
        for root in asked.roots:
            await show.over(root)
        assert asked.sessions() == {SessionState.SUSPENDED}
        yield asked


@pytest.mark.both_engines
@pytest.mark.req("HITL-14")
async def test_after_many_questions_have_expired_together_every_session_is_active(world: World) -> None:
    async with asking_in(world, 12) as asked:
        asked.show.live.is_down = True
        await world.later(25 * 3600)
        for root in asked.roots:
            await asked.show.over(root, 2)
        asked.show.live.is_down = False
        await asked.show.lines.look_once(asked.show.term.is_ours)
        assert asked.sessions() == {SessionState.ACTIVE}


@pytest.mark.req("HITL-14")
@pytest.mark.parametrize("how", ["stopped", "deleted", "answered"])
async def test_a_session_is_active_however_its_question_ends(world: World, how: str) -> None:
    async with asking_in(world, 1) as asked:
        (root,) = asked.roots
        match how:
            case "stopped":
                await world.says("!stop", thread=root)
            case "deleted":
                deleted = MessageDeleted(channel=root.channel, ts=root.ts, thread_ts=None, event_id="E1")
                await world.ingest.handle(deleted)
            case _:
                await world.says("yes", thread=root)
                await asked.show.over(root, 2)
        await world.sweep()
        await asked.show.lines.look_once(asked.show.term.is_ours)
        assert asked.sessions() == {SessionState.ACTIVE}


@pytest.mark.req("HITL-14")
@pytest.mark.parametrize("at", [None, SUSPENDED_AT, 1])
@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("has_request", [False, True])
@pytest.mark.parametrize("agent_name", [None, "lead"])
def test_the_state_of_a_session_follows_from_what_runs_and_what_is_asked(
    at: int | None, has_run: bool, has_request: bool, agent_name: str | None
) -> None:
    line = StatusLine(
        id="t", team="T", channel="C", thread_ts="1", status_at=at, agent_name=agent_name,
        has_run=has_run, has_request=has_request,
    )  # fmt: skip
    waits = SessionState.SUSPENDED if has_request else SessionState.ACTIVE
    assert line.session is (SessionState.PROCESSING if has_run or agent_name else waits)
