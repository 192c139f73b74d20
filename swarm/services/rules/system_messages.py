"""What the swarm shows in a thread on its own account: reactions, and the few sentences of the coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import structlog

from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.model.deliveries import DeliveryKind, Mark
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import Author, ChannelType, SlackMessage, Standing
from swarm.domain.operating_policy import Reactions
from swarm.domain.text.cutting import split
from swarm.domain.text.mrkdwn import safe
from swarm.domain.text.secrets import REMOVED
from swarm.store import deliveries
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.reactions import react, take_back
from swarm.store.tasks import Task

PART_CHARACTERS: Final = 3_900
"""Longer texts are split: Slack itself splits a message at about 4,000 characters, without regard for code."""

FAILED_TEXT: Final = (
    "This message could not be answered: {reason} It is set aside; an operator can hand it out again (redrive)."
)

LIMITED_TEXT: Final = (
    "That was more than I take from one person within a minute, so no agent has got this message. "
    "Wait a minute, then send it again."
)

_REFUSED: Final = {
    Standing.GUEST: "You are a guest of this workspace, and I only work for its members here.",
    Standing.EXTERNAL: "You belong to another workspace, and I only work for members of this one here.",
    Standing.UNVERIFIED: "Slack does not tell me who you are, and I only work for members of this workspace here.",
}
_NOT_LISTED: Final = "You are not on the list of people whom I work for here."
_WHAT_TO_DO: Final = "Ask a member of this channel to write to me, or whoever runs me to allow you."

_log = structlog.get_logger(__name__)

_SIGNS: Final = {"done": "✅", "failed": "❌", "cancelled": "🛑"}


def post_message(
    tx: Transaction,
    thread: Thread,
    text: str,
    *,
    agent_id: str | None = None,
    inbox_message_id: str | None = None,
    task_id: str | None = None,
    broadcast: bool = False,
    mentionable: frozenset[str] = frozenset(),
) -> list[str]:
    """Queue a text of any length for a thread, made safe and split; the deliveries' ids, in order."""
    parts = split(_safe(thread, text, agent_id, mentionable), PART_CHARACTERS)
    wanted = [
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=part,
            agent_id=agent_id,
            inbox_message_id=inbox_message_id,
            task_id=task_id,
            broadcast=broadcast,
        )
        for part in parts
    ]
    return [delivery_id for delivery_id in wanted if delivery_id]


def post_closing(
    tx: Transaction,
    thread: Thread,
    text: str,
    closing: Closing,
    place: AnswerTarget,
    *,
    is_safe: bool = False,
    agent_id: str | None = None,
    inbox_message_id: str | None = None,
    task_id: str | None = None,
    mentionable: frozenset[str] = frozenset(),
) -> list[str]:
    """Queue the text of an answer, or what could not be shown of it live; its last part shows ``closing`` below it.

    Without a text the note of ``closing`` stands in its place; without either, nothing is said. ``is_safe`` is for a
    text that was made safe before. Returns the deliveries' ids, in order.
    """
    parts = split(text if is_safe else _safe(thread, text, agent_id, mentionable), PART_CHARACTERS)
    if not parts and closing.note:
        parts, closing = [closing.note], replace(closing, note="")
    wanted = [
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=part,
            agent_id=agent_id,
            inbox_message_id=inbox_message_id,
            task_id=task_id,
            closing=closing if number == len(parts) else None,
            place=place,
        )
        for number, part in enumerate(parts, start=1)
    ]
    return [delivery_id for delivery_id in wanted if delivery_id]


def sentence(text: str) -> str:
    """The text with the full stop that it may lack."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…", "`")) else f"{text}."


def refused_text(author: Author) -> str:
    """What somebody is told who is not allowed here."""
    return f"{why_refused(author)} {_WHAT_TO_DO}"


def why_refused(author: Author) -> str:
    """Why somebody is not allowed here, as a sentence to this person."""
    return (_REFUSED.get(author.standing) if author.standing else None) or _NOT_LISTED


def post_ephemeral(tx: Transaction, thread: Thread, message: SlackMessage, text: str, once_key: str) -> None:
    """Answer a message so that only its author sees it, at most once for a key."""
    is_private = thread.channel_type is ChannelType.DM  # where Slack has nobody to hide it from
    deliveries.add(
        tx,
        DeliveryKind.POST,
        thread,
        text=text,
        once_key=once_key,
        target_ts=None if is_private else message.ts,
        person=None if is_private else message.author.id,
    )


def show_stored(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """👀"""
    react(tx, thread, ts, reactions.stored, Mark.STORED)


def show_answered(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """✅"""
    react(tx, thread, ts, reactions.answered, Mark.END)


def react_failed(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """❌"""
    react(tx, thread, ts, reactions.failed, Mark.END)


def show_stopped(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """🛑"""
    react(tx, thread, ts, reactions.stopped, Mark.END)


def show_anew(tx: Transaction, thread: Thread, entry: InboxMessage, reactions: Reactions) -> None:
    """A message is worked on again: its end marks go, but for those that tell of other agents that have it too."""
    others = [one for one in inbox.of_message(tx, entry.team, entry.channel, entry.ts) if one.id != entry.id]
    kept = {emoji for other in others for emoji in _end_marks(other.status, reactions)}
    for emoji in _end_marks(InboxStatus.DELEGATED, reactions) - kept:
        take_back(tx, thread, entry.ts, emoji, "its message is worked on again")


def _end_marks(status: InboxStatus, reactions: Reactions) -> set[str]:
    """The emoji that may tell of a message in this state; of a delegated one, how its task ended."""
    marks = {
        InboxStatus.RESPONDED: (reactions.answered,),
        InboxStatus.DISMISSED: (reactions.answered, reactions.stopped),
        InboxStatus.DEAD: (reactions.failed,),
        InboxStatus.DELEGATED: (reactions.answered, reactions.failed, reactions.stopped),
    }
    return {emoji for emoji in marks.get(status, ()) if emoji}


def show_failed(tx: Transaction, thread: Thread, ts: str, reason: str, reactions: Reactions) -> None:
    """❌, and why."""
    react_failed(tx, thread, ts, reactions)
    post_message(tx, thread, FAILED_TEXT.format(reason=sentence(reason)))


def show_progress(tx: Transaction, thread: Thread, task: Task, text: str, percent: int | None) -> None:
    """How far a task is: one message with a button to stop it, posted once and changed from then on."""
    share = f" ({percent} %)" if percent is not None else ""
    words = _first_part(thread, task, f"⏳ **{task.title}**{share}: {text}")
    key = _progress_key(task)
    if not deliveries.change(tx, thread, key, words, stops_task_id=task.id, agent_id=task.agent_id):
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=words,
            agent_id=task.agent_id,
            once_key=key,
            task_id=task.id,
            stops_task_id=task.id,
        )


def close_progress(tx: Transaction, thread: Thread, task: Task, how: str) -> None:
    """A task is over: the message that showed its progress says so and loses its button, if there is one."""
    words = _first_part(thread, task, f"{_SIGNS[how]} **{task.title}**: {how}")
    deliveries.change(tx, thread, _progress_key(task), words, stops_task_id=None, agent_id=task.agent_id)


def _progress_key(task: Task) -> str:
    return f"progress:{task.id}"


def _first_part(thread: Thread, task: Task, text: str) -> str:
    return split(_safe(thread, text, task.agent_id), PART_CHARACTERS)[0]


def _safe(thread: Thread, text: str, agent_id: str | None, mentionable: frozenset[str] = frozenset()) -> str:
    """Text for Slack; that a secret was taken out of it is logged."""
    shown = safe(text, mentionable)
    if shown.count(REMOVED) > text.count(REMOVED):
        _log.warning(
            "A secret was removed from what an agent says.",
            action="secret_removed",
            agent_id=agent_id,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
        )
    return shown
