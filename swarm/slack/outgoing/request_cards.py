"""The message that shows a request to people: what is asked, who may decide, and how it ended.

The card is drawn from the request alone, so that every copy can be brought up to date at any time. First stands the
call with a title of ours, below it what the agent says, as a quote. *Approve* stands on a card only if the card shows
everything (`swarm.domain.requests.shown`); otherwise people read and decide in the form. The values of the buttons are
the request's id, and their row begins with the version of the card, so that a press tells what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from swarm.domain.model.grants import GRANTS, GrantScope
from swarm.domain.model.requests import HumanDecision, HumanRequest
from swarm.domain.policy.decision_rules import deciders_text
from swarm.domain.requests.button_actions import DECIDE_ACTION, FOR_EVERYBODY, FORM_ACTION
from swarm.domain.requests.shown import PartKind, fits_card, shown_texts, title_runs, version
from swarm.domain.requests.texts import card_text, listed
from swarm.domain.text.slack_text import safe, with_targets
from swarm.slack.outgoing.answer_blocks import cut_text
from swarm.slack.outgoing.block_parts import (
    Block,
    actions,
    button,
    context,
    cut,
    date,
    group,
    line,
    person,
    plain,
    preformatted,
    quote,
    rich,
    visible,
    word,
)
from swarm.slack.outgoing.form_inputs import input_block, is_external
from swarm.slack.outgoing.request_outcomes import outcome_blocks

MAX_INLINE_FIELDS: Final = 5
MAX_MESSAGE_CHARACTERS: Final = 10_000
"""The maximum size of a message with inputs. Slack was seen to refuse messages of about 13,000 characters."""

_MAX_TEXT: Final = 1_000
_DAY_SECONDS: Final = 24 * 3600

_D = HumanDecision
_LABELS: Final = {
    _D.APPROVE: ("Approve", "primary"),
    _D.ANSWER: ("Send", "primary"),
    _D.EDIT: ("Change arguments", None),
    _D.REJECT: ("Reject", "danger"),
    _D.APPROVE_THREAD: ("Allow here", None),
    _D.APPROVE_ALWAYS: ("Allow for my work", None),
}
_FOR_EVERYBODY: Final = "Allow for everybody"
_ORDER: Final = (_D.APPROVE, _D.ANSWER, _D.EDIT, _D.REJECT)
_FILLED_IN: Final = (_D.APPROVE, _D.ANSWER)


def request_text(request: HumanRequest) -> str:
    """Returns a request as plain text for notifications."""
    prompt = safe(cut(with_targets(request.question), _MAX_TEXT)) if request.is_open else ""
    return cut_text("\n".join(filter(None, [card_text(request), prompt])), _MAX_TEXT)


def request_blocks(request: HumanRequest, asked_in: str = "") -> list[Block]:
    """Returns the card of a request, with buttons and inputs only while it is open.

    ``asked_in`` says on a card outside of the request's thread, as mrkdwn, where it was asked.
    """
    fits = fits_card(request)
    asked = [title_block(request), *([context(asked_in)] if asked_in else [])]
    asked += part_blocks(request, [(kind, shown.on_card) for kind, shown in shown_texts(request)])
    if not request.is_open:
        read = [] if fits else [actions(button(FORM_ACTION, "Read", request.id))]
        return [*asked, *outcome_blocks(request), *read]
    inline = needs_form(request) and is_inline(request)
    inputs = [input_block(field, {}) for field in request.fields] if inline else []
    remark = [context(safe(request.reason))] if request.reason else []
    below = context(_who_asks(request), " · ".join(_who_decides(request)))
    return [*asked, *inputs, *remark, *_buttons(request, has_form=needs_form(request) and not inline, fits=fits), below]


def title_block(request: HumanRequest) -> Block:
    """Returns the title of a request."""
    runs = zip(title_runs(request), ("bold", "code"), strict=True)
    return rich(line(*((text, style) for text, style in runs if text)))


def part_blocks(request: HumanRequest, parts: Iterable[tuple[PartKind, str]]) -> Iterator[Block]:
    """Yields what is read: a call as it is, and the asker's words as a quote."""
    says = [context(f"*{word(request.agent) or 'The agent'}* says")] if request.tool else []
    for kind, text in parts:
        if not text.strip():
            continue
        if kind is PartKind.CALL:
            yield rich(preformatted(text))
        elif request.budget is not None:  # the coordinator asks
            yield rich(line((text, "")))
        else:
            yield from says
            yield rich(quote(text))
            says = []


def needs_form(request: HumanRequest) -> bool:
    """Whether values are still needed. The first person's values stand, and the others approve them."""
    return bool(request.fields) and request.entered is None


def is_inline(request: HumanRequest) -> bool:
    """Whether the form is short enough for the message itself."""
    if len(request.fields) > MAX_INLINE_FIELDS or any(map(is_external, request.fields)):
        return False
    inputs = orjson.dumps([input_block(field, {}) for field in request.fields]).decode()
    shown = sum(len(shown.text) for _, shown in shown_texts(request))
    return fits_card(request) and len(inputs) + shown <= MAX_MESSAGE_CHARACTERS


def _buttons(request: HumanRequest, *, has_form: bool, fits: bool) -> list[Block]:
    shown = [decision for decision in _ORDER if decision in request.offered]
    row, grants = [], _grants(request)
    if has_form or not fits:
        shown = [decision for decision in shown if decision is _D.REJECT or (fits and decision not in _FILLED_IN)]
        grants = []
        row = [button(FORM_ACTION, "Open the form" if fits else "Read and decide", request.id, style="primary")]
    row += [_decision(request, decision) for decision in shown]
    seen = version(request)
    return [actions(*found, block_id=f"{seen}:{name}") for name, found in (("", row), ("grants", grants)) if found]


def _grants(request: HumanRequest) -> list[Block]:
    """Returns the buttons that give a grant. The card is for everybody: who may not press one is told so then."""
    policy = request.policy
    is_named = bool(policy.groups) or not set(policy.users).isdisjoint(request.requesters)
    by_requester = not policy.not_requester and (policy.requester or is_named)
    given = [decision for decision in GRANTS if decision in request.decisions]
    row = [
        _decision(request, one) for one in given if by_requester or (one is _D.APPROVE_THREAD and policy.names_people)
    ]
    if policy.names_people and _D.APPROVE_ALWAYS in given:
        action_id = f"{DECIDE_ACTION}{_D.APPROVE_ALWAYS}{FOR_EVERYBODY}"
        confirm = _confirm(request, _D.APPROVE_ALWAYS, for_everybody=True)
        row.append(button(action_id, _FOR_EVERYBODY, request.id, confirm=confirm))
    return row


def _decision(request: HumanRequest, decision: HumanDecision) -> Block:
    label, style = _LABELS[decision]
    if decision is _D.ANSWER and request.fields and not needs_form(request):  # the first person's values stand
        label = _LABELS[_D.APPROVE][0]
    confirm = _confirm(request, decision) if decision in GRANTS else None
    return button(DECIDE_ACTION + decision, label, request.id, style=style, confirm=confirm)


def _confirm(request: HumanRequest, decision: HumanDecision, *, for_everybody: bool = False) -> Block:
    scope, seconds = GRANTS[decision]
    where = "in this thread" if scope is GrantScope.THREAD else "everywhere"
    whose = "for everybody's work" if for_everybody else "for work that you ask for"
    if scope is GrantScope.THREAD and request.policy.names_people:
        whose += ", or for everybody's if my operator's rules name you"
    tool = cut(visible(request.tool.name), 60) if request.tool else "this tool"
    agent = cut(visible(request.agent), 60)
    days = seconds // _DAY_SECONDS
    return {
        "title": plain(_FOR_EVERYBODY if for_everybody else _LABELS[decision][0], 100),
        "text": plain(f"{agent} may use {tool} {where} for {days} days without asking, {whose}.", 300),
        "confirm": plain("Allow", 30),
        "deny": plain("Cancel", 30),
    }


def _who_asks(request: HumanRequest) -> str:
    asker = f"asked by *{word(request.agent) or 'an agent'}*"
    return f"{asker} for {listed(list(map(person, request.requesters)))}" if request.requesters else asker


def _who_decides(request: HumanRequest) -> list[str]:
    policy = request.policy
    parts = [f"{request.run_ended} of {request.run_total} answered"] if request.run_total > 1 else []
    parts.append(f"{deciders_text(policy, request.requesters, person, group)} may decide")
    ends = "one rejection ends it" if policy.veto else ""
    if policy.need > 1:
        given = [person(answer.person) for answer in request.answers if answer.decision is not _D.REJECT]
        so_far = f"{len(given)} so far: {listed(given)}" if given else "0 so far"
        parts.append("; ".join(filter(None, [f"needs {policy.need} approvals ({so_far})", ends])))
    elif ends:
        parts.append(ends)
    rejected = [person(answer.person) for answer in request.answers if answer.decision is _D.REJECT]
    if rejected:
        parts.append(f"rejected by {listed(rejected)}")
    parts.append(f"until {date(request.expires_at)}" if request.expires_at is not None else "without a time limit")
    return parts
