"""A modal or a home tab as a person sees it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class View:
    """A view as it was when it was read."""

    id: str
    kind: str  # "modal" or "home"
    title: str  # empty for home tabs
    callback_id: str
    private_metadata: str
    blocks: tuple[dict[str, Any], ...]
    values: dict[str, dict[str, Any]]  # what was entered so far: by block, by action, in Slack's form


def view_of(shape: dict[str, Any]) -> View:
    is_modal = shape["type"] == "modal"
    return View(
        id=shape["id"],
        kind=shape["type"],
        title=shape["title"]["text"] if is_modal else "",
        callback_id=shape["callback_id"] or "",
        private_metadata=shape["private_metadata"] or "",
        blocks=tuple(shape["blocks"]),
        values=shape["state"]["values"],
    )
