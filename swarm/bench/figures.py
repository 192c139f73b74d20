"""Figures: the results of a measurement, beside the targets of the design."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class BenchError(Exception):
    """A measurement failed; the message is the reason in one line."""


class Better(StrEnum):
    """The better direction of a figure."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One result. A figure without a target explains others."""

    measurement: str
    what: str
    value: float
    unit: str
    better: Better = Better.LOWER
    target: float | None = None
    ratio: bool = False  # of two other figures

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better is Better.LOWER else self.value >= self.target


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least ``share`` (0 to 1) of all values do not exceed.

    Raises BenchError without values.
    """
    if not values:
        raise BenchError("nothing was measured, so there is no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def combined(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Combines each figure over several runs to the best value, since other load on the machine only worsens a figure.

    A ratio becomes the median: its best value would come from a run in which the other side had bad luck.
    """
    return [_combined(versions) for versions in zip(*runs, strict=True)]


def _combined(versions: Sequence[Figure]) -> Figure:
    ordered = sorted(versions, key=lambda figure: figure.value, reverse=versions[0].better is Better.HIGHER)
    return ordered[len(ordered) // 2 if ordered[0].ratio else 0]
