"""Feedback: people's opinions of answers and remarks about the swarm, and the bodies in which other services get them.

A person has one opinion of an answer; a new one replaces it, with its reason. An answer is named after its run, or
after its last post if it has no run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import JsonValue

from swarm.clock import to_iso
from swarm.domain.views import Hidden, JsonView, Key, Time

MAX_COMMENT_CHARACTERS: Final = 3_000
"""Slack's limit for one text input."""

LANGFUSE_SCORE: Final = "user-feedback"
"""The name of the scores in Langfuse."""


class Opinion(StrEnum):
    """A person's rating of an answer."""

    UP = "up"
    DOWN = "down"


class Reason(StrEnum):
    """Why an answer was not good."""

    MORE_DETAIL = "more_detail"
    BRIEFER = "briefer"
    WRONG_ANSWER = "wrong_answer"
    OTHER = "other"  # with a comment


INSTRUCTIONS: Final[Mapping[Reason, str]] = {
    Reason.MORE_DETAIL: (
        "You have answered the message below before, and the person asks for more detail. Answer it again, in more "
        "detail."
    ),
    Reason.BRIEFER: (
        "You have answered the message below before, and the person asks for a briefer answer. Answer it again, "
        "shorter."
    ),
}
"""The reasons that start another run, with the text that stands before the message then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackView(JsonView):
    """A person's opinion of an answer."""

    contract_name = "FeedbackRow"

    id: str  # the same for every opinion of this person of this answer
    agent: str  # its name
    value: Opinion
    reason: Reason | None
    comment: str | None
    user_id: str
    answer_id: str  # the run, or the last post of an answer without a run
    run_id: str | None
    trace_id: str | None  # the id that the agent's service got for the run, 32 hexadecimal digits
    conversation_id: str
    team: Hidden[str]
    channel: str
    thread_ts: str
    message_ts: str  # of the message with the buttons
    created_at: Time  # of this opinion


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackCount(JsonView):
    """The number of equal opinions of one agent's answers."""

    contract_name = "FeedbackCountRow"

    agent: str
    value: Opinion
    reason: Reason | None
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark(JsonView):
    """A person's remark about the swarm, made with the slash command."""

    contract_name = "RemarkRow"

    id: str
    channel: str  # the conversation in which the command was typed
    user_id: str
    text: str
    created_at: Annotated[Time, Key("at")]


_CAIPE_VALUES: Final[Mapping[Reason, str]] = {
    Reason.MORE_DETAIL: "needs_detail",
    Reason.BRIEFER: "too_verbose",
    Reason.WRONG_ANSWER: "wrong_answer",
    Reason.OTHER: "other",
}


def langfuse_body(feedback: FeedbackView) -> dict[str, JsonValue]:
    """Returns the body of ``POST /api/public/scores``: 1 for 👍 and 0 for 👎, on the run's trace.

    An answer without a run has no trace; its score is one of the conversation, as a session. The id is the opinion's,
    so that a new opinion replaces the score. https://api.reference.langfuse.com
    """
    about: dict[str, JsonValue] = (
        {"traceId": feedback.trace_id} if feedback.trace_id else {"sessionId": feedback.conversation_id}
    )
    return {
        "id": feedback.id,
        **about,
        "name": LANGFUSE_SCORE,
        "value": int(feedback.value is Opinion.UP),
        "dataType": "BOOLEAN",
        "comment": ": ".join(filter(None, (feedback.reason, feedback.comment))) or None,
        "metadata": {
            "source": "slack",
            "agent": feedback.agent,
            "reason": feedback.reason,
            "conversation_id": feedback.conversation_id,
            "channel": feedback.channel,
            "message_ts": feedback.message_ts,
            "user_id": feedback.user_id,
        },
    }


def caipe_body(feedback: FeedbackView, permalink: str) -> dict[str, JsonValue]:
    """Returns the body of CAIPE's ``POST /api/feedback``, with the names and values of its own Slack bot.

    CAIPE keeps one opinion for each message and user.
    """
    is_good = feedback.value is Opinion.UP
    rating = "thumbs_up" if is_good else "thumbs_down"
    return {
        "feedbackType": "like" if is_good else "dislike",
        "value": _CAIPE_VALUES[feedback.reason] if feedback.reason else rating,
        "conversationId": feedback.conversation_id,
        "messageId": feedback.message_ts,
        "source": "slack",
        "channelId": feedback.channel,
        "threadTs": feedback.thread_ts,
        "slackPermalink": permalink,
        "userId": feedback.user_id,
        **({"traceId": feedback.trace_id} if feedback.trace_id else {}),
        **({"reason": feedback.comment} if feedback.comment else {}),
    }


def webhook_body(feedback: FeedbackView, permalink: str) -> dict[str, JsonValue]:
    """Returns the body of the operator's own webhook; see docs/operations.md."""
    return {
        "type": "feedback",
        "id": feedback.id,
        "value": feedback.value.value,
        "reason": feedback.reason,
        "comment": feedback.comment,
        "user_id": feedback.user_id,
        "agent": feedback.agent,
        "run_id": feedback.run_id,
        "trace_id": feedback.trace_id,
        "conversation_id": feedback.conversation_id,
        "team": feedback.team,
        "channel": feedback.channel,
        "thread_ts": feedback.thread_ts,
        "message_ts": feedback.message_ts,
        "permalink": permalink,
        "created_at": to_iso(feedback.created_at),
    }


def remark_body(remark: Remark, team: str) -> dict[str, JsonValue]:
    """Returns the body of the operator's own webhook for a remark; see docs/operations.md."""
    return {
        "type": "remark",
        "id": remark.id,
        "text": remark.text,
        "user_id": remark.user_id,
        "team": team,
        "channel": remark.channel,
        "created_at": to_iso(remark.created_at),
    }
