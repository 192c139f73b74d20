"""The wording of notices in prompts, one entry per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import OFFER_SECONDS

_BESIDE_WORK: Final = "of this notice only; your work keeps its own token"
_OWN: Final = "of this notice"
_GO_ON: Final = "Continue your work with this in mind."
_NO_ANSWER: Final = f"That was a notice: there is nothing to answer. {_GO_ON}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _NoticeWords:
    """The sentences of one kind of notice, from top to bottom."""

    what: str  # the event
    lease: str  # how to use its lease
    ways: tuple[str, ...] = ()  # possible actions
    ways_in_thread: tuple[str, ...] = ()  # additional actions if there is a thread to post in
    tail: str


NOTICES: Final[Mapping[str, _NoticeWords]] = {
    NoticeKind.MESSAGE_CHANGED: _NoticeWords(
        what=(
            "A message you are working on was edited in Slack. Follow its new text from now on. "
            "If you have already answered the old text, correct your answer where the change makes it wrong."
        ),
        lease=_BESIDE_WORK,
        tail=_NO_ANSWER,
    ),
    NoticeKind.MESSAGE_DELETED: _NoticeWords(
        what=(
            "A message you are working on was deleted in Slack. It is withdrawn: stop working on it and "
            "do not answer it; a reply would be refused with `withdrawn`. Other messages of the thread are not "
            "affected."
        ),
        lease=_BESIDE_WORK,
        tail=_NO_ANSWER,
    ),
    NoticeKind.TASK_FOLLOW_UP: _NoticeWords(
        what="A person wrote in the thread of your running task. Include the message in your work.",
        lease=_BESIDE_WORK,
        ways=(
            "- If it wants an answer: `slack-reply` (inbox_message_id, message) under the lease_token of the task. "
            "Unanswered messages go back to the lead when the task ends.",
            "- If it wants you to stop: stop, with `task-fail` and a reply that says so.",
        ),
        tail="That was a notice. Continue your task with this in mind.",
    ),
    NoticeKind.TASK_OFFERED: _NoticeWords(
        what="A task is offered to you. It is not yours until you accept it.",
        lease=_OWN,
        ways=(
            "- `accept-task` (task_id): the task then comes to you as `task_assigned`. Do nothing for it before that.",
            "- `decline-task` (task_id, reason), if another agent is better suited, or you have no time.",
            f"- An offer that nobody answers for {OFFER_SECONDS // 60} minutes counts as declined.",
        ),
        tail="That was an offer. Accept or decline it, and it is settled.",
    ),
    NoticeKind.TASK_DECLINED: _NoticeWords(
        what=(
            "A task that you offered was declined. Its message is unread for you again and comes automatically: answer "
            "it then, or delegate it to another agent."
        ),
        lease=_OWN,
        tail="That was a notice: there is nothing to do before the message comes.",
    ),
    NoticeKind.TASK_FINISHED: _NoticeWords(
        what="A task of yours has ended.",  # the next sentence gives the result
        lease=_OWN,
        ways_in_thread=(
            "The thread is yours again. Check its history for the result: the worker may have told people already. "
            "If not, tell them with `slack-reply` (task_id, message).",
        ),
        tail="That was a notice. If people know the result, there is nothing left to do.",
    ),
    NoticeKind.TASK_CANCELLED: _NoticeWords(
        what=(
            "A task of yours was cancelled. Stop working on it at once: post nothing more for it and change nothing "
            "more. Its lease is gone."
        ),
        lease=_OWN,
        tail="That was a notice: there is nothing to answer.",
    ),
    NoticeKind.TASK_RETURNED: _NoticeWords(
        what="A task that you delegated has lost its worker: its agent is gone. Nobody works on it now.",
        lease=_OWN,
        ways=(
            "- `assign-task` (task_id, agent) assigns it to another worker; `list-agents` shows who is online.",
            "- `cancel-task` (task_id) ends it, if it is no longer needed or you do it yourself.",
        ),
        ways_in_thread=("- `slack-reply` (task_id, message) tells people, if no other worker will answer them.",),
        tail="That was a notice. It is settled when the task has an agent again or is cancelled.",
    ),
    NoticeKind.HUMAN_INPUT: _NoticeWords(
        what="People have decided on what you asked, or nobody did in time. The decision is below.",
        lease=_BESIDE_WORK,
        ways=(
            "If your work waits for it, the work comes to you again with the decision. If you wait for it within your "
            "run, continue now.",
        ),
        tail="That was a notice: there is nothing to answer.",
    ),
    NoticeKind.AGENT_MESSAGE: _NoticeWords(
        what="Another agent wrote to you. Nobody in Slack sees the message or your reply.",
        lease=_OWN,
        ways=(
            "Reply with `send-message`, to the agent or in the channel of the message, if a reply is expected. "
            "Do not reply to thanks: two agents must not talk forever.",
        ),
        tail="That was a message between agents. If no reply is expected, there is nothing to do.",
    ),
}
