"""What the command line asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.clock import new_id

PREFIX: Final = "cli:"
"""How the ids of sessions in a terminal begin."""

_ID: Final = re.compile(rf"(?:{PREFIX}\S+|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatArguments:
    """Who is to be asked what, and in which session."""

    question: str = ""  # empty: a conversation
    agent: str | None = None  # None: the session's, or the usual one
    resume: bool = False  # go on with a session
    session_id: str | None = None  # which; None: the last one


def parse_arguments(words: Sequence[str], *, resume: bool, agent: str | None) -> ChatArguments:
    """What these arguments mean: after ``--resume`` the first one may be a session's id."""
    session_id = None
    if resume and words and _ID.fullmatch(words[0]):
        session_id, words = full_id(words[0]), words[1:]
    return ChatArguments(question=" ".join(words).strip(), agent=agent, resume=resume, session_id=session_id)


def full_id(id: str) -> str:
    """A session's id, which may be given without its beginning."""
    return id if id.startswith(PREFIX) else PREFIX + id


def new_session_id() -> str:
    """The id of a session that nobody has begun."""
    return PREFIX + new_id()
