"""Block elements: buttons, menus, pickers, inputs and images.

https://docs.slack.dev/reference/block-kit/block-elements
"""

from slack_twin.blocks.checks import (
    Check,
    also,
    anything,
    flag,
    integer,
    items,
    matching,
    one_field_of,
    one_of,
    shape,
    string,
    typed,
    url,
)
from slack_twin.blocks.objects import (
    CONFIRM,
    CONVERSATION_FILTER,
    DISPATCH_CONFIG,
    IDENTIFIER,
    LIST_OPTION,
    MENU_OPTION,
    OPTION_GROUP,
    SLACK_FILE,
    option,
    plain,
)
from slack_twin.blocks.rich_text import RICH_TEXT

_ID = string(least=1)
_MOST_TEXT = 3_000
_DATE = matching(r"\d{4}-\d{2}-\d{2}", "a date like 2026-11-21")
_TIME = matching(r"\d{2}:\d{2}", "a time like 09:30")
_ACTION: dict[str, Check] = {"action_id": IDENTIFIER}
_CONFIRMED = _ACTION | {"confirm": CONFIRM}
_FOCUSED = _CONFIRMED | {"focus_on_load": flag}
_MENU = _FOCUSED | {"placeholder": plain(150)}
_MULTI = _MENU | {"max_selected_items": integer(least=1, most=100)}
_TYPED = _ACTION | {"focus_on_load": flag, "placeholder": plain(150), "dispatch_action_config": DISPATCH_CONFIG}
_LENGTHS: dict[str, Check] = {
    "min_length": integer(least=0, most=_MOST_TEXT),
    "max_length": integer(least=1, most=_MOST_TEXT),
}
_IMAGE_OUTPUT = dict.fromkeys(("fallback", "image_width", "image_height", "image_bytes", "is_animated"), anything)


def _static(further: dict[str, Check]) -> Check:
    """Checks a menu with static options or option groups."""
    options = {"options": items(MENU_OPTION, most=100), "option_groups": items(OPTION_GROUP, most=100)}
    return also(shape({}, options | further), one_field_of("options", "option_groups"))


def _conversations(further: dict[str, Check]) -> dict[str, Check]:
    return {"default_to_current_conversation": flag, "filter": CONVERSATION_FILTER} | further


def _feedback() -> Check:
    return shape({"text": plain(75), "value": string(most=2_000)}, {"accessibility_label": string(most=75)})


def image(further: dict[str, Check] | None = None) -> Check:
    """Checks an image with a URL or a Slack file; `further` are the additional fields of the image block."""
    fields = {"image_url": url(), "slack_file": SLACK_FILE} | _IMAGE_OUTPUT | (further or {})
    return also(shape({"alt_text": string(most=2_000)}, fields), one_field_of("image_url", "slack_file"))


_BUTTONS = {
    "button": shape(
        {"text": plain(75)},
        _CONFIRMED
        | {
            "value": string(most=2_000),
            "url": url(),
            "style": one_of("primary", "danger"),
            "accessibility_label": string(most=75),
            "agent_prompt": string(most=4_000),
        },
    ),
    "workflow_button": shape(
        {"text": plain(75), "workflow": shape({"trigger": anything})},
        _ACTION | {"style": one_of("primary", "danger"), "accessibility_label": string(most=75)},
    ),
    "overflow": shape({"options": items(option(plain(75), has_url=True), most=5)}, _CONFIRMED),
}
_SELECTS = {
    "static_select": _static(_MENU | {"initial_option": MENU_OPTION}),
    "external_select": shape(
        {}, _MENU | {"initial_option": MENU_OPTION, "min_query_length": integer(least=0, most=100)}
    ),
    "users_select": shape({}, _MENU | {"initial_user": _ID}),
    "conversations_select": shape(
        {}, _MENU | _conversations({"initial_conversation": _ID, "response_url_enabled": flag})
    ),
    "channels_select": shape({}, _MENU | {"initial_channel": _ID, "response_url_enabled": flag}),
}
_MULTI_SELECTS = {
    "multi_static_select": _static(_MULTI | {"initial_options": items(MENU_OPTION, most=100)}),
    "multi_external_select": shape(
        {},
        _MULTI | {"initial_options": items(MENU_OPTION, most=100), "min_query_length": integer(least=0, most=100)},
    ),
    "multi_users_select": shape({}, _MULTI | {"initial_users": items(_ID, most=100)}),
    "multi_conversations_select": shape({}, _MULTI | _conversations({"initial_conversations": items(_ID, most=100)})),
    "multi_channels_select": shape({}, _MULTI | {"initial_channels": items(_ID, most=100)}),
}
_PICKERS = {
    "datepicker": shape({}, _MENU | {"initial_date": _DATE}),
    "timepicker": shape({}, _MENU | {"initial_time": _TIME, "timezone": string(least=1)}),
    "checkboxes": shape(
        {"options": items(LIST_OPTION, most=10)}, _FOCUSED | {"initial_options": items(LIST_OPTION, most=10)}
    ),
    "radio_buttons": shape({"options": items(LIST_OPTION, most=10)}, _FOCUSED | {"initial_option": LIST_OPTION}),
}
_MOMENT = {
    "datetimepicker": shape({}, _FOCUSED | {"initial_date_time": integer(least=1_000_000_000, most=9_999_999_999)})
}
_INPUTS = {
    "plain_text_input": shape({}, _TYPED | _LENGTHS | {"initial_value": string(most=_MOST_TEXT), "multiline": flag}),
    "email_text_input": shape({}, _TYPED | {"initial_value": string(most=_MOST_TEXT)}),
    "url_text_input": shape({}, _TYPED | {"initial_value": string(most=_MOST_TEXT)}),
    "number_input": shape(
        {"is_decimal_allowed": flag},
        _TYPED | {"initial_value": string(), "min_value": string(), "max_value": string()},
    ),
    "rich_text_input": shape({}, _TYPED | {"initial_value": RICH_TEXT}),
    "file_input": shape({}, _ACTION | {"filetypes": items(_ID, most=100), "max_files": integer(least=1, most=10)}),
}

IMAGE = typed({"image": image()})
IN_SECTION = typed({**_BUTTONS, **_SELECTS, **_MULTI_SELECTS, **_PICKERS, "image": image()})
IN_ACTIONS = typed({**_BUTTONS, **_SELECTS, **_MULTI_SELECTS, **_PICKERS, **_MOMENT})
IN_INPUT = typed({**_SELECTS, **_MULTI_SELECTS, **_PICKERS, **_MOMENT, **_INPUTS})
IN_CONTEXT_ACTIONS = typed(
    {
        "feedback_buttons": shape({"positive_button": _feedback(), "negative_button": _feedback()}, _ACTION),
        "icon_button": shape(
            {"icon": one_of("trash"), "text": plain(75)},
            _CONFIRMED
            | {
                "value": string(most=2_000),
                "accessibility_label": string(most=75),
                "visible_to_user_ids": items(_ID, most=100, least=0),
            },
        ),
    }
)
BUTTON = typed({"button": _BUTTONS["button"]})
OVERFLOW = typed({"overflow": _BUTTONS["overflow"]})
