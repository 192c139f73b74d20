"""Deliveries: intended effects in Slack, stored with the state change that wants them and sent afterwards.

What happens when nobody knows whether Slack accepted a call depends on the kind: a post is looked up by the key in its
metadata before it is sent again; a reaction, an update and a delete are simply repeated, since twice is the same as
once. What is added to a message of somebody's can be taken away again: a reaction, and the Retry button of our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.model.states import step

METADATA_EVENT_TYPE: Final = "swarm_delivery"
"""``event_type`` of the message metadata that carries our key (``event_payload.delivery_id``)."""

EPHEMERAL_SECONDS: Final = 60
"""What shows a passing state expires if it could not leave within this time: late, it only confuses."""

END_MARK_SECONDS: Final = 15 * 60
"""Reactions that show how a message ended expire if they could not leave within this time."""


class DeliveryKind(StrEnum):
    """Which effect in Slack is wanted."""

    POST = "post"
    UPDATE = "update"
    DELETE = "delete"
    REACTION = "reaction"


class Mark(StrEnum):
    """What a reaction says of its message. When Slack's calls are scarce, end marks are sent first."""

    STORED = "stored"  # 👀
    END = "end"  # ✅, ❌ or 🛑


class DeliveryStatus(StrEnum):
    """The life of a delivery.

    ::

        queued → sending              take
        sending → queued              postpone
        sending → unknown             doubt
        unknown → queued              resend
        sending | unknown → sent      confirm
        queued | sending | unknown → failed     fail
        queued | sending | unknown → expired    expire
    """

    QUEUED = "queued"
    SENDING = "sending"
    UNKNOWN = "unknown"  # Slack may or may not have it
    SENT = "sent"
    FAILED = "failed"
    EXPIRED = "expired"


class DeliveryStep(StrEnum):
    """What can happen to a delivery."""

    TAKE = "take"
    POSTPONE = "postpone"  # certainly not sent: refused for its rate, or no connection
    DOUBT = "doubt"
    RESEND = "resend"  # looked up, and Slack does not have it
    CONFIRM = "confirm"
    FAIL = "fail"
    EXPIRE = "expire"


_D = DeliveryStatus

DELIVERY_TRANSITIONS: Final = {
    DeliveryStep.TAKE: step(_D.QUEUED, to=_D.SENDING),
    DeliveryStep.POSTPONE: step(_D.SENDING, to=_D.QUEUED),
    DeliveryStep.DOUBT: step(_D.SENDING, to=_D.UNKNOWN),
    DeliveryStep.RESEND: step(_D.UNKNOWN, to=_D.QUEUED),
    DeliveryStep.CONFIRM: step(_D.SENDING, _D.UNKNOWN, to=_D.SENT),
    DeliveryStep.FAIL: step(_D.QUEUED, _D.SENDING, _D.UNKNOWN, to=_D.FAILED),
    DeliveryStep.EXPIRE: step(_D.QUEUED, _D.SENDING, _D.UNKNOWN, to=_D.EXPIRED),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """One intended effect, as the sender needs it."""

    id: str
    kind: DeliveryKind
    channel: str
    thread_ts: str | None  # the thread that a post goes into
    target_ts: str | None  # the message that a reaction, an update, a delete or a post for one person is about
    text: str  # of a post or an update: already safe for Slack; of a reaction: the emoji's name
    broadcast: bool
    agent_name: str | None
    attempts: int
    inbox_message_id: str | None = None  # what it answers
    answers_ts: str | None = None  # and when that was said; known where a post is looked up
    stops_task_id: str | None = None  # of a post or an update: the task that its button stops
    stops_turn_id: str | None = None  # of a post or an update: the turn that its button stops
    person: str | None = None  # of a post: the only user who sees it
    closing: Closing | None = None  # of a post or an update: what stands below it; counts together with `place`
    place: AnswerTarget | None = None  # for whom it is, as the buttons and the footer of `closing` need it
    removes: bool = False  # a reaction is taken away; an update puts `text` in the place of the Retry button


# What Slack's answer to one call means for the delivery: a closed set, matched exhaustively.


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryAccepted:
    """Slack has it. ``ts`` is the message's timestamp, ``thread_ts`` the thread in which it landed."""

    ts: str | None = None
    thread_ts: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRefused:
    """Slack said no, and would say no again. ``error`` is Slack's code."""

    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NotSent:
    """It certainly did not happen and may be tried again after a while."""

    reason: str
    retry_after_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class InDoubt:
    """The connection broke or timed out after the request had left: it may have happened."""

    reason: str


Answer = DeliveryAccepted | DeliveryRefused | NotSent | InDoubt
