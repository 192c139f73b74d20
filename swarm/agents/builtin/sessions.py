"""The session of a run, and the messages to remember of it."""

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
"""The roles of a thread's authors in sessions."""


def session_of(run_input: RunInput, scope: SessionScope) -> str:
    """Returns the id of a run's session.

    ``slack:{channel}:{user}``, or ``slack:{channel}:{thread}`` with the scope of a thread and for an unknown user;
    ``task:{conversation}`` for a task without a thread; ``cli:{uuid}`` in a terminal, as named by the terminal;
    ``agui:{client id}:{conversation}`` for other clients, so that none reaches another's session.
    """
    origin = run_input.origin
    if origin.door is Door.CLI:
        return (
            run_input.conversation_id
            if run_input.conversation_id.startswith(TERMINAL_PREFIX)
            else f"cli:{run_input.conversation_id}"
        )
    if origin.door is Door.AGUI:
        return f"agui:{origin.client}:{run_input.conversation_id}"
    if not origin.channel:
        return f"task:{run_input.conversation_id}"
    by_user = scope is SessionScope.USER and origin.user_id
    return f"slack:{origin.channel}:{origin.user_id if by_user else origin.thread_ts}"


def door_of(session_id: str) -> Door:
    """Returns the entry point of a session's runs."""
    kind = session_id.partition(":")[0]
    return {"cli": Door.CLI, "agui": Door.AGUI}.get(kind, Door.SLACK)


def asked(run_input: RunInput, *, with_author: bool = False) -> str:
    """Joins the new messages into one text. ``with_author`` names the authors, for conversations of several people.

    Raises Stumbled if no message has text.
    """
    said = [message for message in run_input.messages if message.text.strip()]
    if not said:
        raise Stumbled("There is no text in this message, and text is all that I can read. Write what I should do.")
    return "\n\n".join(_named(message) if with_author else message.marked for message in said)


def questions(run_input: RunInput) -> Iterator[SessionMessage]:
    """Yields the new messages to remember, each with its author and source."""
    in_slack = run_input.origin.door is Door.SLACK
    for message in run_input.messages:
        yield SessionMessage(
            role=MessageRole.USER,
            text=message.marked,
            author=message.author or run_input.origin.user_name,
            source=message.id if in_slack else "",
        )


def unheard(run_input: RunInput, told: Iterable[SessionMessage]) -> str:
    """Returns the thread's earlier messages that are not in ``told``, a line each; empty if people wrote none.

    A session has the messages to the agent, and its answers. A thread has more: messages among people, messages to
    other agents, and, where a client sends a whole conversation, messages older than the session.
    """
    remembered = [(message.role, _letters(message.text)) for message in told]
    by_people = {text for role, text in remembered if role is MessageRole.USER}
    by_us = "\n".join(text for role, text in remembered if role is MessageRole.ASSISTANT)  # Slack splits answers

    def is_new(said: InputMessage) -> bool:
        return _letters(said.marked) not in (by_people if said.speaker is Speaker.USER else by_us)

    new = [said for said in run_input.history if said.text.strip() and is_new(said)]
    return "\n".join(map(_line, new)) if any(said.speaker is Speaker.USER for said in new) else ""


def _letters(text: str) -> str:
    """Returns a text without characters that Slack may write differently: markup, spaces, punctuation."""
    return "".join(filter(str.isalnum, text)) or text


def _line(said: InputMessage) -> str:
    return said_by(said.author or said.speaker.value, said.marked)


def _named(message: InputMessage) -> str:
    return said_by(message.author, message.marked) if message.author else message.marked
