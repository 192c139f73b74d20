"""Tasks: work assigned to an agent, usually by delegation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from typing_extensions import TypedDict

from swarm.domain.errors import Conflict, Invalid
from swarm.domain.model.states import step
from swarm.domain.views import JsonView, Key, Time

MAX_DEPTH: Final = 8
"""The maximum depth of nested tasks: a delegation of a delegation, and so on."""

MAX_OPEN_PER_THREAD: Final = 10
MAX_OPEN_CHILDREN: Final = 10
MAX_OPEN_CREATED: Final = 100
"""The maximum number of open tasks without a thread per creator."""

MAX_DEPENDENCIES: Final = 20
OFFER_SECONDS: Final = 600
"""An offer that is not answered within this time counts as declined."""

MAX_TITLE_CHARACTERS: Final = 200
MAX_TEXT_CHARACTERS: Final = 200_000
"""The maximum length of a description, a result or an error."""


class TaskStatus(StrEnum):
    """The life cycle of a task.

    ::

        offered → pending                accept
        offered → declined               decline
        blocked → pending                unblock
        blocked → unassigned             free
        blocked → failed                 break
        pending → in_progress            claim
        in_progress → completed          complete
        in_progress → failed             fail
        in_progress → pending            lose, release
        in_progress → waiting            ask
        waiting → pending                answer
        pending | in_progress | waiting → unassigned   unassign
        unassigned → pending             assign
        offered | blocked | unassigned | pending | in_progress | waiting → cancelled   cancel
        pending | in_progress → dead     bury
        dead → pending                   redrive
    """

    OFFERED = "offered"
    BLOCKED = "blocked"  # waits for other tasks
    UNASSIGNED = "unassigned"  # waits for an agent
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    WAITING = "waiting"  # waits for a person: no lease, no lock, attempts unchanged
    COMPLETED = "completed"
    FAILED = "failed"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    DEAD = "dead"


class TaskStep(StrEnum):
    """The steps of a task."""

    ACCEPT = "accept"
    DECLINE = "decline"
    UNBLOCK = "unblock"  # all its dependencies are completed
    FREE = "free"  # its dependencies are completed, and it has no agent
    BREAK = "break"  # one of its dependencies has failed
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    LOSE = (
        "lose"  # the lease expired, the run failed, or the coordinator died: an attempt or an interruption is counted
    )
    RELEASE = "release"  # given back on purpose: attempts unchanged
    ASK = "ask"
    ANSWER = "answer"
    UNASSIGN = "unassign"  # its worker is gone
    ASSIGN = "assign"
    CANCEL = "cancel"
    BURY = "bury"
    REDRIVE = "redrive"


_T = TaskStatus

OPEN_STATUSES: Final = frozenset({_T.OFFERED, _T.BLOCKED, _T.UNASSIGNED, _T.PENDING, _T.IN_PROGRESS, _T.WAITING})
"""The statuses of an unfinished task."""

ACTIVE_STATUSES: Final = frozenset({_T.PENDING, _T.IN_PROGRESS, _T.WAITING})
"""The statuses of a task that its agent handles: people's messages in its thread go to that agent."""

TASK_TRANSITIONS: Final = {
    TaskStep.ACCEPT: step(_T.OFFERED, to=_T.PENDING),
    TaskStep.DECLINE: step(_T.OFFERED, to=_T.DECLINED),
    TaskStep.UNBLOCK: step(_T.BLOCKED, to=_T.PENDING),
    TaskStep.FREE: step(_T.BLOCKED, to=_T.UNASSIGNED),
    TaskStep.BREAK: step(_T.BLOCKED, to=_T.FAILED),
    TaskStep.CLAIM: step(_T.PENDING, to=_T.IN_PROGRESS),
    TaskStep.COMPLETE: step(_T.IN_PROGRESS, to=_T.COMPLETED),
    TaskStep.FAIL: step(_T.IN_PROGRESS, to=_T.FAILED),
    TaskStep.LOSE: step(_T.IN_PROGRESS, to=_T.PENDING),
    TaskStep.RELEASE: step(_T.IN_PROGRESS, to=_T.PENDING),
    TaskStep.ASK: step(_T.IN_PROGRESS, to=_T.WAITING),
    TaskStep.ANSWER: step(_T.WAITING, to=_T.PENDING),
    TaskStep.UNASSIGN: step(_T.PENDING, _T.IN_PROGRESS, _T.WAITING, to=_T.UNASSIGNED),
    TaskStep.ASSIGN: step(_T.UNASSIGNED, to=_T.PENDING),
    TaskStep.CANCEL: step(*OPEN_STATUSES, to=_T.CANCELLED),
    TaskStep.BURY: step(_T.PENDING, _T.IN_PROGRESS, to=_T.DEAD),
    TaskStep.REDRIVE: step(_T.DEAD, to=_T.PENDING),
}

UNSUCCESSFUL: Final = frozenset({_T.FAILED, _T.DECLINED, _T.CANCELLED, _T.DEAD})
"""Dependents of such a task fail. This includes dead tasks, because people must not wait silently for an operator."""


class TaskDelay(StrEnum):
    """The reason why a pending task is not due yet."""

    DELAY = "delay"  # released with a delay


def check_depth(parent_depth: int | None) -> int:
    """Returns the depth of a new task below its parent's depth; 1 without a parent. Raises Conflict above the limit."""
    depth = (parent_depth or 0) + 1
    if depth > MAX_DEPTH:
        raise Conflict(
            f"The task would be nested {depth} levels deep; at most {MAX_DEPTH} levels are allowed.",
            hint="Do the work yourself, or complete the task with what is known.",
        )
    return depth


def check_room(count: int, limit: int, where: str) -> None:
    """Raises Conflict if one more open task would exceed the limit."""
    if count >= limit:
        raise Conflict(
            f"There are {count} open tasks {where} already; at most {limit} are allowed.",
            hint="Wait for some of them to end, or cancel what is no longer needed.",
        )


def check_dependencies(depends_on: Collection[str], ancestors: Collection[str]) -> None:
    """Raises Invalid for too many dependencies and Conflict for a dependency cycle."""
    if len(depends_on) > MAX_DEPENDENCIES:
        raise Invalid(
            f"A task may depend on at most {MAX_DEPENDENCIES} others.",
            fields={"depends_on": f"at most {MAX_DEPENDENCIES} task ids"},
        )
    circular = sorted(set(depends_on) & set(ancestors))
    if circular:
        raise Conflict(
            f"The task would wait for {', '.join(circular)}, which it is a part of: a cycle.",
            hint="Leave its own parents out of depends_on.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency(JsonView):
    """A task that another task waits for, and its result."""

    id: str
    title: str
    status: TaskStatus
    result: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFacts:
    """The fields shared by a task's row and its view."""

    id: str
    title: str
    description: str
    status: TaskStatus
    priority: int
    agent_id: str | None
    requester: str | None  # a Slack user's id
    parent_id: str | None
    thread_id: str | None
    inbox_message_id: str | None
    attempts: int
    progress: str | None
    percent: int | None
    result: str | None
    error: str | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskView(TaskFacts, JsonView):
    """A task. Agents are given by name."""

    agent: Annotated[str | None, Key(after="priority")]
    created_by: Annotated[str | None, Key(after="agent_id")]  # None: an operator
    depends_on: Annotated[tuple[str, ...], Key(after="parent_id")]
    dependencies: Annotated[tuple[Dependency, ...], Key(after="depends_on")]


class FoundTasks(TypedDict):
    """Tasks, newest first."""

    tasks: list[TaskView]
