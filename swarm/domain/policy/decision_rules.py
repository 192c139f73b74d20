"""The rules of requests to people: which requests can be answered, who may decide, and what their answers lead to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

import orjson
from pydantic import Field, field_validator, model_validator

from swarm.domain.errors import Invalid
from swarm.domain.model.grants import GRANTS, Grant, GrantCovers
from swarm.domain.model.requests import (
    APPROVALS,
    BY_REQUESTER,
    MAX_ARGUMENT_BYTES,
    MAX_DIFF_BYTES,
    MAX_EXPIRES_SECONDS,
    MAX_FIELDS,
    MAX_NAME_CHARACTERS,
    MAX_NEED,
    MAX_OPTIONS,
    MAX_PROMPT_CHARACTERS,
    OPERATOR,
    DecisionPolicy,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestAnswer,
    RequestStep,
    ToolRequest,
    is_json,
)
from swarm.domain.patterns import TooCostly, WorkLimit, fits_pattern
from swarm.domain.policy.section import CHANNEL_ID, Section
from swarm.domain.requests.edited_arguments import TOO_COSTLY, argument_problem
from swarm.domain.text.diffs import unified
from swarm.domain.tool_names import tool_key, tool_name_problem
from swarm_base.characters import is_blank

_MAX_NAMED: Final = 5  # people in a sentence

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


GroupMembers = Callable[[str], frozenset[str] | None]
"""Returns the members of a user group; None for one that Slack does not show, or that is not known now."""


def asked_policy(policy: DecisionPolicy, *, by_strangers: bool) -> DecisionPolicy:
    """Returns who decides on a request that names nobody but its requesters.

    If all of them are strangers, any member may decide who may use the agent there.
    """
    if by_strangers and policy.requester and not policy.names_people:
        return replace(policy, requester=False, not_requester=True)
    return policy


def eligible_people(
    policy: DecisionPolicy, requesters: Collection[str], members: GroupMembers, strangers: Collection[str] = ()
) -> frozenset[str] | None:
    """Returns everybody who may decide; None if that is not a known set of people. ``strangers`` are the requesters who
    are not known to be members of the workspace.
    """
    if policy.not_requester and not policy.names_people:
        return None
    found = set(policy.users)
    for group in policy.groups:
        people = members(group)
        if people is None:
            return None
        found |= people
    if policy.requester:
        found.update(one for one in requesters if one not in strangers)
    if policy.not_requester:
        found.difference_update(requesters)
    return frozenset(found)


def why_not(
    policy: DecisionPolicy, requesters: Collection[str], person: str, members: GroupMembers, *, is_member: bool
) -> str | None:
    """Returns the reason why a person may not decide, as a sentence; None if they may.

    Guests and people of other workspaces may decide only if they are named, by id or by group, whoever asked. A group
    that Slack does not show permits nobody.
    """
    if policy.not_requester and person in requesters:
        return "You asked for this, so somebody else has to decide."
    if is_named(policy, person, members):
        return None
    is_open_to_members = policy.not_requester and not policy.names_people
    if is_open_to_members or (policy.requester and person in requesters):
        return None if is_member else "Only members of this workspace can decide this."
    if any(members(group) is None for group in policy.groups):
        return "Slack does not say who belongs to the user group that may decide, so nobody of it can decide now."
    return f"Only {deciders_text(policy, requesters)} can decide this."


def is_named(policy: DecisionPolicy, person: str, members: GroupMembers) -> bool:
    """Whether a policy names a person, by id or by group."""
    return person in policy.users or any(person in (members(group) or ()) for group in policy.groups)


def deciders_text(
    policy: DecisionPolicy,
    requesters: Collection[str],
    person: Callable[[str], str] = "<@{}>".format,
    group: Callable[[str], str] | None = None,
) -> str:
    """Returns who may decide, in words. Without ``group``, which names a user group, it is that on the card."""
    people = dict.fromkeys([*(requesters if policy.requester else ()), *policy.users])
    named = [person(one) for one in people if not (policy.not_requester and one in requesters)]
    if len(named) > _MAX_NAMED:
        named = [*named[:_MAX_NAMED], f"{len(named) - _MAX_NAMED} others"]
    named += map(group, policy.groups) if group else ["a member of the user group on the card"] * bool(policy.groups)
    if policy.not_requester and not policy.names_people:
        named = ["another member of this workspace"]
    text = " or ".join(filter(None, [", ".join(named[:-1]), *named[-1:]])) or "the operator"
    is_narrowed = group and policy.not_requester and policy.names_people and requesters
    return f"{text}, but not {' or '.join(map(person, requesters))}," if is_narrowed else text


def may_cover(person: str, requesters: Collection[str], *, everybody: bool, is_named: bool) -> GrantCovers | None:
    """Returns whose work a person's grant covers; None if the person may not give it.

    Requesters allow their own work. The operator, and who is named in the operator's rules, allow it to everybody: with
    the wish for it, or if the work is not their own.
    """
    if person == OPERATOR:
        return GrantCovers.EVERYBODY
    if person in requesters and not everybody:
        return GrantCovers.GIVER
    return GrantCovers.EVERYBODY if is_named else None


def grant_counts(grant: Grant, request: HumanRequest, given: DecisionPolicy | None, *, by_members: bool) -> bool:
    """Whether a grant for this tool may decide on a request, without asking.

    ``given`` is the policy under which the grant was given: people cannot allow in one place what only others may allow
    in another. ``by_members``: all requesters are members; strangers' work uses only the operator's grants.
    """
    if grant.given_by == OPERATOR:
        return True
    if not by_members or (request.policy != BY_REQUESTER and request.policy != given):
        return False
    if grant.covers is GrantCovers.EVERYBODY:
        return not (request.policy.not_requester and grant.given_by in request.requesters)
    return set(request.requesters) == {grant.given_by} and not request.policy.not_requester


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


class DecisionRule(Section):
    """Who decides on the requests of some agents, in some channels, for some tools."""

    agent: str | None = Field(None, description="an agent's name, or a pattern such as deploy-*; null: all")
    channel: str | None = Field(None, pattern=CHANNEL_ID.pattern, description="a channel id; null: all")
    tool: str | None = Field(
        None, description="a tool's name, or a pattern such as git*; null: also forms, and calls that name no tool"
    )
    users: tuple[str, ...] = Field((), description="user ids of people who may decide")
    groups: tuple[str, ...] = Field((), description="ids of user groups (S…) whose members may decide")
    requester: bool = Field(False, description="the person for whom the agent works may decide")
    not_requester: bool = Field(False, description="the person for whom the agent works may not decide")
    need: int = Field(1, ge=1, le=MAX_NEED, description="how many different people have to approve")
    veto: bool = Field(False, description="one rejection ends the request")
    direct_message: bool = Field(
        False, description="who may decide also gets the card as a direct message, and one reminder"
    )

    @property
    def policy(self) -> DecisionPolicy:
        """Who may decide."""
        return DecisionPolicy(**self.model_dump(exclude={"agent", "channel", "tool"}))

    def applies(self, agent: str, channel: str | None, tool: str | None) -> bool:
        """Whether the rule is about such a request."""
        return (
            (self.agent is None or fnmatchcase(agent, self.agent.casefold()))
            and (self.channel is None or channel == self.channel)
            and (self.tool is None or (tool is not None and fnmatchcase(tool_key(tool), tool_key(self.tool))))
        )

    @field_validator("tool")
    @classmethod
    def _can_match(cls, tool: str | None) -> str | None:
        if tool is not None and (problem := tool_name_problem(tool)):
            raise ValueError(f"no tool can have this name; {problem} is expected")
        return tool

    @model_validator(mode="after")
    def _can_be_decided(self) -> DecisionRule:
        try:
            check_policy(self.policy)
        except Invalid as error:
            problems = (f"{name.removeprefix('policy.')}: {expected}" for name, expected in error.fields.items())
            raise ValueError(f"nobody could decide: {'; '.join(problems)}") from error
        return self


def check_new(request: NewRequest, steps: WorkLimit | None = None) -> None:
    """Raises Invalid for a request that people could not answer.

    Its patterns and its schema take up to a tenth of a second, so not in a transaction. ``steps``: shared with others.
    """
    steps = steps or WorkLimit()
    problems: dict[str, str] = dict(_field_problems(request.fields, steps))
    if is_blank(request.title):
        problems["title"] = "a short text that says what is asked"
    names = (request.title, request.agent_request_id, request.key)
    if any("\0" in name for name in names):
        problems["request"] = "names and ids without NUL characters"
    if request.tool and (problem := tool_name_problem(request.tool.name)):
        problems["tool.name"] = problem
    if not set(request.decisions) & APPROVALS:
        problems["decisions"] = "at least one that is not 'reject'"
    if HumanDecision.EDIT in request.decisions and request.tool is None:
        problems["decisions"] = "'edit' only with a tool, whose arguments people can change"
    if set(request.decisions) & GRANTS.keys() and request.tool is None:
        problems["decisions"] = "'approve_thread' and 'approve_always' only with a tool"
    if not is_json(request):
        problems["request"] = "text without lone surrogates, and numbers of at most 64 bits"
    elif request.tool:
        problems |= _size_problems(request.tool)
        if HumanDecision.EDIT in request.decisions and not problems:
            problems |= _schema_problems(request.tool, steps)
    if len(request.prompt) > MAX_PROMPT_CHARACTERS:
        problems["prompt"] = f"at most {MAX_PROMPT_CHARACTERS:,} characters, because people read all of it"
    if HumanDecision.EDIT in request.decisions and request.tool and request.tool.diffs:
        problems["decisions"] = "'edit' not with diffs, which changed arguments would not change"
    if request.expires_seconds is not None and not 1 <= request.expires_seconds <= MAX_EXPIRES_SECONDS:
        problems["expires_seconds"] = f"from 1 to {MAX_EXPIRES_SECONDS}, or null for never"
    if problems:
        raise Invalid(f"This request cannot be shown: {', '.join(sorted(problems))}.", fields=problems)
    check_policy(request.policy)


def _size_problems(tool: ToolRequest) -> Iterable[tuple[str, str]]:
    if len(orjson.dumps(dict(tool.arguments), default=str)) > MAX_ARGUMENT_BYTES:
        yield "tool.arguments", f"at most {MAX_ARGUMENT_BYTES:,} bytes of JSON, because people read all of it"
    if len(orjson.dumps(dict(tool.schema), default=str)) > MAX_ARGUMENT_BYTES:
        yield "tool.schema", f"at most {MAX_ARGUMENT_BYTES:,} bytes of JSON"
    size = sum(len(line.encode()) + 1 for diff in tool.diffs for line in unified(diff.old or "", diff.new))
    if size + len(orjson.dumps([[diff.path for diff in tool.diffs], tool.locations])) > MAX_DIFF_BYTES:
        yield "tool.diffs", f"at most {MAX_DIFF_BYTES:,} bytes as a unified diff, because people read all of it"


def _field_problems(fields: Sequence[FormField], steps: WorkLimit) -> Iterable[tuple[str, str]]:
    if len(fields) > MAX_FIELDS:
        yield "fields", f"at most {MAX_FIELDS}"
    names = [form_field.name for form_field in fields]
    if len(set(names)) < len(names):
        yield "fields", "with different names"
    for form_field in fields:
        if is_blank(form_field.name) or len(form_field.name) > MAX_NAME_CHARACTERS:
            yield "fields", f"with names of 1 to {MAX_NAME_CHARACTERS} characters"
        if form_field.type in (FieldType.SELECT, FieldType.MULTISELECT):
            if not form_field.options:
                yield f"fields.{form_field.name}", "options to choose from"
            elif len(form_field.options) > MAX_OPTIONS:
                yield f"fields.{form_field.name}", f"at most {MAX_OPTIONS} options"
            elif any(is_blank(option.title) for option in form_field.options):
                yield f"fields.{form_field.name}", "options with a label or a value that people can see"
            elif len({option.value for option in form_field.options}) < len(form_field.options):
                yield f"fields.{form_field.name}", "options with different values, because an answer is one value"
    for form_field in fields:
        try:
            fits_pattern(form_field.pattern or "", "", steps)
        except TooCostly:
            yield f"fields.{form_field.name}", "a shorter pattern, or none: this one takes too long to check"
            return


def _schema_problems(tool: ToolRequest, steps: WorkLimit) -> Iterable[tuple[str, str]]:
    """Refuses a schema with which nobody could change arguments: the call's own take too long to check."""
    problem = argument_problem(tool, tool.arguments, steps)
    if problem and problem[1] == TOO_COSTLY:
        yield "tool.schema", "a simpler schema, or none, or no 'edit': the arguments take too long to check against it"
