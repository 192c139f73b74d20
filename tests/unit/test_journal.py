"""Which changes get into the log, and how loudly."""

from __future__ import annotations

import logging

import pytest
from structlog.testing import capture_logs

from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.tasks import TaskStep
from swarm.domain.watchers import Changed, DatabaseCall, LeaseEnded, ToolCall
from swarm.telemetry import setup as journal
from swarm.telemetry.setup import GRAVE, Journal

pytestmark = pytest.mark.req("OPS-06")


def committed(*changes: str) -> DatabaseCall:
    told = [Changed(change=change, subject="s1", thread_id="t1", agent_id="a1") for change in changes]
    return DatabaseCall(writes=True, seconds=0.1, error=None, facts=[*told, LeaseEnded(how=LeaseEnd.FINISHED)])


@pytest.fixture(params=[logging.INFO, logging.DEBUG], ids=["info", "debug"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    wanted: int = request.param
    monkeypatch.setattr(journal._names, "level", wanted)
    journal._names.manager._clear_cache()  # type: ignore[attr-defined]  # logging remembers what is enabled
    return wanted


def test_what_goes_wrong_is_a_warning_and_the_ordinary_course_is_told_at_debug_only(level: int) -> None:
    with capture_logs() as lines:
        Journal().database_called(committed("inbox.store", "inbox.bury", "agent.revoke"))
    told = [(line["action"], line["log_level"]) for line in lines]
    loud = [("inbox.bury", "warning"), ("agent.revoke", "info")]
    assert told == (loud if level == logging.INFO else [("inbox.store", "debug"), *loud])
    assert all((line["subject"], line["thread"], line["agent"]) == ("s1", "t1", "a1") for line in lines)


def test_tool_calls_are_told_at_debug_only(level: int) -> None:
    with capture_logs() as lines:
        Journal().tool_called(ToolCall(tool="tray", agent="lea", about="e1", result="ok", seconds=0.1))
    assert [(line["action"], line["tool"]) for line in lines] == (
        [] if level == logging.INFO else [("tool_call", "tray")]
    )


def test_every_grave_change_of_work_is_a_step_that_there_is() -> None:
    steps = {*(f"inbox.{step}" for step in InboxStep), *(f"task.{step}" for step in TaskStep)}
    assert {change for change in GRAVE if change.startswith(("inbox.", "task."))} <= steps
