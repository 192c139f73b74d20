"""chat.unfurl and blocks.validate. https://docs.slack.dev/messaging/unfurling-links-in-messages"""

from dataclasses import replace

from slack_twin.blocks import block_problems, checked_attachments
from slack_twin.blocks.layout import Where
from slack_twin.blocks.views import view_problems
from slack_twin.changes import MessageChanged
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.text import unescape


def unfurl(call: Call) -> Json:
    """Attaches previews to the links of a message; the same call again replaces them.

    Raises `missing_channel`, `missing_ts`, `missing_unfurls`, `invalid_unfurls_format`, `cannot_find_channel`,
    `cannot_find_message`, `cannot_unfurl_message`.
    """
    for name in ("channel", "ts", "unfurls"):
        if name not in call.args:
            raise SlackError(f"missing_{name}")
    channel = call.directory.channels.get(call.args.optional("channel"))
    if channel is None or call.app.bot_user not in channel.members:
        raise SlackError("cannot_find_channel")
    message = channel.messages.get(call.args.timestamp("ts"))
    if message is None:
        raise SlackError("cannot_find_message")
    unfurls = call.args.json("unfurls")
    if not isinstance(unfurls, dict) or not all(isinstance(shown, dict) for shown in unfurls.values()):
        raise SlackError("invalid_unfurls_format")
    if any(url not in unescape(message.text) for url in unfurls):
        raise SlackError("cannot_unfurl_message")
    mark = {"is_app_unfurl": True, "app_id": call.app.id, "bot_id": call.app.bot_id}
    made = [
        shown | {"from_url": url, "original_url": url, "app_unfurl_url": url} | mark for url, shown in unfurls.items()
    ]
    kept = [shown for shown in message.attachments if shown.get("app_unfurl_url") not in unfurls]
    changed = replace(message, attachments=checked_attachments([*kept, *made]))
    channel.messages.replace(changed)
    ts = call.workspace.next_ts()
    call.workspace.announce(MessageChanged(channel=channel, message=changed, previous=message, ts=ts))
    return {}


def validate(call: Call) -> Json:
    """Checks `blocks`, a `message` or a `view`.

    Raises `invalid_blocks`, `invalid_message` or `invalid_view` with the errors, and `invalid_arguments`.
    """
    given = [name for name in ("blocks", "message", "view") if name in call.args]
    if len(given) != 1:
        raise SlackError("invalid_arguments", messages=["[ERROR] provide exactly one of blocks, view, or message"])
    value = call.args.json(given[0])
    match given[0]:
        case "view":
            problems = view_problems(value)
        case "message" if isinstance(value, dict):
            problems = block_problems(value.get("blocks", []), Where.MESSAGE, "/blocks")
        case _:
            problems = block_problems(value, Where.MESSAGE, "")
    if problems:
        parts = [problem.removesuffix("]").rpartition(" [json-pointer:") for problem in problems]
        errors = [{"pointer": pointer, "code": "failed_constraint", "message": text} for text, _, pointer in parts]
        raise SlackError(f"invalid_{given[0]}", errors=errors)
    return {}


METHODS = (
    Method(name="chat.unfurl", handle=unfurl, tier=Tier.TIER_3, scopes=("links:write",)),
    Method(name="blocks.validate", handle=validate, tier=Tier.SPECIAL),
)
