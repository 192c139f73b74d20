"""Attacks on requests to people: what must not be lost, stuck, executed twice, or shown, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from dataclasses import asdict, replace
from typing import Any

import pytest

from swarm.domain.answers.events import Asked, Interrupted
from swarm.domain.errors import Conflict, Invalid, SwarmError
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import (
    Decide,
    DecisionPolicy,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestAnswer,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
)
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.button_actions import SessionStopped
from swarm.domain.requests.edited_arguments import TOO_COSTLY
from swarm.domain.requests.shown import HIDDEN
from swarm.services.requests import deciding
from swarm.services.requests.human_requests import AskedWork
from swarm.slack.outgoing.request_cards import request_blocks
from swarm.store import requests, tasks
from swarm.store.bridge.transaction import Transaction
from tests.services.test_requests import FORM, PUSH, Asking
from tests.support.conversing import status
from tests.support.live import Scripted, ends, hired, playing, says
from tests.support.scan import places_of
from tests.support.schema_bombs import BOMBS, HARMLESS
from tests.support.tasks import asked_and_handed, is_work, work_of
from tests.support.world import BOT, World, delete, holding

D = HumanDecision
DAY = 24 * 3600

pytestmark = pytest.mark.req("HITL-03")


@pytest.fixture
async def asking(world: World) -> Asking:
    asking = Asking(world)
    await asking.begin()
    return asking


# Schemas of askers are untrusted


@pytest.mark.parametrize("dialect", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
async def test_a_schemas_pattern_cannot_keep_the_coordinator_busy(dialect: dict[str, str], asking: Asking) -> None:
    text = {**dialect, "type": "string", "pattern": "^(a+)+$"}
    schema = {"type": "object", "properties": {"a": {**dialect, "type": "object", "properties": {"b": text}}}}
    tool = ToolRequest(name="t", arguments={"a": {"b": "a"}}, schema=schema)
    request = await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT))
    async with asyncio.timeout(5):
        with pytest.raises(Invalid):
            await asking.decide(request, D.EDIT, arguments={"a": {"b": "a" * 40 + "!"}})
    now = await asking.decide(request, D.EDIT, arguments={"a": {"b": "aa"}})
    assert now.arguments == {"a": {"b": "aa"}}


def hidden(name: str) -> tuple[ToolRequest, dict[str, Any]]:
    """A call whose schema costs much only for other arguments than the shown ones, and such arguments."""
    schema, arguments = BOMBS[name]
    kept = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    known = {"properties": {"a": {}, "b": {}}, "if": {"required": ["quiet"]}, "then": {}, "else": schema}
    return ToolRequest(name="t", arguments={"quiet": True}, schema=known | kept), arguments


@pytest.mark.req("SEC-09")
@pytest.mark.parametrize("name", ["anyOf", "dependentSchemas", "dependencies", "propertyNames", "required"])
async def test_a_change_that_takes_too_long_to_check_is_refused_and_the_call_can_still_be_decided(
    name: str, asking: Asking
) -> None:
    tool, arguments = hidden(name)
    request = await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT, D.REJECT))
    with pytest.raises(Invalid) as refused:
        await asking.decide(request, D.EDIT, arguments=arguments)
    assert refused.value.fields == {"arguments": TOO_COSTLY}
    assert (await asking.decide(request)).status is RequestStatus.APPROVED


@pytest.mark.req("SEC-09")
async def test_an_asker_with_such_a_schema_reads_what_to_do(asking: Asking) -> None:
    schema, arguments = BOMBS["oneOf"]
    tool = ToolRequest(name="t", arguments=arguments, schema=schema)
    with pytest.raises(Invalid) as refused:
        await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT))
    assert refused.value.fields["tool.schema"].startswith("a simpler schema, or none")
    assert (await asking.ask(tool=tool, decisions=(D.APPROVE, D.REJECT))).is_open


@pytest.mark.both_engines
@pytest.mark.req("SEC-09")
async def test_while_arguments_are_checked_everything_else_is_written(
    asking: Asking, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.EDIT))
    checking, goes_on, checked = threading.Event(), threading.Event(), deciding._checked

    def slowly(request: HumanRequest, wish: Decide) -> RequestAnswer | SwarmError:
        checking.set()
        assert goes_on.wait(30)
        return checked(request, wish)

    monkeypatch.setattr(deciding, "_checked", slowly)
    decision = asyncio.create_task(asking.decide(request, D.EDIT, arguments={"branch": "dev"}))
    try:
        async with asyncio.timeout(20):
            assert await asyncio.to_thread(checking.wait, 10)
            await world.says(f"{BOT} and what else?")
    finally:
        goes_on.set()
    assert (await decision).arguments == {"branch": "dev"}


@pytest.mark.req("SEC-09")
async def test_what_was_checked_counts_only_for_the_question_as_it_was(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    request = await asking.ask(fields=FORM, decisions=(D.ANSWER,), policy=policy)
    checked, begun, goes_on = deciding._checked, threading.Event(), threading.Event()

    def slowly(request: HumanRequest, wish: Decide) -> RequestAnswer | SwarmError:
        if wish.person == "U2":
            begun.set()
            assert goes_on.wait(30)
        return checked(request, wish)

    monkeypatch.setattr(deciding, "_checked", slowly)
    second = asyncio.create_task(asking.decide(request, D.ANSWER, "U2", values={"part": "tests"}))
    assert await asyncio.to_thread(begun.wait, 10)
    await asking.decide(request, D.ANSWER, "U1", values={"part": "code"})
    goes_on.set()
    with pytest.raises(Conflict, match="has changed since"):
        await second
    assert (await asking.now(request)).is_open


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize("name", HARMLESS)
async def test_a_change_that_only_the_asker_can_check_reaches_the_asker(name: str, asking: Asking) -> None:
    schema, arguments = HARMLESS[name]
    request = await asking.ask(tool=ToolRequest(name="t", schema=schema), decisions=(D.APPROVE, D.EDIT))
    assert (await asking.decide(request, D.EDIT, arguments=arguments)).arguments == arguments


async def test_a_schema_loads_no_other_schema(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *given, **_: opened.append(given))
    schema = {"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/latest"}}}
    tool = ToolRequest(name="t", arguments={"a": "1"}, schema=schema)
    request = await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (await asking.decide(request, D.EDIT, arguments={"a": "2"})).arguments == {"a": "2"}
    assert opened == []


@pytest.mark.parametrize("part", [{"maxLength": "long"}, {"type": 5}, {"pattern": ["a"]}, {"minLength": None}])
async def test_a_schema_that_is_none_keeps_nobody_from_changing_arguments(part: dict[str, Any], asking: Asking) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": part}}}}
    tool = ToolRequest(name="t", arguments={"a": {"b": "1"}}, schema=schema)
    request = await asking.ask(tool=tool, decisions=(D.APPROVE, D.EDIT))
    now = await asking.decide(request, D.EDIT, arguments={"a": {"b": "2"}})
    assert now.arguments == {"a": {"b": "2"}}


# What cannot be stored


@pytest.mark.parametrize("kind", [FieldType.INTEGER, FieldType.NUMBER])
@pytest.mark.parametrize("value", [10**30, -(2**63) - 1, 2**64])
async def test_a_number_of_more_than_64_bits_is_a_problem_of_its_field(
    value: Any, kind: FieldType, asking: Asking
) -> None:
    request = await asking.ask(fields=(FormField(name="n", type=kind),), decisions=(D.ANSWER,))
    with pytest.raises(Invalid) as refused:
        await asking.decide(request, D.ANSWER, values={"n": value})
    assert set(refused.value.fields) == {"n"}


@pytest.mark.both_engines
@pytest.mark.parametrize(
    "new",
    [
        {"tool": ToolRequest(name="t", arguments={"n": 10**30})},
        {"tool": ToolRequest(name="t", arguments={"n": "\ud800"})},
        {"tool": ToolRequest(name="t\0")},
        {"title": "May\0I?"},
        {"title": "May\ud800I?"},
        {"agent_request_id": "a\0b"},
    ],
)
async def test_a_request_that_cannot_be_stored_is_invalid(new: dict[str, Any], asking: Asking) -> None:
    with pytest.raises(Invalid):
        await asking.ask(**new)


async def test_changed_arguments_that_cannot_be_stored_are_invalid(asking: Asking) -> None:
    request = await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.EDIT))
    with pytest.raises(Invalid):
        await asking.decide(request, D.EDIT, arguments={"branch": {"a": 10**30}, "force": [10**30]})


@pytest.mark.both_engines
@pytest.mark.parametrize(
    "asked",
    [
        tuple(Asked(id=f"i{n}", prompt="?") for n in range(21)),
        (Asked(id="i", prompt="?", fields=(FormField(name="a"), FormField(name="a"))),),
        (Asked(id="i", prompt="?", tool=ToolRequest(name="t", arguments={"a": "x" * 300_000})),),
        (Asked(id="i", prompt="?", tool=ToolRequest(name="t", arguments={"a": 10**30})),),
        (Asked(id="i", prompt="\ud800?"),),
        (Asked(id="i\0", prompt="?"),),
        (Asked(id="i", prompt="Push?"), Asked(id="i", prompt="Delete?")),
    ],
    ids=["many", "names", "long", "number", "surrogate", "nul", "ids"],
)
async def test_a_run_whose_question_cannot_be_shown_fails_once_and_says_why(
    asked: tuple[Asked, ...], world: World
) -> None:
    ada = Scripted(says("Done."))
    ada.scripts.append(ends(Interrupted(asked=asked)))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} push")
        (run,) = await show.over(root)
    assert (run.status, len(ada.inputs)) == (RunStatus.FAILED, 1)
    assert "the agent asks" in (run.outcome_note or "")
    assert await status(world, root) is InboxStatus.DEAD


# Words


@pytest.mark.req("HITL-02")
@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (FieldType.TEXTAREA, "a &lt; b &amp; c", "a < b & c"),
        (FieldType.TEXTAREA, f"{BOT} because", "because"),
        (FieldType.URL, "<https://a.b/c?d=1&amp;e=2>", "https://a.b/c?d=1&e=2"),
        (FieldType.EMAIL, "<mailto:ann@a.b|ann@a.b>", "ann@a.b"),
    ],
)
async def test_words_are_taken_as_they_were_written(kind: FieldType, said: str, value: str, asking: Asking) -> None:
    fields = (FormField(name="why", type=kind, required=True),)
    request = await asking.ask(fields=fields, decisions=(D.ANSWER, D.REJECT))
    await asking.world.says(said, thread=asking.root)
    assert (await asking.now(request)).values == {"why": value}


@pytest.mark.req("HITL-02")
async def test_other_words_than_the_first_persons_approve_nothing(asking: Asking) -> None:
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    fields = (FormField(name="colour", required=True),)
    request = await asking.ask(fields=fields, decisions=(D.ANSWER, D.REJECT), policy=policy)
    await asking.world.says("red", thread=asking.root)
    words = await asking.world.says("no, not red", thread=asking.root, by="U2")
    now = await asking.now(request)
    assert (now.is_open, [answer.person for answer in now.answers]) == (True, ["U1"])
    assert await status(asking.world, words) is InboxStatus.UNREAD


# Decisions are not lost


@pytest.mark.both_engines
async def test_the_decision_on_a_returned_task_goes_to_its_next_worker(world: World) -> None:
    asking, request, _ = await task_that_asks(world)
    await asking.decide(request)
    assert [one.id for one in (await work_of(world, asking.lead)).requests] == [request.id]
    other = await world.worker("other")
    await world.services.agents.revoke(asking.lead.id)
    await world.sweep()
    assert (await asking.now(request)).resume is ResumeStatus.SENT
    await world.services.tasks.assign(None, request.task_id or "", other.name)
    again = await work_of(world, other)
    assert [one.id for one in again.requests] == [request.id]
    assert "handed out before" in again.prompt


@pytest.mark.both_engines
@pytest.mark.parametrize("word", ["approve", "approve_always", "values", "branch", "arguments", "prompt", "requester"])
async def test_a_deleted_word_that_a_request_is_made_of_changes_only_its_texts(word: str, world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    said = await world.says(word, thread=asking.root)
    tool = replace(PUSH, arguments={"branch": f"say {word}"})
    decisions = (D.APPROVE, D.EDIT, D.APPROVE_ALWAYS)
    request = await asking.ask(tool=tool, decisions=decisions, prompt=f"Shall I {word}?", fields=FORM, key="q2")
    await asking.decide(request, values={"part": "code", "note": f"do {word}"})
    await world.ingest.handle(delete(said))
    await world.sweep()
    now = await asking.now(request)
    assert (now.status, now.decisions, now.policy) == (RequestStatus.APPROVED, decisions, request.policy)
    assert (now.prompt, now.values) == ("Shall I [deleted]?", {"part": "code", "note": "do [deleted]"})
    assert now.tool
    assert now.tool.arguments == {"branch": "say [deleted]"}


async def test_messages_that_waited_together_come_together_also_after_a_lost_lease(world: World) -> None:
    asking, trigger = await bundle_of_two(world)
    request = await asking.ask(trigger)
    await asking.decide(request)
    assert len((await work_of(world, asking.lead)).inbox_messages) == 2
    await world.later(130)
    again = await work_of(world, asking.lead)
    assert [one.id for one in again.inbox_messages] == [one.id for one in trigger.inbox_messages]
    assert [one.id for one in again.requests] == [request.id]


@pytest.mark.both_engines
@pytest.mark.parametrize("order", [1, -1])
async def test_two_questions_about_two_messages_of_one_run_are_answered_together(order: int, world: World) -> None:
    asking, trigger = await bundle_of_two(world)
    first = await asking.ask(trigger)
    second = await asking.ask(replace(trigger, inbox_messages=trigger.inbox_messages[1:]), key="q2")
    one, other = (first, second)[::order]
    await asking.decide(one)
    assert not [found for found in await world.poll(asking.lead) if is_work(found)]
    await asking.decide(other)
    again = await work_of(world, asking.lead)
    assert [one.id for one in again.inbox_messages] == [one.id for one in trigger.inbox_messages]
    assert {one.id for one in again.requests} == {first.id, second.id}


@pytest.mark.both_engines
async def test_retention_keeps_a_decision_as_long_as_its_work_waits(asking: Asking, world: World) -> None:
    first = await asking.ask(expires_seconds=None)
    second = await asking.ask(key="q2", expires_seconds=None)
    await asking.decide(first)
    world.clock.advance(400 * DAY)
    assert await world.database.write(forget_all) == 0
    await asking.decide(second)
    again = await work_of(world, asking.lead)
    assert [one.id for one in again.requests] == [first.id, second.id]
    await world.answers(asking.lead, again, "Done.")
    world.clock.advance(DAY)
    assert await world.database.write(forget_all) == 2


@pytest.mark.req("HITL-08")
async def test_a_button_that_the_request_does_not_have_is_an_attempt_in_the_audit(asking: Asking) -> None:
    request = await asking.ask(tool=PUSH)
    with pytest.raises(Invalid, match="does not allow"):
        await asking.decide(request, D.APPROVE_ALWAYS)
    assert await asking.audit() == ["asked", "refused"]


# Several people about one call


@pytest.mark.req("HITL-03", "HITL-04")
@pytest.mark.parametrize("first", [D.APPROVE, D.EDIT])
async def test_what_the_first_person_approved_is_not_changed_by_the_second(
    first: HumanDecision, asking: Asking, world: World
) -> None:
    request = await asking.ask(
        tool=PUSH, decisions=(D.APPROVE, D.EDIT, D.REJECT), policy=DecisionPolicy(users=("U2", "U3"), need=2)
    )
    approved = {"branch": "main" if first is D.APPROVE else "dev", "force": False}
    await asking.decide(request, first, by="U2", arguments=approved)
    now = await asking.now(request)
    assert "Change arguments" not in json.dumps(request_blocks(now))
    for decision in (D.EDIT, D.APPROVE):
        with pytest.raises(Conflict, match=r"Somebody has approved|not the arguments that were shown"):
            await asking.decide(request, decision, by="U3", arguments={"branch": "main", "force": True})
    await asking.decide(request, by="U3", arguments=approved)
    again = await work_of(world, asking.lead)
    (told,) = again.decisions
    assert (told.arguments or (told.tool and dict(told.tool.arguments))) == approved


@pytest.mark.req("HITL-03")
async def test_an_approval_and_a_change_at_once_do_not_approve_the_change(asking: Asking, world: World) -> None:
    request = await asking.ask(
        tool=PUSH, decisions=(D.APPROVE, D.EDIT, D.REJECT), policy=DecisionPolicy(users=("U2", "U3"), need=2)
    )
    changed = {"branch": "dev", "force": False}
    shown = dict(PUSH.arguments)
    results = await asyncio.gather(
        asking.decide(request, by="U2", arguments=shown),
        asking.decide(request, D.EDIT, by="U3", arguments=changed),
        return_exceptions=True,
    )
    assert [isinstance(one, Conflict) for one in results if isinstance(one, BaseException)] == [True]
    assert (await asking.now(request)).is_open


# Ids of the asker


@pytest.mark.req("HITL-04", "HITL-09")
async def test_an_id_that_is_used_for_another_call_does_not_return_its_approval(asking: Asking, world: World) -> None:
    async def ask(trigger: Trigger, **new: Any) -> HumanRequest:
        caller = replace(holding(trigger, asking.lead), request_id="1")
        work = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
        return await world.services.requests.ask(caller, work, NewRequest(key="k", **new), wait=False)

    request = await ask(asking.trigger, title="May I?", tool=PUSH)
    await asking.decide(request)
    again = await work_of(world, asking.lead)
    other = ToolRequest(name="git_push", arguments={"branch": "main", "force": True})
    for new in ({"title": "May I?", "tool": other}, {"title": "May I?"}, {"title": "Delete it?", "prompt": "All."}):
        with pytest.raises(Conflict, match="used for another one"):
            await ask(again, **new)
    assert (await ask(again, title="May I push?", tool=PUSH)).status is RequestStatus.APPROVED  # only said differently
    assert len(await world.services.requests.latest(None, 9)) == 1


# Grants


@pytest.mark.both_engines
@pytest.mark.req("HITL-07")
async def test_a_grant_does_not_decide_where_only_others_may(asking: Asking, world: World) -> None:
    await asking.decide(await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS)), D.APPROVE_ALWAYS)
    await asking.begin()
    assert (await asking.ask(tool=PUSH, policy=DecisionPolicy(users=("U2", "U3"), need=2))).is_open
    (grant,) = await world.services.requests.grants(10)
    assert grant.uses == 0


@pytest.mark.req("HITL-07")
async def test_a_grant_counts_under_the_policy_under_which_it_was_given(asking: Asking) -> None:
    policy = DecisionPolicy(users=("U2", "U3"))
    asking.world.rule(DecisionRule(**asdict(policy)))
    request = await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS), policy=policy)
    await asking.decide(request, D.APPROVE_ALWAYS, by="U2")
    await asking.begin()
    assert (await asking.ask(tool=PUSH, policy=policy)).status is RequestStatus.APPROVED
    await asking.begin()
    asking.world.rule(DecisionRule(users=("U4",)))
    assert (await asking.ask(tool=PUSH)).is_open


@pytest.mark.req("HITL-07")
async def test_the_grant_of_the_twelfth_person_counts_as_well(asking: Asking, world: World) -> None:
    people = [f"U{number}" for number in range(1, 13)]
    for person in people:
        await world.answers(asking.lead, asking.trigger, "Hello.")
        await world.says("push", thread=asking.root, by=person)
        asking.trigger = await work_of(world, asking.lead)
        request = await asking.ask(key=person, tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS))
        await asking.decide(request, D.APPROVE_ALWAYS, by=person)
        asking.trigger = await work_of(world, asking.lead)
    assert (await asking.ask(key="again", tool=PUSH)).status is RequestStatus.APPROVED


async def test_a_grant_fills_in_no_form(asking: Asking) -> None:
    await asking.decide(await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS)), D.APPROVE_ALWAYS)
    await asking.begin()
    assert (await asking.ask(tool=PUSH, fields=FORM)).is_open


# Calls that wait


@pytest.mark.both_engines
@pytest.mark.parametrize("is_swept", [True, False])
async def test_the_next_run_of_a_live_askers_work_asks_anew(is_swept: bool, asking: Asking, world: World) -> None:
    request = await asking.ask(wait=True)
    await world.later(130)
    again = await work_of(world, asking.lead)
    if is_swept:
        await world.sweep()
    second = await asking.ask(again, wait=True)
    assert (await asking.now(request)).status is RequestStatus.CANCELLED
    assert (second.is_open, second.id != request.id) == (True, True)
    await world.sweep()
    assert (await asking.now(second)).is_open


@pytest.mark.req("HITL-06")
async def test_the_next_run_is_told_that_a_waiting_call_got_the_decision_before(asking: Asking, world: World) -> None:
    request = await asking.ask(wait=True)
    await asking.decide(request)
    assert (await world.services.requests.get(asking.lead, request.id)).status is RequestStatus.APPROVED
    await world.later(130)
    again = await work_of(world, asking.lead)
    assert [one.id for one in again.requests] == [request.id]
    assert "handed out before" in again.prompt


@pytest.mark.req("HITL-06", "HITL-07")
async def test_the_next_run_is_told_that_a_grant_decided_before(asking: Asking, world: World) -> None:
    await asking.decide(await asking.ask(tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS)), D.APPROVE_ALWAYS)
    await world.answers(asking.lead, await work_of(world, asking.lead), "Pushed.")
    await asking.begin()
    assert (await asking.ask(tool=PUSH)).status is RequestStatus.APPROVED
    await world.later(130)
    assert "handed out before" in (await work_of(world, asking.lead)).prompt


# Work does not wait for ever


@pytest.mark.both_engines
async def test_the_second_question_of_a_run_keeps_no_message_of_its_bundle_waiting(world: World) -> None:
    asking, trigger = await bundle_of_two(world)
    first = await asking.ask(trigger)
    second = await asking.ask(trigger, key="q2")
    await asking.decide(first)
    await asking.decide(second)
    assert len((await work_of(world, asking.lead)).inbox_messages) == 2


@pytest.mark.both_engines
async def test_slacks_own_stop_also_stops_a_task_that_waits_for_a_decision(world: World) -> None:
    asking, request, root = await task_that_asks(world)
    stop = SessionStopped(key="Ev1", channel=root.channel, thread_ts=root.ts, user_id="U1", message_ts=())
    await world.turn_control.stop_session(stop)
    assert (await asking.now(request)).reason == "stopped by <@U1>"
    task = await world.database.read(tasks.get, request.task_id or "")
    assert task
    assert task.status is TaskStatus.CANCELLED


@pytest.mark.both_engines
async def test_a_task_waits_again_when_its_new_worker_asks_what_is_still_open(world: World) -> None:
    asking, request, _ = await task_that_asks(world)
    other = await world.worker("other")
    await world.services.agents.revoke(asking.lead.id)
    await world.sweep()
    await world.services.tasks.assign(None, request.task_id or "", other.name)
    again = await work_of(world, other)
    asking.lead = other
    assert (await asking.ask(again)).id == request.id
    task = await world.database.read(tasks.get, request.task_id or "")
    assert task
    assert task.status is TaskStatus.WAITING
    await asking.decide(request)
    assert [one.id for one in (await work_of(world, other)).requests] == [request.id]


# Secrets


async def test_another_agent_that_gets_the_work_does_not_get_the_secret(asking: Asking, world: World) -> None:
    fields = (FormField(name="pin", secret=True), FormField(name="note"))
    request = await asking.ask(fields=fields, decisions=(D.ANSWER,))
    other = await world.lead("other")
    await world.services.agents.revoke(asking.lead.id)
    await asking.decide(request, D.ANSWER, values={"pin": "hunter2", "note": "hello"})
    await world.sweep()
    (again,) = [trigger for trigger in await world.poll(other) if is_work(trigger)]
    assert again.decisions[0].values == {"pin": HIDDEN, "note": "hello"}
    assert "hunter2" not in again.prompt


# Erasure


@pytest.mark.both_engines
@pytest.mark.req("SEC-06")
async def test_nothing_of_a_forgotten_person_is_left_in_requests(asking: Asking, world: World) -> None:
    ann, word = "UANN0042", "zebra-4711"
    policy = DecisionPolicy(users=(ann, "U1"), need=2)
    fields = (FormField(name="note"), FormField(name="pin", secret=True))
    world.rule(DecisionRule(**asdict(policy)))
    request = await asking.ask(fields=fields, policy=policy, tool=PUSH, decisions=(D.APPROVE, D.APPROVE_ALWAYS))
    await world.services.decisions.keep(request.id, ann, {"note": word})
    await asking.decide(request, values={"note": "mine"})
    await asking.decide(request, D.APPROVE_ALWAYS, by=ann)
    other = await asking.ask(await work_of(world, asking.lead), key="q2", fields=fields, policy=policy)
    await world.services.decisions.keep(other.id, ann, {"note": word})
    await asking.decide(other, by=ann, values={"note": word, "pin": word})
    await world.change(f'UPDATE requests SET requesters = \'["U1","{ann}"]\'')
    await world.says("hello", thread=asking.root, by=ann)
    await world.services.people.forget(ann)
    assert await places_of(world.database, word, ann) == {}
    now = await asking.now(other)
    assert (now.is_open, len(now.answers), now.answers[0].values) == (True, 1, None)
    assert (await asking.now(request)).status is RequestStatus.APPROVED


# Helpers


async def task_that_asks(world: World) -> tuple[Asking, HumanRequest, SlackMessage]:
    """A worker that asks about its task."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    asking = Asking(world)
    asking.lead = worker
    return asking, await asking.ask(await world.only(worker)), handed.root


def forget_all(tx: Transaction) -> int:
    return requests.forget(tx, tx.now, 100)


async def bundle_of_two(world: World) -> tuple[Asking, Trigger]:
    """A polling agent that has got two messages of a thread in one trigger."""
    asking = Asking(world)
    await asking.begin()
    await world.answers(asking.lead, asking.trigger, "Hello.")
    for text in ("one", "two"):
        await world.says(text, thread=asking.root)
    trigger = await work_of(world, asking.lead)
    assert len(trigger.inbox_messages) == 2
    return asking, trigger
