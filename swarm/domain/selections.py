"""What an operator chooses by properties, to act on all of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The properties; those that are None, or 0, do not matter."""

    status: str
    agent: str | None = None  # its name
    channel: str | None = None  # its id
    since: int = 0  # microseconds
    reason: str | None = None  # a part of the recorded reason

    @property
    def pattern(self) -> str | None:
        """The reason as a pattern of LIKE with the escape character ``!``."""
        if not self.reason:
            return None
        escaped = "".join(f"!{one}" if one in "!%_" else one for one in self.reason)
        return f"%{escaped}%"


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What became of an act on many: how many match, and for how many it is done."""

    batch: str
    matching: int
    done: int
