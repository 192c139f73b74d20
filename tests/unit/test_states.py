"""Each state machine is told four times: diagram, table, CHECK constraint, guard of each update. They must agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, Table

from swarm.domain.model.deliveries import DELIVERY_TRANSITIONS, DeliveryStatus, DeliveryStep
from swarm.domain.model.inbox import (
    INBOX_TRANSITIONS,
    NOTICE_TRANSITIONS,
    InboxStatus,
    InboxStep,
    NoticeStatus,
    NoticeStep,
)
from swarm.domain.model.requests import (
    REQUEST_TRANSITIONS,
    RESUME_TRANSITIONS,
    RequestStatus,
    RequestStep,
    ResumeStatus,
    ResumeStep,
)
from swarm.domain.model.runs import (
    PAGE_TRANSITIONS,
    RUN_TRANSITIONS,
    PagePhase,
    PageStep,
    RunStatus,
    RunStep,
)
from swarm.domain.model.states import Transition
from swarm.domain.model.tasks import TASK_TRANSITIONS, TaskStatus, TaskStep
from swarm.domain.model.threads import CONTEXT_TRANSITIONS, ContextState, ContextStep
from swarm.store import deliveries, requests, tables, tasks
from swarm.store.bridge.statements import Statement
from swarm.store.inbox import inbox, notices
from swarm.store.runs import run_pages, runs
from swarm.store.threads import threads

Edges = set[tuple[str, str, str]]  # source, step, target

DIAGRAM_LINE = re.compile(r"^ *(?P<sources>[a-z_ |]+) → (?P<target>[a-z_]+) {2,}(?P<steps>[a-z_, ]+)$")
GUARD = re.compile(r"IN \((?P<states>[a-z_', ]+)\)")


@dataclass(frozen=True, kw_only=True)
class Machine:
    states: type[StrEnum]
    steps: type[StrEnum]
    transitions: Mapping[Any, Transition[Any]]
    table: Table
    column: str
    updates: Mapping[Any, Statement]


MACHINES = {
    "inbox message": Machine(
        states=InboxStatus,
        steps=InboxStep,
        transitions=INBOX_TRANSITIONS,
        table=tables.inbox_messages,
        column="status",
        updates={InboxStep.CLAIM: inbox._CLAIM, **inbox._MOVES},
    ),
    "task": Machine(
        states=TaskStatus,
        steps=TaskStep,
        transitions=TASK_TRANSITIONS,
        table=tables.tasks,
        column="status",
        updates={TaskStep.CLAIM: tasks._CLAIM, **tasks._MOVES},
    ),
    "notice": Machine(
        states=NoticeStatus,
        steps=NoticeStep,
        transitions=NOTICE_TRANSITIONS,
        table=tables.notices,
        column="status",
        updates=notices._MOVES,
    ),
    "delivery": Machine(
        states=DeliveryStatus,
        steps=DeliveryStep,
        transitions=DELIVERY_TRANSITIONS,
        table=tables.deliveries,
        column="status",
        updates=deliveries._MOVES,
    ),
    "context of a thread": Machine(
        states=ContextState,
        steps=ContextStep,
        transitions=CONTEXT_TRANSITIONS,
        table=tables.threads,
        column="context",
        updates=threads._CONTEXT_MOVES,
    ),
    "run": Machine(
        states=RunStatus,
        steps=RunStep,
        transitions=RUN_TRANSITIONS,
        table=tables.runs,
        column="status",
        updates=runs._MOVES,
    ),
    "message of a run": Machine(
        states=PagePhase,
        steps=PageStep,
        transitions=PAGE_TRANSITIONS,
        table=tables.run_messages,
        column="phase",
        updates=run_pages._MOVES,
    ),
    "request": Machine(
        states=RequestStatus,
        steps=RequestStep,
        transitions=REQUEST_TRANSITIONS,
        table=tables.requests,
        column="status",
        updates=requests._MOVES,
    ),
    "decision on its way back": Machine(
        states=ResumeStatus,
        steps=ResumeStep,
        transitions=RESUME_TRANSITIONS,
        table=tables.requests,
        column="resume",
        updates=requests._RESUMES,
    ),
}

pytestmark = [
    pytest.mark.req("LOOP-06"),
    pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys()),
]


def drawn(machine: Machine) -> Edges:
    """The arrows of the diagram in the docstring."""
    lines = filter(None, map(DIAGRAM_LINE.match, (machine.states.__doc__ or "").splitlines()))
    return {
        (source.strip(), step.strip(), line["target"])
        for line in lines
        for source in line["sources"].split("|")
        for step in line["steps"].split(",")
    }


def tabled(machine: Machine) -> Edges:
    return {
        (source.value, step.value, transition.target.value)
        for step, transition in machine.transitions.items()
        for source in transition.sources
    }


def names(listed: str) -> set[str]:
    return set(re.findall(r"'([a-z_]+)'", listed))


def test_the_diagram_shows_the_table(machine: Machine) -> None:
    assert drawn(machine) == tabled(machine)


def test_every_step_has_a_transition(machine: Machine) -> None:
    assert set(machine.transitions) == set(machine.steps)


def test_every_state_is_in_the_diagram(machine: Machine) -> None:
    assert {state for source, _, target in drawn(machine) for state in (source, target)} == set(machine.states)


def test_the_check_constraint_allows_exactly_the_states(machine: Machine) -> None:
    checks = [check for check in machine.table.constraints if isinstance(check, CheckConstraint)]
    (check,) = [check for check in checks if check.name == f"ck_{machine.table.name}_{machine.column}"]
    assert names(str(check.sqltext)) == set(machine.states)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_every_update_is_guarded_by_the_sources_and_sets_the_target(machine: Machine, dialect: Any) -> None:
    assert set(machine.updates) == set(machine.steps)
    for step, statement in machine.updates.items():
        change, _, condition = statement.sql(dialect).partition("WHERE")
        guard = GUARD.search(condition)
        assert guard is not None, f"{step} is not guarded"
        assert names(guard["states"]) == {source.value for source in machine.transitions[step].sources}
        assert re.search(rf"\b{machine.column}=", change), f"{step} does not set {machine.column}"
        assert machine.transitions[step].target.value in statement._for(dialect)._literals.values()
