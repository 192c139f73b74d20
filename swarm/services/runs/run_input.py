"""Builds the input of a run: the new messages as people wrote them, and separately the history.

A trigger contains the thread up to its last new message. That message may have been written just before an earlier run
answered; the answer then comes later, and a run without it would answer again. So the history also includes later
answers of the swarm's agents. Messages that the agent knows from its own earlier runs are left out.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swarm.domain.answers.events import InputMessage, Origin, RunInput, Speaker
from swarm.domain.answers.questions import decided_of
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.requests import HumanRequest
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import AuthorKind, TranscriptMessage, is_user
from swarm.domain.model.triggers import InboxMessageView, NoticeView, StartedBy, Trigger
from swarm.domain.ports import Directory
from swarm.domain.prompts.fences import fenced, harmless, quoted
from swarm.domain.prompts.input import HISTORY_CHARACTERS, left_out
from swarm.domain.requests.texts import decision_lines
from swarm.domain.text.slack_text import mentioned_ids, readable
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.runs import runs
from swarm.store.threads import threads, transcript

_LIMIT = 200
_ENDED: Final = (
    "The thread is yours again. Its history shows what people have seen of this: a worker's answer there is complete. "
    "If more is to be done or said, do it now. If not, write only `[DEFER]`, which nobody sees."
)
_RETURNED: Final = (
    "Give it to another worker with assign-task, or end it with cancel-task and say in a sentence what that means. A "
    "task that still has no worker after your run is cancelled."
)
_TO_THE_END: Final = "~"
"""Sorts after every timestamp."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _KnownMessages:
    """The messages of a thread that an agent with a session knows from its earlier runs in that thread."""

    timestamps: frozenset[str] = frozenset()  # timestamps of the messages in the input of these runs
    agent_id: str | None = None  # the agent that ran; None without a run

    def has(self, said: TranscriptMessage) -> bool:
        """Whether the agent knows a message, either from its input or because it wrote the message."""
        is_own = said.kind is AuthorKind.AGENT and said.author_id == self.agent_id
        return is_own or said.ts in self.timestamps


NOTHING_HEARD: Final = _KnownMessages()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ids:
    """The ids of a run."""

    run_id: str
    agui_run_id: str
    trace_id: str
    conversation_id: str


def run_input(
    trigger: Trigger,
    ids: Ids,
    *,
    bot_name: str,
    client_context: Mapping[str, object],
    since: Sequence[TranscriptMessage] = (),
    heard: _KnownMessages = NOTHING_HEARD,
    agent_id: str = "",
    history_characters: int | None = HISTORY_CHARACTERS,
) -> RunInput:
    """Returns the input of the run for a trigger.

    ``bot_name`` is the name used in a mention of the bot. ``since`` contains messages that the swarm's agents wrote
    after the new messages about earlier ones. Messages in ``heard`` are left out. Decisions on requests of ``agent_id``
    continue its run; those on another agent's requests are messages. If the history exceeds
    ``history_characters``, messages after the first are left out and replaced by a note with their number.
    """
    if trigger.task:
        told = _of_notice(trigger.task, trigger.notice) if trigger.notice else None
        messages = told or _of_task(trigger.task, trigger.instruction)
    else:
        messages = tuple(_all_new(trigger.inbox_messages, bot_name))
    decided = [one for one in trigger.decisions if one.run_id and one.agent_id == agent_id]
    said = _history(trigger, since, heard, bot_name)
    if decided:  # the messages are not new: the agent has read them, and now it continues
        said += messages if heard is NOTHING_HEARD else ()
        messages = ()
    messages += tuple(_decision(one) for one in trigger.decisions if one not in decided)
    return RunInput(
        run_id=ids.run_id,
        agui_run_id=ids.agui_run_id,
        trace_id=ids.trace_id,
        conversation_id=ids.conversation_id,
        messages=messages,
        history=_excerpt(said, history_characters),
        client_context=client_context,
        decided=tuple(decided_of(one) for one in decided),
        origin=_origin(trigger, user_email=str(client_context.get("user_email", ""))),
        may_wait=trigger.notice is None,
    )


def new_messages(trigger: Trigger) -> tuple[InboxMessageView, ...]:
    """Returns the messages that a run answers. A notice only refers to messages."""
    return () if trigger.notice else trigger.inbox_messages


def _decision(request: HumanRequest) -> InputMessage:
    """Returns the decision on another agent's request as a message: only its asker can continue from it."""
    text = "\n".join(decision_lines(request))
    return InputMessage(id=request.id, speaker=Speaker.USER, text=f"Decision of people:\n\n{text}", author="swarm")


def _origin(trigger: Trigger, *, user_email: str) -> Origin:
    requester, place = requester_of(trigger) or "", trigger.thread
    names = [one.user.name for one in trigger.inbox_messages if one.user.id == requester]
    return Origin(
        channel=place.channel if place else "",
        thread_ts=place.thread_ts if place else "",
        user_id=requester,
        user_name=names[-1] if names else "",
        user_email=user_email,
        by_strangers=trigger.started_by is StartedBy.STRANGERS,
    )


def requester_of(trigger: Trigger) -> str | None:
    """Returns the user id of the person who gets the answer; None if only bots wrote the messages."""
    if trigger.task:
        return trigger.task.requester
    people = [one.user.id for one in trigger.inbox_messages if one.kind is AuthorKind.USER and is_user(one.user.id)]
    return people[-1] if people else None


def _all_new(inbox_messages: Sequence[InboxMessageView], bot_name: str) -> Iterator[InputMessage]:
    """Yields the new messages. An instruction stands before the first of the messages that share it."""
    told = None
    for inbox_message in inbox_messages:
        instruction = inbox_message.instruction if inbox_message.instruction != told else None
        told = inbox_message.instruction
        yield _new(inbox_message, bot_name, instruction)


def _new(inbox_message: InboxMessageView, bot_name: str, instruction: str | None) -> InputMessage:
    text = _without_mention(inbox_message.text, bot_name) or _file_names(inbox_message)
    return InputMessage(
        id=inbox_message.id,
        speaker=Speaker.USER,
        text=_instructed(text, instruction),
        author=inbox_message.user.name,
        standing=inbox_message.standing,
    )


def _file_names(inbox_message: InboxMessageView) -> str:
    """Returns the file names, which stand for the text of a message without text."""
    return ", ".join(file.name for file in inbox_message.files)


def _instructed(text: str, instruction: str | None) -> str:
    return f"{instruction}\n\n{text}" if instruction else text


def _of_task(task: TaskView, instruction: str | None) -> tuple[InputMessage, ...]:
    """Returns the results of the task's dependencies, followed by its description."""
    before = [
        InputMessage(
            id=other.id, speaker=Speaker.USER, text=f"{other.title}\n\n{other.result}", author=task.created_by or ""
        )
        for other in task.dependencies
        if other.result
    ]
    text = _instructed(task.description.strip() or task.title, instruction)
    return (*before, InputMessage(id=task.id, speaker=Speaker.USER, text=text, author=task.created_by or ""))


def _of_notice(task: TaskView, notice: NoticeView) -> tuple[InputMessage, ...]:
    """Returns what a lead is told about a task that it gave: its end with the complete result, or its lost worker."""
    lines = [f"This is news from the coordinator, not a message of a person. The task {quoted(task.title)} ({task.id})"]
    if notice.kind is NoticeKind.TASK_RETURNED:
        lines += [f"has lost its worker. {_RETURNED}"]
    else:
        lines += [f"of {task.agent or 'nobody'} has ended: {task.status}.", _shown_result(task), _ENDED]
    return (InputMessage(id=task.id, speaker=Speaker.USER, text="\n\n".join(filter(None, lines)), author="swarm"),)


def _shown_result(task: TaskView) -> str:
    text = task.result or task.error
    return fenced("result", harmless(text), secrets.token_hex(8)) if text else ""


def _history(
    trigger: Trigger, since: Sequence[TranscriptMessage], heard: _KnownMessages, bot_name: str
) -> tuple[InputMessage, ...]:
    """Returns the earlier messages, without deleted or empty messages."""
    new = {inbox_message.ts for inbox_message in new_messages(trigger)}
    before = [said for said in trigger.thread_context if said.ts not in new]
    messages = (_said(said, bot_name) for said in (*before, *since) if not heard.has(said))
    return tuple(message for message in messages if message.text.strip())


def _excerpt(history: tuple[InputMessage, ...], most: int | None) -> tuple[InputMessage, ...]:
    gap = left_out([len(message.text) for message in history], most)
    if not gap:
        return history
    messages = "1 message of this thread is" if len(gap) == 1 else f"{len(gap):,} messages of this thread are"
    note = InputMessage(
        id=f"{history[0].id}-left-out", speaker=Speaker.USER, text=f"({messages} left out here.)", author="swarm"
    )
    return (history[0], note, *history[gap.stop :])


def _said(said: TranscriptMessage, bot_name: str) -> InputMessage:
    speaker = Speaker.ASSISTANT if said.kind is AuthorKind.AGENT else Speaker.USER
    return InputMessage(
        id=said.ts,
        speaker=speaker,
        text=_without_mention(said.text, bot_name),
        author=said.author,
        standing=said.standing,
    )


def _without_mention(text: str, bot_name: str) -> str:
    return re.sub(rf"^\s*@{re.escape(bot_name)}\b[\s,:]*", "", text) if bot_name else text


async def answered_since(database: Database, directory: Directory, trigger: Trigger) -> tuple[TranscriptMessage, ...]:
    """Returns the agents' messages written after the new messages of a trigger, oldest first. Raises Unavailable."""
    new = new_messages(trigger)
    if trigger.thread is None or not new:
        return ()
    last = max(inbox_message.ts for inbox_message in new)
    said = await database.read(_answered_since, trigger.thread.id, last)
    ids = {user_id for message in said for user_id in mentioned_ids(message.text)}
    names = {user_id: await directory.author_name(user_id, AuthorKind.USER) for user_id in ids}
    return tuple(replace(message, text=readable(message.text, names)) for message in said)


def _answered_since(tx: Transaction, thread_id: str, ts: str) -> list[TranscriptMessage]:
    thread = threads.get(tx, thread_id)
    found = transcript.page(tx, thread, ts, _LIMIT) if thread else []
    return [message for message in found if message.kind is AuthorKind.AGENT]


async def heard_before(database: Database, trigger: Trigger, agent_id: str) -> _KnownMessages:
    """Returns the messages of a trigger's thread that an agent knows. Raises Unavailable.

    They come from the agent's last successful run in the thread. After a failed run it is unknown how much was
    delivered, and a repeated message does less harm than a missing one.
    """
    return await database.read(_heard_before, trigger.thread.id, agent_id) if trigger.thread else NOTHING_HEARD


def _heard_before(tx: Transaction, thread_id: str, agent_id: str) -> _KnownMessages:
    """Leaves out messages that were read from Slack only after the run started, however old they are."""
    run, thread = runs.last_heard(tx, thread_id, agent_id), threads.get(tx, thread_id)
    if run is None or thread is None:
        return NOTHING_HEARD
    inbox_messages = (inbox.get(tx, inbox_message_id) for inbox_message_id in run.inbox_message_ids)
    last = max((inbox_message.ts for inbox_message in inbox_messages if inbox_message), default=_TO_THE_END)
    rows = transcript.rows_of_thread(tx, thread.team, thread.channel, thread.thread_ts)
    told = (ts for ts, row in rows.items() if ts <= last and row["stored_at"] <= run.started_at)
    return _KnownMessages(timestamps=frozenset(told), agent_id=agent_id)
