"""What stands below an answer, as blocks that Slack takes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from slack_twin.blocks import checked_blocks

from swarm.domain.answers.calls import NOTHING_BELOW, Card, Closing, PlanTitle, TaskDisplay, Text, below_answer
from swarm.domain.answers.events import StepStatus
from swarm.domain.requests.button_actions import FEEDBACK_ACTION, RETRY_RUN_ACTION, STOP_RUN_ACTION, STOP_TASK_ACTION
from swarm.slack.outgoing.answer_blocks import (
    MAX_CARDS,
    card_blocks,
    closing_blocks,
    cut_text,
    footer_text,
    stop_run_block,
    stop_task_block,
    stream_chunks,
)
from tests.contract.slack.answers import RUN, card, place
from tests.support.every import every

THERE = place("1700000000.000100")
CLOSINGS = list(product(["", "n" * 20_000], *[[False, True]] * 3))
FOOTER = "lead · asked by <@U000ALICE> · Reply in this thread to continue"


def blocks(made: list[dict[str, object]]) -> list[dict[str, Any]]:
    """The blocks, if Slack takes them."""
    checked_blocks(made)
    return made


@pytest.mark.req("STREAM-12")
@every(
    ("more", "closing", "expected"),
    [
        ({}, below_answer("Done. Right? Yes."), FOOTER),
        ({"is_direct": True}, Closing(), "lead · asked by <@U000ALICE> · Write again to continue"),
        ({"requester": None}, Closing(asked="2 days ago"), "lead · Reply in this thread to continue"),
        ({}, Closing(asked="2 days ago"), FOOTER.replace(" · R", " 2 days ago · R")),
        ({}, below_answer("Done. **Which one?**\n"), FOOTER.replace("Reply in this thread", "Answer below")),
        ({"is_direct": True}, below_answer("どれ？"), "lead · asked by <@U000ALICE> · Answer below to continue"),
        ({"footer": " *Beta* <https://x.test|help> "}, Closing(), f"{FOOTER} · *Beta* <https://x.test|help>"),
        ({"agent_name": "<!channel>"}, Closing(usage="12k"), FOOTER.replace("lead", "&lt;!channel&gt;") + " · 12k"),
    ],
)
def test_the_footer_says_who_answered_whom_and_how_to_go_on(
    more: dict[str, Any], closing: Closing, expected: str
) -> None:
    assert footer_text(place("1700000000.000100", **more), closing) == expected


@pytest.mark.req("STREAM-07", "STREAM-12")
def test_what_is_wanted_below_stands_there_in_order_and_nothing_else() -> None:
    assert closing_blocks(NOTHING_BELOW, THERE) == []
    everything = Closing(note="It **broke** off.", retry=True, feedback=True, footer=True)
    note, retry, footer, feedback = blocks(closing_blocks(everything, THERE))
    assert note == {"type": "markdown", "text": "It **broke** off."}
    assert retry["elements"] == [
        {
            "type": "button",
            "action_id": RETRY_RUN_ACTION,
            "text": {"type": "plain_text", "text": "Retry"},
            "value": RUN,
        }
    ]
    assert footer == {"type": "context", "elements": [{"type": "mrkdwn", "text": FOOTER}]}
    assert feedback["type"] == "context_actions"
    [thumbs] = feedback["elements"]
    assert (thumbs["type"], thumbs["action_id"]) == ("feedback_buttons", FEEDBACK_ACTION)
    assert thumbs["positive_button"]["value"] == f"{RUN}:up"
    assert thumbs["negative_button"]["value"] == f"{RUN}:down"


@pytest.mark.req("CHAN-05", "CHAN-06")
@every(("note", "retry", "feedback", "footer"), CLOSINGS)
def test_slack_takes_every_closing_even_a_very_long_one(note: str, retry: bool, feedback: bool, footer: bool) -> None:
    where = place("1700000000.000100", footer="f" * 9_000)
    made = blocks(closing_blocks(Closing(note=note, retry=retry, feedback=feedback, footer=footer), where))
    assert len(made) == sum((bool(note), retry, feedback, footer))


@pytest.mark.parametrize("display", list(TaskDisplay))
def test_slack_takes_any_number_of_cards_and_the_newest_are_shown(display: TaskDisplay) -> None:
    made = blocks(card_blocks([card(number) for number in range(MAX_CARDS + 9)], display))
    tasks = made[0]["tasks"] if display is TaskDisplay.PLAN else made
    assert [task["task_id"] for task in tasks] == [f"card-{number}" for number in range(9, MAX_CARDS + 9)]
    assert card_blocks([], display) == []


def test_a_plan_is_called_after_what_is_being_done_else_after_what_was_done_last() -> None:
    done, running, later = card(1, StepStatus.COMPLETE), card(2), card(3, StepStatus.PENDING)
    assert card_blocks([done, running, later], TaskDisplay.PLAN)[0]["title"] == "Step 2"
    assert card_blocks([card(9, StepStatus.COMPLETE), done], TaskDisplay.PLAN)[0]["title"] == "Step 1"


def test_chunks_are_slacks_own_kinds_and_empty_text_is_none() -> None:
    step = Card(id="a", title="Look", status=StepStatus.ERROR)
    assert stream_chunks([Text(text="x"), Text(text=""), Text(text="\n"), step, PlanTitle(title="Plan")]) == [
        {"type": "markdown_text", "text": "x"},
        {"type": "markdown_text", "text": "\n"},
        {"type": "task_update", "id": "a", "title": "Look", "status": "error"},
        {"type": "plan_update", "title": "Plan"},
    ]


@pytest.mark.req("STREAM-05")
def test_an_address_in_code_stays_as_it_is_although_its_code_began_in_an_earlier_chunk() -> None:
    code, after = "https://a.org/?x&amp;amp;y\n", "```\nhttps://a.org/?x&amp;y"
    shown = ["https://a.org/?x&amp;amp;y\n", "```\nhttps://a.org/?x&y"]
    for chunks, before in (([code, after], "```\n"), (["```\n", code, after], "Hi\n")):
        given = stream_chunks([Text(text=chunk) for chunk in chunks], before)
        assert [chunk["text"] for chunk in given][-2:] == shown


@pytest.mark.parametrize(
    ("block", "action_id"), [(stop_run_block("t"), STOP_RUN_ACTION), (stop_task_block("t"), STOP_TASK_ACTION)]
)
def test_a_stop_button_says_what_it_stops(block: dict[str, Any], action_id: str) -> None:
    checked_blocks([block])
    [button] = block["elements"]
    assert (button["action_id"], button["value"], button["style"]) == (action_id, "t", "danger")


def test_text_that_fits_is_left_alone_and_other_text_ends_with_an_ellipsis() -> None:
    assert cut_text("x" * 100, 100) == "x" * 100
    assert cut_text("word " * 100, 100).endswith("word…")
    cut = cut_text("&amp;" * 100, 100)
    assert (len(cut) <= 100, cut.removesuffix("…").replace("&amp;", "")) == (True, "")
