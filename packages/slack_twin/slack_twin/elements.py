"""The interactive elements of blocks: their positions, and their fields in payloads.

https://docs.slack.dev/reference/block-kit/block-elements
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slack_twin.errors import Json

# Elements that are pressed and have no state.
BUTTONS = frozenset({"button", "icon_button", "feedback_buttons", "workflow_button"})
# Elements with a state, by the field that contains the value.
STATE_FIELDS = {
    "static_select": "selected_option",
    "external_select": "selected_option",
    "radio_buttons": "selected_option",
    "multi_static_select": "selected_options",
    "multi_external_select": "selected_options",
    "checkboxes": "selected_options",
    "users_select": "selected_user",
    "conversations_select": "selected_conversation",
    "channels_select": "selected_channel",
    "multi_users_select": "selected_users",
    "multi_conversations_select": "selected_conversations",
    "multi_channels_select": "selected_channels",
    "datepicker": "selected_date",
    "timepicker": "selected_time",
    "datetimepicker": "selected_date_time",
    "plain_text_input": "value",
    "email_text_input": "value",
    "url_text_input": "value",
    "number_input": "value",
    "rich_text_input": "rich_text_value",
    "file_input": "files",
}
INTERACTIVE = BUTTONS | STATE_FIELDS.keys() | {"overflow"}

# The fields of an element that `actions` repeats.
_REPEATED = (
    "text",
    "value",
    "style",
    "url",
    "icon",
    "placeholder",
    "confirm",
    "min_query_length",
    "timezone",
    "initial_option",
    "initial_options",
    "initial_user",
    "initial_users",
    "initial_conversation",
    "initial_conversations",
    "initial_channel",
    "initial_channels",
    "initial_date",
    "initial_time",
    "initial_date_time",
)


@dataclass(frozen=True, kw_only=True)
class Element:
    """An interactive element with its position."""

    shape: Json
    block: Json  # the innermost block that contains the element

    @property
    def type(self) -> str:
        return str(self.shape["type"])

    @property
    def action_id(self) -> str:
        return str(self.shape.get("action_id", ""))

    @property
    def block_id(self) -> str:
        return str(self.block.get("block_id", ""))

    @property
    def state_field(self) -> str | None:
        """The field that contains the value; None for buttons and overflow menus."""
        return STATE_FIELDS.get(self.type)

    @property
    def is_input(self) -> bool:
        """Returns whether the element is in an input block, which has a label and may be required."""
        return self.block.get("type") == "input"

    @property
    def tells_app(self) -> bool:
        """Returns whether the app is notified of every change.

        By default, inputs keep their value until the form is submitted.
        """
        return not self.is_input or self.block.get("dispatch_action") is True

    def repeated(self) -> Json:
        return {name: self.shape[name] for name in _REPEATED if name in self.shape}


def elements_of(blocks: Sequence[Json], *, attachments: Sequence[Json] = ()) -> list[Element]:
    """Returns every interactive element in reading order; elements of attachments come last."""
    found = [element for block in blocks for element in _within(block, {})]
    for attachment in attachments:
        inner = attachment.get("blocks")
        found += [element for block in inner for element in _within(block, {})] if isinstance(inner, list) else []
    return found


def _within(node: object, block: Json) -> Iterator[Element]:
    """Yields nested elements.

    Blocks may contain blocks, as in a carousel; the innermost block with a `block_id` counts.
    """
    if isinstance(node, list):
        for part in node:
            yield from _within(part, block)
    if not isinstance(node, dict):
        return
    if node.get("type") in INTERACTIVE:
        yield Element(shape=node, block=block)
        return
    block = node if "block_id" in node else block
    for part in node.values():
        yield from _within(part, block)
