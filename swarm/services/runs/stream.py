"""Streamed answers of polling agents, sent in pieces to any coordinator process while the agent writes.

Each call is one transaction that stores a piece; the elected process shows the pieces (`event_sources.StreamSource`).
What is guaranteed: an accepted piece is shown, or a note in the thread says that the answer is incomplete. Closing the
answer settles the work in the same transaction, as a reply does; the run may be removed after that, because showing the
end does not change the work. Only a person's Stop settles the work of an open answer; any other end leaves the work to
its lease.

Lock order: the thread, the lease, the task, the messages; the lease guards the pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from typing_extensions import TypedDict

from swarm.domain.answers.agent_events import MAX_ANSWER_CHARACTERS
from swarm.domain.answers.events import (
    MAX_PIECE_CHARACTERS,
    MAX_PIECES,
    Closed,
    Doing,
    Piece,
    PlanStep,
    StepStatus,
    TextAdded,
)
from swarm.domain.answers.text import withheld_by, without_markers
from swarm.domain.errors import Conflict, Invalid, TooLarge
from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.runs.stream_state import StillShown, Wanted, authorize_answer, begin, fenced, is_closed, own
from swarm.services.speaking.escalations import escalate_dead_letter
from swarm.services.speaking.silence import WHY_WITHHELD, break_silence, end_humility, is_silent, stay_silent
from swarm.services.tasks.task_work import checked
from swarm.services.work import task_ends
from swarm.services.work.leases import claimed_members, end_if_resolved
from swarm.store import idempotency_keys, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_events, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads
from swarm_base.characters import strip_invisible

SEAL_SECONDS: Final = 5.0
"""The time that a run waits for the previous run's answer to end."""

_LOOK_SECONDS: Final = 1.0
_MAX_NAME: Final = 200  # maximum length of a step's id and of its title


class Streamed(TypedDict):
    """The current state of the answer: its run, `open` or `closed`, and the number of characters sent so far."""

    turn_id: str  # the id of the run
    status: str
    characters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """The last call of an answer."""

    text: str = ""  # the last piece
    result: str | None = None  # the result of the task
    failed: str | None = None  # the reason why the answer is incomplete: a clause shown to people


class AnswerStreams:
    """Streamed answers of polling agents."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def open(
        self, caller: Caller, *, inbox_message_id: str | None = None, task_id: str | None = None, text: str = ""
    ) -> Streamed:
        """Starts an answer to the leased work: an inbox message with all messages of its lease, or a task.

        ``text`` is the first piece. A repeated call returns the same answer while it is open, and adds the text only
        once. Waits a few seconds if the answer of an earlier run is still being ended. Raises the errors of
        `authorize_message` and `authorize_task`, TooLarge for a long text, and Conflict if another answer is open under
        this lease, if the lease has ended, or if there is no thread.
        """
        if (inbox_message_id is None) == (task_id is None):
            raise Invalid(
                "Name either an inbox message or a task.",
                fields={"inbox_message_id": "its id, or leave it out", "task_id": "its id, or leave it out"},
            )
        if text:
            _check_text(text)
        wanted = Wanted(inbox_message_id=inbox_message_id, task_id=task_id)
        wakeups, now = self._database.wakeups, asyncio.get_running_loop().time
        deadline = now() + SEAL_SECONDS
        while True:
            seen = wakeups.generation(runs.RUNS)
            try:
                return await self._database.write(self._open, caller, wanted, text)
            except StillShown:
                if now() >= deadline or wakeups.closed:
                    raise
            await wakeups.wait(runs.RUNS, seen, _LOOK_SECONDS)

    @staticmethod
    def _open(tx: Transaction, caller: Caller, wanted: Wanted, text: str) -> Streamed:
        claim = fenced(tx, caller, wanted)  # checked before a repeated call returns the open answer
        call = _call(caller, "open", wanted.about, claim.lease.token, {"text": text} if text else {})

        def stands() -> bool:
            """Whether an earlier result is valid. With a ``request_id`` it is always valid for this run; equal
            arguments count while the answer is open.
            """
            run_id = orjson.loads(idempotency_keys.result(tx, call.key) or "{}").get("turn_id", "")
            run = runs.get(tx, run_id)
            is_own = run is not None and run.lease_token == claim.lease.token
            return is_own and (caller.request_id is not None or _is_open(tx, run_id))

        def act() -> dict[str, str]:
            run = begin(tx, wanted, claim)
            if text:
                _tell(tx, run, TextAdded(text=text))
            return {"turn_id": run.id}

        run_id = idempotent(tx, call, act, stands=stands)["turn_id"]
        last = run_events.last(tx, run_id)
        status = "open" if _is_open(tx, run_id) else "closed"
        return Streamed(turn_id=run_id, status=status, characters=last.characters if last else 0)

    async def append(self, caller: Caller, run_id: str, text: str) -> Streamed:
        """Adds a piece. A repeated text is added again, because only a ``request_id`` makes a call idempotent.

        Raises the errors of :meth:`close`.
        """
        _check_text(text)
        return await self._database.write(_add, caller, run_id, "append", TextAdded(text=text))

    async def task(self, caller: Caller, run_id: str, step_id: str, title: str, status: StepStatus) -> Streamed:
        """Shows a step of the work as a card, or updates the card with this id. Raises the errors of :meth:`close`."""
        for field, value in {"id": step_id, "title": title}.items():
            _check_name(field, value)
        return await self._database.write(
            _add, caller, run_id, "task", PlanStep(id=step_id, title=title, status=status)
        )

    async def status(self, caller: Caller, run_id: str, what: str) -> Streamed:
        """Sets the status line, which is visible until the first text appears. Raises the errors of :meth:`close`."""
        _check_name("title", what)
        return await self._database.write(_add, caller, run_id, "status", Doing(what=what))

    async def close(
        self, caller: Caller, run_id: str, text: str = "", result: str | None = None, failed: str | None = None
    ) -> Streamed:
        """Adds the last piece and settles the work as a reply does: the lease ends, unless it is held.

        Every message of the lease counts as answered; a task is completed if there is a ``result``, and otherwise
        continues. ``failed`` is a clause that gives the reason why the answer is incomplete: people see it with a Retry
        button, and the work is dead until a retry. A repeated call returns the first result. Raises NotFound for
        another agent's answer, LeaseLost without a valid lease, Withdrawn if all answered messages were deleted,
        Conflict if the answer was stopped, closed or could not be shown, TooLarge above the limits, and Invalid without
        any text.
        """
        if text:
            _check_text(text)
        if result is not None and failed is not None:
            raise Invalid(
                "A task has either a result or a failure.", fields={"failed": "the reason, if there is no result"}
            )
        for field, value in {"result": result, "failed": failed}.items():
            if value is not None:
                checked(value, field)
        return await self._database.write(self._close, caller, run_id, _Said(text=text, result=result, failed=failed))

    def _close(self, tx: Transaction, caller: Caller, run_id: str, said: _Said) -> Streamed:
        run = own(tx, caller, run_id)

        def act() -> dict[str, int]:
            thread = threads.locked(tx, run.thread_id or "")
            lease = authorize_answer(tx, run)
            if said.text:
                _tell(tx, run, TextAdded(text=said.text))
            if said.failed is None:
                _check_something_said(tx, run)
            settled = _settle(tx, run, lease, thread, said, self._operating_policy)
            return {"characters": run_events.add(tx, run.id, Closed(failed=said.failed, settled=settled)).characters}

        arguments = {"text": said.text, "result": said.result, "failed": said.failed}
        done = idempotent(tx, _call(caller, "close", run_id, run.lease_token, arguments), act)
        return Streamed(turn_id=run_id, status="closed", characters=done["characters"])


def _is_open(tx: Transaction, run_id: str) -> bool:
    run = runs.get(tx, run_id)
    return run is not None and run.ended_at is None and not is_closed(tx, run_id)


def _add(tx: Transaction, caller: Caller, run_id: str, action: str, piece: Piece) -> Streamed:
    run = own(tx, caller, run_id)

    def act() -> dict[str, int]:
        authorize_answer(tx, run)
        return {"characters": _tell(tx, run, piece)}

    is_once = caller.request_id is not None
    done = idempotent(tx, _call(caller, action, run_id, run.lease_token, {}), act) if is_once else act()
    return Streamed(turn_id=run_id, status="open", characters=done["characters"])


def _call(
    caller: Caller, action: str, about: str, lease_token: str | None, said: Mapping[str, object]
) -> IdempotentCall:
    """Limits a ``request_id`` to one action, because models use "1" for everything."""
    return IdempotentCall.of(caller, f"slack-stream {action}", about, said, lease_token)


def _tell(tx: Transaction, run: Run, piece: Piece) -> int:
    """Stores a piece, within the limits. Returns the number of characters so far."""
    event = run_events.add(tx, run.id, piece)
    if event.characters > MAX_ANSWER_CHARACTERS:
        raise TooLarge(
            f"The answer would have {event.characters} characters; the limit is {MAX_ANSWER_CHARACTERS}.",
            hint="Close it; it already fills dozens of messages. Put the rest into a file with slack-upload-file.",
        )
    if event.seq > MAX_PIECES:
        raise TooLarge(
            f"A stream accepts at most {MAX_PIECES} calls.", hint="Close it, and append more text per call next time."
        )
    return event.characters


def _check_text(text: str) -> None:
    if not text:
        raise Invalid("There is no text.", fields={"text": "what to say next"})
    if len(text) > MAX_PIECE_CHARACTERS:
        raise TooLarge(
            f"This piece has {len(text)} characters; at most {MAX_PIECE_CHARACTERS} fit into one call.",
            hint="Append it in several pieces.",
        )


def _check_name(field: str, value: str) -> None:
    if not strip_invisible(value).strip() or len(value) > _MAX_NAME:
        raise Invalid(f"The {field} is empty or too long.", fields={field: f"1 to {_MAX_NAME} characters"})


def _check_something_said(tx: Transaction, run: Run) -> None:
    """Raises Invalid for an answer without text, because cards alone are not an answer."""
    text = _text(tx, run)
    is_withheld = withheld_by(text) is not None and is_silent(tx, run, threads.get(tx, run.thread_id or ""))
    if not is_withheld and not without_markers(strip_invisible(text)).strip():
        raise Invalid(
            "The stream has no text, so people would get no answer.",
            hint="Pass the answer as text; or give the reason in failed.",
            fields={"text": "the answer, or its last part"},
        )


def _text(tx: Transaction, run: Run) -> str:
    pieces = [event.piece for event in run_events.after(tx, run.id, 0, MAX_PIECES)]
    return "".join(piece.text for piece in pieces if isinstance(piece, TextAdded))


def _settle(
    tx: Transaction, run: Run, lease: Lease, thread: Thread, said: _Said, operating_policy: OperatingPolicy
) -> tuple[str, ...]:
    """Settles the work of a closed answer. Returns the ids of the settled messages. The lease must be locked."""
    settled: list[str] = []
    end = _judge(tx, run, thread, said)
    if run.task_id is not None:
        _settle_task(tx, run.task_id, said, operating_policy)
    elif said.result is not None:
        raise Invalid("Only a task has a result.", fields={"result": "leave it out: your text is the answer"})
    else:
        settled = _settle_messages(tx, lease, said, end)
        if settled and said.failed is not None and end is None:
            escalate_dead_letter(tx, thread, said.failed, operating_policy, lease.agent_id)
    if end in WHY_WITHHELD or (end and run.task_id is None):  # the failure of a task has been recorded with the task
        reason = WHY_WITHHELD.get(end) or said.failed or ""
        stay_silent(tx, thread, end, run.agent_id, run.trigger_id, reason)
    threads.answered(tx, thread.id)
    end_if_resolved(tx, lease)
    return tuple(settled)


def _judge(tx: Transaction, run: Run, thread: Thread, said: _Said) -> SilentEnd | None:
    """Returns why a silent answer is not shown; None if it is."""
    if is_silent(tx, run, thread):
        end = SilentEnd.FAILED if said.failed is not None else withheld_by(_text(tx, run))
        if end:
            return end
        break_silence(tx, thread, run.agent_id, run.trigger_id)
    elif said.failed is None:
        end_humility(tx, thread)
    return None


def _settle_task(tx: Transaction, task_id: str, said: _Said, operating_policy: OperatingPolicy) -> None:
    """Ends the task with a result or a failure. With neither, the task continues."""
    task = tasks.locked(tx, task_id)
    if task is None or (said.result is None and said.failed is None):
        return
    if task.status is not TaskStatus.IN_PROGRESS:
        raise Conflict(f"This task is {task.status}, so it cannot be ended.", hint="Stop working on it.")
    if said.result is not None:
        task_ends.complete(tx, task, said.result, operating_policy)
    else:
        task_ends.dead_letter(tx, task, said.failed or "", operating_policy, told=True)


def _settle_messages(tx: Transaction, lease: Lease, said: _Said, end: SilentEnd | None) -> list[str]:
    """Settles all messages of the lease that still need an answer. ``end`` is why a silent answer is not shown."""
    step, reason = InboxStep.RESPOND if said.failed is None else InboxStep.BURY, said.failed
    if end in WHY_WITHHELD:
        step, reason = InboxStep.DISMISS, WHY_WITHHELD[end]
    waiting = claimed_members(tx, lease)
    return [inbox_message.id for inbox_message in waiting if inbox.move(tx, step, inbox_message, reason=reason)]
