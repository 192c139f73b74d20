"""One question is one request: who its requesters are, which later questions join it, and what waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest

from swarm.clock import SECOND
from swarm.domain.answers.events import Asked, Failed, Finished, Interrupted, RunInput
from swarm.domain.errors import Conflict, Forbidden
from swarm.domain.model.agents import Reach, Role
from swarm.domain.model.inbox import InboxStatus, NoticeKind
from swarm.domain.model.requests import (
    DecisionPolicy,
    HumanDecision,
    HumanRequest,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
)
from swarm.domain.model.threads import MessageDeleted, SlackMessage
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.button_actions import DROP_ACTION
from swarm.services.ground.idempotency import Caller
from swarm.services.requests.held import DROPPED_TEXT, NOT_YOURS_TEXT
from swarm.services.tasks.tasks import brief
from swarm.store import agents, requests
from swarm.store.inbox import notices, queues
from tests.services.test_requests import APPROVAL, DAY, Asking
from tests.support.conversing import press, pressed, status
from tests.support.live import Events, Gate, Scripted, Show, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.tasks import asked_and_handed, complete, work_of
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, delete, edit, holding, said

D = HumanDecision
ALICE, BOB, CAROL = "U1", "U2", "U3"
FOUR_EYES = DecisionPolicy(not_requester=True)
DEPLOY = ToolRequest(name="deploy", arguments={"to": "production"})


@pytest.fixture
async def asking(world: World) -> Asking:
    asking = Asking(world)
    await asking.begin()
    return asking


async def bundle(world: World) -> Asking:
    """An agent that has got a message of Alice and one of Bob in one trigger."""
    asking = Asking(world)
    await asking.begin()
    await world.answers(asking.lead, asking.trigger, "Hello.")
    await world.says("deploy it", thread=asking.root, by=ALICE)
    await world.says("yes, please", thread=asking.root, by=BOB)
    asking.trigger = await work_of(world, asking.lead)
    assert len(asking.trigger.inbox_messages) == 2
    return asking


# Requesters


@pytest.mark.req("HITL-09")
async def test_everybody_in_a_bundle_is_a_requester_whom_four_eyes_exclude(world: World) -> None:
    asking = await bundle(world)
    request = await asking.ask(policy=FOUR_EYES, tool=DEPLOY)
    assert (request.requesters, request.requester) == ((ALICE, BOB), ALICE)
    for person in (ALICE, BOB):
        with pytest.raises(Forbidden, match="somebody else has to decide"):
            await asking.decide(request, by=person)
    assert (await asking.decide(request, by="U3")).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-09")
async def test_each_requester_of_a_bundle_may_decide_by_default(world: World) -> None:
    asking = await bundle(world)
    assert (await asking.decide(await asking.ask(), by=BOB)).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-09")
async def test_who_asked_for_a_tool_without_approval_asks_with_whoever_asks_next(asking: Asking, world: World) -> None:
    veto = DecisionPolicy(not_requester=True, veto=True)
    await asking.decide(await asking.ask(policy=veto, tool=DEPLOY), D.REJECT, by=BOB)
    await world.answers(asking.lead, await work_of(world, asking.lead), "Rejected.")
    await world.says("deploy it", thread=asking.root, by=BOB)
    again = await work_of(world, asking.lead)
    elsewhere = ToolRequest(name=" Deploy", arguments={"to": "staging"})
    request = await asking.ask(again, key="q2", policy=FOUR_EYES, tool=elsewhere)
    assert request.requesters == (BOB, ALICE)
    other = await asking.ask(again, key="q3", policy=FOUR_EYES, tool=ToolRequest(name="read"))
    assert other.requesters == (BOB,)
    with pytest.raises(Forbidden):
        await asking.decide(request, by=ALICE)


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("how", ["created", "delegated"])
async def test_whoever_asked_for_what_led_to_a_task_is_a_requester_of_its_worker(how: str, world: World) -> None:
    worker, ada = await world.worker(), Scripted()
    ada.scripts.append(handing_on(world, how, worker.name))
    async with playing(world, hired("ada", ada)) as show:
        await show.stop()
        root = await world.says("swarm#ada deploy", by=ALICE)
        await world.says("swarm#ada yes, please", thread=root, by=BOB)
        show.begin()
        await show.over(root)
        await show.stop()
    asking = Asking(world)
    asking.lead = worker
    request = await asking.ask(await work_of(world, worker), tool=DEPLOY, policy=FOUR_EYES)
    assert set(request.requesters) == {ALICE, BOB}


# The same question again


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
async def test_the_same_question_about_other_work_joins_the_open_one_and_hears_only_its_outcome(
    asking: Asking, world: World
) -> None:
    first = await asking.ask(tool=DEPLOY, policy=FOUR_EYES)
    await world.says("deploy it", thread=asking.root, by=BOB)
    other = await work_of(world, asking.lead)
    again = await asking.ask(other, tool=DEPLOY, policy=FOUR_EYES)
    assert (again.id, again.requesters) == (first.id, (ALICE,))
    assert (await asking.ask(other, tool=DEPLOY, policy=FOUR_EYES)).id == first.id  # the call was repeated
    assert await cards(world) == 1
    assert [one.id for one in await world.services.requests.latest(RequestStatus.OPEN, 10)] == [first.id]
    with pytest.raises(Forbidden):
        await asking.decide(first, by=ALICE)
    await asking.decide(first, by=BOB)
    continued = await work_of(world, asking.lead)
    assert [one.status for one in continued.requests] == [RequestStatus.APPROVED]
    await world.answers(asking.lead, continued, "Deployed.")
    joined = await work_of(world, asking.lead)
    (told,) = joined.requests
    assert (told.status, "approved by" in joined.prompt) == (RequestStatus.CANCELLED, True)
    anew = await asking.ask(joined, tool=DEPLOY)
    assert anew.is_open
    assert anew.id != first.id


@pytest.mark.req("HITL-09")
async def test_two_questions_of_one_run_and_other_arguments_are_questions_of_their_own(
    asking: Asking, world: World
) -> None:
    ids = {(await asking.ask(key=key, tool=DEPLOY, wait=True)).id for key in ("q1", "q2")}
    await world.says("deploy it", thread=asking.root, by=BOB)
    assert len(ids) == 2


@pytest.mark.req("HITL-09")
async def test_who_waits_for_an_approval_does_not_approve_the_same_tool_with_other_arguments(
    asking: Asking, world: World
) -> None:
    await asking.ask(tool=DEPLOY, policy=FOUR_EYES)
    await world.says("interesting", thread=asking.root, by=BOB)
    other = await work_of(world, asking.lead)
    varied = ToolRequest(name="Deploy", arguments={"to": "production", "dry": False})
    again = await asking.ask(other, key="q2", tool=varied, policy=FOUR_EYES)
    assert again.requesters == (BOB, ALICE)
    with pytest.raises(Forbidden):
        await asking.decide(again, by=ALICE)
    own = await asking.ask(other, key="q3", tool=replace(varied, arguments={}))
    assert own.requesters == (BOB,)


# What waits


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("reach", [Reach.AGUI, Reach.BUILTIN])
async def test_a_bystanders_word_waits_and_gives_nobody_the_question(reach: Reach, four_eyes: World) -> None:
    world, asking, ada = four_eyes, Asking(four_eyes), Scripted(says("Done."))
    async with asked(world, ada, reach=reach) as (show, root, request):
        word = await world.says("interesting", thread=root, by=BOB)
        assert (await told(world, BOB))[0].startswith(
            "✋ ada reads your message once “ada wants to use the tool `git_push`” is decided."
        )
        with pytest.raises(Forbidden):
            await asking.decide(request, by=ALICE)
        await world.sweep()
        assert (await cards(world), await status(world, word), len(ada.inputs)) == (1, InboxStatus.UNREAD, 1)
        await asking.decide(request, by=CAROL)
        await show.over(root, 3)
    assert [[one.values for one in run.decided] for run in ada.inputs] == [[], [{"approved": True}], []]
    assert [message.text for message in ada.inputs[2].messages] == ["interesting"]
    assert (await asking.now(request)).resume is ResumeStatus.ACCEPTED
    assert await status(world, word) is InboxStatus.RESPONDED


@pytest.mark.req("HITL-09")
async def test_the_author_of_a_waiting_message_is_told_once_per_question_and_explain_says_why(world: World) -> None:
    ada = Scripted()
    async with asked(world, ada) as (_show, root, _request):
        words = [await world.says(text, thread=root, by=BOB) for text in ("one", "two")]
        own = await world.says("me too", thread=root, by=ALICE)
        assert [len(await told(world, person)) for person in (BOB, ALICE)] == [1, 1]
        rows = await world.rows("SELECT person, drops_request_id FROM deliveries WHERE person IS NOT NULL")
        assert {row["person"]: bool(row["drops_request_id"]) for row in rows} == {BOB: False, ALICE: True}
        for message in (*words, own):
            explained = await world.services.explanations.explain(f"{message.channel}:{message.ts}")
            assert explained["entries"][0]["waits_for"] == "the decision on “ada wants to use the tool `git_push`”"


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("decides", [False, True])
async def test_who_wrote_before_the_question_was_asked_is_told_as_well(
    decides: bool, world: World, four_eyes: World
) -> None:
    world = four_eyes if decides else world
    ada, gate = Scripted(says("Done.")), Gate(before="")

    async def asks(run: RunInput) -> Events:
        gate.arrived.set()
        await gate.opened.wait()
        yield APPROVAL

    ada.scripts.append(asks)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push", by=ALICE)
        await gate.arrived.wait()
        await world.says("interesting", thread=root, by=BOB)
        gate.opened.set()
        await show.over(root)
        assert len(await told(world, BOB)) == 1
        (row,) = await world.rows("SELECT drops_request_id FROM deliveries WHERE person IS NOT NULL")
        assert bool(row["drops_request_id"]) is decides  # who may decide may drop


@pytest.mark.req("HITL-09")
async def test_news_that_start_a_run_wait_too(world: World) -> None:
    async with asked(world, Scripted(says("Done."))) as (show, _root, request):
        await show.stop()
        news = (NoticeKind.TASK_RETURNED, request.agent_id)
        await world.database.write(partial(notices.add, thread_id=request.thread_id), *news)
        assert await world.database.read(queues.agents_with_due_work) == set()
        assert await world.database.write(notices.unread, [request.agent_id], 9) == []
        await pressed(world, press(DROP_ACTION, request.id))
        show.begin()

        async def look() -> int:
            return len(await world.rows("SELECT 1 FROM notices WHERE status = 'unread'"))

        await wait_until(look, lambda unread: unread == 0, what="the agent gets its news")


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
async def test_messages_behind_a_question_move_on_when_its_agent_is_removed(world: World) -> None:
    async with asked(world, Scripted()) as (show, root, request):
        word = await world.says("interesting", thread=root, by=BOB)
        other = await world.lead("other")
        await show.stop()
        await world.sweep()
        assert (await world.inbox_message(word)).agent_id == request.agent_id  # it is online
        await world.services.agents.revoke(request.agent_id)
        await world.sweep()
        assert (await world.inbox_message(word)).agent_id == other.id
        assert await world.database.read(queues.agents_with_due_work) == {other.id}


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
async def test_of_a_decision_and_a_message_at_once_neither_is_lost_or_run_twice(world: World) -> None:
    ada, asking = Scripted(says("Done.")), Asking(world)
    async with asked(world, ada) as (show, root, request):
        await asyncio.gather(asking.decide(request), world.says("interesting", thread=root, by=BOB))
        await show.over(root, 3)
    assert [len(run.decided) for run in ada.inputs] == [0, 1, 0]
    assert await cards(world) == 1


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
async def test_of_a_drop_and_an_approval_at_once_one_counts(world: World) -> None:
    ada, asking = Scripted(says("Done.")), Asking(world)
    async with asked(world, ada) as (show, root, request):
        word = await world.says("interesting", thread=root, by=BOB)
        dropping = pressed(world, press(DROP_ACTION, request.id))
        dropped, decided = await asyncio.gather(dropping, asking.decide(request), return_exceptions=True)
        await show.over(root, 3)
    now = await asking.now(request)
    if now.status is RequestStatus.APPROVED:
        assert str(dropped).startswith("This is decided already")
        assert isinstance(decided, HumanRequest)
    else:
        assert (dropped, type(decided)) == (DROPPED_TEXT.format(agent="ada"), Conflict)
    told = [one.values for run in ada.inputs for one in run.decided]
    assert told == ([{"approved": True}] if now.status is RequestStatus.APPROVED else [None])
    assert await status(world, word) is InboxStatus.RESPONDED


@pytest.mark.req("HITL-09")
async def test_a_requester_drops_a_question_under_four_eyes_and_the_agent_hears_it_first(four_eyes: World) -> None:
    world, ada = four_eyes, Scripted(says("Done."))
    async with asked(world, ada) as (show, root, request):
        await world.says("interesting", thread=root, by=BOB)
        ada.scripts.append(says("I leave it."))
        dropped = await pressed(world, press(DROP_ACTION, request.id))
        await show.over(root, 3)
    assert dropped == DROPPED_TEXT.format(agent="ada")
    assert [[one.values for one in run.decided] for run in ada.inputs] == [[], [None], []]  # cancelled: no refusal


@pytest.mark.req("HITL-09")
async def test_who_neither_asked_nor_may_decide_cannot_drop(world: World) -> None:
    async with asked(world, Scripted()) as (_show, _root, request):
        assert await pressed(world, press(DROP_ACTION, request.id, by=BOB)) == NOT_YOURS_TEXT
        elsewhere = replace(press(DROP_ACTION, request.id, key="other"), channel="C2")
        assert str(await pressed(world, elsewhere)).startswith("There is no such question")
        assert (await Asking(world).now(request)).is_open


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("how", ["expired", "failed", "stopped", "deleted"])
async def test_however_a_question_ends_nothing_waits_for_ever(how: str, world: World) -> None:
    ada, asking = Scripted(says("Done.")), Asking(world)
    async with asked(world, ada) as (_show, root, request):
        word = await world.says("interesting", thread=root, by=BOB)
        if how == "expired":
            await world.later(DAY + 1)
        elif how == "failed":
            ada.scripts.append(ends(Failed(message="the disk is full")))
            await asking.decide(request)
        elif how == "stopped":
            await world.says("!stop", thread=root)
        else:
            deleted = MessageDeleted(channel=root.channel, ts=root.ts, thread_ts=None, event_id="E1")
            await world.ingest.handle(deleted)
            await world.sweep()

        async def look() -> InboxStatus:
            return await status(world, word)

        end = InboxStatus.DISMISSED if how == "stopped" else InboxStatus.RESPONDED
        await wait_until(look, lambda now: now is end, what="the message is answered, or stopped")
    assert not (await asking.now(request)).is_open
    assert await cards(world) == 1


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("reach", [Reach.AGUI, Reach.BUILTIN])
async def test_an_edit_withdraws_the_question_and_the_new_text_runs(reach: Reach, world: World) -> None:
    ada, asking = Scripted(says("Done.")), Asking(world)
    other = Asked(id="i2", prompt="Sure?")
    async with asked(world, ada, replace(APPROVAL, asked=(*APPROVAL.asked, other)), reach=reach) as found:
        show, root, request = found
        await world.ingest.handle(edit(root, f"{BOT} push to staging"))

        async def look() -> list[str]:
            return [message.text for run in ada.inputs[1:] for message in run.messages]

        await wait_until(look, lambda texts: texts == ["push to staging"], what="the new text runs")
        await show.over(root, len(ada.inputs))
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "the message that asked was edited")
    assert [len(run.decided) for run in ada.inputs] == ([0, 0] if reach is Reach.BUILTIN else [0, 2, 0])


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("how", ["created", "delegated"])
@pytest.mark.parametrize("reach", [Reach.AGUI, Reach.BUILTIN])
async def test_an_edit_withdraws_the_question_of_work_that_was_delegated(how: str, reach: Reach, world: World) -> None:
    """The worker is told, and the agent that has delegated reads the new text."""
    ada, bert, asking = Scripted(), Scripted(), Asking(world)
    bert.scripts.extend([ends(APPROVAL), says("Not done.")])
    ada.scripts.append(handing_on(world, how, "bert"))
    team = (hired("ada", ada, reach=reach), hired("bert", bert, role=Role.WORKER, reach=reach))
    async with playing(world, *team) as show:
        root = await world.says("swarm#ada deploy to production", by=ALICE)
        request = await asked_by(world, "bert")
        assert request.task_id
        await world.ingest.handle(edit(root, "swarm#ada deploy to staging"))

        async def look() -> list[str]:
            return [message.text for run in ada.inputs[1:] for message in run.messages]

        await wait_until(look, lambda texts: "swarm#ada deploy to staging" in texts, what="the new text runs")
        await show.over(root, len(ada.inputs) + len(bert.inputs))
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "the message that asked was edited")
    assert [len(run.decided) for run in bert.inputs] == [0, 1]


@pytest.mark.req("HITL-09")
async def test_an_edit_withdraws_the_question_of_a_polling_workers_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    asking = Asking(world)
    asking.lead = worker
    request = await asking.ask(await world.only(worker))
    await world.ingest.handle(edit(handed.root, f"{BOT} count the words"))
    again = await work_of(world, worker)
    (told,) = again.requests
    assert (told.id, told.status) == (request.id, RequestStatus.CANCELLED)
    await complete(world, worker, again)
    await world.sweep()
    (message,) = (await work_of(world, lead)).inbox_messages
    assert message.text.endswith("count the words")


@pytest.mark.both_engines
@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("gone", [0, 1])
async def test_a_deletion_in_a_bundle_withdraws_the_question_and_what_is_left_runs(gone: int, world: World) -> None:
    asking = await bundle(world)
    request = await asking.ask(tool=DEPLOY)
    messages = asking.trigger.inbox_messages
    await world.ingest.handle(delete(said("", ts=messages[gone].ts, thread_ts=asking.root.ts)))
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "the message was deleted")
    (left,) = (await work_of(world, asking.lead)).inbox_messages
    assert left.ts == messages[1 - gone].ts


@pytest.mark.req("HITL-09")
async def test_a_run_is_told_that_its_question_was_dropped_before_what_a_deletion_has_left_runs(world: World) -> None:
    ada = Scripted(says("Done."))
    ada.scripts += [says("Hello."), ends(APPROVAL), says("I leave it.")]
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await show.stop()
        await world.says("deploy it", thread=root, by=ALICE)
        second = await world.says("to production", thread=root, by=BOB)
        show.begin()
        await show.over(root, 2)
        await world.ingest.handle(delete(second))
        await show.over(root, 4)
    told = [([one.values for one in run.decided], [message.text for message in run.messages]) for run in ada.inputs[2:]]
    assert [values for values, _ in told] == [[None], []]
    assert told[-1][1] == ["deploy it"]


@pytest.mark.req("HITL-09")
async def test_a_deletion_withdraws_the_question_of_a_polling_workers_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    asking = Asking(world)
    asking.lead = worker
    request = await asking.ask(await world.only(worker))
    await world.ingest.handle(delete(handed.root))
    (told,) = (await work_of(world, worker)).requests
    assert (told.id, told.status, told.reason) == (request.id, RequestStatus.CANCELLED, "the message was deleted")


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("reach", [Reach.AGUI, Reach.BUILTIN, Reach.POLLING])
@pytest.mark.parametrize("what", ["edited", "approved"])
async def test_a_stop_right_after_an_edit_or_a_decision_stops(reach: Reach, what: str, world: World) -> None:
    """Nobody works on the message at that moment, but an agent has begun with it."""
    ada, asking = Scripted(says("Done.")), Asking(world)
    if reach is Reach.POLLING:
        await asking.begin()
        root, request = asking.root, await asking.ask()
        await after(world, asking, what, root, request)
    else:
        async with asked(world, ada, reach=reach) as (show, root, request):
            await show.stop()
            await after(world, asking, what, root, request)
    assert await status(world, root) is InboxStatus.DISMISSED
    assert len(ada.inputs) <= 1


async def after(world: World, asking: Asking, what: str, root: SlackMessage, request: HumanRequest) -> None:
    """Somebody stops at once."""
    if what == "edited":
        await world.ingest.handle(edit(root, f"{BOT} push to staging"))
    else:
        await asking.decide(request)
    await world.says("!stop", thread=root)


@pytest.mark.req("HITL-13")
async def test_a_word_that_was_written_before_a_change_decides_nothing(world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    policy = DecisionPolicy(users=(ALICE, BOB), need=2)
    request = await asking.ask(tool=DEPLOY, decisions=(D.APPROVE, D.EDIT, D.REJECT), policy=policy)
    await asking.decide(request, D.EDIT, ALICE, arguments={"to": "staging"})
    now = await world.database.read(lambda tx: tx.now)
    for seconds, status_then in ((-1, RequestStatus.OPEN), (1, RequestStatus.APPROVED)):
        ts = f"{now // SECOND + seconds}.000001"
        await world.hears(said("approve", by=BOB, thread_ts=asking.root.ts, ts=ts))
        assert (await asking.now(request)).status is status_then


@pytest.mark.req("HITL-09")
async def test_somebody_of_a_user_group_who_wrote_before_the_question_may_drop_it(world: World) -> None:
    world.rule(DecisionRule(groups=("S1",)))
    ada, arrived, goes_on = Scripted(), asyncio.Event(), asyncio.Event()

    async def asks_late(_run: RunInput) -> Events:
        arrived.set()
        await goes_on.wait()
        yield APPROVAL

    ada.scripts.append(asks_late)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push", by=ALICE)
        async with asyncio.timeout(20):
            await arrived.wait()
        await world.says("And tell me", thread=root, by=CAROL)
        goes_on.set()
        await show.over(root)
    rows = await world.rows("SELECT drops_request_id FROM deliveries WHERE person = 'U3'")
    assert [bool(row["drops_request_id"]) for row in rows] == [True]


@pytest.mark.req("HITL-09")
async def test_everybody_of_a_polling_agents_bundle_is_a_requester_of_the_task_that_it_makes(world: World) -> None:
    worker = await world.worker()
    lead = await bundle(world)
    await world.services.tasks.create(holding(lead.trigger, lead.lead), brief("Deploy."), agent=worker.id)
    asking = Asking(world)
    asking.lead = worker
    request = await asking.ask(await work_of(world, worker), tool=DEPLOY, policy=FOUR_EYES)
    assert set(request.requesters) == {ALICE, BOB}


@pytest.mark.req("HITL-09")
async def test_the_card_of_a_live_call_says_that_its_message_was_edited(asking: Asking, world: World) -> None:
    request = await asking.ask(wait=True)
    await world.ingest.handle(edit(asking.root, f"{BOT} other"))
    now = await asking.now(request)
    assert (now.is_open, now.reason) == (True, "The message that asked was edited after the question.")
    assert (await asking.decide(request)).status is RequestStatus.APPROVED


# Helpers


@pytest.fixture
def four_eyes(world: World) -> World:
    """A world whose operator wants everybody's approval but the requesters'."""
    return world.governed_by(governing(decisions=(DecisionRule(**asdict(FOUR_EYES)),)))


def handing_on(world: World, how: str, worker: str) -> Callable[[RunInput], Events]:
    """A run that makes a task of its message."""

    async def hands_on(run: RunInput) -> Events:
        (row,) = await world.rows("SELECT token, agent_id FROM leases WHERE ended_at IS NULL")
        own = await world.database.read(agents.by_id, row["agent_id"])
        assert own is not None
        caller = Caller(agent=own, lease_token=row["token"])
        if how == "created":
            await world.services.tasks.create(caller, brief("Deploy."), agent=worker)
        else:
            await world.services.delegations.delegate(caller, run.messages[0].id, worker, brief("Deploy."))
        yield Finished()

    return hands_on


async def asked_by(world: World, name: str) -> HumanRequest:
    """The question of an agent, once it is open."""

    async def look() -> list[HumanRequest]:
        return [one for one in await world.services.requests.latest(RequestStatus.OPEN, 10) if one.agent == name]

    (found,) = await wait_until(look, what=f"{name} asks")
    return found


@asynccontextmanager
async def asked(
    world: World, ada: Scripted, question: Interrupted = APPROVAL, **spec: Any
) -> AsyncIterator[tuple[Show, SlackMessage, HumanRequest]]:
    """An agent of the coordinator whose run for Alice asks for an approval."""
    ada.scripts.append(ends(question))
    async with playing(world, hired("ada", ada, **spec)) as show:
        root = await world.says(f"{BOT} push", by=ALICE)
        (run,) = await show.over(root)
        request, *_ = await world.database.read(requests.of_run, run.id)
        yield show, root, request


async def cards(world: World) -> int:
    """The number of cards in threads."""
    return len(await world.rows("SELECT 1 FROM deliveries WHERE kind = 'post' AND request_id IS NOT NULL"))


async def told(world: World, person: str) -> list[str]:
    """What only this person sees."""
    rows = await world.rows("SELECT text, person FROM deliveries WHERE person IS NOT NULL ORDER BY id")
    return [row["text"] for row in rows if row["person"] == person]
