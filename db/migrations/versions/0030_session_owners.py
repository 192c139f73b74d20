"""Sessions of built-in agents belong to the agent's id instead of its name.

A name belongs to the built-in agent that has it, or that had it last. Agents that have only been used by ``swarm chat``
were not registered; they are now.
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_OWNERS = sa.text("SELECT DISTINCT agent FROM sessions")
_IDS = sa.text(
    "SELECT id FROM agents WHERE name = :name AND reach = 'builtin' "
    "ORDER BY CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END, created_at DESC, id DESC LIMIT 1"
)
_TAKEN = sa.text("SELECT 1 FROM agents WHERE name = :name AND revoked_at IS NULL")
_REGISTER = sa.text(
    "INSERT INTO agents (id, name, role, description, capabilities, created_at, revoked_at, reach, enrolled) "
    "SELECT :id, :name, 'lead', '', '[]', min(created_at), CASE WHEN :taken THEN max(updated_at) END, 'builtin', :no "
    "FROM sessions WHERE agent = :name"
)
_COPY = sa.text(
    "INSERT INTO sessions "
    "(agent, id, metadata, edition, summary, summarised_to, summarised_at, created_at, updated_at) "
    "SELECT :new, id, metadata, edition, summary, summarised_to, summarised_at, created_at, updated_at "
    "FROM sessions WHERE agent = :old"
)
_MOVE = sa.text("UPDATE session_messages SET agent = :new WHERE agent = :old")
_DROP = sa.text("DELETE FROM sessions WHERE agent = :old")
_NAMES = sa.text(
    "SELECT id, name FROM agents WHERE id IN (SELECT agent FROM sessions) "
    "ORDER BY CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END, created_at DESC"
)


def upgrade() -> None:
    connection = op.get_bind()
    for (name,) in connection.execute(_OWNERS).all():
        _rename(connection, name, _id_of(connection, name))


def downgrade() -> None:
    connection = op.get_bind()
    seen: set[str] = set()
    for agent_id, name in connection.execute(_NAMES).all():
        if name in seen:
            connection.execute(_DROP, {"old": agent_id})  # of an earlier agent of the name
        else:
            _rename(connection, agent_id, name)
        seen.add(name)


def _id_of(connection: sa.Connection, name: str) -> str:
    known = connection.execute(_IDS, {"name": name}).scalar()
    if known is not None:
        return str(known)
    taken = connection.execute(_TAKEN, {"name": name}).scalar() is not None
    new = {"id": str(uuid.uuid4()), "name": name, "taken": taken, "no": False}
    connection.execute(_REGISTER, new)
    return new["id"]


def _rename(connection: sa.Connection, old: str, new: str) -> None:
    """Moves sessions with their messages, which refer to them."""
    connection.execute(_COPY, {"old": old, "new": new})
    connection.execute(_MOVE, {"old": old, "new": new})
    connection.execute(_DROP, {"old": old})
