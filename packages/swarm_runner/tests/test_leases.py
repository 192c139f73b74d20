"""Runs under leases: renewed in time, ended at once with the lease, and one at a time in the session of a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from structlog.testing import capture_logs

from packages.swarm_runner.tests.scripted import ScriptedDoor, ScriptedSession
from swarm.clock import boottime
from swarm_runner import coordinator as coordinator_module
from swarm_runner import runner as runner_module
from swarm_runner.cli import _reached
from swarm_runner.coordinator import CoordinatorConnection, Refused, Unreachable, _refusal
from swarm_runner.port import CliEvent, McpAccess, TextAdded, TurnEnded, TurnOutcome
from swarm_runner.runner import Runner
from swarm_runner.settings import RunnerSettings
from tests.support.waiting import wait_until

LEASE_SECONDS = 1.5
TOLD = {"message": "Too often.", "hint": None}


def note(number: int, thread: str) -> dict[str, Any]:
    """A message of another agent in a thread."""
    return {
        "id": f"n{number}",
        "kind": "agent_message",
        "prompt": "Hi",
        "attempt": 1,
        "inbox_messages": [],
        "thread": {"team": "T", "channel": "C", "channel_name": "#c", "thread_ts": thread},
    }


def _ends() -> str:
    return (datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)).isoformat()


class Coordinator:
    """Hands out triggers when the test says so, and notes the renewals."""

    def __init__(self, *triggers: dict[str, Any]) -> None:
        self.polled = asyncio.Event()
        self.work = asyncio.Event()
        self.renewed = asyncio.Event()
        self.tokens: list[str] = []  # renewed last
        self.lost: list[str] = []
        self.finished: list[str] = []
        self.limits: list[int] = []  # of the polls
        self._triggers = list(triggers)

    async def poll(self, limit: int, wait_seconds: float) -> list[dict[str, Any]]:
        self.polled.set()
        self.limits.append(limit)
        await self.work.wait()
        self.work.clear()
        return [one | {"lease": {"token": f"lease-{one['id']}", "expires_at": _ends()}} for one in self._triggers]

    async def renew(self, tokens: list[str]) -> dict[str, Any]:
        self.renewed.set()
        self.tokens = tokens
        kept = [token for token in tokens if token not in self.lost]
        return {"renewed": [{"expires_at": _ends()} for _ in kept], "lost": self.lost, "notices": []}

    async def release(self, tokens: list[str]) -> None: ...

    async def finish(self, token: str, outcome: str = "done", reason: str = "") -> dict[str, Any]:
        self.finished.append(token)
        raise Refused("lease_lost", "over")

    async def leave(self) -> None: ...

    def mcp(self, lease: Mapping[str, str]) -> McpAccess:
        return McpAccess(url="http://127.0.0.1:9/mcp", headers={})


@asynccontextmanager
async def serving(coordinator: Coordinator, door: ScriptedDoor, home: Path, **given: Any) -> AsyncIterator[Runner]:
    """A runner that has begun its work."""
    settings = RunnerSettings(name="wim", provider="claude", home=home, url="http://127.0.0.1:9", **given)
    runner = Runner(settings, cast(CoordinatorConnection, coordinator), door)
    stopping, at_once = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(runner.serve(stopping, at_once))
    await coordinator.polled.wait()
    await asyncio.sleep(0)  # the renewals, begun after the polls, wait for their usual time
    coordinator.work.set()
    try:
        yield runner
    finally:
        stopping.set()
        at_once.set()
        await task


async def no_run(runner: Runner) -> None:
    async def look() -> bool:
        return not runner.runs

    await wait_until(look, what="no run is left")


async def hangs(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
    yield TextAdded(text="I begin.")
    await asyncio.Event().wait()


@pytest.mark.req("RUN-01")
@pytest.mark.parametrize("max_concurrent", [1, 2])
async def test_a_short_lease_that_begins_while_the_runner_waits_is_renewed(tmp_path: Path, max_concurrent: int) -> None:
    coordinator = Coordinator(note(1, "1.0"))
    async with (
        serving(coordinator, ScriptedDoor(hangs), tmp_path, max_concurrent=max_concurrent),
        asyncio.timeout(LEASE_SECONDS),
    ):
        await coordinator.renewed.wait()


@pytest.mark.req("RUN-01", "RUN-02")
async def test_a_lost_lease_ends_the_cli_and_nothing_more_is_said(tmp_path: Path) -> None:
    coordinator, door = Coordinator(note(1, "1.0")), ScriptedDoor(hangs)
    coordinator.lost = ["lease-n1"]
    async with serving(coordinator, door, tmp_path) as runner:
        await coordinator.renewed.wait()
        await no_run(runner)
        assert (door.closed, door.cancelled, coordinator.finished) == (1, 0, [])


@pytest.mark.req("RUN-02")
async def test_the_session_of_a_thread_has_one_run_at_a_time_and_its_next_run_resumes_it(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def waits(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        await go.wait()
        yield TextAdded(text="Done.")

    coordinator = Coordinator(note(1, "1.0"), note(2, "1.0"), note(3, "2.0"))
    door = ScriptedDoor(waits)
    async with serving(coordinator, door, tmp_path, max_concurrent=3) as runner:
        await coordinator.renewed.wait()  # while one of them waits for the session
        assert coordinator.tokens == ["lease-n1", "lease-n2", "lease-n3"]
        assert door.most_at_once == 2
        go.set()
        await no_run(runner)
    assert door.most_at_once == 2
    first, other, second = door.opened
    assert (first.resume, other.resume, second.resume) == (None, None, "session-1")
    assert first.cwd == second.cwd != other.cwd


@pytest.mark.req("RUN-02")
async def test_a_session_is_resumed_only_in_its_folder(tmp_path: Path) -> None:
    async def answers(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield TextAdded(text="Done.")

    sessions: set[str] = set()
    for folder, resumed in (("a", None), ("a", "session-1"), ("b", None)):
        coordinator, door = Coordinator(note(1, "1.0")), ScriptedDoor(answers, sessions=sessions)
        async with serving(coordinator, door, tmp_path, workdir=tmp_path / folder) as runner:
            await no_run_after(coordinator, runner)
        assert [wanted.resume for wanted in door.opened] == [resumed]


async def no_run_after(coordinator: Coordinator, runner: Runner) -> None:
    async def look() -> bool:
        return bool(coordinator.finished) and not runner.runs

    await wait_until(look, what="the run has ended")


@pytest.mark.req("RUN-02")
async def test_after_three_failures_one_run_tries_again(tmp_path: Path) -> None:
    async def fails(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield TurnEnded(outcome=TurnOutcome.FAILED)

    coordinator = Coordinator(note(1, "1.0"))
    async with serving(coordinator, ScriptedDoor(fails), tmp_path, max_concurrent=3, pause_seconds=0.01) as runner:
        for polls in range(2, 6):
            await no_run_after(coordinator, runner)
            await polled(coordinator, polls)
            coordinator.finished.clear()
            coordinator.work.set()
        assert coordinator.limits == [3, 2, 2, 2, 1]


async def polled(coordinator: Coordinator, times: int) -> None:
    async def look() -> bool:
        return len(coordinator.limits) == times

    await wait_until(look, what="the runner polls")


@pytest.mark.req("LOOP-21")
async def test_after_a_pause_leases_are_renewed_before_a_poll_shows_that_the_runner_is_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Noting(Coordinator):
        async def poll(self, limit: int, wait_seconds: float) -> list[dict[str, Any]]:
            calls.append("poll")
            return await super().poll(limit, wait_seconds)

        async def renew(self, tokens: list[str]) -> dict[str, Any]:
            calls.append("renew")
            return await super().renew(tokens)

    coordinator = Noting(note(1, "1.0"))
    async with serving(coordinator, ScriptedDoor(hangs), tmp_path, max_concurrent=3):
        await polled(coordinator, 2)
        coordinator._triggers.clear()
        monkeypatch.setattr(runner_module, "boottime", lambda: boottime() + 3600)
        calls.clear()
        coordinator.work.set()  # what was on its way when the runner was suspended
        await polled(coordinator, 3)
    assert calls[:2] == ["renew", "poll"]


@pytest.mark.req("LOOP-21")
async def test_a_runner_looks_each_second_however_long_the_coordinator_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Unreachable("It does not answer.")
    assert all(0.5 < away.pause_seconds < 1.5 for _ in range(100))
    asked = _refusal(
        httpx2.Response(429, headers={"Retry-After": "7"}, json={"error": {"code": "rate_limited"} | TOLD})
    )
    assert isinstance(asked, Unreachable)
    assert asked.pause_seconds >= 7
    pauses: list[float] = []

    class Away(Coordinator):
        async def poll(self, limit: int, wait_seconds: float) -> list[dict[str, Any]]:
            if len(pauses) < 12:
                raise away
            return await super().poll(limit, wait_seconds)

    async def sleep(seconds: float) -> None:
        if asyncio.current_task() and "poll" in asyncio.current_task().get_name():  # type: ignore[union-attr]
            pauses.append(seconds)
        await real_sleep(0)

    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with capture_logs() as logs:
        async with serving(Away(), ScriptedDoor(hangs), tmp_path):
            pass
    assert len(pauses) == 12
    assert max(pauses) < 1.5
    said = [log["event"] for log in logs if log.get("action") == "runner_away"]
    assert said == ["The coordinator does not answer.", "The coordinator answers again."]


@pytest.mark.req("LOOP-21")
async def test_work_without_a_thread_whose_lease_is_lost_is_not_begun(tmp_path: Path) -> None:
    """The runner was suspended while the work was on its way."""

    class Late(Coordinator):
        async def start(self, lease_token: str, about: dict[str, str]) -> str:
            raise Refused("lease_lost", "another run has the work")

    task = note(1, "1.0") | {"kind": "task_assigned", "task": {"id": "t1", "title": "t", "status": "pending"}}
    del task["thread"]
    coordinator, door = Late(task), ScriptedDoor(hangs)
    async with serving(coordinator, door, tmp_path) as runner:
        await no_run_after(coordinator, runner)
    assert door.opened == []


async def test_a_call_of_a_start_waits_for_the_coordinator_and_says_so_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_module, "_AGAIN_SECONDS", 0.001)
    tries = 0

    async def call() -> str:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise Unreachable("The coordinator does not answer.", hint="Start it.")
        return "token"

    assert await _reached(call, asyncio.Event()) == "token"
    said = capsys.readouterr().err.split("\n")
    assert said == [
        "The coordinator does not answer. Start it. This waits for it; Ctrl-C stops.", "The coordinator answers.", "",
    ]  # fmt: skip


async def test_a_start_that_waits_can_be_stopped_even_while_a_call_hangs() -> None:
    stopping = asyncio.Event()
    waiting = asyncio.create_task(_reached(asyncio.Event().wait, stopping))
    await asyncio.sleep(0)
    stopping.set()
    assert await waiting is None
