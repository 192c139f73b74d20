"""A stand-in for Slack as the use cases see it: it takes deliveries, can be asked for them, and has threads to read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from swarm.domain.errors import NotFound, SwarmError
from swarm.domain.model.deliveries import (
    Answer,
    Delivery,
    DeliveryAccepted,
    DeliveryKind,
    DeliveryRefused,
    InDoubt,
    NotSent,
)
from swarm.domain.model.threads import FLAT, AuthorKind, ChannelMessage, SlackMessage
from swarm.domain.policy.access import Person, UserGroup
from swarm.domain.prompts.input import ChannelFacts

PEOPLE = {"U1": "alice", "U2": "bob", "U3": "carol", "B1": "pager"}
CHANNELS = {"C1": "general", "C2": "random", "D1": "alice"}

_seconds = count(1_700_000_001)

Step: TypeAlias = "Callable[[FakeSlack, Delivery], Answer]"


@dataclass
class FakeSlack:
    """Accepts everything, unless ``script`` has a step for the next post, or ``reaction_script`` for the next reaction.

    ``calls`` is what it was asked to do, ``landed`` what it has done, both in order.
    """

    script: deque[Step] = field(default_factory=deque)
    reaction_script: deque[Step] = field(default_factory=deque)
    lookups_fail: deque[SwarmError] = field(default_factory=deque)
    reads_fail: deque[SwarmError] = field(default_factory=deque)
    threads: dict[tuple[str, str], list[SlackMessage]] = field(default_factory=dict)
    channels: dict[str, list[ChannelMessage]] = field(default_factory=dict)  # what was said outside of threads
    calls: list[Delivery] = field(default_factory=list)
    landed: list[Delivery] = field(default_factory=list)
    timestamps: dict[str, str] = field(default_factory=dict)  # of what has landed, by delivery
    looked_up: list[str] = field(default_factory=list)
    reads: list[tuple[str, str]] = field(default_factory=list)
    under_way: asyncio.Event = field(default_factory=asyncio.Event)  # a call has begun
    wait_seconds: float = 0  # so long a call would wait for Slack's limits
    slots: list[Delivery] = field(default_factory=list)  # what has waited for its turn
    reactions_leave: asyncio.Event | None = None  # the turn of reactions comes with it
    held_up: set[str] = field(default_factory=set)  # kinds and channels whose turn never comes
    facts: dict[str, ChannelFacts] = field(default_factory=dict)  # of channels that have more than a name
    persons: dict[str, Person | None] = field(default_factory=dict)  # who are no members; None: Slack does not say
    persons_asked: list[str] = field(default_factory=list)
    emails: dict[str, str] = field(default_factory=dict)  # by user
    groups: dict[str, frozenset[str]] = field(default_factory=dict)  # members by group; Slack does not show others
    groups_asked: list[str] = field(default_factory=list)
    hidden_groups: set[str] = field(default_factory=set)  # of which Slack says that it does not show them
    go_on: asyncio.Event | None = None  # calls wait for it before they are answered
    refused_by: str | None = None  # the code with which it refuses the token
    token_is_good: asyncio.Event = field(default_factory=asyncio.Event)  # for those who wait meanwhile

    @property
    def posts(self) -> list[str]:
        return [done.text for done in self.landed if done.kind is DeliveryKind.POST]

    @property
    def reactions(self) -> list[tuple[str | None, str]]:
        """Those that stand, in the order in which they were given."""
        given: list[tuple[str | None, str]] = []
        for done in self.landed:
            if done.kind is DeliveryKind.REACTION and done.removes:
                given.remove((done.target_ts, done.text))
            elif done.kind is DeliveryKind.REACTION:
                given.append((done.target_ts, done.text))
        return given

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        return self.wait_seconds

    async def ready(self, delivery: Delivery) -> None:
        self.slots.append(delivery)
        await self.token_accepted()
        if self.held_up & {delivery.kind, delivery.channel}:
            await asyncio.Event().wait()
        if self.reactions_leave and delivery.kind is DeliveryKind.REACTION:
            await self.reactions_leave.wait()
        await asyncio.sleep(0)

    async def token_accepted(self) -> None:
        while self.refused_by:
            await self.token_is_good.wait()

    async def deliver(self, delivery: Delivery) -> Answer:
        self.calls.append(delivery)
        script = self.reaction_script if delivery.kind is DeliveryKind.REACTION else self.script
        step = script.popleft() if script else takes
        answer = step(self, delivery)
        self.under_way.set()
        if self.go_on:
            await self.go_on.wait()
        return answer

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        self.looked_up.append(delivery.id)
        if self.lookups_fail:
            raise self.lookups_fail.popleft()
        return next((self.accepted(landed) for landed in self.landed if landed.id == delivery.id), None)

    def lands(self, delivery: Delivery) -> DeliveryAccepted:
        """Slack does it, whether or not anybody hears of that."""
        self.landed.append(delivery)
        self.timestamps[delivery.id] = next_ts()
        return self.accepted(delivery)

    def accepted(self, delivery: Delivery) -> DeliveryAccepted:
        return DeliveryAccepted(ts=self.timestamps[delivery.id], thread_ts=delivery.thread_ts)

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        self.reads.append((channel, thread_ts))
        if self.reads_fail:
            raise self.reads_fail.popleft()
        if thread_ts == FLAT:
            return [one.message for one in self.channels.get(channel, [])]
        if (channel, thread_ts) not in self.threads:
            raise NotFound("thread_not_found")
        return self.threads[channel, thread_ts]

    async def conversations(self) -> list[str]:
        if self.reads_fail:
            raise self.reads_fail.popleft()
        return list(self.channels)

    async def read_channel(self, channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        self.reads.append((channel, oldest))
        said = [one for one in self.channels[channel] if one.message.ts > oldest]
        return said[-limit:] if limit else said

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        return PEOPLE.get(author_id, author_id)

    def known_names(self, wanted: Mapping[str, AuthorKind]) -> dict[str, str]:
        return {}  # each name is asked for, so that a test can hold a lookup up

    async def group_members(self, group_id: str) -> frozenset[str] | None:
        return self.groups.get(group_id)

    def known_members(self, group_id: str) -> frozenset[str] | None:
        return self.groups.get(group_id)

    async def user_group(self, group_id: str, wait_seconds: float) -> UserGroup | None:
        self.groups_asked.append(group_id)
        return self._group(group_id)

    def known_group(self, group_id: str) -> UserGroup | None:
        return self._group(group_id) if group_id in self.groups_asked else None

    def _group(self, group_id: str) -> UserGroup | None:
        if group_id in self.hidden_groups:
            return UserGroup(is_shown=False)
        members = self.groups.get(group_id)
        return None if members is None else UserGroup(members=members)

    async def channel_name(self, channel_id: str) -> str:
        return CHANNELS.get(channel_id, channel_id)

    async def channel_facts(self, channel_id: str) -> ChannelFacts:
        return self.facts.get(channel_id, ChannelFacts(name=CHANNELS.get(channel_id, "")))

    async def person(self, user_id: str, wait_seconds: float) -> Person | None:
        self.persons_asked.append(user_id)
        return self._person(user_id)

    def known_person(self, user_id: str) -> Person | None:
        return self._person(user_id) if user_id in self.persons_asked else None

    def _person(self, user_id: str) -> Person | None:
        member = Person(id=user_id, name=PEOPLE.get(user_id, user_id), teams=("T1",), email=self.emails.get(user_id))
        return self.persons.get(user_id, member)

    async def user(self, user_id: str) -> Person:
        if self.reads_fail:
            raise self.reads_fail.popleft()
        is_known = user_id in PEOPLE
        return Person(id=user_id, name=PEOPLE.get(user_id, user_id), is_known=is_known)

    async def user_by_email(self, email: str) -> Person | None:
        if self.reads_fail:
            raise self.reads_fail.popleft()
        return next(
            (Person(id=user, name=PEOPLE[user]) for user, theirs in self.emails.items() if theirs == email), None
        )

    async def user_email(self, user_id: str) -> str | None:
        return self.emails.get(user_id)


def next_ts() -> str:
    """A Slack timestamp later than all before."""
    return f"{next(_seconds)}.000100"


def takes(slack: FakeSlack, delivery: Delivery) -> Answer:
    return slack.lands(delivery)


def takes_but_the_answer_is_lost(slack: FakeSlack, delivery: Delivery) -> Answer:
    slack.lands(delivery)
    return InDoubt(reason="the connection broke")


def is_never_reached(slack: FakeSlack, delivery: Delivery) -> Answer:
    """Nobody can know it: the request was lost on the way."""
    return InDoubt(reason="the connection broke")


def refuses(error: str) -> Step:
    return lambda slack, delivery: DeliveryRefused(error=error)


def is_busy(retry_after_seconds: float) -> Step:
    return lambda slack, delivery: NotSent(reason="rate limited", retry_after_seconds=retry_after_seconds)


def kills_the_process(slack: FakeSlack, delivery: Delivery) -> Answer:
    """The call has begun and nobody is left to hear of its end."""
    raise Killed


def takes_and_kills_the_process(slack: FakeSlack, delivery: Delivery) -> Answer:
    slack.lands(delivery)
    raise Killed


class Killed(BaseException):
    """As if the process had died here."""
