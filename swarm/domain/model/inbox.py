"""Leases: the temporary right to work on a trigger.

A lease is a row with a secret token. Renewing or ending work requires the token; a token that is no longer valid
changes nothing (``lease_lost``). Per thread and agent at most one active *work* lease exists, which keeps two runs of
one agent out of the same conversation. Notices have leases too, but never take that lock.

Inbox messages and notices: the two kinds of entries in an agent's inbox.

An inbox message is one Slack message addressed to one agent. A notice is news for an agent beside its work, and never
waits for a thread's work to end.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.states import step

LEASE_SECONDS: Final = 60


class LeaseKind(StrEnum):
    """Whether a lease locks its thread."""

    WORK = "work"
    NOTICE = "notice"


class LeaseEnd(StrEnum):
    """How a lease ended."""

    RESOLVED = "resolved"  # its last message was answered, delegated or dismissed by a tool
    FINISHED = "finished"  # the agent reported success
    FAILED = "failed"  # the agent reported a failure
    RELEASED = "released"  # given back; no attempt counted
    EXPIRED = "expired"  # not renewed in time; one attempt counted
    REVOKED = "revoked"  # the agent was removed
    CANCELLED = "cancelled"  # its task was cancelled or reassigned


class FinishOutcome(StrEnum):
    """The agent's report when it finishes a lease."""

    DONE = "done"
    DISMISSED = "dismissed"
    FAILED = "failed"


def new_token() -> str:
    """A lease token: 128 random bits."""
    return secrets.token_urlsafe(16)


MAX_ATTEMPTS: Final = 5
"""A message whose leases were lost this many times is dead-lettered."""

BUNDLE_LIMIT: Final = 20
"""The largest number of one thread's messages handed out together."""

MESSAGE_PRIORITY: Final = 50
PRIORITY_WEIGHT_US: Final = 6 * SECOND

REACTION_STORED: Final = "eyes"
REACTION_ANSWERED: Final = "white_check_mark"
REACTION_FAILED: Final = "x"
REACTION_STOPPED: Final = "octagonal_sign"


class InboxStatus(StrEnum):
    """The life of an inbox message.

    ::

        unread → claimed                     claim
        claimed → responded                  respond
        claimed → delegated                  delegate
        claimed → dismissed                  dismiss
        claimed → unread                     lose, release
        claimed → waiting                    ask
        waiting → unread                     answer
        delegated → unread                   decline
        unread | claimed | waiting → withdrawn   withdraw
        unread | claimed → dead              bury
        dead → unread                        redrive
        dead | dismissed → unread            retry
    """

    UNREAD = "unread"
    CLAIMED = "claimed"
    WAITING = "waiting"  # for a person: no lease, no lock, attempts unchanged
    RESPONDED = "responded"
    DELEGATED = "delegated"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn"
    DEAD = "dead"


class InboxStep(StrEnum):
    """The steps of an inbox message."""

    CLAIM = "claim"
    RESPOND = "respond"
    DELEGATE = "delegate"
    DISMISS = "dismiss"
    LOSE = "lose"  # the lease expired or the run failed: one attempt more
    RELEASE = "release"  # given back on purpose: attempts unchanged
    ASK = "ask"
    ANSWER = "answer"
    DECLINE = "decline"
    WITHDRAW = "withdraw"
    BURY = "bury"
    REDRIVE = "redrive"  # by an operator
    RETRY = "retry"  # by a person, after a run that failed or was stopped


_S = InboxStatus

INBOX_TRANSITIONS: Final = {
    InboxStep.CLAIM: step(_S.UNREAD, to=_S.CLAIMED),
    InboxStep.RESPOND: step(_S.CLAIMED, to=_S.RESPONDED),
    InboxStep.DELEGATE: step(_S.CLAIMED, to=_S.DELEGATED),
    InboxStep.DISMISS: step(_S.CLAIMED, to=_S.DISMISSED),
    InboxStep.LOSE: step(_S.CLAIMED, to=_S.UNREAD),
    InboxStep.RELEASE: step(_S.CLAIMED, to=_S.UNREAD),
    InboxStep.ASK: step(_S.CLAIMED, to=_S.WAITING),
    InboxStep.ANSWER: step(_S.WAITING, to=_S.UNREAD),
    InboxStep.DECLINE: step(_S.DELEGATED, to=_S.UNREAD),
    InboxStep.WITHDRAW: step(_S.UNREAD, _S.CLAIMED, _S.WAITING, to=_S.WITHDRAWN),
    InboxStep.BURY: step(_S.UNREAD, _S.CLAIMED, to=_S.DEAD),
    InboxStep.REDRIVE: step(_S.DEAD, to=_S.UNREAD),
    InboxStep.RETRY: step(_S.DEAD, _S.DISMISSED, to=_S.UNREAD),
}


class MatchedBy(StrEnum):
    """The routing rule that brought a message to an agent."""

    MENTION = "mention"
    DIRECT_MESSAGE = "direct_message"
    ADDRESS = "address"
    BROADCAST = "broadcast"
    THREAD_OWNER = "thread_owner"
    THREAD_OWNER_OFFLINE = "thread_owner_offline"
    CHANNEL_AGENT = "channel_agent"
    ALERT = "alert"
    READDRESSED = "readdressed"


class InboxDelay(StrEnum):
    """The reason why an unread message is not due yet."""

    CONTEXT = "context"  # its thread is being read from Slack
    DELAY = "delay"  # released with a delay


def bundle(attempts: Sequence[int]) -> int:
    """Returns how many of a thread's due messages go out together, given each message's lost leases, in order.

    All leading messages without a lost lease. A message with one goes alone: a poison message must not dead-letter its
    neighbours.
    """
    fresh = sum(1 for _ in takewhile(lambda lost: lost == 0, attempts))
    return min(fresh or len(attempts[:1]), BUNDLE_LIMIT)


def order_key(created_at_us: int, priority: int = MESSAGE_PRIORITY) -> int:
    """Returns the position in the queue, lowest first: one point of priority is worth six seconds of age."""
    return created_at_us - PRIORITY_WEIGHT_US * priority


NOTICE_ATTEMPTS: Final = 5
"""A notice whose leases were lost this many times is dropped and recorded; the thread is not told."""


class NoticeKind(StrEnum):
    """The kind of news."""

    MESSAGE_CHANGED = "message_changed"
    MESSAGE_DELETED = "message_deleted"
    TASK_FOLLOW_UP = "task_follow_up"  # a person wrote in the thread of the agent's running task
    TASK_OFFERED = "task_offered"
    TASK_DECLINED = "task_declined"
    TASK_FINISHED = "task_finished"  # completed, failed, cancelled or dead: its result or its error
    TASK_CANCELLED = "task_cancelled"
    TASK_RETURNED = "task_returned"  # its worker is gone; it needs another one
    AGENT_MESSAGE = "agent_message"


FOR_CREATORS: Final = frozenset({NoticeKind.TASK_FINISHED, NoticeKind.TASK_RETURNED})
"""Notices that need action: sent to the task's creator, or to a lead in the creator's place."""


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
    """The steps of a notice."""

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
