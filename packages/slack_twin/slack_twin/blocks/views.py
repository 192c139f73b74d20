"""Converts an app's JSON to the definition of a view. https://docs.slack.dev/reference/views"""

import orjson

from slack_twin.blocks.checks import Check, anything, flag, one_of, shape, string, wrong
from slack_twin.blocks.layout import Where
from slack_twin.blocks.objects import plain
from slack_twin.blocks.reading import all_stored, block_problems
from slack_twin.errors import Json, SlackError
from slack_twin.surfaces import Definition, ViewKind

MAX_VIEW_BYTES = 250_000

_COMMON: dict[str, Check] = {
    "private_metadata": string(most=3_000),
    "callback_id": string(most=255),
    "external_id": string(most=255),
}
# Slack adds these fields to the views that it returns. Apps may send them back; the twin ignores them.
_RETURNED: dict[str, Check] = {
    "id": anything,
    "team_id": anything,
    "state": anything,
    "hash": anything,
    "root_view_id": anything,
    "previous_view_id": anything,
    "app_id": anything,
    "bot_id": anything,
    "app_installed_team_id": anything,
    "clear_on_close": flag,
    "notify_on_close": flag,
    "submit_disabled": flag,
}
_MODAL = shape(
    {"type": one_of("modal"), "title": plain(24), "blocks": anything},
    {**_RETURNED, **_COMMON, "submit": plain(24), "close": plain(24)},
)
_HOME = shape({"type": one_of("home"), "blocks": anything}, {**_RETURNED, **_COMMON})


def read_view(value: object, kind: ViewKind, pointer: str = "/view") -> Definition:
    """Returns the definition of a view.

    Raises `view_too_large`, and `invalid_arguments` with a message for each error.
    """
    if len(orjson.dumps(value)) > MAX_VIEW_BYTES:
        raise SlackError("view_too_large")
    problems = _problems(value, kind, pointer)
    if problems or not isinstance(value, dict):
        raise SlackError("invalid_arguments", messages=[f"[ERROR] {problem}" for problem in problems])
    return Definition(
        kind=kind,
        blocks=all_stored(value["blocks"]),
        title=_label(value, "title"),
        submit=_label(value, "submit"),
        close=_label(value, "close"),
        private_metadata=value.get("private_metadata") or "",
        callback_id=value.get("callback_id") or "",
        external_id=value.get("external_id") or "",
        clear_on_close=bool(value.get("clear_on_close")),
        notify_on_close=bool(value.get("notify_on_close")),
        submit_disabled=bool(value.get("submit_disabled")),
    )


def view_problems(value: object) -> list[str]:
    """Returns the errors of a view of either kind, in Slack's wording."""
    is_home = isinstance(value, dict) and value.get("type") == ViewKind.HOME.value
    return _problems(value, ViewKind.HOME if is_home else ViewKind.MODAL, "")


def _problems(value: object, kind: ViewKind, pointer: str) -> list[str]:
    is_modal = kind is ViewKind.MODAL
    problems = list((_MODAL if is_modal else _HOME)(value, pointer))
    if not isinstance(value, dict) or value.get("blocks") is None:
        return problems
    found = block_problems(value["blocks"], Where.MODAL if is_modal else Where.HOME, f"{pointer}/blocks")
    if is_modal and not found and not value.get("submit"):
        found = _inputs_without_submit(value["blocks"], f"{pointer}/blocks")
    return problems + found


def _inputs_without_submit(blocks: list[Json], pointer: str) -> list[str]:
    return [
        wrong("must define `submit` to use an `input` block in modals", f"{pointer}/{place}/input")
        for place, block in enumerate(blocks)
        if block["type"] == "input"
    ]


def _label(value: Json, name: str) -> Json | None:
    label = value.get(name)
    return {"emoji": True, **label} if isinstance(label, dict) else None
