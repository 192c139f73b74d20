"""Modals and home tabs as a person sees them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class View:
    """A snapshot of a view."""

    id: str
    kind: str  # "modal" or "home"
    title: str  # empty for home tabs
    callback_id: str
    private_metadata: str
    blocks: tuple[dict[str, Any], ...]
    values: dict[str, dict[str, Any]]  # the current input by block and action, in Slack's format


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
