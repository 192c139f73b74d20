"""Messages between agents: stored once, notified to their recipients, and readable by every agent with access.

A page contains only messages that the reader may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from swarm.clock import SECOND
from swarm.domain.errors import Conflict, Invalid, NotFound, RateLimited
from swarm.domain.model.agents import (
    MAX_PER_MINUTE,
    SAME_WITHIN_SECONDS,
    Agent,
    AgentMessage,
    Mentions,
    check_channel,
    check_text,
    mentions,
)
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.views import JsonView
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.operate.agents import Present, read_team
from swarm.services.operate.team import colleague
from swarm.store import agent_messages, agents
from swarm.store.agent_messages import FIRST_ID, LAST_ID, Earlier, Scope
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import notices

_MINUTE = 60 * SECOND


@dataclass(frozen=True, kw_only=True, slots=True)
class AddresseeView(JsonView):
    """The recipient of a message: an online agent gets it at once, an offline agent on its return."""

    id: str
    name: str
    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent(JsonView):
    """The recipients of the message, and mentioned names that belong to no agent."""

    message_id: str
    addressees: tuple[AddresseeView, ...]
    unknown_mentions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Letter:
    """A message to be sent to a recipient or to a channel."""

    sender: Agent
    text: str
    recipient: Agent | None
    channel: str | None
    mentions: Mentions

    @property
    def place(self) -> str:
        """The channel's name or the recipient's id. No name is as long as an id."""
        return self.recipient.id if self.recipient else self.channel or ""


class Messages:
    """Messages between agents. Each message has a notice, which waits while its recipient is offline."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def send(self, caller: Caller, text: str, *, to: str | None = None, channel: str | None = None) -> Sent:
        """Sends a text to one agent, or to a channel, where the mentioned agents are notified.

        A repeated call, with the same ``request_id`` or else under the same lease, sends nothing and gets the first
        result; without both, an equal text to the same place counts as repeated for a minute. Raises Invalid, NotFound
        for an unknown agent, Conflict for a ``request_id`` that was used with a different text, and RateLimited.
        """
        if (to is None) == (channel is None):
            expected = "one of 'to' and 'channel'"
            raise Invalid("Name exactly one recipient.", fields={"to": expected, "channel": expected})
        name = check_channel(channel) if channel is not None else None
        return await self._database.write(self._send, caller, check_text(text), to, name)

    def _send(self, tx: Transaction, caller: Caller, text: str, to: str | None, channel: str | None) -> Sent:
        present = read_team(tx, self._operating_policy)
        letter = _letter(caller.agent, text, to, channel, [one.agent for one in present])
        agent_messages.serialize_inserts(tx)
        message_id = _store_once(tx, caller, letter, present)
        meant = agent_messages.addressees(tx, message_id)
        return Sent(
            message_id=message_id,
            addressees=tuple(
                AddresseeView(id=one.agent.id, name=one.agent.name, status=one.status)
                for one in present
                if one.agent.id in meant
            ),
            unknown_mentions=letter.mentions.unknown,
        )

    async def read(self, agent: Agent, request: PageRequest) -> AgentMessagesPage:
        """Returns messages of a channel or with another agent; without either, all unread messages for the caller.

        The page starts after a given id; without an id it contains the latest messages. Messages addressed to the
        reader are marked as read. Raises Invalid, and NotFound for an unknown agent or an empty channel.
        """
        page = await self._database.read(self._read_page, agent, _check_page(request))
        unread = [message.id for message in page.messages if message.unread]
        if unread:
            await self._database.write(agent_messages.mark_read, agent.id, unread)
        return page

    @staticmethod
    def _read_page(tx: Transaction, reader: Agent, request: PageRequest) -> AgentMessagesPage:
        """Returns the page. Raises NotFound for an unknown agent or an empty channel."""
        if request.channel is not None:
            return _of_channel(tx, reader, request, check_channel(request.channel))
        if request.partner is not None:
            partner = colleague(agents.everyone(tx), reader, request.partner)
            return _page(tx, Scope.DIRECT, reader, request, partner_id=partner.id)
        return _page(tx, Scope.UNREAD, reader, request)


def _letter(sender: Agent, text: str, to: str | None, channel: str | None, team: Sequence[Agent]) -> _Letter:
    recipient = colleague(team, sender, to) if to is not None else None
    if recipient and recipient.id == sender.id:
        raise Invalid("This is yourself.", fields={"to": "another agent's name or id"})
    named = Mentions(agents=(), everybody=False, unknown=()) if recipient else mentions(text, team)
    return _Letter(sender=sender, text=text, recipient=recipient, channel=channel, mentions=named)


def _store_once(tx: Transaction, caller: Caller, letter: _Letter, present: Sequence[Present]) -> str:
    """Returns the id of the message, which is stored now or was stored by an earlier equal call."""
    before = agent_messages.earlier(tx, letter.sender.id, letter.place, letter.text, MAX_PER_MINUTE)
    if caller.request_id is None and caller.lease_token is None:
        return _said_lately(tx, before) or _store(tx, letter, before, present)
    call = IdempotentCall(
        agent_id=letter.sender.id,
        tool="send-message",
        about=letter.place,
        lease_token=caller.lease_token,
        arguments={"text": letter.text},
        request_id=caller.request_id,
    )
    message_id = str(idempotent(tx, call, lambda: {"message_id": _store(tx, letter, before, present)})["message_id"])
    stored = agent_messages.get(tx, message_id)
    if stored is None or stored.text != letter.text:  # otherwise the text would be lost: models reuse "1"
        raise Conflict(
            f"With the request_id '{caller.request_id}' you have already sent a different message there.",
            hint="Use a new request_id for a new message.",
        )
    return message_id


def _said_lately(tx: Transaction, before: Sequence[Earlier]) -> str | None:
    since = tx.now - SAME_WITHIN_SECONDS * SECOND
    return next((message.id for message in before if message.same and message.created_at > since), None)


def _store(tx: Transaction, letter: _Letter, before: Sequence[Earlier], present: Sequence[Present]) -> str:
    """Stores a message and adds notices for its recipients."""
    _check_rate(tx, before)
    meant = _addressees(letter, present)
    message_id = agent_messages.add(
        tx,
        letter.sender.id,
        letter.text,
        meant,
        channel=letter.channel,
        recipient_id=letter.recipient.id if letter.recipient else None,
    )
    for agent_id in meant:
        notices.add(
            tx,
            NoticeKind.AGENT_MESSAGE,
            agent_id,
            actor=letter.sender.id,
            text=letter.text,
            agent_message_id=message_id,
        )
    return message_id


def _addressees(letter: _Letter, present: Sequence[Present]) -> list[str]:
    """Returns the recipient; in a channel the mentioned agents, and for @all every online agent. Never includes the
    sender.
    """
    if letter.recipient:
        return [letter.recipient.id]
    named = {agent.id for agent in letter.mentions.agents} - {letter.sender.id}
    everybody = {one.agent.id for one in present if one.online} - {letter.sender.id}
    return sorted(named | everybody if letter.mentions.everybody else named)


def _check_rate(tx: Transaction, before: Sequence[Earlier]) -> None:
    """Raises RateLimited for a sender over the limit per minute."""
    left = before[-1].created_at + _MINUTE - tx.now if len(before) >= MAX_PER_MINUTE else 0
    if left > 0:
        raise RateLimited(
            f"You have sent {MAX_PER_MINUTE} messages within a minute; wait {-(-left // SECOND)} seconds.",
            retry_after_seconds=left / SECOND,
            hint="Send fewer messages. If you and another agent only answer each other, stop.",
        )


MAX_PAGE_CHARACTERS: Final = 100_000
"""A page ends at this length, because models limit their input."""

_SHOWN_CHANNELS: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRequest:
    """The selection of messages to read."""

    channel: str | None = None
    partner: str | None = None  # an agent's name or id
    after: str | None = None
    before: str | None = None
    limit: int = 20
    unread_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMessagesPage(JsonView):
    """Messages, oldest first. ``more`` says whether there are more; ``next_after`` is where to continue."""

    messages: tuple[AgentMessage, ...]
    next_after: str | None
    more: bool  # in the direction of reading


def _check_page(request: PageRequest) -> PageRequest:
    """Returns the request unchanged. Raises Invalid for an invalid request."""
    if request.channel is not None and request.partner is not None:
        expected = "one of 'channel' and 'agent', not both"
        raise Invalid("Specify which messages to read.", fields={"channel": expected, "agent": expected})
    given = {"after": request.after, "before": request.before}
    wrong = [name for name, value in given.items() if value is not None and not _is_id(value)]
    if wrong:
        raise Invalid(
            "Messages are found by their ids.", fields=dict.fromkeys(wrong, "the id of a message, or next_after")
        )
    return request


def _of_channel(tx: Transaction, reader: Agent, request: PageRequest, channel: str) -> AgentMessagesPage:
    if not agent_messages.has_channel(tx, channel):
        known = ", ".join(f"#{name}" for name in agent_messages.channels(tx, _SHOWN_CHANNELS))
        raise NotFound(
            f"There are no messages in #{channel} yet.",
            hint=f"There are: {known}." if known else "The first send-message to a channel creates it.",
        )
    return _page(tx, Scope.CHANNEL, reader, request, channel=channel)


def _page(tx: Transaction, scope: Scope, reader: Agent, request: PageRequest, **place: str) -> AgentMessagesPage:
    """Returns unread messages or messages after an id, starting with the oldest; otherwise the latest messages."""
    newest = request.after is None and not request.unread_only and scope is not Scope.UNREAD
    found = agent_messages.page(
        tx,
        scope,
        reader.id,
        request.limit + 1,
        after=request.after or FIRST_ID,
        before=request.before or LAST_ID,
        newest=newest,
        unread_only=request.unread_only,
        **place,
    )
    fitting = _fitting(found[: request.limit])
    shown = tuple(reversed(fitting) if newest else fitting)
    next_after = shown[-1].id if shown else request.after
    return AgentMessagesPage(messages=shown, next_after=next_after, more=len(found) > len(fitting))


def _fitting(messages: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
    """Returns as many messages as fit into a page, but at least one."""
    length = 0
    for count, message in enumerate(messages):
        length += len(message.text)
        if count and length > MAX_PAGE_CHARACTERS:
            return messages[:count]
    return messages


def _is_id(text: str) -> bool:
    """Whether a text is an id as the swarm writes it. Other spellings of a UUID sort differently."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
