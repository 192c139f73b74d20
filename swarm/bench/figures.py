"""Figures: what a measurement found, beside what the design asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class BenchError(Exception):
    """A measurement could not be made; the message says why in one line."""


class Better(StrEnum):
    """Which of two figures is the better one."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One result. Without a target it is shown for what it explains."""

    measurement: str
    what: str
    value: float
    unit: str
    better: Better = Better.LOWER
    target: float | None = None
    ratio: bool = False  # of two other figures

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better is Better.LOWER else self.value >= self.target


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of all values do not exceed. Raises BenchError for none."""
    if not values:
        raise BenchError("nothing was measured, so there is no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def combined(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Each figure over several runs: the best, since what else the machine does only makes a figure worse.

    Of a ratio it is the median: its best would be the run in which the other side had bad luck.
    """
    return [_combined(versions) for versions in zip(*runs, strict=True)]


def _combined(versions: Sequence[Figure]) -> Figure:
    ordered = sorted(versions, key=lambda figure: figure.value, reverse=versions[0].better is Better.HIGHER)
    return ordered[len(ordered) // 2 if ordered[0].ratio else 0]
