"""What people do to what runs: stop it, have it run again, say what they think of it.

Locks are taken in one order: the thread, the leases, the tasks, the messages with their queues, the turns.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import structlog

from swarm.domain.access import denial
from swarm.domain.button_actions import SessionStopped
from swarm.domain.errors import Unavailable
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.runs import RETRYABLE, UNFINISHED, Opinion, RunStatus
from swarm.domain.model.tasks import ACTIVE_STATUSES
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import Author, ChannelType, SlackMessage
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules import retry_buttons, task_ends
from swarm.services.rules.fencing import lock_task
from swarm.services.rules.standings import Standings
from swarm.services.rules.system_messages import show_anew, show_answered
from swarm.services.tasks.tasks import redrive_dead
from swarm.store import idempotency_keys, task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.runs import feedback, running, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

_STOPPED: Final = "true"  # the result in the receipt of a `!stop`

_UNDER_WAY: Final = {InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING}

_log = structlog.get_logger(__name__)


class RunControl:
    """Slack's own Stop. Returns after the commit; an error means that nothing was done."""

    def __init__(self, database: Database, conduct: OperatingPolicy, team: str, standings: Standings) -> None:
        self._database = database
        self._conduct = conduct
        self._team = team
        self._standings = standings

    async def stop_session(self, stopped: SessionStopped) -> None:
        """Stop the runs in a thread, if this person may; the same press told again does nothing.

        Raises Unavailable if Slack does not say in time who it is: unlike a click, this is told again.
        """
        person = await self._standings.presser(stopped.user_id, None)
        if person.standing is None:
            raise Unavailable("Slack does not say who pressed its Stop.")
        count = await self._database.write(self._stop_session, stopped, person)
        _log.info("Slack's Stop was pressed.", action="stop_session", channel=stopped.channel, turns=count)

    def _stop_session(self, tx: Transaction, stopped: SessionStopped, person: Author) -> int:
        if not idempotency_keys.record(tx, stopped.key) or denial(person, self._conduct.policy(stopped.channel)):
            return 0
        thread = threads.at(tx, self._team, stopped.channel, stopped.thread_ts)
        return runs.request_stop(tx, stopped.user_id, thread_id=thread.id) if thread else 0


class Retried(StrEnum):
    """What became of a person's wish to have a turn run again."""

    DONE = "done"
    BEFORE = "before"  # it is run again already
    IMPOSSIBLE = "impossible"  # it did not fail, or there is nothing left of it to be done


_INSTEAD: Final = {
    Retried.DONE: retry_buttons.RETRIED_BY,
    Retried.BEFORE: retry_buttons.RETRIED,
    Retried.IMPOSSIBLE: retry_buttons.IMPOSSIBLE,
}
"""What stands in the place of a Retry button that was pressed."""


def can_stop(tx: Transaction, team: str, message: SlackMessage, thread: Thread | None) -> bool:
    """Whether something runs that a ``!stop`` is about: in its thread or, if it begins one in a direct message, in any.

    True as well for one that has been obeyed: told of again, it is still no message for an agent.
    """
    if thread:
        return running.in_thread(tx, thread.id)
    if not message.is_root or message.channel_type is not ChannelType.DM:
        return False
    obeyed = idempotency_keys.result(tx, _stop_receipt(team, message)) is not None
    return obeyed or running.latest_in_channel(tx, team, message.channel) is not None


def stop_latest(tx: Transaction, team: str, message: SlackMessage, conduct: OperatingPolicy) -> Thread | None:
    """Obey a ``!stop`` that stands alone in a direct message: the thread in which something was stopped, once."""
    key = _stop_receipt(team, message)
    if not idempotency_keys.record(tx, key):
        return None
    idempotency_keys.complete(tx, key, _STOPPED)
    thread_id = running.latest_in_channel(tx, team, message.channel)
    if thread_id is None:
        return None
    thread = threads.locked(tx, thread_id)
    stop_thread(tx, thread, message, conduct)
    return thread


def stop_thread(tx: Transaction, thread: Thread, message: SlackMessage, conduct: OperatingPolicy) -> None:
    """Obey a ``!stop``: cancel the thread's tasks, stop its runs, and show ✅. The thread must be locked."""
    person = message.author.id
    open_tasks = task_queries.open_in_thread(tx, thread.id)
    for token in sorted(task.lease_token for task in open_tasks if task.lease_token):
        leases.by_token(tx, token)
    for task in open_tasks:
        locked = tasks.locked(tx, task.id)  # as part of another one it may be cancelled by now
        if locked:
            task_ends.cancel(tx, locked, f"by <@{person}>", conduct, person=person)
    runs.request_stop(tx, person, thread_id=thread.id)
    show_answered(tx, thread, message.ts, conduct.reactions)


def stop_run(tx: Transaction, turn_id: str, channel: str, person: str) -> bool:
    """A person pressed Stop in a channel; False if the turn does not run any more, or was never shown there."""
    turn = shown_in(tx, turn_id, channel)
    if turn is None:
        return False
    return bool(runs.request_stop(tx, person, turn_id=turn.id)) or _is_being_stopped(tx, turn.id)


def retry_run(
    tx: Transaction, turn_id: str, channel: str, person: str, conduct: OperatingPolicy, message_ts: str | None = None
) -> Retried:
    """A person wants a turn run again that failed or was stopped: once, and while its work can still be done.

    ``message_ts`` is the message with the button, which goes: nothing comes of pressing it a second time.
    """
    turn = shown_in(tx, turn_id, channel)
    if turn is None or turn.thread_id is None:
        return Retried.IMPOSSIBLE
    thread = threads.locked(tx, turn.thread_id)
    turn = runs.get(tx, turn_id)  # as it is now that nobody else can retry it
    if turn is None or turn.status in UNFINISHED:
        return Retried.IMPOSSIBLE
    retried = _retry(tx, turn, thread, person, conduct)
    if message_ts:
        retry_buttons.pressed(tx, thread, message_ts, _INSTEAD[retried].format(person=person))
    return retried


def _retry(tx: Transaction, turn: Run, thread: Thread, person: str, conduct: OperatingPolicy) -> Retried:
    if turn.status not in RETRYABLE:
        return Retried.IMPOSSIBLE
    if turn.retried_at is not None:
        return Retried.BEFORE
    reason = f"run again for <@{person}>"
    if turn.task_id:
        retried = _redrive_task(tx, turn, reason, conduct)
    else:
        retried = _redrive_entries(tx, turn, thread, reason, conduct)
    if retried is Retried.DONE:
        runs.retry(tx, turn, person)
        threads.touch(tx, thread.id)
    return retried


def give_feedback(tx: Transaction, turn_id: str, channel: str, person: str, opinion: Opinion) -> bool:
    """Note what a person thinks of an answer; False if it is no longer known, or was never shown there."""
    turn = shown_in(tx, turn_id, channel)
    if turn is None:
        return False
    feedback.give(tx, turn.id, person, opinion)
    return True


def shown_in(tx: Transaction, turn_id: str, channel: str) -> Run | None:
    """The turn, if it is one of that channel: the value of a button proves nothing."""
    turn = runs.get(tx, turn_id)
    thread = threads.get(tx, turn.thread_id) if turn and turn.thread_id else None
    return turn if thread and thread.channel == channel else None


def _is_being_stopped(tx: Transaction, turn_id: str) -> bool:
    turn = runs.get(tx, turn_id)
    return turn is not None and turn.status is RunStatus.RUNNING and turn.stop_requested_at is not None


def _redrive_task(tx: Transaction, turn: Run, reason: str, conduct: OperatingPolicy) -> Retried:
    task = lock_task(tx, turn.task_id or "")
    if task and redrive_dead(tx, task, reason, conduct):
        return Retried.DONE
    return Retried.BEFORE if task and task.status in ACTIVE_STATUSES else Retried.IMPOSSIBLE


def _redrive_entries(tx: Transaction, turn: Run, thread: Thread, reason: str, conduct: OperatingPolicy) -> Retried:
    """All messages are locked before the first queue is."""
    found = [inbox.locked(tx, entry_id) for entry_id in sorted(turn.entry_ids)]
    entries = [entry for entry in found if entry]
    redriven = [entry for entry in entries if inbox.move(tx, InboxStep.RETRY, entry, reason=reason)]
    for entry in redriven:
        show_anew(tx, thread, entry, conduct.reactions)
    if redriven:
        return Retried.DONE
    return Retried.BEFORE if any(entry.status in _UNDER_WAY for entry in entries) else Retried.IMPOSSIBLE


def _stop_receipt(team: str, message: SlackMessage) -> str:
    return f"stop:{team}:{message.channel}:{message.ts}"
