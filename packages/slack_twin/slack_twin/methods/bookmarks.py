"""bookmarks.*: links in the header of a conversation."""

import re

from slack_twin.directory import TEAM_ID
from slack_twin.emoji import EMOJI
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.people import Channel

_MOST = 100
_PATTERNS = {"link": re.compile(r"https?://.+"), "emoji": re.compile(f"(:?{EMOJI.pattern}:?)?")}


def add(call: Call) -> Json:
    """Adds a link. Raises `invalid_bookmark_type`, `invalid_link`, `invalid_emoji`, `too_many_bookmarks`."""
    channel, title = call.joined_channel("channel_id"), call.args.text("title")
    if call.args.text("type") != "link":
        raise SlackError("invalid_bookmark_type")
    if len(channel.bookmarks) >= _MOST:
        raise SlackError("too_many_bookmarks")
    bookmark: Json = {
        "id": f"Bk{call.workspace.next_ts().replace('.', '')}",
        "channel_id": channel.id,
        "title": title,
        "link": _checked(call, "link"),
        "emoji": _checked(call, "emoji"),
        "icon_url": "",
        "type": "link",
        "entity_id": None,
        "date_created": int(call.workspace.clock.now()),
        "date_updated": 0,
        "rank": f"{len(channel.bookmarks):04}",
        "last_updated_by_user_id": call.app.bot_user,
        "last_updated_by_team_id": TEAM_ID,
        "app_id": call.app.id,
    }
    channel.bookmarks[str(bookmark["id"])] = bookmark
    return {"bookmark": bookmark}


def edit(call: Call) -> Json:
    """Changes the given fields of a bookmark. Raises `not_found`, `invalid_link`, `invalid_emoji`."""
    _, bookmark = _known(call)
    given: Json = {
        "title": call.args.optional("title", str(bookmark["title"])),
        "link": _checked(call, "link", bookmark["link"]),
        "emoji": _checked(call, "emoji", bookmark["emoji"]),
    }
    bookmark |= given | {"date_updated": int(call.workspace.clock.now())}
    return {"bookmark": bookmark}


def list_bookmarks(call: Call) -> Json:
    return {"bookmarks": list(call.joined_channel("channel_id").bookmarks.values())}


def remove(call: Call) -> Json:
    """Removes a bookmark. Raises `not_found`."""
    channel, bookmark = _known(call)
    del channel.bookmarks[str(bookmark["id"])]
    return {}


def _known(call: Call) -> tuple[Channel, Json]:
    channel, bookmark_id = call.joined_channel("channel_id"), call.args.text("bookmark_id")
    if bookmark_id not in channel.bookmarks:
        raise SlackError("not_found")
    return channel, channel.bookmarks[bookmark_id]


def _checked(call: Call, name: str, default: object = "") -> str:
    """Returns `link` or `emoji`. Raises `invalid_link`, `invalid_emoji`."""
    value = call.args.optional(name, str(default))
    if not _PATTERNS[name].fullmatch(value):
        raise SlackError(f"invalid_{name}")
    return value


METHODS = (
    Method(name="bookmarks.add", handle=add, tier=Tier.TIER_2, scopes=("bookmarks:write",)),
    Method(name="bookmarks.edit", handle=edit, tier=Tier.TIER_2, scopes=("bookmarks:write",)),
    Method(name="bookmarks.list", handle=list_bookmarks, tier=Tier.TIER_3, scopes=("bookmarks:read",)),
    Method(name="bookmarks.remove", handle=remove, tier=Tier.TIER_2, scopes=("bookmarks:write",)),
)
