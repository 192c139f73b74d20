"""Twenty-two faults in as many rooms, planted one at a time: does a test see each?

``python -m tests.mutants [CHECKOUT]`` plants each in a checkout, runs the tests that should see it, and takes it out
again. A fault is found by its line of code and not by its file, so the same list fits checkouts before and after moves.
A line that is not found exactly once is reported: the code has changed, and the list has to follow.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line of code, what stands in its place, and the names of the files whose tests should see it."""

    room: str
    line: str
    planted: str
    tests: str


MUTANTS: Final = (
    Mutant(
        "domain/policy",
        "answer.person for answer in approved}) >= policy.need",
        "answer.person for answer in approved}) > policy.need",
        "test_decision_rules",
    ),
    Mutant(
        "domain/requests",
        "if form_field.min is not None and number < form_field.min:",
        "if form_field.min is not None and number <= form_field.min:",
        "test_request_forms",
    ),
    Mutant(
        "domain/routing",
        'return _STOP in text.lower() and _MENTION.sub("", text).strip().lower() == _STOP',
        "return _STOP in text.lower()",
        "test_routing",
    ),
    Mutant(
        "domain/text",
        'return line["run"][0] == "~" or "`" not in line["rest"]',
        "return True",
        "test_message_text test_answer_blocks",
    ),
    Mutant(
        "services/speaking",
        "return bool(messages) and all(message.silent for message in messages)",
        "return any(message.silent for message in messages)",
        "test_discussions",
    ),
    Mutant("services/work", "if found is None or found.agent_id != agent.id:", "if found is None:", "test_fencing"),
    Mutant(
        "services/ground",
        "    if not first and stands():",
        "    if not first and not stands():",
        "test_reply test_delegation",
    ),
    Mutant("services/requests", "if wish.decision not in request.decisions:", "if False:", "test_requests"),
    Mutant(
        "services/tasks",
        "if task.status is not TaskStatus.OFFERED:",
        "if task.status is TaskStatus.OFFERED:",
        "test_tasks",
    ),
    Mutant("services/runs", "    if task and task.status is TaskStatus.IN_PROGRESS:", "    if task:", "test_streams"),
    Mutant("services/outbox", "    if group.repeats == 1:", "    if group.repeats == 2:", "test_alerts"),
    Mutant("services/inbox", "if claimed and not isinstance(claimed, Conflict):", "if False:", "test_polls"),
    Mutant("store/locks", 'row and row["expires_at"] > tx.now else None', "row else None", "test_locks"),
    Mutant(
        "slack/outgoing",
        "if method != _POSTS or channel is None or self._another_channel_is_paused(channel, now):",
        "if method != _POSTS or channel is None:",
        "test_pacing",
    ),
    Mutant(
        "slack/incoming",
        'if previous and now > before and message.get("edited") == previous.get("edited"):',
        "if previous and now > before:",
        "test_payloads",
    ),
    Mutant("entrypoints/web", "        if origin not in self.origins:", "        if False:", "test_access"),
    Mutant(
        "config",
        "if (self.format is WebhookFormat.PAGERDUTY) != (self.routing_key is not None):",
        "if False:",
        "test_config",
    ),
    Mutant(
        "tools", "if (said.inbox_message_id is None) == (said.task_id is None):", "if False:", "test_reply test_mcp"
    ),
    Mutant("agents/remote", "status < 500 and status not in (401, 403)", "status < 500", "test_dialects"),
    Mutant(
        "built-in agents",
        "if not by_strangers or tool.is_read_only or tool.carries_standing:",
        "if not by_strangers or tool.carries_standing:",
        "test_strangers test_caps test_approval_rules",
    ),
    Mutant(
        "runner",
        "return () if _is_system(path) or path.is_symlink() else",
        "return () if _is_system(path) else",
        "test_guest",
    ),
    Mutant("domain/answers", 'if "]" in piece or "\\n" in piece:', 'if "]" in piece:', "test_text test_seals"),
)


def main(arguments: list[str]) -> int:
    """Plant all; return 1 if a fault was not seen, or could not be planted."""
    root = Path(arguments[0] if arguments else ".").resolve()
    folders = [root / "swarm", root / "tools", *(root / "packages").glob("swarm_*/src")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    failed = 0
    for mutant in MUTANTS:
        found = [path for path in files if mutant.line in path.read_text(encoding="utf-8")]
        if len(found) != 1:
            outcome = f"NOT PLANTED: its line is in {len(found)} files"
        else:
            outcome = _seen(root, found[0], mutant)
        failed += outcome[:4] != "seen"
        print(f"{mutant.room}: {outcome}", flush=True)
    return 1 if failed else 0


def _seen(root: Path, path: Path, mutant: Mutant) -> str:
    tests = [
        str(one.relative_to(root))
        for name in mutant.tests.split()
        for folder in (root / "tests", *(root / "packages").glob("swarm_*/tests"))
        for one in folder.rglob(f"{name}.py")
    ]
    if not tests:
        return f"NOT TRIED: there is no {mutant.tests}"
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.line) != 1:
        return f"NOT PLANTED: its line stands {text.count(mutant.line)} times in {path.relative_to(root)}"
    path.write_text(text.replace(mutant.line, mutant.planted), encoding="utf-8")
    try:
        command = [str(root / ".venv/bin/python"), "-m", "pytest", "-q", "-x", "-m", "not long", *tests]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS, check=False)
    finally:
        path.write_text(text, encoding="utf-8")
    by = [line.split(" - ")[0].removeprefix("FAILED ") for line in done.stdout.splitlines() if line[:7] == "FAILED "]
    return f"seen by {by[0]}" if done.returncode == 1 and by else f"NOT SEEN by {' '.join(tests)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
