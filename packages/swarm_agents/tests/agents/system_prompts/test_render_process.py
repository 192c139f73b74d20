"""The process that renders: it is apart, it serves many at once, and nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import swarm_agents
from packages.swarm_agents.tests.agents.system_prompts.conftest import IMPATIENT
from packages.swarm_agents.tests.agents.system_prompts.processes import (
    children_of,
    environment_of,
    is_running,
    renderers_of_this_process,
)
from swarm_agents.system_prompts.files import PromptError, Template
from swarm_agents.system_prompts.limits import LIMITS, RenderLimits
from swarm_agents.system_prompts.renderer import AT_ONCE, OF_ONE_TEMPLATE, Renderer
from tests.support.quick import quick
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("AGENT-08")

ENDLESS = "\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
LONG = 60.0  # longer than any test waits
QUICK = Template(name="quick", text="{{ user.name }}")
ADA = {"user": {"name": "Ada"}}
ROOT = Path(__file__).resolve().parents[5]
SOURCES = Path(swarm_agents.__file__).parents[1]


def endless(number: int = 0) -> Template:
    return Template(name=f"endless{number}", text=ENDLESS)


@pytest.fixture
async def hasty() -> AsyncIterator[Renderer]:
    renderer = Renderer(IMPATIENT)
    yield renderer
    await renderer.aclose()


@pytest.fixture
async def soon() -> AsyncIterator[Renderer]:
    renderer = Renderer(RenderLimits(seconds=1.5))  # something can be done to a rendering before
    yield renderer
    await renderer.aclose()


@pytest.fixture
async def patient() -> AsyncIterator[Renderer]:
    renderer = Renderer(RenderLimits(seconds=LONG))
    yield renderer
    await renderer.aclose()


async def at_rest(renderer: Renderer) -> int:
    """Its process, which is there and renders nothing: a child goes on for a moment when it has answered."""
    assert await renderer.render(QUICK, ADA) == "Ada"
    (nursery,) = renderers_of_this_process()
    await until(lambda: not children_of(nursery), "the end of what was rendered")
    return nursery


async def a_child(of: int, other_than: frozenset[int] = frozenset()) -> int:
    async def look() -> list[int]:
        return [child for child in children_of(of) if child not in other_than]

    return (await wait_until(look, what="a rendering under way"))[0]


async def until(met: Callable[[], bool], what: str) -> None:
    async def look() -> bool:
        return met()

    await wait_until(look, what=what)


async def its_error(rendering: asyncio.Task[str]) -> PromptError:
    with pytest.raises(PromptError) as caught:
        await rendering
    return caught.value


async def test_no_process_is_started_for_plain_text(patient: Renderer) -> None:
    assert await patient.render(Template(name="plain", text="Hello.\n"), {}) == "Hello.\n"
    await patient.check(Template(name="plain", text="Hello.\n"))
    assert renderers_of_this_process() == []


async def test_one_process_serves_all_renderings_and_none_is_left_after_the_close(patient: Renderer) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert await asyncio.gather(*(patient.render(QUICK, ADA) for _ in range(20))) == ["Ada"] * 20
    nursery = await at_rest(patient)
    slow = asyncio.create_task(patient.render(endless(), {}))
    child = await a_child(nursery)
    await patient.aclose()
    await patient.aclose()
    assert (await its_error(slow)).name == "endless0"
    await until(lambda: not is_running(nursery) and not is_running(child), "their end")
    assert len(os.listdir("/proc/self/fd")) <= before
    assert "the coordinator is stopping" in (await its_error(asyncio.create_task(patient.render(QUICK, ADA)))).message


async def test_a_slow_template_holds_up_no_other(patient: Renderer) -> None:
    nursery = await at_rest(patient)
    slow = [asyncio.create_task(patient.render(endless(), {})) for _ in range(2 * AT_ONCE)]
    await until(lambda: len(children_of(nursery)) == OF_ONE_TEMPLATE, "all that may run at once of one template")
    assert await asyncio.gather(*(patient.render(QUICK, ADA) for _ in range(20))) == ["Ada"] * 20
    assert not any(task.done() for task in slow)
    await until(lambda: len(children_of(nursery)) == OF_ONE_TEMPLATE, "the end of the others")
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


@pytest.mark.long
async def test_each_of_many_slow_templates_has_its_own_time(hasty: Renderer) -> None:
    slow = [asyncio.create_task(hasty.render(endless(number), {})) for number in range(AT_ONCE + 2)]
    errors = [await its_error(task) for task in slow]
    assert [error.name for error in errors] == [f"endless{number}" for number in range(AT_ONCE + 2)]
    assert {error.problem for error in errors} == {"it takes longer than 0.4 s"}
    assert {error.line for error in errors} <= {2, None}  # on a busy machine the parent may be the first to look


async def test_a_rendering_that_is_cancelled_is_killed(patient: Renderer) -> None:
    nursery = await at_rest(patient)
    slow = asyncio.create_task(patient.render(endless(), {}))
    child = await a_child(nursery)
    slow.cancel()
    await until(lambda: not is_running(child), "the end of the child")
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await patient.render(QUICK, ADA) == "Ada"
    assert renderers_of_this_process() == [nursery]


async def test_a_rendering_that_no_clock_reaches_is_killed_by_its_parent_and_tried_once_more(soon: Renderer) -> None:
    nursery = await at_rest(soon)
    slow = asyncio.create_task(soon.render(endless(), {}))
    frozen = await a_child(nursery)
    os.kill(frozen, signal.SIGSTOP)
    assert (await its_error(slow)).line == 2
    assert not is_running(frozen)
    assert renderers_of_this_process() == [nursery]


@pytest.mark.long
async def test_a_rendering_that_is_killed_each_time_is_an_error(patient: Renderer) -> None:
    nursery = await at_rest(patient)
    slow = asyncio.create_task(patient.render(endless(), {}))
    first = await a_child(nursery)
    os.kill(first, signal.SIGKILL)
    os.kill(await a_child(nursery, frozenset({first})), signal.SIGKILL)
    error = await its_error(slow)
    assert (error.line, "killed twice" in error.problem) == (None, True)


@pytest.mark.parametrize("number", quick([signal.SIGKILL, signal.SIGSTOP]))
async def test_if_the_process_is_lost_another_takes_over_and_nobody_notices(
    soon: Renderer, number: signal.Signals
) -> None:
    nursery = await at_rest(soon)
    os.kill(nursery, number)
    assert await asyncio.gather(*(soon.render(QUICK, ADA) for _ in range(5))) == ["Ada"] * 5
    assert not is_running(nursery)
    assert len(renderers_of_this_process()) == 1


async def test_a_process_that_cannot_start_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, patient: Renderer
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    error = await its_error(asyncio.create_task(patient.render(QUICK, ADA)))
    assert error.problem == "the process that renders prompts did not start"
    monkeypatch.undo()
    assert await patient.render(QUICK, ADA) == "Ada"


async def test_it_knows_none_of_our_variables(monkeypatch: pytest.MonkeyPatch, patient: Renderer) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    nursery = await at_rest(patient)
    assert set(environment_of(nursery).split(b"\0")) <= {b"", b"LC_CTYPE=C.UTF-8"} | {
        f"LD_LIBRARY_PATH={os.environ.get('LD_LIBRARY_PATH')}".encode()
    }


def test_it_imports_nothing_of_the_coordinator() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r}); before = set(sys.modules)\n"
        "import swarm_agents.system_prompts.render_process\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    names = set(done.stdout.split())
    own = {"limits", "rendering", "render_process"}
    assert {name for name in names if name.startswith("swarm")} == {
        "swarm_agents", "swarm_agents.system_prompts", *(f"swarm_agents.system_prompts.{name}" for name in own)
    }  # fmt: skip
    others = {name.partition(".")[0] for name in names if not name.startswith("swarm")}
    assert others - sys.stdlib_module_names <= {"jinja2", "markupsafe"}


def test_the_coordinators_side_does_not_import_jinja2() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n"
        "import swarm_agents.system_prompts.renderer, swarm_agents.system_prompts.files\n"
        "print('jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


COORDINATOR = """
import asyncio, sys
from swarm_agents.system_prompts.limits import RenderLimits
from swarm_agents.system_prompts.renderer import Renderer
from swarm_agents.system_prompts.files import Template
from packages.swarm_agents.tests.agents.system_prompts.test_render_process import LONG, a_child, at_rest, endless

async def main():
    renderer = Renderer(RenderLimits(seconds=LONG))
    nursery = await at_rest(renderer)
    slow = asyncio.create_task(renderer.render(endless(), {}))
    print(nursery, await a_child(nursery), flush=True)
    await slow

asyncio.run(main())
"""


@pytest.mark.long
async def test_it_ends_with_the_coordinator_even_if_that_is_killed() -> None:
    coordinator = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COORDINATOR, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert coordinator.stdout is not None
    processes = [int(number) for number in (await coordinator.stdout.readline()).split()]
    assert len(processes) == 2
    assert all(is_running(process) for process in processes)
    coordinator.kill()
    await coordinator.communicate()
    await until(lambda: not any(is_running(process) for process in processes), "their end")


def test_all_stages_are_within_two_seconds() -> None:
    stages = (LIMITS.seconds, LIMITS.watchdog_seconds, LIMITS.kill_seconds, LIMITS.deadline_seconds)
    assert list(stages) == sorted(stages)
    assert stages[-1] <= 2
