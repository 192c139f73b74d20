"""What built-in agents remember and have used goes when nobody asks for it any more."""

from __future__ import annotations

import pytest

from swarm.clock import SECOND
from swarm.domain.model.language_models import Door, ModelUsage, ModelUsageRecord, UsageOutcome
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.services.operate import sweep as retention
from tests.support.world import World

DAY = 24 * 3600


@pytest.mark.req("AGENT-05")
@pytest.mark.parametrize("at_once", [1, 50])
async def test_sessions_are_forgotten_when_they_are_idle_for_ninety_days(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(retention, "_SESSIONS_AT_ONCE", at_once)
    memory = DatabaseMemory(world.database, "assistant", None)
    for name in ("one", "two", "three"):
        await memory.add_message(name, "user", "hello")
    world.clock.advance(90 * DAY)
    await memory.add_message("two", "user", "still there")
    await world.sweeper.tidy()
    assert len(await world.rows("SELECT id FROM sessions")) == 3
    world.clock.advance(1)
    await world.sweeper.tidy()
    assert await world.rows("SELECT id FROM sessions") == [{"id": "two"}]
    assert len(await memory.get_messages("two")) == 2


@pytest.mark.both_engines
@pytest.mark.req("AGENT-07")
async def test_what_runs_have_used_is_forgotten_after_ninety_days(world: World) -> None:
    runs = world.services.model_usage
    for name, age_days in (("old", 90), ("new", 89)):
        moment = world.clock.now_us() - age_days * DAY * SECOND - 1
        await runs.note(
            ModelUsageRecord(
                id=name,
                agent="assistant",
                door=Door.CLI,
                session_id="cli:1",
                run_id="",
                requester="",
                model="",
                outcome=UsageOutcome.FAILED,
                note="",
                usage=ModelUsage(),
                started_at=moment,
                ended_at=moment,
            )
        )
    await world.sweeper.tidy()
    assert [run.id for run in await runs.latest()] == ["new"]
