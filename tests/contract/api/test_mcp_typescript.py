"""The MCP tools through the TypeScript SDK 1.x, which holds structured content, also of errors, to the schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import pytest

from tests.support import typescript
from tests.support.doors import Doors, Visitor
from tools.tool import discover

pytestmark = pytest.mark.long  # needs Node.js

UNKNOWN: Final = "00000000-0000-7000-8000-000000000000"
MESSAGE: Final = {"inbox_message_id": UNKNOWN}
TASK: Final = {"task_id": UNKNOWN}

Call = tuple[str, Mapping[str, object], str]
"""A tool, its arguments, and the error code that is expected."""

OF_LEADS: Final[Sequence[Call]] = (
    ("assign-task", TASK | {"agent": "wim"}, "not_found"),
    ("cancel-task", TASK, "not_found"),
    ("create-task", {"title": "t", "description": "d", "agent": "nobody"}, "not_found"),
    ("dismiss-message", MESSAGE | {"reason": "x"}, "not_found"),
    ("escalate", MESSAGE | {"reason": "x"}, "not_found"),
    ("get-task", TASK, "not_found"),
    ("inbox-delegate", MESSAGE | {"agent": "wim", "task": "x"}, "not_found"),
    ("list-agents", {"limit": 0}, "invalid"),
    ("list-tasks", {"status": "unheard-of"}, "invalid"),
    ("read-inbox-message", MESSAGE, "not_found"),
    ("read-messages", {"agent": "nobody"}, "not_found"),
    ("send-message", {"text": "hi", "to": "nobody"}, "not_found"),
    ("slack-download-file", MESSAGE | {"file_id": "F1"}, "not_found"),
    ("slack-read-thread", MESSAGE, "not_found"),
    ("slack-reply", MESSAGE | {"message": "hi"}, "not_found"),
    ("slack-stream", MESSAGE | {"action": "open"}, "not_found"),
    ("request-human-input", MESSAGE | {"title": "May I?"}, "not_found"),
    ("slack-upload-file", MESSAGE | {"name": "a.txt", "text": "x"}, "not_found"),
    ("tray", {"colour": "red"}, "invalid"),
)
OF_WORKERS: Final[Sequence[Call]] = (
    ("accept-task", TASK, "not_found"),
    ("decline-task", TASK | {"reason": "x"}, "not_found"),
    ("task-complete", TASK | {"result": "x"}, "not_found"),
    ("task-fail", TASK | {"error": "x"}, "not_found"),
    ("task-progress", TASK | {"message": "x"}, "not_found"),
)


async def test_an_error_of_each_tool_can_be_read_with_its_code_message_and_hint(doors: Doors, lea: Visitor) -> None:
    assert {name for name, _, _ in (*OF_LEADS, *OF_WORKERS)} == set(discover())
    wrong: list[object] = []
    for visitor, calls in ((lea, OF_LEADS), (await doors.worker(), OF_WORKERS)):
        told = await speak(visitor, [{"tool": name, "arguments": given} for name, given, _ in calls])
        assert {name for name, _, _ in calls} <= set(told["listed"])
        results = zip(calls, told["results"], strict=True)
        wrong += [(name, result) for (name, _, code), result in results if not is_readable(result, code)]
    assert wrong == []


async def test_results_fit_the_schemas_that_are_listed(lea: Visitor) -> None:
    """The same client refuses those that do not. Its address ends in a slash, and the server says its version."""
    calls: list[dict[str, object]] = [
        {"tool": name, "arguments": {}} for name in ("tray", "list-agents", "list-tasks", "read-messages")
    ]
    told = await speak(lea, [*calls, {"tool": "create-task", "arguments": {"title": "t", "description": "d"}}], "/mcp/")
    assert told["server"] == {"name": "swarm", "version": version("swarm")}
    assert [result.get("thrown") for result in told["results"]] == [None] * 5
    assert all(result["structured"] for result in told["results"])


def is_readable(result: Mapping[str, Any], code: str) -> bool:
    """Whether a client gets all there is to an error, as text and as data."""
    error = result.get("meta", {}).get("swarm/error", {})
    if not result.get("isError") or result["structured"] or error.get("code") != code or not error["hint"]:
        return False
    fields = [f"- {name}: {expected}" for name, expected in error.get("fields", {}).items()]
    assert bool(fields) == (code == "invalid")
    return bool(result["text"] == "\n".join([f"{code}: {error['message']} {error['hint']}", *fields]))


async def speak(visitor: Visitor, calls: Sequence[Mapping[str, object]], path: str = "/mcp") -> Any:
    """What the client prints."""
    return await typescript.run("mcp.mjs", {"url": visitor.base + path, "token": visitor.token, "calls": calls})
