"""What of a long thread is told with a prompt or a run: its first message and the newest ones, within a bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HISTORY_CHARACTERS: Final = 100_000
"""About 25,000 tokens: a part of what every model reads that is in use today."""


def left_out(sizes: Sequence[int], most: int | None) -> range:
    """The positions of messages that are left out so that the others have at most ``most`` characters.

    ``sizes`` are those of the messages, oldest first. The first one is always told, however long it is, and then as
    many of the newest as there is room for; without ``most``, all.
    """
    if most is None or sum(sizes) <= most:
        return range(0)
    room, first_told = most - sizes[0], len(sizes)
    while first_told > 1 and sizes[first_told - 1] <= room:
        first_told -= 1
        room -= sizes[first_told]
    return range(1, first_told)
