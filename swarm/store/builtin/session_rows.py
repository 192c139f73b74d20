"""What sessions remember, as it stands in rows."""

from __future__ import annotations

from typing import Any, cast

from pydantic_core import from_json, to_json

from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.store.bridge.statements import Row


def content_of(said: SessionMessage) -> str:
    """All of a message that has no column of its own, without what is empty, as JSON."""
    parts = {
        "text": said.text,
        "author": said.author,
        "call_id": said.call_id,
        "tool": said.tool,
        "arguments": said.arguments,
        "failed": said.failed,
    }
    return to_json({key: value for key, value in parts.items() if value}).decode()


def message_of(row: Row) -> SessionMessage:
    """A message out of its row."""
    parts = cast(dict[str, Any], from_json(row["content"]))
    return SessionMessage(
        role=MessageRole(row["role"]), position=row["position"], created_at=row["created_at"], **parts
    )


def summary_of(row: Row) -> list[SessionMessage]:
    """The summary in a session's row, at the position of the last message in it; empty if there is none."""
    if row["summary"] is None:
        return []
    return [
        SessionMessage(
            role=MessageRole.SYSTEM,
            text=row["summary"],
            position=row["summarised_to"],
            created_at=row["summarised_at"],
        )
    ]
