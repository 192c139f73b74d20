"""The demo's writer: a separate web service that streams answers over AG-UI, and follows rules instead of a model.

The writer answers word by word and shows its steps. A run is a sequence of events of the AG-UI protocol,
https://docs.ag-ui.com/concepts/events.

The service has one address and does not depend on the coordinator.

Your own agent would do the same with a model instead of these rules.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    EventType,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from swarm_lab.demo.repository import File, Group, counted, folder, grouped, kind, listed, part
from swarm_lab.demo.serving import WORD_SECONDS, pieces, serve

REPORT_CHARACTERS: Final = 13_000
"""The minimum length of a long report, which does not fit in one Slack message, however small the folder is."""

_SHOWN: Final = 5
_LARGEST: Final = 3


def overview(name: str, found: Sequence[File]) -> str:
    """Writes an overview of one page: a table of the kinds of files, and a bar chart of the folders."""
    total = sum(file.lines for file in found)
    return (
        f"**{name}** has {len(found):,} text files with {total:,} lines. I have counted them just now.\n\n"
        f"{_kinds(found)}\n\n"
        "Most of it is in these folders:\n\n"
        f"```\n{_drawing(grouped(found, part)[:_SHOWN])}\n```\n\n"
        f"{_longest(found)} Ask for `a long report`, and I will go through all folders one by one."
    )


def report(name: str, found: Sequence[File]) -> str:
    """Writes a report folder by folder, largest first, up to a maximum length. For small repositories, openly declared
    padding is added."""
    places = grouped(found, folder)
    text = f"# {name}, folder by folder\n\n{len(found):,} files in {len(places)} folders.\n\n{_kinds(found)}"
    for number, place in enumerate(places):
        if len(text) > REPORT_CHARACTERS:
            return f"{text}\n\nThe other {len(places) - number} folders are smaller."
        text += "\n\n" + _chapter(place, [file for file in found if folder(file.path) == place.name])
    return text + _padding(REPORT_CHARACTERS - len(text))


def _kinds(found: Sequence[File]) -> str:
    rows = (f"| `{one.name}` | {one.files:,} | {one.lines:,} |" for one in grouped(found, kind)[:_SHOWN])
    return "\n".join(["| kind | files | lines |", "|---|---:|---:|", *rows])


def _drawing(parts: Sequence[Group]) -> str:
    most = max((part.lines for part in parts), default=0) or 1
    width = max((len(part.name) for part in parts), default=0)
    rows = (f"{part.name:<{width}} {part.lines:>8,} {'█' * max(1, 20 * part.lines // most)}" for part in parts)
    return "\n".join(rows)


def _chapter(place: Group, found: Sequence[File]) -> str:
    rows = (
        f"{file.lines:>7,}  {Path(file.path).name}" for file in sorted(found, key=lambda file: file.path)[: 4 * _SHOWN]
    )
    listing = "\n".join(rows)
    return (
        f"## {place.name}\n\n"
        f"There are {place.files:,} files with {place.lines:,} lines here, {place.lines // place.files:,} on average. "
        f"{_longest(found)}\n\n"
        f"```\n{listing}\n```"
    )


def _longest(found: Iterable[File]) -> str:
    longest = sorted(found, key=lambda file: (-file.lines, file.path))[:_LARGEST]
    if not longest:
        return "There is nothing to count yet."
    return "The longest: " + ", ".join(f"`{file.path}` ({file.lines:,})" for file in longest) + "."


def _padding(characters: int) -> str:
    text = ""
    while len(text) < characters:
        text += (
            f"\n\n**Remark {text.count('**Remark') + 1}.** The folder is small and a long report was asked for, so "
            "this paragraph is only padding. It shows how an answer continues in another message before the first one "
            "gets too long."
        )
    return text


Events = AsyncIterator[BaseEvent]
Item = TypeVar("Item")

TOOL_SECONDS: Final = 0.7
"""The minimum duration of a tool call, so that people can see the tool run."""

LONGEST_TEXT_SECONDS: Final = 12.0
"""The time limit for streaming a text. A long text is sent in larger pieces."""

STEPS: Final = ("List the files", "Count their lines", "Write it up")
QUESTION: Final = "Which part of the repository should I look at: the code, the tests, or the documents?"
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "part": {"type": "string", "title": "Part", "enum": ["code", "tests", "documents"]},
    "topics": {"type": "array", "title": "Topics", "items": {"enum": ["size", "age", "owners"]}},
    "why": {"type": "string", "title": "Why", "description": "One line is enough."},
    "notes": {"type": "string", "format": "textarea", "title": "Notes"},
    "files": {"type": "integer", "title": "Most files", "minimum": 1, "default": 20},
    "share": {"type": "number", "title": "Share of the lines, in percent", "minimum": 0, "maximum": 100},
    "link": {"type": "string", "format": "uri", "title": "Link to a ticket"},
    "mail": {"type": "string", "format": "email", "title": "E-mail address for the result"},
    "drafts": {"type": "boolean", "title": "Include drafts", "default": False},
}
"""One field of each type, as a JSON Schema's properties."""

FAILURE: Final = "I was asked to fail, and I did; press Retry to see me succeed"

_HELP: Final = (
    "I am **writer**, a small rule-driven program that answers over AG-UI while it writes. Try `tell me about this "
    "repository`, `write a long report`, `ask me something` or `fail`. In this thread you do not have to mention me."
)


class Writer:
    """An agent that answers runs, and remembers the conversations in which a run has failed."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).resolve()
        self._failed: set[str] = set()

    async def run(self, asked: RunAgentInput) -> Events:
        """Yields one run, from its first event to its last."""
        yield RunStartedEvent(type=EventType.RUN_STARTED, thread_id=asked.thread_id, run_id=asked.run_id)
        async for event in self._answer(asked):
            yield event
            if isinstance(event, RunErrorEvent | RunFinishedEvent):
                return
        yield RunFinishedEvent(type=EventType.RUN_FINISHED, thread_id=asked.thread_id, run_id=asked.run_id)

    def _answer(self, asked: RunAgentInput) -> Events:
        text = _words(asked)
        rules: tuple[tuple[str, Callable[[], Events]], ...] = (
            (r"\bfail\b", lambda: self._fail(asked.thread_id)),
            (r"\bask me\b", lambda: _ask(asked)),
            (r"\breport\b", lambda: self._write(report)),
            (r"\babout\b|\brepository\b", lambda: self._write(overview)),
        )
        if asked.resume or QUESTION in _said_before(asked):
            return _say(_thanks(asked))
        return next((make() for pattern, make in rules if re.search(pattern, text)), _say(_HELP))

    async def _write(self, compose: Callable[[str, list[File]], str]) -> Events:
        """Yields three steps and two tool calls, then the text."""
        yield _plan(done=0)
        paths: list[Path] = []
        async for event in _tool("list_files", lambda: asyncio.to_thread(listed, self._root), paths.extend):
            yield event
        yield _plan(done=1)
        found: list[File] = []
        async for event in _tool("count_lines", lambda: asyncio.to_thread(counted, self._root, paths), found.extend):
            yield event
        yield _plan(done=2)
        async for event in _say(compose(self._root.name, found)):
            yield event
        yield _plan(done=3)

    async def _fail(self, conversation: str) -> Events:
        """Fails the first time in each conversation, and succeeds the second time."""
        if conversation in self._failed:
            self._failed.discard(conversation)
            async for event in _say("This time it worked."):
                yield event
            return
        self._failed.add(conversation)
        async for event in _say("I am beginning to answer, and then"):
            yield event
        yield RunErrorEvent(type=EventType.RUN_ERROR, message=FAILURE, code="demo")


def _words(asked: RunAgentInput) -> str:
    """Returns the last message without the addressed names."""
    return re.sub(r"(?:@|swarm#)[\w-]+", " ", _last_message(asked)).strip().lower()


def _last_message(asked: RunAgentInput) -> str:
    texts = [message.content for message in asked.messages if message.role == "user"]
    return texts[-1] if texts and isinstance(texts[-1], str) else ""


def _said_before(asked: RunAgentInput) -> str:
    """Returns the writer's last message in this conversation."""
    texts = [message.content for message in asked.messages if message.role == "assistant"]
    return texts[-1] or "" if texts else ""


def _thanks(asked: RunAgentInput) -> str:
    """Repeats the person's choice, from a form or a message."""
    answers = [entry.payload for entry in asked.resume or [] if entry.status == "resolved"]
    values = {name: value for answer in answers if isinstance(answer, dict) for name, value in answer.items()}
    if asked.resume and not values:
        return "Nobody chose anything, so I look at nothing."
    part = values.pop("part", None) or _words(asked)
    others = "".join(
        f"\n- {FIELDS.get(name, {}).get('title', name)}: {_shown(value)}" for name, value in values.items()
    )
    return f"So it is “{part}”. I would look at that first, if I could.{others}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


async def _ask(asked: RunAgentInput) -> Events:
    question = Interrupt(
        id=str(uuid4()),
        reason="a choice",
        message=QUESTION,
        response_schema={"type": "object", "properties": FIELDS, "required": ["part"]},
    )
    yield RunFinishedEvent(
        type=EventType.RUN_FINISHED,
        thread_id=asked.thread_id,
        run_id=asked.run_id,
        outcome=RunFinishedInterruptOutcome(type="interrupt", interrupts=[question]),
    )


async def _say(text: str) -> Events:
    id = str(uuid4())
    yield TextMessageStartEvent(type=EventType.TEXT_MESSAGE_START, message_id=id, role="assistant")
    for piece in pieces(text, WORD_SECONDS, LONGEST_TEXT_SECONDS):
        yield TextMessageContentEvent(type=EventType.TEXT_MESSAGE_CONTENT, message_id=id, delta=piece)
        await asyncio.sleep(WORD_SECONDS)
    yield TextMessageEndEvent(type=EventType.TEXT_MESSAGE_END, message_id=id)


async def _tool(name: str, work: Callable[[], Awaitable[list[Item]]], take: Callable[[list[Item]], None]) -> Events:
    """Yields the events of a tool call, and passes its result to ``take``."""
    id = str(uuid4())
    yield ToolCallStartEvent(type=EventType.TOOL_CALL_START, tool_call_id=id, tool_call_name=name)
    yield ToolCallEndEvent(type=EventType.TOOL_CALL_END, tool_call_id=id)
    result, _ = await asyncio.gather(work(), asyncio.sleep(TOOL_SECONDS))
    take(result)
    yield ToolCallResultEvent(
        type=EventType.TOOL_CALL_RESULT, message_id=str(uuid4()), tool_call_id=id, content=f"{len(result)} found"
    )


def _plan(*, done: int) -> StateSnapshotEvent:
    """Returns the plan with ``done`` finished steps."""
    status = ["completed" if n < done else "in_progress" if n == done else "pending" for n in range(len(STEPS))]
    todos = [{"content": step, "status": how} for step, how in zip(STEPS, status, strict=True)]
    return StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot={"todos": todos})


def _application(writer: Writer) -> Starlette:
    """Returns the service. A run is posted to ``/`` as a ``RunAgentInput``; its events are returned as server-sent
    events."""
    encoder = EventEncoder()

    async def run(request: Request) -> Response:
        try:
            asked = RunAgentInput.model_validate_json(await request.body())
        except ValidationError as error:
            return PlainTextResponse(str(error), status_code=422)
        return StreamingResponse(events(asked), media_type=encoder.get_content_type())

    async def events(asked: RunAgentInput) -> AsyncIterator[str]:
        async for event in writer.run(asked):
            yield encoder.encode(event)

    async def alive(request: Request) -> Response:
        return PlainTextResponse("POST a RunAgentInput here.")

    return Starlette(routes=[Route("/", run, methods=["POST"]), Route("/", alive, methods=["GET"])])


if __name__ == "__main__":
    serve(_application(Writer(os.environ.get("DEMO_ROOT", "."))), "WRITER_PORT")
