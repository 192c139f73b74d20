"""An MCP server of the standard library alone, that behaves as well or as badly as its arguments say.

``plain_server.py FOLDER [option …]``: the folder has ``tools.json``, the names of its tools or what it lists, and gets
``seen.jsonl``, every message that came, and ``pids``. SIGUSR1 makes it tell that its list has changed. Options:

    garbage     prints lines that are no messages
    flood       writes a lot to stderr, without end
    deaf        goes on when its stdin is closed, and at SIGTERM
    child       starts a child that goes on when its stdin is closed, and at SIGTERM, and keeps stdout open
    daemon      starts a child like that in a session of its own, of which nobody is the parent, with no environment
    endless     its list of tools has no end
    growing     gets another tool, "later", and tells of it, between looking up its first list and answering with it
    silent      never answers
    pages=N     N tools on a page
    http=PORT   is reached over HTTP instead
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
OPTIONS = dict(option.partition("=")[::2] for option in sys.argv[2:])
CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write((json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())
    sys.stdout.buffer.flush()  # which goes on after a part, other than `os.write`, as long as there is more


def tell() -> None:
    say({"method": "notifications/tools/list_changed"})


def tell_when_asked() -> None:
    """A handler of the signal would wait for the next message if the signal came just before a read."""
    while True:
        signal.sigwait({signal.SIGUSR1})
        tell()


def tools(cursor: str | None) -> dict[str, Any]:
    names = json.loads((FOLDER / "tools.json").read_text())
    size = int(OPTIONS.get("pages", "1000"))
    at = int(cursor or "0")
    page = {"tools": [tool(name) for name in names[at : at + size]]}
    return page | ({"nextCursor": str(at + size)} if at + size < len(names) or "endless" in OPTIONS else {})


def tool(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    hints: dict[str, dict[str, Any]] = {
        "look": {"readOnlyHint": True, "destructiveHint": True},
        "touch": {"readOnlyHint": False},
        "add": {"readOnlyHint": False, "destructiveHint": False},
        "wipe": {"destructiveHint": True},
        "titled": {"title": "A title"},
    }
    return {"name": name, "inputSchema": {"type": "object"}} | ({"annotations": hints[name]} if name in hints else {})


def grow() -> None:
    if "growing" in OPTIONS and not (FOLDER / "grown").exists():
        (FOLDER / "grown").touch()
        (FOLDER / "tools.json").write_text(json.dumps([*json.loads((FOLDER / "tools.json").read_text()), "later"]))
        tell()


ASKERS: dict[Any, str] = {}  # the calls of "ask_later", by id, with their questions


def ask(call_id: Any, message: str) -> None:
    """Ask people for a call, which is answered with their answer; a cancelled call asks like any other."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    params = {"message": message, "requestedSchema": schema}
    say({"id": f"question of {call_id}", "method": "elicitation/create", "params": params})


def asks(message: dict[str, Any]) -> bool:
    """Whether the message has to do with questions."""
    if "method" not in message:
        call_id = str(message["id"]).removeprefix("question of ")
        say({"id": int(call_id) if call_id.isdigit() else call_id, **text(json.dumps(message["result"]))})
        return True
    params = message.get("params", {})
    match message["method"], params.get("name"):
        case "tools/call", "ask":
            ask(message["id"], params["arguments"]["message"])
        case "tools/call", "ask_later":
            ASKERS[message["id"]] = params["arguments"]["message"]
        case "tools/call", "go":
            for call_id, question in ASKERS.items():
                ask(call_id, question)
            return False
        case _:
            return False
    return True


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """A result, an error, or nothing at all."""
    match name:
        case "die":
            os._exit(3)
        case "slow":
            return None
        case "fail":
            return {"result": {"content": [{"type": "text", "text": "no such ticket"}], "isError": True}}
        case "break":
            return {"error": {"code": -32000, "message": "the database is on fire"}}
        case "nonsense":
            return {"result": {"content": 7}}
        case "long":
            return text("x" * arguments["characters"])
        case "many":
            return {"result": {"content": [], "structuredContent": {"all": [1] * arguments["values"]}}}
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case _:
            return text(f"{name} {json.dumps(arguments)}")


def text(words: str) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": words}]}}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    match message["method"]:
        case "initialize":
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            return {"result": about | {"serverInfo": {"name": "plain", "version": "1"}}}
        case "tools/list":
            listed = tools(message.get("params", {}).get("cursor"))
            grow()
            return {"result": listed}
        case "tools/call":
            return call(message["params"]["name"], message["params"].get("arguments", {}))
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def flood() -> None:
    while True:
        os.write(2, b"a lot to say \n" * 1000 + b"y" * 100_000)


def note(pid: int) -> None:
    with (FOLDER / "pids").open("a") as file:
        file.write(f"{pid}\n")


def heard(line: str) -> dict[str, Any]:
    with (FOLDER / "seen.jsonl").open("a") as file:
        file.write(line.strip() + "\n")
    message: dict[str, Any] = json.loads(line)
    return message


class Web(BaseHTTPRequestHandler):
    """Answers with JSON, or not at all; there is no session."""

    def do_POST(self) -> None:
        message = heard(self.rfile.read(int(self.headers["Content-Length"])).decode())
        words = answer(message)
        if words is None:
            time.sleep(600)
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **(words or {})}).encode()
        self.send_response(200 if "id" in message else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def over_stdio() -> None:
    for line in sys.stdin:
        if "garbage" in OPTIONS:
            sys.stdout.buffer.write(b'INFO starting up, my-secret-word\n\n{"jsonrpc": 7}\n\xff\xfe\n')
        message = heard(line)
        if "id" in message and asks(message):
            continue
        if "id" in message and "silent" not in OPTIONS and (words := answer(message)):
            say({"id": message["id"], **words})


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    threading.Thread(target=tell_when_asked, daemon=True).start()
    note(os.getpid())
    if "deaf" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in OPTIONS:
        note(subprocess.Popen([sys.executable, "-c", CHILD]).pid)
    if "daemon" in OPTIONS:
        between = os.fork()
        if not between:
            os.setsid()
            note(subprocess.Popen([sys.executable, "-c", CHILD], env={}, stdout=subprocess.DEVNULL).pid)
            os._exit(0)
        os.waitpid(between, 0)
    if "flood" in OPTIONS:
        threading.Thread(target=flood, daemon=True).start()
    if "http" in OPTIONS:
        ThreadingHTTPServer(("127.0.0.1", int(OPTIONS["http"])), Web).serve_forever()
    over_stdio()
    while "deaf" in OPTIONS:
        time.sleep(1)


main()
