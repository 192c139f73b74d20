"""The use cases over one database, with a clock that a test moves, and a Slack and people that it plays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from swarm.clock import ManualClock
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.threads import (
    Author,
    AuthorKind,
    ChannelType,
    MessageDeleted,
    MessageEdited,
    SlackMessage,
    Thread,
)
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.access import Me
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller
from swarm.services.inbox.claim import claim
from swarm.services.inbox.claim_calls import ClaimCall
from swarm.services.inbox.triggers import ClaimContents
from swarm.services.intake.backfill import Backfill
from swarm.services.intake.catch_up import CatchUp
from swarm.services.intake.ingest import Ingest
from swarm.services.intake.verify import Verifier
from swarm.services.operate.sweep import Sweeper
from swarm.services.operate.team import note_seen
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.runs.run_control import Buttons, RunControl
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.use_cases import Services
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.threads import threads
from swarm.store.threads.threads import NewThread
from tests.support.files import FakeFiles
from tests.support.slack import PEOPLE, FakeSlack, next_ts

ME = Me(team="T1", user_id="UBOT", bot_id="BBOT", url="https://team.slack.example/")
BOT = "<@UBOT>"
HTTP_TIMEOUT_SECONDS = 30.0


def said(
    text: str,
    *,
    by: str = "U1",
    channel: str = "C1",
    thread_ts: str | None = None,
    ts: str | None = None,
    kind: AuthorKind = AuthorKind.USER,
    channel_type: ChannelType = ChannelType.CHANNEL,
    subtype: str | None = None,
    edited_ts: str | None = None,
) -> SlackMessage:
    """A message that somebody wrote just now."""
    return SlackMessage(
        channel=channel,
        ts=ts or next_ts(),
        thread_ts=thread_ts,
        author=Author(id=by, kind=kind, name=PEOPLE.get(by)),
        text=text,
        subtype=subtype,
        channel_type=channel_type,
        edited_ts=edited_ts,
    )


def edit(message: SlackMessage, text: str) -> MessageEdited:
    """The same message with another text, edited just now."""
    return MessageEdited(message=replace(message, text=text, edited_ts=next_ts()), previous_text=message.text)


def delete(message: SlackMessage) -> MessageDeleted:
    return MessageDeleted(channel=message.channel, ts=message.ts, thread_ts=message.thread_ts)


def holding(trigger: Trigger, agent: Agent, request_id: str | None = None) -> Caller:
    """The run that has this trigger."""
    return Caller(agent=agent, lease_token=trigger.lease_token, request_id=request_id)


def take(tx: Transaction, agent_id: str, limit: int, hold: bool) -> list[ClaimContents]:
    """Claim for one agent in a transaction of the test's own."""
    (claimed,) = claim(tx, [ClaimCall(agent_id=agent_id, limit=limit, hold=hold)])
    assert isinstance(claimed, list)
    return claimed


def open_thread(tx: Transaction, thread_ts: str) -> Thread:
    """The thread at this place in #general, which is known completely."""
    new = NewThread(
        channel="C1",
        thread_ts=thread_ts,
        channel_type=ChannelType.CHANNEL,
        watermark_ts=thread_ts,
        known_whole=True,
    )
    threads.open_all(tx, ME.team, [new])
    thread = threads.at(tx, ME.team, "C1", thread_ts)
    assert thread is not None
    return thread


def texts(triggers: Iterable[Trigger]) -> list[list[str]]:
    """The new messages of each trigger."""
    return [[inbox_message.text for inbox_message in trigger.inbox_messages] for trigger in triggers]


@dataclass
class World:
    """One coordinator process. Nothing runs by itself: the test calls ``sweep``, ``send`` and ``read_threads``."""

    database: Database
    clock: ManualClock
    slack: FakeSlack = field(default_factory=FakeSlack)
    operating_policy: OperatingPolicy = field(default_factory=OperatingPolicy)
    files: FakeFiles = field(default_factory=FakeFiles)

    def __post_init__(self) -> None:
        rosters = Rosters(self.database, self.operating_policy, kept_seconds=0)
        self.standings = Standings(self.database, self.slack, ME, self.operating_policy, clock=self.clock)
        self.services = Services.over(
            self.database,
            self.slack,
            ME,
            self.operating_policy,
            self.files,
            groups=self.slack,
            standings=self.standings,
        )
        self.ingest = Ingest(self.database, rosters, ME, self.operating_policy, self.standings, self.slack)
        self.verifier = Verifier(self.database, self.ingest, self.standings)
        self.buttons = Buttons(self.database, self.operating_policy, self.standings, ME, self.slack)
        self.turn_control = RunControl(self.database, self.operating_policy, ME.team, self.standings)
        self.sweeper = Sweeper(self.database, self.operating_policy, self.slack, self.slack, self.standings)
        self.backfill = Backfill(
            self.database, self.slack, ME, self.operating_policy, self.standings, self.ingest.handle
        )
        self.catch_up = CatchUp(self.database, self.slack, ME, self.ingest.handle)
        self.sender = OutboxSender(self.database, self.slack, ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS)

    def governed_by(self, operating_policy: OperatingPolicy) -> Self:
        """The same database and Slack under other decisions of the operator."""
        return replace(self, operating_policy=operating_policy)

    # People

    async def hears(self, message: SlackMessage) -> SlackMessage:
        await self.ingest.handle(message)
        return message

    async def says(self, text: str, *, thread: SlackMessage | None = None, by: str = "U1") -> SlackMessage:
        """Somebody writes into #general, or into the thread of a message."""
        thread_ts = thread.root_ts if thread else None
        return await self.hears(said(text, by=by, thread_ts=thread_ts, channel=thread.channel if thread else "C1"))

    def rule(self, *rules: DecisionRule) -> None:
        """From now on the operator's rules say who decides on requests."""
        book = self.operating_policy.book
        book.current = replace(book.current, decisions=rules)

    # Agents

    async def lead(self, name: str = "lead", *, online: bool = True) -> Agent:
        return await self._agent(name, Role.LEAD, online)

    async def worker(self, name: str = "worker", *, online: bool = True) -> Agent:
        return await self._agent(name, Role.WORKER, online)

    async def _agent(self, name: str, role: Role, online: bool) -> Agent:
        registered = await self.services.agents.register(name, role)
        if online:
            await self.is_here(registered.agent)
        return registered.agent

    async def is_here(self, agent: Agent) -> None:
        """The agent shows a sign of life."""
        await self.database.write(note_seen, [agent.id], self.operating_policy)

    async def poll(self, agent: Agent, *, limit: int = 20, hold: bool = False) -> list[Trigger]:
        return await self.services.polls.poll(agent, wait_seconds=0, limit=limit, hold=hold)

    async def only(self, agent: Agent, *, hold: bool = False) -> Trigger:
        """The one trigger that there is for an agent."""
        (trigger,) = await self.poll(agent, hold=hold)
        return trigger

    async def answers(self, agent: Agent, trigger: Trigger, text: str) -> None:
        await self.services.replies.reply(holding(trigger, agent), trigger.inbox_messages[0].id, text)

    # Time

    async def sweep(self) -> None:
        await self.sweeper.sweep()

    async def send(self) -> None:
        await self.sender.send_due()

    async def later(self, seconds: float) -> None:
        """Time goes by, and the sweep notices."""
        self.clock.advance(seconds)
        await self.sweep()

    # What is so

    async def inbox_messages(self, message: SlackMessage) -> list[InboxMessage]:
        return await self.database.read(inbox.of_message, ME.team, message.channel, message.ts)

    async def inbox_message(self, message: SlackMessage) -> InboxMessage:
        (inbox_message,) = await self.inbox_messages(message)
        return inbox_message

    async def rows(self, query: str, **params: object) -> list[Row]:
        """What an SQL query finds."""
        return await self.database.read(look, query, params)

    async def change(self, statement: str, **params: object) -> None:
        """Make something so that cannot be brought about otherwise, by an SQL statement."""
        await self.database.write(Transaction.execute, statement, params)


def look(tx: Transaction, query: str, params: dict[str, object]) -> list[Row]:
    cursor, rows = tx.fetch(query, params)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]
