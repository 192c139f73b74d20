"""The choice of reasons after 👎, as blocks of an ephemeral message, and the form for a reason in one's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from swarm.domain.model.feedback import MAX_COMMENT_CHARACTERS, Reason
from swarm.domain.requests.button_actions import (
    ESCALATE_ACTION,
    FEEDBACK_FORM,
    REASON_ACTION,
    ButtonPressed,
    FeedbackChoice,
    FeedbackForm,
)
from swarm.slack.form_fields import COMMENT_BLOCK, COMMENT_INPUT
from swarm.slack.outgoing.answer_blocks import Block, actions, button, plain

_LABELS: Final[Mapping[Reason, str]] = {
    Reason.MORE_DETAIL: "More detail",
    Reason.BRIEFER: "Briefer",
    Reason.WRONG_ANSWER: "Wrong answer",
    Reason.OTHER: "Other…",
}
_HELP: Final = "Get help"


def choice_blocks(text: str, choice: FeedbackChoice) -> list[Block]:
    """Returns the text and a button for each reason; "Get help" only if the channel has an escalation."""
    buttons = [button(REASON_ACTION + reason, label, choice.answer_id) for reason, label in _LABELS.items()]
    if choice.offers_help:
        buttons.append(button(ESCALATE_ACTION, _HELP, choice.answer_id))
    return [{"type": "section", "text": plain(text)}, actions(*buttons)]


def form_view(press: ButtonPressed, form: FeedbackForm) -> Block:
    """Returns the modal with one text input. Its metadata say which message the result replaces."""
    metadata = {
        "answer": form.answer_id,
        "channel": press.channel,
        "message_ts": press.message_ts,
        "thread_ts": press.thread_ts,
        "response_url": press.response_url,
    }
    return {
        "type": "modal",
        "callback_id": FEEDBACK_FORM,
        "title": plain("What should be better?"),
        "submit": plain("Send"),
        "close": plain("Cancel"),
        "private_metadata": orjson.dumps(metadata).decode(),
        "blocks": [
            {
                "type": "input",
                "block_id": COMMENT_BLOCK,
                "label": plain("Your feedback"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": COMMENT_INPUT,
                    "multiline": True,
                    "max_length": MAX_COMMENT_CHARACTERS,
                },
            }
        ],
    }
