"""The model usage of runs: of built-in agents stored after each run, and of all agents shown to the operator."""

from __future__ import annotations

from dataclasses import replace

from swarm.domain.errors import Invalid
from swarm.domain.model.language_models import (
    ModelUsage,
    ModelUsageRecord,
    UsageGrouping,
    UsagePurpose,
    UsageTotal,
)
from swarm.domain.model.sessions import kept_text
from swarm.store.bridge.database import Database
from swarm.store.builtin import model_usage

MOST_DAYS = 90
"""The number of days kept."""


class ModelUsageLog:
    """The implementation of `swarm.domain.model.language_models.ConversationUsage` for all agents. Every method raises
    Unavailable.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, run: ModelUsageRecord) -> None:
        """Stores the usage of a finished run; an existing record stays unchanged."""
        await self._database.write(model_usage.note, _storable(run))

    async def used_today(self, session_id: str, run_id: str) -> ModelUsage:
        """Returns the usage of a conversation's answers that ended today (UTC), by all built-in agents.

        See `swarm.domain.model.language_models.ConversationUsage.used_today`.
        """
        return await self._database.read(model_usage.used_today, session_id, run_id)

    async def latest(
        self,
        agent: str | None = None,
        limit: int = 100,
        before: str | None = None,
        *,
        purpose: UsagePurpose | None = None,
    ) -> list[ModelUsageRecord]:
        """Returns the runs that ended last, newest first: of one agent (by name) or of all, for one purpose or for any.

        With ``before``, a run's id, only runs that ended earlier. Raises Invalid for an unknown id.
        """
        found = await self._database.read(model_usage.latest, agent, purpose, limit, before)
        if found is None:
            raise Invalid(
                f"There is no run '{before}', or its record has been deleted.", fields={"before": "the id of a run"}
            )
        return found

    async def usage(
        self,
        days: int = 30,
        *,
        purpose: UsagePurpose | None = None,
        by: UsageGrouping = UsageGrouping.DAY,
        agent: str | None = None,
        thread_id: str | None = None,
    ) -> list[UsageTotal]:
        """Returns the usage of the last days by day (UTC), agent and model, or by another grouping. Includes today, and
        `MOST_DAYS` days at most.

        ``purpose``, ``agent`` (a name) and ``thread_id`` restrict the runs; None: any.
        """
        return await self._database.read(model_usage.totals, days, purpose, by, agent, thread_id)


def _storable(run: ModelUsageRecord) -> ModelUsageRecord:
    """Returns the run with text that every database accepts, because models, clients and people influence its text."""
    return replace(
        run,
        id=kept_text(run.id),
        session_id=kept_text(run.session_id),
        requester=kept_text(run.requester),
        model=kept_text(run.model),
        note=kept_text(run.note),
    )
