"""The JSON of people, apps, channels and messages in Slack's Web API and events."""

from urllib.parse import urlencode

from slack_twin.directory import SLACKBOT, TEAM_DOMAIN, TEAM_ID, TEAM_NAME, Directory
from slack_twin.errors import Json
from slack_twin.file_shapes import REPLY_USERS_SHOWN, file
from slack_twin.messages import Message, MessageLog, Pin, Reaction
from slack_twin.people import App, Channel, ChannelKind, User, UserGroup


def team(directory: Directory) -> Json:
    return {
        "id": TEAM_ID,
        "name": TEAM_NAME,
        "domain": TEAM_DOMAIN,
        "url": directory.base_url,
        "email_domain": "",
        "icon": images(directory, 34, 44, 68, 88, 102, 132) | {"image_default": True},
    }


def images(directory: Directory, *sizes: int) -> Json:
    """Returns the addresses of an avatar, by size. Everyone has the same one."""
    return {f"image_{size}": f"{directory.base_url}static/icon.svg?{size}" for size in sizes}


def user(person: User, directory: Directory) -> Json:
    app = directory.app_of_bot_user(person.id)
    profile: Json = {
        "real_name": person.real_name,
        "real_name_normalized": person.real_name,
        "display_name": person.display_name,
        "display_name_normalized": person.display_name,
        "first_name": person.real_name.partition(" ")[0],
        "last_name": person.real_name.partition(" ")[2],
        "title": "",
        "phone": "",
        "skype": "",
        "avatar_hash": "",
        "status_text": "",
        "status_emoji": "",
        "status_expiration": 0,
        "team": person.team_id or TEAM_ID,
        **images(directory, 24, 32, 48, 72, 192, 512),
    }
    if person.email:
        profile["email"] = person.email
    if app is not None:
        profile |= {"api_app_id": app.id, "bot_id": app.bot_id, "always_active": True}
    return {
        "id": person.id,
        "team_id": person.team_id or TEAM_ID,
        "name": person.name,
        "deleted": False,
        "color": "4bbe2e",
        "real_name": person.real_name,
        "tz": "Etc/UTC",
        "tz_label": "Coordinated Universal Time",
        "tz_offset": 0,
        "profile": profile,
        "is_admin": False,
        "is_owner": False,
        "is_primary_owner": False,
        "is_restricted": person.is_restricted,
        "is_ultra_restricted": person.is_ultra_restricted,
        "is_bot": person.is_bot,
        "is_app_user": False,
        "updated": 0,
    } | ({"is_stranger": True} if person.team_id else {})


def user_group(group: UserGroup) -> Json:
    return {
        "id": group.id,
        "team_id": TEAM_ID,
        "is_usergroup": True,
        "is_subteam": True,
        "name": group.name,
        "description": group.description,
        "handle": group.handle,
        "is_external": False,
        "date_create": group.created,
        "date_update": group.created,
        "date_delete": 0,
        "auto_provision": False,
        "created_by": SLACKBOT.id,
        "updated_by": SLACKBOT.id,
        "prefs": {"channels": [], "groups": []},
        "users": list(group.members),
        "user_count": len(group.members),
    }


def bot(app: App, directory: Directory) -> Json:
    return {
        "id": app.bot_id,
        "deleted": False,
        "name": app.name,
        "updated": 0,
        "app_id": app.id,
        "user_id": app.bot_user,
        "icons": images(directory, 36, 48, 72),
    }


def bot_profile(app: App, directory: Directory) -> Json:
    shape = bot(app, directory) | {"team_id": TEAM_ID}
    del shape["user_id"]
    return shape


def channel(conversation: Channel, viewer: str) -> Json:
    """Returns a conversation object for the bot user `viewer`."""
    kind = conversation.kind
    common: Json = {
        "id": conversation.id,
        "created": conversation.created,
        "is_archived": conversation.is_archived,
        "is_im": kind is ChannelKind.DIRECT,
        "is_org_shared": False,
        "context_team_id": TEAM_ID,
        "updated": conversation.created * 1000,
    }
    last_read: Json = {"last_read": read} if (read := conversation.last_read.get(viewer)) else {}
    if kind is ChannelKind.DIRECT:
        other = next((member for member in conversation.members if member != viewer), viewer)
        is_open = viewer not in conversation.closed_by
        return common | {"user": other, "is_user_deleted": False, "is_open": is_open, "priority": 0} | last_read
    return (
        common
        | {
            "name": conversation.name,
            "name_normalized": conversation.name,
            "is_channel": kind is ChannelKind.PUBLIC,
            "is_group": kind is ChannelKind.PRIVATE,
            "is_mpim": kind is ChannelKind.GROUP_DIRECT,
            "is_private": kind is not ChannelKind.PUBLIC,
            "is_general": conversation.name == "general",
            "is_shared": bool(conversation.shared_with),
            "is_ext_shared": bool(conversation.shared_with),
            "is_pending_ext_shared": False,
            "pending_shared": [],
            "unlinked": 0,
            "creator": conversation.creator,
            "is_member": viewer in conversation.members,
            "topic": _caption(conversation.topic, *conversation.topic_set),
            "purpose": _caption(conversation.purpose, *conversation.purpose_set),
            "previous_names": list(conversation.previous_names),
        }
        | last_read
        | ({"connected_team_ids": list(conversation.shared_with)} if conversation.shared_with else {})
    )


def _caption(value: str, creator: str, last_set: int) -> Json:
    return {"value": value, "creator": creator, "last_set": last_set}


def message(said: Message, directory: Directory, *, log: MessageLog | None = None, all_metadata: bool = True) -> Json:
    """Returns a message object; with `log`, a root message includes the state of its replies."""
    shape: Json = {"type": "message", "ts": said.ts, "user": said.user, "text": said.text}
    shape |= {"team": directory.team_of(said.user)} | _home(said, directory)
    shape |= _author(said, directory) | _content(said, all_metadata=all_metadata)
    if said.subtype:
        shape["subtype"] = said.subtype
    shape |= said.details or {}
    if said.thread_ts:
        root = log.get(said.thread_ts) if log else None
        shape["thread_ts"] = said.thread_ts
        shape |= {"parent_user_id": root.user} if root else {}
    if said.edited:
        shape["edited"] = {"user": said.edited.user, "ts": said.edited.ts}
    if log and (pin := log.pins.get(said.ts)):
        shape |= {"pinned_to": [said.channel], "pinned_info": pinned_info(said.channel, pin)}
    if said.subtype == "bot_message":
        del shape["user"]  # Slack names only the bot
    return shape | (_thread_of(said, log) if log else {})


def permalink(said: Message, base_url: str) -> str:
    """Returns a link that opens the message on the twin's page."""
    link = f"{base_url}archives/{said.channel}/p{said.ts.replace('.', '')}"
    return link + ("?" + urlencode({"thread_ts": said.thread_ts, "cid": said.channel}) if said.thread_ts else "")


def pinned_info(channel_id: str, pin: Pin) -> Json:
    return {"channel": channel_id, "pinned_by": pin.user, "pinned_ts": pin.created}


def pinned(said: Message, pin: Pin, conversation: Channel, directory: Directory, base_url: str) -> Json:
    """Returns an item of `pins.list`."""
    shape = message(said, directory, log=conversation.messages)
    shape.pop("pinned_info", None)
    return {
        "type": "message",
        "created": pin.created,
        "created_by": pin.user,
        "channel": conversation.id,
        "message": shape | {"permalink": permalink(said, base_url)},
    }


def _home(said: Message, directory: Directory) -> Json:
    """Returns the additional fields for an author from another workspace."""
    team = directory.team_of(said.user)
    return {} if team == TEAM_ID else {"user_team": team, "source_team": team}


def _author(said: Message, directory: Directory) -> Json:
    app = directory.apps.get(said.app_id) if said.app_id else None
    if app is None:
        return {"client_msg_id": said.client_msg_id} if said.client_msg_id else {}
    author: Json = {"bot_id": app.bot_id, "app_id": app.id, "bot_profile": bot_profile(app, directory)}
    return author | ({"username": said.username} if said.username else {})


def _content(said: Message, *, all_metadata: bool) -> Json:
    content: Json = {}
    if said.blocks:
        content["blocks"] = list(said.blocks)
    if said.attachments:
        content["attachments"] = list(said.attachments)
    if said.files:
        content |= {"files": [file(shared) for shared in said.files], "upload": False, "display_as_bot": False}
    if said.reactions:
        content["reactions"] = [reaction(given) for given in said.reactions]
    if said.metadata:
        content["metadata"] = said.metadata if all_metadata else {"event_type": said.metadata["event_type"]}
    return content


def _thread_of(said: Message, log: MessageLog) -> Json:
    thread = log.thread(said.ts)
    if thread is None:
        return {}
    return {
        "thread_ts": said.ts,
        "reply_count": len(thread.replies),
        "reply_users_count": len(thread.authors),
        "reply_users": list(thread.authors)[:REPLY_USERS_SHOWN],
        "latest_reply": thread.replies[-1],
        "is_locked": False,
        "subscribed": False,
    }


def reaction(given: Reaction) -> Json:
    return {"name": given.name, "users": list(given.users), "count": len(given.users)}
