"""What people are told about who gets their message: nobody yet, another agent than they named, nobody at all.

The thread is told that a message waits, once until it has been answered, and that the default lead answers in an
agent's place, once a day. A person alone is told that nobody has the name that they wrote, and that they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import AuthorKind, SlackMessage
from swarm.domain.roster import Candidate, Roster, names_and_verb
from swarm.domain.routing import Decision, RoutingOutcome
from swarm.services.rules.system_messages import LIMITED_TEXT, post_ephemeral, post_message, refused_text
from swarm.store import deliveries
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads

QUEUED_TEXT: Final = (
    "Nobody is available right now. Your message is queued and will be answered as soon as an agent is back."
)
WAITS_TEXT: Final = (
    "{who} not available right now. Your message is queued and will be answered as soon as {back} available."
)
NO_LEAD_TEXT: Final = (
    "No lead is available right now. Your message is queued and will be answered as soon as one is there."
)
FAILOVER_TEXT: Final = "{who} not available right now, so {lead} answers instead."
UNKNOWN_TEXT: Final = "No agent is called {names}, so {who} got your message. You can write to {choice}."
BOT_CAPPED_TEXT: Final = (
    "Bots have said as much in this thread as agents take within an hour, so no agent gets more of it for now. "
    "People are heard as before; whoever runs me can raise the limit (bot_messages_per_hour)."
)

_MOST_NAMES: Final = 20
_MOST_UNKNOWN: Final = 3
_LONGEST_NAME: Final = 40


def tell_queued(tx: Transaction, thread: Thread, roster: Roster, waits_for: Sequence[Candidate]) -> None:
    """Tell a thread that its message waits and for whom, once until it has been answered."""
    if threads.tell_queued(tx, thread.id):
        post_message(tx, thread, queued_text(roster, waits_for))


def queued_text(roster: Roster, waits_for: Sequence[Candidate]) -> str:
    """Why a message waits. ``waits_for``: the agents that have it, none of them online; nobody: it waits for a lead."""
    lead = roster.default_lead
    if all(agent == lead for agent in waits_for) and not any(agent.online for agent in roster.agents):
        return QUEUED_TEXT
    if not waits_for:
        return NO_LEAD_TEXT
    others = [lead.name] if lead and lead not in waits_for else []
    back = " or ".join([*(agent.name for agent in waits_for), *others]) + " is"
    return WAITS_TEXT.format(who=names_and_verb(waits_for), back=back)


def tell_failover(tx: Transaction, thread: Thread, absent: Sequence[Candidate], lead: Candidate) -> None:
    """Tell a thread that an agent that somebody has named is away, and that the lead answers; once a day for each."""
    day = tx.now // (24 * 3600 * SECOND)
    key = f"stands_in:{thread.id}:{','.join(sorted(agent.id for agent in absent))}:{lead.id}:{day}"
    text = FAILOVER_TEXT.format(who=names_and_verb(absent), lead=lead.name)
    deliveries.add(tx, DeliveryKind.POST, thread, text=text, once_key=key)


def tell_routed(tx: Transaction, thread: Thread, message: SlackMessage, decision: Decision, roster: Roster) -> None:
    """Tell what is not as the author of a routed message expects, if anything."""
    takers = [agent for target in decision.targets if (agent := roster.by_id(target.agent_id))]
    if decision.unknown and roster.agents and message.author.kind is AuthorKind.USER:
        key = f"unknown:{thread.team}:{message.channel}:{message.ts}"
        post_ephemeral(tx, thread, message, unknown_text(decision.unknown, takers, roster), key)
    if not any(agent.online for agent in takers):
        tell_queued(tx, thread, roster, takers)
    elif decision.absent and roster.default_lead:
        tell_failover(tx, thread, decision.absent, roster.default_lead)


def unknown_text(unknown: Sequence[str], takers: Sequence[Candidate], roster: Roster) -> str:
    """Who has the message, where somebody wrote ``swarm#…`` with a name of nobody, and who can be written to."""
    by_presence = sorted(roster.agents, key=lambda agent: not agent.online)
    known = ["swarm#" + agent.name for agent in by_presence]
    shown = ", ".join(known[:_MOST_NAMES])
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    names = " or ".join(f"“{_short(name)}”" for name in unknown[:_MOST_UNKNOWN])
    who = " and ".join(agent.name for agent in takers) or "nobody yet"
    return UNKNOWN_TEXT.format(names=names, who=who, choice=f"{shown}{more}, or to all of them with swarm#all")


def tell_refused(tx: Transaction, thread: Thread, message: SlackMessage, decision: Decision, key: str) -> None:
    """Say so to this person alone; of bots' messages to the thread, since a bot reads nothing that only it can see."""
    if decision.outcome is RoutingOutcome.BOT_CAPPED:
        deliveries.add(tx, DeliveryKind.POST, thread, text=BOT_CAPPED_TEXT, once_key=key)
        return
    text = LIMITED_TEXT if decision.outcome is RoutingOutcome.RATE_LIMITED else refused_text(message.author)
    post_ephemeral(tx, thread, message, text, key)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
