"""Who decides, from outside: presses and words in the twin's Slack, through Bolt, with the real use cases behind."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from swarm.domain.model.requests import (
    Decide,
    DecisionPolicy,
    EntryPoint,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestStatus,
    ToolRequest,
)
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.channels import ChannelPolicy, External
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.button_actions import DECIDE_ACTION, FOR_EVERYBODY, FORM_ACTION
from swarm.services.requests.human_requests import AskedWork
from tests.contract.slack.test_door import eventually
from tests.contract.slack.test_strangers import Desk, desk
from tests.contract.slack.workspace import Workspace
from tests.support.policies import governing
from tests.support.world import holding

__all__ = ["desk"]

pytestmark = pytest.mark.req("HITL-13", "HITL-11")

D = HumanDecision
GRANTS = (D.APPROVE, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)
OUTDATED = "This has changed since you saw it, so your decision does not count. Read the card again, then decide."
PUSH = ToolRequest(name="git_push", arguments={"branch": "main"})


class Table:
    """A lead at the desk that asks people in #general, and what they do about it."""

    def __init__(self, desk: Desk, workspace: Workspace) -> None:
        self.desk = desk
        self.workspace = workspace

    async def open(self, *rules: DecisionRule) -> None:
        everywhere = ChannelPolicy(external=External.ALLOW)
        await self.desk.open(governing(everywhere=everywhere, decisions=rules))

    async def ask(self, *, by: str = "alice", wait: bool = False, **new: Any) -> HumanRequest:
        """Somebody writes, the lead asks for a permission, and its card is in the thread."""
        self.root = await self.workspace.say("@swarm push", user=by)

        async def work() -> Trigger | None:
            found = await self.desk.triggers()
            return next((one for one in found if one.inbox_messages and one.inbox_messages[0].ts == self.root), None)

        trigger: Trigger = await eventually(work)
        values: dict[str, Any] = {"key": "k", "title": "May I?", "tool": PUSH, "decisions": GRANTS}
        given = NewRequest(**(values | new))
        work_asked = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
        request = await self.desk.services.requests.ask(holding(trigger, self.desk.lead), work_asked, given, wait=wait)
        await self.desk.sender.send_due()
        return request

    async def card(self) -> dict[str, Any]:
        return (await self.workspace.messages(self.root))[-1]

    async def press(self, action: str, *, by: str) -> None:
        await self.workspace.act(user=by, ts=(await self.card())["ts"], action_id=action)

    async def told(self, by: str) -> list[str]:
        user = f"U000{by.upper()}" if by == "alice" else by
        return [one["text"] for one in await self.workspace.ephemerals() if one["user"].endswith(user.upper())]

    async def status(self, request: HumanRequest) -> RequestStatus:
        return (await self.desk.services.requests.get(None, request.id)).status


@pytest.fixture
async def table(desk: Desk, workspace: Workspace) -> Table:
    return Table(desk, workspace)


async def test_every_refused_press_is_answered_also_on_another_card(table: Table) -> None:
    await table.open()
    for count in (2, 4):
        await table.ask()
        await table.press(f"{DECIDE_ACTION}approve", by="bob")
        await table.press(f"{DECIDE_ACTION}reject", by="bob")
        assert await table.told("bob") == ["Only <@U000ALICE> can decide this."] * count


async def test_late_decided_and_strangers_presses_get_a_sentence(table: Table) -> None:
    await table.open()
    request = await table.ask(by="gina")
    await table.press(f"{DECIDE_ACTION}approve", by="gina")
    assert await table.told("gina") == ["You asked for this, so somebody else has to decide."]
    await table.press(f"{DECIDE_ACTION}approve", by="eve")
    assert await table.told("eve") == ["Only members of this workspace can decide this."]
    await table.press(f"{DECIDE_ACTION}approve", by="alice")
    assert await table.status(request) is RequestStatus.APPROVED
    await table.press(f"{DECIDE_ACTION}approve", by="bob")
    (text,) = await table.told("bob")
    assert text.startswith("This is decided already: approved by <@U000ALICE>")


async def test_a_form_opens_only_for_who_may_fill_it_in(table: Table, workspace: Workspace) -> None:
    await table.open()
    fields = tuple(FormField(name=f"f{number}") for number in range(8))
    request = await table.ask(fields=fields, tool=None, decisions=(D.ANSWER, D.REJECT))
    await table.press(FORM_ACTION, by="bob")
    assert await workspace.calls("views.open") == []
    assert await table.told("bob") == ["Only <@U000ALICE> can decide this."]
    await table.press(FORM_ACTION, by="alice")
    assert len(await workspace.calls("views.open")) == 1
    assert await table.status(request) is RequestStatus.OPEN


@pytest.mark.req("HITL-07")
async def test_both_kinds_of_grants_from_button_to_next_call(table: Table) -> None:
    rule = DecisionRule(users=("U00000BOB",), requester=True, tool="git_*")
    await table.open(rule)
    await table.ask()
    labels = [
        element["text"]["text"] for block in (await table.card())["blocks"] for element in block.get("elements", ())
        if element.get("type") == "button"
    ]  # fmt: skip
    assert labels == ["Approve", "Reject", "Allow here", "Allow for my work", "Allow for everybody"]
    await table.press(f"{DECIDE_ACTION}approve_always{FOR_EVERYBODY}", by="alice")
    assert "or allow it for your own work" in (await table.told("alice"))[-1]
    await table.press(f"{DECIDE_ACTION}approve_always", by="alice")
    assert (await table.ask(key="k2")).status is RequestStatus.APPROVED
    assert (await table.card())["text"] == "✋ Allowed by @alice's grant: git_push"
    carol = await table.ask(by="carol", key="k3")
    assert carol.is_open
    await table.press(f"{DECIDE_ACTION}approve_always{FOR_EVERYBODY}", by="bob")
    assert await table.status(carol) is RequestStatus.APPROVED
    assert (await table.ask(by="carol", key="k4")).status is RequestStatus.APPROVED
    assert "@bob's grant" in (await table.card())["text"]
    grants = await table.desk.services.requests.grants(10)
    assert [(grant.covers.value, grant.given_by, grant.uses) for grant in reversed(grants)] == [
        ("giver", "U000ALICE", 1), ("everybody", "U00000BOB", 1),
    ]  # fmt: skip


@pytest.mark.req("HITL-02")
@pytest.mark.parametrize(("words", "result"), [("Approve", RequestStatus.APPROVED), ("reject", RequestStatus.REJECTED)])
async def test_a_word_decides_for_who_may_and_for_nobody_else(
    words: str, result: RequestStatus, table: Table, workspace: Workspace
) -> None:
    await table.open()
    request = await table.ask()

    async def routed(by: str) -> None:
        ts = await workspace.say(f"@swarm {words}", user=by, thread_ts=table.root)
        await table.desk.decided("C0GENERAL", ts)
        await table.desk.sender.send_due()

    await routed("bob")
    assert await table.status(request) is RequestStatus.OPEN
    assert await table.told("bob") == [
        "✋ “lead wants to use the tool `git_push`” still waits: only <@U000ALICE> can decide it. "
        "I passed your message on as a new one."
    ]
    await routed("alice")
    assert await table.status(request) is result
    shown = [json.dumps(message, ensure_ascii=False) for message in await workspace.messages(table.root)]
    (card,) = [message for message in shown if "May I?" in message]
    assert f"{result.value} by <@u000alice>" in card.lower()


@pytest.mark.req("HITL-02")
async def test_a_bystanders_remark_is_not_stored_as_the_answer(table: Table, workspace: Workspace) -> None:
    await table.open()
    fields = (FormField(name="why", type=FieldType.TEXTAREA, required=True),)
    policy = DecisionPolicy(not_requester=True)
    request = await table.ask(fields=fields, tool=None, decisions=(D.ANSWER, D.REJECT), policy=policy)
    for words, result in (("interesting", RequestStatus.OPEN), ("answer: because", RequestStatus.ANSWERED)):
        ts = await workspace.say(words, user="bob", thread_ts=table.root)
        await table.desk.decided("C0GENERAL", ts)
        assert await table.status(request) is result


async def test_a_press_on_an_outdated_card_is_answered_and_does_not_count(table: Table) -> None:
    """Somebody has changed the arguments, and the card that the second approver sees is still the old one."""
    await table.open(DecisionRule(users=("U00000BOB", "U000CAROL"), need=2))
    request = await table.ask(decisions=(D.APPROVE, D.EDIT, D.REJECT))
    decisions = table.desk.services.decisions
    edit = Decide(request_id=request.id, decision=D.EDIT, door=EntryPoint.HTTP, person="U000CAROL")
    await decisions.decide(replace(edit, arguments={"branch": "prod"}))
    for pressed in ("approve", "reject"):
        await table.press(f"{DECIDE_ACTION}{pressed}", by="bob")
        assert (await table.told("bob"))[-1] == OUTDATED
    assert await table.status(request) is RequestStatus.OPEN
    await table.desk.sender.send_due()
    await table.press(f"{DECIDE_ACTION}approve", by="bob")
    assert await table.status(request) is RequestStatus.APPROVED


async def test_a_form_that_was_opened_before_another_persons_values_does_not_approve_them(
    table: Table, workspace: Workspace
) -> None:
    await table.open(DecisionRule(users=("U00000BOB", "U000CAROL"), need=2))
    fields = tuple(FormField(name=f"f{number}") for number in range(8))
    request = await table.ask(fields=fields, tool=None, decisions=(D.ANSWER, D.REJECT))
    opened = await workspace.act(user="bob", ts=(await table.card())["ts"], action_id=FORM_ACTION)
    view = opened["view"]["id"]
    wish = Decide(request_id=request.id, decision=D.ANSWER, door=EntryPoint.HTTP, person="U000CAROL")
    await table.desk.services.decisions.decide(replace(wish, values={"f0": "rm -rf /"}))
    shown = await workspace.act(user="bob", view_id=view, submit=True, state={})
    assert OUTDATED in json.dumps(shown["view"]["blocks"])
    assert await table.status(request) is RequestStatus.OPEN


async def test_a_card_with_a_new_remark_has_changed(table: Table, workspace: Workspace) -> None:
    await table.open()
    request = await table.ask(wait=True)
    await workspace.edit(table.root, "@swarm push nothing")

    async def is_noted() -> bool:
        return bool((await table.desk.services.requests.get(None, request.id)).reason)

    await eventually(is_noted)
    await table.press(f"{DECIDE_ACTION}approve", by="alice")
    assert (await table.told("alice"))[-1] == OUTDATED
    await table.desk.sender.send_due()
    await table.press(f"{DECIDE_ACTION}approve", by="alice")
    assert await table.status(request) is RequestStatus.APPROVED


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize("command", ["ls" + " " * 700 + "rm -rf /srv", "echo " + "x" * 3_000 + "; rm -rf /srv"])
async def test_what_runs_is_on_the_card_in_the_thread_or_approve_is_not(table: Table, command: str) -> None:
    await table.open()
    await table.ask(tool=ToolRequest(name="Bash", arguments={"command": command}))
    card = json.dumps((await table.card())["blocks"])
    assert "rm -rf /srv" in card or f"{DECIDE_ACTION}{D.APPROVE}" not in card
