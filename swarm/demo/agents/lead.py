"""The demo's lead: openly declared rules in place of a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from swarm.demo.tools import Refused, Tools

_JOBS: Final = (
    (re.compile(r"\bhow many lines\b|\bcount\b"), "counter", "Count the lines of code"),
    (re.compile(r"\b(?:find|search(?: for)?|where is)\b\s*(?P<what>.*)"), "finder", "Find {what}"),
)
"""The patterns of requests, each with its worker and the task's title."""

_HELP: Final = (
    "I am a small rule-driven program, no model. I answer `hello`, `what time is it?` and `repeat after me: …` myself, "
    "and hand work to my workers: `how many lines of Python are in this repository?` (the counter), `find Ingest` (the "
    "finder). While one of them works, what you write in the thread reaches it without a mention; `stop` stops it."
)


class Lead:
    """Answers, or delegates to a worker, which then owns the thread until the task is done."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def act(self, trigger: dict[str, Any], tools: Tools) -> None:
        """Handles one trigger."""
        task = trigger["task"]
        match trigger["kind"]:
            case "slack_inbox_message":
                await self._answer(trigger, tools)
            case "task_returned":
                await tools.call("cancel-task", task_id=task["id"], reason=f"{task['title']}: its worker has gone")
            case _:
                pass  # the worker itself has posted the end of its task

    async def _answer(self, trigger: dict[str, Any], tools: Tools) -> None:
        inbox_messages = trigger["inbox_messages"]
        text = _words(inbox_messages)
        for pattern, worker, title in _JOBS:
            found = pattern.search(text)
            if found and await self._delegate(
                inbox_messages[-1], worker, title.format(**found.groupdict()), text, tools
            ):
                return
        message = answer(self._name, inbox_messages, trigger["thread_context"])
        await tools.call("slack-reply", inbox_message_id=inbox_messages[-1]["id"], message=message)

    async def _delegate(self, inbox_message: dict[str, Any], worker: str, title: str, text: str, tools: Tools) -> bool:
        """Delegates the message, and posts so under the same lease, which changes nothing more."""
        try:
            await tools.call(
                "inbox-delegate", inbox_message_id=inbox_message["id"], agent=worker, title=title, task=text
            )
        except Refused as refused:
            await tools.call(
                "slack-reply", inbox_message_id=inbox_message["id"], message=f"I cannot hand that over: {refused}"
            )
            return True
        await tools.call(
            "slack-reply", inbox_message_id=inbox_message["id"], message=f"I have handed this to **{worker}**."
        )
        return True


def _words(inbox_messages: Sequence[dict[str, Any]]) -> str:
    """Returns the messages without the addressed names."""
    text = " ".join(str(inbox_message["text"]) for inbox_message in inbox_messages)
    return re.sub(r"(?:@|swarm#)[\w-]+", " ", text).strip().lower()


def answer(name: str, inbox_messages: Sequence[dict[str, Any]], context: Sequence[dict[str, Any]]) -> str:
    """Returns the answer to the new messages."""
    text = " ".join(str(inbox_message["text"]) for inbox_message in inbox_messages)
    said = _words(inbox_messages)
    person = inbox_messages[-1]["user"]["name"]
    earlier = sum(1 for message in context if message["kind"] == "agent")
    if re.search(r"\bhelp\b", said):
        return _HELP
    if repeat := re.search(r"repeat(?: after me)?:\s*(.+)", text, re.DOTALL | re.IGNORECASE):
        return repeat.group(1)
    if re.search(r"\btime\b", said):
        return f"It is {datetime.now(UTC):%H:%M} UTC."
    if earlier:
        return f"You said: {said or 'nothing'}. The thread has {len(context)} messages now, and I have read them all."
    if re.match(r"(hello|hi|hey|good (morning|evening))\b", said):
        return f"Hello {person}! I am **{name}**, a rule-driven program. Ask for `help`, or write on in this thread."
    return f"You said: {said or 'nothing'}. I am **{name}**, a small rule-driven program; ask for `help`."
