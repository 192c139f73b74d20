"""The agent's plan, from wherever it comes: its state, a tool that writes it, an event of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ag_ui.core import (
    ActivitySnapshotEvent,
    CustomEvent,
    Event,
    StateDeltaEvent,
    StateSnapshotEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
)

from swarm.agents.remote.translation.todos import ITEMS, LISTS, is_about_plans, list_in, list_in_text, patched, plan_of
from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.values import is_object
from swarm.domain.answers.events import AgentEvent, PlanShown, PlanStep


class Plans:
    """The plan as it was told last. A plan that has not changed is not told again."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._items: list[object] = []
        self._told: tuple[PlanStep, ...] = ()

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """The plan, if this event changes it."""
        items = self._items_of(event)
        if items is not None:
            self._items = items[:ITEMS]
            yield from self._tell(plan_of(items))

    def _tell(self, steps: tuple[PlanStep, ...]) -> Iterator[AgentEvent]:
        if steps and steps != self._told:
            self._told = steps
            yield PlanShown(steps=steps)

    def _items_of(self, event: Event) -> list[object] | None:
        match event:
            case StateSnapshotEvent(snapshot=state):
                return list_in(state) if is_object(state) else None
            case StateDeltaEvent(delta=operations):
                return self._patched(operations)
            case CustomEvent(name=name, value=value):
                return list_in(value) if is_about_plans(name) or _holds_list(value) else None
            case ActivitySnapshotEvent(activity_type=name, content=content):
                return list_in(content) if is_about_plans(name) else None
            case ToolCallEndEvent(tool_call_id=id) if self._writes_plans(id):
                return self._written(id)
            case ToolCallResultEvent(tool_call_id=id, content=str(text)) if self._writes_plans(id):
                return list_in_text(text)
        return None

    def _patched(self, operations: Sequence[Any]) -> list[object]:
        items = self._items
        for operation in operations[:ITEMS]:
            items = patched(items, operation.path, operation.op, getattr(operation, "value", None))
        return items

    def _writes_plans(self, call_id: str) -> bool:
        call = self._tools.get(call_id)
        return call is not None and is_about_plans(call.name)

    def _written(self, call_id: str) -> list[object] | None:
        call = self._tools.get(call_id)
        return list_in_text(call.argument_text()) if call else None


def _holds_list(value: object) -> bool:
    return is_object(value) and any(isinstance(value.get(name), list) for name in LISTS)
