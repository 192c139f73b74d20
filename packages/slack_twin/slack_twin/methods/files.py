"""files.*: uploads files in three steps, lists and deletes them.

https://docs.slack.dev/messaging/working-with-files
"""

import re
from dataclasses import replace

from slack_twin.blocks import checked_blocks
from slack_twin.changes import AppTold, MessageChanged
from slack_twin.errors import Json, SlackError
from slack_twin.file_shapes import file_with_shares
from slack_twin.files import File, Share
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.methods.paging import numbered_page
from slack_twin.people import Channel, ChannelKind
from slack_twin.workspace import Draft

_MAX_ALT_CHARACTERS = 1_000
_MAX_SNIPPET_BYTES = 1024 * 1024
_MOST_CHANNELS = 100
_MOST_FILES = 100


def get_upload_url(call: Call) -> Json:
    """Returns an address that accepts one upload. Raises `missing_argument`, `file_upload_size_restricted`, …"""
    name, length = call.args.text("filename"), call.args.optional("length", "0")
    if not re.fullmatch(r"\d{1,15}", length, re.ASCII):
        raise SlackError("invalid_arguments", messages=["[ERROR] length must be a whole number"])
    if int(length) == 0:
        raise SlackError("missing_argument")
    if "snippet_type" in call.args and int(length) > _MAX_SNIPPET_BYTES:
        raise SlackError("snippet_too_large")
    alt_txt = call.args.optional("alt_txt")
    if len(alt_txt) > _MAX_ALT_CHARACTERS:
        raise SlackError("alt_txt_too_large")
    upload = call.workspace.files.expect(name=name, size=int(length), user=call.app.bot_user, alt_txt=alt_txt)
    return {"upload_url": f"{call.base_url}upload/v1/{upload.ticket}", "file_id": upload.file_id}


def complete_upload(call: Call) -> Json:
    """Creates files from completed uploads and shares them in one message per channel, or keeps them private.

    Raises `file_not_found` for an upload that does not exist, is unfinished or was completed before; in this case,
    nothing is shared. Also raises `channel_not_found`, `not_in_channel`, `channels_limit_exceeded`.
    """
    channels, drafts = _channels(call), _wanted(call)
    thread_ts = call.args.timestamp("thread_ts") or None
    if thread_ts and any(channel.messages.get(thread_ts) is None for channel in channels):
        raise SlackError("thread_not_found")
    comment = call.args.optional("initial_comment")
    blocks = () if comment else checked_blocks(call.args.json("blocks"))
    now, store = int(call.workspace.clock.now()), call.workspace.files
    uploads = [(store.received(file_id, call.app.bot_user), title) for file_id, title in drafts]
    files = tuple(store.complete(upload, title=title, created=now, base_url=call.base_url) for upload, title in uploads)
    draft = Draft(user=call.app.bot_user, app_id=call.app.id, text=comment, blocks=blocks, files=files)
    for channel in channels:
        call.workspace.post(channel, replace(draft, thread_ts=thread_ts))
    return {"files": [_shape(call, file) for file in files]}


def _channels(call: Call) -> list[Channel]:
    names = [call.args.optional("channel_id"), *call.args.optional("channels").split(",")]
    wanted = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(wanted) > _MOST_CHANNELS:
        raise SlackError("channels_limit_exceeded")
    return [_channel(call, name) for name in wanted]


def _channel(call: Call, name: str) -> Channel:
    """Returns a channel by its id, or the direct conversation with a person."""
    if name in call.directory.users:
        return call.workspace.direct_channel(name, call.app.bot_user)
    channel = call.directory.channels.get(name)
    is_member = channel is not None and call.app.bot_user in channel.members
    if channel is None or (channel.kind is not ChannelKind.PUBLIC and not is_member):
        raise SlackError("channel_not_found")
    if not is_member:
        raise SlackError("not_in_channel")
    if channel.is_archived:
        raise SlackError("is_archived")
    return channel


def _wanted(call: Call) -> list[tuple[str, str]]:
    """Returns the ids and titles in `files`, each id once."""
    given = call.args.json("files")
    if not isinstance(given, list) or not given or len(given) > _MOST_FILES:
        raise SlackError("invalid_arguments", messages=["[ERROR] files must be a list of objects with an id"])
    wanted: dict[str, str] = {}
    for item in given:
        file_id = item.get("id") if isinstance(item, dict) else None
        title = item.get("title") or "" if isinstance(item, dict) else ""
        if not isinstance(file_id, str) or not isinstance(title, str):
            raise SlackError("invalid_arguments", messages=["[ERROR] files must be a list of objects with an id"])
        wanted[file_id] = title
    return list(wanted.items())


def info(call: Call) -> Json:
    """Returns a file. Raises `file_not_found`, `file_deleted`."""
    file = _visible_file(call)
    answer: Json = {"file": _shape(call, file), "comments": []}
    return answer | {"response_metadata": {"next_cursor": ""}}


def list_files(call: Call) -> Json:
    """Returns the files visible to the app, newest first, in numbered pages.

    Raises `user_not_found`, `channel_not_found`.
    """
    user, where = call.args.optional("user"), call.args.optional("channel")
    if user and user not in call.directory.users:
        raise SlackError("user_not_found")
    channel = call.visible_channel() if where else None
    since, until = _moment(call, "ts_from", 0.0), _moment(call, "ts_to", float("inf"))
    found = [
        file
        for file in call.workspace.files.all()
        if call.workspace.files.is_visible(file, call.app.bot_user)
        and user in ("", file.user)
        and (channel is None or any(share.channel is channel for share in call.workspace.files.shares(file.id)))
        and since <= file.created <= until
    ]
    files, paging = numbered_page(found[::-1], call.args)
    return {"files": [_shape(call, file) for file in files], "paging": paging}


def _moment(call: Call, name: str, default: float) -> float:
    return float(call.args.timestamp(name) or default)


def delete(call: Call) -> Json:
    """Deletes one of the app's files; its messages keep a tombstone. Raises `cant_delete_file`, `file_not_found`."""
    file = _visible_file(call)
    if file.user != call.app.bot_user:
        raise SlackError("cant_delete_file")
    shares = call.workspace.files.delete(file)
    for share in shares:
        _bury(call, file, share)
    _tell_apps(call, file, [share.channel for share in shares])
    return {}


def _bury(call: Call, file: File, share: Share) -> None:
    """Replaces a deleted file with a tombstone in one message."""
    previous = call.workspace.message(share.channel, share.ts)
    files = tuple(replace(other, is_deleted=True) if other.id == file.id else other for other in previous.files)
    message = replace(previous, files=files)
    share.channel.messages.replace(message)
    ts = call.workspace.next_ts()
    call.workspace.announce(MessageChanged(channel=share.channel, message=message, previous=previous, ts=ts))


def _tell_apps(call: Call, file: File, channels: list[Channel]) -> None:
    """Notifies the other apps that saw the file. https://docs.slack.dev/reference/events/file_deleted"""
    ts = call.workspace.next_ts()
    for app in call.directory.apps.values():
        seen = [channel for channel in channels if app.bot_user in channel.members]
        if seen and app.id != call.app.id:
            ids = list(dict.fromkeys(channel.id for channel in seen))
            body: Json = {"type": "file_deleted", "file_id": file.id, "channel_ids": ids, "event_ts": ts}
            call.workspace.announce(AppTold(channel=seen[0], app_id=app.id, body=body))


def _visible_file(call: Call) -> File:
    file_id = call.args.text("file")
    file = call.workspace.files.get(file_id)
    if file is None:
        raise SlackError("file_deleted" if call.workspace.files.is_gone(file_id) else "file_not_found")
    if not call.workspace.files.is_visible(file, call.app.bot_user):
        raise SlackError("file_not_found")
    return file


def _shape(call: Call, file: File) -> Json:
    return file_with_shares(file, call.workspace.files.shares(file.id))


METHODS = (
    Method(name="files.getUploadURLExternal", handle=get_upload_url, tier=Tier.TIER_4, scopes=("files:write",)),
    Method(name="files.completeUploadExternal", handle=complete_upload, tier=Tier.TIER_4, scopes=("files:write",)),
    Method(name="files.info", handle=info, tier=Tier.TIER_4, scopes=("files:read",)),
    Method(name="files.list", handle=list_files, tier=Tier.TIER_3, scopes=("files:read",)),
    Method(name="files.delete", handle=delete, tier=Tier.TIER_3, scopes=("files:write",)),
)
