"""What people do with the buttons under our messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STOP_TASK_ACTION: Final = "swarm_stop_task"
"""``action_id`` of the button that stops a task; its value is the task's id."""


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
