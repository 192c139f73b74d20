"""Notices: news for an agent beside its work. They never wait for a thread's work to end."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from swarm.domain.model.states import step

NOTICE_ATTEMPTS: Final = 5
"""A notice whose leases were lost this many times is dropped and recorded; the thread is not told."""


class NoticeKind(StrEnum):
    """What a notice tells."""

    MESSAGE_CHANGED = "message_changed"
    MESSAGE_DELETED = "message_deleted"
    TASK_FOLLOW_UP = "task_follow_up"  # somebody wrote in the thread of the agent's running task
    TASK_OFFERED = "task_offered"
    TASK_DECLINED = "task_declined"
    TASK_FINISHED = "task_finished"  # completed, failed, cancelled or dead: its result or its error
    TASK_CANCELLED = "task_cancelled"
    TASK_RETURNED = "task_returned"  # its worker is gone, so it needs another one
    AGENT_MESSAGE = "agent_message"


FOR_CREATORS: Final = frozenset({NoticeKind.TASK_FINISHED, NoticeKind.TASK_RETURNED})
"""What somebody must act on, or people hear nothing: whoever created the task, or a lead in its place."""


class NoticeStatus(StrEnum):
    """The life of a notice.

    ::

        unread → claimed      claim
        claimed → unread      lose, release
        claimed → done        finish
        claimed → dropped     drop
    """

    UNREAD = "unread"
    CLAIMED = "claimed"
    DONE = "done"
    DROPPED = "dropped"


class NoticeStep(StrEnum):
    """What can happen to a notice."""

    CLAIM = "claim"
    LOSE = "lose"
    RELEASE = "release"
    FINISH = "finish"
    DROP = "drop"


_N = NoticeStatus

NOTICE_TRANSITIONS: Final = {
    NoticeStep.CLAIM: step(_N.UNREAD, to=_N.CLAIMED),
    NoticeStep.LOSE: step(_N.CLAIMED, to=_N.UNREAD),
    NoticeStep.RELEASE: step(_N.CLAIMED, to=_N.UNREAD),
    NoticeStep.FINISH: step(_N.CLAIMED, to=_N.DONE),
    NoticeStep.DROP: step(_N.CLAIMED, to=_N.DROPPED),
}
