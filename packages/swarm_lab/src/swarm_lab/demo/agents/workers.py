"""The demo's workers, which actually count and search in the demo's working directory."""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Tally
from pathlib import Path
from typing import Any, Final

from swarm_lab.demo.repository import files, folders
from swarm_lab.demo.tools import Tools

PAUSE_SECONDS: Final = 0.25
"""The pause between two folders. Without it, the work would end before people could follow it."""

_SHOWN: Final = 10


class _Stopped(Exception):
    """A person in the thread has asked to stop the work."""


class _Worker:
    """A worker that does one kind of task folder by folder, reporting progress and accepting messages meanwhile."""

    verb: str

    def __init__(self, root: str) -> None:
        self.root = Path(root).resolve()
        self._stops: dict[str, asyncio.Event] = {}  # set to stop the work, by task
        self._wishes: dict[str, str] = {}  # the reason for stopping, by task
        self._far: dict[str, str] = {}  # progress by task

    async def act(self, trigger: dict[str, Any], tools: Tools) -> None:
        """Handles one trigger."""
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
                inbox_message = trigger["inbox_messages"][-1]
                message = f"I {self.verb}; ask the lead, and I will."
                await tools.call("slack-reply", inbox_message_id=inbox_message["id"], message=message)
            case _:
                pass

    async def _work(self, task: dict[str, Any], tools: Tools) -> None:
        stop = self._stops.setdefault(task["id"], asyncio.Event())
        found = Tally[str]()
        try:
            places = await asyncio.to_thread(lambda: sorted(folders(self.root)))
            for number, folder in enumerate(places):
                self._far[task["id"]] = f"{folder.relative_to(self.root).as_posix()} ({number + 1} of {len(places)})"
                await tools.call(
                    "task-progress",
                    task_id=task["id"],
                    message=self._far[task["id"]],
                    percent=100 * number // len(places),
                )
                found.update(await asyncio.to_thread(self.look, task, folder))
                await _pause(stop)
        except _Stopped:
            if wish := self._wishes.get(task["id"]):  # without a reason, the task has already been cancelled
                await tools.call("cancel-task", task_id=task["id"], reason=wish)
            return
        result = self.result(task, found)
        await tools.call("task-complete", task_id=task["id"], result=result, reply=result)

    async def _hear(self, trigger: dict[str, Any], task: dict[str, Any], tools: Tools) -> None:
        """Answers a person's message in the thread of a running task."""
        inbox_message = trigger["inbox_messages"][-1]
        if re.search(r"\bstop\b|\bcancel\b", inbox_message["text"].lower()):
            reason = "the end of the task is the answer"
            await tools.call("dismiss-message", inbox_message_id=inbox_message["id"], reason=reason)
            self._wishes[task["id"]] = f"{inbox_message['user']['name']} asked for it"
            self._stops.setdefault(task["id"], asyncio.Event()).set()
        else:
            far = self._far.get(task["id"], "the beginning")
            message = f"I am still working, at {far}. Write `stop` to stop me."
            await tools.call("slack-reply", inbox_message_id=inbox_message["id"], message=message)

    def look(self, task: dict[str, Any], folder: Path) -> dict[str, int]:
        """Returns what one folder has for the task: numbers by name, which are added up."""
        raise NotImplementedError

    def result(self, task: dict[str, Any], found: Tally[str]) -> str:
        """Returns the result, in words."""
        raise NotImplementedError


class Counter(_Worker):
    """A worker that counts lines by kind of file."""

    verb = "count lines"

    def look(self, task: dict[str, Any], folder: Path) -> dict[str, int]:
        tally = Tally[str]()
        for path in files(folder):
            tally[path.suffix or "(no suffix)"] += len(path.read_bytes().splitlines())
        return tally

    def result(self, task: dict[str, Any], found: Tally[str]) -> str:
        rows = "\n".join(f"- `{suffix}`: {lines}" for suffix, lines in found.most_common(_SHOWN))
        return f"**{found['.py']} lines of Python** in `{self.root.name}`. By kind of file:\n{rows}"


class Finder(_Worker):
    """A worker that finds a word in files."""

    verb = "find words in files"

    def look(self, task: dict[str, Any], folder: Path) -> dict[str, int]:
        counts = ((path, path.read_text(errors="replace").lower().count(_wanted(task))) for path in files(folder))
        return {path.relative_to(self.root).as_posix(): count for path, count in counts if count}

    def result(self, task: dict[str, Any], found: Tally[str]) -> str:
        more = f"\n… and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        places = "\n".join(f"- `{place}` ({count})" for place, count in list(found.items())[:_SHOWN])
        return f"“{_wanted(task)}” is in {len(found)} files.\n{places}{more}"


def _wanted(task: dict[str, Any]) -> str:
    """Returns the word to find, which is the rest of the title that the lead wrote."""
    return str(task["title"]).partition(" ")[2].strip(" ?.`\"'").lower() or "swarm"


async def _pause(stop: asyncio.Event) -> None:
    """Pauses. Raises `_Stopped` if the work must end."""
    try:
        await asyncio.wait_for(stop.wait(), PAUSE_SECONDS)
    except TimeoutError:
        return
    raise _Stopped
