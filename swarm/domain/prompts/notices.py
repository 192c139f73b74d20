"""The wording of notices in prompts, one entry per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import OFFER_SECONDS

_BESIDE_WORK: Final = "of this notice only; your work keeps its own token"
_OWN: Final = "of this notice"
_GO_ON: Final = "Go on with your work in its light."
_NO_ANSWER: Final = f"That was a notice: there is nothing to answer. {_GO_ON}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeWords:
    """The sentences of one kind of notice, from top to bottom."""

    what: str  # the event
    lease: str  # the use of its lease
    ways: tuple[str, ...] = ()  # possible actions
    ways_in_thread: tuple[str, ...] = ()  # further actions, where there is a thread to post to
    tail: str


NOTICES: Final[Mapping[str, NoticeWords]] = {
    NoticeKind.MESSAGE_CHANGED: NoticeWords(
        what=(
            "A message you have been working on was edited in Slack. Go by its new text from now on. "
            "If you have answered the old one already, correct your answer where the change makes it wrong."
        ),
        lease=_BESIDE_WORK,
        tail=_NO_ANSWER,
    ),
    NoticeKind.MESSAGE_DELETED: NoticeWords(
        what=(
            "A message you have been working on was deleted in Slack. Its entry is withdrawn: stop working on it and "
            "do not answer it; a reply would be refused with `withdrawn`. Other messages of the thread are not "
            "affected."
        ),
        lease=_BESIDE_WORK,
        tail=_NO_ANSWER,
    ),
    NoticeKind.TASK_FOLLOW_UP: NoticeWords(
        what="Somebody wrote in the thread of the task that you are working on. Take it into your work.",
        lease=_BESIDE_WORK,
        ways=(
            "- If it wants an answer: `slack-reply` (inbox_message_id, message) under the lease_token of the task. "
            "What is not answered goes back to the lead when the task ends.",
            "- If it wants you to stop: stop, with `task-fail` and a reply that says so.",
        ),
        tail="That was a notice. Go on with your task in its light.",
    ),
    NoticeKind.TASK_OFFERED: NoticeWords(
        what="A task is offered to you. It is not yours until you accept it.",
        lease=_OWN,
        ways=(
            "- `accept-task` (task_id): it then comes to you as `task_assigned`. Do nothing for it before.",
            "- `decline-task` (task_id, reason), if another agent is the better one, or you have no time for it.",
            f"- An offer that nobody answers for {OFFER_SECONDS // 60} minutes counts as declined.",
        ),
        tail="That was an offer. Accept or decline it, and it is settled.",
    ),
    NoticeKind.TASK_DECLINED: NoticeWords(
        what=(
            "A task that you offered was declined. Its message is unread for you again and comes by itself: then "
            "answer it, or delegate it to somebody else."
        ),
        lease=_OWN,
        tail="That was a notice: there is nothing to do before the message comes.",
    ),
    NoticeKind.TASK_FINISHED: NoticeWords(
        what="A task of yours is over.",  # the next sentence says how it ended
        lease=_OWN,
        ways_in_thread=(
            "The thread is yours again. Look in its history whether people have been told how it ended: the worker "
            "may have posted that. If they have not, tell them with `slack-reply` (task_id, message).",
        ),
        tail="That was a notice. Where people know how the task ended, there is nothing left to do.",
    ),
    NoticeKind.TASK_CANCELLED: NoticeWords(
        what=(
            "A task of yours was cancelled. Stop working on it at once: post nothing more for it and change nothing "
            "more. Its lease is gone."
        ),
        lease=_OWN,
        tail="That was a notice: there is nothing to answer.",
    ),
    NoticeKind.TASK_RETURNED: NoticeWords(
        what="A task that you gave away has no worker any more: its agent is gone. Nobody works on it now.",
        lease=_OWN,
        ways=(
            "- `assign-task` (task_id, agent) gives it to another worker; `list-agents` shows who is there.",
            "- `cancel-task` (task_id) ends it, if it is no longer needed or you do it yourself.",
        ),
        ways_in_thread=("- `slack-reply` (task_id, message) tells people, if no other worker will answer them.",),
        tail="That was a notice. It is settled when the task has an agent again or is cancelled.",
    ),
    NoticeKind.AGENT_MESSAGE: NoticeWords(
        what="Another agent wrote to you. Nobody in Slack sees this, nor what you answer.",
        lease=_OWN,
        ways=(
            "Answer with `send-message`, to the agent or into the channel that it came by, if an answer is wanted. "
            "Do not thank for thanks: two agents must not talk for ever.",
        ),
        tail="That was a message between agents. If it wants no answer, there is nothing to do.",
    ),
}
