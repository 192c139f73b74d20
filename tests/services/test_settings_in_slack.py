"""A coordinator compares its settings with Slack: what a reload tells, also while Slack does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest

from swarm.app import reload
from swarm.app.reload import Reloader
from swarm.app.slack_check import SlackCheck
from swarm.config import Settings
from swarm.domain.errors import Unavailable
from swarm.domain.slack_check import NOT_LOOKED, Finding, Name
from tests.services.test_reload import Operator
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.req("OPS-17")


@pytest.fixture
def operator(world: World, tmp_path: Path) -> Operator:
    return Operator(world, tmp_path)


class Check(SlackCheck):
    """What Slack says about the settings, one answer after the other; the last one from then on."""

    def __init__(self, *answers: Exception | str) -> None:
        self._answers = [*answers]
        self.may_answer = Event()
        self.may_answer.set()

    async def look(self, settings: Settings, names: Mapping[Name, Sequence[str]]) -> tuple[Finding, ...]:
        await asyncio.to_thread(self.may_answer.wait)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return (Finding(keys=("channels.C1",), subject="C1", message=answer, remedy="Do it."),) if answer else ()


@pytest.fixture
async def watching(operator: Operator) -> AsyncIterator[Callable[[Check], Reloader]]:
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[None]] = []

        def watch(check: Check) -> Reloader:
            reloader = Reloader(operator.read(), operator.book, operator.rosters, read=operator.read, slack_check=check)
            tasks.append(group.create_task(reloader.watch_slack()))
            return reloader

        yield watch
        for task in tasks:
            task.cancel()


async def test_a_reload_tells_what_slack_does_not_know_and_that_it_has_not_answered(
    operator: Operator, watching: Callable[[Check], Reloader]
) -> None:
    reloader = watching(Check(Unavailable("away"), Unavailable("away"), "No C1.", ""))
    assert operator.book.mistakes() == (NOT_LOOKED,)
    assert (await reloader.reload()).doubts == (NOT_LOOKED,)
    assert (await reloader.reload()).doubts == ("No C1. Do it.",)
    assert (operator.book.mistakes("C1"), operator.book.mistakes("C2")) == (("No C1. Do it.",), ())
    assert (await reloader.reload()).doubts == operator.book.mistakes() == ()


async def test_a_reload_does_not_wait_for_a_slow_slack_nor_show_findings_about_older_settings(
    operator: Operator, watching: Callable[[Check], Reloader], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check("Old.", "New.")
    check.may_answer.clear()
    reloader = watching(check)
    monkeypatch.setattr(reload, "ANSWER_SECONDS", 0)
    assert (await reloader.reload()).doubts == (NOT_LOOKED,)
    check.may_answer.set()

    async def shown() -> tuple[str, ...]:
        return operator.book.mistakes()

    assert await wait_until(shown, lambda shown: shown != (NOT_LOOKED,)) == ("New. Do it.",)
