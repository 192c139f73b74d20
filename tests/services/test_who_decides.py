"""Who decides on requests: strangers only where they are named, grants for one's own work, and words as labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.domain.answers.events import Interrupted
from swarm.domain.errors import Forbidden, Unavailable
from swarm.domain.model.agents import Reach, Role
from swarm.domain.model.grants import GrantCovers
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import (
    Decide,
    DecisionPolicy,
    EntryPoint,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    RequestStatus,
)
from swarm.domain.model.threads import Standing
from swarm.domain.model.triggers import StartedBy, Trigger
from swarm.domain.policy.access import Person
from swarm.domain.policy.channels import ChannelPolicy, External
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.store import agents, requests
from swarm.store.threads import people
from tests.services.test_homes import Tabs
from tests.services.test_requests import APPROVAL, FORM, PUSH, Asking
from tests.support.conversing import status
from tests.support.live import Scripted, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.tasks import is_work
from tests.support.world import BOT, World, edit, said

D = HumanDecision
DAY = 24 * 3600
GRANTABLE: dict[str, Any] = {"tool": PUSH, "decisions": (D.APPROVE, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)}

pytestmark = pytest.mark.req("HITL-11")


@pytest.fixture
def allowing(world: World) -> World:
    """Strangers are allowed in C1: G1 is a guest, and X1 belongs to another workspace."""
    world.slack.persons |= {
        "UG1": Person(id="UG1", name="gina", teams=("T1",), is_guest=True),
        "UX1": Person(id="UX1", name="eve", teams=("T9",), is_stranger=True),
    }
    return world.governed_by(governing(channels={"C1": ChannelPolicy(external=External.ALLOW)}))


async def asked_by(world: World, *people: str) -> tuple[Asking, Trigger]:
    """A lead at work on one bundle of messages, one of each of these people."""
    asking = Asking(world)
    asking.lead = await world.lead()
    asking.root = await world.says(f"{BOT} push", by=people[0])
    for one in people[1:]:
        await world.says("yes, push", thread=asking.root, by=one)
    (asking.trigger,) = [trigger for trigger in await world.poll(asking.lead) if is_work(trigger)]
    assert len(asking.trigger.inbox_messages) == len(people)
    return asking, asking.trigger


async def refused(asking: Asking, request: HumanRequest, by: str, decision: D = D.APPROVE, **more: Any) -> str:
    with pytest.raises(Forbidden) as error:
        await asking.decide(request, decision, by=by, **more)
    assert (await asking.now(request)).is_open
    return error.value.message


# Strangers


@pytest.mark.req("CHAN-11")
@pytest.mark.parametrize("stranger", ["UG1", "UX1"])
@pytest.mark.parametrize("wait", [False, True])
async def test_strangers_do_not_approve_what_they_asked_for_but_any_member_does(
    wait: bool, stranger: str, allowing: World
) -> None:
    asking, _ = await asked_by(allowing, stranger)
    request = await asking.ask(**GRANTABLE, wait=wait)
    assert await refused(asking, request, stranger) == "You asked for this, so somebody else has to decide."
    other = {"UG1": "UX1", "UX1": "UG1"}[stranger]
    assert await refused(asking, request, other) == "Only members of this workspace can decide this."
    assert (await asking.decide(request, by="U7")).status is RequestStatus.APPROVED


@pytest.mark.req("CHAN-11")
@pytest.mark.parametrize("reach", [Reach.BUILTIN, Reach.AGUI])
async def test_a_strangers_press_does_not_continue_a_run(reach: Reach, allowing: World) -> None:
    ada, asking = Scripted(says("Pushed.")), Asking(allowing)
    ada.scripts.append(ends(APPROVAL))
    async with playing(allowing, hired("ada", ada, reach=reach)) as show:
        root = await allowing.says(f"{BOT} push", by="UG1")
        (run,) = await show.over(root)
        (request,) = await allowing.database.read(requests.of_run, run.id)
        await refused(asking, request, "UG1")
        assert (await asking.decide(request, by="U7")).status is RequestStatus.APPROVED
        await show.over(root, 2)
    assert ada.inputs[1].decided[0].decision is D.APPROVE


@pytest.mark.req("CHAN-11")
async def test_of_a_bundle_only_its_member_decides_and_their_rejection_ends_it(allowing: World) -> None:
    asking, trigger = await asked_by(allowing, "UG1", "U1")
    assert trigger.started_by is StartedBy.STRANGERS
    request = await asking.ask(**GRANTABLE)
    assert request.requesters == ("UG1", "U1")
    await refused(asking, request, "UG1")
    tabs = Tabs(allowing)
    for person, count in (("UG1", 0), ("U1", 1)):  # Home lists what somebody may decide
        await tabs.open(person)
        assert len(tabs.last.decisions) == count
    assert (await asking.decide(request, D.REJECT, by="U1")).status is RequestStatus.REJECTED


async def test_strangers_decide_where_they_are_named(allowing: World) -> None:
    allowing.slack.groups["S1"] = frozenset({"UX1"})
    allowing.rule(DecisionRule(users=("UG1",), groups=("S1",)))
    asking, _ = await asked_by(allowing, "U1")
    for by in ("UG1", "UX1"):
        request = await asking.ask(key=by, wait=True)
        assert (await asking.decide(request, by=by)).status is RequestStatus.APPROVED


async def test_not_the_requester_means_another_member(allowing: World) -> None:
    asking, _ = await asked_by(allowing, "U1")
    request = await asking.ask(policy=DecisionPolicy(not_requester=True))
    for by in ("UG1", "UX1", "U1"):
        await refused(asking, request, by)
    allowing.slack.persons["UNOBODY"] = None
    wish = Decide(request_id=request.id, decision=D.APPROVE, person="UNOBODY", door=EntryPoint.SLACK)
    with pytest.raises(Unavailable, match="Try again"):
        await allowing.services.decisions.decide(wish)
    assert (await asking.now(request)).is_open


@pytest.mark.req("CHAN-11")
@pytest.mark.parametrize("authors", [("UG1",), ("UX1",), ("U1", "UG1"), ("UG1", "U1")])
async def test_strangers_work_uses_no_members_grant(authors: tuple[str, ...], allowing: World) -> None:
    allowing.rule(DecisionRule(users=("U1",), requester=True))
    asking, _ = await asked_by(allowing, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS)
    await asking.begin()
    await asking.decide(await asking.ask(**GRANTABLE | {"tool": replace(PUSH, name="other")}), D.APPROVE_ALWAYS,
                        for_everybody=True)  # fmt: skip
    asking.root = await allowing.says(f"{BOT} push", by=authors[0])
    for one in authors[1:]:
        await allowing.says("push", thread=asking.root, by=one)
    (trigger,) = [one for one in await allowing.poll(asking.lead) if is_work(one) and one.inbox_messages[0].user.id in
                  authors and one.inbox_messages[0].ts == asking.root.ts]  # fmt: skip
    for name in (PUSH.name, "other"):
        assert (await asking.ask(trigger, key=name, wait=True, tool=replace(PUSH, name=name))).is_open


# Grants


async def test_a_requesters_grant_covers_only_their_own_work(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS)
    (grant,) = await world.services.requests.grants(10)
    assert (grant.covers, grant.given_by, grant.tool) == (GrantCovers.GIVER, "U1", "git_push")
    for number, (by, is_open) in enumerate([("U1", False), ("U2", True)]):
        root = await world.says(f"{BOT} push", by=by)
        (trigger,) = [one for one in await world.poll(asking.lead) if is_work(one) and
                      one.inbox_messages[0].ts == root.ts]  # fmt: skip
        tool = replace(PUSH, name="Git_Push ")  # spelt in another way
        assert (await asking.ask(trigger, key=f"k{number}", tool=tool)).is_open is is_open


async def test_a_bundle_with_anothers_words_uses_no_requesters_grant(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS)
    asking.root = await world.says(f"{BOT} push", by="U1")
    await world.says("push", thread=asking.root, by="U2")
    (trigger,) = [one for one in await world.poll(asking.lead) if len(one.inbox_messages) == 2]
    assert (await asking.ask(trigger, key="q2", tool=PUSH)).is_open


@pytest.mark.parametrize("decision", [D.APPROVE_THREAD, D.APPROVE_ALWAYS])
async def test_who_may_not_give_a_grant_is_told_what_they_can_do(decision: D, world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    policy = DecisionPolicy(users=("U2",), requester=True)  # the asker's own, which is no rule of the operator's
    request = await asking.ask(**GRANTABLE, policy=policy)
    assert "You can approve this call" in await refused(asking, request, "U2", decision)
    assert "for your own work" in await refused(asking, request, "U1", D.APPROVE_ALWAYS, for_everybody=True)
    assert await world.services.requests.grants(10) == []
    assert (await asking.decide(request, by="U2")).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-07", "HITL-08")
@pytest.mark.parametrize("by", ["U2", "U3", "operator"])
async def test_a_grant_for_everybody_comes_from_the_operator_and_from_people_named_in_rules(
    by: str, world: World
) -> None:
    world.slack.groups["S1"] = frozenset({"U3"})
    world.rule(DecisionRule(users=("U2",), groups=("S1",), tool="GIT_*"))
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS, by=by)
    (grant,) = await world.services.requests.grants(10)
    assert grant.covers is GrantCovers.EVERYBODY
    await world.says(f"{BOT} push", by="U9")
    (trigger,) = [one for one in await world.poll(asking.lead) if is_work(one) and
                  one.inbox_messages[0].user.id == "U9"]  # fmt: skip
    assert (await asking.ask(trigger, key="q2", tool=PUSH)).status is RequestStatus.APPROVED
    assert (await asking.audit()).count("used") == 1


@pytest.mark.parametrize("standing", [Standing.GUEST, Standing.UNVERIFIED])
async def test_a_grant_ends_with_its_givers_membership(standing: Standing, world: World) -> None:
    world.rule(DecisionRule(users=("U2",), tool="git_*"))
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS, by="U2")
    await world.database.write(people.put, "T1", "U2", standing)
    await world.says(f"{BOT} push", by="U9")
    (trigger,) = [one for one in await world.poll(asking.lead) if is_work(one) and
                  one.inbox_messages[0].user.id == "U9"]  # fmt: skip
    assert (await asking.ask(trigger, key="q2", tool=PUSH)).is_open


async def test_four_eyes_are_not_passed_by_ones_own_grant_for_everybody(world: World) -> None:
    rule = DecisionRule(users=("U1", "U2"), not_requester=True)
    world.rule(rule)
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS, by="U2")
    await world.says(f"{BOT} push", by="U2")
    (trigger,) = [one for one in await world.poll(asking.lead) if is_work(one) and
                  one.inbox_messages[0].user.id == "U2"]  # fmt: skip
    assert (await asking.ask(trigger, key="q2", tool=PUSH)).is_open


async def test_a_granted_call_says_once_per_run_and_tool_whose_grant_decided(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    await asking.decide(await asking.ask(**GRANTABLE), D.APPROVE_ALWAYS)
    await asking.begin()
    for branch in ("a", "b"):
        await asking.ask(key=branch, tool=replace(PUSH, arguments={"branch": branch}), wait=True)
    await world.send()
    notes = [done.text for done in world.slack.landed if "grant" in done.text]
    assert notes == ["✋ Allowed by <@U1>'s grant: git_push"]


async def test_a_granted_run_says_whose_grant_decided(world: World) -> None:
    ada, asking = Scripted(), Asking(world)
    ada.usual = lambda run: ends(APPROVAL)(run) if not run.decided else says("Pushed.")(run)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
        (request,) = await world.database.read(requests.of_run, run.id)
        await asking.decide(request, D.APPROVE_ALWAYS)
        await show.over(root, 2)
        again = await world.says(f"{BOT} push")
        await show.over(again, 2)
        await world.send()
    assert [done.text for done in world.slack.landed if "'s grant" in done.text] == [
        "✋ Allowed by <@U1>'s grant: git_push"
    ]


# Words


@pytest.mark.req("HITL-13", "HITL-02")
@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("approve", RequestStatus.APPROVED),
        (f"{BOT} Approve ", RequestStatus.APPROVED),
        ("REJECT", RequestStatus.REJECTED),
        ("approve it", RequestStatus.OPEN),
        ("yes", RequestStatus.OPEN),
        ("allow here", RequestStatus.OPEN),
        ("approve\nreject", RequestStatus.OPEN),
    ],
)
@pytest.mark.parametrize("new", [{}, GRANTABLE, {"fields": (FormField(name="note"),)}])
async def test_a_label_decides_like_its_button(
    new: dict[str, Any], words: str, result: RequestStatus, world: World
) -> None:
    asking, _ = await asked_by(world, "U1")
    request = await asking.ask(**new)
    message = await world.says(words, thread=asking.root)
    assert (await asking.now(request)).status is result
    assert await status(world, asking.root) is (
        InboxStatus.WAITING if result is RequestStatus.OPEN else InboxStatus.UNREAD
    )
    assert bool(await world.inbox_messages(message)) is (result is RequestStatus.OPEN)


@pytest.mark.req("HITL-13")
@pytest.mark.parametrize("how", ["bystander", "edit", "forward", "guest", "two", "required", "four eyes"])
async def test_a_label_decides_nothing_where_the_button_is_not_theirs_alone(how: str, allowing: World) -> None:
    world = allowing
    asking, _ = await asked_by(world, "U1")
    policies = {
        "guest": DecisionPolicy(users=("UG1",)),
        "four eyes": DecisionPolicy(not_requester=True),
        "required": DecisionPolicy(requester=True),
    }
    new: dict[str, Any] = {"policy": policies[how]} if how in policies else {}
    if how == "required":
        new["fields"] = FORM
    request = await asking.ask(**new, wait=True)
    if how == "two":
        await asking.ask(key="q2", wait=True)
    by = {"bystander": "U2", "guest": "UG1"}.get(how, "U1")
    message = said("approve", by=by, thread_ts=asking.root.ts)
    if how == "forward":
        message = replace(message, quoted="approve")
    if how == "edit":
        message = await world.says("no idea", thread=asking.root)
        await world.ingest.handle(edit(message, f"{BOT} approve"))
    else:
        await world.hears(message)
    assert (await asking.now(request)).is_open
    assert (await asking.audit()).count("decided") == 0


@pytest.mark.req("HITL-13")
async def test_a_label_of_the_second_approver_counts_and_the_first_counts_once(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT), policy=policy)
    await asking.decide(request, D.ANSWER, values={"part": "code"})
    await world.says("approve", thread=asking.root, by="U1")
    assert (await asking.now(request)).is_open
    await world.says("approve", thread=asking.root, by="U2")
    now = await asking.now(request)
    assert (now.status, now.values) == (RequestStatus.ANSWERED, {"part": "code"})


@pytest.mark.req("HITL-13", "HITL-02")
async def test_a_remark_of_somebody_else_is_no_answer_unless_it_says_so(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    fields = (FormField(name="why", type=FieldType.TEXTAREA, required=True),)
    policy = DecisionPolicy(not_requester=True)
    request = await asking.ask(fields=fields, decisions=(D.ANSWER, D.REJECT), policy=policy)
    remark = await world.says("interesting", thread=asking.root, by="U2")
    assert (await asking.now(request)).is_open
    assert await status(world, remark) is InboxStatus.UNREAD
    await world.says("answer: because", thread=asking.root, by="U1")
    assert (await asking.now(request)).is_open
    await world.says("Answer:  because", thread=asking.root, by="U2")
    now = await asking.now(request)
    assert (now.status, now.values) == (RequestStatus.ANSWERED, {"why": "because"})


@pytest.mark.req("HITL-11", "HITL-06")
async def test_only_people_who_may_decide_get_the_card_as_a_direct_message(allowing: World) -> None:
    asking, _ = await asked_by(allowing, "UG1")
    await asking.ask(policy=DecisionPolicy(requester=True, users=("U2",), direct_message=True))
    await allowing.sweep()
    await allowing.send()
    assert [done.channel for done in allowing.slack.landed if done.request and done.thread_ts is None] == ["U2"]


@pytest.mark.req("HITL-13", "HITL-10")
@pytest.mark.parametrize("hides", ["arguments", "prompt"])
async def test_a_text_is_no_answer_to_what_the_card_does_not_show(hides: str, world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    fields = (FormField(name="why", type=FieldType.TEXTAREA, required=True),)
    long = (
        {"tool": replace(PUSH, arguments={"script": "x\n" * 3_000})}
        if hides == "arguments"
        else {"prompt": "x" * 3_000}
    )
    request = await asking.ask(fields=fields, decisions=(D.ANSWER, D.REJECT), **long)
    await world.says("because", thread=asking.root, by="U1")
    assert (await asking.now(request)).is_open


@pytest.mark.req("HITL-13")
async def test_others_are_told_privately_who_is_waited_for(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT))
    await world.says("hm", thread=asking.root, by="U1")
    await world.says("hm", thread=asking.root, by="U2")
    await world.send()
    assert {done.person: done.text for done in world.slack.landed if done.person} == {
        "U1": "✋ “May I?” still waits for you: use its buttons. I passed your message on as a new one.",
        "U2": "✋ “May I?” still waits: only <@U1> can decide it. I passed your message on as a new one.",
    }


# Presses


@pytest.mark.req("HITL-13")
async def test_a_form_is_for_who_may_decide_now(world: World) -> None:
    asking, _ = await asked_by(world, "U1")
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER, D.REJECT), expires_seconds=60)
    wish = Decide(request_id=request.id, decision=D.ANSWER, person="U1", door=EntryPoint.SLACK)
    assert (await world.services.decisions.fill_in(wish))[0].id == request.id
    with pytest.raises(Forbidden, match="Only <@U1> can decide this"):
        await world.services.decisions.fill_in(replace(wish, person="U2"))
    assert (await world.services.decisions.show(request.id, "U2"))[0].id == request.id, "everybody may read"
    world.clock.advance(61)
    with pytest.raises(Exception, match="too late"):
        await world.services.decisions.fill_in(wish)


# Names of agents


async def test_an_agent_that_has_a_reserved_name_keeps_it_and_no_new_one_gets_it(world: World) -> None:
    await world.lead("boss")
    await world.change("UPDATE agents SET name = 'operator'")
    found = await world.database.write(agents.ensure, "operator", Role.LEAD, "", (), Reach.POLLING)
    assert found.name == "operator"
    for name in ("system", "---"):
        with pytest.raises(Exception, match="Choose another one"):
            await world.services.agents.ensure(name, Role.WORKER, Reach.AGUI)
        with pytest.raises(Exception, match="Choose another one"):
            await world.database.write(agents.rename, "operator", name, Reach.POLLING)


async def test_a_run_whose_tools_name_misleads_fails_and_says_why(world: World) -> None:
    asked = replace(APPROVAL.asked[0], tool=replace(PUSH, name="git_pu\u200bsh"))
    ada = Scripted()
    ada.scripts.append(ends(Interrupted(asked=(asked,))))
    async with playing(world, hired("ada", ada)) as show:
        (run,) = await show.over(await world.says(f"{BOT} push"))
    assert "invisible characters" in (run.outcome_note or "")
