"""Who may decide, for every policy, standing and set of requesters; and whose work a grant covers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.domain.answers.events import Asked
from swarm.domain.answers.questions import request_of
from swarm.domain.errors import Invalid
from swarm.domain.model.grants import Grant, GrantCovers, GrantScope
from swarm.domain.model.requests import (
    BY_REQUESTER,
    OPERATOR,
    DecisionPolicy,
    FieldType,
    FormField,
    NewRequest,
    Option,
)
from swarm.domain.policy.decision_rules import (
    asked_policy,
    check_new,
    eligible_people,
    grant_counts,
    may_cover,
    why_not,
)
from tests.support.human_requests import human_request

MEMBERS = {"S1": frozenset({"U3", "G3"}), "S404": None}
ALL = ("U1", "U2", "U3", "U9", "G1", "G3", "G9")
"""U… are members; G… are guests, people of other workspaces, bots or people whom Slack does not name."""


@pytest.mark.req("HITL-11", "HITL-03", "CHAN-11")
@pytest.mark.parametrize(
    ("policy", "requesters", "may"),
    [
        (BY_REQUESTER, ("U1",), "U1"),
        (BY_REQUESTER, ("U1", "U2"), "U1 U2"),
        (BY_REQUESTER, ("G1",), ""),
        (BY_REQUESTER, ("G1", "U2"), "U2"),
        (DecisionPolicy(users=("U2",)), ("U1",), "U2"),
        (DecisionPolicy(users=("G9",)), ("U1",), "G9"),
        (DecisionPolicy(users=("G1",)), ("G1",), "G1"),
        (DecisionPolicy(groups=("S1",)), ("G1",), "U3 G3"),
        (DecisionPolicy(groups=("S404",)), ("U1",), ""),
        (DecisionPolicy(groups=("S1",), requester=True), ("G1", "U1"), "U1 U3 G3"),
        (DecisionPolicy(not_requester=True), ("U1",), "U2 U3 U9"),
        (DecisionPolicy(not_requester=True), ("U1", "U2"), "U3 U9"),
        (DecisionPolicy(not_requester=True), ("G1",), "U1 U2 U3 U9"),
        (DecisionPolicy(not_requester=True), (), "U1 U2 U3 U9"),
        (DecisionPolicy(users=("U1", "U2", "G9"), not_requester=True), ("U1",), "U2 G9"),
        (DecisionPolicy(groups=("S1",), not_requester=True), ("U3", "U1"), "G3"),
        (DecisionPolicy(), ("U1",), ""),
    ],
)
def test_who_may_decide(policy: DecisionPolicy, requesters: tuple[str, ...], may: str) -> None:
    refusals = {one: why_not(policy, requesters, one, MEMBERS.get, is_member=one.startswith("U")) for one in ALL}
    assert [one for one, reason in refusals.items() if reason is None] == [one for one in ALL if one in may.split()]
    assert all(reason.endswith(".") for reason in refusals.values() if reason)
    eligible = eligible_people(policy, requesters, MEMBERS.get, [one for one in requesters if one.startswith("G")])
    assert eligible is None or eligible == set(may.split())


@pytest.mark.req("HITL-13")
@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (BY_REQUESTER, "Only <@U1> can decide this."),
        (DecisionPolicy(users=("U2", "U3", "U4")), "Only <@U2>, <@U3> or <@U4> can decide this."),
        (DecisionPolicy(users=("U2",), requester=True), "Only <@U1> or <@U2> can decide this."),
        (DecisionPolicy(groups=("S1",)), "Only a member of the user group on the card can decide this."),
        (DecisionPolicy(), "Only the operator can decide this."),
        (DecisionPolicy(users=("U1",), not_requester=True), "Only the operator can decide this."),
        (DecisionPolicy(users=tuple(f"U{n}" for n in range(10, 20))),
         "Only <@U10>, <@U11>, <@U12>, <@U13>, <@U14> or 5 others can decide this."),
    ],
)  # fmt: skip
def test_who_may_not_is_told_who_may(policy: DecisionPolicy, sentence: str) -> None:
    assert why_not(policy, ("U1",), "U9", MEMBERS.get, is_member=True) == sentence


@pytest.mark.req("HITL-11", "CHAN-11")
def test_strangers_work_is_decided_by_members_unless_the_policy_names_people() -> None:
    anybody = DecisionPolicy(not_requester=True)
    assert asked_policy(BY_REQUESTER, by_strangers=True) == anybody
    assert asked_policy(replace(BY_REQUESTER, veto=True), by_strangers=True) == replace(anybody, veto=True)
    named = DecisionPolicy(users=("U2",), requester=True)
    for policy, by_strangers in ((named, True), (anybody, True), (DecisionPolicy(), True), (BY_REQUESTER, False)):
        assert asked_policy(policy, by_strangers=by_strangers) == policy


@pytest.mark.req("HITL-11")
@pytest.mark.parametrize(
    ("person", "everybody", "is_named", "covers"),
    [
        ("U1", False, False, GrantCovers.GIVER),
        ("U1", True, False, None),
        ("U1", False, True, GrantCovers.GIVER),
        ("U1", True, True, GrantCovers.EVERYBODY),
        ("U2", False, False, None),
        ("U2", True, False, None),
        ("U2", False, True, GrantCovers.EVERYBODY),
        (OPERATOR, False, False, GrantCovers.EVERYBODY),
    ],
)
def test_whose_work_a_grant_covers(person: str, everybody: bool, is_named: bool, covers: GrantCovers | None) -> None:
    assert may_cover(person, ("U1",), everybody=everybody, is_named=is_named) is covers


RULE = DecisionPolicy(users=("U2", "U3"))
FOUR_EYES = DecisionPolicy(not_requester=True)


@pytest.mark.req("HITL-11", "HITL-07")
@pytest.mark.parametrize(
    ("given_by", "covers", "given", "policy", "requesters", "by_members", "counts"),
    [
        ("U1", "giver", BY_REQUESTER, BY_REQUESTER, ("U1",), True, True),
        ("U1", "giver", BY_REQUESTER, BY_REQUESTER, ("U2",), True, False),
        ("U1", "giver", BY_REQUESTER, BY_REQUESTER, ("U1", "U2"), True, False),
        ("U1", "giver", BY_REQUESTER, BY_REQUESTER, (), True, False),
        ("U1", "giver", BY_REQUESTER, RULE, ("U1",), True, False),
        ("U2", "giver", FOUR_EYES, FOUR_EYES, ("U2",), True, False),
        ("U2", "everybody", RULE, RULE, ("U1",), True, True),
        ("U2", "everybody", RULE, BY_REQUESTER, ("U1",), True, True),
        ("U2", "everybody", RULE, FOUR_EYES, ("U1",), True, False),
        ("U2", "everybody", FOUR_EYES, FOUR_EYES, ("U2",), True, False),
        ("U2", "everybody", RULE, RULE, ("G1",), False, False),
        (OPERATOR, "everybody", RULE, FOUR_EYES, ("G1",), False, True),
    ],
)
def test_where_a_grant_counts(
    given_by: str, covers: str, given: DecisionPolicy, policy: DecisionPolicy, requesters: tuple[str, ...],
    by_members: bool, counts: bool,
) -> None:  # fmt: skip
    grant = Grant(
        id="g", agent_id="a1", agent="writer", tool="deploy", scope=GrantScope.ALWAYS, covers=GrantCovers(covers),
        thread_id=None, request_id="r", given_by=given_by, created_at=0, expires_at=None, revoked_at=None, uses=0,
    )  # fmt: skip
    request = human_request(policy=policy, requesters=requesters)
    assert grant_counts(grant, request, given, by_members=by_members) is counts


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize("blank", ["", " \n", "\u200b", "\u2800", "\u3164\u00ad", "\u202e \ufeff\u3000", "\U000e0041"])
def test_what_shows_nothing_is_empty(blank: str) -> None:
    def problems(**new: Any) -> set[str]:
        try:
            check_new(NewRequest(**{"key": "k", "title": "May I?", **new}))
        except Invalid as wrong:
            return set(wrong.fields)
        return set()

    assert problems(title=blank) == {"title"}
    assert problems(fields=(FormField(name=blank),)) == {"fields"}
    choice = FormField(name="f", type=FieldType.SELECT)
    unseen, labelled = Option(value=blank, label=blank), Option(value=blank, label="Nothing")
    assert problems(fields=(replace(choice, options=(unseen,)),)) == {"fields.f"}
    assert problems(fields=(replace(choice, options=(labelled,)),)) == set()
    assert (Option(value="v", label=blank).title, FormField(name="n", label=blank).title) == ("v", "n")
    assert human_request(prompt=blank).question == ""
    assert request_of(Asked(id="i", prompt=f"{blank}\nSure?"), "k").title == "Sure?"
