"""Deliveries: Slack calls stored in the transaction of their state change and sent afterwards.

The kind of a delivery determines how an unknown outcome is handled: a post is searched for by the key in its metadata
before it is sent again; a reaction, an update and a deletion are idempotent and are repeated. Two effects can be
undone: a reaction, and the Retry button of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.model.requests import HumanRequest
from swarm.domain.model.states import step
from swarm.domain.views import JsonView, Time

METADATA_EVENT_TYPE: Final = "swarm_delivery"
"""The ``event_type`` of message metadata that contains the swarm's key (``event_payload.delivery_id``)."""

EPHEMERAL_SECONDS: Final = 60
"""A delivery that shows a temporary state expires after this time, because a late delivery would confuse people."""

END_MARK_SECONDS: Final = 15 * 60
"""A reaction that shows how a message ended expires after this time, which begins anew while posts are held."""

GIVE_UP_SECONDS: Final = 24 * 3600
"""A delivery that certainly did not reach Slack is retried for this long."""

PLACE_SECONDS: Final = 600
"""A delivery to a place that does not admit the app waits for this long, because somebody may invite it back."""

TOKEN_CODES: Final = frozenset(
    {"account_inactive", "invalid_auth", "not_authed", "org_login_required", "token_expired", "token_revoked"}
)
"""Refusals that concern the app's token: no call can succeed until somebody replaces it."""

PLACE_CODES: Final = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
"""Refusals by a place that may admit the app again."""

ACCESS_CODES: Final = frozenset({"ekm_access_denied", "team_access_not_granted"})
"""Refusals of the app's access to a channel, which an administrator may grant again."""

MISSING_SCOPE: Final = "missing_scope"


class DeliveryKind(StrEnum):
    """The kind of effect in Slack."""

    POST = "post"
    UPDATE = "update"
    DELETE = "delete"
    REACTION = "reaction"
    TITLE = "title"  # of a thread, in people's lists
    PROMPTS = "prompts"  # to choose from: in a pane, or in the agent's Messages tab


class Mark(StrEnum):
    """The meaning of a reaction. When Slack's rate limits are tight, end marks are sent first."""

    STORED = "stored"  # 👀
    END = "end"  # ✅, ❌ or 🛑


class DeliveryStatus(StrEnum):
    """The life cycle of a delivery.

    ::

        queued → sending              take
        sending → queued              postpone
        sending → unknown             doubt
        unknown → queued              resend
        failed | expired → unknown    redrive
        sending | unknown → sent      confirm
        queued | sending | unknown → failed     fail
        queued | sending | unknown → expired    expire
    """

    QUEUED = "queued"
    SENDING = "sending"
    UNKNOWN = "unknown"  # Slack may or may not have accepted the call
    SENT = "sent"
    FAILED = "failed"
    EXPIRED = "expired"


class DeliveryStep(StrEnum):
    """The steps of a delivery."""

    TAKE = "take"
    POSTPONE = "postpone"  # certainly not sent: rate-limited, or no connection
    DOUBT = "doubt"
    RESEND = "resend"  # searched for, and not found in Slack
    CONFIRM = "confirm"
    FAIL = "fail"
    EXPIRE = "expire"
    REDRIVE = "redrive"  # by an operator: a post is searched for first


_D = DeliveryStatus

DELIVERY_TRANSITIONS: Final = {
    DeliveryStep.TAKE: step(_D.QUEUED, to=_D.SENDING),
    DeliveryStep.POSTPONE: step(_D.SENDING, to=_D.QUEUED),
    DeliveryStep.DOUBT: step(_D.SENDING, to=_D.UNKNOWN),
    DeliveryStep.RESEND: step(_D.UNKNOWN, to=_D.QUEUED),
    DeliveryStep.CONFIRM: step(_D.SENDING, _D.UNKNOWN, to=_D.SENT),
    DeliveryStep.FAIL: step(_D.QUEUED, _D.SENDING, _D.UNKNOWN, to=_D.FAILED),
    DeliveryStep.EXPIRE: step(_D.QUEUED, _D.SENDING, _D.UNKNOWN, to=_D.EXPIRED),
    DeliveryStep.REDRIVE: step(_D.FAILED, _D.EXPIRED, to=_D.UNKNOWN),
}

_WAIT: Final = frozenset({DeliveryKind.POST, DeliveryKind.UPDATE})
_DECORATIONS: Final = frozenset({DeliveryKind.TITLE, DeliveryKind.PROMPTS})


def patience_seconds(kind: DeliveryKind, error: str, *, is_elsewhere: bool) -> int:
    """Returns for how long a delivery that Slack has refused waits for somebody to mend the reason; 0: not at all.

    ``is_elsewhere``: it goes to another conversation than its thread's, such as a direct message, whose refusal must
    not keep the thread's posts waiting.
    """
    if error == MISSING_SCOPE and kind in _WAIT:
        return GIVE_UP_SECONDS
    if kind in _DECORATIONS or is_elsewhere:
        return 0
    if error in ACCESS_CODES:
        return GIVE_UP_SECONDS
    return PLACE_SECONDS if error in PLACE_CODES else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """One Slack call, as the sender needs it."""

    id: str
    kind: DeliveryKind
    channel: str
    thread_ts: str | None  # the thread to post in
    target_ts: str | None  # the target message of a reaction, an update, a deletion or an ephemeral post
    text: str  # for a post or an update: text safe for Slack; a reaction: the emoji's name; prompts: a JSON list
    broadcast: bool
    agent_name: str | None
    attempts: int
    inbox_message_id: str | None = None  # the message that this delivery answers
    answers_ts: str | None = None  # the timestamp of the answered message; set where a post is searched for
    stops_task_id: str | None = None  # for a post or an update: the task that its button stops
    stops_run_id: str | None = None  # for a post or an update: the run that its button stops
    person: str | None = None  # for a post: the only user who sees it
    closing: Closing | None = None  # for a post or an update: the blocks below it; requires `place`
    place: AnswerTarget | None = None  # place and reader, for the buttons and the footer of `closing`
    removes: bool = False  # removes a reaction; an update replaces the Retry button with `text`
    drops_request_id: str | None = None  # for a post: the request that its button drops
    request: HumanRequest | None = None  # for a post or an update: the request that the message shows
    asked_in: tuple[str, str] | None = None  # the request's channel and thread, if the message is not there


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRow(JsonView):
    """One intended effect in Slack."""

    id: str
    kind: str
    status: str
    thread_id: str
    inbox_message_id: str | None
    channel: str
    text: str | None
    attempts: int
    sent_ts: str | None
    error: str | None
    created_at: Time


# The results of one call, as a closed set that is matched exhaustively.


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryAccepted:
    """A call accepted by Slack. ``ts`` is the message's timestamp, ``thread_ts`` its thread; ``channel`` is the
    conversation of a direct message.
    """

    ts: str | None = None
    thread_ts: str | None = None
    channel: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRefused:
    """A call that Slack has refused permanently. ``error`` is Slack's code."""

    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NotSent:
    """A call that certainly did not happen and may be repeated after ``retry_after_seconds``."""

    reason: str
    retry_after_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class InDoubt:
    """A call that may have happened, because the connection failed after the request was sent."""

    reason: str


Answer = DeliveryAccepted | DeliveryRefused | NotSent | InDoubt
