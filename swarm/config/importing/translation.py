"""What a translation yields: settings, and a note on each key of the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

MOST_NAMED: Final = 5
"""The maximum number of channels that one sentence names; more are counted."""


class Fate(StrEnum):
    """What became of a key."""

    TAKEN = "taken over"
    DIFFERS = "taken over with a difference"
    LEFT = "not taken over"


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """What became of one key of the source."""

    source: str  # the key, such as C0123456789.qanda.overthink, or a variable's name
    fate: Fate
    target: str = ""  # the dotted key of our setting
    remark: str = ""  # the difference, or the reason

    def __str__(self) -> str:
        if not self.target:
            return f"{self.source}: {self.fate}: {self.remark}"
        return f"{self.source} → {self.target}" + (f" ({self.remark})" if self.remark else "")


@dataclass(kw_only=True)
class Translation:
    """Settings, in the structure of ``swarm.yaml``, and the notes on how they came about."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # of channels, by id, as the source calls them

    def put(self, path: tuple[str, ...], value: object, source: str, remark: str = "") -> None:
        """Sets one setting. With a remark, it works differently from the source."""
        *parents, last = path
        values = self.values
        for parent in parents:
            values = values.setdefault(parent, {})
        values[last] = value
        self.note(source, ".".join(path), remark)

    def note(self, source: str, target: str, remark: str = "") -> None:
        """Notes that a key became a setting."""
        fate = Fate.DIFFERS if remark else Fate.TAKEN
        self.notes.append(Note(source=source, fate=fate, target=target, remark=remark))

    def leave(self, source: str, reason: str) -> None:
        """Notes that a key has no counterpart."""
        self.notes.append(Note(source=source, fate=Fate.LEFT, remark=reason))

    @property
    def sources(self) -> Mapping[str, str]:
        """The key of the source behind each setting, by the setting's dotted key."""
        return {note.target: note.source for note in reversed(self.notes) if note.target}

    def comments(self) -> Mapping[str, str]:
        """Returns the sources with their remarks, by the setting's dotted key, and channels' names."""
        found = {f"channels.{channel}": name for channel, name in self.names.items()}
        for note in self.notes:
            if note.target:
                said = f"{note.source}: {note.remark}" if note.remark else note.source
                found[note.target] = f"{found[note.target]}; {said}" if note.target in found else said
        return found

    def elsewhere(self) -> Iterator[str]:
        """Yields one sentence for each key that differs or was left out; keys of several channels share one."""
        channels: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for note in self.notes:
            if note.fate is Fate.TAKEN:
                continue
            channel, _, key = note.source.partition(".")
            target = note.target.replace(f"channels.{channel}.", "channels.*.") if key else note.target
            channels[key or channel, target, note.remark].append(channel if key else "")
        for (key, target, remark), of in channels.items():
            named = ", ".join(of) if len(of) <= MOST_NAMED else f"{len(of)} channels"
            where = f" ({named})" if any(of) else ""
            yield f"{key}{where} {f'is {target}, but' if target else 'is not taken over:'} {remark}."
