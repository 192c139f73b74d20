"""Runs a remote agent over AG-UI and checks its health. Every run ends with exactly one event that gives its outcome.

Guarantees: each run has its own connection, which closes when the run ends, when its reader disconnects, or when the
run is cancelled. A request is repeated only if it certainly did not arrive, or if it was refused with HTTP 401 and a
different token is available. If a run is abandoned before its end, the agent is notified if its dialect allows; the
notification is attempted once, in the background.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import structlog

from swarm.agents.failures import OUR_FAULT, GaveUp, not_within
from swarm.agents.http import CONNECT_PATIENCE_SECONDS, AgentRequest, whole_body
from swarm.agents.remote.dialects import requests_of
from swarm.agents.remote.exchange import BODY_BYTES, EVENT_BYTES, Exchange, RunDeadline, event_data
from swarm.agents.remote.translation.translator import Translator, answer_in, collected
from swarm.clock import MeasuredClock
from swarm.domain.answers.agents import Health, RemoteAgent, RunEnd
from swarm.domain.answers.events import AgentEvent, Broken, Failed, Interrupted, RunInput
from swarm.domain.answers.questions import why_unaskable
from swarm_base.processes.background import BackgroundTasks, checked_in_turn

_HEALTH_SECONDS: Final = 5.0
_FAREWELL_SECONDS: Final = 2.0
"""The time limit for notifying an agent that its run was abandoned."""

_log = structlog.get_logger(__name__)


class AguiAgent:
    """An agent that runs as a separate service; implements `swarm.domain.answers.agents.AgentClient`.

    ``tls`` holds the trusted certificates; the default is the system's certificates. An address that does not respond
    is retried for ``connect_patience_seconds``.
    """

    def __init__(
        self,
        agent: RemoteAgent,
        *,
        tls: ssl.SSLContext | None = None,
        clock: MeasuredClock | None = None,
        connect_patience_seconds: float = CONNECT_PATIENCE_SECONDS,
    ) -> None:
        self._agent = agent
        self._requests = requests_of(agent)
        self._exchange = Exchange(agent, tls=tls, clock=clock, patience_seconds=connect_patience_seconds)
        self._farewells = BackgroundTasks()
        self._is_closed = False

    async def aclose(self) -> None:
        """Notifies the agent of abandoned runs, then closes all connections. Current runs are cut off."""
        self._is_closed = True
        await self._farewells.wait()
        await self._exchange.aclose()

    def run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """Runs the agent and yields its events. Ends with a `RunEnd`, and raises nothing."""
        return self._run(run_input, self._agent.longest_run_seconds)

    async def invoke(self, run_input: RunInput) -> RunEnd:
        """Runs the agent and returns the complete answer within ``invoke_seconds``. Raises nothing."""
        try:
            return await self._invoke(run_input, self._agent.invoke_seconds)
        except GaveUp as error:
            return self._broken(run_input, error)
        except Exception:  # noqa: BLE001 - logged there; whoever waits for the run needs its end
            return self._our_fault(run_input)

    async def health(self) -> Health:
        """Returns whether a run would reach the agent. Takes a few seconds at most, and raises nothing."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                status = await self._exchange.look(self._requests.health(), _HEALTH_SECONDS)
                return self._requests.health_of(status)
        except GaveUp as error:
            return Health(reachable=False, detail=error.reason)
        except TimeoutError:
            return Health(reachable=False, detail=not_within(_HEALTH_SECONDS))
        except Exception:  # noqa: BLE001 - nothing may come of a question but an answer
            _log.exception(
                "The health of an agent cannot be determined.", action="agent_health", agent=self._agent.name
            )
            return Health(reachable=False, detail=OUR_FAULT)

    async def _invoke(self, run_input: RunInput, seconds: float) -> RunEnd:
        call = self._requests.invoke(run_input)
        if call is None:
            async with aclosing(self._run(run_input, seconds)) as events:
                return await collected(events)
        try:
            async with asyncio.timeout(seconds):
                return answer_in(await whole_body(await self._exchange.open(call, seconds, EVENT_BYTES)))
        except TimeoutError as error:
            raise GaveUp(not_within(seconds)) from error

    async def _run(self, run_input: RunInput, longest_seconds: float) -> AsyncGenerator[AgentEvent, None]:
        translator = Translator(run_input.agui_run_id, self._agent.dialect)
        is_left = True
        try:
            async with aclosing(self._data(run_input, RunDeadline(longest_seconds))) as pieces:
                async for data in pieces:
                    for event in translator.feed(data):
                        if isinstance(event, Interrupted):
                            event = await _checked(self._requests.askable(event))
                        yield event
                    if translator.is_over:
                        break
            for event in translator.end():
                yield event
        except GaveUp as error:
            is_left = error.may_still_run
            yield self._broken(run_input, error)
        except Exception:  # noqa: BLE001 - logged there; whoever waits for the run needs its end
            yield self._our_fault(run_input)
        finally:
            if is_left and not translator.is_over:
                self._say_farewell(run_input)

    async def _data(self, run_input: RunInput, deadline: RunDeadline) -> AsyncGenerator[str, None]:
        """Yields the data of each event of one run. Raises GaveUp."""
        silence_seconds = min(self._agent.timeout_seconds, deadline.seconds)
        try:
            async with asyncio.timeout_at(deadline.at):
                response = await self._exchange.open(self._requests.run(run_input), silence_seconds, BODY_BYTES)
        except TimeoutError as error:
            raise GaveUp(not_within(deadline.seconds)) from error
        try:
            async with aclosing(event_data(response, silence_seconds=silence_seconds, deadline=deadline)) as pieces:
                async for data in pieces:
                    yield data
        finally:
            await response.aclose()

    def _broken(self, run_input: RunInput, error: GaveUp) -> Broken:
        _log.warning(
            "A run was interrupted.",
            action="agent_broken",
            agent=self._agent.name,
            run_id=run_input.agui_run_id,
            reason=error.reason,
        )
        return Broken(reason=error.reason, is_away=error.is_away)

    def _our_fault(self, run_input: RunInput) -> Broken:
        _log.exception("A run failed.", action="agent_failed", agent=self._agent.name, run_id=run_input.agui_run_id)
        return Broken(reason=OUR_FAULT)

    def _say_farewell(self, run_input: RunInput) -> None:
        call = None if self._is_closed else self._requests.cancel(run_input)
        if call is not None:
            self._farewells.start(self._farewell(call, run_input.agui_run_id))

    async def _farewell(self, call: AgentRequest, run_id: str) -> None:
        """Notifies the agent that its run was abandoned. If the notification fails, only the closed connection tells
        the agent.
        """
        ids = {"agent": self._agent.name, "run_id": run_id}
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                status = await self._exchange.look(call, _FAREWELL_SECONDS)
                _log.info(
                    "An agent was notified that its run was abandoned.", action="agent_cancel", status=status, **ids
                )
        except (GaveUp, TimeoutError) as error:
            _log.info(
                "An agent could not be notified that its run was abandoned.",
                action="agent_cancel",
                why=str(error),
                **ids,
            )
        except Exception:  # noqa: BLE001 - it runs beside everything else
            _log.exception("An agent could not be notified that its run was abandoned.", action="agent_cancel", **ids)


async def _checked(asked: Interrupted) -> AgentEvent:
    """Returns questions, or a failure if people cannot be asked them, which takes long to find out."""
    problem = await checked_in_turn(why_unaskable, asked.asked)
    return Failed(message=problem) if problem else replace(asked, is_checked=True)
