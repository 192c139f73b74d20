"""What a session has used: its answers are counted, and its summaries are paid for as well."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from swarm.config import load
from swarm.domain.model.language_models import Door, ModelUsage, ModelUsageRecord, UsageOutcome, UsagePurpose
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm_agents.cli.chat.opening import Archive

pytestmark = pytest.mark.req("AGENT-07", "AGENT-10")

ANSWER = ModelUsageRecord(
    id="1",
    agent="assistant",
    door=Door.CLI,
    session_id="cli:1",
    run_id="",
    requester="operator",
    model="openai:gpt-5",
    outcome=UsageOutcome.ANSWERED,
    note="",
    usage=ModelUsage(requests=1, input_tokens=10, cost_microdollars=5),
    started_at=0,
    ended_at=1,
)


async def test_summaries_count_to_what_was_used_and_are_no_answers(sqlite_url: str, tmp_path: Path) -> None:
    settings = load({"SWARM_DATABASE_URL": sqlite_url}, folder=tmp_path, user_home=tmp_path)
    async with AsyncExitStack() as stack:
        archive = Archive(settings, stack, is_ours=False)
        runs = ModelUsageLog(await archive.database())
        await runs.note(ANSWER)
        await runs.note(replace(ANSWER, id="2", purpose=UsagePurpose.SUMMARY))
        await runs.note(replace(ANSWER, id="3", session_id="cli:2"))
        used = await archive.usage("assistant", "cli:1")
    assert used == (1, ModelUsage(requests=2, input_tokens=20, cost_microdollars=10))
