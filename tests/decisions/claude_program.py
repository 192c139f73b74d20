"""Claude Code's protocol, for the cells of the matrix. ``python claude_program.py - JOURNAL_FOLDER ARGUMENTS...``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from packages.swarm_runner.tests.doors import claude_cli
from tests.decisions.journal import ASKS, Journal, command_in, paths_of
from tests.decisions.remote import NOBODY_DECIDED

JOURNAL = Journal(Path(sys.argv[2] if __name__ == "__main__" else "."))  # imported for its path only


class Interrupted(Exception):
    """The turn is to end."""


def main() -> None:
    """Introduces itself, and has turns until the end of the input."""
    while True:
        message = claude_cli.read()
        if message["type"] == "control_request":
            succeed(message)
        elif message["type"] == "user":
            servers = [{"name": "swarm", "status": "connected"}]
            claude_cli.write(type="system", subtype="init", model="model-1", mcp_servers=servers)
            turn(message["message"]["content"][0]["text"])


def succeed(message: dict[str, Any]) -> None:
    """Answers a control request."""
    answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
    claude_cli.write(type="control_response", response=answer)


def turn(prompt: str) -> None:
    """One turn, of one cell."""
    command, cell = command_in(prompt, is_first=True)
    JOURNAL.heard(cell, command)
    while command == "wait" and not JOURNAL.may_go_on(cell):
        time.sleep(0.02)
    paths = paths_of(command, cell)
    if paths:
        claude_cli.say(ASKS)
    try:
        words = filled(cell) if command == "form" else permitted(paths)
    except Interrupted:
        claude_cli.result(subtype="error_during_execution", is_error=True)
        return
    claude_cli.say(f"Done: {' '.join(words)}" if words else f"I read: {command} {cell}.")
    if JOURNAL.takes_failure(cell):
        claude_cli.result(is_error=True, result="out of luck")
        return
    denied = [{"tool_name": "Act"} for word in words if word in ("rejected", "expired")]
    claude_cli.result(permission_denials=denied)


def permitted(paths: list[str]) -> list[str]:
    """Asks for calls, and makes those that are allowed."""
    for path in paths:
        claude_cli.ask(path, "Act", path=path)
    answers = answered(paths)
    words = [word_of(answers[path]) for path in paths]
    for path, word in zip(paths, words, strict=True):
        JOURNAL.got(path, word)
        if word == "approved":
            JOURNAL.ran(path)
    return words


def word_of(answer: dict[str, Any]) -> str:
    """Returns what an answer to ``can_use_tool`` says."""
    if answer["behavior"] == "allow":
        return "approved"
    return "expired" if "expired" in str(answer.get("message")) or NOBODY_DECIDED in str(answer) else "rejected"


def filled(cell: str) -> list[str]:
    """Asks a question of the CLI's own."""
    choice = {"question": "Which word?", "header": "Word", "options": [{"label": "blue"}, {"label": "red"}]}
    claude_cli.ask(cell, "AskUserQuestion", questions=[choice])
    (answer,) = answered([cell]).values()
    given = list(answer.get("updatedInput", {}).get("answers", {}).values())
    word = f"answered {given[0]}" if given else word_of(answer)
    JOURNAL.got(cell, word)
    return [word]


def answered(ids: list[str]) -> dict[str, dict[str, Any]]:
    """Returns the answers to control requests. Raises Interrupted."""
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(ids):
        message = claude_cli.read()
        if message["type"] == "control_response":
            found[message["response"]["request_id"]] = message["response"]["response"]
        elif message["type"] == "control_request":
            succeed(message)
            if message["request"]["subtype"] == "interrupt":
                for id in ids:
                    if id not in found:
                        JOURNAL.got(id, "cancelled")
                raise Interrupted
    return found


if __name__ == "__main__":
    main()
