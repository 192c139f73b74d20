"""``swarm bench runners``: measures real ``swarm run`` processes, whose coding CLIs are small scripts.

Each runner has a simulated lead, to which people write, so that every runner has as many runs at once as it may have,
all the time. The script writes a first text, works, and writes its result; its answers are found in the twin. Slack's
rate limits are off. A task's times are those of the database and of the changes in Slack, by the same clock.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import shlex
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from slack_twin.changes import Change, MessageChanged, MessagePosted

from swarm_lab.bench.agents import Agent, Part, names, playing, question
from swarm_lab.bench.figures import BenchError, Better, Figure, Say, largest, spread
from swarm_lab.bench.plans import RunnersPlan
from swarm_lab.bench.slack import Slack
from swarm_lab.bench.stage import UNPACED, Cluster, stage
from swarm_lab.programs import Program

_CLI: Final = """\
name=$(sed -n 's/^title: "\\(m[0-9]*\\)"$/\\1/p')
echo "begin $name"
sleep "$1"
echo "answer $name"
"""
_SHOWN: Final = re.compile(r"\b(begin|answer) (m\d+)\b")
_SHOWN_LOST: Final = 5
_LOOK_SECONDS: Final = 2.0
_NEWEST: Final = 200  # tasks that the coordinator lists at once, more than begin between two looks
_READY: Final = "Ctrl-C stops it."  # in the first line of a runner
_READY_SECONDS: Final = 120.0
_SETTLED_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 120.0  # for an answer, beyond its work


async def measure(plan: RunnersPlan, say: Say) -> list[Figure]:
    """Measures the tasks, their latencies, and the costs of the coordinator and the runners."""
    async with (
        stage(plan, UNPACED) as (slack, processes),
        _teams(plan, processes) as (leads, runners),
    ):
        people = _People(slack, plan)
        await processes.settled()
        say(f"{plan.runners} runners with {plan.concurrent} runs each for {plan.seconds:g} s")
        async with playing(_looking(processes, people, runners)):
            spent = runners.cpu_seconds()
            async with processes.window() as window:
                await people.keep_busy([lead.name for lead in leads])
            spent = runners.cpu_seconds() - spent
            await people.settled(processes)
        runners.check()
        for name in people.lost()[:_SHOWN_LOST]:
            say(f"lost: {people.story(name)}")
        count = len(people.done_at)
        figure = partial(Figure, "runners")
        found = [
            figure("tasks done", count, "", Better.HIGHER),
            figure("tasks lost", len(people.lost()), "", target=0),
            figure("tasks or answers doubled", people.doubled(), "", target=0),
            figure("tasks tried more than once", people.repeated(), "", target=0),
            figure("leases lost", await processes.expired_leases() + runners.leases_lost(), "", target=0),
            *people.latencies(),
            figure("processor time of the runners for one task", 1_000 * spent / max(count, 1), "ms"),
            figure("processor of the coordinator", 100 * window.cpu_seconds / window.seconds, "% of a core"),
            figure(f"processor of {plan.runners} runners", 100 * spent / window.seconds, "% of a core"),
            figure("memory of the coordinator, at most", max(people.coordinator_bytes) / 2**20, "MB"),
            figure("memory of one runner, at most", max(people.runner_bytes) / 2**20, "MB"),
        ]
        return window.beside(found, count)


@dataclass(slots=True)
class _People:
    """People who ask for work, and what became of it, by the name in their message. Times are seconds since 1970."""

    slack: Slack
    plan: RunnersPlan
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id, as they were seen last
    first_text_at: dict[str, float] = field(default_factory=dict)
    done_at: dict[str, float] = field(default_factory=dict)
    coordinator_bytes: list[int] = field(default_factory=list)
    runner_bytes: list[int] = field(default_factory=list)  # of the largest one, at each look
    _threads: dict[str, tuple[str, str]] = field(default_factory=dict)
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.slack.listen(self._on_change, lambda _: None)

    async def keep_busy(self, leads: Sequence[str]) -> None:
        """Lets each lead have as many open tasks as its runner has runs, for the time of the plan."""
        until = time.perf_counter() + self.plan.seconds
        slots = [(lead, number) for number in range(self.plan.concurrent) for lead in leads]
        apart = self.plan.work_seconds / len(slots)
        await asyncio.gather(*(self._slot(lead, apart * place, until) for place, (lead, _) in enumerate(slots)))

    async def _slot(self, lead: str, delay_seconds: float, until: float) -> None:
        await asyncio.sleep(delay_seconds)
        while time.perf_counter() < until:
            await self._ask(lead)

    async def _ask(self, lead: str) -> None:
        number = next(self._numbers)
        name, ended = f"m{number}", asyncio.Event()
        self._waiting[name] = ended
        self._threads[name] = self.slack.say(f"{self.slack.mention} swarm#{lead} {question(number, delegate=True)}")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.plan.work_seconds + _PATIENCE_SECONDS):
                await ended.wait()

    def _on_change(self, change: Change) -> None:
        if not isinstance(change, MessagePosted | MessageChanged) or not change.message.app_id:
            return
        for what, name in _SHOWN.findall(change.message.text):
            if name in self._waiting:
                (self.first_text_at if what == "begin" else self.done_at).setdefault(name, time.time())
                if what == "answer":
                    self._waiting[name].set()

    async def look(self, processes: Cluster) -> None:
        """Reads the newest tasks."""
        found = (await processes.members[0].get(f"/tasks?limit={_NEWEST}")).json()["tasks"]
        self.tasks.update({task["id"]: task for task in found})

    async def settled(self, processes: Cluster) -> None:
        """Waits a moment for the ends of tasks, which follow their texts."""
        until = time.perf_counter() + _SETTLED_SECONDS
        await self.look(processes)
        while self.lost() and time.perf_counter() < until:
            await asyncio.sleep(_LOOK_SECONDS / 10)
            await self.look(processes)

    def lost(self) -> list[str]:
        """Returns the messages whose task was not completed, or whose answer people do not see."""
        completed = {name for name, task in self._by_name() if task["status"] == "completed"}
        return [name for name in self._threads if name not in completed or not self._shown(name)]

    def story(self, name: str) -> str:
        """Returns what became of a message: the states of its tasks, and what people see."""
        tasks = [
            f"{task['status']} {task['agent']} {task['error'] or ''}" for one, task in self._by_name() if one == name
        ]
        texts = [str(message["text"]) for message in self.slack.messages(*self._threads[name])]
        return f"{name}, tasks {tasks}, thread {texts}"

    def doubled(self) -> int:
        """Returns the number of surplus tasks and answers."""
        tasks = Counter(name for name, _ in self._by_name())
        return sum(max(0, tasks[name] - 1) + max(0, self._shown(name) - 1) for name in self._threads)

    def repeated(self) -> int:
        """Returns the number of tasks that were handed out more than once."""
        return sum(task["attempts"] > 1 for task in self.tasks.values())

    def latencies(self) -> list[Figure]:
        """Returns the time of each step of a task."""
        tasks = [(name, task) for name, task in self._by_name() if name in self.done_at and task["started_at"]]
        begun = [(name, task) for name, task in tasks if name in self.first_text_at]
        claimed = [_at(task["started_at"]) - _at(task["created_at"]) for _, task in tasks]
        first = [self.first_text_at[name] - _at(task["started_at"]) for name, task in begun]
        done = [self.done_at[name] - _at(task["created_at"]) - self.plan.work_seconds for name, task in tasks]
        steps = {
            "created → claimed": claimed,
            "claimed → first text in Slack": first,
            "created → answer in Slack, without the CLI's work": done,
        }
        return [
            figure
            for what, seconds in steps.items()
            for figure in (*spread("runners", what, seconds), largest("runners", what, seconds))
        ]

    def _by_name(self) -> list[tuple[str, dict[str, Any]]]:
        return [(names(task["title"])[0], task) for task in self.tasks.values() if names(task["title"])]

    def _shown(self, name: str) -> int:
        return sum(
            _SHOWN.findall(str(message["text"])).count(("answer", name))
            for message in self.slack.messages(*self._threads[name])
        )


class _Runners:
    """The processes of the runners."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs

    def check(self) -> None:
        """Raises Died if a runner has ended."""
        for program in self._programs:
            program.check()

    async def until_ready(self) -> None:
        """Waits until all of them take work. Raises BenchError or Died."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while not all(any(_READY in line for line in one.lines()) for one in self._programs):
                    self.check()
                    await asyncio.sleep(_LOOK_SECONDS / 10)
        except TimeoutError as error:
            raise BenchError(f"the runners were not ready within {_READY_SECONDS:g} s") from error

    def cpu_seconds(self) -> float:
        """Returns their processor time since their start, without that of their CLIs."""
        return sum(program.cpu_seconds() for program in self._programs)

    def largest_bytes(self) -> int:
        """Returns the memory use of the largest one."""
        return max(program.memory_bytes() for program in self._programs)

    def leases_lost(self) -> int:
        """Returns how often their logs mention a lost lease."""
        return sum('"runner_lease_lost"' in line for program in self._programs for line in program.lines())

    async def stop(self) -> None:
        """Ends them in order."""
        await asyncio.gather(*(program.stop() for program in self._programs))


@asynccontextmanager
async def _teams(plan: RunnersPlan, processes: Cluster) -> AsyncIterator[tuple[Sequence[Part], _Runners]]:
    """Starts the runners, and a lead for each of them."""
    leads = await processes.register(plan.runners, prefix="lead")
    workers = await processes.register(plan.runners, role="worker", prefix="runner")
    parts = [
        replace(lead, workers=[worker.name], hands=plan.concurrent) for lead, worker in zip(leads, workers, strict=True)
    ]
    runners = _Runners([await _started(plan, processes, worker) for worker in workers])
    async with playing(*(Agent(part).play() for part in parts)) as tasks:
        try:
            await runners.until_ready()
            yield leads, runners
            if ended := [task for task in tasks if task.done()]:
                raise BenchError(f"a lead ended by itself: {ended[0].exception()!r}")
        finally:
            await asyncio.shield(runners.stop())


async def _started(plan: RunnersPlan, processes: Cluster, worker: Part) -> Program:
    script = processes.place.folder / "cli.sh"
    script.write_text(_CLI)
    cli = shlex.join(["sh", str(script), f"{plan.work_seconds:g}"])
    options = {
        "--provider": f"command:{cli}",
        "--url": f"http://127.0.0.1:{worker.port}",
        "--max-concurrent": str(plan.concurrent),
        "--home": str(processes.place.folder / worker.name),
    }
    words = [word for option in options.items() for word in option]
    token = {"SWARM_TOKEN": worker.token}
    return await processes.place.start(worker.name, "run", worker.name, *words, environment=token)


async def _looking(processes: Cluster, people: _People, runners: _Runners) -> None:
    """Reads tasks and memory until cancelled."""
    while True:
        await people.look(processes)
        people.coordinator_bytes.append(processes.memory_bytes())
        people.runner_bytes.append(runners.largest_bytes())
        await asyncio.sleep(_LOOK_SECONDS)


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
