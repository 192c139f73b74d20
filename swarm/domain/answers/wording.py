"""The sentences below an answer and on the status line: Markdown, safe for Slack."""

from __future__ import annotations

from typing import Final

from swarm.domain.text.slack_text import safe
from swarm_base.secrets import without_secrets

THINKING: Final = "is thinking…"
EMPTY: Final = "it ended without an answer"
CANCELLED: Final = "it was cancelled by the agent"

MAX_NOTE_CHARACTERS: Final = 2_900
"""A section block in Slack accepts 3,000 characters."""

_MAX_REASON: Final = 500
_MAX_NAME: Final = 200
_MAX_LABEL: Final = 250  # Slack accepts 256; escaping makes a name longer


def broke_off(reason: str, *, is_partial: bool, agent: str = "") -> str:
    """Returns the reason for a missing or incomplete answer. "It" at its beginning stands for the agent."""
    why = safe(_cut(without_secrets(_clause(reason)), _MAX_REASON))
    if is_partial:
        return f"⚠️ This answer is not complete: {why}."
    if not why.startswith(("it ", "the agent ")):
        return f"⚠️ There is no answer: {why}."
    return f"⚠️ {f'*{label(agent)}*' if agent else 'The agent'} {why.removeprefix('the agent ').removeprefix('it ')}."


def stopped(by: str | None) -> str:
    """Returns the note of a stopped answer; ``by`` is a user id."""
    return f"🛑 Stopped by <@{by}>." if by else "🛑 Stopped."


def using(tool: str) -> str:
    """Returns the status line while a tool runs."""
    return f"is using {label(tool)}…"


def doing(step: str) -> str:
    """Returns the status line for a step."""
    return f"is working on {label(step)}…"


def working(agent: str) -> str:
    """Returns the status line while a polling agent works."""
    return f"is working on it ({label(agent)})…"


def label(name: str) -> str:
    """Returns a name for a card or a status line: one line, without pings."""
    return _cut(safe(_cut(without_secrets(" ".join(name.split())), _MAX_NAME)), _MAX_LABEL) or "…"


def _clause(reason: str) -> str:
    return " ".join(reason.split()).rstrip(".") or "the agent failed without giving a reason"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
