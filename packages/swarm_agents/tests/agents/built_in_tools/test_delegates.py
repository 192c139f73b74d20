"""Work for coding programs: real programs, made for each test, that behave well, badly and worse."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm_agents.built_in_tools import delegates
from swarm_agents.built_in_tools.delegates import Delegates, delegate_tools
from swarm_agents.toolbox.tool import Tool, ToolAnswer
from swarm_base.processes.captured import Ran, clean_environment, run_program
from tests.support.idle_time import time_passes
from tests.support.quick import quick
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("TOOL-02")

MARK = "DELEGATE_TEST_MARK"
NAMES = ("kiro", "claude", "codex")
NOTHING = Path("/nonexistent/program")


class Bench:
    """A work tree, a folder for programs, and a mark by which what they leave running is found."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.bin = folder / "bin"
        self.mark = uuid.uuid4().hex
        for made in (self.root, self.root / "sub", self.bin):
            made.mkdir()
        self.env = {**clean_environment(os.environ), MARK: self.mark, "NOTES": str(folder)}

    def program(self, name: str, script: str, *, interpreter: str = "/bin/sh") -> Path:
        path = self.bin / name
        path.write_text(f"#!{interpreter}\n{script}\n")
        path.chmod(0o755)
        return path

    def python(self, name: str, script: str) -> Path:
        return self.program(name, script, interpreter=f"{sys.executable} -S")

    def delegates(self, *, timeout_seconds: float = 20, **programs: Path) -> Delegates:
        return delegate_tools(
            self.root,
            env=self.env,
            kiro_path=programs.get("kiro", NOTHING),
            claude=programs.get("claude", NOTHING),
            codex=programs.get("codex", NOTHING),
            timeout_seconds=timeout_seconds,
            pause_seconds=0,
        )

    def tool(self, name: str, script: str, *, timeout_seconds: float = 20, interpreter: str = "/bin/sh") -> Tool:
        path = self.program(name, script, interpreter=interpreter)
        (tool,) = self.delegates(timeout_seconds=timeout_seconds, **{name: path}).tools
        return tool

    def note(self, name: str) -> str:
        return (self.root.parent / name).read_text()

    async def has_started(self) -> bool:
        """Whether `STUBBORN` is at work."""
        return (self.root.parent / "started").exists()

    def left(self) -> list[str]:
        """What still runs of all that was started."""
        return [line for pid in os.listdir("/proc") if pid.isdecimal() and (line := _command(int(pid), self.mark))]


def _command(pid: int, mark: str) -> str:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        return Path(f"/proc/{pid}/cmdline").read_text() if f"{MARK}={mark}".encode() in environment else ""
    except OSError:
        return ""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with capture_logs():
        yield made
    assert made.left() == []


def result(text: str = "Done.", **more: Any) -> str:
    """What claude prints."""
    value = {"type": "result", "subtype": "success", "is_error": False, "result": text, "num_turns": 3}
    return json.dumps(value | {"total_cost_usd": 0.0123} | more)


def events(*items: Mapping[str, Any], ending: Mapping[str, Any] | None = None) -> str:
    """What codex prints."""
    usage = {"input_tokens": 1200, "output_tokens": 34}
    lines = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        *({"type": "item.completed", "item": {"id": "i", **item}} for item in items),
        ending or {"type": "turn.completed", "usage": usage},
    ]
    return "\n".join(json.dumps(line) for line in lines)


def printing(text: str, code: int = 0, *, to: str = "1") -> str:
    return f"cat >/dev/null\ncat >&{to} <<'END'\n{text}\nEND\nexit {code}"


def call(tool: Tool, task: str = "Do it.", **more: str) -> Any:
    return tool.call({"task": task, **more})


# --- what is offered


def test_only_programs_that_are_there_are_offered_and_each_other_has_a_line(bench: Bench) -> None:
    claude = bench.program("claude", "exit 0")
    plain = bench.root / "codex"
    plain.write_text("not a program")
    offered = bench.delegates(claude=claude, codex=plain)
    assert [tool.name for tool in offered.tools] == ["claude-delegate"]
    assert offered.absent == (
        "kiro-delegate: /nonexistent/program does not exist; install it, or set tools.delegates.kiro.",
        f"codex-delegate: {plain} is not an executable program; install it, or set tools.delegates.codex.",
    )


def test_a_name_is_looked_for_on_the_path_and_the_tilde_is_the_programs_home(bench: Bench) -> None:
    home = bench.root.parent / "home"
    (home / ".local/bin").mkdir(parents=True)
    kiro = bench.program("kiro-cli", "exit 0").rename(home / ".local/bin/kiro-cli")
    bench.program("claude", "exit 0")
    env = {**bench.env, "HOME": str(home), "PATH": f"{bench.bin}:/usr/bin:/bin"}
    offered = delegate_tools(bench.root, env=env)
    assert [tool.name for tool in offered.tools] == ["kiro-delegate", "claude-delegate"]
    assert offered.absent == (
        "codex-delegate: there is no program 'codex' on the PATH; install it, or set tools.delegates.codex.",
    )
    kiro.unlink()
    assert "kiro-cli does not exist" in delegate_tools(bench.root, env=env).absent[0]


@pytest.mark.parametrize("name", NAMES)
async def test_a_program_that_vanishes_or_loses_its_leave_later_is_a_clear_failure(bench: Bench, name: str) -> None:
    tool = bench.tool(name, "exit 0")
    (bench.bin / name).chmod(stat.S_IRUSR)
    first = await call(tool)
    (bench.bin / name).unlink()
    second = await call(tool)
    assert first.failed
    assert second.failed
    assert second.text == (
        f"{bench.bin / name} cannot be started (No such file or directory); the operator has to install it again."
    )
    assert "Permission denied" in first.text or os.geteuid() == 0


# --- how it is called

NOTE = 'printf "%s\\n" "$@" >"$NOTES/argv"; cat >"$NOTES/stdin"; pwd >"$NOTES/pwd"; env >"$NOTES/env"'


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize(
    "given", [{"task": " "}, {"task": "x" * 200_000}, {"task": "Do it.", "working_directory": ".."}]
)
async def test_nobody_is_asked_for_what_is_refused_anyway(bench: Bench, given: dict[str, str]) -> None:
    tool = bench.tool("claude", printing(result()))
    assert await tool.refuse({"task": "Do it."}) is None
    assert await tool.refuse(given) == await tool.call(given)


async def test_kiro_gets_the_task_as_one_argument(bench: Bench) -> None:
    tool = bench.tool("kiro", f'{NOTE}; echo "$#" >"$NOTES/count"; echo fine')
    task = 'a "b" $(touch canary) `c`; d\ne *'
    assert await call(tool, task) == ToolAnswer(text="fine")
    assert bench.note("count") == "4\n"
    assert bench.note("argv") == f"chat\n--no-interactive\n--trust-all-tools\n{task}\n"
    assert bench.note("stdin") == ""
    assert list(bench.root.iterdir()) == [bench.root / "sub"]


@pytest.mark.parametrize("task", ["--help", "-rf", "--"])
async def test_a_task_that_looks_like_an_option_is_none(bench: Bench, task: str) -> None:
    tool = bench.tool("kiro", f"{NOTE}; echo fine")
    await call(tool, task)
    assert bench.note("argv").splitlines()[-1] == f" {task}"


@pytest.mark.parametrize(
    ("name", "says", "argv"),
    [
        ("claude", result(), "-p --output-format json --permission-mode acceptEdits"),
        ("codex", events(), "exec --json --skip-git-repo-check --sandbox workspace-write -"),
    ],
)
async def test_the_others_read_it_from_standard_input(bench: Bench, name: str, says: str, argv: str) -> None:
    tool = bench.tool(name, f"{NOTE}\n{printing(says)}")
    task = "--help\n" + "ä" * 40_000
    assert not (await call(tool, task)).failed
    assert bench.note("stdin") == task
    assert bench.note("argv").split() == argv.split()


async def test_a_program_that_does_not_read_its_task_does_not_hang(bench: Bench) -> None:
    tool = bench.tool("claude", f"cat <<'END'\n{result('Deaf.')}\nEND")
    assert (await call(tool, "x" * 99_000)).text.startswith("Deaf.")


async def test_it_works_in_the_folder_it_was_told_and_nowhere_outside(bench: Bench) -> None:
    tool = bench.tool("kiro", f"{NOTE}; echo fine")
    assert await call(tool, working_directory="sub") == ToolAnswer(text="fine")
    assert bench.note("pwd") == f"{bench.root / 'sub'}\n"
    (bench.root / "out").symlink_to("/tmp")
    for folder in ("..", "/tmp", "out", "sub/../..", "nowhere"):
        assert (await call(tool, working_directory=folder)).failed


async def test_it_gets_the_environment_that_it_was_given_and_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    await call(bench.tool("kiro", f"{NOTE}; echo fine"))
    names = {line.partition("=")[0] for line in bench.note("env").splitlines()}
    assert names >= {"PATH", "TERM", "NO_COLOR", MARK}
    assert "SLACK_BOT_TOKEN" not in names


@pytest.mark.parametrize(
    ("task", "says"), [("  \n", "empty"), ("a\0b", "NUL"), ("\ud83d", "surrogate"), ("ä" * 60_000, "the maximum is")]
)
async def test_a_task_that_cannot_be_given_starts_nothing(bench: Bench, task: str, says: str) -> None:
    tool = bench.tool("kiro", 'touch "$NOTES/started"')
    answer = await call(tool, task)
    assert answer.failed
    assert says in answer.text
    assert not (bench.root.parent / "started").exists()


# --- what it says


async def test_of_claude_the_result_and_its_cost_come_back(bench: Bench) -> None:
    answer = await call(bench.tool("claude", printing("Some banner\n" + result("All **done**."))))
    assert answer == ToolAnswer(text="All **done**.\n\n[claude: 3 turns, $0.0123]")


async def test_of_codex_the_last_message_and_its_tokens_come_back(bench: Bench) -> None:
    says = events(
        {"type": "agent_message", "text": "I will look."},
        {"type": "command_execution", "command": "ls", "exit_code": 0},
        {"type": "agent_message", "text": "All done."},
    )
    answer = await call(bench.tool("codex", printing(says)))
    assert answer == ToolAnswer(text="All done.\n\n[codex: 1,200 tokens read, 34 written]")


@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("kiro", printing("no such model", 1, to="2"), "kiro failed (exit code 1).\n\nno such model"),
        ("kiro", "kill -9 $$", "was terminated by the system"),
        ("claude", printing(result("Credit is too low", is_error=True), 1), "exit code 1).\n\nCredit is too low"),
        ("claude", printing(result("", subtype="error_max_turns")), "claude did not finish."),
        ("claude", printing("Please run /login", 1), "Please run /login"),
        ("claude", "exit 0", "claude did not finish."),
        ("claude", printing('{"type": "result", "result": "cut of'), "did not finish"),
        ("codex", printing(events(ending={"type": "turn.failed", "error": {"message": "quota"}}), 1), "quota"),
        ("codex", printing(events(ending={"type": "turn.aborted"})), "codex did not finish."),
        ("codex", "exit 3", "codex failed (exit code 3)."),
        ("codex", printing("[" * 100_000 + '\n{"item":' * 10), "did not finish"),
    ],
)
async def test_a_failure_says_what_happened(bench: Bench, name: str, script: str, says: str) -> None:
    answer = await call(bench.tool(name, script))
    assert answer.failed
    assert says in answer.text


async def test_nothing_printed_is_said(bench: Bench) -> None:
    assert await call(bench.tool("kiro", "exit 0")) == ToolAnswer(text="It finished without output.")


async def test_escapes_control_characters_and_progress_are_not_in_the_answer(bench: Bench) -> None:
    script = (
        r"printf '\033]0;title\007\033[1;32mGreen\033[0m \033]8;;http://x\033\\link\033]8;;\033\\\n'; "
        r"printf 'Thinking 1\rThinking 2\r\033[2KAnswer\r\n'; printf 'a\bb\000c\n'"
    )
    assert await call(bench.tool("kiro", script)) == ToolAnswer(text="Green link\nAnswer\nabc")


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_escapes_within_json_are_not_in_the_answer_either(bench: Bench, name: str) -> None:
    text = "\x1b[31mred\x1b[0m\x07"
    says = result(text) if name == "claude" else events({"type": "agent_message", "text": text})
    assert (await call(bench.tool(name, printing(says)))).text.startswith("red\n\n[")


async def test_bytes_that_are_no_text_become_question_marks(bench: Bench) -> None:
    assert await call(bench.tool("kiro", r"printf 'a\377\376b\n'")) == ToolAnswer(text="a\ufffd\ufffdb")


async def test_a_secret_that_it_was_given_is_not_in_the_answer(bench: Bench) -> None:
    bench.env["MY_API_KEY"] = "Zx9-unrecognisable"
    assert "unrecognisable" not in (await call(bench.tool("kiro", 'echo "it is $MY_API_KEY"'))).text


# --- connections

REFUSED = "error: dispatch failure: connection refused"
UNREACHED = "API Error: Unable to connect to API (ConnectionRefused)"
COUNT = 'echo x >>"$NOTES/count"; if [ $(wc -l <"$NOTES/count") -le %d ]; then\n%s\nfi\n'


@pytest.mark.parametrize(
    ("name", "unconnected", "good"),
    [
        ("kiro", printing(REFUSED, 1, to="2"), "echo fine"),
        (
            "claude",
            printing(result(UNREACHED, is_error=True, num_turns=1, total_cost_usd=0), 1),
            printing(result("fine")),
        ),
        (
            "codex",
            printing(
                events(ending={"type": "turn.failed", "error": {"message": "stream disconnected before completion"}}), 1
            ),
            printing(events({"type": "agent_message", "text": "fine"})),
        ),
    ],
)
async def test_what_could_not_connect_once_is_tried_again_once(
    bench: Bench, name: str, unconnected: str, good: str
) -> None:
    once = bench.tool(name, COUNT % (1, unconnected) + good)
    answer = await call(once)
    assert not answer.failed
    assert answer.text.startswith("fine")
    assert bench.note("count") == "x\n" * 2
    always = bench.tool(name, COUNT % (99, unconnected))
    answer = await call(always)
    assert answer.failed
    assert f"{name} could not connect, twice" in answer.text
    assert bench.note("count") == "x\n" * 4


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("kiro", printing(f"> I will edit the file\n{REFUSED}", 1)),
        ("kiro", printing("the tests say: assertion failed", 1)),
        ("kiro", printing("The log says: connection refused.")),
        ("claude", printing(result("API Error: Connection error.", is_error=True, num_turns=7), 1)),
        ("claude", printing(result("The report says: connection refused."))),
        (
            "codex",
            printing(
                events({"type": "file_change", "changes": []}, ending={"type": "error", "message": "fetch failed"}), 1
            ),
        ),
    ],
)
async def test_what_has_done_something_or_failed_otherwise_is_not_tried_again(
    bench: Bench, name: str, script: str
) -> None:
    await call(bench.tool(name, 'echo x >>"$NOTES/count"\n' + script))
    assert bench.note("count") == "x\n"


# --- ends

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
print("at work", flush=True)
open(os.environ["NOTES"] + "/started", "a").write("x")
time.sleep(600)
"""


@pytest.mark.parametrize("name", quick(NAMES))
async def test_after_its_time_nothing_is_left_however_it_clings(bench: Bench, name: str) -> None:
    tool = bench.tool(name, STUBBORN, timeout_seconds=600, interpreter=f"{sys.executable} -S")
    calling = asyncio.create_task(call(tool))
    await wait_until(bench.has_started)
    time_passes(600)
    answer = await calling
    assert bench.left() == []
    assert answer.failed
    assert answer.text.startswith(f"{name} was terminated after 600 seconds. Its changes up to then are kept.")
    assert "at work" in answer.text


async def test_a_call_that_is_cancelled_leaves_nothing(bench: Bench) -> None:
    tool = bench.tool("kiro", STUBBORN, timeout_seconds=60, interpreter=f"{sys.executable} -S")
    calling = asyncio.create_task(call(tool))
    await wait_until(bench.has_started)
    assert bench.left()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert bench.left() == []


async def test_what_goes_on_behind_a_program_that_has_ended_is_ended_too(bench: Bench) -> None:
    tool = bench.tool("kiro", "setsid sleep 600 & sleep 600 & echo fine")
    assert await call(tool) == ToolAnswer(text="fine")
    assert bench.left() == []


async def test_both_attempts_share_one_time_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    async def noted(*arguments: Any, timeout_seconds: float, **more: Any) -> Ran:
        limits.append(timeout_seconds)
        return await run_program(*arguments, timeout_seconds=timeout_seconds, **more)

    monkeypatch.setattr(delegates, "run_program", noted)
    await call(bench.tool("kiro", printing(REFUSED, 1, to="2")))
    first, second = limits
    assert first == 20
    assert 0 < second < 20


@pytest.mark.parametrize(
    ("name", "size"),
    quick([("kiro", "40M"), ("claude", "40M"), ("codex", "40M"), ("kiro", "1G")]),
)
async def test_any_amount_of_output_costs_no_memory_and_the_answer_is_short(bench: Bench, name: str, size: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = await call(bench.tool(name, f"yes 'a line of output' | head -c {size}; echo the end"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(answer.text) < 62_000
    assert "the end" in answer.text
    assert grown < 64 * 1024  # KiB
