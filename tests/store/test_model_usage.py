"""What runs have used: noted once, listed from the newest on, and added up by day, agent and model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

import pytest

from swarm.clock import SECOND, ManualClock
from swarm.domain.errors import Invalid, Unavailable
from swarm.domain.model.budgets import BudgetRaise, BudgetScope, BudgetUnit
from swarm.domain.model.language_models import (
    Door,
    ModelUsage,
    ModelUsageRecord,
    UsageGrouping,
    UsageOutcome,
    UsagePurpose,
    UsageRecorder,
    UsageTotal,
)
from swarm.domain.policy.budgets import AgentBudgets, Budget, Budgets, ReportedBudget
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import budget_raises, model_usage
from swarm.store.builtin.model_usage import DAY

pytestmark = pytest.mark.req("AGENT-07")

NOON = 1_700_000_000 * SECOND // DAY * DAY + DAY // 2  # 2023-11-14


USED = ModelUsage(
    requests=2,
    input_tokens=3_000_000_000,  # more than 32 bits hold
    output_tokens=20,
    cache_read_tokens=5,
    cache_write_tokens=3,
    tool_calls=1,
    cost_microdollars=1500,
)
UNPRICED = ModelUsage(requests=1, input_tokens=7, cost_microdollars=None)

RUN = ModelUsageRecord(
    id="a",
    agent="assistant",
    door=Door.SLACK,
    session_id="slack:C1:U1",
    run_id="t1",
    requester="U1",
    model="openai:gpt-5",
    outcome=UsageOutcome.ANSWERED,
    note="",
    usage=USED,
    started_at=NOON - SECOND,
    ended_at=NOON,
)


def run(name: str, **values: Any) -> ModelUsageRecord:
    """A run that ended at noon."""
    return replace(RUN, id=name, **values)


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, clock=ManualClock(NOON)) as opened:
        yield opened


async def test_a_run_is_noted_once_and_comes_back_as_it_was(db: Database) -> None:
    book: UsageRecorder = ModelUsageLog(db)
    failed = run("b", outcome=UsageOutcome.LIMITED, note="Too many tools.", model="", usage=UNPRICED, door=Door.AGUI)
    await book.note(run("a"))
    await book.note(failed)
    await book.note(run("a", note="again"))
    assert await ModelUsageLog(db).latest() == [failed, run("a")]


async def test_a_note_is_kept_whatever_characters_it_has(db: Database) -> None:
    await ModelUsageLog(db).note(run("a", note="a\0b", requester="\ud800"))
    (kept,) = await ModelUsageLog(db).latest()
    assert (kept.note, kept.requester) == ("a\ufffdb", "\ufffd")


async def test_runs_are_listed_newest_first_page_by_page_also_those_that_ended_together(db: Database) -> None:
    runs = ModelUsageLog(db)
    for number in range(7):
        await runs.note(run(f"r{number}", ended_at=NOON + number // 3, agent="router" if number % 2 else "assistant"))
    pages: list[list[str]] = []
    last: str | None = None
    for _ in range(4):
        pages.append([each.id for each in await runs.latest(None, 2, last)])
        last = pages[-1][-1]
    assert pages == [["r6", "r5"], ["r4", "r3"], ["r2", "r1"], ["r0"]]
    assert await runs.latest(None, 2, last) == []
    assert [each.id for each in await runs.latest("router")] == ["r5", "r3", "r1"]
    assert [each.id for each in await runs.latest("router", 5, "r4")] == ["r3", "r1"]
    assert await runs.latest("nobody") == []
    with pytest.raises(Invalid, match="r9"):
        await runs.latest(before="r9")


async def test_answers_and_summaries_are_listed_and_added_up_together_or_apart(db: Database) -> None:
    runs = ModelUsageLog(db)
    for number in range(6):
        purpose = UsagePurpose.SUMMARY if number % 2 else UsagePurpose.ANSWER
        agent = "assistant" if number else "other"
        await runs.note(run(f"r{number}", ended_at=NOON + number, purpose=purpose, agent=agent))
    found = await runs.latest(purpose=UsagePurpose.SUMMARY)
    assert [(each.id, each.purpose) for each in found] == [(name, UsagePurpose.SUMMARY) for name in ("r5", "r3", "r1")]
    assert [each.id for each in await runs.latest("assistant", 1, "r4", purpose=UsagePurpose.ANSWER)] == ["r2"]
    assert [each.id for each in await runs.latest(None, 2, "r5", purpose=UsagePurpose.ANSWER)] == ["r4", "r2"]
    assert [(each.agent, each.runs) for each in await runs.usage()] == [("assistant", 5), ("other", 1)]
    assert [(each.agent, each.runs) for each in await runs.usage(purpose=UsagePurpose.SUMMARY)] == [("assistant", 3)]
    assert await runs.usage(1, purpose=UsagePurpose.ANSWER) == [
        total("2023-11-14", "assistant", "openai:gpt-5", 2, USED + USED, 0),
        total("2023-11-14", "other", "openai:gpt-5", 1, USED, 0),
    ]


async def test_usage_is_added_up_by_day_agent_and_model(db: Database) -> None:
    runs = ModelUsageLog(db)
    await runs.note(run("a"))
    await runs.note(run("b"))
    await runs.note(run("c", usage=UNPRICED))
    await runs.note(run("d", agent="router"))
    await runs.note(run("e", model="ollama:llama", usage=UNPRICED))
    await runs.note(run("f", ended_at=NOON - DAY // 2))  # the first moment of the day
    await runs.note(run("g", ended_at=NOON - DAY // 2 - 1))  # the last one of the day before
    today, day_before = "2023-11-14", "2023-11-13"
    three = ModelUsage(
        requests=7,
        input_tokens=9_000_000_007,
        output_tokens=60,
        cache_read_tokens=15,
        cache_write_tokens=9,
        tool_calls=3,
        cost_microdollars=4500,
    )
    expected = [
        total(today, "assistant", "ollama:llama", 1, UNPRICED, 1),
        total(today, "assistant", "openai:gpt-5", 4, three, 1),
        total(today, "router", "openai:gpt-5", 1, USED, 0),
        total(day_before, "assistant", "openai:gpt-5", 1, USED, 0),
    ]
    totals = await runs.usage()
    assert totals == expected
    assert {type(value) for value in asdict(totals[1].usage).values()} == {int}  # no decimals
    assert await runs.usage(days=2) == expected
    assert await runs.usage(days=1) == expected[:3]


def total(day: str, agent: str, model: str, runs: int, usage: ModelUsage, unknown: int) -> UsageTotal:
    return UsageTotal(day=day, agent=agent, model=model, runs=runs, usage=usage, runs_of_unknown_cost=unknown)


async def test_old_runs_are_forgotten_oldest_first(db: Database) -> None:
    runs = ModelUsageLog(db)
    for age in range(5):
        await runs.note(run(f"r{age}", ended_at=NOON - age * DAY))
    assert await db.write(model_usage.forget, NOON - DAY, 2) == 2
    assert [each.id for each in await runs.latest()] == ["r0", "r1", "r2"]
    assert await db.write(model_usage.forget, NOON - DAY, 2) == 1
    assert [each.id for each in await runs.latest()] == ["r0", "r1"]


async def test_a_database_that_is_away_is_unavailable(database_url: str) -> None:
    runs = ModelUsageLog(Database(database_url))
    for ask in (runs.note(run("a")), runs.latest(), runs.usage()):
        with pytest.raises(Unavailable):
            await ask


@pytest.mark.req("RUN-06")
async def test_an_approved_limit_only_grows(db: Database) -> None:
    wanted = BudgetRaise(scope=BudgetScope.THREAD, unit=BudgetUnit.DOLLARS, subject="t", limit=5_000_000_000)
    about = (wanted.scope, wanted.unit, wanted.subject)
    assert await db.read(budget_raises.approved_limit, *about) is None
    assert await db.write(budget_raises.add, wanted, "r1")
    assert not await db.write(budget_raises.add, wanted, "r2")  # two people approve the same amount
    assert not await db.write(budget_raises.add, replace(wanted, limit=1), "r3")
    assert await db.write(budget_raises.add, replace(wanted, limit=6_000_000_000), "r4")
    assert await db.write(budget_raises.add, replace(wanted, unit=BudgetUnit.TOKENS, limit=7), "r5")
    assert await db.read(budget_raises.approved_limit, *about) == 6_000_000_000
    assert await db.write(budget_raises.forget, NOON + 1, 10) == 2
    assert await db.read(budget_raises.approved_limit, *about) is None


@pytest.mark.req("RUN-06")
async def test_what_is_used_is_added_up_by_run_thread_agent_and_day(db: Database) -> None:
    book = ModelUsageLog(db)
    stored: dict[str, dict[str, Any]] = {
        "a": {"thread_id": "x"},
        "b": {"thread_id": "x", "run_id": "t2", "usage": UNPRICED},
        "c": {"thread_id": "y", "run_id": "", "agent": "other", "usage": UNPRICED},
        "d": {"thread_id": "x", "run_id": "t1", "ended_at": NOON - DAY},
    }
    for name, values in stored.items():
        await book.note(run(name, **values))
    one, other = (3_000_000_020, 1500), (7, 0)
    found = {of: await db.read(model_usage.used, *of) for of in (
        (BudgetScope.RUN, "t1"), (BudgetScope.RUN, "t2"), (BudgetScope.RUN, ""), (BudgetScope.THREAD, "x"),
        (BudgetScope.THREAD, "z"), (BudgetScope.AGENT, "assistant"), (BudgetScope.DAY, ""),
    )}  # fmt: skip
    assert found == {
        (BudgetScope.RUN, "t1"): (2 * one[0], 2 * one[1]),
        (BudgetScope.RUN, "t2"): other,
        (BudgetScope.RUN, ""): (0, 0),
        (BudgetScope.THREAD, "x"): (2 * one[0] + 7, 3000),
        (BudgetScope.THREAD, "z"): (0, 0),
        (BudgetScope.AGENT, "assistant"): (one[0] + 7, 1500),
        (BudgetScope.DAY, ""): (one[0] + 14, 1500),
    }
    for by, groups in {UsageGrouping.AGENT: 2, UsageGrouping.THREAD: 2, UsageGrouping.RUN: 3}.items():
        totals = await book.usage(90, by=by)
        assert (len(totals), sum(total.runs for total in totals)) == (groups, 4)
    assert [total.agent for total in await book.usage(90, by=UsageGrouping.RUN, thread_id="y")] == ["other"]


async def in_thread(db: Database, run_id: str, thread: str) -> None:
    """A run in a thread, as it is in the database before its usage is noted."""
    values = f"('{run_id}', 'a1', '{thread}', 'l', 'i', '[]', 'c', '{run_id}', 'answered', 1, 'answered', 1, 2)"
    for statement in (
        "INSERT INTO agents (id, name, role, description, capabilities, created_at) "
        "VALUES ('a1', 'helper', 'lead', '', '[]', 1) ON CONFLICT DO NOTHING",
        "INSERT INTO threads (id, team, channel, thread_ts, channel_type, epoch, context, context_failures, active_at, "
        f"created_at) VALUES ('{thread}', 'T1', 'C1', '{thread}', 'channel', 1, 'complete', 0, 1, 1) "
        "ON CONFLICT DO NOTHING",
        "INSERT INTO runs (id, agent_id, thread_id, lease_token, trigger_id, inbox_message_ids, conversation_id, "
        f"agui_run_id, status, attempt, outcome, started_at, ended_at) VALUES {values}",
    ):
        await db.write(Transaction.execute, statement, {})


@pytest.mark.both_engines
@pytest.mark.req("AGENT-12")
async def test_what_a_thread_has_used_today_is_that_of_all_agents_in_it_and_elsewhere_that_of_the_session(
    db: Database,
) -> None:
    for run_id, thread in (("t1", "1.1"), ("t2", "1.1"), ("t3", "2.2")):
        await in_thread(db, run_id, thread)
    begun = NOON // DAY * DAY
    for noted in (
        run("a", ended_at=begun, usage=UNPRICED),
        run("b", ended_at=begun + 1, agent="other", run_id="t2", session_id="slack:C1:U2"),
        run("c", ended_at=begun + 1, purpose=UsagePurpose.SUMMARY),
        run("d", ended_at=begun - 1),
        run("e", ended_at=begun + 1, run_id="t3"),
        run("f", ended_at=begun + 1, run_id="", session_id="cli:1"),
    ):
        await db.write(model_usage.note, noted)
    both = replace(USED, requests=3, input_tokens=3_000_000_007)
    assert await db.read(model_usage.used_today, "slack:C1:U1", "t1") == both
    assert await db.read(model_usage.used_today, "cli:1", "") == USED
    assert await db.read(model_usage.used_today, "cli:2", "") == ModelUsage()


@pytest.mark.req("SEC-10")
async def test_a_reported_run_counts_up_to_its_own_limit_or_what_people_approved_for_it(database: Database) -> None:
    def keep(tx: Transaction) -> None:
        for run, agent, door in (("1", "wim", Door.POLLING), ("2", "lea", Door.POLLING), ("3", "own", Door.SLACK)):
            used = ModelUsage(input_tokens=900, output_tokens=100, cost_microdollars=5_000)
            of = replace(RUN, id=run, run_id=run, agent=agent, door=door, usage=used, ended_at=tx.now, thread_id="t")
            model_usage.note(tx, of)
        raised = BudgetRaise(scope=BudgetScope.RUN, unit=BudgetUnit.TOKENS, subject="2", limit=600)
        budget_raises.add(tx, raised, "q")

    await database.write(keep)
    budgets = Budgets(
        run=Budget(tokens=300), agents={"wim": AgentBudgets(run=Budget(dollars=Decimal("0.001")))},
        reported=ReportedBudget(tokens=400, dollars=Decimal("0.002")),
    )  # fmt: skip
    for scope, of in ((BudgetScope.DAY, "all"), (BudgetScope.THREAD, "t")):
        found = await database.read(model_usage.counted, scope, of, budgets)
        assert list(found.values()) == [400 + 600 + 1000, 1_000 + 2_000 + 5_000]
    assert list((await database.read(model_usage.counted, BudgetScope.RUN, "1", budgets)).values()) == [1000, 5000]
