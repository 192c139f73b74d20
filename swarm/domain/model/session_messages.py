"""What a session keeps of a message: text that every database takes, and not more of it than anybody reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from swarm.domain.errors import Invalid
from swarm.domain.model.sessions import MessageRole, SessionMessage

MOST_BYTES: Final = 1_000_000
"""So long may a text be, in UTF-8; and so long the arguments of a call, all in all."""

MOST_CHARACTERS: Final = 500
"""So long may what names something be: a session, a run, a call, a tool, an author."""

_MOST_DEPTH: Final = 50
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_ROLES_OF_TEXT: Final = (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.SYSTEM)


def storable(text: str) -> str:
    """Text that every database takes: NUL, and halves of surrogate pairs, become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def kept_text(text: str) -> str:
    """Text as it is kept: storable, and cut with a note if it is longer than `MOST_BYTES`."""
    return _cut(storable(text))


def checked_name(name: str, what: str) -> str:
    """The name of a session or run, if it can be one. Raises Invalid."""
    if not 0 < len(name) <= MOST_CHARACTERS or _UNSTORABLE.search(name):
        raise Invalid(
            f"The id of a {what} has 1 to {MOST_CHARACTERS} characters, and no NUL.", fields={what: "another id"}
        )
    return name


def kept(message: SessionMessage) -> SessionMessage:
    """A message as it is kept. What is too long is cut, and says so."""
    return replace(
        message,
        text=kept_text(message.text),
        author=_name(message.author),
        call_id=_name(message.call_id),
        tool=_name(message.tool),
        arguments=_kept_arguments(message.arguments),
    )


def message_of(role: MessageRole | str, content: str | Mapping[str, object]) -> SessionMessage:
    """A message out of its role and content (see `swarm.domain.model.sessions.Memory.add_message`). Raises Invalid."""
    try:
        known = MessageRole(role)
    except ValueError:
        raise _refused("role", f"one of {', '.join(MessageRole)}") from None
    if known in _ROLES_OF_TEXT:
        if not isinstance(content, str) or not content.strip():
            raise _refused("content", "text that is not empty")
        return SessionMessage(role=known, text=content)
    if isinstance(content, str):
        raise _refused("content", 'a mapping with "id" and "name"')
    return _of_tool(known, content)


def plain(value: object, depth: int = 0) -> Any:
    """A value as JSON has it: with storable text, what is unknown as text, and nothing nested deeper than needed."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MOST_DEPTH:
        return "(nested too deeply to be kept)"
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    return storable(str(value))


def _of_tool(role: MessageRole, content: Mapping[str, object]) -> SessionMessage:
    call_id, tool = content.get("id"), content.get("name")
    if not isinstance(call_id, str) or not call_id or not isinstance(tool, str) or not tool:
        raise _refused("content", 'a mapping with "id" and "name", both text')
    if role is MessageRole.TOOL_RESULT:
        answer = content.get("content", "")
        text = answer if isinstance(answer, str) else json.dumps(plain(answer), ensure_ascii=False)
        return SessionMessage(role=role, call_id=call_id, tool=tool, text=text, failed=bool(content.get("failed")))
    arguments = content.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise _refused("content", 'a mapping whose "arguments" are a mapping')
    return SessionMessage(role=role, call_id=call_id, tool=tool, arguments=arguments)


def _kept_arguments(arguments: Mapping[str, object]) -> Mapping[str, object]:
    kept_whole: dict[str, object] = plain(arguments)
    size = _size(kept_whole)
    if size <= MOST_BYTES:
        return kept_whole
    return {"not_kept": f"The arguments had {size} bytes, which is more than is kept."}


def _size(value: object) -> int:
    """About so many bytes of JSON."""
    if isinstance(value, str):
        return len(value.encode()) + 2
    if isinstance(value, dict):
        return sum(_size(key) + _size(inner) + 2 for key, inner in value.items()) + 2
    if isinstance(value, list):
        return sum(_size(inner) + 1 for inner in value) + 2
    return len(str(value))


def _cut(text: str) -> str:
    if len(text) * 4 <= MOST_BYTES:
        return text
    encoded = text.encode()
    if len(encoded) <= MOST_BYTES:
        return text
    return encoded[:MOST_BYTES].decode(errors="ignore") + f"\n[Cut: there were {len(encoded)} bytes.]"


def _name(text: str) -> str:
    return storable(text)[:MOST_CHARACTERS]


def _refused(field: str, expected: str) -> Invalid:
    return Invalid(f"A message of a session has as its {field} {expected}.", fields={field: expected})
