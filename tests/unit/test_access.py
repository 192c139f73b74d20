"""Who may use the swarm, and which agents: every rule, decided from what is known about a person."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.domain.model.threads import Author, AuthorKind, PersonFacts, Standing
from swarm.domain.policy.access import (
    NOTHING_MISSING,
    STANDING_MISSING,
    AgentAccess,
    DeniedBy,
    MissingFacts,
    Person,
    agent_denial,
    denial,
    first_denial,
    may_use,
    standing_in,
    without,
)
from swarm.domain.policy.channels import ChannelPolicy, External, PeopleLists
from tests.support.every import every
from tests.support.policies import governing

pytestmark = pytest.mark.req("CHAN-09")

ALICE = Author(id="U1", kind=AuthorKind.USER, standing=Standing.MEMBER)
PAGER = Author(id="B1", kind=AuthorKind.BOT, bot_id="B1", standing=Standing.MEMBER)
IN_S1 = PersonFacts(groups={"S01": True}, domain="example.org")
IN_NONE = PersonFacts(groups={"S01": False, "S02": False}, domain="example.com")

USERS = PeopleLists(users=frozenset({"U1"}))
GROUPS = PeopleLists(groups=frozenset({"S01", "S02"}))
DOMAINS = PeopleLists(domains=frozenset({"example.org"}))
ALL_KINDS = PeopleLists(users=frozenset({"U9"}), groups=frozenset({"S01"}), domains=frozenset({"example.org"}))
NOBODY = PeopleLists(users=frozenset())

ALLOWED = "allowed"
DENIED = NOTHING_MISSING

ROWS = {
    "no list: everyone": (PeopleLists(), PersonFacts(), ALLOWED),
    "an empty list: nobody": (NOBODY, IN_S1, DENIED),
    "on the list of users, whatever Slack says": (USERS, PersonFacts(), ALLOWED),
    "in one of the groups, whatever is known of the other": (GROUPS, PersonFacts(groups={"S01": True}), ALLOWED),
    "in none of the groups": (GROUPS, IN_NONE, DENIED),
    "not in one group, and the other is unknown": (
        GROUPS,
        PersonFacts(groups={"S01": False}),
        MissingFacts(groups=frozenset({"S02"})),
    ),
    "a group that Slack does not show has no members": (
        PeopleLists(groups=frozenset({"S01"})),
        PersonFacts(groups={"S01": False}, hidden_groups=frozenset({"S01"})),
        DENIED,
    ),
    "of an allowed domain": (DOMAINS, PersonFacts(domain="example.org"), ALLOWED),
    "of another domain": (DOMAINS, PersonFacts(domain="example.com"), DENIED),
    "of a subdomain": (DOMAINS, PersonFacts(domain="mail.example.org"), DENIED),
    "without an e-mail address": (DOMAINS, PersonFacts(domain=""), DENIED),
    "of a domain that is not known yet": (DOMAINS, PersonFacts(), MissingFacts(domain=True)),
    "on one of three lists": (ALL_KINDS, PersonFacts(groups={"S01": False}, domain="example.org"), ALLOWED),
    "on none of three lists": (ALL_KINDS, IN_NONE, DENIED),
    "on none of those that are known": (
        ALL_KINDS,
        PersonFacts(),
        MissingFacts(groups=frozenset({"S01"}), domain=True),
    ),
}


@every("name", ROWS)
@every("of_agent", [False, True])
def test_who_is_on_one_of_the_lists_may_and_what_is_unknown_is_named(name: str, of_agent: bool) -> None:
    lists, facts, expected = ROWS[name]
    author = replace(ALICE, facts=facts)
    if of_agent:
        denied = agent_denial(author, AgentAccess(name="prod", people=lists), "C1")
    else:
        policy = ChannelPolicy(allowed_users=lists.users, allowed_groups=lists.groups, allowed_domains=lists.domains)
        denied = denial(author, policy)
    assert (denied.missing if denied else ALLOWED) == expected
    assert denied is None or denied.by is (DeniedBy.AGENT if of_agent else DeniedBy.CHANNEL)


def test_a_bot_is_judged_by_the_channels_bots_only_and_by_where_the_agent_may_be_used() -> None:
    policy = ChannelPolicy(allowed_bots=frozenset({"B1"}), allowed_users=frozenset({"U1"}))
    assert denial(PAGER, policy) is None
    assert agent_denial(PAGER, AgentAccess(name="prod", people=GROUPS), "C1") is None
    elsewhere = agent_denial(PAGER, AgentAccess(name="prod", channels=frozenset({"C2"})), "C1")
    assert elsewhere is not None
    assert elsewhere.by is DeniedBy.PLACE


def test_an_agent_may_be_used_in_its_channels_only_and_not_in_direct_messages_that_are_not_listed() -> None:
    limit = AgentAccess(name="prod", channels=frozenset({"C2"}), people=USERS)
    assert [may_use(limit, ALICE, channel) for channel in ("C2", "C1", "D1")] == [True, False, False]
    assert may_use(None, ALICE, "D1")


@pytest.mark.req("CHAN-11")
def test_strangers_are_refused_before_the_lists_and_where_they_are_allowed_the_lists_apply() -> None:
    guest = replace(ALICE, standing=Standing.GUEST)
    listed = ChannelPolicy(allowed_users=frozenset({"U1"}))
    refused = denial(guest, listed)
    assert refused is not None
    assert refused.by is DeniedBy.STANDING
    allowing = listed.model_copy(update={"external": External.ALLOW})
    assert denial(guest, allowing) is None
    unlisted = denial(replace(guest, id="U2"), allowing)
    assert unlisted is not None
    assert unlisted.by is DeniedBy.CHANNEL


def test_whatever_may_decide_is_asked_for_at_once() -> None:
    unknown = replace(ALICE, standing=None)
    policy = governing(
        everywhere=ChannelPolicy(allowed_groups=frozenset({"S01"})),
        agent_access={"prod": AgentAccess(name="prod", people=DOMAINS)},
    )
    denied = policy.denial(unknown, "C1", ["prod"])
    assert denied is not None
    assert denied.missing == MissingFacts(standing=True, groups=frozenset({"S01"}), domain=True)
    switched_off = policy.denial(unknown, "C1", ["other"])
    assert switched_off is not None
    assert switched_off.missing == STANDING_MISSING | MissingFacts(groups=frozenset({"S01"}))


def test_a_denial_that_is_decided_counts_before_what_is_unknown() -> None:
    unknown, decided = (
        agent_denial(ALICE, AgentAccess(name="a", people=GROUPS), "C1"),
        denial(ALICE, ChannelPolicy(enabled=False)),
    )
    assert first_denial([None, unknown, decided]) == decided
    assert first_denial([None, unknown]) == unknown
    assert first_denial([None]) is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (PersonFacts(groups={"S01": False}, hidden_groups=frozenset({"S01"}), domain="x.org"), "the members of S01"),
        (PersonFacts(groups={"S01": False}, domain=""), "users:read.email"),
        (PersonFacts(groups={"S01": False}), "Slack has not said yet"),
        (
            PersonFacts(groups={"S01": False}, domain="x.org"),
            "list of allowed users and user groups and e-mail domains",
        ),
    ],
)
def test_the_reason_says_which_lists_and_what_slack_hides(facts: PersonFacts, why: str) -> None:
    denied = agent_denial(replace(ALICE, facts=facts), AgentAccess(name="prod", people=ALL_KINDS), "C1")
    assert denied is not None
    assert why in denied.reason
    assert "prod" in denied.reason


def test_what_slack_never_says_counts_as_no() -> None:
    policy = ChannelPolicy(allowed_groups=frozenset({"S01"}), allowed_domains=frozenset({"example.org"}))
    denied = denial(ALICE, policy)
    assert denied is not None
    assert standing_in(ALICE, policy) is Standing.UNVERIFIED
    given_up = without(ALICE, denied.missing)
    final = denial(given_up, policy)
    assert final is not None
    assert not final.missing
    assert standing_in(given_up, policy) is Standing.NOT_ALLOWED


@pytest.mark.parametrize(
    ("email", "is_confirmed", "domain"),
    [
        ("Alice@Example.ORG", True, "example.org"),
        ('"a@b"@example.org', True, "example.org"),
        ("alice@example.org", False, ""),
        (None, True, ""),
    ],
)
def test_only_a_confirmed_address_has_a_domain(email: str | None, is_confirmed: bool, domain: str) -> None:
    assert Person(id="U1", name="Alice", email=email, is_confirmed=is_confirmed).domain == domain
