"""An ACP agent in plain JSON whose messages are too long, or too many. ``python raw_agent.py HABIT``."""

from __future__ import annotations

import json
import sys
from typing import Any

HABIT, MB = sys.argv[1], "x" * (1 << 20)
OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def update(**what: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": what}})


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(id: int, content: str, *, is_id_first: bool = True) -> None:
    call = {"toolCallId": f"call-{id}", "title": "write", "kind": "edit", "rawInput": {"content": content}}
    asked = {"method": "session/request_permission", "params": {"toolCall": call, "options": OPTIONS}}
    send({"id": id} | asked if is_id_first else asked | {"id": id})


def prompted(id: int) -> dict[str, Any]:
    match HABIT:
        case "a request of 11 MB, id first" | "a request of 11 MB, id last":
            ask(77, MB * 11, is_id_first=HABIT.endswith("first"))
            say(json.loads(sys.stdin.readline())["error"]["message"])
        case "a message of 100 MB":
            say(MB * 100)
            say("Still here.")
        case "an answer of 11 MB":
            return {"id": id, "result": {"_meta": {"all": MB * 11}, "stopReason": "end_turn"}}
        case "an answer of 11 MB, id last":
            return {"result": {"_meta": {"all": MB * 11}, "stopReason": "end_turn"}, "id": id}
        case "an answer that says nothing":
            return {"id": id, "result": {"all": MB * 11, "more": "x" * 1000}}
        case "files":
            for number in range(40):
                send({"id": 100 + number, "method": "fs/write_text_file", "params": {"path": "a", "content": MB}})
            say(" ".join(str("error" in json.loads(sys.stdin.readline())) for _ in range(40)))
        case "calls":
            for number in range(40):
                diff = {"type": "diff", "path": "a", "oldText": MB, "newText": MB}
                update(sessionUpdate="tool_call", toolCallId=f"c{number}", title="edit", content=[diff])
        case "half a character":
            update(sessionUpdate="usage_update", cost={"amount": float("inf"), "currency": "USD"})
            update(sessionUpdate="usage_update", cost={"amount": 10**400, "currency": "USD"})
            say("\ud83d is cut, \U0001f600 is not")
        case "asks":
            for number in range(20):
                ask(100 + number, MB)
            kinds = [json.loads(sys.stdin.readline())["result"]["outcome"]["optionId"] for _ in range(20)]
            say(" ".join(sorted(set(kinds))))
    return {"id": id, "result": {"stopReason": "end_turn"}}


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        send({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif message.get("method") == "session/new":
        send({"id": message["id"], "result": {"sessionId": "s"}})
    elif message.get("method") == "session/prompt":
        send(prompted(message["id"]))
