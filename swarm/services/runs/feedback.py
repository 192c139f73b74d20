"""People's opinions of answers: 👍 and 👎, the reasons for 👎, and another run that takes account of them.

Who may act: as for every button, see `swarm.services.runs.run_control`. What is guaranteed: the opinion, its calls of
other services and the other run are stored together, so each press counts once. A new opinion replaces the calls that
wait; a call in progress is followed by the new one.

Lock order: the thread, the messages with their queue heads, the opinion.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from swarm.clock import new_id
from swarm.domain.answers.agents import conversation_id
from swarm.domain.model.feedback import (
    INSTRUCTIONS,
    MAX_COMMENT_CHARACTERS,
    FeedbackView,
    Opinion,
    Reason,
    caipe_body,
    langfuse_body,
    webhook_body,
)
from swarm.domain.model.inbox import UNDER_WAY, InboxStep
from swarm.domain.model.threads import Thread
from swarm.domain.model.webhooks import WebhookKind, endpoint_of
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.button_actions import ButtonPressed, FeedbackChoice, FeedbackForm, feedback_of, reason_of
from swarm.domain.watchers import FeedbackGiven
from swarm.services.speaking.system_messages import show_anew
from swarm.store import deliveries, webhooks
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import feedback, runs
from swarm.store.runs.feedback import RatedAnswer
from swarm.store.threads import threads, transcript

THANKS_TEXT: Final = "Thank you, that helps."
FORGOTTEN_TEXT: Final = "This answer is too old to be rated."
NOTED_TEXT: Final = "Thank you, that is noted."
NO_RERUN_TEXT: Final = "Thank you, that is noted. This cannot be answered again here; ask in the thread."
UNDER_WAY_TEXT: Final = "Thank you, that is noted. Another answer is under way already."

_AGAIN_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.MORE_DETAIL: "Thank you. It is being answered again, in more detail.",
    Reason.BRIEFER: "Thank you. It is being answered again, more briefly.",
}


class _Rerun(StrEnum):
    STARTED = "started"
    UNDER_WAY = "under_way"
    IMPOSSIBLE = "impossible"  # a task, a deleted message, or a thread that is no longer stored


def answer_of(tx: Transaction, answer_id: str, channel: str) -> RatedAnswer | None:
    """Returns the answer if it belongs to that channel. The value of a button is not trusted."""
    run = runs.get(tx, answer_id)
    if run:
        thread = threads.get(tx, run.thread_id) if run.thread_id else None
        if thread is None or thread.channel != channel:
            return None
        return RatedAnswer(
            id=run.id,
            run_id=run.id,
            trace_id=run.trace_id,
            conversation_id=run.conversation_id,
            agent_id=run.agent_id,
            thread_id=thread.id,
            channel=channel,
            inbox_message_ids=() if run.task_id else run.inbox_message_ids,
        )
    row = deliveries.get(tx, answer_id)
    below = deliveries.below_of(row["closing"]) if row else None
    if row is None or below is None or not below.closing.feedback or row["channel"] != channel or not row["agent_id"]:
        return None
    return _posted(tx, row)


def give_opinion(tx: Transaction, press: ButtonPressed, policy: OperatingPolicy, me: Me) -> str | FeedbackChoice | None:
    """Stores 👍 or 👎. A repeated 👎 keeps its reason, and offers the choice of reasons again."""
    said = feedback_of(press.value)
    if said is None:
        return None
    answer = answer_of(tx, said.answer_id, press.channel)
    if answer is None:
        return FORGOTTEN_TEXT
    opinion = Opinion.UP if said.is_good else Opinion.DOWN
    before = feedback.of_person(tx, answer.id, press.user_id)
    if before is None or before.value is not opinion:
        given = feedback.give(tx, answer, press.user_id, opinion, message_ts=press.message_ts)
        _tell(tx, answer, given, policy, me)
    if said.is_good:
        return THANKS_TEXT
    return FeedbackChoice(answer_id=answer.id, offers_help=bool(policy.policy(press.channel).escalation))


def give_reason(tx: Transaction, press: ButtonPressed, policy: OperatingPolicy, me: Me) -> str | FeedbackForm | None:
    """Stores the reason for 👎. "More detail" and "briefer" also start another run."""
    reason = reason_of(press.action_id)
    if reason is None:
        return None
    answer = answer_of(tx, press.value, press.channel)
    before = feedback.of_person(tx, answer.id, press.user_id) if answer else None
    if answer is None or before is None:
        return FORGOTTEN_TEXT
    if reason is Reason.OTHER:
        return FeedbackForm(answer_id=answer.id)
    text = NOTED_TEXT
    if reason in INSTRUCTIONS:
        text = _answered_again(tx, answer, press.user_id, reason, policy)
    given = feedback.give(tx, answer, press.user_id, Opinion.DOWN, message_ts=before.message_ts, reason=reason)
    _tell(tx, answer, given, policy, me)
    return text


def give_comment(tx: Transaction, press: ButtonPressed, policy: OperatingPolicy, me: Me) -> str | None:
    """Stores a reason in the person's own words, entered in the form."""
    answer = answer_of(tx, press.value, press.channel)
    before = feedback.of_person(tx, answer.id, press.user_id) if answer else None
    if answer is None or before is None:
        return FORGOTTEN_TEXT
    given = feedback.give(
        tx,
        answer,
        press.user_id,
        Opinion.DOWN,
        message_ts=before.message_ts,
        reason=Reason.OTHER,
        comment=press.text.strip()[:MAX_COMMENT_CHARACTERS] or None,
    )
    _tell(tx, answer, given, policy, me)
    return NOTED_TEXT


def _posted(tx: Transaction, row: Row) -> RatedAnswer | None:
    thread = threads.get(tx, row["thread_id"])
    if thread is None:
        return None
    message = inbox.get(tx, row["inbox_message_id"]) if row["inbox_message_id"] else None
    return RatedAnswer(
        id=row["id"],
        run_id=None,
        trace_id=None,
        conversation_id=conversation_id(thread.team, thread.channel, thread.thread_ts),
        agent_id=row["agent_id"],
        thread_id=thread.id,
        channel=thread.channel,
        inbox_message_ids=_answered_with(tx, message, row["created_at"]) if message else (),
    )


def _answered_with(tx: Transaction, message: InboxMessage, answered_at: int) -> tuple[str, ...]:
    """Returns the messages that the same reply has answered, which ended in its transaction."""
    members = inbox.members(tx, message.lease_token) if message.lease_token else []
    together = tuple(one.id for one in members if one.resolved_at == answered_at)
    return together if message.id in together else (message.id,)


def _answered_again(tx: Transaction, answer: RatedAnswer, person: str, reason: Reason, policy: OperatingPolicy) -> str:
    """Starts another run, and returns the text for the person."""
    match _rerun(tx, answer, person, reason, policy):
        case _Rerun.STARTED:
            return _AGAIN_TEXTS[reason]
        case _Rerun.UNDER_WAY:
            return UNDER_WAY_TEXT
        case _Rerun.IMPOSSIBLE:
            return NO_RERUN_TEXT


def _rerun(tx: Transaction, answer: RatedAnswer, person: str, reason: Reason, policy: OperatingPolicy) -> _Rerun:
    """Makes the answered messages due again. Locks all messages before the first queue head."""
    thread = threads.locked(tx, answer.thread_id)
    found = [inbox.locked(tx, inbox_message_id) for inbox_message_id in sorted(answer.inbox_message_ids)]
    messages = [message for message in found if message and _is_stored(tx, thread, message)]
    if any(message.status in UNDER_WAY for message in messages):
        return _Rerun.UNDER_WAY
    why = f"{reason.value.replace('_', ' ')}, for <@{person}>"
    again = [
        message
        for message in messages
        if inbox.move(tx, InboxStep.RERUN, message, reason=why, instruction=INSTRUCTIONS[reason])
    ]
    for message in again:
        show_anew(tx, thread, message, policy.reactions)
    if not again:
        return _Rerun.IMPOSSIBLE
    runs.rerun(tx, thread.id, [message.id for message in again], person)
    threads.touch(tx, [thread.id])
    return _Rerun.STARTED


def _is_stored(tx: Transaction, thread: Thread, message: InboxMessage) -> bool:
    """Whether the agent could read the message: neither the message nor its thread is deleted, and it is kept."""
    row = transcript.find(tx, message.team, message.channel, message.ts)
    is_there = row is not None and row["deleted_at"] is None
    return is_there and not transcript.is_deleted(tx, thread.team, thread.channel, thread.thread_ts)


def _tell(tx: Transaction, answer: RatedAnswer, given: FeedbackView | None, policy: OperatingPolicy, me: Me) -> None:
    """Counts a new opinion, and queues the calls of the configured services."""
    if given is None:
        return
    tx.note(FeedbackGiven(agent=given.agent, value=given.value, reason=given.reason))
    link = me.link(given.channel, given.message_ts, given.thread_ts)
    bodies: dict[WebhookKind, Mapping[str, JsonValue]] = {
        WebhookKind.LANGFUSE: langfuse_body(given),
        WebhookKind.CAIPE: caipe_body(given, link),
        WebhookKind.FEEDBACK: webhook_body(given, link),
    }
    for kind in (kind for kind in bodies if endpoint_of(policy.book.current.webhooks, kind, "")):
        about = f"feedback:{kind}:{given.id}:"
        webhooks.discard(tx, about)
        key = f"{about}{new_id()}"
        webhooks.add(tx, kind, bodies[kind], idempotency_key=key, thread_id=answer.thread_id, person=given.user_id)
