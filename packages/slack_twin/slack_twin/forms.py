"""People's input in messages and views, kept until the message or view disappears.

Slack's clients store the input and send it to the app with every action, as `state`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack_twin.choices import Choices
from slack_twin.elements import Element
from slack_twin.errors import ControlError, Json

_KEPT = 10_000
# Block and action, which identify an element on one surface.
Place = tuple[str, str]
# The person and the message or view.
Surface = tuple[str, ...]
# The values of elements, by block and by action.
Values = dict[str, dict[str, Json]]


@dataclass
class _Touched:
    """One surface with input."""

    entered: dict[Place, Json] = field(default_factory=dict)
    offered: dict[Place, list[Json]] = field(default_factory=dict)  # options of external menus that the app has sent


class Forms:
    """The last ten thousand surfaces with input."""

    def __init__(self) -> None:
        self._touched: OrderedDict[Surface, _Touched] = OrderedDict()

    def enter(self, surface: Surface, values: Mapping[Place, Json]) -> None:
        self._touch(surface).entered.update(values)

    def offer(self, surface: Surface, place: Place, options: list[Json]) -> None:
        """Stores an app's options of an external menu."""
        self._touch(surface).offered[place] = options

    def offered(self, surface: Surface) -> Mapping[Place, list[Json]]:
        known = self._touched.get(surface)
        return known.offered if known else {}

    def _touch(self, surface: Surface) -> _Touched:
        touched = self._touched.setdefault(surface, _Touched())
        self._touched.move_to_end(surface)
        while len(self._touched) > _KEPT:
            self._touched.popitem(last=False)
        return touched

    def values(self, surface: Surface, elements: Iterable[Element], choices: Choices) -> Values:
        """Returns `state.values`: every element with a state, by block and action, including initial values."""
        known = self._touched.get(surface)
        entered = known.entered if known else {}
        values: Values = {}
        for element in elements:
            if element.state_field is not None:
                state = entered.get((element.block_id, element.action_id))
                if state is None or state["type"] != element.type:
                    state = choices.initial(element)
                values.setdefault(element.block_id, {})[element.action_id] = state
        return values

    def forget(self, surface: Surface) -> None:
        self._touched.pop(surface, None)

    def clear(self) -> None:
        self._touched.clear()


def read_state(given: Mapping[str, object], elements: Sequence[Element], choices: Choices) -> dict[Place, Json]:
    """Returns a person's input, given by block and action, by action, or by the block of a single input.

    Slack's own format, `{"values": {block: {action: …}}}`, is accepted as well. Raises ControlError 422.
    """
    values = given.get("values")
    if len(given) == 1 and isinstance(values, dict):
        given = values
    keeping = [element for element in elements if element.state_field is not None]
    read: dict[Place, Json] = {}
    for name, value in given.items():
        for element, held in _assigned(name, value, keeping):
            read[element.block_id, element.action_id] = choices.state(element, held)
    return read


def _assigned(name: str, value: object, elements: Sequence[Element]) -> list[tuple[Element, object]]:
    """Returns the elements of an entry in the state, with their values."""
    in_block = {element.action_id: element for element in elements if element.block_id == name}
    if isinstance(value, dict) and value and value.keys() <= in_block.keys():
        return [(in_block[action_id], held) for action_id, held in value.items()]
    found = [element for element in elements if element.action_id == name] or list(in_block.values())
    if len(found) == 1:
        return [(found[0], value)]
    known = ", ".join(f"{element.block_id}/{element.action_id}" for element in elements)
    what = "there is more than one input" if found else "there is no input"
    raise ControlError(422, "invalid", f"'state': {what} {name!r}", f"available (as block/action): {known or 'none'}")
