"""Routing: which agents get a message, and why.

:func:`decide` is a pure function from a Slack message and the current situation to one of a closed set of outcomes.
The first matching rule decides:

1. own, edited, deleted and system messages are never work; strangers and others without access are refused; ``!stop``
   stops what runs and waits in its thread, and never reaches an agent
2. a bot's root message where the channel listens to alerts goes to the channel's agent, whatever it says: its text
   comes from other systems, and must not choose the recipients. A repeat of a recent alert goes to nobody
3. an explicit address: ``swarm#<name or id>``, ``swarm#all``
4. the owner of the thread, unless the message mentions only other people
5. the channel's listening mode, for root messages: ``all`` hears people and allowed bots, ``bots`` only allowed bots
6. a mention of the bot, or a direct message: the channel's agent, or the agent for direct messages; otherwise the
   default lead
7. everything else is context

A person who may not use an agent reaches it by none of these rules, and no other agent takes its place: an addressed
agent refuses, which the person is told; in the thread of such an agent, the person's messages are context.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from swarm.domain.model.inbox import MatchedBy
from swarm.domain.model.threads import AuthorKind, ChannelType, SlackMessage
from swarm.domain.policy.access import NOTHING_MISSING, Denial, DeniedBy, Me, MissingFacts, denial, first_denial
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.domain.policy.roster import ADDRESS, Candidate, Roster, addressed, names_and_verb

_CONTENT_SUBTYPES: Final = frozenset({None, "file_share", "thread_broadcast", "me_message", "bot_message"})
_MENTION = re.compile(r"<@([UW][A-Z0-9]*)(?:\|[^>]*)?>")
_STOP: Final = "!stop"
_LINKED = re.compile(r"(?<![\w#])swarm<#[A-Z0-9]+\|([^>]*)>")  # Slack makes a link of a name that is also a channel's


class Change(StrEnum):
    """The kind of a Slack event about a message."""

    POSTED = "posted"
    EDITED = "edited"
    DELETED = "deleted"


class RoutingOutcome(StrEnum):
    """All outcomes of routing."""

    OWN = "own"
    EDITED = "edited"
    DELETED = "deleted"
    SYSTEM = "system"
    NOT_ALLOWED = "not_allowed"
    STRANGER = "stranger"
    UNVERIFIED = "unverified"  # temporary: routed as soon as Slack identifies the author
    RATE_LIMITED = "rate_limited"
    BOT_CAPPED = "bot_capped"
    STOP = "stop"
    ADDRESS = "address"
    BROADCAST = "broadcast"
    THREAD_OWNER = "thread_owner"
    THREAD_OWNER_OFFLINE = "thread_owner_offline"
    OTHERS_MENTIONED = "others_mentioned"
    CHANNEL_AGENT = "channel_agent"
    ALERT = "alert"
    ALERT_REPEATED = "alert_repeated"
    MENTION = "mention"
    DIRECT_MESSAGE = "direct_message"
    CONTEXT = "context"


_UNASKED: Final = frozenset({RoutingOutcome.CHANNEL_AGENT, RoutingOutcome.ALERT})
_SILENTLY: Final = "; nobody has asked, so only an answer that the agent is sure of is shown (overthink)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """The facts known when a message arrives."""

    me: Me
    policy: ChannelPolicy
    roster: Roster
    owner_id: str | None = None  # the thread's owner
    awaits_lead: bool = False  # messages of the thread wait until a lead is registered
    bot_turns: int = 0  # messages of bots routed in this thread within the last hour
    routed: bool = False  # for an edit: the message was already routed
    can_stop: bool = False  # a run exists that the message could stop
    repeats: str | None = None  # the timestamp of the recent alert that the message repeats
    is_silent: bool = False  # nothing is shown in the thread, because nobody has asked there
    at_work: Collection[str] = ()  # the ids of the agents whose work it would stop
    denials: Mapping[str, Denial] = field(default_factory=dict)  # by agent id: why the author may not use it here

    def denial_of(self, *agents: Candidate | None) -> Denial | None:
        """Returns why the author may not use one of these agents; None if all may be used."""
        return first_denial(self.denials.get(agent.id) for agent in agents if agent) if self.denials else None

    def stand_in_for(self, agent: Candidate) -> Candidate | None:
        """Returns the default lead if the agent is offline, and the lead is online and open to the author."""
        lead = self.roster.stand_in_for(agent)
        denied = self.denial_of(lead)
        return lead if denied is None or denied.missing else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One inbox message to create. Without an agent it waits until a lead is registered."""

    agent_id: str | None
    matched_by: MatchedBy


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision about a message. ``reason`` is a sentence for ``swarm explain`` and the timeline."""

    outcome: RoutingOutcome
    reason: str
    targets: tuple[Target, ...] = ()
    new_owner_id: str | None = None  # the thread's new owner; None: unchanged
    is_refusal: bool = False  # the message would have been work: the person or the bot's thread is informed
    absent: tuple[Candidate, ...] = ()  # named offline agents, replaced by the default lead
    unknown: tuple[str, ...] = ()  # names in the message that match no agent
    denial: Denial | None = None  # why nobody, or one of the named agents, gets the message
    missing: MissingFacts = NOTHING_MISSING  # what must be known about the author before the message is routed
    silent: bool = False  # nobody has asked: nothing is shown before an answer that the agent is sure of
    asks: bool = False  # the author asks in a thread that was silent

    @property
    def is_work(self) -> bool:
        """Whether the message causes work, or would cause work if the author had access here."""
        is_acted_on = bool(self.targets) or self.outcome is RoutingOutcome.STOP or self.is_refusal
        return is_acted_on or bool(self.missing)


def _mentions(text: str) -> frozenset[str]:
    """Returns the ids of all users mentioned in a text."""
    return frozenset(_MENTION.findall(text))


def names_swarm(text: str, me: Me) -> bool:
    """Whether a text mentions the bot or addresses an agent."""
    return me.user_id in _mentions(text) or ADDRESS.search(text) is not None


def is_alert(message: SlackMessage, policy: ChannelPolicy) -> bool:
    """Whether a message is an alert in a channel with this policy, if its author has access."""
    is_by_bot = message.author.kind is AuthorKind.BOT
    return (
        policy.listen is Listen.ALERTS and is_by_bot and message.is_root and message.channel_type is not ChannelType.DM
    )


def asks_to_stop(text: str) -> bool:
    """Whether a text is ``!stop`` in any case, with or without mentions around it."""
    return _STOP in text.lower() and _MENTION.sub("", text).strip().lower() == _STOP


def decide(message: SlackMessage, situation: Situation, change: Change = Change.POSTED) -> Decision:
    """Returns the recipients of ``message`` and the reason. Every message has exactly one outcome."""
    return _never_work(message, situation, change) or _refused(message, situation) or _by_rules(message, situation)


def answering(policy: ChannelPolicy, roster: Roster) -> Candidate | None:
    """Returns the agent that gets a mention or a direct message under this policy; None without a registered lead."""
    agent = roster.by_name(policy.agent)
    return agent if agent and not roster.stand_in_for(agent) else roster.default_lead


def _by_rules(message: SlackMessage, situation: Situation) -> Decision:
    """Applies rules 2 to 7 and ``!stop`` for authors with access."""
    decision = (
        _by_stop(message, situation)
        or _by_alert(message, situation)
        or _by_address(message, situation)
        or _by_owner(message, situation)
        or _by_listening(message, situation)
        or _by_mention(message, situation)
        or Decision(
            outcome=RoutingOutcome.CONTEXT, reason="it names nobody, and nobody listens here or owns the thread"
        )
    )
    decision = _silently(decision, message, situation)
    is_stop = message.author.kind is AuthorKind.USER and asks_to_stop(message.own_text)
    if not (decision.targets and is_stop):
        return decision
    outcome = RoutingOutcome.CONTEXT if decision.silent else RoutingOutcome.STOP
    return Decision(
        outcome=outcome, reason="nothing runs or waits here that it could stop", is_refusal=not decision.silent
    )


def _silently(decision: Decision, message: SlackMessage, situation: Situation) -> Decision:
    """Marks work for which nobody has asked: what an agent hears by listening, and follow-ups in a silent thread."""
    is_unasked = situation.policy.overthink and decision.outcome in _UNASKED
    if not decision.targets or not (is_unasked or situation.is_silent):
        return decision
    if names_swarm(message.own_text, situation.me):
        return replace(decision, asks=True)
    return replace(decision, silent=True, reason=decision.reason + _SILENTLY)


def _never_work(message: SlackMessage, situation: Situation, change: Change) -> Decision | None:
    """Applies rule 1."""
    if situation.me.wrote(message.author):
        return Decision(outcome=RoutingOutcome.OWN, reason="our own post")
    if change is Change.DELETED:
        return Decision(outcome=RoutingOutcome.DELETED, reason="the message was deleted")
    if message.subtype not in _CONTENT_SUBTYPES:
        return Decision(outcome=RoutingOutcome.SYSTEM, reason=f"a message from Slack itself ({message.subtype})")
    if change is Change.EDITED and situation.routed:
        return Decision(outcome=RoutingOutcome.EDITED, reason="an edit of a message that was routed before")
    return None


def _refused(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies the rest of rule 1: authors without access, and bots over their limit."""
    denied = denial(message.author, situation.policy)
    if denied:
        decision = _by_rules(message, situation)
        if not denied.missing:
            is_told = decision.is_work and denied.by is not DeniedBy.SWITCH and _is_told(message, situation)
            return Decision(outcome=_refusal(denied), reason=denied.reason, denial=denied, is_refusal=is_told)
        if not decision.is_work:
            return decision  # not work, whoever the author is
        return _undecided(replace(denied, missing=denied.missing | decision.missing))
    most = situation.policy.bot_messages_per_hour
    if message.author.kind is AuthorKind.BOT and situation.bot_turns >= most:
        reason = f"bots have reached the limit of {most} messages per hour in this thread (bot_messages_per_hour)"
        decision = _by_rules(message, situation)
        is_refusal = decision.is_work and not decision.silent
        return Decision(outcome=RoutingOutcome.BOT_CAPPED, reason=reason, is_refusal=is_refusal)
    return None


def _refusal(denied: Denial) -> RoutingOutcome:
    return RoutingOutcome.STRANGER if denied.by is DeniedBy.STANDING else RoutingOutcome.NOT_ALLOWED


def _undecided(denied: Denial) -> Decision:
    return Decision(outcome=RoutingOutcome.UNVERIFIED, reason=denied.reason, missing=denied.missing)


def _is_told(message: SlackMessage, situation: Situation) -> bool:
    """Whether the author is told of a refusal: only a person who has addressed the swarm."""
    if message.author.kind is not AuthorKind.USER:
        return False
    is_direct = message.channel_type is ChannelType.DM
    return is_direct or names_swarm(message.own_text, situation.me) or asks_to_stop(message.own_text)


def _refused_by_agent(denied: Denial, message: SlackMessage, situation: Situation) -> Decision:
    """Refuses a message that an agent would get, or says what must be known first."""
    if denied.missing:
        return _undecided(denied)
    is_told = _is_told(message, situation)
    return Decision(outcome=RoutingOutcome.NOT_ALLOWED, reason=denied.reason, denial=denied, is_refusal=is_told)


def _by_stop(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies the end of rule 1. Bots stop nothing, and a message addressed to somebody else stops nothing."""
    if not situation.can_stop or message.author.kind is not AuthorKind.USER:
        return None
    if not asks_to_stop(message.own_text) or _mentions_only_others(message, situation):
        return None
    denied = situation.denial_of(*map(situation.roster.by_id, situation.at_work))
    if denied:
        return _refused_by_agent(denied, message, situation)
    return Decision(outcome=RoutingOutcome.STOP, reason="it stops what runs here")


def _by_alert(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 2."""
    if not is_alert(message, situation.policy):
        return None
    if situation.repeats:
        reason = f"it repeats the alert {message.channel}:{situation.repeats}, which an agent has"
        return Decision(outcome=RoutingOutcome.ALERT_REPEATED, reason=reason)
    return _to_channel_agent(message, situation, RoutingOutcome.ALERT, "the channel listens to alerts of this bot")


def _by_address(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 3. A single named agent also gets the thread; several agents get it only without an owner; ``all``
    never does.
    """
    text = re.sub(rf"<@{situation.me.user_id}(?:\|[^>]*)?>(?=#|<#)", "swarm", message.own_text)
    named, everybody, unknown = addressed(_LINKED.sub(r"swarm#\1", text), situation.roster)
    if everybody and situation.roster.agents:
        return _to_all(message, situation)
    if named:
        return replace(_to_named(named, message, situation), unknown=unknown)
    if everybody or unknown:
        wanted = "all" if everybody else unknown[0]
        reason = f"swarm#{wanted} names no agent, so the default lead gets it"
        decision = _to_default(message, situation, RoutingOutcome.ADDRESS, reason)
        return replace(decision, unknown=unknown)
    return None


def _to_all(message: SlackMessage, situation: Situation) -> Decision:
    """Routes to every agent that the author may use."""
    everyone = situation.roster.agents
    denials = [denied for agent in everyone if (denied := situation.denial_of(agent))]
    undecided = first_denial(denied for denied in denials if denied.missing)
    if undecided:
        return _undecided(undecided)
    if len(denials) == len(everyone):
        return _refused_by_agent(denials[0], message, situation)
    which = " that its author may use" if denials else ""
    return Decision(
        outcome=RoutingOutcome.BROADCAST,
        reason=f"swarm#all addresses every agent{which}",
        targets=tuple(_target(agent, MatchedBy.BROADCAST) for agent in everyone if agent.id not in situation.denials),
    )


def _to_named(named: tuple[Candidate, ...], message: SlackMessage, situation: Situation) -> Decision:
    """Routes to those of the named agents that the author may use. The default lead gets one message for all of them
    that are offline.
    """
    owner = situation.roster.by_id(situation.owner_id)
    stand_ins = {agent: situation.stand_in_for(agent) for agent in named}
    weighed = [*named, *stand_ins.values(), *([owner] if len(named) == 1 else [])]
    undecided = first_denial(denied for agent in weighed if (denied := situation.denial_of(agent)) and denied.missing)
    if undecided:
        return _undecided(undecided)
    refused = situation.denial_of(*named)
    permitted = tuple(agent for agent in named if situation.denial_of(agent) is None)
    if refused and not permitted:
        return _refused_by_agent(refused, message, situation)
    targets: dict[str, Target] = {}
    for agent in permitted:
        stand_in = stand_ins[agent]
        target = _target(stand_in, MatchedBy.READDRESSED) if stand_in else _target(agent, MatchedBy.ADDRESS)
        if target.agent_id not in targets or not stand_in:
            targets[target.agent_id or ""] = target
    absent = tuple(agent for agent in permitted if stand_ins[agent])
    why = f"; {names_and_verb(absent)} offline, so the default lead gets it" if absent else ""
    # An offline agent never takes over a thread, and nobody takes a thread from an agent that they may not use.
    is_moved = len(named) == 1 and not absent and situation.denial_of(owner) is None
    return Decision(
        outcome=RoutingOutcome.ADDRESS,
        reason="it names "
        + " and ".join(f"swarm#{agent.name}" for agent in permitted)
        + why
        + (f"; {refused.reason}" if refused else ""),
        targets=tuple(targets.values()),
        new_owner_id=next(iter(targets)) if is_moved or situation.owner_id is None else None,
        absent=absent,
        denial=refused,
    )


def _by_owner(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 4."""
    if situation.owner_id is None and not situation.awaits_lead:
        return None
    if _mentions_only_others(message, situation):
        return Decision(
            outcome=RoutingOutcome.OTHERS_MENTIONED, reason="it mentions only somebody else, so it is context"
        )
    if situation.owner_id is None:
        reason = "the thread waits for a lead, who will own it"
        return _to_default(message, situation, RoutingOutcome.THREAD_OWNER, reason)
    owner = situation.roster.by_id(situation.owner_id)
    stand_in = situation.stand_in_for(owner) if owner else situation.roster.default_lead
    denied = situation.denial_of(owner, stand_in)
    if denied:
        return _refused_by_agent(denied, message, situation)
    if owner and not stand_in:
        return Decision(
            outcome=RoutingOutcome.THREAD_OWNER,
            reason=f"{owner.name} owns the thread",
            targets=(_target(owner, MatchedBy.THREAD_OWNER),),
        )
    why = f"{owner.name} owns the thread but is offline" if owner else "the owner of the thread is gone"
    return Decision(
        outcome=RoutingOutcome.THREAD_OWNER_OFFLINE,
        reason=f"{why}, so the default lead gets it",
        targets=(_target(stand_in, MatchedBy.THREAD_OWNER_OFFLINE),),
        new_owner_id=stand_in.id if stand_in and owner is None else None,
    )


def _by_listening(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 5. A mention of the bot is left to rule 6, whose reason states it."""
    listen, is_by_bot = situation.policy.listen, message.author.kind is AuthorKind.BOT
    if situation.me.user_id in _mentions(message.own_text) or not message.is_root:
        return None
    if message.channel_type is ChannelType.DM:
        return None
    if listen is Listen.BOTS and is_by_bot:
        return _to_channel_agent(message, situation, RoutingOutcome.ALERT, "the channel listens to this bot")
    if listen is not Listen.ALL or _mentions_only_others(message, situation):
        return None
    reason = "the channel listens to every root message"
    return _to_channel_agent(message, situation, RoutingOutcome.CHANNEL_AGENT, reason)


def _by_mention(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 6."""
    if situation.me.user_id in _mentions(message.own_text):
        return _to_channel_agent(message, situation, RoutingOutcome.MENTION, "it mentions the bot")
    if message.channel_type is ChannelType.DM:
        reason = "it is a direct message to the bot"
        return _to_channel_agent(message, situation, RoutingOutcome.DIRECT_MESSAGE, reason)
    return None


def _mentions_only_others(message: SlackMessage, situation: Situation) -> bool:
    """Whether the message mentions only other people. A direct message to the bot has no other recipients."""
    named = _mentions(message.own_text)
    return bool(named) and situation.me.user_id not in named and message.channel_type is not ChannelType.DM


def _to_channel_agent(message: SlackMessage, situation: Situation, outcome: RoutingOutcome, reason: str) -> Decision:
    """Routes to the channel's configured agent, or to the default lead if none is configured or online."""
    of_what = "the agent for direct messages" if message.channel_type is ChannelType.DM else "the channel's agent"
    name = situation.policy.agent
    agent = situation.roster.by_name(name)
    if agent is None:
        missing = f", and '{name}', {of_what}, does not exist" if name else ""
        return _to_default(message, situation, outcome, f"{reason}{missing}; the default lead gets it")
    denied = situation.denial_of(agent)
    if denied:
        return _refused_by_agent(denied, message, situation)
    if situation.stand_in_for(agent):
        why = f"{reason}; {agent.name}, {of_what}, is offline, so the default lead gets it"
        return _to_default(message, situation, outcome, why)
    return _to_one(agent, situation, outcome, f"{reason}; {agent.name} is {of_what}")


def _to_default(message: SlackMessage, situation: Situation, outcome: RoutingOutcome, reason: str) -> Decision:
    lead = situation.roster.default_lead
    denied = situation.denial_of(lead)
    if denied:
        return _refused_by_agent(denied, message, situation)
    why = reason if lead else f"{reason}; no lead is registered yet, so it waits for one"
    return _to_one(lead, situation, outcome, why)


def _to_one(agent: Candidate | None, situation: Situation, outcome: RoutingOutcome, reason: str) -> Decision:
    """Routes to one agent, which becomes the owner of a thread without an owner; None stands for the first lead that is
    registered. ``outcome`` is one of those that are also a `MatchedBy`.
    """
    return Decision(
        outcome=outcome,
        reason=reason,
        targets=(_target(agent, MatchedBy(outcome)),),
        new_owner_id=agent.id if agent and situation.owner_id is None else None,
    )


def _target(agent: Candidate | None, matched_by: MatchedBy) -> Target:
    return Target(agent_id=agent.id if agent else None, matched_by=matched_by)
