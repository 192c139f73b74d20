"""Summarises the older part of a session.

A summary costs tokens that nobody requested. Each summary is therefore a separate run, with the same limits as an
answer, and is recorded whether it succeeds or fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage

from swarm.agents.failures import OUR_FAULT
from swarm.clock import Clock, SystemClock, new_id
from swarm.domain.errors import SwarmError, Unavailable
from swarm.domain.model.language_models import ModelUsageRecord, RunLimits, UsageOutcome, UsagePurpose, UsageRecorder
from swarm.domain.model.sessions import SessionMessage
from swarm_agents.builtin.agent import Trouble
from swarm_agents.builtin.messages import fenced, in_words
from swarm_agents.builtin.recording import recorded
from swarm_agents.builtin.run import door_of
from swarm_agents.models.troubles import label_of
from swarm_agents.models.usage import limits_of, usage_of


class _NotSummarised(Unavailable):
    """A failed summary. The message gives the reason and contains no text of the session."""


@dataclass(kw_only=True, slots=True)
class _Spent:
    """The usage of a run so far."""

    begun: int
    usage: RunUsage = field(default_factory=RunUsage)
    model: str = ""


class Summariser:
    """The implementation of `swarm.domain.model.sessions.Summarise` for one agent. Usage is recorded under the agent's
    name.

    ``instructions`` is read for each summary. ``explain`` turns errors into descriptions; it returns None for unknown
    errors.
    """

    def __init__(
        self,
        agent: str,
        model: Model,
        runs: UsageRecorder,
        limits: RunLimits,
        *,
        instructions: Callable[[], str],
        explain: Callable[[BaseException], Trouble | None],
        clock: Clock | None = None,
    ) -> None:
        self._agent = agent
        self._model = model
        self._runs = runs
        self._limits = limits
        self._instructions = instructions
        self._explain = explain
        self._clock = clock or SystemClock()

    async def __call__(self, session_id: str, messages: Sequence[SessionMessage]) -> str:
        """Returns the summary. Raises NotSummarised for errors that can be explained, and otherwise the
        original error.
        """
        spent = _Spent(begun=self._clock.now_us())
        try:
            summary = await self._written(messages, spent)
        except asyncio.CancelledError:
            await self._note(session_id, spent, UsageOutcome.STOPPED, "it was stopped")
            raise
        except Exception as error:
            trouble = self._trouble(error)
            outcome = UsageOutcome.LIMITED if trouble and trouble.is_limit else UsageOutcome.FAILED
            await self._note(session_id, spent, outcome, trouble.message if trouble else OUR_FAULT)
            if trouble is None:
                raise
            raise _NotSummarised(trouble.message) from error
        await self._note(session_id, spent, UsageOutcome.ANSWERED, "")
        return summary

    async def _written(self, messages: Sequence[SessionMessage], spent: _Spent) -> str:
        writer = Agent(self._model, instructions=self._instructions())
        with capture_run_messages() as said:
            try:
                result = await writer.run(
                    fenced("The conversation", in_words(messages)),
                    usage_limits=limits_of(self._limits),
                    usage=spent.usage,
                    timeout=self._limits.seconds,
                )
            finally:
                spent.model = _label(said)
        if not result.output.strip():
            raise _NotSummarised("The model had nothing to say.")
        return result.output

    def _trouble(self, error: Exception) -> Trouble | None:
        if known := self._explain(error):
            return replace(known, message=self._limits.reached(known.limit)) if known.limit else known
        return Trouble(message=error.message, code=error.code) if isinstance(error, SwarmError) else None

    async def _note(self, session_id: str, spent: _Spent, outcome: UsageOutcome, note: str) -> None:
        """Records the usage. Takes up to half a minute if the database is unavailable."""
        run = ModelUsageRecord(
            id=new_id(),
            agent=self._agent,
            door=door_of(session_id),
            session_id=session_id,
            run_id="",
            requester="",
            model=spent.model,
            outcome=outcome,
            note=note,
            usage=usage_of(spent.usage),
            started_at=spent.begun,
            ended_at=self._clock.now_us(),
            purpose=UsagePurpose.SUMMARY,
        )
        await recorded(partial(self._runs.note, run), "noted down", agent=self._agent, run_id=run.id)


def _label(messages: Sequence[ModelMessage]) -> str:
    """Returns the name of the model that answered last; empty if none has answered."""
    labels = (label_of(message) for message in reversed(messages) if isinstance(message, ModelResponse))
    return next(filter(None, labels), "")
