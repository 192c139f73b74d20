"""Inbox messages and notices.

Inbox messages and notices are the two kinds of entries in an agent's inbox. An inbox message is one Slack message
addressed to one agent. A notice informs an agent in addition to its work, and never waits for a thread's work to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Final

from swarm.clock import SECOND
from swarm.domain.model.states import step
from swarm.domain.views import JsonView, Key, Time

BUNDLE_LIMIT: Final = 20
"""The maximum number of messages of one thread handed out together."""

MESSAGE_PRIORITY: Final = 50
PRIORITY_WEIGHT_US: Final = 6 * SECOND

REACTION_STORED: Final = "eyes"
REACTION_ANSWERED: Final = "white_check_mark"
REACTION_FAILED: Final = "x"
REACTION_STOPPED: Final = "octagonal_sign"


class InboxStatus(StrEnum):
    """The life cycle of an inbox message.

    ::

        unread → claimed                     claim
        claimed → responded                  respond
        claimed → delegated                  delegate
        claimed | waiting → dismissed        dismiss
        unread → dismissed                   stop
        claimed → unread                     lose, release
        claimed → waiting                    ask
        waiting → unread                     answer
        delegated → unread                   decline
        unread | claimed | waiting → withdrawn   withdraw
        withdrawn → unread                   restore
        unread | claimed → dead              bury
        dead → unread                        redrive
        dead | dismissed → unread            retry
        responded → unread                   rerun
    """

    UNREAD = "unread"
    CLAIMED = "claimed"
    WAITING = "waiting"  # waits for a person: no lease, no lock, attempts unchanged
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
    STOP = "stop"  # by a person, before an agent has begun
    LOSE = (
        "lose"  # the lease expired, the run failed, or the coordinator died: an attempt or an interruption is counted
    )
    RELEASE = "release"  # given back on purpose: attempts unchanged
    ASK = "ask"
    ANSWER = "answer"
    DECLINE = "decline"
    WITHDRAW = "withdraw"
    RESTORE = "restore"  # its agent becomes responsible again, after another agent's message replaced this one
    BURY = "bury"
    REDRIVE = "redrive"  # by an operator
    RETRY = "retry"  # by a person, after a run that failed or was stopped
    RERUN = "rerun"  # by a person who wants another answer


_S = InboxStatus

UNDER_WAY: Final = frozenset({_S.UNREAD, _S.CLAIMED, _S.WAITING})
"""The statuses of a message that has not ended."""

INBOX_TRANSITIONS: Final = {
    InboxStep.CLAIM: step(_S.UNREAD, to=_S.CLAIMED),
    InboxStep.RESPOND: step(_S.CLAIMED, to=_S.RESPONDED),
    InboxStep.DELEGATE: step(_S.CLAIMED, to=_S.DELEGATED),
    InboxStep.DISMISS: step(_S.CLAIMED, _S.WAITING, to=_S.DISMISSED),
    InboxStep.STOP: step(_S.UNREAD, to=_S.DISMISSED),
    InboxStep.LOSE: step(_S.CLAIMED, to=_S.UNREAD),
    InboxStep.RELEASE: step(_S.CLAIMED, to=_S.UNREAD),
    InboxStep.ASK: step(_S.CLAIMED, to=_S.WAITING),
    InboxStep.ANSWER: step(_S.WAITING, to=_S.UNREAD),
    InboxStep.DECLINE: step(_S.DELEGATED, to=_S.UNREAD),
    InboxStep.WITHDRAW: step(_S.UNREAD, _S.CLAIMED, _S.WAITING, to=_S.WITHDRAWN),
    InboxStep.RESTORE: step(_S.WITHDRAWN, to=_S.UNREAD),
    InboxStep.BURY: step(_S.UNREAD, _S.CLAIMED, to=_S.DEAD),
    InboxStep.REDRIVE: step(_S.DEAD, to=_S.UNREAD),
    InboxStep.RETRY: step(_S.DEAD, _S.DISMISSED, to=_S.UNREAD),
    InboxStep.RERUN: step(_S.RESPONDED, to=_S.UNREAD),
}

BY_PERSON: Final = frozenset({InboxStep.RETRY, InboxStep.RERUN})
"""The steps by which a person has an ended message answered again. Each sets the message's instruction."""


class MatchedBy(StrEnum):
    """The routing rule that matched a message to an agent."""

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


def bundle(setbacks: Sequence[int]) -> int:
    """Returns how many of a thread's due messages are handed out together, given each message's setbacks, in order.

    These are all leading messages without a setback. A message with a setback is handed out alone, so that a poison
    message does not dead-letter its neighbours. A lost lease is a setback, and so is the second death of the
    coordinator.
    """
    fresh = sum(1 for _ in takewhile(lambda count: count == 0, setbacks))
    return min(fresh or len(setbacks[:1]), BUNDLE_LIMIT)


def order_key(created_at_us: int, priority: int = MESSAGE_PRIORITY) -> int:
    """Returns the position in the queue, lowest first. One point of priority equals six seconds of age."""
    return created_at_us - PRIORITY_WEIGHT_US * priority


class NoticeKind(StrEnum):
    """The kind of a notice."""

    MESSAGE_CHANGED = "message_changed"
    MESSAGE_DELETED = "message_deleted"
    TASK_FOLLOW_UP = "task_follow_up"  # a person wrote in the thread of the agent's running task
    TASK_OFFERED = "task_offered"
    TASK_DECLINED = "task_declined"
    TASK_FINISHED = "task_finished"  # completed, failed, cancelled or dead: its result or its error
    TASK_CANCELLED = "task_cancelled"
    TASK_RETURNED = "task_returned"  # its worker is gone, and it needs another worker
    AGENT_MESSAGE = "agent_message"
    HUMAN_INPUT = "human_input"  # people have decided on the agent's request, or nobody did in time


FOR_CREATORS: Final = frozenset({NoticeKind.TASK_FINISHED, NoticeKind.TASK_RETURNED})
"""Notices that need action: sent to the task's creator, or to a lead on the creator's behalf."""


class NoticeStatus(StrEnum):
    """The life cycle of a notice.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageFacts:
    """The fields shared by an inbox message and its view for the operator."""

    id: str
    status: InboxStatus
    agent_id: str | None
    thread_id: str
    channel: str
    ts: str
    matched_by: MatchedBy
    reason: str
    attempts: int
    created_at: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageRow(InboxMessageFacts, JsonView):
    """An inbox message in the operator's view."""

    agent: Annotated[str | None, Key(after="agent_id")]
