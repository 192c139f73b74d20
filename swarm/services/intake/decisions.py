"""Routing decisions, with what the database knows about the threads and the authors of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from swarm.clock import SECOND, slack_ts_to_us
from swarm.domain.model.threads import AuthorKind, SlackMessage, Thread
from swarm.domain.policy.access import NOTHING_MISSING, STANDING_MISSING, Denial, Me, MissingFacts, agent_denial, denial
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Roster
from swarm.domain.prompts.alerts import alert_message
from swarm.domain.routing import Change, Decision, RoutingOutcome, Situation, asks_to_stop, decide, is_alert
from swarm.domain.text.fingerprints import fingerprint
from swarm.services.runs.run_control import can_stop, stoppable_agents
from swarm.services.speaking.system_messages import refusal_key
from swarm.store import deliveries
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import alerts, people, transcript
from swarm.store.threads.threads import Place

LATE_SECONDS: Final = 120
"""A message that is processed this long after it was written was missed before; such messages usually arrive in large
numbers.
"""


@dataclass(eq=False, kw_only=True, slots=True)
class Routing:
    """A message during the transaction that routes it."""

    message: SlackMessage
    roster: Roster
    change: Change = Change.POSTED
    was_routed: bool = False  # for an edit: an agent has the message already
    is_final: bool = False  # if facts about the author are missing, the message is parked
    thread: Thread | None = None
    is_new: bool = False  # the message opens the thread
    missing: MissingFacts = NOTHING_MISSING  # nothing was done, because this must be known first
    digest: str | None = None  # of an alert that is grouped with its repeats: its fingerprint
    repeats: str | None = None  # the timestamp of the alert that this one repeats
    decision: Decision = field(init=False)

    @property
    def place(self) -> Place:
        return self.message.channel, self.message.root_ts

    @property
    def opened(self) -> Thread:
        """The thread, once it is open."""
        assert self.thread is not None
        return self.thread

    @property
    def is_rare(self) -> bool:
        """Whether the decision changes more than the message's own thread, or depends on other messages."""
        is_told = self.decision.is_refusal or self.decision.denial is not None
        return is_told or self.decision.outcome is RoutingOutcome.STOP


class Decisions:
    """Decides about messages of one workspace."""

    def __init__(self, me: Me, operating_policy: OperatingPolicy) -> None:
        self._me = me
        self._operating_policy = operating_policy

    def decide_all(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        """Decides about messages, each in its thread; a person who has exceeded the limit per minute is refused."""
        ownerless = {found.thread.id for found in routings if found.thread and found.thread.owner_id is None}
        awaiting_lead = inbox.awaiting_lead(tx, ownerless)
        for routing in routings:
            situation = self._situation(tx, routing, awaiting_lead)
            routing.decision = decide(routing.message, situation, routing.change)
        work = [routing for routing in routings if routing.decision.targets]
        limited = self._limited_since(tx, [routing.message for routing in work])
        for routing in work:
            if routing.message.author.id in limited and counts(tx, routing.message):
                is_told = not routing.decision.silent
                reason = self._limit_reason()
                routing.decision = Decision(outcome=RoutingOutcome.RATE_LIMITED, reason=reason, is_refusal=is_told)

    def missing(self, routing: Routing) -> MissingFacts:
        """Returns what must be known about the author first: for the decision, and for the mark of a stored message."""
        author, missing = routing.message.author, routing.decision.missing
        policy = self._operating_policy.policy(routing.message.channel)
        is_marked = routing.thread is not None or routing.decision.is_work
        if is_marked and author.standing is None:
            missing |= STANDING_MISSING
        if is_marked and policy.people and (denied := denial(author, policy)):
            missing |= denied.missing
        return missing

    def is_to_be_told(self, tx: Transaction, routing: Routing) -> bool:
        """Whether people are to be told of a refusal, and have not been told yet."""
        return routing.decision.is_refusal and not deliveries.is_wanted(tx, self.told_key(tx, routing))

    def told_key(self, tx: Transaction, routing: Routing) -> str:
        """Returns the key under which a refusal is posted once.

        A refusal is posted once per day, person and scope (`Denial.scope`), a rate limit once a minute, and the limit
        for bots once per day and thread.
        """
        message, outcome, denied = routing.message, routing.decision.outcome, routing.decision.denial
        who, day = f"{self._me.team}:{message.author.id}", tx.now // (24 * 3600 * SECOND)
        if outcome is RoutingOutcome.BOT_CAPPED:
            return f"bot_capped:{self._me.team}:{message.channel}:{message.root_ts}:{day}"
        if outcome is RoutingOutcome.STOP:
            return f"idle_stop:{self._me.team}:{message.channel}:{message.ts}"
        if outcome is RoutingOutcome.RATE_LIMITED:
            return f"limited:{who}:{self._limited_since(tx, [message]).get(message.author.id)}"
        return refusal_key(tx, self._me.team, message.author.id, denied, message.channel)

    def digest(self, message: SlackMessage) -> str | None:
        """Returns the fingerprint by which an alert is grouped with its repeats; None for all other messages."""
        policy = self._operating_policy.policy(message.channel)
        if not is_alert(message, policy) or not policy.alerts.window_seconds or denial(message.author, policy):
            return None
        return fingerprint(message.author.bot_id or message.author.id, message.text, message.attachments)

    def text_for_agent(self, message: SlackMessage) -> str | None:
        """Returns an alert in its template; None for a message whose text in Slack is the text for the agent."""
        policy = self._operating_policy.policy(message.channel)
        return alert_message(message, policy.alerts) if is_alert(message, policy) else None

    def _repeated(self, tx: Transaction, message: SlackMessage, digest: str) -> str | None:
        window = self._operating_policy.policy(message.channel).alerts.window_seconds
        return alerts.repeated(tx, self._me.team, message.channel, message.ts, digest, window)

    def _limited_since(self, tx: Transaction, messages: Iterable[SlackMessage]) -> dict[str, int]:
        limit = self._operating_policy.messages_per_minute
        if limit is None:
            return {}
        authors = {message.author.id for message in messages if counts(tx, message)}
        return people.exhausted(tx, self._me.team, authors, limit)

    def _limit_reason(self) -> str:
        limit = self._operating_policy.messages_per_minute
        return f"this person has reached the limit of {limit} messages per minute (limits.messages_per_minute_per_user)"

    def _situation(self, tx: Transaction, routing: Routing, awaiting_lead: set[str]) -> Situation:
        message, thread, turns, at_work = routing.message, routing.thread, 0, frozenset[str]()
        if thread and message.author.kind == "bot":
            hour_ago = tx.now - 3600 * SECOND
            turns = transcript.bot_turns(tx, thread.team, thread.channel, thread.thread_ts, hour_ago)
        routing.repeats = self._repeated(tx, message, routing.digest) if routing.digest else None
        may_stop = asks_to_stop(message.own_text) and can_stop(tx, self._me.team, message, thread)
        if may_stop and self._operating_policy.agent_access:
            at_work = stoppable_agents(tx, self._me.team, message, thread)
        return Situation(
            me=self._me,
            policy=self._operating_policy.policy(message.channel),
            roster=routing.roster,
            owner_id=thread.owner_id if thread else None,
            awaits_lead=thread is not None and thread.id in awaiting_lead,
            bot_turns=turns,
            routed=routing.was_routed,
            repeats=routing.repeats,
            is_silent=thread is not None and thread.is_silent,
            can_stop=may_stop,
            at_work=at_work,
            denials=self._denials(routing),
        )

    def _denials(self, routing: Routing) -> dict[str, Denial]:
        """Returns why the author may not use agents, by agent id."""
        message = routing.message
        if not self._operating_policy.agent_access:
            return {}
        limited = {
            agent.id: agent_denial(message.author, limit, message.channel)
            for name, limit in self._operating_policy.agent_access.items()
            if (agent := routing.roster.by_name(name))
        }
        return {agent_id: denied for agent_id, denied in limited.items() if denied}


def counts(tx: Transaction, message: SlackMessage) -> bool:
    """Whether a message counts towards its author's limit. A missed message was written earlier and does not count."""
    is_late = tx.now - slack_ts_to_us(message.ts) > LATE_SECONDS * SECOND
    return message.author.kind is AuthorKind.USER and not is_late
