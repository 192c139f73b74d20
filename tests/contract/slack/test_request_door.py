"""Requests in Slack: cards, presses and forms, over Socket Mode against the twin. The use case behind is a fake."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from swarm.domain.errors import Conflict, Forbidden, Invalid, NotFound, NotRead, RefusedBySlack, SwarmError, Unavailable
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryKind
from swarm.domain.model.requests import (
    Decide,
    DecisionPolicy,
    EntryPoint,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    Option,
    RequestStatus,
)
from swarm.domain.requests.button_actions import DECIDE_ACTION, FOR_EVERYBODY, FORM_ACTION
from swarm.domain.requests.shown import version
from swarm.entrypoints.slack.request_presses import (
    NOT_OPENED_TEXT,
    NOT_STORED_TEXT,
    TAMPERED_TEXT,
    UNCHANGEABLE_TEXT,
    UNKNOWN_BUTTON_TEXT,
    RequestDoor,
)
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.services.requests.deciding import Place, RequestDecisions
from swarm.slack.form_fields import BACK_ACTION, EDIT_ACTION
from swarm.slack.outgoing.ephemerals import SLOW_TEXT
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.request_cards import request_blocks
from tests.contract.slack.workspace import Workspace, delivery
from tests.support.human_requests import REQUEST_ID, answer, deploy, ended_request, human_request, text_fields

pytestmark = pytest.mark.req("HITL-02")

HITL_05 = pytest.mark.req("HITL-05")
_D = HumanDecision
ALICE = "U000ALICE"


class FakeDecisions(RequestDecisions):
    """Knows one request; notes what people decide, and can be told to refuse."""

    def __init__(self) -> None:
        self.request: HumanRequest | None = None
        self.drafts: dict[str, Any] = {}
        self.decided: list[tuple[Decide, Place | None]] = []
        self.shown_at: list[Place | None] = []
        self.attempts: list[tuple[str, str, str]] = []
        self.refusal: Exception | None = None
        self.closed: SwarmError | None = None  # why a form is not opened

    async def show(
        self, request_id: str, person: str, place: Place | None = None
    ) -> tuple[HumanRequest, dict[str, Any]]:
        self.shown_at.append(place)
        if self.request is None or request_id != self.request.id:
            raise NotFound("There is no such request.")
        return self.request, dict(self.drafts)

    async def fill_in(self, wish: Decide, place: Place | None = None) -> tuple[HumanRequest, dict[str, Any]]:
        request, drafts = await self.show(wish.request_id, wish.person, place)
        if not request.is_open:
            raise Conflict("This is decided already.")
        if self.closed:
            raise self.closed
        return request, drafts

    async def decide(self, wish: Decide, place: Place | None = None) -> HumanRequest:
        self.decided.append((wish, place))
        if self.refusal:
            raise self.refusal
        assert self.request is not None
        return self.request

    async def keep(self, request_id: str, person: str, values: Mapping[str, Any]) -> None:
        self.drafts = dict(values)

    async def note_attempt(self, person: str, request_id: str, outcome: str) -> None:
        self.attempts.append((person, request_id, outcome))

    @property
    def wish(self) -> Decide:
        """The only decision so far."""
        [(wish, _)] = self.decided
        return wish


class Scene:
    """A thread in #general with the card of a request."""

    def __init__(self, workspace: Workspace, gateway: Gateway, decisions: FakeDecisions) -> None:
        self.workspace = workspace
        self.gateway = gateway
        self.decisions = decisions
        self.root = ""
        self.ts = ""

    async def ask(self, **more: Any) -> None:
        await self.show(human_request(**more))

    async def show(self, request: HumanRequest) -> None:
        self.decisions.request = request
        self.root = await self.workspace.say("@swarm deploy")
        posted = await self.gateway.deliver(delivery(thread_ts=self.root, request=request))
        assert isinstance(posted, DeliveryAccepted)
        assert posted.ts
        self.ts = posted.ts

    async def press(self, action_id: str, **more: Any) -> dict[str, Any]:
        return await self.workspace.act(ts=self.ts, action_id=action_id, **more)

    async def decide(self, decision: str, **more: Any) -> dict[str, Any]:
        return await self.press(DECIDE_ACTION + decision, **more)

    async def editing(self) -> dict[str, Any]:
        """The arguments of a call as fields, after its only page was read."""
        read = (await self.press(FORM_ACTION))["view"]
        return dict((await self.workspace.act(view_id=read["id"], action_id=EDIT_ACTION, state={}))["view"])

    async def raw_whispers(self) -> list[str]:
        """The private answers as Slack stores them."""
        return [str(call["args"]["text"]) for call in await self.workspace.calls("chat.postEphemeral")]

    async def submit(self, view: dict[str, Any], **state: Any) -> dict[str, Any]:
        return await self.workspace.act(view_id=view["id"], submit=True, state=state)

    async def whispers(self) -> list[str]:
        shown = await self.workspace.ephemerals()
        assert all((one["user"], one["thread_ts"]) == (ALICE, self.root) for one in shown)
        return [one["text"] for one in shown]


@pytest.fixture
def decisions() -> FakeDecisions:
    return FakeDecisions()


@pytest.fixture
async def scene(gateway: Gateway, workspace: Workspace, decisions: FakeDecisions) -> AsyncIterator[Scene]:
    async def ignore(event: object) -> None:
        """Messages are not what this is about."""

    door = SlackEntryPoint(
        gateway,
        ignore,
        requests=RequestDoor(gateway, decisions),
        app_token=workspace.app.app_token,
        backoff_seconds=0.01,
    )
    await door.start()
    yield Scene(workspace, gateway, decisions)
    await door.close()


def text_of(view: dict[str, Any]) -> str:
    return json.dumps(view["blocks"], ensure_ascii=False)


async def test_a_press_decides_as_the_person_at_the_place_of_the_card(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask()
    assert (await scene.decide("approve"))["ok"]
    [(wish, place)] = decisions.decided
    seen, decision = version(human_request()), _D.APPROVE
    assert wish == Decide(
        request_id=REQUEST_ID, decision=decision, door=EntryPoint.SLACK, person=ALICE, team="T0TWIN", seen=seen
    )
    assert place == ("C0GENERAL", scene.ts)
    assert await scene.whispers() == []


@pytest.mark.req("HITL-01")
async def test_the_values_of_a_form_in_the_message_come_along(scene: Scene, decisions: FakeDecisions) -> None:
    many = tuple(Option(value=f"{n}" * 160, label=f"Choice {n}") for n in range(5))
    fields = (
        FormField(name="why", default="because"),
        FormField(name="one", type=FieldType.SELECT, options=many),
        FormField(name="sure", type=FieldType.BOOLEAN),
    )
    await scene.ask(fields=fields, decisions=(_D.ANSWER, _D.REJECT))
    await scene.decide("answer", state={"field:one": "Choice 3", "field:sure": "Yes"})
    assert decisions.wish.values == {"why": "because", "one": "3" * 160, "sure": True}
    assert set(decisions.shown_at) == {("C0GENERAL", scene.ts)}
    decisions.decided.clear()
    await scene.decide("reject")
    assert decisions.wish.values is None


@pytest.mark.parametrize(
    "refusal", [Conflict("Approved by <@U1> before."), Forbidden("Only bob may."), NotFound("Gone.")]
)
async def test_a_refusal_is_shown_only_to_the_person(
    scene: Scene, decisions: FakeDecisions, refusal: SwarmError
) -> None:
    await scene.ask()
    decisions.refusal = refusal
    assert (await scene.decide("approve"))["ok"]
    assert await scene.whispers() == [refusal.message]


@pytest.mark.req("HITL-01")
async def test_problems_of_a_form_in_the_message_are_named_by_their_labels(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask(fields=(FormField(name="a", label="Place"), FormField(name="b")), decisions=(_D.ANSWER,))
    decisions.refusal = Invalid("Not valid.", fields={"b": "Enter <!channel> a number.", "a": "This is needed."})
    await scene.decide("answer")
    assert await scene.whispers() == ["Place: This is needed.\nb: Enter &lt;!channel&gt; a number."]
    decisions.refusal = Invalid("This request does not allow to edit.", fields={"decision": "approve"})
    await scene.decide("answer")
    assert (await scene.whispers())[1:] == ["This request does not allow to edit."]


async def test_a_press_that_was_not_stored_is_not_acknowledged_and_says_so(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask()
    decisions.refusal = RuntimeError("the disk is full")
    press = {
        "type": "block_actions",
        "user": {"id": ALICE},
        "trigger_id": "1.2.ab",
        "container": {"type": "message", "message_ts": scene.ts, "thread_ts": scene.root},
        "channel": {"id": "C0GENERAL"},
        "actions": [{"action_id": f"{DECIDE_ACTION}approve", "value": REQUEST_ID}],
    }
    answered = await RequestDoor(scene.gateway, decisions).handle(press)
    assert answered is not None
    assert answered.status == 500
    assert await scene.whispers() == [NOT_STORED_TEXT]


async def test_an_unknown_decision_is_refused_and_noted(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask()
    blocks = json.loads(json.dumps(request_blocks(human_request())).replace(":approve", ":obey"))
    await scene.gateway.client.chat_update(channel="C0GENERAL", ts=scene.ts, text="x", blocks=blocks)
    await scene.decide("obey")
    assert decisions.attempts == [(ALICE, REQUEST_ID, "unknown button request_decide:obey")]
    assert await scene.whispers() == [UNKNOWN_BUTTON_TEXT]
    assert decisions.decided == []


async def test_other_buttons_are_none_of_its_business(scene: Scene) -> None:
    assert await RequestDoor(scene.gateway, scene.decisions).handle({"type": "block_actions", "actions": []}) is None


LONG: dict[str, Any] = {"fields": text_fields(45), "decisions": (_D.ANSWER, _D.REJECT)}


@HITL_05
async def test_a_long_form_is_filled_in_page_by_page_and_sent_once(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(**LONG)
    first = (await scene.press(FORM_ACTION))["view"]
    assert first["title"]["text"] == "Page 1 of 3"
    second = (await scene.submit(first, **{"field:f0": "one"}))["view"]
    assert second["title"]["text"] == "Page 2 of 3"
    assert decisions.decided == []
    third = (await scene.submit(second, **{"field:f20": "two"}))["view"]
    done = await scene.submit(third, **{"field:f40": "three"})
    assert "view" not in done, "the form is closed"
    wish = decisions.wish
    assert wish.decision is _D.ANSWER
    assert wish.values is not None
    assert {name: value for name, value in wish.values.items() if value} == {"f0": "one", "f20": "two", "f40": "three"}


@HITL_05
async def test_back_keeps_what_was_entered_on_both_pages(scene: Scene) -> None:
    await scene.ask(**LONG)
    first = (await scene.press(FORM_ACTION))["view"]
    second = (await scene.submit(first, **{"field:f0": "one"}))["view"]
    state = {"field:f20": "two"}
    again = (await scene.workspace.act(view_id=second["id"], action_id=BACK_ACTION, state=state))["view"]
    assert again["title"]["text"] == "Page 1 of 3"
    assert again["state"]["values"]["field:f0"]["value"]["value"] == "one"
    forward = (await scene.submit(again))["view"]
    assert forward["state"]["values"]["field:f20"]["value"]["value"] == "two"


@HITL_05
async def test_a_wrong_value_stops_a_page_before_the_next_one(scene: Scene, decisions: FakeDecisions) -> None:
    fields = (FormField(name="n", pattern="^x"), *text_fields(20))
    await scene.ask(fields=fields, decisions=(_D.ANSWER,))
    first = (await scene.press(FORM_ACTION))["view"]
    answered = await scene.submit(first, **{"field:n": "wrong"})
    assert answered["errors"] == {"field:n": "Enter a text that fits the pattern ^x."}
    assert decisions.drafts == {}


@HITL_05
async def test_a_problem_on_an_earlier_page_brings_it_back(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(**LONG)
    view = (await scene.press(FORM_ACTION))["view"]
    for _ in range(2):
        block = next(block for block in view["blocks"] if block["type"] == "input")
        view = (await scene.submit(view, **{block["block_id"]: "entered"}))["view"]
    decisions.refusal = Invalid("Not valid.", fields={"f41": "Too short.", "f3": "Too long."})
    back = (await scene.submit(view))["view"]
    assert back["title"]["text"] == "Page 1 of 3"
    assert "Too long." in text_of(back)
    assert back["state"]["values"]["field:f0"]["value"]["value"] == "entered"


@HITL_05
async def test_a_problem_on_the_last_page_stands_at_its_field(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(**LONG)
    view = (await scene.press(FORM_ACTION))["view"]
    for _ in range(2):
        view = (await scene.submit(view))["view"]
    decisions.refusal = Invalid("Not valid.", fields={"f41": "Too short."})
    assert (await scene.submit(view))["errors"] == {"field:f41": "Too short."}


@HITL_05
@pytest.mark.parametrize(
    "refusal", [Conflict("Approved by <@U1> before."), Forbidden("Only bob may."), NotFound("Gone.")]
)
async def test_a_refused_form_says_why(scene: Scene, decisions: FakeDecisions, refusal: SwarmError) -> None:
    await scene.ask(fields=text_fields(6))
    view = (await scene.press(FORM_ACTION))["view"]
    decisions.refusal = refusal
    assert refusal.message in text_of((await scene.submit(view))["view"])


@HITL_05
@pytest.mark.parametrize("problem", [RuntimeError("the disk is full"), Unavailable("Slack did not answer.")])
async def test_a_form_that_was_not_stored_keeps_what_was_entered(
    scene: Scene, decisions: FakeDecisions, problem: Exception
) -> None:
    await scene.ask(fields=text_fields(6))
    view = (await scene.press(FORM_ACTION))["view"]
    decisions.refusal = problem
    answered = await scene.submit(view)
    assert answered["errors"] == {"field:f0": NOT_STORED_TEXT}
    assert answered["view"]["id"] == view["id"]


@HITL_05
@pytest.mark.parametrize(
    "metadata",
    [{}, {"page": 9, "decision": "answer"}, {"page": 1, "decision": "approve_always"}],
)  # fmt: skip
async def test_a_form_with_other_metadata_stores_nothing_and_is_noted(
    scene: Scene, decisions: FakeDecisions, metadata: dict[str, Any]
) -> None:
    await scene.ask(**LONG)
    own = {"request": REQUEST_ID, "seen": version(human_request(**LONG))} if metadata else {}
    view = (await scene.press(FORM_ACTION))["view"]
    kept = ("type", "callback_id", "title", "submit", "close", "blocks")
    changed = {name: view[name] for name in kept} | {"private_metadata": json.dumps(own | metadata)}
    await scene.gateway.update_view(view["id"], view["hash"], changed)
    assert TAMPERED_TEXT in text_of((await scene.submit(view))["view"])
    [(person, _, _)] = decisions.attempts
    assert person == ALICE
    assert decisions.decided == []


@HITL_05
async def test_a_form_of_another_installation_stores_nothing_and_is_noted(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask(fields=text_fields(6))
    metadata = json.dumps({"request": REQUEST_ID, "page": 1, "decision": "approve"})
    view = {"callback_id": FORM_ACTION, "private_metadata": metadata, "app_installed_team_id": "T0OTHER"}
    body = {"type": "view_submission", "user": {"id": ALICE}, "view": view}
    answered = await RequestDoor(scene.gateway, decisions).handle(body)
    assert answered is not None
    assert TAMPERED_TEXT in answered.body
    assert len(decisions.attempts) == 1
    assert decisions.decided == []


@pytest.mark.req("HITL-04")
async def test_the_arguments_of_a_tool_are_changed_in_a_form(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(tool=deploy(to="live", count=3, text="x" * 4_000), decisions=(_D.APPROVE, _D.EDIT, _D.REJECT))
    await scene.submit(await scene.editing(), **{"field:to": "test"})
    assert decisions.wish.decision is _D.EDIT
    assert decisions.wish.arguments == {"to": "test", "count": "3", "text": "x" * 4_000}
    assert decisions.wish.values is None


@pytest.mark.req("HITL-04")
async def test_a_problem_of_an_argument_stands_at_its_field(scene: Scene, decisions: FakeDecisions) -> None:
    fields = (FormField(name="to"),)
    await scene.ask(tool=deploy(to="live"), fields=fields, decisions=(_D.APPROVE, _D.EDIT))
    view = (await scene.decide("edit"))["view"]
    decisions.refusal = Invalid("Not valid.", fields={"to": "Unknown."})
    answered = await scene.submit(view, **{"field:to": "me", "field:argument:to": "test"})
    assert answered["errors"]["field:argument:to"] == "Unknown."
    assert decisions.wish.values == {"to": "me"}
    assert decisions.wish.arguments == {"to": "test"}


@pytest.mark.req("HITL-04")
async def test_a_problem_of_an_argument_that_the_form_does_not_show_is_named(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask(tool=deploy(to="live", text="x" * 4_000), decisions=(_D.APPROVE, _D.EDIT))
    view = await scene.editing()
    decisions.refusal = Invalid("Not valid: text.", fields={"text": "Too long."})
    assert "Not valid: text.\\ntext: Too long." in text_of((await scene.submit(view))["view"])


@pytest.mark.req("HITL-04")
async def test_arguments_that_cannot_be_shown_cannot_be_changed(scene: Scene) -> None:
    await scene.ask(tool=deploy(password="hunter2"), decisions=(_D.APPROVE, _D.EDIT))
    assert UNCHANGEABLE_TEXT in text_of((await scene.decide("edit"))["view"])
    await scene.ask(tool=deploy(text="x" * 4_000), decisions=(_D.APPROVE, _D.EDIT))
    assert EDIT_ACTION not in text_of((await scene.press(FORM_ACTION))["view"])


@pytest.mark.req("HITL-04")
async def test_a_long_call_can_be_read_also_after_the_end(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(tool=deploy(text="x" * 2_800 + "the end"))
    decisions.request = ended_request(RequestStatus.APPROVED, answer(), tool=deploy(text="x" * 2_800 + "the end"))
    view = (await scene.press(FORM_ACTION))["view"]
    assert "the end" in text_of(view)
    assert view.get("submit") is None


@pytest.mark.req("HITL-10")
async def test_a_long_call_is_read_page_by_page_and_approved_on_the_last(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask(tool=deploy(text="x" * 130_000 + "rm -rf /"))
    view = (await scene.press(FORM_ACTION))["view"]
    for page in (1, 2):
        assert (view["title"]["text"], view["submit"]["text"]) == (f"Page {page} of 3", "Next")
        assert "rm -rf" not in text_of(view)
        view = (await scene.submit(view))["view"]
    assert "rm -rf /" in text_of(view)
    view = (await scene.workspace.act(view_id=view["id"], action_id=BACK_ACTION, state={}))["view"]
    assert view["title"]["text"] == "Page 2 of 3"
    await scene.submit((await scene.submit(view))["view"])
    assert (decisions.wish.decision, decisions.wish.values) == (_D.APPROVE, None)


@pytest.mark.req("HITL-10")
async def test_a_forged_last_page_approves_nothing(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(tool=deploy(text="x" * 130_000), fields=text_fields(1))
    assert decisions.request
    for page in (2, 3, 4):
        seen = version(decisions.request)
        metadata = json.dumps({"request": REQUEST_ID, "page": page, "decision": "approve", "seen": seen})
        view = {"callback_id": FORM_ACTION, "private_metadata": metadata}
        body = {"type": "view_submission", "user": {"id": ALICE}, "view": view}
        answered = await RequestDoor(scene.gateway, decisions).handle(body)
        assert answered is not None
        assert TAMPERED_TEXT in answered.body
    assert (decisions.decided, len(decisions.attempts)) == ([], 3)


@pytest.mark.req("HITL-10")
async def test_a_bystander_reads_all_pages_and_decides_nothing(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(tool=deploy(text="x" * 70_000 + "the end", password="two words"))
    decisions.closed = Forbidden("Only @bob can decide this.")
    view = (await scene.press(FORM_ACTION))["view"]
    assert view["submit"]["text"] == "Next"
    view = (await scene.submit(view))["view"]
    assert "the end" in text_of(view)
    assert "two words" not in text_of(view)
    assert view.get("submit") is None
    assert (decisions.drafts, decisions.attempts) == ({}, [])


@pytest.mark.req("HITL-10")
async def test_approve_on_a_card_from_before_opens_what_is_to_be_read(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask()
    decisions.request = human_request(tool=deploy(text="x" * 2_800 + "the end"))
    decisions.refusal = NotRead()
    view = (await scene.decide("approve"))["view"]
    assert "the end" in text_of(view)


@pytest.mark.req("HITL-02")
async def test_what_a_person_entered_mentions_nobody_in_a_refusal(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(fields=(FormField(name="a", label="Place"),), decisions=(_D.ANSWER,))
    decisions.refusal = Invalid("Not valid.", fields={"a": "'<@U000BOB>' is too long"})
    await scene.decide("answer")
    assert "<@" not in (await scene.raw_whispers())[0]


@pytest.mark.req("HITL-13")
async def test_a_form_is_opened_only_for_who_may_fill_it_in_and_every_press_is_answered(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask(**LONG)
    first = (await scene.press(FORM_ACTION))["view"]
    decisions.closed = Forbidden("Only <@U9> can decide this.")
    for _ in range(3):
        await scene.press(FORM_ACTION)
    assert len(await scene.workspace.calls("views.open")) == 1
    assert await scene.whispers() == ["Only <@U9> can decide this."] * 3
    refused = (await scene.submit(first, **{"field:f0": "one"}))["view"]
    assert "Only <@U9> can decide this." in text_of(refused)
    assert decisions.drafts == {}


@pytest.mark.req("HITL-13")
async def test_many_presses_in_a_minute_are_answered_by_one_request_to_slow_down(
    scene: Scene, decisions: FakeDecisions
) -> None:
    await scene.ask()
    decisions.refusal = Forbidden("Only <@U9> can decide this.")
    for _ in range(14):
        await scene.decide("approve")
    assert await scene.whispers() == ["Only <@U9> can decide this."] * 10 + [SLOW_TEXT]


@pytest.mark.req("HITL-13")
async def test_after_the_first_persons_values_there_is_nothing_to_fill_in(
    scene: Scene, decisions: FakeDecisions
) -> None:
    given = answer("U1", _D.ANSWER, values={"f0": "one"})
    policy = DecisionPolicy(users=("U1", ALICE), need=2)
    await scene.ask(fields=text_fields(2), decisions=(_D.ANSWER, _D.REJECT), policy=policy, answers=(given,))
    shown = json.dumps(request_blocks(scene.decisions.request or human_request()))
    assert '"text": "Approve"' in shown
    assert "Send" not in shown
    await scene.decide("answer")
    assert (decisions.wish.decision, decisions.wish.values) == (_D.ANSWER, None)


@pytest.mark.req("HITL-11")
async def test_the_button_for_everybody_says_so(scene: Scene, decisions: FakeDecisions) -> None:
    decided = (_D.APPROVE, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS)
    await scene.ask(tool=deploy(), decisions=decided, policy=DecisionPolicy(users=(ALICE,)))
    await scene.press(f"{DECIDE_ACTION}approve_always{FOR_EVERYBODY}")
    await scene.press(f"{DECIDE_ACTION}approve_always")
    assert [(wish.decision, wish.for_everybody) for wish, _ in decisions.decided] == [
        (_D.APPROVE_ALWAYS, True), (_D.APPROVE_ALWAYS, False),
    ]  # fmt: skip


@pytest.mark.req("HITL-13")
async def test_the_form_of_an_ended_request_is_not_opened(scene: Scene, decisions: FakeDecisions) -> None:
    await scene.ask(**LONG)
    decisions.request = ended_request(RequestStatus.ANSWERED, answer("U1", _D.ANSWER, values={}), **LONG)
    assert "view" not in await scene.press(FORM_ACTION)
    assert await scene.whispers() == ["This is decided already."]


@HITL_05
async def test_a_form_that_slack_does_not_open_says_so(scene: Scene) -> None:
    await scene.ask(**LONG)
    await scene.workspace.fault("http_500", method="views.open")
    assert (await scene.press(FORM_ACTION))["ok"]
    assert await scene.whispers() == [NOT_OPENED_TEXT]
    assert len(await scene.workspace.calls("views.open")) == 1, "a trigger is never used twice"


@HITL_05
async def test_a_form_is_open_before_its_press_is_acknowledged(scene: Scene) -> None:
    await scene.ask(**LONG)
    assert "view" in await scene.press(FORM_ACTION), "the answer comes with the acknowledgement and waits for nothing"


@HITL_05
async def test_a_menu_with_many_options_is_searched(scene: Scene, decisions: FakeDecisions) -> None:
    many = tuple(Option(value=f"v{n}", label=f"Choice {n}") for n in range(200))
    await scene.ask(fields=(FormField(name="a", type=FieldType.SELECT, options=many),), decisions=(_D.ANSWER,))
    view = (await scene.press(FORM_ACTION))["view"]
    found = await scene.workspace.suggest(view["id"], "field:a", "choice 19")
    assert [option["value"] for option in found] == ["v19", *(f"v{n}" for n in range(190, 200))]
    await scene.workspace.act(view_id=view["id"], action_id="value", block_id="field:a", value="Choice 195")
    await scene.submit(view)
    assert decisions.wish.values == {"a": "v195"}
    view = (await scene.press(FORM_ACTION))["view"]
    decisions.request = None
    assert await scene.workspace.suggest(view["id"], "field:a", "") == []


@HITL_05
async def test_an_empty_secret_keeps_what_was_entered_before(scene: Scene, decisions: FakeDecisions) -> None:
    fields = (FormField(name="pin", secret=True, required=True), *text_fields(6))
    await scene.ask(fields=fields, decisions=(_D.ANSWER,))
    decisions.drafts = {"pin": "4711"}
    view = (await scene.press(FORM_ACTION))["view"]
    assert "4711" not in json.dumps(view)
    await scene.submit(view)
    assert decisions.wish.values is not None
    assert decisions.wish.values["pin"] == "4711"


async def test_an_ended_card_replaces_the_open_one(scene: Scene) -> None:
    await scene.ask()
    over = ended_request(RequestStatus.APPROVED, answer())
    await scene.gateway.deliver(delivery(DeliveryKind.UPDATE, target_ts=scene.ts, request=over))
    [_, message] = await scene.workspace.messages(scene.root)
    assert "✅ Approved by <@U1>" in json.dumps(message["blocks"], ensure_ascii=False)
    assert "request_decide" not in json.dumps(message["blocks"])


async def test_the_members_of_a_user_group_are_read(gateway: Gateway, workspace: Workspace) -> None:
    await workspace.seed(user_groups=[{"handle": "admins", "members": ["alice", "bob"]}])
    [group] = (await gateway.client.usergroups_list())["usergroups"]
    users = workspace.twin.workspace.directory.users.values()
    expected = {user.id for user in users if user.name in ("alice", "bob")}
    assert await gateway.group_members(group["id"]) == expected
    with pytest.raises(RefusedBySlack) as refused:
        await gateway.group_members("S0NOBODY")
    assert refused.value.slack_code == "no_such_subteam"
