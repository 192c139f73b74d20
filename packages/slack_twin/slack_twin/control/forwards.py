"""A forwarded message: an attachment of the message that shares it."""

from datetime import UTC, datetime

from slack_twin import file_shapes, shapes
from slack_twin.directory import TEAM_ID
from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import Channel, ChannelKind
from slack_twin.workspace import Workspace

_COLOR = "D0D0D0"


def forward(workspace: Workspace, channel: Channel, said: Message) -> Json:
    """Returns the attachment that Slack makes of a forwarded message, with its author, words, blocks and files."""
    directory, base_url = workspace.directory, workspace.base_url
    author = directory.users.get(said.user)
    name = said.username or (author.display_name or author.name if author else said.user)
    shape: Json = {
        "from_url": shapes.permalink(said, base_url),
        "ts": said.ts,
        "author_id": said.user,
        "author_name": name,
        "author_subname": author.real_name if author else name,
        "author_link": f"{base_url}team/{said.user}",
        "author_icon": shapes.images(directory, 48)["image_48"],
        "channel_id": channel.id,
        "channel_team": TEAM_ID,
        "is_msg_unfurl": True,
        "is_share": True,
        "color": _COLOR,
        "fallback": f"[{_moment(said.ts)}] {name}: {said.text}",
        "text": said.text,
        "mrkdwn_in": ["text"],
        "footer": _footer(channel, said),
    }
    if said.blocks:
        inner: Json = {"blocks": list(said.blocks)}
        shape["message_blocks"] = [{"team": TEAM_ID, "channel": channel.id, "ts": said.ts, "message": inner}]
    if said.files:
        shape["files"] = [file_shapes.file(one) for one in said.files]
    if channel.kind is not ChannelKind.PUBLIC:
        shape["private_channel_prompt"] = True
    return shape


def _moment(ts: str) -> str:
    """Returns a time as Slack writes it: `November 28th, 2026 9:05 AM`."""
    at = datetime.fromtimestamp(float(ts), UTC)
    ending = "th" if 10 < at.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(at.day % 10, "th")
    return f"{at:%B} {at.day}{ending}, {at:%Y} {at.hour % 12 or 12}:{at:%M %p}"


def _footer(channel: Channel, said: Message) -> str:
    if channel.kind is not ChannelKind.PUBLIC:
        return "Slack Conversation"
    return f"{'Thread in' if said.thread_ts else 'Posted in'} #{channel.name}"
