"""Which messages of a session may be parted: a tool's use and its result are told together, summarised together or not
at all. Pure: what is cut where, not who summarises.

A use and a result belong together by their call id. Models that number their calls anew in each run use an id again, so
a result belongs to the last use before it that has none yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm.domain.model.sessions import MessageRole, SessionMessage

_OF_TOOLS = (MessageRole.TOOL_USE, MessageRole.TOOL_RESULT)


def pairs(messages: Sequence[SessionMessage]) -> Mapping[int, int]:
    """The uses of tools that have a result, each with it, as places in ``messages``."""
    waiting: dict[str, list[int]] = {}
    found: dict[int, int] = {}
    for place, message in enumerate(messages):
        if message.role is MessageRole.TOOL_USE:
            waiting.setdefault(message.call_id, []).append(place)
        elif message.role is MessageRole.TOOL_RESULT and waiting.get(message.call_id):
            found[waiting[message.call_id].pop()] = place
    return found


def cut(messages: Sequence[SessionMessage], keep: int) -> int:
    """Where to cut so that at least the last ``keep`` messages stay together with their like: how many come before.

    Calls that were made side by side, and their results, are one: the cut is before the first of them.
    """
    place = max(len(messages) - keep, 0)
    whole = pairs(messages)
    while parted := [use for use, result in whole.items() if use < place <= result]:
        place = min(parted)
    return place


def tellable(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """What may be told to a model, which refuses a use without its result, a result without its use, and empty words.

    A history has such after a crash, when somebody has added messages singly, or because an answer was empty.
    """
    whole = pairs(messages)
    in_pairs = whole.keys() | set(whole.values())
    return [
        message
        for place, message in enumerate(messages)
        if (place in in_pairs if message.role in _OF_TOOLS else message.text.strip())
    ]


def last_of(messages: Sequence[SessionMessage], limit: int | None) -> list[SessionMessage]:
    """The last so many that may be told, and those before them without which they could not be; None: all."""
    told = tellable(messages)
    return told if limit is None else told[cut(told, limit) :]


def to_summarise(messages: Sequence[SessionMessage], threshold: int, keep_recent: int) -> Sequence[SessionMessage]:
    """The first of the messages that are told: those to put into the summary. Empty unless there is need and use.

    There is need above ``threshold`` messages, and use unless there is nothing but an earlier summary.
    """
    if len(messages) <= threshold:
        return ()
    older = messages[: cut(messages, keep_recent)]
    worth = tellable(older)
    return older if len(worth) > 1 or any(message.role is not MessageRole.SYSTEM for message in worth) else ()
