"""What summaries of sessions cost: each is a run of its own, noted down however it ends, and limited as answers are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.builtin.making import UNLIMITED, RunsKept, assistant, explain, hear, run_input
from packages.swarm_agents.tests.agents.builtin.scripted import Holds, Raises, Reply, Scripted
from swarm.agents.failures import OUR_FAULT
from swarm.domain.errors import Unavailable
from swarm.domain.model.language_models import (
    Door,
    ModelUsageRecord,
    RunLimits,
    UsageOutcome,
    UsagePurpose,
    UsageRecorder,
)
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.database import Database
from swarm_agents.builtin.summariser import Summariser
from swarm_agents.models.building import Models
from swarm_agents.models.served import RetryPolicy
from tests.support.providers import Say, openai_server

ONCE = RetryPolicy(attempts=1)

pytestmark = pytest.mark.req("AGENT-06", "AGENT-07")

HERE = "slack:C1:U1"


def summariser(model: Model, runs: UsageRecorder, limits: RunLimits = UNLIMITED) -> Summariser:
    return Summariser("helper", model, runs, limits, instructions=lambda: "Be brief.", explain=explain)


def short(database: Database, summarise: Summariser) -> DatabaseMemory:
    """A memory that is long with more than three messages."""
    return DatabaseMemory(database, "helper", summarise, compaction_threshold=3, keep_recent_messages=1)


async def grow(memory: DatabaseMemory, session_id: str = HERE) -> None:
    said = [SessionMessage(role=MessageRole.USER, text=f"message {number}") for number in range(4)]
    await memory.add_run(session_id, "run", said)


async def texts(memory: DatabaseMemory) -> list[str]:
    return [message.text for message in await memory.get_messages(HERE)]


def endless(began: asyncio.Event) -> Holds:
    """A model that says when it is asked, and never answers."""

    async def hold() -> None:
        began.set()
        await asyncio.Event().wait()

    return Holds(hold)


async def test_a_summary_is_a_run_of_its_own_that_is_listed_and_counted(database: Database) -> None:
    script, runs = Scripted("Four messages."), ModelUsageLog(database)
    memory = short(database, summariser(script.model, runs))
    await grow(memory)
    assert await memory.compact_session(HERE)
    (noted,) = await runs.latest("helper", purpose=UsagePurpose.SUMMARY)
    assert noted == replace(
        noted,
        door=Door.SLACK,
        session_id=HERE,
        run_id="",
        requester="",
        model="scripted",
        outcome=UsageOutcome.ANSWERED,
        note="",
    )
    assert noted.usage.requests == 1
    assert noted.usage.input_tokens > 0 < noted.usage.output_tokens
    assert noted.started_at <= noted.ended_at
    (total,) = await runs.usage()
    assert (total.runs, total.usage, total.model) == (1, noted.usage, noted.model)
    assert script.told[0].instructions == "Be brief."


async def test_what_it_costs_is_known_where_the_price_of_the_model_is_and_is_limited(sqlite_url: str) -> None:
    async with (
        Database(sqlite_url) as database,
        openai_server(lambda request: Say("Four messages.")) as server,
        Models([server.spec(name="gpt-5-mini")], retries=ONCE) as models,
    ):
        runs = ModelUsageLog(database)
        memory = short(database, summariser(models.model, runs))
        frugal = short(database, summariser(models.model, runs, replace(UNLIMITED, cost_dollars=Decimal("0.0000001"))))
        await grow(memory)
        assert not await frugal.compact_session(HERE)
        assert await memory.compact_session(HERE)
        done, limited = await runs.latest()
        totals = await runs.usage(purpose=UsagePurpose.SUMMARY)
    assert done.usage.cost_microdollars
    assert limited.outcome is UsageOutcome.LIMITED
    assert limited.note.endswith("which is the limit (limits.cost_dollars).")
    assert sum(total.usage.cost_microdollars or 0 for total in totals) == 2 * done.usage.cost_microdollars


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        (
            replace(UNLIMITED, tokens=5),
            "This took more than 5 tokens, which is the limit (limits.tokens).",
        ),
        (
            replace(UNLIMITED, seconds=0.01),
            "This took longer than 0.01 s, which is the limit (limits.seconds).",
        ),
    ],
)
async def test_a_limit_that_is_hit_leaves_the_session_as_it_was_and_is_in_the_record_and_the_log(
    database: Database, limits: RunLimits, note: str
) -> None:
    reply: Reply = Holds(asyncio.Event().wait) if limits.seconds == 0.01 else "Four messages."
    runs = ModelUsageLog(database)
    memory = short(database, summariser(Scripted(reply).model, runs, limits))
    await grow(memory)
    before = await memory.get_messages(HERE)
    with capture_logs() as logs:
        async with asyncio.timeout(20):
            assert not await memory.compact_session(HERE)
    assert await memory.get_messages(HERE) == before
    (noted,) = await runs.latest()
    assert (noted.purpose, noted.outcome, noted.note) == (UsagePurpose.SUMMARY, UsageOutcome.LIMITED, note)
    if limits.tokens:
        assert noted.usage.input_tokens + noted.usage.output_tokens > limits.tokens, "it was paid for"
        assert noted.model == "scripted"
    assert [(line["action"], line["log_level"], line["error"]) for line in logs] == [
        ("session_compact", "warning", note)
    ]


@pytest.mark.parametrize(
    ("reply", "note", "reported"),
    [
        (
            Raises(ModelHTTPError(503, "scripted", "what was said")),
            "The model scripted has an internal error right now; try again in a moment.",
            "The model scripted has an internal error right now; try again in a moment.",
        ),
        (Raises(ValueError("what was said")), OUR_FAULT, "ValueError"),
        (" ", "The model had nothing to say.", "The model had nothing to say."),
    ],
)
async def test_a_summary_that_fails_is_noted_down_with_its_reason_and_nothing_of_what_was_said(
    db: Database, reply: Reply, note: str, reported: str
) -> None:
    runs = RunsKept()
    memory = short(db, summariser(Scripted(decide=lambda told: reply).model, runs))
    await grow(memory)
    with capture_logs() as logs:
        assert not await memory.compact_session(HERE)
    assert [(run.outcome, run.note) for run in runs.runs] == [(UsageOutcome.FAILED, note)]
    assert [line["error"] for line in logs] == [reported]
    assert "what was said" not in str(logs)


@pytest.mark.parametrize(
    ("session_id", "door"), [("cli:1", Door.CLI), ("agui:web:1", Door.AGUI), ("task:1", Door.SLACK), (HERE, Door.SLACK)]
)
async def test_a_summary_is_of_the_door_of_its_session(session_id: str, door: Door) -> None:
    runs = RunsKept()
    said = [SessionMessage(role=MessageRole.USER, text="hello")]
    assert await summariser(Scripted("A greeting.").model, runs)(session_id, said) == "A greeting."
    assert [(run.session_id, run.door) for run in runs.runs] == [(session_id, door)]


async def test_a_summary_that_is_cut_off_by_the_end_is_noted_down_as_stopped_before_it(database: Database) -> None:
    began, runs = asyncio.Event(), ModelUsageLog(database)
    memory = short(database, summariser(Scripted(endless(began)).model, runs))
    helper = assistant(Scripted("Fine.").model, memory, runs=runs)
    await grow(memory)
    await hear(helper, run_input("hi"))
    async with asyncio.timeout(20):
        await began.wait()
        await helper.aclose()
    noted = await runs.latest(purpose=UsagePurpose.SUMMARY)
    assert [(run.outcome, run.note) for run in noted] == [(UsageOutcome.STOPPED, "it was stopped")]
    assert len(await runs.latest(purpose=UsagePurpose.ANSWER)) == 1
    assert "message 0" in await texts(memory)


class Away(RunsKept):
    """A book whose database is away so many times for summaries."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.tried = asyncio.Event()

    async def note(self, run: ModelUsageRecord) -> None:
        self.tried.set()
        if run.purpose is UsagePurpose.SUMMARY and self.times:
            self.times -= 1
            raise Unavailable("Away.")
        await super().note(run)


async def test_a_database_that_is_away_for_a_while_gets_the_run_of_a_summary(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_agents.builtin.recording.AGAIN_SECONDS", 0.0)
    runs = Away(3)
    memory = short(db, summariser(Scripted("Four messages.").model, runs))
    await grow(memory)
    assert await memory.compact_session(HERE)
    assert [run.outcome for run in runs.runs] == [UsageOutcome.ANSWERED]


async def test_one_that_stays_away_costs_no_summary_and_is_logged(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_agents.builtin.recording.RECORD_SECONDS", 0.05)
    memory = short(db, summariser(Scripted("Four messages.").model, Away(10**9)))
    await grow(memory)
    with capture_logs() as logs:
        assert await memory.compact_session(HERE)
    assert "A run could not be noted down." in [line["event"] for line in logs]
    assert await texts(memory) == ["Four messages.", "message 3"]


async def test_the_end_does_not_wait_long_to_note_down_a_summary(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_agents.builtin.agent.CLOSING_SECONDS", 0.05)
    began, runs = asyncio.Event(), Away(10**9)
    memory = short(db, summariser(Scripted(endless(began)).model, runs))
    helper = assistant(Scripted("Fine.").model, memory, runs=runs)
    await grow(memory)
    with capture_logs() as logs:
        async with asyncio.timeout(20):
            await hear(helper, run_input("hi"))
            await began.wait()
            await helper.aclose()
    assert not [task for task in asyncio.all_tasks() if task.get_name() in ("compact a session", "store a run")]
    assert logs[-1]["event"] == "A run could not be noted down before the end."
