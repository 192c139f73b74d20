"""Explains the routing of one Slack message with a readable timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from typing_extensions import TypedDict

from swarm.clock import SECOND, to_iso
from swarm.domain.errors import Invalid, NotFound
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.webhooks import WebhookKind
from swarm.domain.policy.escalations import Escalation, asked_by
from swarm.domain.requests.shown import notified_title
from swarm.services.speaking.escalations import post_key
from swarm.store import agents, deliveries, escalations, history, requests, tasks, webhooks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.reactions import reaction_of
from swarm.store.tasks import Task
from swarm.store.threads import status_lines, threads, transcript

_REFERENCE = re.compile(r"(?P<channel>[A-Z][A-Z0-9]+):(?P<ts>\d+\.\d+)")
_PERMALINK = re.compile(r"/archives/(?P<channel>[A-Z][A-Z0-9]+)/p(?P<seconds>\d+)(?P<micros>\d{6})(?:\?|$)")


class StepShape(TypedDict):
    """One line of a timeline."""

    at: str
    change: str
    agent: str | None
    reason: str | None


class ExplainedInboxMessage(TypedDict):
    """The progress of a message for one agent."""

    inbox_message_id: str
    agent: str | None
    status: str
    matched_by: str
    attempts: int
    waits_for: str | None  # what holds the message back; while it is worked on, the first sign of its agent
    timeline: list[StepShape]
    deliveries: list[str]  # for example "post: sent 1700000000.000200"


class ExplainedTask(TypedDict):
    """The progress of a task created from the message."""

    task_id: str
    title: str
    agent: str | None
    status: str
    waits_for: str | None  # the first sign of its agent
    timeline: list[StepShape]
    deliveries: list[str]


class ExplainedEscalation(TypedDict):
    """The request for a human in the message's thread, and the outcome of each effect."""

    at: str
    by: str  # a user id, an agent's name, or swarm
    door: str
    reason: str
    effects: list[str]  # for example "service: sent"


class Explained(TypedDict):
    """The routing of a message, and its progress for each agent."""

    channel: str
    ts: str
    stored: bool
    owner: str | None
    routing: list[StepShape]
    entries: list[ExplainedInboxMessage]
    tasks: list[ExplainedTask]
    escalation: ExplainedEscalation | None


def parse_reference(reference: str) -> tuple[str, str]:
    """Returns channel and timestamp from ``CHANNEL:TS`` or from a message's link. Raises Invalid."""
    link = _PERMALINK.search(reference)
    if link:
        return link["channel"], f"{link['seconds']}.{link['micros']}"
    plain = _REFERENCE.fullmatch(reference.strip())
    if plain:
        return plain["channel"], plain["ts"]
    raise Invalid(
        f"'{reference}' does not identify a Slack message.",
        hint="Use CHANNEL:TS, for example C0123456789:1700000000.000100, or the message's link.",
        fields={"message": "CHANNEL:TS or a message's link"},
    )


_BECAME: Final[Mapping[InboxStatus, str]] = {
    InboxStatus.UNREAD: "has not read it yet",
    InboxStatus.CLAIMED: "is working on it",
    InboxStatus.WAITING: "waits for somebody's decision",
    InboxStatus.RESPONDED: "has answered",
    InboxStatus.DELEGATED: "has made a task of it",
    InboxStatus.DISMISSED: "has read it and did not answer",
    InboxStatus.WITHDRAWN: "does not get it any more",
    InboxStatus.DEAD: "could not answer it, and it is set aside",
}


def sentences(explained: Explained, *, is_silent: bool = False) -> tuple[str, ...]:
    """Returns an explanation as sentences for people in Slack. Reasons are as they were recorded.

    ``is_silent``: nobody has asked with the message. Then only its routing is told, no answer that may be withheld.
    """
    routing = (f"Routing: {step['reason']}." for step in explained["routing"] if step["reason"])
    lines = [re.sub(r"the alert \w+:\d+\.\d+", "an earlier alert", one) for one in routing]
    if is_silent:
        return tuple(lines)
    if not explained["entries"] and not explained["tasks"]:
        lines.append("No agent got it.")
    for entry in explained["entries"]:
        became, reason = _BECAME[InboxStatus(entry["status"])], _last_reason(entry["timeline"])
        became += f"; it waits for {entry['waits_for']}" if entry["waits_for"] else ""
        lines.append(f"{entry['agent'] or 'An agent still to come'} {became}{reason}.")
    for task in explained["tasks"]:
        status, reason = task["status"].replace("_", " "), _last_reason(task["timeline"])
        status += f", waits for {task['waits_for']}" if task["waits_for"] else ""
        lines.append(f"Task “{task['title']}”, {task['agent'] or 'not assigned'}: {status}{reason}.")
    if explained["owner"]:
        lines.append(f"Later messages in the thread go to {explained['owner']}.")
    return tuple(lines)


def _last_reason(timeline: list[StepShape]) -> str:
    reason = timeline[-1]["reason"] if timeline else None
    return f" ({reason.rstrip('.')})" if reason else ""


class Explanations:
    """The service behind ``swarm explain``."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def is_silent(self, channel: str, ts: str) -> bool:
        """Whether nobody has asked with a message that an agent got, and no answer in its thread is shown yet."""
        return await self._database.read(self._is_silent, channel, ts)

    def _is_silent(self, tx: Transaction, channel: str, ts: str) -> bool:
        return any(inbox_message.silent for inbox_message in inbox.of_message(tx, self._team, channel, ts))

    async def explain(self, reference: str) -> Explained:
        """Returns the timeline of one message, by ``CHANNEL:TS``, link, or the id of one of its inbox messages or
        tasks.

        Raises Invalid or NotFound.
        """
        return await self._database.read(self._explain, reference)

    def _explain(self, tx: Transaction, reference: str) -> Explained:
        task = tasks.get(tx, reference.strip())
        inbox_message = inbox.get(tx, (task.inbox_message_id or "") if task else reference.strip())
        if task and inbox_message is None:
            return _of_task_alone(tx, task)
        channel, ts = (inbox_message.channel, inbox_message.ts) if inbox_message else parse_reference(reference)
        message = transcript.find(tx, self._team, channel, ts)
        names = agents.names(tx)
        routing = steps(history.of_subject(tx, f"{channel}:{ts}"), names)
        inbox_messages = inbox.of_message(tx, self._team, channel, ts)
        if message is None and not routing:
            raise NotFound(
                f"The message {ts} in {channel} is unknown.",
                hint="It never reached this coordinator, or its records have been deleted.",
            )
        thread = threads.find(tx, self._team, channel, message["thread_ts"]) if message else None
        return Explained(
            channel=channel,
            ts=ts,
            stored=message is not None,
            routing=routing,
            owner=names.get(thread.owner_id) if thread and thread.owner_id else None,
            entries=[_inbox_message(tx, found, names) for found in inbox_messages],
            tasks=list(_tasks(tx, inbox_messages, names)),
            escalation=_escalation(tx, thread) if thread else None,
        )


def _of_task_alone(tx: Transaction, task: Task) -> Explained:
    """Explains a task that was not created from a message."""
    explained = _task(tx, task, agents.names(tx))
    return Explained(
        channel="", ts="", stored=False, routing=[], owner=None, entries=[], tasks=[explained], escalation=None
    )


def _tasks(tx: Transaction, inbox_messages: list[InboxMessage], names: dict[str, str]) -> Iterator[ExplainedTask]:
    """Yields the tasks that were created from the message or that it follows up on."""
    for task_id in dict.fromkeys(inbox_message.task_id for inbox_message in inbox_messages if inbox_message.task_id):
        task = tasks.get(tx, task_id)
        if task:
            yield _task(tx, task, names)


def _task(tx: Transaction, task: Task, names: dict[str, str]) -> ExplainedTask:
    return ExplainedTask(
        task_id=task.id,
        title=task.title,
        agent=names.get(task.agent_id or ""),
        status=task.status.value,
        waits_for=_sign(tx, task),
        timeline=steps(history.of_subject(tx, task.id), names),
        deliveries=[_delivery(row) for row in deliveries.of_task(tx, task.id)],
    )


def _inbox_message(tx: Transaction, inbox_message: InboxMessage, names: dict[str, str]) -> ExplainedInboxMessage:
    return ExplainedInboxMessage(
        inbox_message_id=inbox_message.id,
        agent=names.get(inbox_message.agent_id or ""),
        status=inbox_message.status.value,
        matched_by=inbox_message.matched_by.value,
        attempts=inbox_message.attempts,
        waits_for=_waits_for(tx, inbox_message),
        timeline=steps(history.of_subject(tx, inbox_message.id), names),
        deliveries=[_delivery(row) for row in deliveries.of_inbox_message(tx, inbox_message.id)],
    )


def _waits_for(tx: Transaction, inbox_message: InboxMessage) -> str | None:
    """Returns the question of the message's agent that holds the message back, or the sign that is missing."""
    if inbox_message.status is not InboxStatus.UNREAD:
        return _sign(tx, inbox_message)
    found = requests.open_in_thread(tx, inbox_message.thread_id)
    held_by = next((one for one in found if one.holds and one.agent_id == inbox_message.agent_id), None)
    return f"the decision on “{notified_title(held_by)}”" if held_by else None


def _sign(tx: Transaction, work: InboxMessage | Task) -> str | None:
    row = status_lines.of_lease(tx, work.lease_token)
    seconds = (tx.now - row["created_at"]) // SECOND if row and row["wants_sign"] else 0
    return f"a first sign of the agent, for {seconds} seconds so far" if seconds else None


def _escalation(tx: Transaction, thread: Thread) -> ExplainedEscalation | None:
    found = escalations.of_thread(tx, thread.id)
    if found is None:
        return None
    posted = deliveries.of_key(tx, post_key(found))
    reaction = reaction_of(tx, thread, thread.thread_ts, found.emoji) if found.emoji else None
    calls = [one for one in webhooks.of_thread(tx, thread.id) if one.kind is WebhookKind.ESCALATION]
    return ExplainedEscalation(
        at=to_iso(found.created_at),
        by=asked_by(found),
        door=found.door.value,
        reason=found.reason,
        effects=[
            *(_delivery(row) for row in (posted, reaction) if row),
            *(f"service: {call.status}, {call.attempts} calls {call.error or ''}".strip() for call in calls),
            *([_on_call(found)] if found.on_call else []),
        ],
    )


def _on_call(escalation: Escalation) -> str:
    said = escalation.on_call_person or escalation.on_call_note or ""
    return f"on call: {escalation.on_call} {said}".strip()


def _delivery(row: Row) -> str:
    return f"{row['kind']}: {row['status']} {row['sent_ts'] or row['error'] or ''}".strip()


def steps(rows: list[Row], names: dict[str, str]) -> list[StepShape]:
    """Converts history rows to lines of a timeline."""
    return [
        StepShape(at=to_iso(row["at"]), change=row["change"], agent=names.get(row["agent_id"]), reason=row["reason"])
        for row in rows
    ]
