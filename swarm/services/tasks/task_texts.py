"""The brief of a task: title, description, priority and dependencies, checked before storing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.errors import Invalid, TooLarge
from swarm.domain.model.inbox import MESSAGE_PRIORITY
from swarm.domain.model.tasks import MAX_TEXT_CHARACTERS, MAX_TITLE_CHARACTERS
from swarm.domain.text.characters import strip_invisible

_TITLE_FROM_DESCRIPTION: Final = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """The wording of a task by its creator."""

    title: str
    description: str
    priority: int
    depends_on: tuple[str, ...]


def brief(
    description: str, title: str | None = None, priority: int = MESSAGE_PRIORITY, depends_on: Sequence[str] = ()
) -> Brief:
    """Returns the checked brief. The default title is the description's first line. Raises Invalid or TooLarge."""
    text = strip_invisible(description).strip()
    heading = strip_invisible(title or "").strip() or text.partition("\n")[0][:_TITLE_FROM_DESCRIPTION].strip()
    if not text:
        raise Invalid("Say what is to be done.", fields={"task": "what the worker needs to know to do it"})
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TooLarge(f"The description has {len(text)} characters; at most {MAX_TEXT_CHARACTERS} are kept.")
    if len(heading) > MAX_TITLE_CHARACTERS or "\n" in heading:
        raise Invalid(
            "The title is too long, or not one line.",
            fields={"title": f"one line of at most {MAX_TITLE_CHARACTERS} characters"},
        )
    if not 0 <= priority <= 100:
        raise Invalid(
            f"The priority {priority} is out of range.", fields={"priority": "0 to 100; 50 is the rank of a message"}
        )
    return Brief(title=heading, description=text, priority=priority, depends_on=tuple(dict.fromkeys(depends_on)))
