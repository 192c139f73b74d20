"""Participants: the agents available for routing, and the standing of each author in Slack.

The roster is read often and rarely changes, so it is cached briefly. A person's standing is verified with Slack and
remembered. The facts that lists of people need (user groups, the domain of the e-mail address) come from the directory,
which caches them: user groups for a minute, so that a person who has left one is refused a minute later.

Who may act: every process, for the events it receives. What is guaranteed: a person counts as a member only if Slack
confirmed this within `MEMBER_SECONDS`; for a known person, no query and no call is made; facts are looked up only where
a list decides by them; no transaction is open during calls to Slack. What happens on failure: the standing or the facts
stay unknown and permit nothing; messages then wait (`verify`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swarm.clock import SECOND, MeasuredClock, SystemClock
from swarm.domain.model.agents import Role, is_online, listened_since
from swarm.domain.model.threads import Author, AuthorKind, PersonFacts, Standing
from swarm.domain.policy.access import (
    NOTHING_MISSING,
    STANDING_MISSING,
    Me,
    MissingFacts,
    UserGroup,
    standing_by_event,
    standing_of,
    why_press_refused,
)
from swarm.domain.policy.channels import PeopleLists
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Candidate, Roster
from swarm.domain.ports import PeopleDirectory
from swarm.store import agents, idempotency_keys, listening
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import people
from swarm.store.threads.people import Verified

KEPT_SECONDS: Final = 1.0

MEMBER_SECONDS: Final = 24 * 3600
"""How long a person counts as a member before the next check."""

STRANGER_SECONDS: Final = 3600
"""Shorter than for members, because a guest who becomes a member should not have to wait until the next day."""

WAIT_SECONDS: Final = 1.5
"""How long an event waits for Slack's reply: events must be acknowledged within three seconds."""

REMEMBERED: Final = 20_000

LIMITED_TEXT: Final = "You have reached the limit per minute. Try again in a minute."
UNVERIFIED_TEXT: Final = "Slack did not identify you in time. Try again in a moment."


class Rosters:
    """The roster, at most one second old and never older than a reload or a change made by this process."""

    def __init__(
        self, database: Database, operating_policy: OperatingPolicy, *, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._kept_seconds = kept_seconds
        self._roster = Roster(agents=())
        self._read_at: float | None = None
        self._generation = -1
        self._reading = asyncio.Lock()

    async def current(self) -> Roster:
        """Returns all agents and their presence. Concurrent callers share one read."""
        if not self._is_fresh():
            async with self._reading:
                if not self._is_fresh():
                    await self._read()
        return self._roster

    def _is_fresh(self) -> bool:
        is_young = self._read_at is not None and time.monotonic() - self._read_at < self._kept_seconds
        has_default = (
            self._roster.default_name == self._operating_policy.default_agent
        )  # which a reload may have changed
        return is_young and has_default and self._generation == self._database.wakeups.generation(agents.AGENTS)

    async def _read(self) -> None:
        generation, now = self._database.wakeups.generation(agents.AGENTS), time.monotonic()  # taken before the read
        self._roster = await self._database.read(read_roster, self._operating_policy)
        self._generation, self._read_at = generation, now


def read_roster(tx: Transaction, operating_policy: OperatingPolicy) -> Roster:
    """Reads the roster from the database."""
    gone_since = offline_since(tx, operating_policy)
    found = tuple(
        Candidate(
            id=row["id"],
            name=row["name"],
            role=Role(row["role"]),
            online=is_online(row["last_seen_at"], gone_since),
        )
        for row in agents.signs_of_life(tx)
    )
    return Roster(agents=found, default_name=operating_policy.default_agent)


def offline_since(tx: Transaction, operating_policy: OperatingPolicy) -> int:
    """Returns the moment since which an agent must have been silent to be offline."""
    return silent_since(tx, operating_policy, int(operating_policy.offline_after_seconds * SECOND))


def silent_since(tx: Transaction, operating_policy: OperatingPolicy, wanted_us: int) -> int:
    """Returns the latest moment since which coordinators have listened to agents for ``wanted_us`` in total; 1 if they
    have listened for less, as far as known.

    The time counts in which any process of this database has listened, summed over restarts and breaks; usually this
    process alone has listened for long enough.
    """
    began = max(tx.opened_at, operating_policy.started_at)
    if tx.now - began >= wanted_us:
        return tx.now - wanted_us
    return listened_since([(began, tx.now), *listening.latest(tx)], wanted_us)


def listened_throughout(tx: Transaction, operating_policy: OperatingPolicy, begins: int, ends: int) -> bool:
    """Returns whether one process has listened to agents from one moment to another without a break."""
    began = max(tx.opened_at, operating_policy.started_at)
    return any(since <= begins and ends <= until for since, until in [(began, tx.now), *listening.latest(tx)])


@dataclass(frozen=True, slots=True)
class _Known:
    standing: Standing
    until: int  # microseconds of the elapsed-time clock


class Standings:
    """The standings of authors, as confirmed by Slack, and the facts that lists of people need."""

    def __init__(
        self,
        database: Database,
        slack: PeopleDirectory,
        me: Me,
        operating_policy: OperatingPolicy,
        *,
        clock: MeasuredClock | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._operating_policy = operating_policy
        self._elapsed_us = (clock or SystemClock()).elapsed_us
        self._wait_seconds = wait_seconds
        self._known: dict[str, _Known] = {}

    def known(self, author: Author, channel: str) -> Author:
        """Returns the author with the standing and the facts that are already known, without asking Slack.

        The facts are those that decide in the channel: by its own lists, and by the lists of agents.
        """
        standing = standing_by_event(author, self._me) or self._remembered(author.id)
        lists = self._lists(channel) if author.kind is AuthorKind.USER else []
        facts = self._known_facts(author, lists) if lists else author.facts
        return replace(author, standing=standing, facts=facts)

    async def settled(
        self, author: Author, missing: MissingFacts = STANDING_MISSING, wait_seconds: float | None = None
    ) -> Author:
        """Returns the author with the standing and all missing facts, as far as Slack replies in time.

        Raises Unavailable.
        """
        wait = wait_seconds or self._wait_seconds
        if not missing.groups:
            return await self._identified(author, wait, missing.domain)
        asking = (self._in_group(author.id, group, wait) for group in missing.groups)
        identified, found = await asyncio.gather(self._identified(author, wait, missing.domain), _all(asking))
        return replace(identified, facts=_with_groups(identified.facts, dict(zip(missing.groups, found, strict=True))))

    async def ready(self, author: Author, channel: str, agents: Iterable[str] = ()) -> Author:
        """Returns the author with everything that decides on the use of a channel and of these agents there, as far as
        Slack replies in time.
        """
        known = self.known(author, channel)
        missing = STANDING_MISSING if known.standing is None else NOTHING_MISSING
        for concerned in [(), *((agent,) for agent in agents)]:
            denied = self._operating_policy.denial(known, channel, concerned)
            missing |= denied.missing if denied else NOTHING_MISSING
        return await self.settled(known, missing) if missing else known

    async def presser(self, user_id: str, team: str | None, channel: str, agents: Iterable[str] = ()) -> Author:
        """Returns the person who pressed a button, as in `ready`."""
        teams = (team,) if team else ()
        return await self.ready(Author(id=user_id, kind=AuthorKind.USER, teams=teams), channel, agents)

    async def _identified(self, author: Author, wait_seconds: float, needs_domain: bool) -> Author:
        standing = standing_by_event(author, self._me) or self._remembered(author.id)
        if standing is None:
            standing = await self._verified(author, wait_seconds)
        if not needs_domain:
            return replace(author, standing=standing)
        person = await self._slack.person(author.id, wait_seconds)
        domain = person.domain if person else author.facts.domain
        return replace(author, standing=standing, facts=replace(author.facts, domain=domain))

    async def _verified(self, author: Author, wait_seconds: float) -> Standing | None:
        found = await self._database.read(people.find, self._me.team, author.id)
        if found and self._remember(author.id, found):
            return found.standing
        person = await self._slack.person(author.id, wait_seconds)
        if person is None:
            return None
        standing = standing_of(person, self._me)
        self._remember(author.id, await self._database.write(people.put, self._me.team, author.id, standing))
        return standing

    async def _in_group(self, user_id: str, group_id: str, wait_seconds: float) -> _Membership:
        return _membership(user_id, await self._slack.user_group(group_id, wait_seconds))

    def _lists(self, channel: str) -> list[PeopleLists]:
        """Returns the lists that may decide about people in a channel."""
        own = self._operating_policy.policy(channel).people
        limits = self._operating_policy.agent_access
        return [*([own] if own else ()), *(limit.people for limit in limits.values() if limit.people)]

    def _known_facts(self, author: Author, lists: Sequence[PeopleLists]) -> PersonFacts:
        groups = {group for one in lists for group in one.groups or ()}
        found = {group: _membership(author.id, self._slack.known_group(group)) for group in groups}
        person = self._slack.known_person(author.id) if any(one.domains for one in lists) else None
        return _with_groups(PersonFacts(domain=person.domain if person else None), found)

    def _remembered(self, user_id: str) -> Standing | None:
        known = self._known.get(user_id)
        return known.standing if known and known.until > self._elapsed_us() else None

    def _remember(self, user_id: str, found: Verified) -> bool:
        """Caches the standing. Returns whether Slack's statement is still current."""
        seconds = MEMBER_SECONDS if found.standing is Standing.MEMBER else STRANGER_SECONDS
        left_us = seconds * SECOND - found.age_us
        if left_us <= 0:
            return False
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[user_id] = _Known(found.standing, self._elapsed_us() + left_us)
        return True


_Membership = tuple[bool, bool] | None
"""Whether a person belongs to a user group, and whether Slack shows the group; None if Slack did not answer."""


async def _all(asking: Iterable[Awaitable[_Membership]]) -> list[_Membership]:
    return await asyncio.gather(*asking)


def _membership(user_id: str, group: UserGroup | None) -> _Membership:
    return (user_id in group.members, group.is_shown) if group else None


def _with_groups(facts: PersonFacts, found: Mapping[str, _Membership]) -> PersonFacts:
    answered = {group: membership for group, membership in found.items() if membership}
    hidden = {group for group, (_, is_shown) in answered.items() if not is_shown}
    belongs = {group: is_member for group, (is_member, _) in answered.items()}
    return replace(facts, groups={**facts.groups, **belongs}, hidden_groups=facts.hidden_groups | hidden)


def limited_since(tx: Transaction, team: str, person: str, operating_policy: OperatingPolicy) -> int | None:
    """Counts a press within the person's limit per minute. Returns None, or the start of the minute in which the limit
    was reached.
    """
    limit = operating_policy.messages_per_minute
    if limit is None:
        return None
    since = people.exhausted(tx, team, [person], limit).get(person)
    if since is None:
        people.count(tx, team, [person])
    return since


def is_first_refusal(tx: Transaction, team: str, person: str, scope: str) -> bool:
    """Whether a person's press of Slack's own Stop is refused for the first time in this minute."""
    return idempotency_keys.record(tx, f"refused_press:{team}:{person}:{scope}:{tx.now // (60 * SECOND)}")


def why_refused_here(person: Author, channel: str, operating_policy: OperatingPolicy) -> str | None:
    """Returns why a person may not use the swarm in a conversation, as a text for that person; None if allowed."""
    denied = operating_policy.denial(person, channel)
    if denied is None:
        return None
    return UNVERIFIED_TEXT if denied.missing else why_press_refused(denied, person)


def why_not_now(
    tx: Transaction, team: str, person: Author, channel: str, operating_policy: OperatingPolicy
) -> str | None:
    """Returns why a person's command is refused, as a text for that person. Otherwise counts it, and returns None."""
    refused = why_refused_here(person, channel, operating_policy)
    if refused is None and limited_since(tx, team, person.id, operating_policy) is not None:
        return LIMITED_TEXT
    return refused


def may_use(agent: str, person: Author, channel: str, operating_policy: OperatingPolicy) -> bool:
    """Whether a person may use an agent (by name) in a conversation."""
    return operating_policy.denial(person, channel, [agent]) is None


def people_among(authors: Iterable[Author]) -> list[Author]:
    """Returns the authors who are people, without duplicates."""
    return list({author.id: author for author in authors if author.kind is AuthorKind.USER}.values())
