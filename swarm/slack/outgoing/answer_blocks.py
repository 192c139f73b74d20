"""Blocks of Swarm's messages in Slack: Markdown, cards, buttons and the end of an answer; and the chunks of a stream.

https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/reference/methods/chat.appendStream#chunks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from swarm.domain.answers.calls import AnswerTarget, Card, Chunk, Closing, PlanTitle, TaskDisplay, Text
from swarm.domain.answers.events import StepStatus
from swarm.domain.requests.button_actions import (
    DROP_ACTION,
    FEEDBACK_ACTION,
    RETRY_RUN_ACTION,
    STOP_RUN_ACTION,
    STOP_TASK_ACTION,
    Feedback,
    feedback_value,
)
from swarm.domain.text.cutting import split, tables
from swarm.domain.text.slack_text import escape, for_markdown
from swarm.domain.text.tables import with_one_table
from swarm.slack.incoming.fields import JsonObject, objects_at

Block = dict[str, object]

MAX_UPDATE_CHARACTERS: Final = 3_900
"""Slack accepts 4,000 characters of plain text in an update; blocks show the complete text."""

MAX_CONTEXT_CHARACTERS: Final = 3_000
MAX_NOTE_CHARACTERS: Final = 1_000
"""A note and the answer share the limit of 12,000 characters for all Markdown in a message."""

MAX_CARDS: Final = 40
"""A message has at most 50 blocks, and some of them are not cards."""

_CONTINUE_THREAD: Final = "Reply in this thread to continue"
_CONTINUE_DIRECT: Final = "Write again to continue"
_CONTINUE_BELOW: Final = "Answer below to continue"


def stream_chunks(chunks: Sequence[Chunk], before: str = "") -> list[Block]:
    """Returns the chunks for a stream call, below the text ``before``, without empty text: Slack shows it as new."""
    shown: list[Block] = []
    for chunk in chunks:
        if not isinstance(chunk, Text):
            shown.append(_card_chunk(chunk))
        elif chunk.text:
            shown.append({"type": "markdown_text", "text": for_markdown(chunk.text, before)})
            before += chunk.text
    return shown


def text_blocks(text: str) -> list[Block]:
    """Returns Markdown as blocks with one table each; none for a text without visible characters: Slack refuses it."""
    parts = with_one_table(text, tables(text)) if "|" in text else [text]
    return [{"type": "markdown", "text": for_markdown(part)} for part in parts if part.strip()]


def card_blocks(cards: Sequence[Card], display: TaskDisplay) -> list[Block]:
    """Returns cards for a message that is not a stream, in the same form as in a stream. If there are too many, the
    newest are kept.
    """
    shown = cards[-MAX_CARDS:]
    if not shown:
        return []
    blocks = [_card(card) for card in shown]
    return [{"type": "plan", "title": _plan_title(shown), "tasks": blocks}] if display is TaskDisplay.PLAN else blocks


def closing_blocks(closing: Closing, place: AnswerTarget) -> list[Block]:
    """Returns the blocks below the last message of an answer, from the note to 👍 and 👎."""
    blocks = text_blocks(cut_text(closing.note, MAX_NOTE_CHARACTERS))
    if closing.retry:
        blocks.append(actions(button(RETRY_RUN_ACTION, "Retry", place.run_id)))
    if closing.footer:
        blocks.append(_context(footer_text(place, closing)))
    if closing.feedback:
        blocks.append(_feedback(place.run_id))
    return blocks


def without_retry(blocks: Sequence[JsonObject], instead: str) -> list[JsonObject] | None:
    """Returns a message's blocks with a line of mrkdwn in place of the Retry button; None if there is no such
    button.
    """
    shown: list[JsonObject] = []
    for block in blocks:
        elements = list(objects_at(block, "elements"))
        others = [element for element in elements if element.get("action_id") != RETRY_RUN_ACTION]
        if len(others) == len(elements):
            shown.append(block)
            continue
        if others:
            shown.append({**block, "elements": others})
        shown.append(_context(instead))
    return shown if shown != list(blocks) else None


def footer_text(place: AnswerTarget, closing: Closing) -> str:
    """Returns who answered whom, how to go on, usage and the operator's text, as mrkdwn of at most 3,000 characters."""
    asked = f"asked by <@{place.requester}> {closing.asked}".rstrip() if place.requester else ""
    how = _CONTINUE_BELOW if closing.is_question else _CONTINUE_DIRECT if place.is_direct else _CONTINUE_THREAD
    parts = (escape(place.agent_name), asked, how, closing.usage, place.footer.strip())
    return cut_text(" · ".join(filter(None, parts)), MAX_CONTEXT_CHARACTERS)


def stop_task_block(task_id: str) -> Block:
    """Returns a button that stops a task."""
    return actions(button(STOP_TASK_ACTION, "Stop", task_id, style="danger"))


def stop_run_block(run_id: str) -> Block:
    """Returns a button that stops a running answer."""
    return actions(_stop_button(run_id))


def drop_request_block(request_id: str) -> Block:
    """Returns a button that drops the open questions of a request's agent in its thread."""
    return actions(button(DROP_ACTION, "Drop it and go on", request_id))


def _stop_button(run_id: str) -> Block:
    """Returns only the button, for blocks that contain other elements."""
    return button(STOP_RUN_ACTION, "Stop", run_id, style="danger")


def _card_chunk(chunk: Card | PlanTitle) -> Block:
    match chunk:
        case Card(id=card_id, title=title, status=status):
            return {"type": "task_update", "id": card_id, "title": title, "status": status.value}
        case PlanTitle(title=title):
            return {"type": "plan_update", "title": title}
        case _:
            assert_never(chunk)


def _card(card: Card) -> Block:
    return {"type": "task_card", "task_id": card.id, "title": card.title, "status": card.status.value}


def _plan_title(cards: Sequence[Card]) -> str:
    """Returns the title of the current card, or of the last one if none is current."""
    running = (card for card in reversed(cards) if card.status is StepStatus.IN_PROGRESS)
    return next(running, cards[-1]).title


def _context(text: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def actions(*elements: Block) -> Block:
    """Returns a block with buttons."""
    return {"type": "actions", "elements": list(elements)}


def button(action_id: str, label: str, value: str, *, style: str | None = None) -> Block:
    """Returns a button."""
    button: Block = {"type": "button", "action_id": action_id, "text": plain(label), "value": value}
    return button | ({"style": style} if style else {})


def _feedback(answer_id: str) -> Block:
    element = {
        "type": "feedback_buttons",
        "action_id": FEEDBACK_ACTION,
        "positive_button": _thumb(Feedback(answer_id=answer_id, is_good=True), "👍", "This answer is good"),
        "negative_button": _thumb(Feedback(answer_id=answer_id, is_good=False), "👎", "This answer is not good"),
    }
    return {"type": "context_actions", "elements": [element]}


def _thumb(feedback: Feedback, label: str, described: str) -> Block:
    return {"text": plain(label), "value": feedback_value(feedback), "accessibility_label": described}


def plain(text: str) -> Block:
    """Returns plain text as an object."""
    return {"type": "plain_text", "text": text}


def cut_text(text: str, limit: int) -> str:
    """Returns as much of a safe text as fits, cut at the best position and marked with "…"."""
    if len(text) <= limit:
        return text
    return next(iter(split(text, limit - 1)), "") + "…"
