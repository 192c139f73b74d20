"""Checks of unique names: block ids in a message or view, and action ids in a block."""

from collections.abc import Iterator, Sequence

from slack_twin.blocks.checks import wrong
from slack_twin.errors import Json

# The fields of a block that contain other blocks.
_CHILDREN = {"container": "child_blocks", "carousel": "elements", "plan": "tasks"}


def all_blocks(blocks: Sequence[Json], pointer: str = "") -> Iterator[tuple[Json, str]]:
    """Yields every block with its JSON pointer, followed by its nested blocks."""
    for place, block in enumerate(blocks):
        yield block, f"{pointer}/{place}"
        for name, children in children_of(block).items():
            yield from all_blocks(children, f"{pointer}/{place}/{name}")


def children_of(block: Json) -> dict[str, list[Json]]:
    """Returns the nested blocks by the field that contains them; empty for most blocks."""
    name = _CHILDREN.get(str(block.get("type")), "")
    children = block.get(name)
    return {name: children} if isinstance(children, list) else {}


def check_unique(blocks: Sequence[Json], pointer: str) -> Iterator[str]:
    """Yields a message for each repeated id."""
    seen: set[object] = set()
    for block, place in all_blocks(blocks, pointer):
        block_id = block.get("block_id")
        if block_id and block_id in seen:
            yield wrong(f"block_id already exists: {block_id}", f"{place}/block_id")
        seen.add(block_id)
        yield from _check_actions(block, place)


def _check_actions(block: Json, pointer: str) -> Iterator[str]:
    elements = block.get("elements")
    seen: set[object] = set()
    for place, element in enumerate(elements if isinstance(elements, list) else ()):
        action_id = element.get("action_id") if isinstance(element, dict) else None
        if action_id and action_id in seen:
            yield wrong(f"action_id already exists: {action_id}", f"{pointer}/elements/{place}/action_id")
        seen.add(action_id)
