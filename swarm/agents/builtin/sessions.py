"""Which session a turn belongs to, and what of it is remembered."""

from __future__ import annotations

from collections.abc import Iterator

from swarm.domain.model_runs import Door
from swarm.domain.sessions import MessageRole, SessionMessage, SessionScope
from swarm.domain.streaming.events import Speaker, TurnInput, TurnMessage

TERMINAL_PREFIX = "cli:"


def session_of(turn: TurnInput, scope: SessionScope) -> str:
    """The id of the session that a turn belongs to.

    ``slack:{channel}:{user}``, or ``slack:{channel}:{thread}`` where that is the scope and where nobody is known to
    have asked; ``task:{conversation}`` for a task without a thread; ``cli:{uuid}`` in a terminal, as the terminal
    names it; ``agui:{client}:{conversation}`` for others, so that none reaches another's.
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


def run_of(turn: TurnInput) -> str:
    """What names the run in its session: in Slack the same when the same message is answered anew.

    Elsewhere messages are named by clients, who may give two the same name.
    """
    is_slack = turn.origin.door is Door.SLACK
    return turn.messages[0].id if is_slack and turn.messages and turn.messages[0].id else turn.run_id


def asked(turn: TurnInput, *, with_author: bool = False) -> str:
    """All that is newly said, as one text. ``with_author``: in a conversation of several, whoever says it is named."""
    return "\n\n".join(_named(message) if with_author else message.text for message in turn.messages)


def question(turn: TurnInput) -> SessionMessage:
    """What is newly said, to be remembered."""
    author = turn.messages[-1].author if turn.messages else ""
    return SessionMessage(role=MessageRole.USER, text=asked(turn), author=author or turn.origin.user_name)


def thread_of_several(turn: TurnInput) -> str:
    """What was said before in the thread, if others than who asks have a part in it; otherwise nothing.

    A session by user knows what this user and the agent have said to each other, and nothing of the others.
    """
    names = {message.author for message in turn.messages}
    others = [said for said in turn.history if said.speaker is Speaker.USER and said.author not in names]
    return "\n".join(_lines(turn)) if others else ""


def _lines(turn: TurnInput) -> Iterator[str]:
    for said in turn.history:
        yield f"{said.author or said.speaker.value}: {said.text}"


def _named(message: TurnMessage) -> str:
    return f"{message.author}: {message.text}" if message.author else message.text
