"""Answering: the state and the post that shows it change in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.agents import Agent
from swarm.domain.conduct import Reactions
from swarm.domain.errors import Conflict, Invalid, TooLarge
from swarm.domain.inbox import EntryStatus, EntryStep
from swarm.domain.mrkdwn import strip_invisible
from swarm.domain.readable import mentioned_ids
from swarm.services.fencing import Grip, grip
from swarm.services.leases import claimed_members, end_if_resolved
from swarm.services.once import ToolCall, once
from swarm.services.speak import say, show_answered
from swarm.store import inbox, threads, transcript
from swarm.store.database import Database
from swarm.store.transaction import Transaction

MAX_REPLY_CHARACTERS: Final = 200_000
"""About fifty messages in Slack, which take the better part of a minute to send."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The run that calls a tool."""

    agent: Agent
    lease_token: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Replied:
    """The deliveries that will carry the answer, in order, and what the inbox message is now."""

    delivery_ids: tuple[str, ...]
    status: EntryStatus


class Replies:
    """What a lead or worker says to people."""

    def __init__(self, database: Database, reactions: Reactions) -> None:
        self._database = database
        self._reactions = reactions

    async def reply(
        self, caller: Caller, inbox_message_id: str, message: str, *, only: bool = False, broadcast: bool = False
    ) -> Replied:
        """Answer in the thread of an inbox message. Every message of the lease is answered by it, unless ``only``.

        The same call again returns the first result; a further call with another text posts again. Raises Invalid for
        an empty message, and what `grip` raises.
        """
        if not strip_invisible(message).strip():
            raise Invalid("The message is empty.", fields={"message": "what to say in the thread"})
        if len(message) > MAX_REPLY_CHARACTERS:
            raise TooLarge(
                f"The message has {len(message)} characters; at most {MAX_REPLY_CHARACTERS} fit into one answer.",
                hint="Say the essence; it would be dozens of messages that nobody reads.",
            )
        return await self._database.write(self._reply, caller, inbox_message_id, message, only, broadcast)

    async def dismiss(self, caller: Caller, inbox_message_id: str, reason: str) -> EntryStatus:
        """Mark an inbox message as needing no answer: it shows ✅ and nothing is said."""
        if not reason.strip():
            raise Invalid("Say why it needs no answer.", fields={"reason": "a sentence for the timeline"})
        return await self._database.write(self._dismiss, caller, inbox_message_id, reason)

    def _reply(
        self, tx: Transaction, caller: Caller, entry_id: str, message: str, only: bool, broadcast: bool
    ) -> Replied:
        said = {"inbox_message_id": entry_id, "message": message, "only": only, "broadcast": broadcast}
        call = _call(tx, caller, "slack-reply", entry_id, said)

        def act() -> dict[str, object]:
            hold = grip(tx, caller.agent, entry_id, caller.lease_token)
            return {"delivery_ids": self._answer(tx, hold, message, only, broadcast), "status": _status(tx, entry_id)}

        result = once(tx, call, act)
        return Replied(delivery_ids=tuple(result["delivery_ids"]), status=EntryStatus(result["status"]))

    def _answer(self, tx: Transaction, hold: Grip, message: str, only: bool, broadcast: bool) -> list[str]:
        sent = say(
            tx,
            hold.thread,
            message,
            agent_id=hold.lease.agent_id,
            inbox_message_id=hold.entry.id,
            broadcast=broadcast,
            mentionable=_people(tx, hold, message),
        )
        if not sent:
            raise Invalid("The message has nothing that can be shown.", fields={"message": "what to say in the thread"})
        for entry in [hold.entry] if only else [hold.entry, *claimed_members(tx, hold.lease)]:
            if inbox.move(tx, EntryStep.RESPOND, entry):
                show_answered(tx, hold.thread, entry.ts, self._reactions)
        threads.answered(tx, hold.thread.id)
        end_if_resolved(tx, hold.lease)
        return sent

    def _dismiss(self, tx: Transaction, caller: Caller, entry_id: str, reason: str) -> EntryStatus:
        said = {"inbox_message_id": entry_id, "reason": reason}
        call = _call(tx, caller, "dismiss-message", entry_id, said)

        def act() -> dict[str, object]:
            hold = grip(tx, caller.agent, entry_id, caller.lease_token)
            if not inbox.move(tx, EntryStep.DISMISS, hold.entry, reason=reason):
                raise Conflict(f"This inbox message is {hold.entry.status} already, so it cannot be dismissed.")
            show_answered(tx, hold.thread, hold.entry.ts, self._reactions)
            end_if_resolved(tx, hold.lease)
            return {"status": EntryStatus.DISMISSED}

        return EntryStatus(once(tx, call, act)["status"])


def _call(tx: Transaction, caller: Caller, tool: str, entry_id: str, said: Mapping[str, object]) -> ToolCall:
    """The call, under the lease that it names or, where it names none, under the entry's."""
    entry = inbox.get(tx, entry_id)
    token = caller.lease_token if caller.lease_token is not None else entry.lease_token if entry else None
    return ToolCall(
        agent_id=caller.agent.id,
        tool=tool,
        about=entry_id,
        lease_token=token,
        arguments=said,
        request_id=caller.request_id,
    )


def _people(tx: Transaction, hold: Grip, message: str) -> frozenset[str]:
    """Whom an answer may mention: people who wrote in the thread or were mentioned in it."""
    if not mentioned_ids(message):
        return frozenset()
    said = transcript.of_thread(tx, hold.thread.team, hold.thread.channel, hold.thread.thread_ts, "~")
    mentioned: set[str] = set()
    return frozenset(mentioned.union(*([message.author_id, *mentioned_ids(message.text)] for message in said)))


def _status(tx: Transaction, entry_id: str) -> str:
    entry = inbox.get(tx, entry_id)
    assert entry is not None  # it was locked a moment ago
    return entry.status.value
