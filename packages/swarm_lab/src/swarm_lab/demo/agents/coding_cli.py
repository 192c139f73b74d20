"""The demo's coding CLI, in place of Claude Code or Codex. ``python -m swarm_lab.demo.agents.coding_cli FOLDER``.

The program speaks the Agent Client Protocol over standard input and output, keeps its sessions in FOLDER, and follows
openly declared rules instead of a model. What it does is real: it runs the tests of the folder in which a session
works, looks for a mistake by trying small changes in a copy, asks before it edits a file, and runs the tests again.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

from acp import PROTOCOL_VERSION, InitializeResponse, NewSessionResponse, PromptResponse, helpers, run_agent
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    ListSessionsResponse,
    PermissionOption,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    ToolCallUpdate,
)

PAUSE_SECONDS: Final = 0.6
"""The pause after a step. Without it, the work would end before people could follow it."""

TEST_SECONDS: Final = 60
_SHOWN_LINES: Final = 6

_HELP: Final = (
    "I am a small rule-driven program that stands for a coding CLI. I understand `fix the failing test` and `add a "
    "test for zero` (or another number)."
)
_ASKED: Final = re.compile(
    r"^<(?P<kind>task|new_message) marker=\"(?P<mark>\w+)\">\n(?P<body>.*?)\n</(?P=kind) marker=\"(?P=mark)\">$",
    re.DOTALL | re.MULTILINE,
)
"""The fence around a task or a message in a prompt of the coordinator. The first one is what is wanted now."""

_NUMBER: Final = re.compile(r"\btest for (?P<number>zero|\d{1,6})\b")
_CHANGES: Final = ((" + ", " - "), (" - ", " + "), (" < ", " <= "), (" > ", " < "), (" > ", " >= "), (" == ", " != "))
_END: Final = '\n\nif __name__ == "__main__":'

_OPTIONS: Final = [
    PermissionOption(option_id="once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]

T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class Session:
    """A session, as its file keeps it."""

    id: str
    cwd: str
    done: list[str] = field(default_factory=list)  # what was changed, in words


class Sessions:
    """The sessions, as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def keep(self, session: Session) -> None:
        """Writes a session."""
        (self._folder / f"{session.id}.json").write_text(json.dumps(asdict(session)), encoding="utf-8")

    def all(self) -> list[Session]:
        """Reads all sessions."""
        return [Session(**json.loads(path.read_text(encoding="utf-8"))) for path in self._folder.glob("*.json")]


def wanted(prompt: str) -> str:
    """Returns what a prompt asks for: the task or the messages in it, in lower case."""
    found = list(_ASKED.finditer(prompt))
    bodies = [one["body"].partition("\n\n")[2] for one in found if one["kind"] == found[0]["kind"]]
    return "\n".join(bodies).lower() or prompt.lower()


class Turn:
    """One turn: its steps and texts for the client, and its work in the session's folder."""

    def __init__(self, client: Any, session: Session) -> None:
        self._client = client
        self._session = session
        self._cwd = Path(session.cwd)
        self._calls = 0

    async def say(self, text: str) -> None:
        """Adds lines to the answer. The client begins a paragraph after a tool call."""
        await self._client.session_update(self._session.id, helpers.update_agent_message_text(f"{text}\n"))

    async def call(self, title: str, kind: Any, work: Callable[[], Awaitable[T]]) -> T:
        """Does a piece of work, shown as a tool call."""
        self._calls += 1
        id = f"call-{self._calls}"
        update = self._client.session_update
        await update(self._session.id, helpers.start_tool_call(id, title, kind=kind, status="in_progress"))
        result = await work()
        await asyncio.sleep(PAUSE_SECONDS)
        await update(self._session.id, helpers.update_tool_call(id, status="completed"))
        return result

    async def tests(self) -> tuple[bool, str]:
        """Runs the tests. Returns whether all pass, and what they print."""
        return await self.call("Run the tests: python -m unittest", "execute", lambda: _tested(self._cwd))

    async def edit(self, path: str, new: str, what: str) -> bool:
        """Asks whether a file may get a new content, and writes it. Returns whether it was allowed."""
        file = self._cwd / path
        old = file.read_text(encoding="utf-8")
        self._calls += 1
        edit = ToolCallUpdate(
            tool_call_id=f"call-{self._calls}",
            title=f"Edit {path}",
            kind="edit",
            status="pending",
            raw_input={"path": path},
            content=[helpers.tool_diff_content(path, new, old)],
        )
        answer = await self._client.request_permission(self._session.id, edit, _OPTIONS)
        is_allowed = isinstance(answer.outcome, AllowedOutcome) and answer.outcome.option_id == "once"
        if is_allowed:
            file.write_text(new, encoding="utf-8")
            self._session.done.append(what)
        status = helpers.update_tool_call(edit.tool_call_id, status="completed" if is_allowed else "failed")
        await self._client.session_update(self._session.id, status)
        return is_allowed

    async def fix(self) -> None:
        """Corrects the mistake that lets a test fail."""
        passes, printed = await self.tests()
        if passes:
            await self.say("All tests pass, so there is nothing to fix.")
            return
        await self.say(f"A test fails:\n```\n{failure(printed)}\n```")
        found = await self.call("Find the mistake: try small changes in a copy", "think", lambda: _searched(self._cwd))
        if found is None:
            await self.say("**Not fixed**: none of the small changes that I know makes the tests pass.")
            return
        path, line, old, new, content = found
        await self.say(f"With `{new}` in place of `{old}` in `{path}`, line {line}, a copy passes all tests.")
        if not await self.edit(path, content, f"corrected `{path}`"):
            await self.say(f"**Not fixed**: I may not edit `{path}`, so the test still fails.")
            return
        passes, printed = await self.tests()
        await self.say(f"**Fixed.** {_verdict(passes, printed)}")

    async def add(self, number: int) -> None:
        """Adds a test for a number of pieces."""
        if self._session.done:
            await self.say(f"In this session, I have {' and '.join(self._session.done)}.")
        (file,) = self._cwd.glob("test_*.py")
        old, name = file.read_text(encoding="utf-8"), f"test_{number or 'zero'}_pieces"
        if name in old:
            await self.say(f"`{name}` is there already.")
            return
        expected = 200 * number * (90 if number >= 10 else 100) // 100
        method = f"\n    def {name}(self) -> None:\n        self.assertEqual(total(200, {number}), {expected})\n"
        if not await self.edit(file.name, old.replace(_END, method + _END), f"added `{name}`"):
            await self.say(f"I may not edit `{file.name}`, so there is **no new test**.")
            return
        passes, printed = await self.tests()
        await self.say(f"I have added `{name}`. {_verdict(passes, printed)}")


def failure(printed: str) -> str:
    """Returns the lines of the tests' output that name the failure."""
    kept = [line for line in printed.splitlines() if re.match(r"FAIL:|ERROR:|\s+self\.|\w*Error:", line)]
    return "\n".join(line.partition(" (test")[0] for line in kept[:_SHOWN_LINES])


def candidates(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yields small changes of a program: the line's number, the words before and after, the whole text after."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        for old, new in _CHANGES:
            if old in line:
                changed = [*lines[:number], line.replace(old, new, 1), *lines[number + 1 :]]
                yield number + 1, old.strip(), new.strip(), "".join(changed)


async def _searched(cwd: Path) -> tuple[str, int, str, str, str] | None:
    """Tries changes in a copy of a folder. Returns the first one that lets all tests pass, with its file."""
    with tempfile.TemporaryDirectory(prefix="swarm-demo-") as name:
        copy = Path(name) / "copy"
        copytree(cwd, copy, ignore=ignore_patterns(".git"))
        for file in sorted(path for path in copy.glob("*.py") if not path.name.startswith("test_")):
            original = file.read_text(encoding="utf-8")
            for line, old, new, content in candidates(original):
                file.write_text(content, encoding="utf-8")
                if (await _tested(copy))[0]:
                    return file.name, line, old, new, content
            file.write_text(original, encoding="utf-8")
    return None


async def _tested(folder: Path) -> tuple[bool, str]:
    argv = [sys.executable, "-B", "-m", "unittest"]
    ran = await asyncio.to_thread(
        subprocess.run, argv, cwd=folder, capture_output=True, text=True, check=False, timeout=TEST_SECONDS
    )
    return ran.returncode == 0, ran.stderr


def _verdict(passes: bool, printed: str) -> str:
    count = re.search(r"^Ran (\d+) tests?", printed, re.MULTILINE)
    return f"All {count[1] if count else ''} tests pass." if passes else f"A test fails:\n```\n{failure(printed)}\n```"


class CodingAgent:
    """The agent's side of the protocol."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._open: dict[str, Session] = {}
        self._client: Any = None
        self._turn: asyncio.Task[None] | None = None

    def on_connect(self, client: Any) -> None:
        """Gets the client, to which updates and requests go."""
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Tells what the agent can do: list and resume sessions."""
        sessions = SessionCapabilities(list=SessionListCapabilities(), resume=SessionResumeCapabilities())
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_capabilities=AgentCapabilities(session_capabilities=sessions)
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """Begins a session."""
        session = Session(id=str(uuid4()), cwd=cwd)
        self._open[session.id] = session
        self._sessions.keep(session)
        return NewSessionResponse(session_id=session.id)

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> ListSessionsResponse:
        """Lists the sessions of a folder."""
        found = [one for one in self._sessions.all() if cwd in (None, one.cwd)]
        return ListSessionsResponse(sessions=[SessionInfo(session_id=one.id, cwd=one.cwd) for one in found])

    async def resume_session(self, session_id: str, **_: Any) -> ResumeSessionResponse:
        """Continues a session. Raises RequestError for an unknown one."""
        for session in self._sessions.all():
            if session.id == session_id:
                self._open[session_id] = session
                return ResumeSessionResponse()
        raise RequestError.resource_not_found(session_id)

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        """Has a turn."""
        session = self._open[session_id]
        self._turn = asyncio.create_task(self._answer(session, wanted("".join(block.text for block in prompt))))
        await asyncio.wait({self._turn})
        self._sessions.keep(session)
        if self._turn.cancelled():
            return PromptResponse(stop_reason="cancelled")
        self._turn.result()
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Ends the turn."""
        if self._turn:
            self._turn.cancel()

    async def _answer(self, session: Session, text: str) -> None:
        if number := _NUMBER.search(text):
            await Turn(self._client, session).add(int(number["number"].replace("zero", "0")))
        elif re.search(r"\bfix\b|\bfailing\b", text):
            await Turn(self._client, session).fix()
        else:
            await Turn(self._client, session).say(_HELP)


if __name__ == "__main__":
    asyncio.run(run_agent(cast("Any", CodingAgent(Sessions(Path(sys.argv[1])))), use_unstable_protocol=True))
