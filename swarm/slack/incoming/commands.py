"""Converts Slack's payloads of slash commands and of the Home tab.

An unrelated or malformed payload becomes None; nothing raises.
https://docs.slack.dev/interactivity/implementing-slash-commands
https://docs.slack.dev/reference/events/app_home_opened
"""

from __future__ import annotations

from typing import Final

from swarm.domain.commands import HomeOpened, RemarkSubmitted, SlashCommand
from swarm.domain.requests.button_actions import REMARK_FORM
from swarm.slack.incoming.fields import EMPTY, id_at, is_object, object_at, text_at

MAX_TEXT_CHARACTERS: Final = 3_000
"""The part of a command's text that is read."""


def slash_command(body: object) -> SlashCommand | None:
    """Returns the slash command in a payload."""
    if not is_object(body):
        return None
    command, user_id, channel = text_at(body, "command"), id_at(body, "user_id"), id_at(body, "channel_id")
    response_url, trigger_id = text_at(body, "response_url"), text_at(body, "trigger_id")
    if not (command and user_id and channel and response_url and trigger_id):
        return None
    return SlashCommand(
        key=f"command:{trigger_id}",
        command=command,
        text=text_at(body, "text")[:MAX_TEXT_CHARACTERS],
        user_id=user_id,
        channel=channel,
        response_url=response_url,
        trigger_id=trigger_id,
    )


def remark_submitted(body: object) -> RemarkSubmitted | None:
    """Returns the submission of the form for a remark."""
    view = object_at(body, "view") if is_object(body) else EMPTY
    if not is_object(body) or text_at(body, "type") != "view_submission" or text_at(view, "callback_id") != REMARK_FORM:
        return None
    user_id, channel, view_id = id_at(object_at(body, "user"), "id"), id_at(view, "private_metadata"), id_at(view, "id")
    entered = object_at(object_at(object_at(object_at(view, "state"), "values"), REMARK_FORM), REMARK_FORM)
    if not (user_id and channel and view_id):
        return None
    text = text_at(entered, "value")[:MAX_TEXT_CHARACTERS]
    return RemarkSubmitted(key=f"remark:{view_id}", user_id=user_id, channel=channel, text=text)


def home_opened(body: object) -> HomeOpened | None:
    """Returns the opening of the Home tab. The other tab, Messages, is reported by the same event."""
    event = object_at(body, "event") if is_object(body) else EMPTY
    if text_at(event, "type") != "app_home_opened" or text_at(event, "tab") != "home":
        return None
    user_id, channel = id_at(event, "user"), id_at(event, "channel")
    return HomeOpened(user_id=user_id, channel=channel) if user_id and channel else None
