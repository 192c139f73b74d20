"""The rules of requests to people: which requests can be answered, who may decide, and what their answers lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import orjson

from swarm.domain.edited_arguments import TOO_COSTLY, argument_problem
from swarm.domain.errors import Invalid
from swarm.domain.model.grants import GRANTS
from swarm.domain.model.requests import (
    APPROVALS,
    MAX_ARGUMENT_BYTES,
    MAX_EXPIRES_SECONDS,
    MAX_FIELDS,
    MAX_NAME_CHARACTERS,
    MAX_NEED,
    MAX_OPTIONS,
    OPERATOR,
    DecisionPolicy,
    FieldType,
    FormField,
    HumanDecision,
    NewRequest,
    RequestAnswer,
    RequestStep,
    ToolRequest,
    is_json,
)
from swarm.domain.patterns import TooCostly, WorkLimit, fits_pattern

_STEPS: Final = {
    HumanDecision.REJECT: RequestStep.REJECT,
    HumanDecision.ANSWER: RequestStep.ANSWER,
}


def step_of(
    policy: DecisionPolicy, answers: Sequence[RequestAnswer], eligible: frozenset[str] | None
) -> RequestStep | None:
    """Returns the step that a request takes with these answers; None if more people have to decide.

    ``eligible`` are all who may decide; None if unknown. Rejects end a request when the approvals that it needs can no
    longer come together, with a veto at once. The operator's decision counts at once.
    """
    rejected = {answer.person for answer in answers if answer.decision is HumanDecision.REJECT}
    approved = [answer for answer in answers if answer.decision is not HumanDecision.REJECT]
    if answers and answers[-1].person == OPERATOR:
        return _STEPS.get(answers[-1].decision, RequestStep.APPROVE)
    if rejected and policy.veto:
        return RequestStep.REJECT
    if len({answer.person for answer in approved}) >= policy.need:
        return _STEPS.get(approved[0].decision, RequestStep.APPROVE)
    if rejected and eligible is not None and len(eligible - rejected) < policy.need:
        return RequestStep.REJECT
    return None


GroupMembers = Mapping[str, frozenset[str] | None]
"""The members of user groups; None for a group that Slack does not show."""


def eligible_people(policy: DecisionPolicy, requester: str | None, members: GroupMembers) -> frozenset[str] | None:
    """Returns everybody who may decide; None if that is not a known set of people."""
    if policy.not_requester and not policy.names_people:
        return None
    found = set(policy.users)
    for group in policy.groups:
        people = members.get(group)
        if people is None:
            return None
        found |= people
    if policy.requester and requester:
        found.add(requester)
    if policy.not_requester and requester:
        found.discard(requester)
    return frozenset(found)


def why_not(policy: DecisionPolicy, requester: str | None, person: str, members: GroupMembers) -> str | None:
    """Returns the reason why a person may not decide, as a sentence; None if they may.

    A group that Slack does not show permits nobody.
    """
    if policy.not_requester and person == requester:
        return "You asked for this, so somebody else has to decide."
    if person in policy.users or (policy.requester and person == requester):
        return None
    if any(person in (members.get(group) or ()) for group in policy.groups):
        return None
    if policy.not_requester and not policy.names_people:
        return None
    if any(members.get(group) is None for group in policy.groups):
        return "Slack does not say who belongs to the user group that may decide, so nobody of it can decide now."
    return "You are not among the people who may decide this."


def check_policy(policy: DecisionPolicy) -> None:
    """Raises Invalid for a policy under which nobody could decide."""
    problems: dict[str, str] = {}
    if policy.requester and policy.not_requester:
        problems["policy.requester"] = "not together with not_requester"
    if not 1 <= policy.need <= MAX_NEED:
        problems["policy.need"] = f"a number from 1 to {MAX_NEED}"
    known = len(set(policy.users)) + policy.requester
    if not policy.groups and not policy.not_requester and policy.need > max(known, 1):
        problems["policy.need"] = f"at most {max(known, 1)}, because no more people may decide"
    if problems:
        raise Invalid(f"Nobody could decide this: {', '.join(sorted(problems))}.", fields=problems)


def check_new(request: NewRequest) -> None:
    """Raises Invalid for a request that people could not answer."""
    problems: dict[str, str] = dict(_field_problems(request.fields))
    if not request.title.strip():
        problems["title"] = "a short text that says what is asked"
    names = (request.title, request.agent_request_id, request.key, request.tool.name if request.tool else "")
    if any("\0" in name for name in names):
        problems["request"] = "names and ids without NUL characters"
    if not set(request.decisions) & APPROVALS:
        problems["decisions"] = "at least one that is not 'reject'"
    if HumanDecision.EDIT in request.decisions and request.tool is None:
        problems["decisions"] = "'edit' only with a tool, whose arguments people can change"
    if set(request.decisions) & GRANTS.keys() and request.tool is None:
        problems["decisions"] = "'approve_thread' and 'approve_always' only with a tool"
    if not is_json(request):
        problems["request"] = "text without lone surrogates, and numbers of at most 64 bits"
    elif request.tool and len(orjson.dumps(dict(request.tool.arguments), default=str)) > MAX_ARGUMENT_BYTES:
        problems["tool.arguments"] = f"at most {MAX_ARGUMENT_BYTES} bytes of JSON"
    elif HumanDecision.EDIT in request.decisions:
        problems |= dict(_schema_problems(request.tool))
    if request.expires_seconds is not None and not 1 <= request.expires_seconds <= MAX_EXPIRES_SECONDS:
        problems["expires_seconds"] = f"from 1 to {MAX_EXPIRES_SECONDS}, or null for never"
    if problems:
        raise Invalid(f"This request cannot be shown: {', '.join(sorted(problems))}.", fields=problems)
    check_policy(request.policy)


def _field_problems(fields: Sequence[FormField]) -> Iterable[tuple[str, str]]:
    if len(fields) > MAX_FIELDS:
        yield "fields", f"at most {MAX_FIELDS}"
    names = [form_field.name for form_field in fields]
    if len(set(names)) < len(names):
        yield "fields", "with different names"
    for form_field in fields:
        if not 0 < len(form_field.name) <= MAX_NAME_CHARACTERS:
            yield "fields", f"with names of 1 to {MAX_NAME_CHARACTERS} characters"
        if form_field.type in (FieldType.SELECT, FieldType.MULTISELECT):
            if not form_field.options:
                yield f"fields.{form_field.name}", "options to choose from"
            elif len(form_field.options) > MAX_OPTIONS:
                yield f"fields.{form_field.name}", f"at most {MAX_OPTIONS} options"
            elif len({option.value for option in form_field.options}) < len(form_field.options):
                yield f"fields.{form_field.name}", "options with different values, because an answer is one value"
    steps = WorkLimit()
    for form_field in fields:
        try:
            fits_pattern(form_field.pattern or "", "", steps)
        except TooCostly:
            yield f"fields.{form_field.name}", "a shorter pattern, or none: this one takes too long to check"
            return


def _schema_problems(tool: ToolRequest | None) -> Iterable[tuple[str, str]]:
    """Refuses a schema with which nobody could change arguments: the call's own take too long to check."""
    problem = argument_problem(tool, tool.arguments) if tool else None
    if problem and problem[1] == TOO_COSTLY:
        yield "tool.schema", "a simpler schema, or none, or no 'edit': the arguments take too long to check against it"
