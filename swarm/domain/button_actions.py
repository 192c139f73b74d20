"""People's actions: the buttons of the swarm's messages, and Slack's own Stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STOP_TASK_ACTION: Final = "swarm_stop_task"
"""``action_id`` of the button that stops a task; its value is the task's id."""

STOP_RUN_ACTION: Final = "swarm_stop_turn"
"""``action_id`` of the button that stops a running answer; its value is the run's id."""

RETRY_RUN_ACTION: Final = "swarm_retry_turn"
"""``action_id`` of the button that retries a run; its value is the run's id."""

FEEDBACK_ACTION: Final = "swarm_feedback"
"""``action_id`` of 👍 and 👎 below an answer; see :func:`feedback_value`."""

DECIDE_ACTION: Final = "request_decide:"
"""The beginning of the ``action_id`` of buttons that decide on a request: a `HumanDecision` follows. The value is the
request's id.
"""

FORM_ACTION: Final = "request_form"
"""``action_id`` of the button that opens a request's form as a modal, and ``callback_id`` of the modal."""

ARGUMENTS_ACTION: Final = "request_arguments"
"""``action_id`` of the button that shows all arguments of a tool call."""

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
    """A person's rating of a run's answer."""

    run_id: str
    is_good: bool


def feedback_value(feedback: Feedback) -> str:
    """Returns the value of a feedback button."""
    return f"{feedback.run_id}:{_UP if feedback.is_good else _DOWN}"


def feedback_of(value: str) -> Feedback | None:
    """Parses a feedback button's value. Returns None for any other value."""
    run_id, _, thumb = value.rpartition(":")
    if not run_id or thumb not in (_UP, _DOWN):
        return None
    return Feedback(run_id=run_id, is_good=thumb == _UP)
