"""The arguments of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.clock import new_id

PREFIX: Final = "cli:"
"""The prefix of session ids in a terminal."""

_ID: Final = re.compile(rf"(?:{PREFIX}\S+|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatArguments:
    """The agent, question and session of a chat."""

    question: str = ""  # empty: a conversation
    agent: str | None = None  # None: the session's, or the usual one
    resume: bool = False  # go on with a session
    session_id: str | None = None  # None: the last one


def parse_arguments(words: Sequence[str], *, resume: bool, agent: str | None) -> ChatArguments:
    """Parse arguments: after ``--resume`` the first one may be a session's id."""
    session_id = None
    if resume and words and _ID.fullmatch(words[0]):
        session_id, words = full_id(words[0]), words[1:]
    return ChatArguments(question=" ".join(words).strip(), agent=agent, resume=resume, session_id=session_id)


def full_id(id: str) -> str:
    """A session's full id, from one with or without its prefix."""
    return id if id.startswith(PREFIX) else PREFIX + id


def new_session_id() -> str:
    """The id of a new session."""
    return PREFIX + new_id()
