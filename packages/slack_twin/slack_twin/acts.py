"""A person's action on blocks: its element, its value, and its outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slack_twin.elements import Element
from slack_twin.errors import ControlError, Json
from slack_twin.triggers import Trigger


@dataclass(frozen=True, kw_only=True)
class Act:
    """A person's action on one element, with the input in other elements of the same surface."""

    action_id: str
    block_id: str | None = None  # required only if several blocks use the same action id
    value: object = None  # the selected or typed value; buttons need none
    state: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of an action for the person."""

    error: str | None = None  # the reason why the app did not receive the action, or the error in its response
    errors: Mapping[str, str] = field(default_factory=dict)  # errors in a form, by block
    trigger: Trigger | None = None  # the trigger with which the app may open a view

    def told(self) -> Json:
        """Returns the outcome as JSON for the control API and the page.

        `ok` is false if the app did not accept the action.
        """
        told: Json = {"ok": self.error is None}
        if self.error is not None:
            told["error"] = self.error
        return told | ({"errors": dict(self.errors)} if self.errors else {})


def find_element(elements: Sequence[Element], act: Act) -> Element:
    """Returns the element of an action; if several have its action id, the block or the button's value decides.

    Raises ControlError 404 or 422, which lists the valid elements.
    """
    named = [element for element in elements if element.action_id == act.action_id]
    if act.block_id is not None:
        named = [element for element in named if element.block_id == act.block_id]
    if len(named) > 1 and act.value is not None:
        named = [element for element in named if element.shape.get("value") == act.value] or named
    if len(named) == 1:
        return named[0]
    if named:
        raise ControlError(422, "invalid", f"there are several elements {act.action_id!r}", "give 'block_id' too")
    known = ", ".join(f"{element.block_id}/{element.action_id} ({element.type})" for element in elements)
    raise ControlError(404, "not_found", f"there is no element {act.action_id!r}", f"available: {known or 'none'}")
