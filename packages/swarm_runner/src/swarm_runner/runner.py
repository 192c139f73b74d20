"""The runner: takes work from the coordinator, starts a run for each trigger, and keeps the leases.

It has three loops beside the runs: one polls while a run may be started, one renews the leases of all runs every third
of their time and hands out the notices that come with them, one removes old worktrees.

One agent has one runner. If the coordinator says that another one serves the agent, this one ends: at once at its
start, later with all processes of its runs. Their leases are left alone, since they belong to the agent.

A coordinator that does not answer is asked again every second, as it may be there for moments only; runs go on
meanwhile, and their leases are renewed before anything else is asked. The runner stops in order: it takes no more
work, gives runs a moment to end, gives the rest of the work back, and leaves, so that another runner may have its name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import structlog

from swarm_base.errors import ConfigurationError
from swarm_base.processes.background import BackgroundTasks
from swarm_runner.conversation import RunContext
from swarm_runner.coordinator import POLL_SECONDS, CoordinatorConnection, Refused, Trigger, Unreachable
from swarm_runner.port import CliDoor
from swarm_runner.run import NEWS, Run, Stop
from swarm_runner.sandbox import Sandbox
from swarm_runner.sessions import Sessions, thread_key
from swarm_runner.settings import RunnerSettings
from swarm_runner.watch import Accounts, Breaker
from swarm_runner.workdirs import Workdirs

_MOST_RENEW_SECONDS: Final = 20.0
_LEAST_RENEW_SECONDS: Final = 0.5
_NOTICES_SECONDS: Final = 5.0  # between renewals while no poll would bring notices, such as that of a Stop
_LOOK_SECONDS: Final = 1.0  # between looks at the clock while runs go on: the machine may have slept
_CANCEL_SECONDS: Final = 4.0
_LEAVE_SECONDS: Final = 1.0
_TIDY_SECONDS: Final = 6 * 3600.0
_WORK: Final = frozenset({"slack_inbox_message", "task_assigned", *NEWS})
_ABOUT_RUNS: Final = frozenset(
    {"task_follow_up", "message_changed", "message_deleted", "task_cancelled", "human_input"}
)
"""Notices about running work. Without its run they need nothing."""

_log = structlog.get_logger(__name__)


class Runner:
    """Serves one agent until it is stopped."""

    def __init__(self, settings: RunnerSettings, coordinator: CoordinatorConnection, *doors: CliDoor) -> None:
        """``doors`` are those of the settings' providers: the first one's, and those of its fallbacks."""
        self._settings = settings
        self._coordinator = coordinator
        sandbox = Sandbox(settings) if settings.sandbox else None
        workdirs = Workdirs(
            settings.home,
            settings.name,
            repo=settings.repo,
            shared=settings.workdir,
            environment=settings.environment,
            sandbox=sandbox,
            trusted=settings.trust_repository,
            base=settings.base,
        )
        self._accounts = Accounts(settings)
        self._context = RunContext(
            settings=settings,
            accounts=self._accounts,
            coordinator=coordinator,
            door=doors[0],
            sessions=Sessions(settings.home),
            workdirs=workdirs,
            slots=asyncio.Semaphore(settings.max_concurrent),
            sandbox=sandbox,
        )
        others = [
            replace(self._context, settings=one, door=door, sandbox=Sandbox(one) if one.sandbox else None)
            for one, door in zip(settings.fallbacks, doors[1:], strict=True)
        ]
        self._contexts = (self._context, *others)  # by account
        self._ready: Callable[[], object] = lambda: None
        self._breaker = Breaker(settings.pause_seconds)
        self._runs: dict[str, Run] = {}  # by lease token
        self._tasks = BackgroundTasks()
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._renew_seconds = _MOST_RENEW_SECONDS
        self._has_served = False
        self._is_replaced = False  # another runner serves the agent
        self._is_away = False  # the coordinator, as far as known
        self._renewed_at = boottime()
        self._has_started = asyncio.Event()  # a run, whose lease may end before the next renewal

    async def serve(
        self, stopping: asyncio.Event, at_once: asyncio.Event, ready: Callable[[], object] = lambda: None
    ) -> None:
        """Works until ``stopping`` is set, and then ends in order; ``at_once`` shortens that. ``ready`` is called when
        the coordinator has accepted this runner.

        Raises ConfigurationError if the coordinator refuses this runner: its token, or a second one of the name.
        """
        self._ready = ready
        loops = [
            asyncio.create_task(self._poll(), name="runner poll"),
            asyncio.create_task(self._renew(), name="runner renew"),
            asyncio.create_task(self._tidy(), name="runner tidy"),
        ]
        stop = asyncio.create_task(stopping.wait(), name="runner stop")
        try:
            await asyncio.wait({*loops, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            loops[0].cancel()
            await self._end(at_once)
            for loop in loops:
                loop.cancel()
            await asyncio.wait({*loops, stop})
        for loop in loops:
            if not loop.cancelled() and (error := loop.exception()):
                raise error

    @property
    def runs(self) -> list[Run]:
        """The runs that have not ended."""
        return list(self._runs.values())

    async def _poll(self) -> None:
        while True:
            limit = await self._room()
            try:
                if boottime() - self._renewed_at > 2 * self._renew_seconds:
                    await self._renew_once()  # before a poll shows that this runner is awake
                triggers = await self._coordinator.poll(limit, POLL_SECONDS if self._has_served else 0)
                self._note(None)
            except Unreachable as error:
                self._note(error)
                await asyncio.sleep(error.pause_seconds)
                continue
            except Refused as error:
                raise self._refused(error) from error
            if not self._has_served:
                self._has_served = True
                self._ready()
            for trigger in triggers:
                await self._dispatch(trigger)

    async def _room(self) -> int:
        """Waits until work may be taken. Returns how much."""
        while True:
            self._is_free.clear()
            while left := self._accounts.left_seconds:
                with suppress(Refused, Unreachable):
                    await self._renewed(await self._coordinator.renew([], left))  # so it stays online
                await asyncio.sleep(min(left, _MOST_RENEW_SECONDS))
            if pause := self._breaker.pause_seconds:
                await asyncio.sleep(pause)
            most = 1 if self._breaker.is_trying else self._settings.max_concurrent
            if (free := most - len(self._runs)) > 0:
                return free
            await self._is_free.wait()

    async def _dispatch(self, trigger: Trigger) -> None:
        kind = trigger["kind"]
        if _is_known(trigger):
            await self._finish(trigger)
        elif kind in _WORK and (left := self._accounts.left_seconds):  # by a poll of before
            await self._coordinator.release([trigger["lease"]["token"]], min(left, 86_400))
        elif kind in _WORK:
            self._start(trigger)
        elif kind in _ABOUT_RUNS:
            if run := self._run_of(trigger):
                run.notice(trigger)
            await self._finish(trigger)
        elif kind == "task_offered":
            await self._accept(trigger)
        else:
            self._start(trigger)

    def _start(self, trigger: Trigger) -> None:
        run = Run(trigger, self._contexts)
        if not self._runs:
            self._renewed_at = boottime()
        self._runs[run.token] = run
        self._renew_seconds = _renew_seconds(trigger)
        self._has_started.set()
        self._tasks.start(run.execute(), f"run {trigger['id']}").add_done_callback(lambda _: self._ended(run))

    def _ended(self, run: Run) -> None:
        del self._runs[run.token]
        self._breaker.record(failed=run.has_failed)
        self._is_free.set()

    def _run_of(self, trigger: Trigger) -> Run | None:
        """Returns the run that a notice is about: of its task, of its message, or of its thread."""
        notice, runs = trigger.get("notice") or {}, list(self._runs.values())
        tests: tuple[Callable[[Run], bool], ...] = (
            lambda run: run.task_id is not None and run.task_id == notice.get("task_id"),
            lambda run: notice.get("inbox_message_id") in run.inbox_message_ids,
            lambda run: trigger.get("thread") is not None and run.key == thread_key(trigger),
        )
        return next((run for test in tests for run in runs if test(run)), None)

    async def _accept(self, trigger: Trigger) -> None:
        """Accepts an offered task. The lead has chosen this worker, and the task waits until there is room."""
        try:
            await self._coordinator.call("accept-task", trigger["lease"]["token"], task_id=trigger["task"]["id"])
        except (Refused, Unreachable) as error:
            _log.warning("An offer was not accepted.", action="runner_offer", error=error.message)
        await self._finish(trigger)

    async def _finish(self, trigger: Trigger) -> None:
        try:
            await self._coordinator.finish(trigger["lease"]["token"])
        except (Refused, Unreachable) as error:  # it comes again
            _log.info("A notice was not finished.", action="runner_notice", error=error.message)

    async def _until_renewal(self) -> None:
        """Waits from one renewal to the next. The time is that of the shortest lease, also of one that begins now; it
        goes on while the machine sleeps.
        """
        since = boottime()
        while True:
            is_polling = len(self._runs) < self._settings.max_concurrent
            seconds = self._renew_seconds if is_polling else min(self._renew_seconds, _NOTICES_SECONDS)
            if (left := since + seconds - boottime()) <= 0:
                return
            self._has_started.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_SECONDS) if self._runs else left):
                    await self._has_started.wait()

    async def _renew(self) -> None:
        while True:
            await self._until_renewal()
            try:
                await self._renew_once()
            except Unreachable as error:
                self._note(error)
                self._renew_seconds = _LEAST_RENEW_SECONDS  # the coordinator may return shortly before they end
            except Refused as error:
                raise self._refused(error) from error

    async def _renew_once(self) -> None:
        if tokens := [token for token, run in self._runs.items() if run.has_lease]:
            beat = await self._coordinator.renew(tokens)
            self._renewed_at = boottime()
            self._note(None)
            await self._renewed(beat)

    def _note(self, error: Unreachable | None) -> None:
        """Logs once that the coordinator does not answer, and once that it does again."""
        if error and not self._is_away:
            _log.warning("The coordinator does not answer.", action="runner_away", error=error.message)
        elif self._is_away and not error:
            _log.info("The coordinator answers again.", action="runner_away")
        self._is_away = error is not None

    async def _renewed(self, beat: dict[str, Any]) -> None:
        for renewed in beat["renewed"]:
            self._renew_seconds = _third_of(renewed["expires_at"])
        for token in beat["lost"]:
            if (run := self._runs.get(token)) and run.has_lease:
                _log.warning("A lease is lost, so its run is ended.", action="runner_lease_lost", key=run.key)
                run.stop(Stop.LOST)
        for trigger in beat["notices"]:
            await self._dispatch(trigger)

    async def _tidy(self) -> None:
        while True:
            for path in await self._context.workdirs.tidy(self._settings.keep_days * 86_400):
                _log.info("A worktree without changes was removed.", action="runner_worktree", path=str(path))
            await asyncio.sleep(_TIDY_SECONDS)

    async def _end(self, at_once: asyncio.Event) -> None:
        """Ends all runs: the rest of their work is given back after a moment, or left alone if it is another's."""
        if self._is_replaced:
            for run in self.runs:
                run.stop(Stop.LOST)
            await self._tasks.wait(_CANCEL_SECONDS)
            await self._tasks.end()
            return
        hurry = asyncio.create_task(at_once.wait())
        for seconds in (self._settings.stop_seconds, _CANCEL_SECONDS):
            if self._runs:
                ended = asyncio.create_task(self._tasks.wait())
                await asyncio.wait({ended, hurry}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
            for run in list(self._runs.values()):
                run.stop(Stop.LOST if at_once.is_set() else Stop.SHUTDOWN)
        await self._tasks.wait(_CANCEL_SECONDS)
        await self._tasks.end()
        hurry.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._coordinator.leave()

    def _refused(self, error: Refused) -> Exception:
        """Returns what the operator can do about a refused poll or renewal."""
        name = self._settings.name
        match error.code:
            case "conflict":
                self._is_replaced = True
                if not self._has_served:
                    return ConfigurationError(error.message, hint=error.hint)
                ended = f", so {len(self._runs)} of its runs were ended here" if self._runs else ""
                return ConfigurationError(f"Another runner has taken over '{name}'{ended}.", hint=error.hint)
            case "unauthorized" | "forbidden":
                return ConfigurationError(
                    f"The coordinator does not accept the token of '{name}': {error.message}",
                    hint=f"If the agent was removed or its token replaced, delete {self._settings.home / 'token'} or "
                    "set SWARM_TOKEN.",
                )
        return error


def boottime() -> float:
    """Returns seconds on a clock that continues while the machine sleeps, if such a clock exists."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_known(trigger: Trigger) -> bool:
    """Whether a notice needs no turn: an offer that was declined, since its message comes again; or a task that a
    person has cancelled, since the thread was told, and a lead could give out again what people have stopped.
    """
    if trigger["kind"] == "task_declined":
        return True
    actor = (trigger.get("notice") or {}).get("actor") or {}
    is_cancelled = trigger["kind"] == "task_finished" and trigger["task"]["status"] == "cancelled"
    return is_cancelled and str(actor.get("id")).startswith(("U", "W"))  # of people; bots and agents have others


def _renew_seconds(trigger: Trigger) -> float:
    return _third_of(trigger["lease"]["expires_at"])


def _third_of(expires_at: str) -> float:
    """Returns a third of a lease's time. If the clocks of the machines differ, renewals are only more frequent, or as
    frequent as for a usual lease."""
    left = datetime.fromisoformat(expires_at).timestamp() - time.time()
    return min(max(left / 3, _LEAST_RENEW_SECONDS), _MOST_RENEW_SECONDS)
