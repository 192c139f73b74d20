"""Agents, their tokens, and the messages between them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)

from swarm.domain.model.agents import Reach, Role
from swarm.store.tables.schema import metadata, one_of

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("capabilities", Text, nullable=False),  # JSON list of strings
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("reach", Text, nullable=False, server_default="polling"),
    Column("enrolled", Boolean, nullable=False, server_default=false()),  # registered with an enrolment key
    Column("parked_until", BigInteger),  # a limit of its account is reached until then
    one_of("role", Role),
    one_of("reach", Reach),
)
# A name becomes available again after its agent was revoked.
Index(
    "uq_agents_name",
    agents.c.name,
    unique=True,
    sqlite_where=agents.c.revoked_at.is_(None),
    postgresql_where=agents.c.revoked_at.is_(None),
)

agent_tokens = Table(
    "agent_tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),  # SHA-256, hex
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)
Index("ix_agent_tokens_agent", agent_tokens.c.agent_id)
_has_ended = agent_tokens.c.revoked_at.is_not(None)
Index("ix_agent_tokens_revoked", agent_tokens.c.revoked_at, sqlite_where=_has_ended, postgresql_where=_has_ended)

# The program that serves a polling agent, if it says which it is: one agent is served by one program.
agent_instances = Table(
    "agent_instances",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("instance_id", Text, nullable=False),  # a UUID, chosen by the program
    Column("began_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("called_at", BigInteger, nullable=False, server_default=text("0")),  # when its last call began
)

# When coordinators have listened: an agent could call only then.
listening = Table(
    "listening",
    metadata,
    Column("id", Text, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    Column("until_at", BigInteger, nullable=False),
)
Index("ix_listening_until", listening.c.until_at)

# Messages between agents: to a single agent, or in an agent channel.
agent_messages = Table(
    "agent_messages",
    metadata,
    Column("id", Text, primary_key=True),  # ordered by time
    Column("channel", Text),
    Column("recipient_id", Text, ForeignKey("agents.id")),
    Column("sender_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    CheckConstraint("(channel IS NULL) <> (recipient_id IS NULL)", name="somewhere"),
)
Index("ix_agent_messages_channel", agent_messages.c.channel, agent_messages.c.id)
Index("ix_agent_messages_recipient", agent_messages.c.recipient_id, agent_messages.c.id)
Index("ix_agent_messages_sender", agent_messages.c.sender_id, agent_messages.c.id)

# The addressees of a message between agents: its recipient, or the agents mentioned in a channel.
agent_message_addressees = Table(
    "agent_message_addressees",
    metadata,
    Column("message_id", Text, ForeignKey("agent_messages.id", ondelete="CASCADE"), nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("read_at", BigInteger),
    PrimaryKeyConstraint("message_id", "agent_id"),
)
_unread_message = agent_message_addressees.c.read_at.is_(None)
Index(
    "ix_agent_message_addressees_unread",
    agent_message_addressees.c.agent_id,
    sqlite_where=_unread_message,
    postgresql_where=_unread_message,
)
