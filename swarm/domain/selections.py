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
    def params(self) -> dict[str, object]:
        """The parameters of a statement. The reason is a pattern of LIKE with the escape character ``!``."""
        escaped = "".join(f"!{one}" if one in "!%_" else one for one in self.reason or "")
        chosen = {"status": self.status, "agent": self.agent, "channel": self.channel, "since": self.since}
        return {**chosen, "pattern": f"%{escaped}%" if escaped else None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What became of an act on many: how many match, and for how many it is done."""

    batch: str
    matching: int
    done: int
