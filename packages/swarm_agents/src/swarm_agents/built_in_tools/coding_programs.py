"""The coding programs to which agents can delegate: their arguments, and how their output is read.

Each program runs once, unattended, in a folder of the work tree, with permission to change files there. Other
permissions depend on the program and its options; the coordinator restricts none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarm_agents.built_in_tools.work_tree import readable
from swarm_base.processes.captured import Ran

CLAUDE_OPTIONS: Final = ("--permission-mode", "acceptEdits")
CODEX_OPTIONS: Final = ("--sandbox", "workspace-write")

_MOST_CHARACTERS: Final = 60_000
"""The limit for a program's output. The agent's own limit shortens the text for a model even more."""

_UNCONNECTED: Final = re.compile(
    r"connection (?:error|failed|refused|reset|timed out|closed)|(?:could not|failed to|unable to|cannot) connect"
    r"|dispatch failure|error sending request|fetch failed|waiting for network|network is unreachable|name resolution"
    r"|stream disconnected before completion|ECONN(?:REFUSED|RESET|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|dns error",
    re.IGNORECASE,
)
_LATELY: Final = 10_000  # the last characters, in which a program reports why it exited

_AT_WORK: Final = re.compile(
    r"^[ \t]*> |\busing tool\b|\btool (?:use|call)\b|\bpurpose:|\bi will run\b|\bcompleted in\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Output of kiro-cli after a model has answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramOutput:
    """The result of a run, as read from its output."""

    text: str  # readable; may be empty
    is_done: bool  # whether the program reports success; the exit code counts too
    has_worked: bool = False  # whether a model has answered; if so, files may have changed
    note: str = ""  # the usage, in a few words


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingProgram:
    """One coding program."""

    name: str  # its tool is called by this name followed by "-delegate"
    about: str  # description for the model
    argv: Callable[[str], Sequence[str]]  # its arguments, from the task
    reads_task: bool  # on standard input; otherwise the task is the last argument
    most_bytes: int  # the maximum size of its output; the end of longer output matters most
    heard: Callable[[Ran], ProgramOutput]


def kiro_cli() -> CodingProgram:
    """Returns ``kiro-cli``, which prints plain text and takes the task as an argument."""
    options = ("chat", "--no-interactive", "--trust-all-tools")
    return CodingProgram(
        name="kiro",
        about="the coding agent Kiro",
        argv=lambda task: (*options, _no_option(task)),
        reads_task=False,
        most_bytes=256 * 1024,
        heard=_plain,
    )


def claude_code(options: Sequence[str] = CLAUDE_OPTIONS) -> CodingProgram:
    """Returns ``claude``, which prints one JSON object."""
    return CodingProgram(
        name="claude",
        about="the coding agent Claude Code",
        argv=lambda task: ("-p", "--output-format", "json", *options),
        reads_task=True,
        most_bytes=4 * 1024 * 1024,
        heard=_result,
    )


def codex_cli(options: Sequence[str] = CODEX_OPTIONS) -> CodingProgram:
    """Returns ``codex``, which prints one JSON object per line."""
    return CodingProgram(
        name="codex",
        about="the coding agent Codex",
        argv=lambda task: ("exec", "--json", "--skip-git-repo-check", *options, "-"),
        reads_task=True,
        most_bytes=4 * 1024 * 1024,
        heard=_events,
    )


def could_not_connect(ran: Ran, output: ProgramOutput) -> bool:
    """Returns whether a run failed to connect before doing any work, so that a second run may succeed."""
    failed = not ran.timed_out and (ran.code != 0 or not output.is_done)
    return (
        failed
        and not output.has_worked
        and bool(_UNCONNECTED.search(f"{output.text[-_LATELY:]}\n{ran.errors[-_LATELY:]}"))
    )


def _clean(text: str) -> str:
    """Makes output readable: overwritten lines, for example of a progress bar, keep their last text; long output is
    cut.
    """
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS // 3]}\n[…]\n{text[-_MOST_CHARACTERS * 2 // 3 :]}"
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return readable("\n".join(lines)).strip()


def _no_option(task: str) -> str:
    """Adds a space before a leading dash, so that the task is not read as an option."""
    return f" {task}" if task.startswith("-") else task


def _plain(ran: Ran) -> ProgramOutput:
    """Reads plain output: standard output contains the answer, standard error the progress and errors."""
    answer, rest = _clean(ran.output), _clean(ran.errors)
    text = "\n".join(filter(None, (answer, rest if ran.code != 0 or not answer else "")))
    return ProgramOutput(text=text, is_done=True, has_worked=bool(_AT_WORK.search(f"{answer}\n{rest}")))


def _result(ran: Ran) -> ProgramOutput:
    """Reads the last output line that is a result."""
    results = [value for value in _objects(ran.output) if value.get("type") == "result"]
    if not results:
        return _unread(ran)
    result = results[-1]
    problems = result.get("errors")
    text = result.get("result") or "\n".join(map(str, problems if isinstance(problems, list) else ()))
    is_error = bool(result.get("is_error")) or result.get("subtype", "success") != "success"
    # An error before the first answer counts as a turn of its own, without cost.
    has_worked = not is_error or _number(result.get("num_turns")) > 1 or _number(result.get("total_cost_usd")) > 0
    return ProgramOutput(text=_clean(str(text)), is_done=not is_error, has_worked=has_worked, note=_cost(result))


def _cost(result: Mapping[str, Any]) -> str:
    turns, dollars = _number(result.get("num_turns")), _number(result.get("total_cost_usd"))
    return f"{turns:g} turns, ${dollars:.4f}" if dollars else ""


def _events(ran: Ran) -> ProgramOutput:
    """Reads the agent's last message, and the event that ended the run."""
    events = list(_objects(ran.output))
    if not events:
        return _unread(ran)
    items = [item for event in events if isinstance(item := event.get("item"), dict)]
    messages = [str(item.get("text", "")) for item in items if item.get("type") == "agent_message"]
    kinds = [event.get("type") for event in events]
    is_done = "turn.completed" in kinds and "turn.failed" not in kinds
    texts = [*messages[-1:], *([] if is_done else _problems(events)[-1:])]
    return ProgramOutput(
        text=_clean("\n\n".join(texts)),
        is_done=is_done,
        has_worked=any(item.get("type") != "error" for item in items),
        note=_tokens(events),
    )


def _problems(events: Sequence[Mapping[str, Any]]) -> list[str]:
    errors = (event.get("error") or event for event in events if event.get("type") in ("turn.failed", "error"))
    return [str(error.get("message", "")) for error in errors if isinstance(error, dict)]


def _tokens(events: Sequence[Mapping[str, Any]]) -> str:
    used = [usage for event in events if isinstance(usage := event.get("usage"), dict)]
    if not used:
        return ""
    read, written = (_number(used[-1].get(f"{way}put_tokens")) for way in ("in", "out"))
    return f"{read:,.0f} tokens read, {written:,.0f} written"


def _unread(ran: Ran) -> ProgramOutput:
    """Treats output in an unexpected form as text, and never as a success."""
    return ProgramOutput(text="\n".join(filter(None, (_clean(ran.output), _clean(ran.errors)))), is_done=False)


def _objects(output: str) -> Iterator[Mapping[str, Any]]:
    """Yields the output lines that are JSON objects."""
    for line in output.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0
