"""Cursors like Slack's: opaque to the caller, base64 of the start of the next page."""

import base64
import binascii
from collections.abc import Sequence
from typing import TypeVar

from slack_twin.arguments import Arguments
from slack_twin.errors import Json, SlackError

Item = TypeVar("Item")


def cursor_for(kind: str, place: str) -> str:
    return base64.b64encode(f"{kind}:{place}".encode()).decode("ascii")


def place_in(args: Arguments, kind: str) -> str | None:
    """Returns the position in the cursor argument, None without a cursor. Raises `invalid_cursor`."""
    cursor = args.optional("cursor")
    if not cursor:
        return None
    try:
        found, _, place = base64.b64decode(cursor, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        raise SlackError("invalid_cursor") from None
    if found != kind or not place:
        raise SlackError("invalid_cursor")
    return place


def page(items: Sequence[Item], args: Arguments, *, default: int = 100) -> tuple[Sequence[Item], Json]:
    """Returns the requested page of a list, and its `response_metadata`."""
    place = place_in(args, "offset") or "0"
    if not place.isdecimal() or int(place) > len(items):
        raise SlackError("invalid_cursor")
    start = int(place)
    end = start + args.count("limit", default=default, highest=1000)
    following = cursor_for("offset", str(end)) if end < len(items) else ""
    return items[start:end], {"response_metadata": {"next_cursor": following}}


def numbered_page(items: Sequence[Item], args: Arguments, *, default: int = 100) -> tuple[Sequence[Item], Json]:
    """Returns the page selected by `page` and `count`, as in the older methods, and its `paging`."""
    count = args.count("count", default=default, highest=1000)
    number = args.count("page", default=1, highest=1_000_000)
    paging: Json = {"count": count, "total": len(items), "page": number, "pages": -(-len(items) // count)}
    return items[(number - 1) * count : number * count], paging
