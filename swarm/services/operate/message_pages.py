"""Pages of messages between agents, limited to the messages that the reader may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from swarm.domain.errors import Invalid, NotFound
from swarm.domain.model.agents import Agent, AgentMessage, check_channel
from swarm.services.operate.team import colleague
from swarm.store import agent_messages, agents
from swarm.store.agent_messages import FIRST_ID, LAST_ID, Scope
from swarm.store.bridge.transaction import Transaction

MAX_PAGE_CHARACTERS: Final = 100_000
"""A page ends at this length, because models have limits on their input."""

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
class AgentMessagesPage:
    """Messages, oldest first; ``more`` if there are further messages in the direction of reading."""

    messages: tuple[AgentMessage, ...]
    more: bool


def check_page(request: PageRequest) -> PageRequest:
    """Returns the request unchanged; raises Invalid for an invalid one."""
    if request.channel is not None and request.partner is not None:
        expected = "one of 'channel' and 'agent', not both"
        raise Invalid("Say which messages you want.", fields={"channel": expected, "agent": expected})
    given = {"after": request.after, "before": request.before}
    wrong = [name for name, value in given.items() if value is not None and not _is_id(value)]
    if wrong:
        raise Invalid(
            "Messages are found by their ids.", fields=dict.fromkeys(wrong, "the id of a message, or next_after")
        )
    return request


def read_page(tx: Transaction, reader: Agent, request: PageRequest) -> AgentMessagesPage:
    """Returns the page. Raises NotFound for an unknown agent or an empty channel."""
    if request.channel is not None:
        return _of_channel(tx, reader, request, check_channel(request.channel))
    if request.partner is not None:
        partner = colleague(agents.everyone(tx), reader, request.partner)
        return _page(tx, Scope.DIRECT, reader, request, partner_id=partner.id)
    return _page(tx, Scope.UNREAD, reader, request)


def _of_channel(tx: Transaction, reader: Agent, request: PageRequest, channel: str) -> AgentMessagesPage:
    if not agent_messages.has_channel(tx, channel):
        known = ", ".join(f"#{name}" for name in agent_messages.channels(tx, _SHOWN_CHANNELS))
        raise NotFound(
            f"Nothing was said in #{channel} yet.",
            hint=f"There are: {known}." if known else "The first send-message to a channel opens it.",
        )
    return _page(tx, Scope.CHANNEL, reader, request, channel=channel)


def _page(tx: Transaction, scope: Scope, reader: Agent, request: PageRequest, **place: str) -> AgentMessagesPage:
    """Returns unread messages, or messages after an id, from the beginning; otherwise the latest."""
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
    return AgentMessagesPage(messages=tuple(reversed(fitting) if newest else fitting), more=len(found) > len(fitting))


def _fitting(messages: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
    """Returns as many messages as fit into a page, at least one."""
    length = 0
    for count, message in enumerate(messages):
        length += len(message.text)
        if count and length > MAX_PAGE_CHARACTERS:
            return messages[:count]
    return messages


def _is_id(text: str) -> bool:
    """Whether a text is an id in the swarm's spelling: other spellings of a UUID have another order."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
