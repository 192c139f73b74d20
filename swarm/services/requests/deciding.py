"""Decides on requests. Every entry point decides here: Slack, the API, the terminal.

Who may act: the people whom the request's policy names, checked against the stored record at the moment of the
decision, and the operator. Guarantee: one decision counts, whoever presses first, however often and wherever; the next
person is told who it was. Refused attempts change nothing but the audit. What people enter is compared with the schemas
and patterns of others before the transaction, which stores it only for the same question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from swarm.clock import to_iso
from swarm.domain.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotRead,
    Outdated,
    RateLimited,
    SwarmError,
    Unavailable,
)
from swarm.domain.model.grants import GRANTS, AuditKind, GrantCovers
from swarm.domain.model.requests import (
    OPERATOR,
    Decide,
    DecisionPolicy,
    EntryPoint,
    HumanDecision,
    HumanRequest,
    RequestAnswer,
    RequestStatus,
    RequestStep,
    ToolRequest,
)
from swarm.domain.model.threads import Author, Standing
from swarm.domain.policy.access import why_press_refused
from swarm.domain.policy.decision_rules import GroupMembers, is_named, may_cover, step_of, why_not
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import NO_GROUPS, UserGroups
from swarm.domain.requests.edited_arguments import argument_problem, changed_arguments
from swarm.domain.requests.forms import fill
from swarm.domain.requests.shown import has_read, version, waiting_call
from swarm.domain.requests.texts import outcome_text, person_text
from swarm.services.requests.asking import eligible_now, ended, lock_work, refresh_cards
from swarm.services.requests.budgets import settle_budget
from swarm.services.speaking.participants import LIMITED_TEXT, UNVERIFIED_TEXT, Standings, limited_since
from swarm.store import deliveries, grants, requests
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads

Place = tuple[str, str]
"""The channel and the timestamp of the message with the pressed button."""

_UNKNOWN: Final = "There is no such request. It may have been deleted."
_NOT_FOR_ALL: Final = (
    "Only my operator, and people whom the operator's rules name, can allow this for everybody. You can approve this "
    "call, or allow it for your own work."
)
_NOT_YOUR_WORK: Final = "Only who asked for this can allow it for their own work. You can approve this call."
_APPROVED_AS_IT_IS: Final = "Somebody has approved this call, so its arguments cannot be changed any more."
_NOTHING: Final[Mapping[str, Any]] = {}

_log = structlog.get_logger(__name__)


class RequestDecisions:
    """The decisions of people. Methods return after the commit; an error means that nothing has changed but the audit.

    ``standings`` verifies people in Slack; None: a process without Slack, in which only the operator decides.
    """

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        team: str,
        groups: UserGroups,
        standings: Standings | None,
    ) -> None:
        self._team = team
        self._database = database
        self._operating_policy = operating_policy
        self._groups = groups
        self._standings = standings

    async def show(
        self, request_id: str, person: str, place: Place | None = None
    ) -> tuple[HumanRequest, dict[str, Any]]:
        """Returns a request, and what the person has entered so far. Raises NotFound, also in another place."""
        return await self._database.read(_shown, request_id, person, place)

    async def fill_in(self, wish: Decide, place: Place | None = None) -> tuple[HumanRequest, dict[str, Any]]:
        """Returns a request as `show` does, for a person who may decide so now. Raises as `decide`, but for values."""
        _, person, members = await self._who(wish, place)
        return await self._database.read(self._fill_in, wish, person, members)

    def _fill_in(
        self, tx: Transaction, wish: Decide, person: Author | None, members: GroupMembers
    ) -> tuple[HumanRequest, dict[str, Any]]:
        request, draft = _shown(tx, wish.request_id, wish.person, None)
        if refusal := self._refusal(tx, request, wish, person, members):
            raise refusal
        return request, draft

    async def keep(self, request_id: str, person: str, values: Mapping[str, Any]) -> None:
        """Stores what a person has entered on a page of the form."""
        await self._database.write(requests.keep_draft, request_id, person, values)

    async def note_attempt(self, person: str, request_id: str, outcome: str) -> None:
        """Records an attempt with values that no button or form of ours sends."""
        await self._database.write(self._note_attempt, person, request_id[:200], outcome)

    @staticmethod
    def _note_attempt(tx: Transaction, person: str, request_id: str, outcome: str) -> None:
        request = requests.get(tx, request_id)
        grants.note(tx, AuditKind.REFUSED, outcome[:500], request, person=person, request_id=request_id)

    async def decide(self, wish: Decide, place: Place | None = None) -> HumanRequest:
        """Stores a person's decision. Returns the request, which is still open if more people have to decide.

        Raises NotFound, Conflict if it is decided already (with who and when) or too late, Forbidden for who may not
        decide, and Invalid with the names of the fields.
        """
        request, person, members = await self._who(wish, place)
        # Values and arguments are compared with what others wrote, so not in a transaction, and not on the event loop.
        checked = await asyncio.to_thread(_checked, request, wish)
        result = await self._database.write(self._decide, wish, person, members, request, checked)
        if isinstance(result, SwarmError):
            raise result
        _log.info("A person has decided.", action="decide", request=result.id, status=result.status.value)
        return result

    def _decide(
        self,
        tx: Transaction,
        wish: Decide,
        person: Author | None,
        members: GroupMembers,
        shown: HumanRequest,
        checked: RequestAnswer | SwarmError,
    ) -> HumanRequest | SwarmError:
        """Stores an answer that was checked for the request as it was then, or notes why it is refused."""
        if person and limited_since(tx, self._team, person.id, self._operating_policy) is not None:  # before any lock
            return RateLimited(LIMITED_TEXT, retry_after_seconds=60)
        request = lock_work(tx, wish.request_id)
        if request is None:
            return NotFound(_UNKNOWN)
        refusal = self._refusal(tx, request, wish, person, members)
        seen = version(shown) if wish.seen is None else wish.seen
        if refusal is None and not seen == version(shown) == version(request):
            refresh_cards(tx, request.id)  # also where an earlier update has failed
            refusal = Outdated()
        if refusal is None:
            if not _is_read(tx, request, wish):
                return NotRead()
            if isinstance(checked, RequestAnswer):
                call = waiting_call(request)
                is_changed = call and checked.arguments is not None and checked.arguments != call.arguments
                if is_changed and request.is_approved_by_some:
                    return Conflict(_APPROVED_AS_IT_IS, hint="Approve it as it is, or reject it.")
                covers = self._covers(tx, request, wish, members)
                return _stored(tx, request, checked, members, covers, self._operating_policy)
            if isinstance(checked, Invalid):  # a slip in a form is no attempt
                return checked
            refusal = checked
        grants.note(tx, AuditKind.REFUSED, f"{wish.decision}: {refusal.message}", request, person=wish.person)
        return refusal

    async def _who(self, wish: Decide, place: Place | None) -> tuple[HumanRequest, Author | None, GroupMembers]:
        """Returns the request, the person (None: the operator), and the members of the groups that may decide.

        Raises NotFound.
        """
        request, channel = await self._database.read(self._wanted, wish, place)
        if wish.person == OPERATOR:
            return request, None, NO_GROUPS.known_members
        if self._standings is None:
            raise Unavailable("This process has no connection to Slack, so it cannot tell who may decide.")
        person = await self._standings.presser(wish.person, wish.team, channel, _concerned(request))
        groups = dict.fromkeys(request.policy.groups)
        found = await asyncio.gather(*(self._groups.group_members(group) for group in groups))
        return request, person, dict(zip(groups, found, strict=True)).get

    def _wanted(self, tx: Transaction, wish: Decide, place: Place | None) -> tuple[HumanRequest, str]:
        request, _ = _shown(tx, wish.request_id, wish.person, place)
        return request, _channel_of(tx, request)

    def _refusal(
        self, tx: Transaction, request: HumanRequest, wish: Decide, person: Author | None, members: GroupMembers
    ) -> SwarmError | None:
        """Returns why this decision is not possible now, whatever its values."""
        channel = _channel_of(tx, request)
        if refusal := why_refused(tx, request, person, channel, members, self._operating_policy):
            return refusal
        if wish.decision not in request.decisions:
            return Invalid(
                f"This request does not allow to {wish.decision.replace('_', ' ')}.",
                fields={"decision": f"one of {', '.join(request.decisions)}"},
            )
        if wish.decision in GRANTS and self._covers(tx, request, wish, members) is None:
            return Forbidden(_NOT_FOR_ALL if wish.for_everybody else _NOT_YOUR_WORK)
        return None

    def _covers(
        self, tx: Transaction, request: HumanRequest, wish: Decide, members: GroupMembers
    ) -> GrantCovers | None:
        """Returns whose work a grant by this decision covers; None if the person may not give it."""
        channel = _channel_of(tx, request)
        tool = request.tool.name if request.tool else None
        rule = self._operating_policy.decision_policy(request.agent, channel or None, tool, DecisionPolicy())
        named = is_named(rule, wish.person, members)
        return may_cover(wish.person, request.requesters, everybody=wish.for_everybody, is_named=named)


def _channel_of(tx: Transaction, request: HumanRequest) -> str:
    thread = threads.get(tx, request.thread_id)
    return thread.channel if thread else ""


def _concerned(request: HumanRequest) -> list[str]:
    """Returns the agent that a person must be allowed to use for a decision, unless the policy names people."""
    return [] if request.policy.names_people else [request.agent]


def why_refused(
    tx: Transaction,
    request: HumanRequest,
    person: Author | None,
    channel: str,
    members: GroupMembers,
    operating_policy: OperatingPolicy,
) -> SwarmError | None:
    """Returns why a person (None: the operator) cannot decide now, whatever the decision; None if they can."""
    if not request.is_open:
        return Conflict(f"This is decided already: {outcome_text(request)}.")
    if request.is_late(tx.now):
        return Conflict("This is too late: the time to decide is over.")
    if person:
        denied = operating_policy.denial(person, channel, _concerned(request)) if channel else None
        if denied:
            return Unavailable(UNVERIFIED_TEXT) if denied.missing else Forbidden(why_press_refused(denied, person))
        is_member = person.standing is Standing.MEMBER
        reason = why_not(request.policy, request.requesters, person.id, members, is_member=is_member)
        if reason:
            return Forbidden(reason) if person.standing else Unavailable(UNVERIFIED_TEXT)
    if any(answer.person == (person.id if person else OPERATOR) for answer in request.answers):
        return Conflict("You have decided already; somebody else has to decide as well.")
    return None


def _is_read(tx: Transaction, request: HumanRequest, wish: Decide) -> bool:
    """Whether a person in Slack was shown everything before an approval. The other doors show a request whole."""
    if wish.decision is HumanDecision.REJECT or wish.door is not EntryPoint.SLACK:
        return True
    return has_read(request, requests.draft(tx, request.id, wish.person))


def _shown(tx: Transaction, request_id: str, person: str, place: Place | None) -> tuple[HumanRequest, dict[str, Any]]:
    request = requests.get(tx, request_id)
    if request is None or (place and not _is_card_of(tx, request, place)):
        raise NotFound(_UNKNOWN)
    return request, requests.draft(tx, request_id, person)


def _is_card_of(tx: Transaction, request: HumanRequest, place: Place) -> bool:
    """Whether a message may show a request: one of its cards, or a card whose timestamp is not known yet."""
    channel, ts = place
    cards = deliveries.of_request(tx, request.id)
    return any(card["channel"] == channel and card["sent_ts"] in (ts, None) for card in cards)


def _checked(request: HumanRequest, wish: Decide) -> RequestAnswer | SwarmError:
    """Returns the answer with typed values, or what is wrong with them."""
    values: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    # The first person's values stand, and the others approve them.
    if wish.decision is not HumanDecision.REJECT and request.fields and request.entered is None:
        filled = fill(request.fields, wish.values or _NOTHING)
        if filled.problems:
            return _invalid(filled.problems)
        values = filled.values
    elif wish.values and not request.fields:
        return _invalid(dict.fromkeys(wish.values, "there is no such field"))
    call = waiting_call(request)
    if wish.decision is HumanDecision.EDIT and call:
        edits = _edited(call, wish.arguments or _NOTHING)
        if isinstance(edits, SwarmError):
            return edits
        arguments = edits
    elif wish.arguments is not None and call and dict(wish.arguments) != dict(call.arguments):
        return Conflict(
            "These are not the arguments that were shown, so nothing was approved.",
            hint="Decide 'edit' to change the arguments.",
        )
    return RequestAnswer(
        person=wish.person, decision=wish.decision, at=0, door=wish.door, values=values, arguments=arguments
    )


def _edited(tool: ToolRequest, given: Mapping[str, Any]) -> Mapping[str, Any] | SwarmError:
    """Returns the arguments in place of the shown ones, from a form or as JSON. Untouched arguments stay exactly."""
    try:
        arguments, problems = changed_arguments(tool, given)
    except ValueError as wrong:
        name, _, problem = str(wrong).partition(": ")
        return _invalid({name: problem})
    if not problems and (found := argument_problem(tool, arguments)):
        problems = dict([found])
    return _invalid(problems) if problems else arguments


def _invalid(problems: Mapping[str, str]) -> Invalid:
    return Invalid(f"Not valid: {', '.join(sorted(problems))}.", fields=problems)


def decide_in_words(
    tx: Transaction,
    request: HumanRequest | None,
    wish: Decide,
    members: GroupMembers,
    operating_policy: OperatingPolicy,
) -> HumanRequest | None:
    """Stores the decision of a person who may decide, on a request that is locked, and returns the request; None if it
    does not fit.
    """
    if request is None or not request.is_open:
        return None
    answer = _checked(request, wish)
    if isinstance(answer, SwarmError):
        return None
    result = _stored(tx, request, answer, members, None, operating_policy)
    return None if isinstance(result, SwarmError) else result


def _stored(
    tx: Transaction,
    request: HumanRequest,
    answer: RequestAnswer,
    members: GroupMembers,
    covers: GrantCovers | None,
    operating_policy: OperatingPolicy,
) -> HumanRequest | SwarmError:
    """Stores an answer that is allowed and valid, and what follows from it."""
    answer = replace(answer, at=tx.now)
    if not requests.answer(tx, request.id, answer):
        return Conflict("You have decided already.")
    step = step_of(request.policy, (*request.answers, answer), eligible_now(tx, request, members))
    grants.note(tx, AuditKind.DECIDED, f"{answer.decision} by {answer.door}", request, person=answer.person)
    if step is None:
        return refresh_cards(tx, request.id)
    who = "the operator" if answer.person == OPERATOR else person_text(answer.person)
    if not requests.move(tx, step, request, f"{answer.decision} by {who} at {to_iso(tx.now)}"):
        return Conflict("This has been decided in the meantime.")
    over = ended(tx, request.id)
    if covers and answer.decision in GRANTS:
        _give_grant(tx, over, answer, covers)
    settle_budget(tx, over, operating_policy)
    return over


def _give_grant(tx: Transaction, request: HumanRequest, answer: RequestAnswer, covers: GrantCovers) -> None:
    if request.status is not RequestStatus.APPROVED or request.tool is None:
        return
    scope, seconds = GRANTS[answer.decision]
    if scope.value == "thread" and request.thread_id is None:
        return
    grant = grants.give(tx, request, scope, seconds, answer.person, covers=covers)
    whose = "for everybody" if covers is GrantCovers.EVERYBODY else "for the giver's work"
    until = f"until {to_iso(grant.expires_at)}" if grant.expires_at else "for ever"
    grants.note(tx, AuditKind.GRANTED, f"grant {grant.id} ({scope}, {whose}, {until})", request, person=answer.person)


def expire(tx: Transaction, request_id: str, operating_policy: OperatingPolicy) -> None:
    """Ends a request whose time is over; its work goes on without a decision."""
    request = lock_work(tx, request_id)
    if request and request.is_open and request.is_late(tx.now) and requests.move(tx, RequestStep.EXPIRE, request):
        grants.note(tx, AuditKind.EXPIRED, "nobody decided in time", request)
        settle_budget(tx, ended(tx, request_id), operating_policy)
