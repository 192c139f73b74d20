"""What people do with our messages' buttons, and with Slack's own Stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STOP_TASK_ACTION: Final = "swarm_stop_task"
"""``action_id`` of the button that stops a task; its value is the task's id."""

STOP_RUN_ACTION: Final = "swarm_stop_turn"
"""``action_id`` of the button that stops a running answer; its value is the turn's id."""

RETRY_RUN_ACTION: Final = "swarm_retry_turn"
"""``action_id`` of the button that runs a turn again; its value is the turn's id."""

FEEDBACK_ACTION: Final = "swarm_feedback"
"""``action_id`` of 👍 and 👎 below an answer; see :func:`feedback_value`."""

_UP: Final = "up"
_DOWN: Final = "down"


@dataclass(frozen=True, kw_only=True, slots=True)
class ButtonPressed:
    """A person pressed a button. ``key`` names this press, so that it counts once however often Slack tells of it."""

    key: str
    action_id: str
    value: str
    user_id: str
    channel: str
    message_ts: str
    thread_ts: str | None
    team: str | None = None  # the person's workspace, where Slack says it


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStopped:
    """A person pressed Slack's own Stop in a thread (``agent_session_stopped``): everything of ours there is to end.

    ``key`` names this press, so that it counts once however often Slack tells of it.
    """

    key: str
    channel: str
    thread_ts: str
    user_id: str
    message_ts: tuple[str, ...]  # our messages that were being written, which Slack has stopped; often none


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """What somebody thinks of the answer of a turn."""

    turn_id: str
    is_good: bool


def feedback_value(feedback: Feedback) -> str:
    """The value of a feedback button."""
    return f"{feedback.turn_id}:{_UP if feedback.is_good else _DOWN}"


def feedback_of(value: str) -> Feedback | None:
    """What a feedback button's value says; None if it is none of ours."""
    turn_id, _, thumb = value.rpartition(":")
    if not turn_id or thumb not in (_UP, _DOWN):
        return None
    return Feedback(turn_id=turn_id, is_good=thumb == _UP)
