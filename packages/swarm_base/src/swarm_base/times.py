"""Times in words."""

from __future__ import annotations


def span(seconds: float) -> str:
    """Returns a time in its largest unit, such as "2 days"."""
    sizes = (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")
    size, name = next((one for one in sizes if seconds >= one[0]), sizes[-1])
    count = int(seconds // size)
    return f"{count} {name}{'' if count == 1 else 's'}"
