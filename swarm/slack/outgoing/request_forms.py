"""Modals for requests: long forms of several pages, changed arguments of a tool call, and everything that is asked.

A modal knows its request, its page and the decision that its last button makes by ``private_metadata``.
https://docs.slack.dev/surfaces/modals
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from swarm.domain.button_actions import FORM_ACTION
from swarm.domain.edited_arguments import argument_fields
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, HumanRequest
from swarm.domain.text.cutting import split
from swarm.domain.text.secrets import without_secrets
from swarm.domain.text.slack_text import inert, mentioned_ids, safe
from swarm.slack.form_fields import BACK_ACTION
from swarm.slack.outgoing.answer_blocks import cut_text
from swarm.slack.outgoing.block_parts import (
    MAX_SECTION_CHARACTERS,
    Block,
    actions,
    button,
    context,
    line,
    plain,
    preformatted,
    rich,
    section,
    visible,
    word,
)
from swarm.slack.outgoing.form_inputs import (
    MAX_INITIAL_CHARACTERS,
    MAX_OPTIONS,
    input_block,
    option_objects,
    shown_value,
)
from swarm.slack.outgoing.request_cards import arguments_text, needs_form
from swarm.slack.outgoing.request_outcomes import value_blocks

MAX_FIELDS_PER_PAGE: Final = 20
MAX_VIEW_BLOCKS: Final = 100
MAX_VIEW_BYTES: Final = 240_000
"""The maximum size of a view. Slack accepts 250,000 bytes."""

_MAX_PAGE_BYTES: Final = 190_000  # the rest is for the prompt and for the problems
_INITIAL_BYTES: Final = 3 * MAX_INITIAL_CHARACTERS
_MAX_PROMPT_SECTIONS: Final = 4
_MAX_TITLE: Final = 24
_MAX_PROBLEM: Final = 300
_ARGUMENT: Final = "argument:"

_TEXTS: Final = (FieldType.TEXT, FieldType.TEXTAREA, FieldType.URL, FieldType.EMAIL)
_NO_PROBLEMS: Final[Mapping[str, str]] = {}
_D = HumanDecision


def form_decision(request: HumanRequest) -> HumanDecision:
    """Returns the decision of the button that sends a form."""
    return _D.ANSWER if _D.ANSWER in request.decisions else _D.APPROVE


def form_fields(request: HumanRequest, decision: HumanDecision) -> tuple[FormField, ...]:
    """Returns the fields of a form: those of the request while values are needed, and for `edit` the arguments.

    Arguments that an input cannot show are left out: long ones and those with secrets (`unchangeable`).
    """
    asked = request.fields if needs_form(request) else ()
    return (*asked, *_argument_inputs(request)) if decision is _D.EDIT else asked


def argument_key(request: HumanRequest, name: str) -> str:
    """Returns the name of the field for an argument, which differs from the names of the request's own fields."""
    return _ARGUMENT + name if request.fields else name


def unchangeable(request: HumanRequest) -> tuple[str, ...]:
    """Returns the names of the arguments that cannot be changed in a form."""
    fields = argument_fields(request.tool) if request.tool else ()
    return tuple(field.name for field in fields if not _is_changeable(field))


def split_values(request: HumanRequest, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the request's own values and the arguments, of what was entered into a form of the decision `edit`.

    Every argument that the form does not show stays as it is.
    """
    own = {field.name: values[field.name] for field in request.fields if field.name in values}
    given: dict[str, Any] = {}
    for field in argument_fields(request.tool) if request.tool else ():
        entered = values.get(argument_key(request, field.name))
        was_shown = _is_changeable(field) and shown_value(field, {}) is not None
        given[field.name] = field.default if entered in (None, "", []) and not was_shown else entered
    return own, given


def pages(fields: Sequence[FormField]) -> list[tuple[FormField, ...]]:
    """Returns the fields of each page: at most 20, and fewer if they are large. There is at least one page."""
    found: list[list[FormField]] = [[]]
    room = _MAX_PAGE_BYTES
    for field in fields:
        size = _size(field)
        if found[-1] and (len(found[-1]) == MAX_FIELDS_PER_PAGE or size > room):
            found.append([])
            room = _MAX_PAGE_BYTES
        found[-1].append(field)
        room -= size
    return [tuple(page) for page in found]


def form_view(
    request: HumanRequest,
    page: int,
    values: Mapping[str, Any],
    problems: Mapping[str, str] = _NO_PROBLEMS,
    *,
    decision: HumanDecision | None = None,
) -> Block:
    """Returns one page of a form, counted from 1. Values and problems are given by the names of the fields."""
    decision = decision or form_decision(request)
    found = pages(form_fields(request, decision))
    page = min(max(page, 1), len(found))
    is_last = page == len(found)
    sends = "Send" if decision is _D.ANSWER else "Approve"
    metadata = {"request": request.id, "page": page, "decision": decision.value}
    title = f"Page {page} of {len(found)}" if len(found) > 1 else request.title
    blocks = [*(_head(request, decision) if page == 1 else _short_head(request))]
    blocks += [block for field in found[page - 1] for block in _field_blocks(field, values, problems)]
    if page > 1:
        blocks.append(actions(button(BACK_ACTION, "Back", request.id)))
    return {
        "type": "modal",
        "callback_id": FORM_ACTION,
        "private_metadata": json.dumps(metadata),
        "title": plain(title, _MAX_TITLE),
        "submit": plain(sends if is_last else "Next", _MAX_TITLE),
        "close": plain("Cancel", _MAX_TITLE),
        "blocks": blocks,
    }


def message_view(title: str, text: str) -> Block:
    """Returns a modal with a text, such as an error. Mentions of people stay mentions."""
    shown = cut_text(safe(text, mentioned_ids(text)), MAX_SECTION_CHARACTERS)
    return {
        "type": "modal",
        "title": plain(title, _MAX_TITLE),
        "close": plain("Close", _MAX_TITLE),
        "blocks": [section(shown if shown.strip() else "…")],
    }


def arguments_view(request: HumanRequest) -> Block:
    """Returns a modal with the complete prompt and all arguments, as far as a modal can show them."""
    blocks = [*_short_head(request), *_prompt(request)]
    if request.tool:
        blocks.append(rich(line(("Tool: ", ""), (visible(request.tool.name) or "…", "code"))))
        blocks += _fitting(arguments_text(request.tool), blocks)
    return message_view("Everything", "…") | {"blocks": blocks}


def _fitting(text: str, before: Sequence[Block]) -> Iterator[Block]:
    """Yields a long text in parts, until the view is full."""
    room, left = MAX_VIEW_BYTES - len(json.dumps(before)) - 1_000, MAX_VIEW_BLOCKS - len(before) - 1
    for begin in range(0, max(len(text), 1), MAX_SECTION_CHARACTERS):
        block = rich(preformatted(text[begin : begin + MAX_SECTION_CHARACTERS]))
        room, left = room - len(json.dumps(block)), left - 1
        if room < 0 or left < 0:
            yield context(f"{len(text) - begin:,} more characters do not fit here.")
            return
        yield block


def _head(request: HumanRequest, decision: HumanDecision) -> Iterator[Block]:
    yield from (*_short_head(request), *_prompt(request))
    if decision is not _D.EDIT or request.tool is None:
        yield from value_blocks(request)
        return
    yield rich(line(("Tool: ", ""), (visible(request.tool.name) or "…", "code")))
    kept = unchangeable(request)
    if kept:
        names = ", ".join(word(name, 50) for name in kept[:20])
        yield context(f"Too long or secret, so these arguments stay as they are: {names}")


def _short_head(request: HumanRequest) -> list[Block]:
    return [rich(line((visible(request.title) or "…", "bold")))]


def _prompt(request: HumanRequest) -> list[Block]:
    """Returns the prompt in sections. Modals do not show Markdown."""
    text = inert(visible(request.question)).strip()
    parts = [part for part in split(text, MAX_SECTION_CHARACTERS) if part.strip()] if text else []
    return [section(part) for part in parts[:_MAX_PROMPT_SECTIONS]]


def _field_blocks(field: FormField, values: Mapping[str, Any], problems: Mapping[str, str]) -> Iterator[Block]:
    yield input_block(field, values)
    if field.name in problems:
        yield context(f"⚠️ {word(problems[field.name], _MAX_PROBLEM)}")


def _size(field: FormField) -> int:
    """Returns the maximum size of a field's blocks in bytes, whatever is entered."""
    initial = _INITIAL_BYTES if field.type in _TEXTS else 0
    if field.type is FieldType.MULTISELECT:
        initial = sum(sorted(len(orjson.dumps(option)) for option in option_objects(field))[-MAX_OPTIONS:])
    return len(orjson.dumps(input_block(field, {field.name: None}))) + initial


def _argument_inputs(request: HumanRequest) -> Iterator[FormField]:
    for field in argument_fields(request.tool) if request.tool else ():
        if _is_changeable(field):
            yield replace(field, name=argument_key(request, field.name), label=field.title)


def _is_changeable(field: FormField) -> bool:
    """Whether an input can show a field's current value completely."""
    text = field.default if isinstance(field.default, str) else ""
    named = f"{field.name}: {text}"
    return len(text) <= MAX_INITIAL_CHARACTERS and without_secrets(named) == named
