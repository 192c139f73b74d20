"""A coordinator compares its settings with Slack: what a reload tells, also while Slack does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swarm.app import reload
from swarm.app.reload import Reloader
from swarm.app.slack_check import SlackCheck
from swarm.config import Settings
from swarm.domain.errors import Unavailable
from swarm.domain.slack_check import NOT_LOOKED, Finding, Name
from tests.services.test_reload import Operator
from tests.support.world import World

pytestmark = pytest.mark.req("OPS-17")


class Check(SlackCheck):
    """What Slack says about the settings, one answer after the other; None: it does not answer at all."""

    def __init__(self, *answers: Exception | str | None) -> None:
        self._answers = [*answers]

    async def look(self, settings: Settings, names: Mapping[Name, Sequence[str]]) -> tuple[Finding, ...]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return (Finding(keys=("channels.C1",), message=str(answer), remedy="Do it."),) if answer else ()


async def test_a_reload_tells_what_slack_does_not_know_and_that_it_has_not_answered(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, check = Operator(world, tmp_path), Check(Unavailable("away"), "No C1.", None, "")
    reloader = Reloader(operator.read(), operator.book, operator.rosters, read=operator.read, slack_check=check)
    assert (await reloader.reload()).doubts == (NOT_LOOKED,)
    assert (await reloader.reload()).doubts == ("No C1. Do it.",)
    monkeypatch.setattr(reload, "ANSWER_SECONDS", 0.01)
    assert (await reloader.reload()).doubts == (NOT_LOOKED,)  # and not what was found before
    monkeypatch.undo()
    assert (await reloader.reload()).doubts == ()
