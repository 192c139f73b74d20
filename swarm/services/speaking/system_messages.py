"""The coordinator's own posts and reactions in a thread.

One post announces a waiting message until the message is answered. When the default lead answers for another agent, the
thread gets one post a day. Unknown agent names and refusals are posted ephemerally to the author.

The Retry button of a failed answer is removed as soon as the work is handed out again or can no longer be handed out. A
separate delivery removes the button, even if it was pressed just before a restart. Another press of a remaining button
only repeats the removal, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from swarm.clock import SECOND, ago, slack_ts_to_us
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing, below_answer
from swarm.domain.answers.text import without_markers
from swarm.domain.model.deliveries import DeliveryKind, Mark
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import Author, AuthorKind, ChannelType, SlackMessage, Thread
from swarm.domain.policy.access import Denial, why_refused
from swarm.domain.policy.operating import Reactions
from swarm.domain.policy.roster import Candidate, Roster, names_and_verb
from swarm.domain.routing import Decision, RoutingOutcome
from swarm.domain.text.cutting import split
from swarm.domain.text.slack_text import safe, title_of
from swarm.store import deliveries
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import below_of
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.reactions import Reaction, react, react_all, take_back
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript
from swarm_base.characters import strip_invisible
from swarm_base.secrets import REMOVED

PART_CHARACTERS: Final = 3_900
"""Longer texts are split, because Slack itself splits a message at about 4,000 characters, regardless of code."""

FAILED_TEXT: Final = "I could not answer this (last error: {error})."
_FAILED_KEY: Final = "failed:"
_ERROR_CHARACTERS: Final = 300

LIMITED_TEXT: Final = (
    "You have reached the limit of messages per minute, so no agent has received this message. "
    "Wait a minute, then send it again."
)

QUEUED_TEXT: Final = (
    "Nobody is available right now. Your message is queued and will be answered as soon as an agent is back."
)
WAITS_TEXT: Final = (
    "{who} not available right now. Your message is queued and will be answered as soon as {back} available."
)
NO_LEAD_TEXT: Final = (
    "No lead is available right now. Your message is queued and will be answered as soon as one is available."
)
FAILOVER_TEXT: Final = "{who} not available right now, so {lead} answers instead."
UNKNOWN_TEXT: Final = "There is no agent called {names}, so {who} got your message. You can write to {choice}."
BOT_CAPPED_TEXT: Final = (
    "Bots have reached this thread's hourly limit, so no agent receives more messages from bots for now. "
    "Messages from people are not affected; my operator can raise the limit (bot_messages_per_hour)."
)

LOST_TEXT: Final = "I could not post my answer in {where}: {why}"
_WHY_LOST: Final = {
    "channel_not_found": "I cannot see it any more. Invite me there, then write to me again.",
    "is_archived": "it is archived. Please write to me somewhere else.",
    "message_not_found": "the thread is gone. Please write to me again.",
    "not_in_channel": "I am not a member. Invite me there, then write to me again.",
    "thread_not_found": "the thread is gone. Please write to me again.",
}
_RESTRICTED: Final = "this workspace does not let me write there. Please write to me somewhere else."
_LOST: Final = "Slack did not accept it. My operator can send it again."
_LOST_KEY: Final = "lost:"

_MOST_NAMES: Final = 20
_MOST_UNKNOWN: Final = 3
_LONGEST_NAME: Final = 40

RETRY_TAKEN_BY: Final = "🔁 Run again for <@{person}>."
RETRY_TAKEN: Final = "🔁 Run again."
RETRY_BY_OPERATOR: Final = "🔁 An operator is running this again."
RETRY_IMPOSSIBLE: Final = "This cannot be run again."

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
    is_safe: bool = False,
    closing: Closing = NOTHING_BELOW,
    place: AnswerTarget | None = None,
) -> list[str]:
    """Queues a text of any length for a thread, escaped and split. Returns the delivery ids in order.

    ``closing`` appears below the last post of an answer, and needs its ``place``. Without a text, the note of
    ``closing`` is posted instead; without either, nothing is posted. ``is_safe`` marks a text that is already escaped.
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
            broadcast=broadcast,
            closing=closing if place and number == len(parts) else None,
            place=place,
        )
        for number, part in enumerate(parts, start=1)
    ]
    return [delivery_id for delivery_id in wanted if delivery_id]


def post_answer(
    tx: Transaction,
    thread: Thread,
    text: str,
    *,
    agent_id: str,
    agent_name: str,
    requester: str | None,
    inbox_message_id: str | None = None,
    task_id: str | None = None,
    broadcast: bool = False,
    mentionable: frozenset[str] = frozenset(),
    run_id: str = "",
) -> list[str]:
    """Queues an answer that is not streamed, with the footer and 👍 and 👎 below its last post, for its run if any."""
    place = AnswerTarget(
        team=thread.team,
        channel=thread.channel,
        thread_ts=thread.thread_ts,
        is_direct=thread.channel_type is ChannelType.DM,
        requester=requester,
        agent_name=agent_name,
        run_id=run_id,
    )
    return post_message(
        tx,
        thread,
        text,
        agent_id=agent_id,
        inbox_message_id=inbox_message_id,
        task_id=task_id,
        broadcast=broadcast,
        mentionable=mentionable,
        closing=replace(below_answer(text), asked=asked_ago(tx, [inbox_message_id], task_id)),
        place=place,
    )


def asked_ago(tx: Transaction, inbox_message_ids: Iterable[str | None], task_id: str | None) -> str:
    """Returns how long ago the first of the messages was written, or of those that the task stands for."""
    found = [inbox.get(tx, one) for one in inbox_message_ids if one]
    found += inbox.of_task(tx, task_id, InboxStatus.DELEGATED) if task_id else []
    return ago(min((slack_ts_to_us(one.ts) for one in found if one), default=tx.now), tx.now)


def sentence(text: str) -> str:
    """Returns the text with a full stop at the end, added if missing."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…", "`")) else f"{text}."


def post_ephemeral(
    tx: Transaction,
    thread: Thread,
    message: SlackMessage,
    text: str,
    idempotency_key: str,
    *,
    drops_request_id: str | None = None,
) -> None:
    """Answers a message visibly only to its author, at most once per key, optionally with a button that drops a
    question.
    """
    is_private = thread.channel_type is ChannelType.DM  # a direct message has no other readers
    deliveries.add(
        tx,
        DeliveryKind.POST,
        thread,
        text=text,
        idempotency_key=idempotency_key,
        target_ts=None if is_private else message.ts,
        person=None if is_private else message.author.id,
        drops_request_id=drops_request_id,
        even_if_silent=True,
    )


def tell_person(tx: Transaction, thread: Thread, person: str, text: str, idempotency_key: str | None = None) -> None:
    """Shows a text in a thread to one person only, at most once per key."""
    shown_to = None if thread.channel_type is ChannelType.DM else person
    deliveries.add(
        tx,
        DeliveryKind.POST,
        thread,
        text=text,
        idempotency_key=idempotency_key,
        target_ts=thread.thread_ts if shown_to else None,
        person=shown_to,
    )


def tell_lost(tx: Transaction, thread: Thread, inbox_message: InboxMessage, reason: str) -> None:
    """Tells the person who wrote a message that its answer is lost, once, in a direct message; see `tell_lost_here`."""
    message = transcript.find(tx, inbox_message.team, inbox_message.channel, inbox_message.ts)
    if message is None or message["author_kind"] != AuthorKind.USER:
        return
    is_restricted = reason.startswith("restricted_action")
    why = _WHY_LOST.get(reason, _RESTRICTED if is_restricted else _LOST)
    where = "this conversation" if thread.channel_type is ChannelType.DM else f"<#{thread.channel}>"
    text = LOST_TEXT.format(where=where, why=why)
    key = f"{_LOST_KEY}{inbox_message.id}"
    deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=key, to=message["author_id"])


def tell_lost_here(tx: Transaction, thread: Thread, row: Row) -> None:
    """Shows what could not be told in a direct message to the same person in the thread, if it was about an answer."""
    key = row["idempotency_key"] or ""
    if key.startswith(_LOST_KEY) and not row["person"] and thread.channel_type is not ChannelType.DM:
        tell_person(tx, thread, row["channel"], row["text"], f"{key}:here")


def greeting_key(thread: Thread) -> str:
    """Returns the key under which a pane or a direct message is greeted once."""
    return f"greeting:{thread.id}"


def give_title(tx: Transaction, thread: Thread, message: SlackMessage, *, is_first: bool) -> None:
    """Names a thread of a direct message after its first message, once. A pane with a greeting has no message yet."""
    title = title_of(message.own_text)
    if not title or thread.is_flat or thread.channel_type is not ChannelType.DM:
        return
    if is_first or deliveries.is_wanted(tx, greeting_key(thread)):
        deliveries.add(tx, DeliveryKind.TITLE, thread, text=title, idempotency_key=f"title:{thread.id}")


def show_stored(tx: Transaction, messages: Iterable[tuple[Thread, str]], reactions: Reactions) -> None:
    """Adds 👀 to messages, given by their threads and timestamps."""
    wanted = [Reaction(thread.id, thread.team, thread.channel, ts, reactions.stored) for thread, ts in messages]
    react_all(tx, wanted, Mark.STORED)


def show_answered(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """Adds ✅."""
    react(tx, thread, ts, reactions.answered, Mark.END)


def show_all_answered(tx: Transaction, answered: Sequence[tuple[InboxMessage, Reactions]]) -> None:
    """Adds ✅ to messages of any threads."""
    wanted = [
        Reaction(message.thread_id, message.team, message.channel, message.ts, reactions.answered)
        for message, reactions in answered
    ]
    react_all(tx, wanted, Mark.END)


def react_failed(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """Adds ❌."""
    react(tx, thread, ts, reactions.failed, Mark.END)


def show_stopped(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """Adds 🛑."""
    react(tx, thread, ts, reactions.stopped, Mark.END)


def show_anew(tx: Transaction, thread: Thread, inbox_message: InboxMessage, reactions: Reactions) -> None:
    """Removes the end marks of a message that is handed out again, except the marks of other agents, and the sentence
    that it was set aside.
    """
    deliveries.take_down(tx, thread, _failed_key(inbox_message))
    others = [
        one
        for one in inbox.of_message(tx, inbox_message.team, inbox_message.channel, inbox_message.ts)
        if one.id != inbox_message.id
    ]
    kept = {emoji for other in others for emoji in _end_marks(other.status, reactions)}
    for emoji in _end_marks(InboxStatus.DELEGATED, reactions) - kept:
        take_back(tx, thread, inbox_message.ts, emoji, "its message is being processed again")


def _end_marks(status: InboxStatus, reactions: Reactions) -> set[str]:
    """Returns the emoji that may mark a message in this state; for a delegated message, the marks of the task's end."""
    marks = {
        InboxStatus.RESPONDED: (reactions.answered,),
        InboxStatus.DISMISSED: (reactions.answered, reactions.stopped),
        InboxStatus.DEAD: (reactions.failed,),
        InboxStatus.DELEGATED: (reactions.answered, reactions.failed, reactions.stopped),
    }
    return {emoji for emoji in marks.get(status, ()) if emoji}


def show_failed(tx: Transaction, thread: Thread, inbox_message: InboxMessage, error: str, reactions: Reactions) -> None:
    """Adds ❌ and posts the last error with a Retry button, until the message is handed out again (`show_anew`)."""
    react_failed(tx, thread, inbox_message.ts, reactions)
    line = " ".join(error.split()).rstrip(".")
    shown = line if len(line) <= _ERROR_CHARACTERS else f"{line[:_ERROR_CHARACTERS]}…"
    place = AnswerTarget(
        team=thread.team,
        channel=thread.channel,
        thread_ts=thread.thread_ts,
        is_direct=thread.channel_type is ChannelType.DM,
        requester=None,
        agent_name="",
        run_id="",  # the button names the delivery
    )
    deliveries.add(
        tx,
        DeliveryKind.POST,
        thread,
        text=_safe(thread, FAILED_TEXT.format(error=shown), None),
        closing=Closing(retry=True),
        place=place,
        idempotency_key=_failed_key(inbox_message),
    )


def set_aside_in(tx: Transaction, delivery_id: str) -> str | None:
    """Returns the inbox message whose failure a post with a Retry button tells."""
    posted = deliveries.get(tx, delivery_id)
    key = (posted["idempotency_key"] or "") if posted else ""
    return key.removeprefix(_FAILED_KEY).partition(":")[0] if key.startswith(_FAILED_KEY) else None


def _failed_key(inbox_message: InboxMessage) -> str:
    return f"{_FAILED_KEY}{inbox_message.id}:{inbox_message.claims}"


def show_progress(tx: Transaction, thread: Thread, task: Task, text: str, percent: int | None) -> None:
    """Shows the progress of a task in a message with a Stop button, which is posted once and then updated."""
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
            idempotency_key=key,
            task_id=task.id,
            stops_task_id=task.id,
        )


def close_progress(tx: Transaction, thread: Thread, task: Task, how: str) -> None:
    """Marks the progress message of a finished task, if any, and removes the Stop button."""
    words = _first_part(thread, task, f"{_SIGNS[how]} **{task.title}**: {how}")
    deliveries.change(tx, thread, _progress_key(task), words, stops_task_id=None, agent_id=task.agent_id)


def tell_queued(tx: Transaction, thread: Thread, roster: Roster, waits_for: Sequence[Candidate]) -> None:
    """Posts that a message is waiting, and for which agents; at most once until the message is answered."""
    if not thread.is_silent and threads.tell_queued(tx, thread.id):
        post_message(tx, thread, _queued_text(roster, waits_for))


def _queued_text(roster: Roster, waits_for: Sequence[Candidate]) -> str:
    """Returns the reason why a message waits. ``waits_for`` are its agents, all offline; empty if it waits for
    a lead.
    """
    lead = roster.default_lead
    if all(agent == lead for agent in waits_for) and not any(agent.online for agent in roster.agents):
        return QUEUED_TEXT
    if not waits_for:
        return NO_LEAD_TEXT
    # A lead that is online has not taken the message, because its author may not use the lead.
    others = [lead.name] if lead and not lead.online and lead not in waits_for else []
    back = " or ".join([*(agent.name for agent in waits_for), *others]) + " is"
    return WAITS_TEXT.format(who=names_and_verb(waits_for), back=back)


def tell_failover(tx: Transaction, thread: Thread, absent: Sequence[Candidate], lead: Candidate) -> None:
    """Posts that a named agent is offline and that the lead answers instead, once a day per agent."""
    day = tx.now // (24 * 3600 * SECOND)
    key = f"stands_in:{thread.id}:{','.join(sorted(agent.id for agent in absent))}:{lead.id}:{day}"
    text = FAILOVER_TEXT.format(who=names_and_verb(absent), lead=lead.name)
    deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=key)


def tell_routed(tx: Transaction, thread: Thread, message: SlackMessage, decision: Decision, roster: Roster) -> None:
    """Posts about unexpected routing: unknown names, offline agents, failover."""
    takers = [agent for target in decision.targets if (agent := roster.by_id(target.agent_id))]
    if decision.unknown and roster.agents and message.author.kind is AuthorKind.USER:
        key = f"unknown:{thread.team}:{message.channel}:{message.ts}"
        post_ephemeral(tx, thread, message, _unknown_text(decision.unknown, takers, roster), key)
    if not any(agent.online for agent in takers):
        tell_queued(tx, thread, roster, takers)
    elif decision.absent and roster.default_lead:
        tell_failover(tx, thread, decision.absent, roster.default_lead)


def _unknown_text(unknown: Sequence[str], takers: Sequence[Candidate], roster: Roster) -> str:
    """Returns the text about an unknown ``swarm#…`` name: the agents that got the message, and the known names."""
    by_presence = sorted(roster.agents, key=lambda agent: not agent.online)
    known = ["swarm#" + agent.name for agent in by_presence]
    shown = ", ".join(known[:_MOST_NAMES])
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    names = " or ".join(f"“{_short(name)}”" for name in unknown[:_MOST_UNKNOWN])
    who = " and ".join(agent.name for agent in takers) or "nobody yet"
    return UNKNOWN_TEXT.format(names=names, who=who, choice=f"{shown}{more}, or to all of them with swarm#all")


def tell_refused(tx: Transaction, thread: Thread, message: SlackMessage, decision: Decision, key: str) -> None:
    """Posts a refusal that only the author sees; for bots, in the thread, because bots see no ephemeral messages."""
    if decision.outcome is RoutingOutcome.BOT_CAPPED:
        deliveries.add(tx, DeliveryKind.POST, thread, text=BOT_CAPPED_TEXT, idempotency_key=key, even_if_silent=True)
        return
    text = why_refused(decision.denial, message.author) if decision.denial else LIMITED_TEXT
    post_ephemeral(tx, thread, message, text, key)


def refusal_key(tx: Transaction, team: str, person: str, denied: Denial | None, channel: str) -> str:
    """Returns the key under which a person is told of a refusal: once per day and scope (`Denial.scope`)."""
    scope, day = denied.scope(channel) if denied else "", tx.now // (24 * 3600 * SECOND)
    return f"refused:{team}:{person}:{scope}:{day}"


def tell_refused_later(tx: Transaction, thread: Thread, author: Author, denied: Denial) -> None:
    """Posts a refusal of a message that was routed before, visibly only to its author."""
    key = refusal_key(tx, thread.team, author.id, denied, thread.channel)
    tell_person(tx, thread, author.id, why_refused(denied, author), key)


def replace_retry(tx: Transaction, thread: Thread, message_ts: str, text: str) -> None:
    """Replaces the Retry button of a message with ``text`` (mrkdwn) after a press."""
    _replace(tx, thread, text, target_ts=message_ts)


def retire_retry_of_message(tx: Transaction, thread: Thread, inbox_message: InboxMessage) -> None:
    """Removes the Retry buttons below the answers to a message that an operator has handed out again."""
    for run in runs.of_thread(tx, thread.id):
        if inbox_message.id in run.inbox_message_ids:
            _redriven(tx, thread, run)


def retire_retry_of_task(tx: Transaction, thread: Thread, task: Task) -> None:
    """Removes the Retry buttons of a task that an operator has handed out again."""
    for run in runs.of_task(tx, task.id):
        _redriven(tx, thread, run)


def _progress_key(task: Task) -> str:
    return f"progress:{task.id}"


def _first_part(thread: Thread, task: Task, text: str) -> str:
    return split(_safe(thread, text, task.agent_id), PART_CHARACTERS)[0]


def _safe(thread: Thread, text: str, agent_id: str | None, mentionable: frozenset[str] = frozenset()) -> str:
    """Returns the text escaped for Slack, without markers and secrets. Logs the removal of a secret."""
    text = without_markers(strip_invisible(text))
    shown = safe(text, mentionable)
    if shown.count(REMOVED) > text.count(REMOVED):
        _log.warning(
            "A secret was removed from an agent's text.",
            action="secret_removed",
            agent_id=agent_id,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
        )
    return shown


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _redriven(tx: Transaction, thread: Thread, run: Run) -> None:
    if run.status is not RunStatus.FAILED or run.retried_at is not None:
        return
    posted = _posted_with_button(tx, run)
    page = next((page for page in reversed(run_pages.of_run(tx, run.id)) if page.ts), None)
    if posted:
        _replace(tx, thread, RETRY_BY_OPERATOR, updates_id=posted)
    elif page:
        _replace(tx, thread, RETRY_BY_OPERATOR, target_ts=page.ts)


def _posted_with_button(tx: Transaction, run: Run) -> str | None:
    """Returns the id of the post with an answer's Retry button; None if the last page has the button."""
    about = deliveries.of_task(tx, run.task_id) if run.task_id else []
    about += deliveries.of_inbox_message(tx, run.inbox_message_ids[0]) if run.inbox_message_ids else []
    for row in reversed(about):
        below = below_of(row["closing"])
        if below and below.closing.retry and below.place.run_id == run.id:
            return str(row["id"])
    return None


def _replace(
    tx: Transaction, thread: Thread, text: str, *, target_ts: str | None = None, updates_id: str | None = None
) -> None:
    deliveries.add(tx, DeliveryKind.UPDATE, thread, text=text, target_ts=target_ts, updates_id=updates_id, removes=True)
