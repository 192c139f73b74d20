"""One act of a person on blocks: which element, what was chosen, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slack_twin.elements import Element
from slack_twin.errors import ControlError, Json
from slack_twin.triggers import Trigger


@dataclass(frozen=True, kw_only=True)
class Act:
    """What a person does with one element, and what they entered elsewhere on the same surface."""

    action_id: str
    block_id: str | None = None  # needed only where several blocks use the same action
    value: object = None  # what was chosen or typed; a button needs none
    state: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an act ended for the person."""

    error: str | None = None  # why the app does not know of it, or what was wrong with its answer
    errors: Mapping[str, str] = field(default_factory=dict)  # what is wrong with a form, by block
    trigger: Trigger | None = None  # with which the app may open a view

    def told(self) -> Json:
        """As the control API and the page tell it. `ok` is false when the app did not take the act."""
        told: Json = {"ok": self.error is None}
        if self.error is not None:
            told["error"] = self.error
        return told | ({"errors": dict(self.errors)} if self.errors else {})


def find_element(elements: Sequence[Element], act: Act) -> Element:
    """The element that an act means; where several have its action id, by block or by a button's value.

    Raises ControlError 404 or 422, which lists what there is.
    """
    named = [element for element in elements if element.action_id == act.action_id]
    if act.block_id is not None:
        named = [element for element in named if element.block_id == act.block_id]
    if len(named) > 1 and act.value is not None:
        named = [element for element in named if element.shape.get("value") == act.value] or named
    if len(named) == 1:
        return named[0]
    if named:
        raise ControlError(422, "invalid", f"several elements are called {act.action_id!r}", "give 'block_id' too")
    known = ", ".join(f"{element.block_id}/{element.action_id} ({element.type})" for element in elements)
    raise ControlError(404, "not_found", f"no element is called {act.action_id!r}", f"there is: {known or 'none'}")
