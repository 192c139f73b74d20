"""Claude Code's protocol, with one habit. ``python claude_cli.py HABIT STATE ARGUMENTS...``."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

HABIT, STATE, ARGUMENTS = (*sys.argv[1:3], "", "")[0], Path((*sys.argv[1:3], "", "")[1]), sys.argv[3:]
TEXT_LINE = 1 << 20


def argument(name: str) -> str | None:
    """The value of an argument."""
    return ARGUMENTS[ARGUMENTS.index(name) + 1] if name in ARGUMENTS else None


SESSION = argument("--resume") or argument("--session-id")


def note(**what: Any) -> None:
    """Notes what was told, a line each."""
    with STATE.open("a") as file:
        file.write(json.dumps(what) + "\n")


def write(**message: Any) -> None:
    """Writes a message."""
    sys.stdout.write(json.dumps({"session_id": SESSION, **message}) + "\n")
    sys.stdout.flush()


def read() -> Any:
    """The next message, or the end."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(text: str) -> None:
    """A streamed message, and the same as a whole."""
    write(type="stream_event", event={"type": "message_start", "message": {"id": "m"}}, parent_tool_use_id=None)
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    write(type="stream_event", event=delta, parent_tool_use_id=None)
    whole = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": text}]}
    write(type="assistant", message=whole, parent_tool_use_id=None)


def spend(id: str, taken: int, given: int) -> None:
    """A request to the model, as its partial messages tell it: twice, and once more as a whole."""
    usage = {"input_tokens": taken, "cache_read_input_tokens": 0, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": id, "usage": usage}}
    write(type="stream_event", event=start, parent_tool_use_id=None)
    for count in (given, given):
        delta = {"type": "message_delta", "usage": {"output_tokens": count}}
        write(type="stream_event", event=delta, parent_tool_use_id=None)
    write(type="assistant", message={"id": id, "usage": usage, "content": []}, parent_tool_use_id=None)


def ask(id: str, tool: str, **given: Any) -> None:
    """Asks whether a tool may be used."""
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": f"u-{id}"}
    write(type="control_request", request_id=id, request={**request, "permission_suggestions": [{"type": "addRules"}]})


def elicit(id: str, **more: Any) -> None:
    """Passes on a question of an MCP server."""
    form = {"type": "object", "properties": {"colour": {"type": "string"}}}
    request = {"subtype": "elicitation", "message": "Which colour?", "requested_schema": form, **more}
    write(type="control_request", request_id=id, request=request)


def result(**more: Any) -> None:
    """The end of a turn."""
    models = {"model-1": {"inputTokens": 7, "cacheReadInputTokens": 3, "outputTokens": 5, "costUSD": 0.5}}
    end = {"subtype": "success", "is_error": False, "result": "The end.", "total_cost_usd": 0.5, "modelUsage": models}
    write(type="result", **{**end, **more})


def answers(count: int) -> dict[str, Any]:
    """The answers to so many control requests."""
    found: dict[str, Any] = {}
    while len(found) < count:
        message = read()
        note(**message)
        if message["type"] == "control_response":
            found[message["response"]["request_id"]] = message["response"]["response"]
    return found


def turn() -> None:
    """One turn."""
    match HABIT:
        case "works":
            say("I look.")
            use = {"type": "tool_use", "id": "u-1", "name": "Bash", "input": {"command": "ls"}}
            write(type="assistant", message={"id": "n", "content": [use]}, parent_tool_use_id=None)
            done = {"type": "tool_result", "tool_use_id": "u-1", "content": "a"}
            write(type="user", message={"role": "user", "content": [done]}, parent_tool_use_id=None)
            result()
        case "asks twice":
            ask("a", "Bash", command="rm 1")
            ask("b", "Write", file_path="x")
            found = answers(2)
            say(" ".join(found[id]["behavior"] for id in "ab"))
            denied = [{"tool_name": name} for id, name in (("a", "Bash"), ("b", "Write")) if "message" in found[id]]
            result(permission_denials=denied)
        case "asks once":
            ask("a", "Bash", command="rm 1")
            say(answers(1)["a"]["behavior"])
            result()
        case "asks without end":
            for number in range(102):
                ask(f"{number}", "Bash", command=f"rm {number}")
            refused = answers(2)
            say(f"{sorted(refused)} {[one['behavior'] for one in refused.values()]}")
            answers(100)
            result()
        case "questions":
            choice = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red"}, {"label": "blue"}]}
            many = {"question": "Which sizes?", "header": "Sizes", "options": [{"label": "S"}], "multiSelect": True}
            ask("q", "AskUserQuestion", questions=[choice, many])
            found = answers(1)["q"]
            say(json.dumps(found.get("updatedInput", {}).get("answers")))
            result(permission_denials=[{"tool_name": "AskUserQuestion"}] if found["behavior"] == "deny" else [])
        case "elicits":
            elicit("e")
            say(json.dumps(answers(1)["e"]))
            elicit("u", mode="url", url="https://example.org")
            say(read()["response"]["subtype"])
            result()
        case "withdraws":
            ask("w", "Bash", command="rm 1")
            write(type="control_cancel_request", request_id="w")
            say("I need no answer.")
            result()
        case "waits":
            say("I begin.")
            message = read()
            note(**message)
            answer = {"subtype": "success", "request_id": message["request_id"]}
            write(type="control_response", response=answer)
            result(subtype="error_during_execution", is_error=True)
        case "too long":
            ask("a", "Write", content="x" * (11 << 20))
            say(json.dumps(read()["response"]))
            result(result="y" * (11 << 20))
        case "asks and is stopped":
            ask("a", "Bash", command="rm 1")
            said = answers(1)["a"]
            note(**read())
            result(subtype="error_during_execution", is_error=bool(said))
        case "spends":
            if sum('"type": "user"' in line for line in STATE.read_text().splitlines()) > 1:
                say("Here it is.")
                result()
                return
            spend("m-1", 100, 10)
            spend("m-2", 100, 10)
            message = read()
            note(**message)
            write(type="control_response", response={"subtype": "success", "request_id": message["request_id"]})
            result(subtype="error_during_execution", is_error=True)
        case "counts":
            for number in range(1, 4):
                spend(f"m-{number}", 100 * number, 10)
            result(modelUsage={"model-1": {"inputTokens": 500, "outputTokens": 40}})
        case "counts earlier processes":
            earlier = sum('"type": "user"' in line for line in STATE.read_text().splitlines())
            spend(f"m-{earlier}", 100, 10)
            models = {"model-1": {"inputTokens": 1000 + 100 * earlier, "outputTokens": 60 + 10 * earlier}}
            result(modelUsage=models, total_cost_usd=2 + earlier / 2)
        case "limited" | "limited by words" | "says that it is limited":
            words = "You've hit your limit · resets 3pm (UTC)"
            if HABIT == "limited":
                told = {"status": "rejected", "resetsAt": int(time.time()) + 600}
                write(type="rate_limit_event", rate_limit_info=told)
                fake = {"id": "s", "model": "<synthetic>", "content": [{"type": "text", "text": words}]}
                write(type="assistant", message=fake, parent_tool_use_id=None, error="rate_limit")
            elif HABIT == "says that it is limited":
                spend("m", 5, 9)
            result(result=words)
        case "recovers":
            fake = {"id": "s", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}
            write(type="assistant", message=fake, parent_tool_use_id=None)
            say("Here it is.")
            result()
        case "refuses":
            result(permission_denials=[{"tool_name": "Bash"}])
        case "reaches its limit of tokens":
            say("Half of ")
            result(result="Half of ", stop_reason="max_tokens")
        case "fails":
            result(is_error=True, result="API Error: 503")
        case "dies":
            say("Half of ")
            sys.stderr.write("out of luck\n")
            os._exit(7)
        case "half":
            sys.stdout.write('{"type":"resu')
            sys.stdout.flush()
            os._exit(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "unfinished":
            sys.stdout.write(json.dumps({"type": "result", "subtype": "success", "result": "The end."}))
            sys.stdout.flush()
            os._exit(0)
        case "exits":
            os._exit(0)
        case "junk":
            sys.stdout.write(
                'not JSON\n[1]\n{"type":"assistant","message":7}\n{"type":"control_request"}\n{"type":[]}\n'
            )
            sys.stdout.write("x" * (11 << 20) + "\n")
            say("Still here.")
            result()
        case "silent":
            time.sleep(3600)
        case "ignores":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("I begin.")
            time.sleep(3600)
        case "forks":
            fork_away()
            say("Hello.")
            result()
        case "mute":
            result(result="")
        case "stays":
            say("Hello.")
            result()
            time.sleep(3600)
        case "floods":
            for _ in range(96):
                sys.stdout.write("x" * TEXT_LINE + "\n")
                say("y" * TEXT_LINE)
            result()
        case _:
            say("Hello.")
            result()


def fork_away() -> None:
    """Leaves a process behind that has a session of its own, other files, and ignores SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.closerange(0, 1000)
            time.sleep(3600)
        os._exit(0)


def main() -> None:
    """Introduces itself, and answers prompts until the end of the input."""
    if HABIT in ("dead", "root"):
        root = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
        sys.stderr.write(f"{root if HABIT == 'root' else 'no licence'}\n")
        sys.exit(3)
    if HABIT == "banner":
        sys.stdout.write('\ufeffWelcome!\n\x1b[1m{"level":"info"}\n{"level":"info","type":"log"}\n')
    config = Path(argument("--mcp-config") or "")
    search = os.environ.get("ENABLE_TOOL_SEARCH")
    read_config = json.loads(config.read_text())
    note(arguments=ARGUMENTS, config=read_config, mode=stat.S_IMODE(config.stat().st_mode), search=search)
    if HABIT == "missing":
        write(type="result", subtype="error_during_execution", is_error=True, errors=["No conversation found with it"])
        sys.exit(1)
    while True:
        message = read()
        note(**message)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            write(type="control_response", response=answer)
            if HABIT == "asks early":
                ask("early", "Bash", command="rm 1")
                elicit("form")
        elif message["type"] == "user":
            status = "failed" if HABIT == "no mcp" else "connected"
            servers = [{"name": "swarm", "status": status}]
            other = {"changes": "another", "changes to an option": "--dangerously-skip-permissions"}.get(HABIT)
            changed = {"session_id": other} if other else {}
            write(type="system", subtype="init", model="model-1", mcp_servers=servers, **changed)
            turn()


if __name__ == "__main__":
    main()
