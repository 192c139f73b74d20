"""A forwarded message: an attachment of the message that shares it."""

from datetime import UTC, datetime

from slack_twin import file_shapes, shapes
from slack_twin.directory import SLACKBOT, TEAM_ID
from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import Channel, ChannelKind
from slack_twin.workspace import Workspace


def forward(workspace: Workspace, channel: Channel, said: Message) -> Json:
    """Returns the attachment that Slack makes of a forwarded message, with its author, words, blocks and files."""
    directory, base_url = workspace.directory, workspace.base_url
    author, is_public = directory.users.get(said.user, SLACKBOT), channel.kind is ChannelKind.PUBLIC
    name, at = said.username or author.display_name, datetime.fromtimestamp(float(said.ts), UTC)
    shape: Json = {
        "from_url": shapes.permalink(said, base_url),
        "ts": said.ts,
        "author_id": said.user,
        "author_name": name,
        "author_subname": author.real_name,
        "author_link": f"{base_url}team/{said.user}",
        "author_icon": shapes.images(directory, 48)["image_48"],
        "channel_id": channel.id,
        "channel_team": TEAM_ID,
        "is_msg_unfurl": True,
        "is_share": True,
        "color": "D0D0D0",
        "fallback": f"[{at:%B %d, %Y %I:%M %p}] {name}: {said.text}",
        "text": said.text,
        "mrkdwn_in": ["text"],
        "footer": f"Posted in #{channel.name}" if is_public else "Slack Conversation",
    }
    shape |= {} if is_public else {"private_channel_prompt": True}
    shape |= {"files": [file_shapes.file(one) for one in said.files]} if said.files else {}
    inner = {"team": TEAM_ID, "channel": channel.id, "ts": said.ts, "message": {"blocks": list(said.blocks)}}
    return shape | ({"message_blocks": [inner]} if said.blocks else {})
