"""Composition objects: text, options, confirmation dialogs and other parts of blocks and elements.

https://docs.slack.dev/reference/block-kit/composition-objects
"""

from slack_twin.blocks.checks import Check, also, flag, items, one_field_of, one_of, shape, string, typed, url

IDENTIFIER = string(most=255)


def plain(most: int) -> Check:
    """Checks for a `plain_text` object."""
    return typed({"plain_text": _text(most, emoji=True)})


def text(most: int) -> Check:
    """Checks for a text object, plain or `mrkdwn`."""
    return typed({"plain_text": _text(most, emoji=True), "mrkdwn": _text(most, emoji=False)})


def _text(most: int, *, emoji: bool) -> Check:
    return shape({"text": string(most=most, least=1)}, {"emoji": flag} if emoji else {"verbatim": flag})


def option(label: Check, *, has_url: bool = False) -> Check:
    further: dict[str, Check] = {"description": plain(75)}
    return shape({"text": label, "value": string(most=150)}, further | ({"url": url()} if has_url else {}))


MENU_OPTION = option(plain(75))
LIST_OPTION = option(text(75))  # for checkboxes and radio buttons, which may use mrkdwn
OPTION_GROUP = shape({"label": plain(75), "options": items(MENU_OPTION, most=100)})

CONFIRM = shape(
    {"title": plain(100), "text": text(300), "confirm": plain(30), "deny": plain(30)},
    {"style": one_of("primary", "danger")},
)
DISPATCH_CONFIG = shape({}, {"trigger_actions_on": items(one_of("on_enter_pressed", "on_character_entered"), most=2)})
CONVERSATION_FILTER = shape(
    {},
    {
        "include": items(one_of("im", "mpim", "private", "public"), most=4),
        "exclude_external_shared_channels": flag,
        "exclude_bot_users": flag,
    },
)
SLACK_FILE = also(shape({}, {"id": string(least=1), "url": url()}), one_field_of("id", "url"))
URL_SOURCE = typed({"url": shape({"url": url(), "text": string(least=1)}, {"icon_url": url()})})
