"""Translates the agent's progress: its plan, the names of its steps, and warnings for its operator.

A plan arrives in the agent's state, in a call of a tool that writes plans, or in a separate event. Plans have no
standard form. A plan is accepted as a list, or as an object with a list under ``todos``, ``plan`` or ``steps``. The
list contains texts, or objects with a text (``content``, ``title``, ``step``, ``description``, ``task``, ``name``) and
a ``status``. This covers the ``write_todos`` tool of LangChain and deepagents, and CAIPE's state.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ag_ui.core import (
    ActivitySnapshotEvent,
    CustomEvent,
    Event,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
)

from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.wire import first, id_of, is_object, line_of, parsed, text_of
from swarm.domain.answers.events import AgentEvent, PlanShown, PlanStep, StepNamed, StepStatus, Warned

_LISTS: Final = ("todos", "plan", "steps")

_STEPS: Final = 100
"""A longer plan is truncated."""

_ITEMS: Final = 1000
"""The maximum length of a stored list, and the maximum number of operations applied from one patch."""

_REPR_CHARACTERS: Final = 16 * 1024
_TITLES: Final = ("content", "title", "step", "description", "task", "text", "name")
_STATUSES: Final = {
    **dict.fromkeys(("inprogress", "running", "active", "working", "doing", "started", "current"), "IN_PROGRESS"),
    **dict.fromkeys(("completed", "complete", "done", "finished", "success", "succeeded", "ok"), "COMPLETE"),
    **dict.fromkeys(("failed", "failure", "error", "cancelled", "canceled", "aborted", "blocked"), "ERROR"),
}

WARNING: Final = "WARNING"
_WARNING_CHARACTERS: Final = 2000
_NESTED_STEPS: Final = 100


class Plans:
    """The last plan shown. An unchanged plan is not shown again."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._items: list[object] = []
        self._told: tuple[PlanStep, ...] = ()

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields the plan if this event changes it."""
        items = self._items_of(event)
        if items is not None:
            self._items = items[:_ITEMS]
            yield from self._tell(_plan_of(items))

    def _tell(self, steps: tuple[PlanStep, ...]) -> Iterator[AgentEvent]:
        if steps and steps != self._told:
            self._told = steps
            yield PlanShown(steps=steps)

    def _items_of(self, event: Event) -> list[object] | None:
        match event:
            case StateSnapshotEvent(snapshot=state):
                return _list_in(state) if is_object(state) else None
            case StateDeltaEvent(delta=operations):
                return self._patched(operations)
            case CustomEvent(name=name, value=value):
                return _list_in(value) if _is_about_plans(name) or _holds_list(value) else None
            case ActivitySnapshotEvent(activity_type=name, content=content):
                return _list_in(content) if _is_about_plans(name) else None
            case ToolCallEndEvent(tool_call_id=id) if self._writes_plans(id):
                return self._written(id)
            case ToolCallResultEvent(tool_call_id=id, content=str(text)) if self._writes_plans(id):
                return _list_in_text(text)
        return None

    def _patched(self, operations: Sequence[Any]) -> list[object]:
        items = self._items
        for operation in operations[:_ITEMS]:
            items = _patched(items, operation.path, operation.op, getattr(operation, "value", None))
        return items

    def _writes_plans(self, call_id: str) -> bool:
        call = self._tools.get(call_id)
        return call is not None and _is_about_plans(call.name)

    def _written(self, call_id: str) -> list[object] | None:
        call = self._tools.get(call_id)
        return _list_in_text(call.argument_text()) if call else None


def _holds_list(value: object) -> bool:
    return is_object(value) and any(isinstance(value.get(name), list) for name in _LISTS)


def _list_in(value: object, depth: int = 2) -> list[object] | None:
    """Returns the list of steps in a value, or the value itself if it is a list; None if there is no list."""
    if isinstance(value, list):
        return value
    if not is_object(value) or not depth:
        return None
    found = (_list_in(value[name], depth - 1) for name in _LISTS if name in value)
    return next((items for items in found if items is not None), None)


def _list_in_text(text: str) -> list[object] | None:
    """Returns the list in a JSON text, or the Python list at the end of a text.

    For example: "Updated todo list to [{'content': …}]".
    """
    items = _list_in(parsed(text))
    if items is not None or len(text) > _REPR_CHARACTERS or "[" not in text:
        return items
    try:
        return _list_in(ast.literal_eval(text[text.index("[") :]))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _is_about_plans(name: str) -> bool:
    """Returns whether the name of a tool or an event announces a plan."""
    return "todo" in name.lower() or "plan" in name.lower()


def _plan_of(items: Sequence[object]) -> tuple[PlanStep, ...]:
    """Returns the steps of a plan. The agent's own ids are used if they are all different; otherwise positions are
    used.
    """
    titles = (line_of(first(item, *_TITLES) if is_object(item) else item) for item in items[:_STEPS])
    shown = [(item, title) for item, title in zip(items, titles, strict=False) if title]
    own = [id_of(item.get("id")) if is_object(item) else "" for item, _ in shown]
    ids = own if all(own) and len(set(own)) == len(own) else [str(place) for place in range(1, len(shown) + 1)]
    return tuple(
        PlanStep(id=id, title=title, status=_status(item)) for id, (item, title) in zip(ids, shown, strict=True)
    )


def _patched(items: Sequence[object], path: str, operation: str, value: object) -> list[object]:
    """Returns the list after applying one JSON Patch operation to the surrounding state (RFC 6902): add, remove or
    replace.

    Operations outside the list, or on a field of an item, change nothing.
    """
    match path.split("/")[1:]:
        case [name] if name in _LISTS:
            return [] if operation == "remove" else _list_in(value) or []
        case [name, "steps"] if name in _LISTS:
            return [] if operation == "remove" else _list_in(value) or []
        case [name, place] if name in _LISTS:
            return _with_item(list(items), place, operation, value)
        case [name, place, field] if name in _LISTS:
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


def _status(item: object) -> StepStatus:
    if not is_object(item):
        return StepStatus.PENDING
    status = first(item, "status", "state")
    if isinstance(status, str):
        word = "".join(filter(str.isalpha, status[:40].lower()))
        return StepStatus[_STATUSES.get(word, "PENDING")]
    return StepStatus.COMPLETE if first(item, "done", "completed") is True else StepStatus.PENDING


class Steps:
    """The open steps, innermost last. When a step ends, the enclosing step continues."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields the name of the current step, or a warning."""
        match event:
            case StepStartedEvent(step_name=name) if line_of(name):
                self._open = [*self._open, line_of(name)][-_NESTED_STEPS:]
                yield StepNamed(name=line_of(name))
            case StepFinishedEvent(step_name=name) if line_of(name) in self._open:
                yield from self._close(line_of(name))
            case CustomEvent(name=name) if name == WARNING:
                yield Warned(message=_warning(event.value))

    def _close(self, name: str) -> Iterator[AgentEvent]:
        was = self._open[-1]
        self._open.reverse()
        self._open.remove(name)
        self._open.reverse()
        if self._open and self._open[-1] != was:
            yield StepNamed(name=self._open[-1])


def _warning(value: object) -> str:
    text = first(value, "message", "warning", "text") if is_object(value) else value
    return text_of(text, _WARNING_CHARACTERS) or "a warning without text"
