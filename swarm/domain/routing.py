"""Routing: which agents get a message, and why.

:func:`decide` is a pure function from a Slack message and the current situation to one of a closed set of outcomes.
The first matching rule decides:

1. own, edited, deleted and system messages are never work; strangers and others without access are refused; ``!stop``
   stops the runs in its thread, and is a normal message if nothing runs there
2. an explicit address: ``swarm#<name or id>``, ``swarm#all``
3. the owner of the thread, unless the message mentions only other people
4. the channel's listening mode
5. a mention of the bot, or a direct message: the channel's agent, or the agent for direct messages; otherwise the
   default lead
6. everything else is context
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from swarm.domain.access import Me, denial
from swarm.domain.channel_policy import ChannelPolicy, External, Listen
from swarm.domain.model.inbox import MatchedBy
from swarm.domain.model.threads import Author, AuthorKind, ChannelType, SlackMessage, Standing
from swarm.domain.roster import ADDRESS, Candidate, Roster, addressed, names_and_verb

_CONTENT_SUBTYPES: Final = frozenset({None, "file_share", "thread_broadcast", "me_message", "bot_message"})
_MENTION = re.compile(r"<@([UW][A-Z0-9]*)(?:\|[^>]*)?>")
_OF_CHANNEL: Final = "the channel's agent"
_FOR_DIRECT_MESSAGES: Final = "the agent for direct messages"
_STOP: Final = "!stop"


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
    MENTION = "mention"
    DIRECT_MESSAGE = "direct_message"
    CONTEXT = "context"


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

    @property
    def is_work(self) -> bool:
        """Whether the message causes work, or would cause work if the author had access here."""
        return bool(self.targets) or self.outcome is RoutingOutcome.STOP or self.is_refusal


def _mentions(text: str) -> frozenset[str]:
    """Returns the ids of all users mentioned in a text."""
    return frozenset(_MENTION.findall(text))


def names_swarm(text: str, me: Me) -> bool:
    """Whether a text mentions the bot or addresses an agent."""
    return me.user_id in _mentions(text) or ADDRESS.search(text) is not None


def asks_to_stop(text: str) -> bool:
    """Whether a text is ``!stop`` in any case, with or without mentions around it."""
    return _STOP in text.lower() and _MENTION.sub("", text).strip().lower() == _STOP


def decide(message: SlackMessage, situation: Situation, change: Change = Change.POSTED) -> Decision:
    """Returns the recipients of ``message`` and the reason. Every message has exactly one outcome."""
    return (
        _never_work(message, situation, change)
        or _refused(message, situation, change)
        or _by_rules(message, situation, change)
    )


def answering(policy: ChannelPolicy, roster: Roster) -> Candidate | None:
    """Returns the agent that gets a mention or a direct message under this policy; None without a registered lead."""
    agent = roster.by_name(policy.agent)
    return agent if agent and not roster.stand_in_for(agent) else roster.default_lead


def _by_rules(message: SlackMessage, situation: Situation, change: Change) -> Decision:
    """Applies rules 2 to 6 and ``!stop`` for authors with access."""
    return (
        _by_stop(message, situation, change)
        or _by_address(message, situation)
        or _by_owner(message, situation)
        or _by_listening(message, situation)
        or _by_mention(message, situation)
        or Decision(
            outcome=RoutingOutcome.CONTEXT, reason="it names nobody, and nobody listens here or owns the thread"
        )
    )


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


def _refused(message: SlackMessage, situation: Situation, change: Change) -> Decision | None:
    """Applies the rest of rule 1: authors without access, and bots over their limit."""
    denied = denial(message.author, situation.policy)
    if denied:
        outcome, decision = _refusal(message.author, situation.policy), _by_rules(message, situation, change)
        if outcome is RoutingOutcome.UNVERIFIED and not decision.is_work:
            return decision  # not work, whoever the author is
        is_told = situation.policy.enabled and message.author.kind is AuthorKind.USER
        return Decision(outcome=outcome, reason=denied, is_refusal=is_told and decision.is_work)
    most = situation.policy.bot_messages_per_hour
    if message.author.kind is AuthorKind.BOT and situation.bot_turns >= most:
        reason = f"bots have reached the limit of {most} messages per hour in this thread (bot_messages_per_hour)"
        is_work = _by_rules(message, situation, change).is_work
        return Decision(outcome=RoutingOutcome.BOT_CAPPED, reason=reason, is_refusal=is_work)
    return None


def _refusal(author: Author, policy: ChannelPolicy) -> RoutingOutcome:
    if author.kind is AuthorKind.BOT or not policy.enabled or author.standing is Standing.MEMBER:
        return RoutingOutcome.NOT_ALLOWED
    if policy.external is External.ALLOW:
        return RoutingOutcome.NOT_ALLOWED  # excluded by the list of people
    return RoutingOutcome.STRANGER if author.standing else RoutingOutcome.UNVERIFIED


def _by_stop(message: SlackMessage, situation: Situation, change: Change) -> Decision | None:
    """Applies the end of rule 1. Bots stop nothing, and a message addressed to somebody else stops nothing."""
    if not situation.can_stop or change is not Change.POSTED or message.author.kind is not AuthorKind.USER:
        return None
    if not asks_to_stop(message.own_text) or _mentions_only_others(message, situation):
        return None
    return Decision(outcome=RoutingOutcome.STOP, reason="it stops what runs here")


def _by_address(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 2. A single named agent also gets the thread; several agents get it only without an owner; ``all``
    never does.
    """
    named, everybody, unknown = addressed(message.own_text, situation.roster)
    if everybody and situation.roster.agents:
        targets = tuple(Target(agent_id=agent.id, matched_by=MatchedBy.BROADCAST) for agent in situation.roster.agents)
        return Decision(outcome=RoutingOutcome.BROADCAST, reason="swarm#all addresses every agent", targets=targets)
    if named:
        return replace(_to_named(named, situation), unknown=unknown)
    if everybody or unknown:
        wanted = "all" if everybody else unknown[0]
        reason = f"swarm#{wanted} names no agent, so the default lead gets it"
        return replace(_to_default(situation, RoutingOutcome.ADDRESS, MatchedBy.ADDRESS, reason), unknown=unknown)
    return None


def _to_named(named: tuple[Candidate, ...], situation: Situation) -> Decision:
    """Routes to the named agents. The default lead gets one message for all named agents that are offline."""
    targets: dict[str, Target] = {}
    stand_ins = {agent: situation.roster.stand_in_for(agent) for agent in named}
    for agent, stand_in in stand_ins.items():
        target = _target(stand_in, MatchedBy.READDRESSED) if stand_in else _target(agent, MatchedBy.ADDRESS)
        if target.agent_id not in targets or not stand_in:
            targets[target.agent_id or ""] = target
    absent = tuple(agent for agent, stand_in in stand_ins.items() if stand_in)
    why = f"; {names_and_verb(absent)} offline, so the default lead gets it" if absent else ""
    is_moved = len(named) == 1 and not absent  # an offline agent never takes over a thread
    return Decision(
        outcome=RoutingOutcome.ADDRESS,
        reason="it names " + " and ".join(f"swarm#{agent.name}" for agent in named) + why,
        targets=tuple(targets.values()),
        new_owner_id=next(iter(targets)) if is_moved or situation.owner_id is None else None,
        absent=absent,
    )


def _by_owner(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 3."""
    if situation.owner_id is None and not situation.awaits_lead:
        return None
    if _mentions_only_others(message, situation):
        return Decision(
            outcome=RoutingOutcome.OTHERS_MENTIONED, reason="it mentions only somebody else, so it is context"
        )
    if situation.owner_id is None:
        return _to_default(
            situation,
            RoutingOutcome.THREAD_OWNER,
            MatchedBy.THREAD_OWNER,
            "the thread waits for a lead, who will own it",
        )
    owner = situation.roster.by_id(situation.owner_id)
    if owner and not situation.roster.stand_in_for(owner):
        return Decision(
            outcome=RoutingOutcome.THREAD_OWNER,
            reason=f"{owner.name} owns the thread",
            targets=(Target(agent_id=owner.id, matched_by=MatchedBy.THREAD_OWNER),),
        )
    stand_in = situation.roster.default_lead
    why = f"{owner.name} owns the thread but is offline" if owner else "the owner of the thread is gone"
    return Decision(
        outcome=RoutingOutcome.THREAD_OWNER_OFFLINE,
        reason=f"{why}, so the default lead gets it",
        targets=(_target(stand_in, MatchedBy.THREAD_OWNER_OFFLINE),),
        new_owner_id=stand_in.id if stand_in and owner is None else None,
    )


def _by_listening(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 4. A mention of the bot is left to rule 5, whose reason states it."""
    listen = situation.policy.listen
    if situation.me.user_id in _mentions(message.own_text) or message.channel_type is ChannelType.DM:
        return None
    if message.author.kind is AuthorKind.BOT:
        if listen is Listen.BOTS:
            return _to_channel_agent(
                situation, RoutingOutcome.ALERT, MatchedBy.ALERT, "the channel listens to this bot"
            )
        return None
    if listen is not Listen.ALL or not message.is_root or _mentions_only_others(message, situation):
        return None
    return _to_channel_agent(
        situation, RoutingOutcome.CHANNEL_AGENT, MatchedBy.CHANNEL_AGENT, "the channel listens to every root message"
    )


def _by_mention(message: SlackMessage, situation: Situation) -> Decision | None:
    """Applies rule 5."""
    is_direct = message.channel_type is ChannelType.DM
    of_what = _FOR_DIRECT_MESSAGES if is_direct else _OF_CHANNEL
    if situation.me.user_id in _mentions(message.own_text):
        return _to_channel_agent(situation, RoutingOutcome.MENTION, MatchedBy.MENTION, "it mentions the bot", of_what)
    if is_direct:
        return _to_channel_agent(
            situation,
            RoutingOutcome.DIRECT_MESSAGE,
            MatchedBy.DIRECT_MESSAGE,
            "it is a direct message to the bot",
            of_what,
        )
    return None


def _mentions_only_others(message: SlackMessage, situation: Situation) -> bool:
    """Whether the message mentions only other people. A direct message to the bot has no other recipients."""
    named = _mentions(message.own_text)
    return bool(named) and situation.me.user_id not in named and message.channel_type is not ChannelType.DM


def _to_channel_agent(
    situation: Situation, outcome: RoutingOutcome, matched_by: MatchedBy, reason: str, of_what: str = _OF_CHANNEL
) -> Decision:
    """Routes to the channel's configured agent, or to the default lead if none is configured or online."""
    name = situation.policy.agent
    agent = situation.roster.by_name(name)
    if agent is None:
        missing = f", and '{name}', {of_what}, does not exist" if name else ""
        return _to_default(situation, outcome, matched_by, f"{reason}{missing}; the default lead gets it")
    if situation.roster.stand_in_for(agent):
        why = f"{reason}; {agent.name}, {of_what}, is offline, so the default lead gets it"
        return _to_default(situation, outcome, matched_by, why)
    return _to_one(agent, situation, outcome, matched_by, f"{reason}; {agent.name} is {of_what}")


def _to_default(situation: Situation, outcome: RoutingOutcome, matched_by: MatchedBy, reason: str) -> Decision:
    lead = situation.roster.default_lead
    if lead is None:
        return Decision(
            outcome=outcome,
            reason=f"{reason}; no lead is registered yet, so it waits for one",
            targets=(Target(agent_id=None, matched_by=matched_by),),
        )
    return _to_one(lead, situation, outcome, matched_by, reason)


def _to_one(
    agent: Candidate, situation: Situation, outcome: RoutingOutcome, matched_by: MatchedBy, reason: str
) -> Decision:
    """Routes to one agent, which becomes the owner of a thread without an owner."""
    return Decision(
        outcome=outcome,
        reason=reason,
        targets=(_target(agent, matched_by),),
        new_owner_id=agent.id if situation.owner_id is None else None,
    )


def _target(agent: Candidate | None, matched_by: MatchedBy) -> Target:
    return Target(agent_id=agent.id if agent else None, matched_by=matched_by)
