"""``kill -9`` of the CLI, of the runner and of the coordinator, at each step of a task: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from packages.swarm_runner.tests.clis.conftest import PATIENCE_SECONDS, Bench, after, said
from packages.swarm_runner.tests.clis.known import each
from swarm.domain.requests.button_actions import DECIDE_ACTION
from tests.support.providers.request import Request
from tests.support.providers.script import Reply, Say, Wait
from tests.support.waiting import wait_until

HALF, REST, LATER = "The first half, ", "and the rest.", "All of it."
BEFORE, MIDDLE, PERMISSION, AFTER = "before the first text", "in the middle of the text", "while it asks", "at the end"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.req("RUN-01", "RUN-02", "SEC-07"),
    each,
    pytest.mark.parametrize("step", [BEFORE, MIDDLE, PERMISSION, AFTER]),
]


def says(gate: asyncio.Event, step: str, bench: Bench) -> Callable[[Request], Reply]:
    """A model that waits at the step until the gate opens."""
    if step == PERMISSION:
        return after(bench.cli.shell("echo made >> made.txt"), then=f"{HALF}{REST}")
    held = {BEFORE: [Wait(gate), Say(HALF, REST)], MIDDLE: [Say(HALF), Wait(gate), Say(REST)]}
    return lambda _request: held.get(step, Say(HALF, REST))


async def begun(bench: Bench, step: str, gate: asyncio.Event) -> tuple[str, str]:
    """A task that has come to the step."""
    bench.reply = says(gate, step, bench)
    ts, task_id = await bench.office.delegate("do it")
    if step == BEFORE:

        async def asked() -> int:
            return len(bench.requests)

        await wait_until(asked, within_seconds=PATIENCE_SECONDS, what="the model is asked")
    elif step == PERMISSION:
        await bench.card(ts, f"{DECIDE_ACTION}approve")
    else:
        await bench.until_shown(ts, HALF.strip() if step == MIDDLE else REST)
    return ts, task_id


def made(bench: Bench) -> int:
    """How often the tool has run."""
    return sum(path.read_text().count("made") for path in (bench.office.folder / "swarm").rglob("made.txt"))


async def test_a_killed_cli(bench: Bench, step: str) -> None:
    await bench.start()
    ts, task_id = await begun(bench, step, asyncio.Event())
    await bench.kill_cli()
    if step != AFTER:
        await bench.office.ended(task_id, "dead", within_seconds=PATIENCE_SECONDS)
        await bench.until_shown(ts, "Retry")
    text = await bench.over(ts)
    assert step == AFTER or "There is no answer" in text or "This answer is not complete" in text
    assert text.count(HALF.strip()) == (step in (MIDDLE, AFTER))
    assert text.count(REST) == (step == AFTER)
    assert not made(bench)


async def test_a_killed_runner(bench: Bench, step: str) -> None:
    runner = await bench.start()
    ts, task_id = await begun(bench, step, asyncio.Event())
    runner.kill()
    await bench.office.gone()
    bench.reply = lambda _request: Say(LATER)
    await bench.start()
    await bench.office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    text = await bench.over(ts)
    is_finished = step == AFTER and LATER not in text  # the end of the text and of the task came together
    assert is_finished or (await bench.until_shown(ts, LATER))
    text = await bench.over(ts)
    assert text.count(HALF.strip()) == (step in (MIDDLE, AFTER))
    assert text.count(LATER) == (not is_finished)
    assert not made(bench)


async def test_a_killed_coordinator(bench: Bench, step: str) -> None:
    gate = asyncio.Event()
    await bench.start()
    ts, task_id = await begun(bench, step, gate)
    await bench.office.stage.restart_coordinator()
    gate.set()
    if step == PERMISSION:
        await bench.decide(ts, "approve")
    await bench.office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    await bench.until_shown(ts, HALF.strip(), REST)
    await bench.over(ts)
    *before, last = [said([message]) for message in await bench.shown(ts) if HALF.strip() in said([message])]
    assert last.count(HALF.strip()) == last.count(REST) == 1
    assert all("the answer starts again below" in text for text in before)  # Slack does not let it go on there
    assert made(bench) == (step == PERMISSION)
