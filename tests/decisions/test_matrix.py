"""Every asker, everything that people do, every course of things; `tests.decisions.expected` has what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.decisions.expected import Act, Asker, Course
from tests.decisions.play import Played, differing, play
from tests.decisions.scene import Loop, Scene, scene_in
from tests.support.processes import processes_in

pytestmark = [
    pytest.mark.xdist_group("processes"),
    pytest.mark.timeout(600),
    pytest.mark.req("HITL-01", "HITL-02", "HITL-03", "HITL-06", "HITL-09", "HITL-12", "HITL-14"),
]


GATE = (Act.APPROVE, Act.BYSTANDER)


class Matrix:
    """Plays all cells of a course at once when the first of them is wanted."""

    def __init__(self, loop: Loop, scene: Scene) -> None:
        self._loop = loop
        self._scene = scene
        self.played = cache(self._played)

    def _played(self, course: Course, acts: tuple[Act, ...]) -> dict[tuple[Asker, Act], Played]:
        wanted = [(asker, act) for asker in Asker for act in acts]
        return {(cell.asker, cell.act): cell for cell in self._loop.run(play(self._scene, wanted, course))}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Matrix]:
    with processes_in(tmp_path_factory.mktemp("matrix")) as processes, scene_in(processes, migrated_sqlite) as made:
        yield Matrix(*made)


@pytest.mark.parametrize("asker", Asker)
def test_an_approval_counts_once_whatever_a_bystander_writes(matrix: Matrix, asker: Asker) -> None:
    played = matrix.played(Course.PLAIN, GATE)
    assert [differing(played[asker, act]) for act in GATE] == ["", ""]


@pytest.mark.long
@pytest.mark.parametrize("act", Act)
@pytest.mark.parametrize("course", Course)
@pytest.mark.parametrize("asker", Asker)
def test_what_comes_of_a_decision(matrix: Matrix, asker: Asker, course: Course, act: Act) -> None:
    assert differing(matrix.played(course, tuple(Act))[asker, act]) == ""
