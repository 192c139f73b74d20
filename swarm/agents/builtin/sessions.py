"""Which session a turn belongs to, and what of it is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from swarm.agents.builtin.run import Stumbled
from swarm.domain.answers.events import InputMessage, RunInput, Speaker
from swarm.domain.model.models import Door
from swarm.domain.model.sessions import MessageRole, SessionMessage, SessionScope
from swarm.domain.prompts.fences import said_by

TERMINAL_PREFIX = "cli:"

ROLES: Final = {Speaker.USER: MessageRole.USER, Speaker.ASSISTANT: MessageRole.ASSISTANT}
"""Who says a message of a thread, as sessions call it."""


def session_of(turn: RunInput, scope: SessionScope) -> str:
    """The id of the session that a turn belongs to.

    ``slack:{channel}:{user}``, or ``slack:{channel}:{thread}`` where that is the scope and where nobody is known to
    have asked; ``task:{conversation}`` for a task without a thread; ``cli:{uuid}`` in a terminal, as the terminal
    names it; ``agui:{client id}:{conversation}`` for others, so that none reaches another's.
    """
    origin = turn.origin
    if origin.door is Door.CLI:
        return (
            turn.conversation_id if turn.conversation_id.startswith(TERMINAL_PREFIX) else f"cli:{turn.conversation_id}"
        )
    if origin.door is Door.AGUI:
        return f"agui:{origin.client}:{turn.conversation_id}"
    if not origin.channel:
        return f"task:{turn.conversation_id}"
    by_user = scope is SessionScope.USER and origin.user_id
    return f"slack:{origin.channel}:{origin.user_id if by_user else origin.thread_ts}"


def door_of(session_id: str) -> Door:
    """Where the turns of a session come from."""
    kind = session_id.partition(":")[0]
    return {"cli": Door.CLI, "agui": Door.AGUI}.get(kind, Door.SLACK)


def asked(turn: RunInput, *, with_author: bool = False) -> str:
    """All that is newly said, as one text. ``with_author``: in a conversation of several, whoever says it is named.

    Raises Stumbled if nothing is said.
    """
    said = [message for message in turn.messages if message.text.strip()]
    if not said:
        raise Stumbled("There is no text in this message, and text is all that I can read. Write what I should do.")
    return "\n\n".join(_named(message) if with_author else message.marked for message in said)


def questions(turn: RunInput) -> Iterator[SessionMessage]:
    """What is newly said, to be remembered: each message with whoever says it, and where it is from."""
    in_slack = turn.origin.door is Door.SLACK
    for message in turn.messages:
        yield SessionMessage(
            role=MessageRole.USER,
            text=message.marked,
            author=message.author or turn.origin.user_name,
            source=message.id if in_slack else "",
        )


def unheard(turn: RunInput, told: Iterable[SessionMessage]) -> str:
    """What was said before in the thread and is not in what is ``told``, a line each; nothing if no person said it.

    A session knows what was said to the agent, and what it answered. In a thread there is more: what others said, what
    nobody said to the agent, and, where a client tells a whole conversation, what came before the session.
    """
    remembered = [(message.role, _letters(message.text)) for message in told]
    by_people = {text for role, text in remembered if role is MessageRole.USER}
    by_us = "\n".join(text for role, text in remembered if role is MessageRole.ASSISTANT)  # Slack shows it in pieces

    def is_new(said: InputMessage) -> bool:
        return _letters(said.marked) not in (by_people if said.speaker is Speaker.USER else by_us)

    new = [said for said in turn.history if said.text.strip() and is_new(said)]
    return "\n".join(map(_line, new)) if any(said.speaker is Speaker.USER for said in new) else ""


def _letters(text: str) -> str:
    """A text without what Slack may write in another way: markup, spaces, punctuation."""
    return "".join(filter(str.isalnum, text)) or text


def _line(said: InputMessage) -> str:
    return said_by(said.author or said.speaker.value, said.marked)


def _named(message: InputMessage) -> str:
    return said_by(message.author, message.marked) if message.author else message.marked
