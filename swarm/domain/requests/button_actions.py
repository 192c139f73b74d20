"""People's actions: the buttons of the swarm's messages, and Slack's own Stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from swarm.domain.model.feedback import Reason

STOP_TASK_ACTION: Final = "swarm_stop_task"
"""``action_id`` of the button that stops a task; its value is the task's id."""

STOP_RUN_ACTION: Final = "swarm_stop_turn"
"""``action_id`` of the button that stops a running answer; its value is the run's id."""

STOP_OWN_ACTION: Final = "swarm_stop_own"
"""``action_id`` of the button that stops a person's own work in a thread; its value is the thread's id."""

REMARK_FORM: Final = "swarm_remark"
"""``callback_id`` of the form for a remark about the swarm."""

RETRY_RUN_ACTION: Final = "swarm_retry_turn"
"""``action_id`` of the button that retries a run; its value is the run's id."""

FEEDBACK_ACTION: Final = "swarm_feedback"
"""``action_id`` of 👍 and 👎 below an answer; see :func:`feedback_value`."""

REASON_ACTION: Final = "swarm_feedback_reason:"
"""The beginning of the ``action_id`` of the reasons for 👎: a `Reason` follows. The value is the answer's id."""

FEEDBACK_FORM: Final = "swarm_feedback_form"
"""``callback_id`` of the form for a reason in a person's own words."""

ESCALATE_ACTION: Final = "swarm_escalate"
"""``action_id`` of the button that asks for a human; its value refers to an answer and is not read. It is shown only
where `ChannelPolicy.escalation` is set.
"""

DECIDE_ACTION: Final = "request_decide:"
"""The beginning of the ``action_id`` of buttons that decide on a request: a `HumanDecision` follows. The value is the
request's id.
"""

FOR_EVERYBODY: Final = ":everybody"
"""The end of the ``action_id`` of the button that decides "always" for everybody's work."""

FORM_ACTION: Final = "request_form"
"""``action_id`` of the button that opens a request's form as a modal, and ``callback_id`` of the modal."""

ARGUMENTS_ACTION: Final = "request_arguments"
"""``action_id`` of the button that shows all arguments of a tool call."""

DROP_ACTION: Final = "swarm_drop_question"
"""``action_id`` of the button that drops an agent's open questions in a thread; its value is the id of one of them."""

_REASONS: Final = {reason.value: reason for reason in Reason}
_UP: Final = "up"
_DOWN: Final = "down"


@dataclass(frozen=True, kw_only=True, slots=True)
class ButtonPressed:
    """A press of a button by a person. ``key`` identifies the press, so that repeated events count once."""

    key: str
    action_id: str
    value: str
    user_id: str
    channel: str
    message_ts: str
    thread_ts: str | None
    team: str | None = None  # the person's workspace, if Slack reports it
    trigger_id: str = field(default="", repr=False)  # opens a form, within three seconds
    response_url: str | None = field(default=None, repr=False)  # of an ephemeral message: replaces it
    text: str = field(default="", repr=False)  # entered in a form
    is_ephemeral: bool = False  # only this person sees the message with the button


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStopped:
    """A press of Slack's own Stop in a thread (``agent_session_stopped``), which ends all of the swarm's runs there.

    ``key`` identifies the press, so that repeated events count once.
    """

    key: str
    channel: str
    thread_ts: str
    user_id: str
    message_ts: tuple[str, ...]  # the swarm's growing messages that Slack has stopped; often none


@dataclass(frozen=True, kw_only=True, slots=True)
class PaneOpened:
    """A person opened the app: an assistant pane, which is a thread, or the app's Messages tab.

    ``key`` identifies the event, so that repeated events count once.
    """

    key: str
    user_id: str
    channel: str  # the direct message with the app
    thread_ts: str  # `FLAT` for the Messages tab
    event_ts: str
    viewing: str | None = None  # the channel next to the pane
    is_change: bool = False  # the pane was open, and the person went to another channel


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """A person's rating of an answer."""

    answer_id: str  # the run, or the last post of an answer without a run
    is_good: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackChoice:
    """The choice of reasons after 👎, to be shown to the person."""

    answer_id: str
    offers_help: bool  # the channel has an escalation


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackForm:
    """The form for a reason in the person's own words, to be opened for the person."""

    answer_id: str


PressResult = str | FeedbackChoice | FeedbackForm | None
"""What a person sees after a press: a text, a choice or a form; None: nothing."""


def feedback_value(feedback: Feedback) -> str:
    """Returns the value of a feedback button."""
    return f"{feedback.answer_id}:{_UP if feedback.is_good else _DOWN}"


def feedback_of(value: str) -> Feedback | None:
    """Parses a feedback button's value. Returns None for any other value."""
    answer_id, _, thumb = value.rpartition(":")
    if not answer_id or thumb not in (_UP, _DOWN):
        return None
    return Feedback(answer_id=answer_id, is_good=thumb == _UP)


def reason_of(action_id: str) -> Reason | None:
    """Returns the reason that a button stands for; None for any other button."""
    return _REASONS.get(action_id.removeprefix(REASON_ACTION)) if action_id.startswith(REASON_ACTION) else None
