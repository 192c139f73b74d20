"""Requests to people: asked once, decided once by who may, and the work that goes on with exactly that."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

import pytest

from swarm.domain.answers.events import Asked, Failed, Interrupted, RunInput
from swarm.domain.answers.questions import EDITED_ARGUMENTS
from swarm.domain.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound, NotRead, RateLimited, SwarmError
from swarm.domain.model.agents import Agent, Reach
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus, NoticeKind
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.requests import (
    Decide,
    DecisionPolicy,
    EntryPoint,
    FieldType,
    FileDiff,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
    options,
)
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import MessageDeleted, SlackMessage
from swarm.domain.model.triggers import Trigger, TriggerKind
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.domain.requests.shown import reading_pages, with_page_read
from swarm.services.requests.human_requests import AskedWork
from swarm.slack.outgoing.request_cards import request_blocks
from swarm.store import grants, requests
from tests.support.conversing import press, pressed, status
from tests.support.live import Scripted, Show, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.tasks import asked_and_handed, is_work, work_of
from tests.support.world import BOT, World, holding

D = HumanDecision
DAY = 24 * 3600
PUSH = ToolRequest(name="git_push", arguments={"branch": "main", "force": False})
FORM = (
    FormField(name="part", type=FieldType.SELECT, options=options("code", "tests"), required=True),
    FormField(name="note", type=FieldType.TEXT),
)
APPROVAL = Interrupted(
    asked=(
        Asked(
            id="i1",
            prompt="Push?",
            tool=PUSH,
            decisions=(D.APPROVE, D.EDIT, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS),
            raw={"responseSchema": {"properties": {"approved": {"type": "boolean"}, EDITED_ARGUMENTS: {}}}},
        ),
    )
)

pytestmark = pytest.mark.req("HITL-03")


class Asking:
    """A polling agent that asks about a person's message."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lead: Agent

    async def begin(self, text: str = f"{BOT} hello") -> None:
        if not hasattr(self, "lead"):
            self.lead = await self.world.lead()
        self.root = await self.world.says(text)
        found = [trigger for trigger in await self.world.poll(self.lead) if is_work(trigger)]
        (self.trigger,) = [one for one in found if one.inbox_messages[0].ts == self.root.ts]

    async def ask(self, trigger: Trigger | None = None, *, wait: bool = False, **new: Any) -> HumanRequest:
        trigger = trigger or self.trigger
        asked = NewRequest(**({"key": "q1", "title": "May I?"} | new))
        work = (
            AskedWork(task_id=trigger.task.id)
            if trigger.task
            else AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
        )
        return await self.world.services.requests.ask(holding(trigger, self.lead), work, asked, wait=wait)

    async def decide(self, request: HumanRequest, decision: D = D.APPROVE, by: str = "U1", **more: Any) -> HumanRequest:
        wish = Decide(request_id=request.id, decision=decision, person=by, door=EntryPoint.SLACK, **more)
        return await self.world.services.decisions.decide(wish)

    async def now(self, request: HumanRequest) -> HumanRequest:
        found = await self.world.database.read(requests.get, request.id)
        assert found
        return found

    async def audit(self) -> list[str]:
        return [line.kind.value for line in await self.world.database.read(grants.lines, 0, 0, 1000)]


@pytest.fixture
async def asking(world: World) -> Asking:
    asking = Asking(world)
    await asking.begin()
    return asking


# A polling agent asks


@pytest.mark.both_engines
@pytest.mark.req("HITL-01", "HITL-04", "LOOP-05")
async def test_work_waits_until_it_is_decided_and_comes_again_with_the_decision(asking: Asking, world: World) -> None:
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT))
    assert (request.status, await status(world, asking.root)) == (RequestStatus.OPEN, InboxStatus.WAITING)
    assert await world.poll(asking.lead) == []
    await asking.decide(request, D.ANSWER, values={"part": "tests"})
    notice, again = sorted(await world.poll(asking.lead), key=lambda trigger: trigger.kind != TriggerKind.HUMAN_INPUT)
    assert notice.notice
    assert notice.notice.kind is NoticeKind.HUMAN_INPUT
    (told,) = again.decisions
    assert (told.id, told.status, told.values, told.resume) == (
        request.id, RequestStatus.ANSWERED, {"part": "tests"}, ResumeStatus.NONE,
    )  # fmt: skip
    assert [one.id for one in notice.requests] == [request.id]
    assert '"part": "tests"' in again.prompt
    assert (await asking.now(request)).resume is ResumeStatus.SENT
    await world.answers(asking.lead, again, "done")
    await world.sweep()
    assert (await asking.now(request)).resume is ResumeStatus.ACCEPTED
    assert await asking.audit() == ["asked", "decided", "resumed"]


@pytest.mark.both_engines
async def test_the_same_question_is_asked_once_whoever_gets_the_work_later(asking: Asking, world: World) -> None:
    request = await asking.ask()
    assert (await asking.ask()).id == request.id  # the answer was lost, and the call repeated
    await asking.decide(request)
    again = await work_of(world, asking.lead)
    asked = await asking.ask(again)
    assert (asked.id, asked.status) == (request.id, RequestStatus.APPROVED)
    assert await status(world, asking.root) is InboxStatus.CLAIMED


async def test_another_question_about_the_same_work_waits_again(asking: Asking, world: World) -> None:
    first = await asking.ask()
    await asking.decide(first)
    again = await work_of(world, asking.lead)
    second = await asking.ask(again, key="q2")
    assert (await asking.now(first)).resume is ResumeStatus.ACCEPTED
    await asking.decide(second)
    third = await work_of(world, asking.lead)
    assert [one.id for one in third.requests] == [second.id]


async def test_changed_arguments_are_another_question(asking: Asking) -> None:
    """An approval is bound to the digest of exactly what was shown."""
    first = await asking.ask(tool=PUSH)
    other = replace(PUSH, arguments={"branch": "main", "force": True})
    assert first.digest != other.digest
    with pytest.raises(Conflict, match="not the arguments that were shown"):
        await asking.decide(first, arguments=other.arguments)
    assert (await asking.now(first)).is_open


@pytest.mark.both_engines
async def test_a_live_asker_keeps_its_lease_and_hears_of_the_decision(asking: Asking, world: World) -> None:
    request = await asking.ask(wait=True)
    assert await status(world, asking.root) is InboxStatus.CLAIMED
    waiting = asyncio.ensure_future(world.services.requests.get(asking.lead, request.id, 20))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await asking.decide(request)
    assert (await asyncio.wait_for(waiting, 5)).status is RequestStatus.APPROVED
    await world.answers(asking.lead, asking.trigger, "done")


async def test_a_live_request_is_cancelled_with_the_run_that_asked(asking: Asking, world: World) -> None:
    request = await asking.ask(wait=True)
    await world.later(120)  # the lease is not renewed
    again = await world.only(asking.lead)  # before the next sweep
    await world.sweep()
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "its work has ended")
    assert again.inbox_messages
    with pytest.raises(Conflict, match="decided already"):
        await asking.decide(request)


async def test_the_asker_withdraws_its_request_and_the_work_goes_on(asking: Asking, world: World) -> None:
    request = await asking.ask()
    stranger = await world.lead("other")
    with pytest.raises(NotFound):
        await world.services.requests.withdraw(stranger, request.id, "")
    await world.services.requests.withdraw(asking.lead, request.id, "never mind")
    assert await status(world, asking.root) is InboxStatus.UNREAD
    with pytest.raises(Conflict, match="ended already"):
        await world.services.requests.withdraw(asking.lead, request.id, "")


async def test_only_the_run_that_holds_the_work_asks(asking: Asking, world: World) -> None:
    await world.later(120)
    await world.only(asking.lead)
    with pytest.raises(LeaseLost):
        await asking.ask()


@pytest.mark.parametrize(
    ("new", "field"),
    [
        ({"title": " "}, "title"),
        ({"decisions": (D.REJECT,)}, "decisions"),
        ({"decisions": (D.EDIT,)}, "decisions"),
        ({"decisions": (D.APPROVE, D.APPROVE_ALWAYS)}, "decisions"),
        ({"fields": (FormField(name="a"), FormField(name="a"))}, "fields"),
        ({"fields": (FormField(name="a", type=FieldType.SELECT),)}, "fields.a"),
        ({"fields": (FormField(name="a", type=FieldType.SELECT, options=options(*map(str, range(201)))),)}, "fields.a"),
        ({"fields": tuple(FormField(name=str(n)) for n in range(51))}, "fields"),
        ({"policy": DecisionPolicy(requester=True, not_requester=True)}, "policy.requester"),
        ({"policy": DecisionPolicy(requester=True, need=2)}, "policy.need"),
        ({"policy": DecisionPolicy(need=0)}, "policy.need"),
        ({"expires_seconds": 0.1}, "expires_seconds"),
    ],
)
async def test_a_request_that_nobody_could_answer_is_invalid(new: dict[str, Any], field: str, asking: Asking) -> None:
    with pytest.raises(Invalid) as refused:
        await asking.ask(**new)
    assert field in refused.value.fields
    assert await status(asking.world, asking.root) is InboxStatus.CLAIMED


# Who may decide


@pytest.mark.parametrize(
    ("policy", "may", "may_not"),
    [
        (DecisionPolicy(requester=True), ["U1"], ["U2"]),
        (DecisionPolicy(users=("U2",)), ["U2"], ["U1", "U3"]),
        (DecisionPolicy(groups=("S1",)), ["U2", "U3"], ["U1"]),
        (DecisionPolicy(groups=("S1",), requester=True), ["U1", "U2"], ["U9"]),
        (DecisionPolicy(not_requester=True), ["U2", "U9"], ["U1"]),
        (DecisionPolicy(users=("U1", "U2"), not_requester=True), ["U2"], ["U1", "U3"]),
        (DecisionPolicy(groups=("S404",), users=("U2",)), ["U2"], ["U3"]),
        (DecisionPolicy(), [], ["U1"]),
    ],
)
async def test_the_policy_says_who_may_decide(
    policy: DecisionPolicy, may: list[str], may_not: list[str], asking: Asking, world: World
) -> None:
    world.slack.groups["S1"] = frozenset({"U2", "U3"})
    for number, person in enumerate([*may_not, *may]):
        await asking.begin()
        request = await asking.ask(key=f"q{number}", policy=policy)
        if person in may:
            assert (await asking.decide(request, by=person)).status is RequestStatus.APPROVED
        else:
            with pytest.raises(Forbidden):
                await asking.decide(request, by=person)
            assert (await asking.now(request)).is_open
            assert (await asking.audit())[-1] == "refused"


async def test_the_operator_decides_whatever_the_policy_says(asking: Asking, world: World) -> None:
    request = await asking.ask(policy=DecisionPolicy(users=("U2", "U3"), need=2))
    wish = Decide(request_id=request.id, decision=D.REJECT, door=EntryPoint.CLI)
    assert (await world.services.decisions.decide(wish)).status is RequestStatus.REJECTED


async def test_the_operators_rules_replace_the_agents_policy(world: World) -> None:
    rules = (
        DecisionRule(users=("U3",), tool="git_*"),
        DecisionRule(users=("U2",), agent="lead").model_copy(update={"channel": "C1"}),
    )
    asking = Asking(world.governed_by(governing(decisions=rules)))
    await asking.begin()
    assert (await asking.ask(tool=PUSH, key="a", wait=True)).policy.users == ("U3",)
    assert (await asking.ask(key="b", wait=True)).policy.users == ("U2",)


@pytest.mark.parametrize(
    ("policy", "said", "result"),
    [
        (DecisionPolicy(users=("U1", "U2"), need=2), "++", RequestStatus.APPROVED),
        (DecisionPolicy(users=("U1", "U2"), need=2), "+", RequestStatus.OPEN),
        (DecisionPolicy(users=("U1", "U2"), need=2), "-", RequestStatus.REJECTED),
        (DecisionPolicy(users=("U1", "U2", "U3"), need=2), "-", RequestStatus.OPEN),
        (DecisionPolicy(users=("U1", "U2", "U3"), need=2), "-++", RequestStatus.APPROVED),
        (DecisionPolicy(users=("U1", "U2", "U3"), need=2), "--", RequestStatus.REJECTED),
        (DecisionPolicy(users=("U1", "U2", "U3"), need=2, veto=True), "-", RequestStatus.REJECTED),
        (DecisionPolicy(users=("U1", "U2"), need=1), "-+", RequestStatus.APPROVED),
    ],
)
@pytest.mark.req("HITL-03")
async def test_a_quorum_with_and_without_veto(
    policy: DecisionPolicy, said: str, result: RequestStatus, asking: Asking
) -> None:
    request = await asking.ask(policy=policy)
    for number, sign in enumerate(said, 1):
        now = await asking.decide(request, D.APPROVE if sign == "+" else D.REJECT, by=f"U{number}")
    assert now.status is result


async def test_with_a_quorum_the_first_values_stand_and_nobody_counts_twice(asking: Asking) -> None:
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT), policy=policy)
    await asking.decide(request, D.ANSWER, by="U1", values={"part": "code"})
    with pytest.raises(Conflict, match="You have decided already"):
        await asking.decide(request, D.ANSWER, by="U1", values={"part": "tests"})
    now = await asking.decide(request, D.ANSWER, by="U2")
    assert (now.status, now.values) == (RequestStatus.ANSWERED, {"part": "code"})


async def test_presses_count_towards_the_limit_per_minute(world: World) -> None:
    asking = Asking(world.governed_by(governing(messages_per_minute=2)))
    await asking.begin()
    request = await asking.ask()
    for by in ("U2", "U2"):
        with pytest.raises(Forbidden):
            await asking.decide(request, by=by)
    with pytest.raises(RateLimited):
        await asking.decide(request, by="U2")
    assert (await asking.decide(request)).status is RequestStatus.APPROVED


# Once


@pytest.mark.both_engines
async def test_of_two_people_at_once_one_decides_and_the_other_is_told_who(asking: Asking, world: World) -> None:
    request = await asking.ask(policy=DecisionPolicy(users=("U1", "U2", "U3")))
    said = [(D.APPROVE, "U1"), (D.REJECT, "U2"), (D.APPROVE, "U1"), (D.APPROVE, "U3")]
    results = await asyncio.gather(*(asking.decide(request, how, by=who) for how, who in said), return_exceptions=True)
    refused = [str(one) for one in results if isinstance(one, SwarmError)]
    approved = [one for one in results if isinstance(one, HumanRequest) and not one.is_open]
    assert len(approved) == 1
    assert all("already" in words for words in refused)
    (answer,) = [one for one in approved[0].answers if one.decision is D.APPROVE]
    assert any(f"<@{answer.person}>" in words for words in refused if "decided already" in words)
    triggers = [trigger for trigger in await world.poll(asking.lead) if is_work(trigger)]
    assert len(triggers) == 1


@pytest.mark.both_engines
async def test_of_three_requests_decided_at_once_the_work_comes_once(world: World) -> None:
    asked = tuple(Asked(id=f"i{n}", prompt=f"{n}?", tool=PUSH, decisions=(D.APPROVE, D.REJECT)) for n in range(3))
    ada = Scripted(says("Done."))
    ada.scripts.append(ends(Interrupted(asked=asked)))
    asking = Asking(world)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} go")
        (run,) = await show.over(root)
        found = await world.database.read(requests.of_run, run.id)
        await asyncio.gather(*(asking.decide(one) for one in found))
        await show.over(root, 2)
    assert [one.interrupt_id for one in ada.inputs[1].decided] == ["i0", "i1", "i2"]
    assert len(ada.inputs) == 2


# Time


async def test_a_click_after_the_end_is_late_also_before_the_sweep(asking: Asking, world: World) -> None:
    request = await asking.ask(expires_seconds=60)
    world.clock.advance(60)
    with pytest.raises(Conflict, match="too late"):
        await asking.decide(request)
    await world.sweep()
    assert (await asking.now(request)).status is RequestStatus.EXPIRED


async def test_expiry_resumes_the_work_as_expired(asking: Asking, world: World) -> None:
    request = await asking.ask(expires_seconds=60)
    await world.later(61)
    again = await work_of(world, asking.lead)
    assert [one.status for one in again.requests] == [RequestStatus.EXPIRED]
    assert await asking.audit() == ["asked", "expired"]
    assert request.expires_at


async def test_a_request_may_never_expire(asking: Asking, world: World) -> None:
    request = await asking.ask(expires_seconds=None)
    await world.later(30 * DAY)
    assert (await asking.now(request)).is_open


# Values


@pytest.mark.req("HITL-02")
async def test_invalid_values_name_their_fields_and_change_nothing(asking: Asking) -> None:
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT))
    for values in ({}, {"part": "nothing"}, {"part": "code", "note": "x" * 10_001}, {"part": "code", "other": 1}):
        with pytest.raises(Invalid) as refused:
            await asking.decide(request, D.ANSWER, values=values)
        assert set(refused.value.fields) <= {"part", "note", "other"}
    with pytest.raises(Invalid, match="does not allow"):
        await asking.decide(request, D.APPROVE)
    assert (await asking.now(request)).answers == ()
    assert await asking.audit() == ["asked", "refused"]


@pytest.mark.req("HITL-04")
async def test_arguments_are_edited_within_the_tools_schema(asking: Asking) -> None:
    schema = {
        "type": "object",
        "properties": {"branch": {"type": "string", "maxLength": 10}, "force": {"type": "boolean"}},
    }
    tool = replace(PUSH, schema=schema)
    request = await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT, D.REJECT))
    with pytest.raises(Invalid) as refused:
        await asking.decide(request, D.EDIT, arguments={"branch": "a name that is too long", "force": False})
    assert "branch" in refused.value.fields
    now = await asking.decide(request, D.EDIT, arguments={"branch": "dev", "force": False})
    assert (now.status, now.arguments) == (RequestStatus.APPROVED, {"branch": "dev", "force": False})
    assert now.tool
    assert now.tool.arguments == PUSH.arguments  # both are stored


# Runs of the coordinator


@pytest.mark.both_engines
@pytest.mark.req("HITL-05", "HITL-06")
async def test_a_run_asks_goes_on_and_asks_again(world: World) -> None:
    ada, asking = Scripted(says("Pushed.")), Asking(world)
    ada.scripts += [ends(APPROVAL), ends(replace(APPROVAL, asked=(replace(APPROVAL.asked[0], id="i2"),)))]
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        for number in (1, 2):
            run = (await show.over(root, number))[-1]
            (request,) = await world.database.read(requests.of_run, run.id)
            await asking.decide(request)
        await show.over(root, 3)
        found = await show.runs(root)
    assert [run.status for run in found] == [RunStatus.ANSWERED] * 3
    assert [[one.interrupt_id for one in run.decided] for run in ada.inputs] == [[], ["i1"], ["i2"]]
    assert ada.inputs[1].decided[0].values == {"approved": True}
    assert await status(world, root) is InboxStatus.RESPONDED


@pytest.mark.parametrize(
    ("decision", "more", "values"),
    [
        (D.APPROVE, {}, {"approved": True}),
        (D.EDIT, {"arguments": {"branch": "dev", "force": False}},
         {"approved": True, EDITED_ARGUMENTS: {"branch": "dev", "force": False}}),
        (D.REJECT, {}, {"approved": False, "reason": "A person has rejected this call."}),
    ],
)  # fmt: skip
@pytest.mark.req("HITL-02", "HITL-04")
async def test_the_run_continues_with_exactly_what_was_decided(
    decision: D, more: dict[str, Any], values: dict[str, Any], world: World
) -> None:
    inputs = await resumed(world, lambda asking, request: asking.decide(request, decision, **more))
    assert inputs[1].decided[0].values == values


async def test_the_run_continues_as_expired_not_as_rejected(world: World) -> None:
    async def later(asking: Asking, request: HumanRequest) -> None:
        await world.later(DAY + 1)

    inputs = await resumed(world, later)
    (decided,) = inputs[1].decided
    assert (decided.expired, decided.decision) == (True, None)
    assert decided.values == {"approved": False, "reason": "Nobody decided in time."}


async def last_card(world: World) -> list[dict[str, Any]]:
    """The blocks of the card as Slack shows it."""
    await world.send()
    shown = [done.request for done in world.slack.landed if done.request]
    return request_blocks(shown[-1])


@pytest.mark.req("HITL-14")
@pytest.mark.parametrize("decision", [D.APPROVE, D.REJECT])
async def test_a_call_that_has_heard_the_decision_is_not_said_to_have_failed(
    decision: D, asking: Asking, world: World
) -> None:
    """A coding CLI that gives up after a rejection: nothing is sent again, because it would ask anew."""
    request = await asking.ask(wait=True)
    await asking.decide(request, decision)
    await world.services.requests.get(asking.lead, request.id, 1)
    token = asking.trigger.lease_token
    for _ in range(5):
        await world.services.work.finish(asking.lead, [token], FinishOutcome.FAILED, "it may not edit")
        await world.later(600)
        token = next((again.lease_token for again in await world.poll(asking.lead) if is_work(again)), token)
    assert await status(world, asking.root) is InboxStatus.DEAD
    await world.sweep()
    assert (await asking.now(request)).resume is ResumeStatus.ACCEPTED
    assert "failed" not in str(await last_card(world))


@pytest.mark.req("HITL-14")
async def test_a_card_says_who_stopped_the_work(world: World) -> None:
    ada = Scripted(ends(APPROVAL))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        await show.over(root)
        await world.says("!stop", thread=root)
    assert "🛑 Withdrawn: stopped by <@U1>" in str(await last_card(world))


@pytest.mark.req("HITL-14")
async def test_a_card_says_that_the_message_was_deleted(world: World) -> None:
    async with playing(world, hired("ada", Scripted(ends(APPROVAL)))) as show:
        root = await world.says(f"{BOT} push")
        await show.over(root)
        await world.send()
        deleted = MessageDeleted(channel=root.channel, ts=root.ts, thread_ts=None, event_id="E1")
        await world.ingest.handle(deleted)
        await world.sweep()
    assert "🛑 Withdrawn: the message was deleted" in str(await last_card(world))


@pytest.mark.req("HITL-06")
async def test_a_retry_after_a_failed_resume_sends_the_same_decision_and_says_so(world: World) -> None:
    ada, asking = Scripted(says("Pushed.")), Asking(world)
    ada.scripts += [ends(APPROVAL), ends(Failed(message="the disk is full"))]
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await asking.decide(request)
        failed = (await show.over(root, 2))[-1]
        await world.sweep()
        assert (await asking.now(request)).resume is ResumeStatus.FAILED
        assert "failed after this decision" in str(await last_card(world))
        assert await pressed(world, press(RETRY_RUN_ACTION, failed.id)) is None
        await show.over(root, 3)
        await world.sweep()
        assert "failed after this decision" not in str(await last_card(world))
    assert [one.decided[0].values for one in ada.inputs[1:]] == [{"approved": True}] * 2
    assert (await asking.now(request)).resume is ResumeStatus.ACCEPTED
    assert await asking.audit() == ["asked", "decided", "resumed", "resumed"]


async def test_a_bundle_waits_and_goes_on_as_one_and_newer_messages_come_apart(world: World) -> None:
    ada, asking = Scripted(says("Pushed.")), Asking(world)
    ada.scripts.append(ends(APPROVAL))
    async with playing(world, hired("ada", ada)) as show:
        root, second = await bundled(world, show)
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        assert {await status(world, one) for one in (root, second)} == {InboxStatus.WAITING}
        await show.stop()
        third = await world.says("three", thread=root)
        await asking.decide(request)
        show.begin()
        await show.over(root, 3)
    assert [len(one.messages) for one in ada.inputs] == [2, 0, 1]
    assert [message.text for message in ada.inputs[1].history] == ["swarm#ada one", "swarm#ada two"]
    assert [len(one.decided) for one in ada.inputs] == [0, 1, 0]
    assert {await status(world, one) for one in (root, second, third)} == {InboxStatus.RESPONDED}


# What ends requests otherwise


async def test_stop_withdraws_what_is_open_and_stops_what_waits(world: World) -> None:
    ada, asking = Scripted(), Asking(world)
    ada.scripts.append(ends(APPROVAL))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await world.says("!stop", thread=root)
        (stopped,) = await show.runs(root)
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "stopped by <@U1>")
    assert (stopped.status, await status(world, root)) == (RunStatus.STOPPED, InboxStatus.DISMISSED)


@pytest.mark.both_engines
async def test_a_deleted_message_withdraws_its_request_and_frees_the_rest_of_its_bundle(world: World) -> None:
    ada, asking = Scripted(says("Done.")), Asking(world)
    ada.scripts.append(ends(APPROVAL))
    async with playing(world, hired("ada", ada)) as show:
        root, second = await bundled(world, show)
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await world.ingest.handle(MessageDeleted(channel=root.channel, ts=root.ts, thread_ts=None, event_id="E1"))
        await world.sweep()
        await show.over(root, 2)
    assert (await asking.now(request)).status is RequestStatus.CANCELLED
    assert ada.inputs[1].decided == ()
    assert await status(world, second) is InboxStatus.RESPONDED


async def test_a_cancelled_task_withdraws_its_request(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    task_id = (await asked_and_handed(world, lead, worker)).task_id
    asking = Asking(world)
    asking.lead = worker
    request = await asking.ask(await world.only(worker))
    assert request.task_id == task_id
    await world.services.tasks.cancel(None, task_id, "not needed")
    await world.sweep()
    assert (await asking.now(request)).status is RequestStatus.CANCELLED


# Cards


@pytest.mark.req("HITL-06")
async def test_there_is_one_card_which_follows_the_decision_from_any_door(asking: Asking, world: World) -> None:
    request = await asking.ask()
    await world.send()
    wish = Decide(request_id=request.id, decision=D.APPROVE, door=EntryPoint.HTTP)
    await world.services.decisions.decide(wish)
    await world.send()
    drawn = [(done.kind, done.request.status) for done in world.slack.landed if done.request]
    assert drawn == [(DeliveryKind.POST, RequestStatus.OPEN), (DeliveryKind.UPDATE, RequestStatus.APPROVED)]
    assert await world.services.requests.cards(request.id)


@pytest.mark.both_engines
async def test_who_may_decide_is_told_directly_reminded_once_and_decides_there(world: World) -> None:
    policy = DecisionPolicy(users=("U2",), groups=("S1",), need=2, direct_message=True)
    world.slack.groups["S1"] = frozenset({"U2", "U3"})
    asking = Asking(world.governed_by(governing(decisions=(DecisionRule(**asdict(policy)),))))
    await asking.begin()
    request = await asking.ask()
    await asking.world.sweep()
    await world.send()
    cards = [done for done in world.slack.landed if done.request and done.kind is DeliveryKind.POST]
    assert [(card.channel, card.thread_ts) for card in cards] == [("C1", asking.root.ts), ("U2", None), ("U3", None)]
    assert [card.asked_in for card in cards] == [None, ("C1", asking.root.ts), ("C1", asking.root.ts)]
    await asking.decide(request, by="U3")
    await asking.world.later(DAY / 2 + 1)
    await asking.world.later(DAY / 4)
    await world.send()
    reminders = [done.channel for done in world.slack.landed if done.text.startswith("⏰")]
    assert reminders == ["U2"]
    wish = Decide(request_id=request.id, decision=D.APPROVE, person="U2", door=EntryPoint.SLACK)
    place = ("U2", world.slack.timestamps[cards[1].id])
    with pytest.raises(NotFound):
        await asking.world.services.decisions.decide(wish, (place[0], "1.1"))
    assert (await asking.world.services.decisions.decide(wish, place)).status is RequestStatus.APPROVED
    await world.send()
    updated = {done.channel for done in world.slack.landed if done.kind is DeliveryKind.UPDATE and done.request}
    assert updated == {"C1", "U2", "U3"}
    said = await world.rows("SELECT channel FROM thread_messages")
    assert {row["channel"] for row in said} == {"C1"}


# Read before it is approved


LONG_CALL = ToolRequest(name="shell", arguments={"command": "ls\n" * 30_000 + "rm -rf /"})


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize("decision", [D.APPROVE, D.EDIT, D.APPROVE_ALWAYS])
async def test_an_approval_in_slack_counts_after_all_pages_were_shown_in_order(decision: D, asking: Asking) -> None:
    request = await asking.ask(tool=LONG_CALL, decisions=(D.APPROVE, D.EDIT, D.APPROVE_ALWAYS, D.REJECT))
    decisions, pages = asking.world.services.decisions, len(reading_pages(request))
    assert pages > 1
    for page in range(1, pages + 1):
        with pytest.raises(NotRead):
            await asking.decide(request, decision)
        _, drafts = await decisions.show(request.id, "U1")
        await decisions.keep(request.id, "U1", with_page_read(request, drafts, page))
    arguments = {"command": "ls"} if decision is D.EDIT else None
    assert (await asking.decide(request, decision, arguments=arguments)).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-10")
async def test_each_of_several_approvers_reads_and_reads_anew_what_another_has_changed(world: World) -> None:
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    asking = Asking(world)
    await asking.begin()
    request = await asking.ask(tool=LONG_CALL, policy=policy, decisions=(D.APPROVE, D.EDIT, D.REJECT))

    async def read(person: str) -> None:
        now = await asking.now(request)
        drafts: dict[str, Any] = {}
        for page in range(1, len(reading_pages(now)) + 1):
            drafts = with_page_read(now, drafts, page)
        await asking.world.services.decisions.keep(request.id, person, drafts)

    await read("U1")
    await read("U2")
    await asking.decide(request, D.EDIT, arguments={"command": "echo\n" * 1_900})
    with pytest.raises(NotRead):
        await asking.decide(request, by="U2")
    await read("U2")
    assert (await asking.decide(request, by="U2")).arguments == {"command": "echo\n" * 1_900}


@pytest.mark.req("HITL-10")
async def test_the_operator_and_a_rejection_need_no_reading(asking: Asking) -> None:
    request = await asking.ask(tool=LONG_CALL)
    wish = Decide(request_id=request.id, decision=D.APPROVE, door=EntryPoint.CLI)
    assert (await asking.world.services.decisions.decide(wish)).status is RequestStatus.APPROVED
    await asking.begin(f"{BOT} hello again")
    assert (await asking.decide(await asking.ask(tool=LONG_CALL), D.REJECT)).status is RequestStatus.REJECTED


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"tool": ToolRequest(name="t", arguments={"a": "x" * 262_144})}, "tool.arguments"),
        ({"tool": ToolRequest(name="t", diffs=(FileDiff(path="a", new="x\n" * 100_000),))}, "tool.diffs"),
        ({"tool": ToolRequest(name="t", locations=("x" * 262_144,))}, "tool.diffs"),
        ({"tool": ToolRequest(name="t", diffs=(FileDiff(path="a"),)), "decisions": (D.EDIT,)}, "decisions"),
        ({"prompt": "x" * 10_001}, "prompt"),
    ],
)
async def test_what_is_too_long_to_be_read_is_refused_to_the_asker(
    more: dict[str, Any], problem: str, asking: Asking
) -> None:
    with pytest.raises(Invalid) as refused:
        await asking.ask(**more)
    assert list(refused.value.fields) == [problem]
    whole = FileDiff(path="a", old="line\n" * 40_000, new="line\n" * 40_000 + "one more\n")
    assert (await asking.ask(tool=ToolRequest(name="t", diffs=(whole,)))).is_open, "whole files with a small change"


# Words


@pytest.mark.req("HITL-02")
async def test_words_answer_the_only_text_of_who_may_decide(asking: Asking, world: World) -> None:
    fields = (FormField(name="why", type=FieldType.TEXTAREA, required=True),)
    request = await asking.ask(fields=fields, decisions=(D.ANSWER, D.REJECT))
    other = await world.says("because I say so", thread=asking.root, by="U2")
    assert (await asking.now(request)).is_open
    assert await status(world, other) is InboxStatus.UNREAD
    answer = await world.says("because", thread=asking.root)
    now = await asking.now(request)
    assert (now.status, now.values) == (RequestStatus.ANSWERED, {"why": "because"})
    assert await world.inbox_messages(answer) == []
    await world.send()
    assert (answer.ts, "white_check_mark") in world.slack.reactions
    whispers = [done.person for done in world.slack.landed if done.person]
    assert whispers == ["U2"]


@pytest.mark.req("HITL-02")
async def test_a_form_of_choices_is_not_answered_in_words(asking: Asking, world: World) -> None:
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT))
    words = await world.says("code", thread=asking.root)
    assert (await asking.now(request)).is_open
    assert await status(world, words) is InboxStatus.UNREAD
    assert await status(world, asking.root) is InboxStatus.WAITING


# Grants


@pytest.mark.both_engines
@pytest.mark.req("HITL-07", "HITL-08")
async def test_a_grant_for_the_thread_decides_there_until_it_is_revoked(world: World) -> None:
    ada, asking = Scripted(), Asking(world)
    ada.usual = lambda run: ends(APPROVAL)(run) if not run.decided else says("Pushed.")(run)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await asking.decide(request, D.APPROVE_THREAD)
        await show.over(root, 2)
        again = await world.says("push again", thread=root)
        await show.over(root, 4)
        assert await status(world, again) is InboxStatus.RESPONDED
        elsewhere = await world.says(f"{BOT} push here")
        (waiting,) = await show.over(elsewhere)
        assert waiting.status is RunStatus.WAITING
        (grant,) = await world.services.requests.grants(10)
        assert (grant.tool, grant.uses, grant.given_by) == ("git_push", 1, "U1")
        await world.services.requests.revoke(grant.id)
        await world.says("once more", thread=root)
        assert (await show.over(root, 5))[-1].status is RunStatus.WAITING
    with pytest.raises(Conflict):
        await world.services.requests.revoke(grant.id)
    kinds = await asking.audit()
    assert [kind for kind in kinds if kind in ("granted", "used", "revoked")] == ["granted", "used", "revoked"]


@pytest.mark.req("HITL-07")
async def test_a_grant_for_always_decides_everywhere_until_it_expires(asking: Asking, world: World) -> None:
    await asking.decide(await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS)), D.APPROVE_ALWAYS)
    await asking.begin()
    assert (await asking.ask(tool=PUSH, key="other")).status is RequestStatus.APPROVED
    assert await status(world, asking.root) is InboxStatus.CLAIMED
    assert (await asking.ask(tool=replace(PUSH, name="shell"), key="shell", wait=True)).is_open
    world.clock.advance(91 * DAY)
    await asking.begin()
    assert (await asking.ask(tool=PUSH, key="late")).is_open


@pytest.mark.req("HITL-02")
async def test_a_built_in_agents_question_ends_with_its_next_run_and_its_message_is_not_run_again(world: World) -> None:
    ada, asking = Scripted(says("Something else.")), Asking(world)
    ada.scripts.append(ends(APPROVAL))
    async with playing(world, hired("ada", ada, reach=Reach.BUILTIN)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await world.says("what time is it?", thread=root)
        await show.over(root, 2)
        await world.sweep()
        found = await show.runs(root)
    now = await asking.now(request)
    assert (now.status, now.reason) == (RequestStatus.CANCELLED, "people wrote something else")
    assert [one.status for one in found] == [RunStatus.SUPERSEDED, RunStatus.ANSWERED]
    assert await status(world, root) is InboxStatus.DISMISSED
    assert len(ada.inputs) == 2


# Who gets the work


async def test_the_decision_goes_with_the_work_to_another_agent(asking: Asking, world: World) -> None:
    request = await asking.ask()
    other = await world.lead("other")
    await world.services.agents.revoke(asking.lead.id)
    await asking.decide(request)
    await world.sweep()
    (again,) = [trigger for trigger in await world.poll(other) if is_work(trigger)]
    assert [one.id for one in again.requests] == [request.id]
    assert "What people have decided" in again.prompt
    await world.services.work.finish(other, [again.lease_token], FinishOutcome.DISMISSED, "not mine")


# Helpers


async def bundled(world: World, show: Show) -> tuple[SlackMessage, SlackMessage]:
    """Two messages of one thread that one run gets."""
    await show.stop()
    root = await world.says("swarm#ada one")
    second = await world.says("swarm#ada two", thread=root)
    show.begin()
    return root, second


async def resumed(world: World, act: Any) -> list[RunInput]:
    """The inputs of a run that asks for an approval, and of the run that continues it."""
    ada, asking = Scripted(says("Pushed.")), Asking(world)
    ada.scripts.append(ends(APPROVAL))
    async with playing(world, hired("ada", ada)) as show:
        root: SlackMessage = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await act(asking, request)
        await show.over(root, 2)
    return ada.inputs
