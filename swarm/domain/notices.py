"""Notices: news for an agent beside its work. They never wait for a thread's work to end."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from swarm.domain.states import step

NOTICE_ATTEMPTS: Final = 5
"""A notice whose leases were lost this many times is dropped and recorded; the thread is not told."""


class NoticeKind(StrEnum):
    """What a notice tells."""

    MESSAGE_CHANGED = "message_changed"
    MESSAGE_DELETED = "message_deleted"


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
