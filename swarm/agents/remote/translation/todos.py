"""Lists of things to do, as agents write them, and as the lines of a plan.

There is no standard for them. What is understood: a list, or an object that holds one under ``todos``, ``plan`` or
``steps``, of texts or of objects with a text (``content``, ``title``, ``step``, ``description``, ``task``, ``name``)
and a ``status``. LangChain's and deepagents' ``write_todos`` and CAIPE's state are of that kind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final

from swarm.agents.remote.translation.values import first, id_of, is_object, line_of, parsed
from swarm.domain.answers.events import PlanStep, StepStatus

LISTS: Final = ("todos", "plan", "steps")
STEPS: Final = 100
"""A longer plan is cut."""

ITEMS: Final = 1000
"""Of a longer list no more is kept, and of a longer patch no more is applied."""

REPR_CHARACTERS: Final = 16 * 1024

_TITLES: Final = ("content", "title", "step", "description", "task", "text", "name")
_STATUSES: Final = {
    **dict.fromkeys(("inprogress", "running", "active", "working", "doing", "started", "current"), "IN_PROGRESS"),
    **dict.fromkeys(("completed", "complete", "done", "finished", "success", "succeeded", "ok"), "COMPLETE"),
    **dict.fromkeys(("failed", "failure", "error", "cancelled", "canceled", "aborted", "blocked"), "ERROR"),
}


def list_in(value: object, depth: int = 2) -> list[object] | None:
    """The list of things to do that a value is or holds; None if it has none."""
    if isinstance(value, list):
        return value
    if not is_object(value) or not depth:
        return None
    found = (list_in(value[name], depth - 1) for name in LISTS if name in value)
    return next((items for items in found if items is not None), None)


def list_in_text(text: str) -> list[object] | None:
    """The same for a text that is JSON, or that ends in a Python list: "Updated todo list to [{'content': …}]"."""
    items = list_in(parsed(text))
    if items is not None or len(text) > REPR_CHARACTERS or "[" not in text:
        return items
    try:
        return list_in(ast.literal_eval(text[text.index("[") :]))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def is_about_plans(name: str) -> bool:
    """Whether a name, of a tool or an event, says that a plan comes with it."""
    return "todo" in name.lower() or "plan" in name.lower()


def plan_of(items: Sequence[object]) -> tuple[PlanStep, ...]:
    """The lines of a plan. Their ids are the agent's own, if each has another one, or else their places."""
    shown = [(item, title) for item in items[:STEPS] if (title := _title(item))]
    own = [id_of(item.get("id")) if is_object(item) else "" for item, _ in shown]
    ids = own if all(own) and len(set(own)) == len(own) else [str(place) for place in range(1, len(shown) + 1)]
    return tuple(
        PlanStep(id=id, title=title, status=_status(item)) for id, (item, title) in zip(ids, shown, strict=True)
    )


def patched(items: Sequence[object], path: str, operation: str, value: object) -> list[object]:
    """A list after one operation of a JSON Patch on the state that holds it (RFC 6902): add, remove or replace.

    What lies outside the list, or is deeper than a field of one of its items, changes nothing.
    """
    match path.split("/")[1:]:
        case [name] if name in LISTS:
            return [] if operation == "remove" else list_in(value) or []
        case [name, "steps"] if name in LISTS:
            return [] if operation == "remove" else list_in(value) or []
        case [name, place] if name in LISTS:
            return _with_item(list(items), place, operation, value)
        case [name, place, field] if name in LISTS:
            return _with_field(list(items), place, field, operation, value)
    return list(items)


def _with_item(items: list[object], place: str, operation: str, value: object) -> list[object]:
    at = len(items) if place == "-" else _place(place)
    if operation == "add" and 0 <= at <= len(items):
        items.insert(at, value)
    elif operation == "replace" and 0 <= at < len(items):
        items[at] = value
    elif operation == "remove" and 0 <= at < len(items):
        del items[at]
    return items


def _with_field(items: list[object], place: str, field: str, operation: str, value: object) -> list[object]:
    at = _place(place)
    item = items[at] if 0 <= at < len(items) else None
    if is_object(item):
        others = {name: old for name, old in item.items() if name != field}
        items[at] = others if operation == "remove" else others | {field: value}
    return items


def _place(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1


def _title(item: object) -> str:
    return line_of(first(item, *_TITLES) if is_object(item) else item)


def _status(item: object) -> StepStatus:
    if not is_object(item):
        return StepStatus.PENDING
    said = first(item, "status", "state")
    if isinstance(said, str):
        word = "".join(_letters(said[:40]))
        return StepStatus[_STATUSES.get(word, "PENDING")]
    return StepStatus.COMPLETE if first(item, "done", "completed") is True else StepStatus.PENDING


def _letters(word: str) -> Iterable[str]:
    return (letter for letter in word.lower() if letter.isalpha())
