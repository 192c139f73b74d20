"""Presses of 👍, 👎 and of the reasons, over Socket Mode against the twin. The use case behind is a fake."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from slack_twin.errors import SlackError

from swarm.domain.answers.calls import ANSWERED_BELOW
from swarm.domain.errors import Unavailable
from swarm.domain.model.deliveries import DeliveryAccepted
from swarm.domain.model.feedback import MAX_COMMENT_CHARACTERS, Reason
from swarm.domain.requests.button_actions import (
    ESCALATE_ACTION,
    FEEDBACK_ACTION,
    FEEDBACK_FORM,
    REASON_ACTION,
    ButtonPressed,
    FeedbackChoice,
    FeedbackForm,
    PressResult,
    feedback_of,
)
from swarm.entrypoints.slack.button_presses import CHOICE_TEXT, NOT_OPENED_TEXT, NOT_STORED_TEXT
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.answers import place
from tests.contract.slack.workspace import Workspace, delivery

pytestmark = pytest.mark.req("CHAN-05")

ANSWER = "01a20c2e-357b-727f-af82-233b31d2df70"


class Scene:
    """An answer in a thread of #general, and what is done about presses."""

    def __init__(self, workspace: Workspace, gateway: Gateway) -> None:
        self.workspace = workspace
        self.gateway = gateway
        self.results: dict[str, PressResult | Exception] = {}
        self.presses: list[ButtonPressed] = []
        self.root = ""
        self.ts = ""

    async def press(self, press: ButtonPressed) -> PressResult:
        self.presses.append(press)
        result = self.results.get(press.action_id)
        if isinstance(result, Exception):
            raise result
        return result

    async def answer(self) -> None:
        self.root = await self.workspace.say("@swarm how many?")
        where = place(self.root, run_id=ANSWER)
        answer = delivery(thread_ts=self.root, text="42", closing=ANSWERED_BELOW, place=where)
        posted = await self.gateway.deliver(answer)
        assert isinstance(posted, DeliveryAccepted)
        self.ts = posted.ts or ""

    async def down(self, *, offers_help: bool = False) -> str:
        """👎; the timestamp of the choice."""
        self.results[FEEDBACK_ACTION] = FeedbackChoice(answer_id=ANSWER, offers_help=offers_help)
        await self.workspace.act(ts=self.ts, action_id=FEEDBACK_ACTION, value=f"{ANSWER}:down")
        return str((await self.only())["ts"])

    async def only(self) -> dict[str, object]:
        """What only Alice sees, which is one message."""
        shown = (await self.workspace._get("messages", {"channel": "general", "user": "alice"}))["messages"]
        (seen,) = [message for message in shown if message.get("subtype") == "ephemeral"]
        return dict(seen)


@pytest.fixture
async def scene(gateway: Gateway, workspace: Workspace) -> AsyncIterator[Scene]:
    async def ignore(event: object) -> None:
        """Messages are not what this is about."""

    scene = Scene(workspace, gateway)
    door = SlackEntryPoint(gateway, ignore, scene.press, app_token=workspace.app.app_token, backoff_seconds=0.01)
    await door.start()
    await scene.answer()
    yield scene
    await door.close()


@pytest.mark.parametrize("offers_help", [False, True])
async def test_a_thumb_down_offers_the_reasons_to_who_pressed(scene: Scene, offers_help: bool) -> None:
    await scene.down(offers_help=offers_help)
    (press,) = scene.presses
    said = feedback_of(press.value)
    assert said is not None
    assert (said.answer_id, said.is_good, press.message_ts, press.thread_ts) == (ANSWER, False, scene.ts, scene.root)
    assert press.response_url is None, "the answer itself is never replaced"
    (shown,) = await scene.workspace.ephemerals()
    assert (shown["user"], shown["thread_ts"], shown["text"]) == ("U000ALICE", scene.root, CHOICE_TEXT)
    buttons = {button["action_id"]: button["value"] for button in shown["blocks"][-1]["elements"]}
    help_ = {ESCALATE_ACTION: ANSWER} if offers_help else {}
    assert buttons == {REASON_ACTION + reason: ANSWER for reason in Reason} | help_


async def test_a_reason_replaces_the_choice_by_the_text(scene: Scene) -> None:
    choice = await scene.down()
    scene.results[REASON_ACTION + Reason.BRIEFER] = "It is being answered again."
    await scene.workspace.act(ts=choice, action_id=REASON_ACTION + Reason.BRIEFER)
    shown = await scene.only()
    assert (shown["ts"], shown["text"]) == (choice, "It is being answered again.")
    assert "actions" not in str(shown["blocks"])
    assert len(await scene.workspace.ephemerals()) == 1, "no second message was posted"


async def test_where_the_choice_cannot_be_replaced_the_text_is_a_message_of_its_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = await scene.down()
    scene.results[REASON_ACTION + Reason.BRIEFER] = "It is being answered again."
    monkeypatch.setattr(scene.workspace.twin.workspace.response_urls, "use", _refuse)
    await scene.workspace.act(ts=choice, action_id=REASON_ACTION + Reason.BRIEFER)
    assert (await scene.workspace.ephemerals())[-1]["text"] == "It is being answered again."


async def test_other_opens_a_form_whose_text_arrives_as_a_press(scene: Scene) -> None:
    choice = await scene.down()
    scene.results[REASON_ACTION + Reason.OTHER] = FeedbackForm(answer_id=ANSWER)
    scene.results[FEEDBACK_FORM] = "Thank you, that is noted."
    view = (await scene.workspace.act(ts=choice, action_id=REASON_ACTION + Reason.OTHER))["view"]
    (block,) = view["blocks"]
    assert block["element"]["max_length"] == MAX_COMMENT_CHARACTERS
    done = await scene.workspace.act(view_id=view["id"], submit=True, state={"feedback_comment": "It is 43."})
    assert done["ok"]
    press = scene.presses[-1]
    assert (press.action_id, press.value, press.text) == (FEEDBACK_FORM, ANSWER, "It is 43.")
    assert (press.user_id, press.channel, press.key) == ("U000ALICE", "C0GENERAL", f"view:{view['id']}")
    shown = await scene.only()
    assert (shown["ts"], shown["text"]) == (choice, "Thank you, that is noted.")


async def test_a_form_that_cannot_be_stored_says_so_and_keeps_what_was_entered(scene: Scene) -> None:
    choice = await scene.down()
    scene.results[REASON_ACTION + Reason.OTHER] = FeedbackForm(answer_id=ANSWER)
    scene.results[FEEDBACK_FORM] = Unavailable("The database is away.")
    view = (await scene.workspace.act(ts=choice, action_id=REASON_ACTION + Reason.OTHER))["view"]
    done = await scene.workspace.act(view_id=view["id"], submit=True, state={"feedback_comment": "It is 43."})
    assert done["errors"] == {"feedback_comment": NOT_STORED_TEXT}
    scene.results[FEEDBACK_FORM] = "Thank you, that is noted."
    again = await scene.workspace.act(view_id=view["id"], submit=True)
    assert (again["ok"], scene.presses[-1].key, scene.presses[-1].text) == (True, f"view:{view['id']}", "It is 43.")


async def test_a_form_that_slack_does_not_open_is_told(scene: Scene) -> None:
    choice = await scene.down()
    scene.results[REASON_ACTION + Reason.OTHER] = FeedbackForm(answer_id=ANSWER)
    await scene.workspace.fault("error", method="views.open", error="internal_error")
    await scene.workspace.act(ts=choice, action_id=REASON_ACTION + Reason.OTHER)
    assert (await scene.workspace.ephemerals())[-1]["text"] == NOT_OPENED_TEXT


def _refuse(path: str) -> None:
    raise SlackError("expired_url")
