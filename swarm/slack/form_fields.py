"""The names of form fields and the values of their options in Slack's blocks.

A field is the input block ``field:NAME`` with the element ``value``. An option has its own value, unless Slack would
refuse or change one of them: then the options of the field have the values ``o:0``, ``o:1`` and so on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from swarm.domain.model.requests import FieldType, FormField

FIELD_PREFIX: Final = "field:"
VALUE_ACTION: Final = "value"
BACK_ACTION: Final = "request_form_back"
"""``action_id`` of the button that shows the previous page of a form."""

EDIT_ACTION: Final = "request_form_edit"
"""``action_id`` of the button below a call in a form that shows its arguments as fields."""

COMMENT_BLOCK: Final = "feedback_comment"
COMMENT_INPUT: Final = "comment"
"""``block_id`` and ``action_id`` of the input in the form for feedback."""

YES: Final = "true"
NO: Final = "false"

_INDEX: Final = "o:"
_MAX_BLOCK_ID: Final = 255
_MAX_OPTION_VALUE: Final = 150


def block_id_of(field: FormField) -> str:
    """Returns the id of a field's block. A name that is too long is replaced by its hash."""
    block_id = FIELD_PREFIX + field.name
    if len(block_id) <= _MAX_BLOCK_ID and field.name.isprintable():
        return block_id
    return FIELD_PREFIX + hashlib.sha256(field.name.encode(errors="surrogatepass")).hexdigest()


def field_key(block_id: object) -> str | None:
    """Returns the part of a block's id that names its field; None for other blocks."""
    if not isinstance(block_id, str) or not block_id.startswith(FIELD_PREFIX):
        return None
    return block_id.removeprefix(FIELD_PREFIX)


def key_of(field: FormField) -> str:
    """Returns the key of a field among the values that Slack reports: its name, or the hash of a long name."""
    return block_id_of(field).removeprefix(FIELD_PREFIX)


def option_values(field: FormField) -> list[str]:
    """Returns the values of a field's options for Slack, in order."""
    values = [option.value for option in field.options]
    return values if all(map(_is_plain, values)) else [f"{_INDEX}{place}" for place in range(len(values))]


def typed_values(values: Mapping[str, Any], fields: Sequence[FormField]) -> dict[str, Any]:
    """Returns entered values by field name, with the values of the chosen options, and booleans.

    ``values`` are texts and lists as Slack reports them, by `key_of`. Values of other fields are left out; values of
    another type stay as they are, since the check of the form refuses them.
    """
    return {field.name: _typed(field, values[key]) for field in fields if (key := key_of(field)) in values}


def _typed(field: FormField, value: Any) -> Any:
    match field.type:
        case FieldType.BOOLEAN:
            return {YES: True, NO: False}.get(value, value) if isinstance(value, str) else value
        case FieldType.SELECT if isinstance(value, str):
            return _chosen(field, value)
        case FieldType.MULTISELECT if isinstance(value, list):
            return [_chosen(field, one) if isinstance(one, str) else one for one in value]
    return value


def _chosen(field: FormField, value: str) -> str:
    """Returns the value of an option. An unknown value stays as it is."""
    known = dict(zip(option_values(field), (option.value for option in field.options), strict=True))
    return known.get(value, value)


def _is_plain(value: str) -> bool:
    is_short = 0 < len(value) <= _MAX_OPTION_VALUE
    return is_short and value.isprintable() and not value.startswith(_INDEX) and value == value.strip()
