"""Coding CLIs as small programs, each with one habit. ``python fakes.py HABIT``: the prompt on standard input."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def say(line: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def normal() -> None:
    """Answers with what it was asked last."""
    say(f"You said {len(sys.stdin.read())} characters.")


def works() -> None:
    """Writes a file, and says so."""
    sys.stdin.read()
    Path("done.txt").write_text("done\n")
    say("Wrote done.txt.")


def hangs() -> None:
    """Says something, and never ends."""
    say("I think about it.")
    time.sleep(3600)


def ignores() -> None:
    """Hangs, and ignores requests to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hangs()


def forks() -> None:
    """Ends, and leaves a process with a session of its own behind."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        os._exit(0)
    say("I am done.")


def floods() -> None:
    """Writes a gigabyte."""
    line = b"x" * 1023 + b"\n"
    for _ in range(1024):
        sys.stdout.buffer.write(line * 1024)


def halves() -> None:
    """Dies in the middle of a line."""
    sys.stdout.write('{"answer": "half')
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def mute() -> None:
    """Succeeds without a word."""


def fails() -> None:
    """Fails with a reason on standard error."""
    sys.stderr.write("out of luck\n")
    sys.exit(3)


def breaks() -> None:
    """Writes a file, and fails."""
    works()
    fails()


def stays() -> None:
    """Finishes, and does not exit."""
    say("The answer is 42.")
    os.close(1)
    time.sleep(3600)


def waits() -> None:
    """Answers as soon as a file says so."""
    say("Begun.")
    while not Path(os.environ["GO"]).exists():
        time.sleep(0.02)
    say("Finished.")


def tells_later() -> None:
    """Waits in its first run, and says in the next whether its prompt mentions spaces."""
    mentions = "spaces" in sys.stdin.read()
    if mentions:
        say(f"The prompt mentions spaces: {mentions}")
    else:
        waits()


def tells() -> None:
    """Says what a file says, which it counts up: how often it was started."""
    path = Path(os.environ["GO"])
    count = int(path.read_text() or 0) + 1 if path.exists() else 1
    path.write_text(str(count))
    say(f"Run {count}.")


def leaks() -> None:
    """Tells its secret."""
    say(f"The secret is {os.environ.get('SECRET')}, the other {os.environ.get('OTHER')}.")


def decides() -> None:
    """Tries what its key lets it do at the coordinator's doors, and says with which status each ends."""
    mcp, authorization = os.environ["SWARM_MCP_URL"], os.environ["SWARM_MCP_AUTHORIZATION"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list-agents", "arguments": {}}}
    doors = {
        "/me": None,
        "/poll?wait_seconds=0": None,
        "/tray": None,
        "/leases/renew": {"tokens": [os.environ["SWARM_LEASE"]]},
        "/requests/01a20a5e-c3ce-703e-a2ab-ea2e47e3e2d6/decide": {"decision": "approve"},
        "/agents": {"name": "evil", "role": "lead"},
        "/mcp": call,
    }
    found = []
    for path, body in doors.items():
        headers = {
            "Authorization": authorization,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(mcp.removesuffix("/mcp") + path, data, headers)
        try:
            with urllib.request.urlopen(request) as answer:
                found.append(answer.status)
        except urllib.error.HTTPError as error:
            found.append(error.code)
    say(f"Doors: {found}.")


def leads() -> None:
    """Delegates what is to be counted, answers by a tool what names one, and asks otherwise."""
    prompt = sys.stdin.read()
    message_id = re.search(r"^- inbox_message_id: (\S+)", prompt, re.MULTILINE)
    if "- trigger: task_finished" in prompt:
        say(f"It came back: {'done' if 'did not report an end' in prompt else 'lost'}.")
    elif message_id and "COUNT" in prompt:
        use("inbox-delegate", inbox_message_id=message_id[1], agent=os.environ["WORKER"], task="count the letters")
        say("I have passed it on.")
        if "STAY" in prompt:
            time.sleep(3600)
    elif message_id and "TOOL" in prompt:
        use("slack-reply", inbox_message_id=message_id[1], message="By a tool.")
        say("I have answered: By a tool.")
    else:
        say("Which one?")


def use(tool: str, **arguments: str) -> None:
    """Calls a tool of the swarm."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Authorization": os.environ["SWARM_MCP_AUTHORIZATION"],
        "X-Swarm-Lease": os.environ["SWARM_LEASE"],
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(os.environ["SWARM_MCP_URL"], json.dumps(call).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        if (result := json.load(answer)["result"]).get("isError"):
            sys.exit(f"{tool}: {result['content']}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
