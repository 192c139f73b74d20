"""The JSON of files and their shares in Slack's Web API and events."""

from collections.abc import Sequence

from slack_twin.directory import TEAM_ID
from slack_twin.errors import Json
from slack_twin.files import File, Share
from slack_twin.filetypes import filetype, pretty_type
from slack_twin.people import ChannelKind

REPLY_USERS_SHOWN = 5


_STUB: Json = {"mode": "file_access", "created": 0, "timestamp": 0, "user": ""}


def file(shared: File) -> Json:
    """Returns a file object of a message: a tombstone if deleted; for a file that `files.info` has, only its id.

    https://docs.slack.dev/apis/slack-connect#files
    """
    if shared.is_deleted:
        return {"id": shared.id, "mode": "tombstone"}
    if shared.fields.get("file_access") == "check_file_info":
        return {"id": shared.id, "file_access": "check_file_info"} | _STUB
    return _whole(shared) | {"channels": None, "groups": None}


def _whole(shared: File) -> Json:
    kind = filetype(shared.name, shared.mimetype)
    shape: Json = {
        "id": shared.id,
        "created": shared.created,
        "timestamp": shared.created,
        "name": shared.name,
        "title": shared.title,
        "mimetype": shared.mimetype,
        "filetype": kind,
        "pretty_type": pretty_type(kind),
        "user": shared.user,
        "user_team": TEAM_ID,
        "username": "",
        "mode": "hosted",
        "editable": False,
        "size": shared.size,
        "is_external": False,
        "external_type": "",
        "is_public": True,
        "public_url_shared": False,
        "display_as_bot": False,
        "file_access": "visible",
        "url_private": shared.url,
        "url_private_download": shared.url,
        "permalink": shared.permalink,
    }
    further = {name: value for name, value in shared.fields.items() if value != "check_file_info"}
    return shape | further | ({"alt_txt": shared.alt_txt} if shared.alt_txt else {})


def file_with_shares(shared: File, shares: Sequence[Share]) -> Json:
    """Returns a file object with its shares, as in the responses of `files.*`."""
    places = {kind: _places(shares, kind) for kind in ("channels", "groups", "ims")}
    return (
        (_whole(shared) if not shared.is_deleted else file(shared))
        | places
        | {
            "is_public": bool(places["channels"]),
            "shares": {
                sort: found
                for sort, public in (("public", True), ("private", False))
                if (found := _shares(shares, public=public))
            },
        }
    )


def _places(shares: Sequence[Share], listed_as: str) -> list[str]:
    """Returns the ids of the conversations of one kind, each once."""
    sorts = {"channel": "channels", "group": "groups", "mpim": "groups", "im": "ims"}
    found = (share.channel for share in shares if sorts[share.channel.kind.value] == listed_as)
    return list(dict.fromkeys(channel.id for channel in found))


def _shares(shares: Sequence[Share], *, public: bool) -> Json:
    found: dict[str, list[Json]] = {}
    for share in shares:
        if (share.channel.kind is ChannelKind.PUBLIC) is public:
            found.setdefault(share.channel.id, []).append(_share(share))
    return dict(found)


def _share(share: Share) -> Json:
    log = share.channel.messages
    thread, said = log.thread(share.ts), log.get(share.ts)
    shape: Json = {
        "ts": share.ts,
        "channel_name": share.channel.name,
        "team_id": TEAM_ID,
        "share_user_id": said.user if said else "",
        "reply_users": list(thread.authors)[:REPLY_USERS_SHOWN] if thread else [],
        "reply_users_count": len(thread.authors) if thread else 0,
        "reply_count": len(thread.replies) if thread else 0,
    }
    return shape | ({"thread_ts": said.thread_ts} if said and said.thread_ts else {})
