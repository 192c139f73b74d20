"""The turns of one run with a CLI: its session started or resumed, and everything that it says passed on.

The session of the thread is resumed only with proof: the door finds it, and the ids are the same. Otherwise a new one
begins, and a sentence in the thread says so. No process of the CLI is left when the conversation is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from swarm_base.processes.background import BackgroundTasks
from swarm_base.processes.child import to_the_end
from swarm_runner.asks import HumanAsks
from swarm_runner.coordinator import CoordinatorConnection
from swarm_runner.output import RunOutput
from swarm_runner.port import (
    CliDoor,
    CliSession,
    LogLine,
    PermissionAsked,
    QuestionAsked,
    SessionMissing,
    SessionWanted,
    StartFailed,
    StepShown,
    TextAdded,
    TurnEnded,
    TurnOutcome,
    UsageReported,
)
from swarm_runner.sandbox import Sandbox
from swarm_runner.sessions import KeptSession, Sessions
from swarm_runner.settings import RunnerSettings
from swarm_runner.watch import Accounts, SilenceWatch
from swarm_runner.workdirs import Workdir, Workdirs

NEW_SESSION: Final = (
    "_The earlier session could not be continued, so this is a new one that knows only what this thread says._\n\n"
)
CANCEL_SECONDS: Final = 2.0  # how long a turn may take to end after it was cancelled, and a last call
_START_SECONDS: Final = 180.0
_SPENT: Final = ("input_tokens", "output_tokens", "cost_dollars")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """What the runs of a runner share that use the same account."""

    settings: RunnerSettings
    accounts: Accounts
    coordinator: CoordinatorConnection
    door: CliDoor
    sessions: Sessions
    workdirs: Workdirs
    slots: asyncio.Semaphore  # of the runs at once; news about tasks come also beyond that
    sandbox: Sandbox | None = None

    def session_key(self, key: str) -> str:
        """Returns the key of a thread's session: each account has its own, since none finds another's."""
        return f"{key} {self.settings.account}" if self.settings.account else key


class Conversation:
    """A conversation with a CLI in the session of a thread, whose lock the run holds."""

    def __init__(
        self,
        context: RunContext,
        key: str,
        lease: Mapping[str, str],
        workdir: Workdir,
        output: RunOutput,
        asks: HumanAsks,
    ) -> None:
        self.preface = ""  # what the runner itself has said before the CLI
        self.refused_tools: set[str] = set()
        self.is_lost = False  # nobody may hear of a turn any more, so it gets no time to end
        self._context, self._settings = context, context.settings
        self._key = key
        self._lease = lease
        self._workdir = workdir
        self._output = output
        self._asks = asks
        self._asking = BackgroundTasks()
        self._watch = SilenceWatch(self._settings.silence_seconds, self._settings.silence_limit_seconds, output.step)
        self._session: CliSession | None = None
        self._spent_before = UsageReported()  # in the session that is continued, by earlier runs
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._cut_off_by = ""  # why the CLI was ended in the middle of a turn

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Has the CLI running. Raises StartFailed. After an orderly end the CLI has a moment to exit."""
        session = self._session = await self._start()
        self._keep(session, turns=0)
        self._output.on_reported = self._keep_spent
        grace_seconds = 0.0
        try:
            yield
            grace_seconds = self._settings.exit_seconds
        finally:
            await self._asking.end()
            await to_the_end(session.close(grace_seconds))

    async def _start(self) -> CliSession:
        """Starts the CLI with the session of the thread, or a new one. A failed start is repeated once."""
        kept = self._context.sessions.get(self._key, self._settings.provider)
        resume = kept.session_id if kept and kept.workdir == str(self._workdir.path) else None
        self._spent_before = kept.spent if kept and resume else UsageReported()
        wanted = SessionWanted(
            cwd=self._workdir.path,
            environment=(self._context.sandbox or self._settings).environment,
            mcp=self._context.coordinator.mcp(self._lease),
            system_prompt=self._settings.system_prompt,
            resume=resume,
            spent=self._spent_before,
            wrap=self._context.workdirs.wrap(self._workdir, self._context.sandbox),
            trusts_repository=self._settings.trust_repository,
            cost_limit_dollars=self._settings.cost_limit_dollars,
        )
        try:
            return await self._resumed(wanted)
        except SessionMissing as error:
            _log.warning("A session is missing.", action="runner_session_missing", session=resume, error=error.message)
            self.preface = NEW_SESSION if self._output.run_id else ""
            self._output.text(self.preface)
            self._spent_before = UsageReported()
            return await self._started(replace(wanted, resume=None, spent=self._spent_before))

    async def _resumed(self, wanted: SessionWanted) -> CliSession:
        """Raises SessionMissing if the CLI has begun another session than the one to resume."""
        session = await self._started(wanted)
        if wanted.resume is not None and session.id != wanted.resume:
            await to_the_end(session.close(0))
            raise SessionMissing(f"The CLI began the session {session.id} instead of {wanted.resume}.")
        return session

    async def _started(self, wanted: SessionWanted) -> CliSession:
        try:
            return await self._open(wanted)
        except StartFailed as error:
            _log.warning("The CLI did not start; once more.", action="runner_start_failed", error=error.message)
            return await self._open(wanted)

    async def _open(self, wanted: SessionWanted) -> CliSession:
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await self._context.door.open(wanted)
        except TimeoutError as error:
            raise StartFailed(f"The CLI was not ready after {_START_SECONDS:.0f} s.") from error

    async def turn(self, prompt: str, say: Callable[[str], object] | None = None) -> TurnEnded:
        """Has one turn. Its text goes to ``say``, or to the answer. A cancellation gives the CLI a moment to end it."""
        session = self._session
        assert session is not None
        say = say or self._output.text
        turn = self._turn = asyncio.create_task(self._consume(session, prompt, say), name="runner turn")
        silence = asyncio.create_task(self._watch.watch(), name="runner silence")
        try:
            done, _ = await asyncio.wait({turn, silence}, return_when=asyncio.FIRST_COMPLETED)
            if turn in done:
                return self._as_cut_off(turn.result())
            await self._wind_down(session, turn)
            return TurnEnded(outcome=TurnOutcome.FAILED, reason=self._watch.reason)
        except asyncio.CancelledError:
            if not self.is_lost:
                await to_the_end(self._wind_down(session, turn))
            raise
        finally:
            silence.cancel()
            if not turn.done():
                await to_the_end(session.close(0))
                turn.cancel()
            await asyncio.wait({turn, silence})
            self._output.end_of_text()
            self._keep(session, turns=1)

    def _as_cut_off(self, ended: TurnEnded) -> TurnEnded:
        return TurnEnded(outcome=TurnOutcome.REFUSED, reason=self._cut_off_by) if self._cut_off_by else ended

    async def _wind_down(self, session: CliSession, turn: asyncio.Task[TurnEnded]) -> None:
        """Cancels a turn, and waits a moment for its end."""
        with suppress(Exception):  # a broken CLI; its processes are ended next
            async with asyncio.timeout(CANCEL_SECONDS):
                await session.cancel()
                await asyncio.wait({turn})

    async def _consume(self, session: CliSession, prompt: str, say: Callable[[str], object]) -> TurnEnded:
        ended = TurnEnded(outcome=TurnOutcome.FAILED)
        async for event in session.turn(prompt):
            self._watch.beat()
            match event:
                case TextAdded(text=text):
                    say(text)
                    self._output.log_text(text)
                case StepShown():
                    self._output.step(event)
                    self._output.log(f"[{event.state}] {event.title}")
                case PermissionAsked():
                    self._ask(partial(self._permission, session, event))
                case QuestionAsked():
                    self._ask(partial(self._asks.question, session, event))
                case UsageReported():
                    self._output.usage(event)
                case LogLine(text=text):
                    self._output.log(text)
                case TurnEnded():
                    ended = event
        self.refused_tools.update(ended.refused_tools)
        return ended

    def _ask(self, ask: Callable[[], Awaitable[None]]) -> None:
        async def asking() -> None:
            await self._output.catch_up()  # people read what has been said before they are asked
            await ask()

        self._asking.start(asking(), "runner ask").add_done_callback(lambda _: self._watch.hold(len(self._asking)))
        self._watch.hold(len(self._asking))

    async def _permission(self, session: CliSession, asked: PermissionAsked) -> None:
        if not await self._asks.permission(session, asked):
            self.refused_tools.add(asked.tool)

    def _keep(self, session: CliSession, *, turns: int, **spent: Any) -> None:
        before = self._context.sessions.get(self._key, self._settings.provider)
        if before is None or before.session_id != session.id:
            before = KeptSession(provider=self._settings.provider, workdir="", session_id=session.id)
        kept = replace(before, workdir=str(self._workdir.path), turns=before.turns + turns, **spent)
        self._context.sessions.keep(self._key, kept)

    def _keep_spent(self, told: Mapping[str, Any]) -> None:
        """Keeps what the session has used by now, as far as the coordinator knows it.

        What it does not know because the runner was killed counts for the next run of the session.
        """
        before, others = asdict(self._spent_before), self._output.used_before
        spent = {
            name: (before[name] or 0) + told[name] - others.get(name, 0)
            for name in _SPENT
            if told.get(name) is not None
        }
        if self._session and spent:
            self._keep(self._session, turns=0, **spent)

    async def cut_off(self, reason: str) -> None:
        """Ends the current turn because of ``reason``. A CLI that does not end it in time is ended itself."""
        session, turn = self._session, self._turn
        if session is None or turn is None or turn.done():
            return
        await session.cancel()
        await asyncio.wait({turn}, timeout=self._settings.stop_seconds)
        if not turn.done():
            self._cut_off_by = reason
            await session.close(0)
