"""What a tool of an MCP server answers, in words for a model.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import mcp_types as types

from swarm.agents.toolbox.tool import ToolAnswer

MAX_CHARACTERS: Final = 1024 * 1024
"""So much of one result is kept."""

_NOTHING: Final = "The tool has done its work and says nothing about it."
_NOTHING_FAILED: Final = "The tool has failed and does not say why."


def answer_of(result: types.CallToolResult) -> ToolAnswer:
    """The answer as text: what can be read as it is, a line for each thing that cannot."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    parts = [_words(block) for block in result.content]
    if result.structured_content is not None and not _says(texts, result.structured_content):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, indent=1))
    text = "\n".join(part for part in parts if part)
    return ToolAnswer(text=_bounded(text) or (_NOTHING_FAILED if result.is_error else _NOTHING), failed=result.is_error)


def _words(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _unreadable(block.type, block.mime_type, block.data)
        case types.ResourceLink():
            described = [block.uri, block.title or block.name, block.mime_type, block.description]
            return f"[resource: {_listed(described)}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"[resource: {_listed([resource.uri, resource.mime_type])}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _unreadable(f"resource: {resource.uri}", resource.mime_type, resource.blob)
        case _:  # what a later version of the protocol may bring
            return f"[{block.type}]"


def _unreadable(what: str, mime_type: str | None, base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"[{_listed([what, mime_type, f'{size} bytes'])}; it cannot be shown here]"


def _listed(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _says(texts: Sequence[str], structured: Any) -> bool:
    """Whether texts say the same as structured content; a server should send both, for clients that know one."""
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()  # {"result": …}, round what is not a mapping
    said: list[Any] = ["\n".join(texts), _parsed("\n".join(texts)), [_parsed(text) for text in texts], list(texts)]
    return bool(texts) and any(value in said for value in values)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n[{len(text) - MAX_CHARACTERS} more characters are left out]"
