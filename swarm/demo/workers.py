"""The demo's workers: they really count, and really search, in the folder in which the demo was started."""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Tally
from pathlib import Path
from typing import Any, Final

from swarm.demo.repository import files, folders
from swarm.demo.tools import Tools

PAUSE_SECONDS: Final = 0.25
"""Between two folders: the work would be over before anybody could follow it."""

_SHOWN: Final = 10


class Stopped(Exception):
    """Somebody in the thread wants the work to end."""


class Worker:
    """Does one kind of task, folder by folder; says how far it is, and listens meanwhile."""

    verb: str

    def __init__(self, root: str) -> None:
        self._root = Path(root).resolve()
        self._stops: dict[str, asyncio.Event] = {}  # by task
        self._wishes: dict[str, str] = {}  # why a task is to be stopped
        self._far: dict[str, str] = {}  # how far a task is

    async def act(self, trigger: dict[str, Any], tools: Tools) -> None:
        """Handle one trigger."""
        task = trigger["task"]
        match trigger["kind"]:
            case "task_assigned":
                await self._work(task, tools)
            case "task_follow_up":
                await self._hear(trigger, task, tools)
            case "task_cancelled":
                self._stops.setdefault(task["id"], asyncio.Event()).set()
            case "task_offered":
                await tools.call("accept-task", task_id=task["id"])
            case "slack_inbox_message":
                entry = trigger["inbox_messages"][-1]
                message = f"I {self.verb}; ask the lead for it, and I will."
                await tools.call("slack-reply", inbox_message_id=entry["id"], message=message)
            case _:
                pass

    async def _work(self, task: dict[str, Any], tools: Tools) -> None:
        stop = self._stops.setdefault(task["id"], asyncio.Event())
        self.begin(task)
        try:
            places = await asyncio.to_thread(lambda: sorted(folders(self._root)))
            for number, folder in enumerate(places):
                self._far[task["id"]] = f"{folder.relative_to(self._root).as_posix()} ({number + 1} of {len(places)})"
                await tools.call(
                    "task-progress",
                    task_id=task["id"],
                    message=self._far[task["id"]],
                    percent=100 * number // len(places),
                )
                await asyncio.to_thread(self.look, task, folder)
                await _pause(stop)
        except Stopped:
            if wish := self._wishes.get(task["id"]):  # else it was cancelled by whoever stopped it
                await tools.call("cancel-task", task_id=task["id"], reason=wish)
            return
        result = self.result(task)
        await tools.call("task-complete", task_id=task["id"], result=result, reply=result)

    async def _hear(self, trigger: dict[str, Any], task: dict[str, Any], tools: Tools) -> None:
        """Somebody wrote in the thread while the task runs; the notice says where, the task's run answers."""
        entry = trigger["inbox_messages"][-1]
        if re.search(r"\bstop\b|\bcancel\b", entry["text"].lower()):
            await tools.call("slack-reply", inbox_message_id=entry["id"], message="I stop.")
            self._wishes[task["id"]] = f"{entry['user']['name']} asked for it"
            self._stops.setdefault(task["id"], asyncio.Event()).set()
        else:
            far = self._far.get(task["id"], "the beginning")
            message = f"I am still at it, at {far}. Write `stop`, and I stop."
            await tools.call("slack-reply", inbox_message_id=entry["id"], message=message)

    def begin(self, task: dict[str, Any]) -> None:
        """Forget what an earlier run of the task has seen."""
        raise NotImplementedError

    def look(self, task: dict[str, Any], folder: Path) -> None:
        """Do what the task wants with the files of one folder."""
        raise NotImplementedError

    def result(self, task: dict[str, Any]) -> str:
        """What came of it."""
        raise NotImplementedError


class Counter(Worker):
    """Counts lines, by kind of file."""

    verb = "count lines"

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._lines: dict[str, Tally[str]] = {}

    def begin(self, task: dict[str, Any]) -> None:
        self._lines[task["id"]] = Tally()

    def look(self, task: dict[str, Any], folder: Path) -> None:
        tally = self._lines[task["id"]]
        for path in files(folder):
            tally[path.suffix or "(no suffix)"] += len(path.read_bytes().splitlines())

    def result(self, task: dict[str, Any]) -> str:
        tally = self._lines.pop(task["id"], Tally())
        rows = "\n".join(f"- `{suffix}`: {lines}" for suffix, lines in tally.most_common(_SHOWN))
        return f"**{tally['.py']} lines of Python** in `{self._root.name}`. By kind of file:\n{rows}"


class Finder(Worker):
    """Finds a word in the files."""

    verb = "find words in files"

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._found: dict[str, list[str]] = {}

    def begin(self, task: dict[str, Any]) -> None:
        self._found[task["id"]] = []

    def look(self, task: dict[str, Any], folder: Path) -> None:
        found = self._found[task["id"]]
        for path in files(folder):
            text = path.read_text(errors="replace").lower()
            if count := text.count(_wanted(task)):
                found.append(f"`{path.relative_to(self._root).as_posix()}` ({count})")

    def result(self, task: dict[str, Any]) -> str:
        found = self._found.pop(task["id"], [])
        more = f"\n… and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        places = "\n".join(f"- {place}" for place in found[:_SHOWN])
        return f"“{_wanted(task)}” is in {len(found)} files.\n{places}{more}"


def _wanted(task: dict[str, Any]) -> str:
    """What is to be found: the rest of the title, which the lead made."""
    return str(task["title"]).partition(" ")[2].strip(" ?.`\"'").lower() or "swarm"


async def _pause(stop: asyncio.Event) -> None:
    """Raises Stopped when the work is to end."""
    try:
        await asyncio.wait_for(stop.wait(), PAUSE_SECONDS)
    except TimeoutError:
        return
    raise Stopped
