"""The part of a card that tells how a request ended: who decided what, the given values, the changed arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from swarm.domain.model.requests import (
    Asker,
    FormField,
    HumanRequest,
    RequestStatus,
    ResumeStatus,
)
from swarm.domain.requests.shown import HIDDEN, Reader
from swarm.domain.requests.texts import decided_text, withdrawn_by
from swarm.slack.outgoing.block_parts import (
    Block,
    context,
    cut,
    date,
    line,
    person,
    preformatted,
    redacted,
    rich,
    section,
    visible,
    with_dates,
    word,
)

MAX_VALUE_CHARACTERS: Final = 300
MAX_SHOWN_CHARACTERS: Final = 3_000
"""The maximum length of all shown values, and of all shown changes."""

MAX_CHANGE_CHARACTERS: Final = 150
_MAX_REASON: Final = 500
_ABSENT: Final = "(none)"

_FAILED: Final = "⚠️ The agent failed after this decision. Retry sends the same decision again."
_MAY_HAVE_BEGUN: Final = " What was decided may have begun already."
_POSITIVE: Final = frozenset({RequestStatus.APPROVED, RequestStatus.ANSWERED})
_SIGNS: Final = {RequestStatus.EXPIRED: "⌛", RequestStatus.REJECTED: "❌"}


def outcome_blocks(request: HumanRequest) -> list[Block]:
    """Returns how a request ended."""
    blocks = [section(_outcome(request)), *value_blocks(request)]
    changes = list(_changes(request))
    if changes:
        blocks.append(rich(preformatted(cut("\n".join(changes), MAX_SHOWN_CHARACTERS))))
    is_resumed = request.asker is Asker.DURABLE and request.status is not RequestStatus.CANCELLED
    if request.resume is ResumeStatus.FAILED and is_resumed:  # a call that waited has no resume that could fail
        blocks.append(context(_FAILED + (_MAY_HAVE_BEGUN if request.status in _POSITIVE else "")))
    return blocks


def value_blocks(request: HumanRequest) -> list[Block]:
    """Returns the values that people gave, without those of secret fields; no block if there are none."""
    given = request.entered or {}
    shown = [(field, given[field.name]) for field in request.fields if field.name in given]
    room = MAX_SHOWN_CHARACTERS
    lines: list[Block] = []
    for field, value in shown:
        label, text = cut(visible(field.title), 100), _value_text(field, value)
        room -= len(label) + len(text)
        if room < 0:
            lines.append(line(("…", "")))
            break
        end = "\n" if (field, value) != shown[-1] else ""
        lines.append(line((f"{label}: ", "bold"), (text + end, "")))
    return [rich(*lines)] if lines else []


def _outcome(request: HumanRequest) -> str:
    if request.status is RequestStatus.CANCELLED:
        by = withdrawn_by(request)
        reason = f"{by[0]} by {person(by[1])}" if by else with_dates(word(request.reason or "", _MAX_REASON))
        return f"🛑 Withdrawn: {reason or 'it is no longer needed'}"
    text = "nobody decided in time" if request.status is RequestStatus.EXPIRED else decided_text(request, person)
    sign = "✏️" if request.arguments is not None else _SIGNS.get(request.status, "✅")
    text = f"{sign} {text[:1].upper()}{text[1:]}"
    return f"{text} · {date(request.ended_at)}" if request.ended_at is not None else text


def _value_text(field: FormField, value: Any) -> str:
    if field.secret:
        return HIDDEN
    if isinstance(value, bool):
        return "Yes" if value else "No"
    labels = {option.value: option.title for option in field.options}
    parts = value if isinstance(value, list) else [value]
    text = ", ".join(labels.get(str(part), str(part)) for part in parts)
    return cut(redacted(field.title, text), MAX_VALUE_CHARACTERS) or " "


def _changes(request: HumanRequest) -> Iterator[str]:
    """Yields the changed arguments, with their old and new values."""
    if request.tool is None or request.arguments is None:
        return
    old, new = request.tool.arguments, request.arguments
    for name in dict.fromkeys([*old, *new]):
        if repr(old.get(name, ...)) != repr(new.get(name, ...)):  # 1 is not True here
            yield f"{cut(visible(name), 100)}: {_argument(name, old)} → {_argument(name, new)}"


def _argument(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns an argument on one line, without secrets."""
    if name not in arguments:
        return _ABSENT
    value = arguments[name]
    if isinstance(value, str):
        return cut(json.dumps(redacted(name, value), ensure_ascii=False), MAX_CHANGE_CHARACTERS)
    return cut(" ".join(one.strip() for one in Reader().json(value, name).split("\n")), MAX_CHANGE_CHARACTERS)
