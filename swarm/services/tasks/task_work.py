"""Reports from a task's run: progress, result, or failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from swarm.domain.errors import Conflict, Invalid, TooLarge
from swarm.domain.model.tasks import MAX_TEXT_CHARACTERS, TaskStatus
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller, idempotent
from swarm.services.speaking.system_messages import show_progress
from swarm.services.tasks.task_view import TaskView, view
from swarm.services.work import task_ends
from swarm.services.work.fencing import AuthorizedTask, authorize_task
from swarm.services.work.leases import end_if_resolved
from swarm.services.work.reply import Answers, ReplyText, check_text, speak, task_call
from swarm.store import tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm_base.characters import strip_invisible


class TaskWork:
    """Workers' reports on their tasks. Each call is fenced by the task's lease and is idempotent."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def progress(self, caller: Caller, task_id: str, message: str, percent: int | None = None) -> TaskView:
        """Reports progress; the thread shows it as one message that is updated. Raises the errors of
        `authorize_task`.
        """
        return await self._database.write(self._progress, caller, task_id, checked(message, "message"), percent)

    def _progress(self, tx: Transaction, caller: Caller, task_id: str, message: str, percent: int | None) -> TaskView:
        def act(hold: AuthorizedTask) -> bool:
            if not tasks.report(tx, hold.task, message, percent):
                return False
            if hold.thread:
                show_progress(tx, hold.thread, hold.task, message, percent)
            return True

        return _reported(tx, caller, "task-progress", task_id, {"message": message, "percent": percent}, act)

    async def complete(self, caller: Caller, task_id: str, result: str, reply: str | None = None) -> TaskView:
        """Completes a task with its result; ``reply`` is posted in the thread. The delegator gets the result."""
        said = check_text(reply) if reply else None
        return await self._database.write(self._complete, caller, task_id, checked(result, "result"), said)

    def _complete(self, tx: Transaction, caller: Caller, task_id: str, result: str, reply: str | None) -> TaskView:
        def act(hold: AuthorizedTask) -> bool:
            if hold.task.status is not TaskStatus.IN_PROGRESS:
                return False
            answers = Answers(requester=hold.task.requester)
            _say(tx, caller, hold, reply, self._operating_policy, answers)
            task_ends.complete(tx, hold.task, result, self._operating_policy)
            end_if_resolved(tx, hold.lease)
            return True

        return _reported(tx, caller, "task-complete", task_id, {"result": result, "reply": reply}, act)

    async def fail(self, caller: Caller, task_id: str, error: str, reply: str | None = None) -> TaskView:
        """Fails a task; ``reply`` is posted in the thread, otherwise the coordinator posts the reason."""
        said = check_text(reply) if reply else None
        return await self._database.write(self._fail, caller, task_id, checked(error, "error"), said)

    def _fail(self, tx: Transaction, caller: Caller, task_id: str, error: str, reply: str | None) -> TaskView:
        def act(hold: AuthorizedTask) -> bool:
            if hold.task.status is not TaskStatus.IN_PROGRESS:
                return False
            is_silent = hold.thread is not None and hold.thread.is_silent  # then no failure is shown
            told = not is_silent and _say(tx, caller, hold, reply, self._operating_policy)
            task_ends.fail(tx, hold.task, error, told=told, operating_policy=self._operating_policy)
            end_if_resolved(tx, hold.lease)
            return True

        return _reported(tx, caller, "task-fail", task_id, {"error": error, "reply": reply}, act)


def checked(text: str, field: str) -> str:
    """Returns the text unchanged. Raises Invalid for an empty text and TooLarge for a long one."""
    if not strip_invisible(text).strip():
        raise Invalid(f"The {field} is empty.", fields={field: "some text"})
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TooLarge(
            f"The {field} has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}.",
            hint="Summarise it, and upload the rest with slack-upload-file.",
        )
    return text


def _reported(
    tx: Transaction,
    caller: Caller,
    tool: str,
    task_id: str,
    said: Mapping[str, object],
    act: Callable[[AuthorizedTask], bool],
) -> TaskView:
    """Returns the task after ``act``, which returns False if the task's status does not allow the change. A repeated
    call does not act again.
    """

    def report() -> dict[str, Any]:
        hold = authorize_task(tx, caller.agent, task_id, caller.lease_token)
        if not act(hold):
            raise Conflict(f"This task is {hold.task.status}, so it takes no report.", hint="Stop working on it.")
        return {}

    idempotent(tx, task_call(caller, tool, task_id, tasks.get(tx, task_id), said), report)
    task = tasks.get(tx, task_id)
    assert task is not None  # reported on, now or earlier
    return view(tx, task)


def _say(
    tx: Transaction,
    caller: Caller,
    hold: AuthorizedTask,
    reply: str | None,
    operating_policy: OperatingPolicy,
    answers: Answers | None = None,
) -> bool:
    if not reply:
        return False
    if hold.thread is None:
        raise Conflict(
            "This task has no Slack thread, so nobody would see the reply.",
            hint="Leave out the reply, and add the text to the result.",
        )
    words = ReplyText(text=reply)
    speak(tx, hold.thread, words, caller.agent, hold.task, operating_policy.reactions, answers)
    return True
