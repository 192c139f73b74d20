"""Modals for requests: what does not fit on a card, long forms, and changed arguments of a tool call, in pages.

The pages to read come first; only the last page of a form decides. A modal knows its request, its page, the decision
that its last button makes and the version that it shows by ``private_metadata``, which says nothing about what somebody
has read.
https://docs.slack.dev/surfaces/modals
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from swarm.domain.model.requests import APPROVALS, FieldType, FormField, HumanDecision, HumanRequest
from swarm.domain.requests.button_actions import FORM_ACTION
from swarm.domain.requests.edited_arguments import argument_fields
from swarm.domain.requests.shown import PartKind, Reader, reading_pages, shown_texts, version, waiting_call
from swarm.domain.text.slack_text import mentioned_ids, safe
from swarm.slack.form_fields import BACK_ACTION, EDIT_ACTION
from swarm.slack.outgoing.answer_blocks import cut_text
from swarm.slack.outgoing.block_parts import (
    MAX_SECTION_CHARACTERS,
    Block,
    actions,
    button,
    context,
    plain,
    section,
    word,
)
from swarm.slack.outgoing.form_inputs import (
    MAX_INITIAL_CHARACTERS,
    MAX_OPTIONS,
    input_block,
    option_objects,
    shown_value,
)
from swarm.slack.outgoing.request_cards import needs_form, part_blocks, title_block

MAX_FIELDS_PER_PAGE: Final = 20
_MAX_PAGE_BYTES: Final = 190_000  # Slack accepts views of 250,000 bytes; the rest is for the prompt and the problems
_INITIAL_BYTES: Final = 3 * MAX_INITIAL_CHARACTERS
_MAX_TITLE: Final = 24
_MAX_PROBLEM: Final = 300
_ARGUMENT: Final = "argument:"

_TEXTS: Final = (FieldType.TEXT, FieldType.TEXTAREA, FieldType.URL, FieldType.EMAIL)
_ORDER: Final = (HumanDecision.ANSWER, HumanDecision.APPROVE, HumanDecision.EDIT, *sorted(APPROVALS))
_NO_PROBLEMS: Final[Mapping[str, str]] = {}
_D = HumanDecision


def form_decision(request: HumanRequest) -> HumanDecision:
    """Returns the decision of the button that sends a form."""
    return next((decision for decision in _ORDER if decision in request.decisions), _D.APPROVE)


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
    fields = argument_fields(call) if (call := waiting_call(request)) else ()
    return tuple(field.name for field in fields if not _is_changeable(field))


def split_values(request: HumanRequest, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the request's own values and the arguments, of what was entered into a form of the decision `edit`.

    Every argument that the form does not show stays as it is.
    """
    own = {field.name: values[field.name] for field in request.fields if field.name in values}
    given: dict[str, Any] = {}
    for field in argument_fields(call) if (call := waiting_call(request)) else ():
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


def form_pages(request: HumanRequest, decision: HumanDecision, *, reveals: bool = True) -> list[tuple[FormField, ...]]:
    """Returns the fields of each page of a form. The pages to read come first and have none."""
    read: list[tuple[FormField, ...]] = [() for _ in reading_pages(request, reveals=reveals)]
    fields = form_fields(request, decision)
    return [*read, *pages(fields)] if fields or not read else read


def form_view(
    request: HumanRequest,
    page: int,
    values: Mapping[str, Any],
    problems: Mapping[str, str] = _NO_PROBLEMS,
    *,
    decision: HumanDecision | None = None,
    may_decide: bool = True,
) -> Block:
    """Returns one page of a form, counted from 1. Values and problems are given by the names of the fields.

    Who may not decide reads without an end that decides, and without what is hidden.
    """
    decision = decision or form_decision(request)
    texts = reading_pages(request, reveals=may_decide)
    found = form_pages(request, decision, reveals=may_decide) if may_decide else [() for _ in texts]
    page = min(max(page, 1), len(found))
    is_last = page == len(found)
    sends = "Send" if decision is _D.ANSWER else "Approve"
    metadata = {"request": request.id, "page": page, "decision": decision.value, "seen": version(request)}
    if not texts:  # it stands on the card; the fields show the arguments that can be changed
        whole = [(kind, shown.text) for kind, shown in shown_texts(request)]
        parts = [] if page > 1 else [part for part in whole if decision is not _D.EDIT or part[0] is PartKind.ASKED]
    else:
        parts = texts[page - 1] if page <= len(texts) else []
    blocks = [title_block(request), *part_blocks(request, parts)]
    blocks += [block for field in found[page - 1] for block in _field_blocks(field, values, problems)]
    if decision is _D.EDIT and page == len(texts) + 1:
        blocks += _unchangeable(request)
    can_edit = may_decide and page == len(texts) and decision is _D.APPROVE and _D.EDIT in request.offered
    more = [button(BACK_ACTION, "Back", request.id)] if page > 1 else []
    more += [button(EDIT_ACTION, "Change arguments", request.id)] if can_edit and form_fields(request, _D.EDIT) else []
    submit = {"submit": plain(sends if is_last else "Next", _MAX_TITLE)} if may_decide or not is_last else {}
    return {
        "type": "modal",
        "callback_id": FORM_ACTION,
        "private_metadata": json.dumps(metadata),
        "title": plain(f"Page {page} of {len(found)}" if len(found) > 1 else "Your decision", _MAX_TITLE),
        **submit,
        "close": plain("Cancel" if may_decide else "Close", _MAX_TITLE),
        "blocks": [*blocks, *([actions(*more)] if more else [])],
    }


def message_view(title: str, text: str, *, names_people: bool = True) -> Block:
    """Returns a modal with a text, such as an error. ``names_people``: mentions are ours, and stay mentions."""
    shown = cut_text(safe(text, mentioned_ids(text) if names_people else frozenset()), MAX_SECTION_CHARACTERS)
    return {
        "type": "modal",
        "title": plain(title, _MAX_TITLE),
        "close": plain("Close", _MAX_TITLE),
        "blocks": [section(shown if shown.strip() else "…")],
    }


def _unchangeable(request: HumanRequest) -> Iterator[Block]:
    kept = unchangeable(request)
    if kept:
        names = ", ".join(word(name, 50) for name in kept[:20])
        yield context(f"Too long or secret, so these arguments stay as they are: {names}")


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
    for field in argument_fields(call) if (call := waiting_call(request)) else ():
        if _is_changeable(field):
            yield replace(field, name=argument_key(request, field.name), label=field.title)


def _is_changeable(field: FormField) -> bool:
    """Whether an input can show a field's current value completely, and nothing of it is secret."""
    text, reader = field.default if isinstance(field.default, str) else "", Reader()
    reader.json(json.loads(text) if field.placeholder == "JSON" and text else text, field.name)
    return len(text) <= MAX_INITIAL_CHARACTERS and not reader.has_hidden
