"""Participants: the agents available for routing, and the standing of each author in Slack.

The roster is read often and rarely changes, so it is cached briefly. A person's standing is verified with Slack and
remembered.

Who may act: every process, for the events it receives. What is guaranteed: a person counts as a member only if Slack
confirmed this within `MEMBER_SECONDS`; for a known person, no query and no call is made; no transaction is open during
calls to Slack. What happens on failure: the standing stays unknown and permits nothing; messages then wait (`verify`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from swarm.clock import SECOND, MeasuredClock, SystemClock
from swarm.domain.access import Me, denial, standing_by_event, standing_of
from swarm.domain.channel_policy import External
from swarm.domain.model.agents import Role, is_online
from swarm.domain.model.threads import Author, AuthorKind, Standing
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.ports import PersonLookup
from swarm.domain.roster import Candidate, Roster
from swarm.services.rules.system_messages import why_refused
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import people
from swarm.store.threads.people import Verified

AGENTS: Final = "agents"
"""The topic for changes to the set of agents."""

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
NOT_ALLOWED_TEXT: Final = "You may not do that here. {reason}"


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
        return is_young and has_default and self._generation == self._database.wakeups.generation(AGENTS)

    async def _read(self) -> None:
        generation, now = self._database.wakeups.generation(AGENTS), time.monotonic()  # taken before the read
        self._roster = await self._database.read(read_roster, self._operating_policy)
        self._generation, self._read_at = generation, now


def read_roster(tx: Transaction, operating_policy: OperatingPolicy) -> Roster:
    """Reads the roster from the database."""
    found = tuple(
        Candidate(
            id=row["id"],
            name=row["name"],
            role=Role(row["role"]),
            online=is_online(
                row["last_seen_at"], tx.now, operating_policy.offline_after_seconds, began(tx, operating_policy)
            ),
        )
        for row in agents.signs_of_life(tx)
    )
    return Roster(agents=found, default_name=operating_policy.default_agent)


def began(tx: Transaction, operating_policy: OperatingPolicy) -> int:
    """Returns the time when this coordinator started to listen, in the database's clock; the local clock may differ."""
    return max(tx.opened_at, operating_policy.started_at)


@dataclass(frozen=True, slots=True)
class _Known:
    standing: Standing
    until: int  # microseconds of the elapsed-time clock


class Standings:
    """The standings of authors, as confirmed by Slack."""

    def __init__(
        self,
        database: Database,
        slack: PersonLookup,
        me: Me,
        *,
        clock: MeasuredClock | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._elapsed_us = (clock or SystemClock()).elapsed_us
        self._wait_seconds = wait_seconds
        self._known: dict[str, _Known] = {}

    def known(self, author: Author) -> Author:
        """Returns the author with the standing if it is already known, without asking Slack."""
        standing = standing_by_event(author, self._me) or self._remembered(author.id)
        return replace(author, standing=standing)

    async def settled(self, author: Author, wait_seconds: float | None = None) -> Author:
        """Returns the author with a standing, or without one if Slack does not reply in time. Raises Unavailable."""
        known = self.known(author)
        if known.standing is not None:
            return known
        found = await self._database.read(people.find, self._me.team, author.id)
        if found and self._remember(author.id, found):
            return replace(author, standing=found.standing)
        person = await self._slack.person(author.id, wait_seconds or self._wait_seconds)
        if person is None:
            return known
        standing = standing_of(person, self._me)
        self._remember(author.id, await self._database.write(people.put, self._me.team, author.id, standing))
        return replace(author, standing=standing)

    async def presser(self, user_id: str, team: str | None) -> Author:
        """Returns the person who pressed a button, with a standing as in `settled`."""
        return await self.settled(Author(id=user_id, kind=AuthorKind.USER, teams=(team,) if team else ()))

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


def has_room(tx: Transaction, team: str, person: str, operating_policy: OperatingPolicy) -> bool:
    """Whether this click is within the person's limit per minute. If it is, the click is counted."""
    limit = operating_policy.messages_per_minute
    if limit is None:
        return True
    if people.exhausted(tx, team, [person], limit):
        return False
    people.count(tx, team, [person])
    return True


def why_refused_here(person: Author, channel: str, operating_policy: OperatingPolicy) -> str | None:
    """Returns why a person may not use the swarm in a conversation, as a text for that person; None if allowed."""
    policy = operating_policy.policy(channel)
    if person.standing is None and policy.external is not External.ALLOW:
        return UNVERIFIED_TEXT
    return NOT_ALLOWED_TEXT.format(reason=why_refused(person)) if denial(person, policy) else None


def why_not_now(
    tx: Transaction, team: str, person: Author, channel: str, operating_policy: OperatingPolicy
) -> str | None:
    """Returns why a person's click or command is refused, as a text for that person. Otherwise counts it, and returns
    None.
    """
    refused = why_refused_here(person, channel, operating_policy)
    return refused or (None if has_room(tx, team, person.id, operating_policy) else LIMITED_TEXT)


def may_use(agent: str, person: Author, channel: str, operating_policy: OperatingPolicy) -> bool:
    """Whether a person may use an agent (by name) in a conversation."""
    return why_refused_here(person, channel, operating_policy) is None


def people_among(authors: Iterable[Author]) -> list[Author]:
    """Returns the authors who are people, without duplicates."""
    return list({author.id: author for author in authors if author.kind is AuthorKind.USER}.values())
