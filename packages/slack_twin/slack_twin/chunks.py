"""The chunks of a stream, and the message built from them.

https://docs.slack.dev/reference/methods/chat.appendStream#chunks: text, updates of tasks and of their plan, and blocks.
A task is identified by an id: a later chunk with the same id updates its card in place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

import orjson

from slack_twin.blocks import MAX_BLOCKS, MAX_MARKDOWN_CHARACTERS, checked_blocks
from slack_twin.errors import Json, SlackError

# Slack refuses more text at a size between 10 and 11 kB, including cards; the limit is not documented.
MAX_STREAM_BYTES = 10_500
MAX_TASK_CHARACTERS = 256


class Display(StrEnum):
    """The display of tasks: a card for each in order of appearance, or one plan with all tasks."""

    TIMELINE = "timeline"
    PLAN = "plan"


class TaskStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Text:
    """A piece of Markdown."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """The current state of a task; in a chunk, the update of a task."""

    id: str
    title: str
    status: TaskStatus
    details: str = ""
    output: str = ""
    sources: tuple[Json, ...] = ()

    def updated(self, update: "Task") -> "Task":
        """Returns the updated task: replaces the title and status; appends details, output and sources."""
        return replace(
            update,
            details=self.details + update.details,
            output=self.output + update.output,
            sources=self.sources + tuple(source for source in update.sources if source not in self.sources),
        )

    def card(self) -> Json:
        """Returns the block that shows the task. https://docs.slack.dev/reference/block-kit/blocks/task-card-block"""
        card: Json = {"type": "task_card", "task_id": self.id, "title": self.title, "status": self.status.value}
        if self.details:
            card["details"] = _rich_text(self.details)
        if self.output:
            card["output"] = _rich_text(self.output)
        return card | ({"sources": list(self.sources)} if self.sources else {})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A new title for the plan."""

    title: str


@dataclass(frozen=True, kw_only=True)
class Blocks:
    blocks: tuple[Json, ...]


Chunk = Text | Task | Plan | Blocks


def _rich_text(text: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [section]}


@dataclass(frozen=True, kw_only=True)
class Content:
    """The complete content of a stream in display order: a task appears where it was first mentioned."""

    display: Display = Display.TIMELINE
    chunks: tuple[Chunk, ...] = field(default=())

    def with_chunks(self, added: tuple[Chunk, ...]) -> "Content":
        """Returns the extended content.

        Raises `msg_too_long` above 10,500 bytes, `msg_blocks_too_many` above 50 blocks.
        """
        grown = self
        for chunk in added:
            grown = replace(grown, chunks=_joined(grown.chunks, chunk))
        grown._check_size()
        return grown

    def _check_size(self) -> None:
        blocks = [block for chunk in self.chunks if isinstance(chunk, Blocks) for block in chunk.blocks]
        if len(blocks) > MAX_BLOCKS:
            raise SlackError("msg_blocks_too_many")
        cards = [chunk.card() for chunk in self.chunks if isinstance(chunk, Task)]
        size = len(self.text.encode()) + sum(len(orjson.dumps(block)) for block in (*cards, *blocks))
        if size > MAX_STREAM_BYTES:
            raise SlackError("msg_too_long")

    @property
    def text(self) -> str:
        """Returns all the Markdown, without cards and blocks."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, Text))

    def blocks(self) -> Iterator[Json]:
        """Yields the message as blocks; their ids stay the same while the stream grows."""
        plan_shown = False
        for place, chunk in enumerate(self.chunks):
            match chunk:
                case Text():
                    yield {"block_id": f"text{place}", "type": "markdown", "text": chunk.text}
                case Task() if self.display is Display.TIMELINE:
                    yield {"block_id": f"task{place}", **chunk.card()}
                case Task() | Plan() if self.display is Display.PLAN and not plan_shown:
                    plan_shown = True
                    yield {"block_id": "plan", **self._plan()}
                case Blocks():
                    yield from chunk.blocks

    def _plan(self) -> Json:
        """Returns all tasks in one block. https://docs.slack.dev/reference/block-kit/blocks/plan-block"""
        tasks = [chunk for chunk in self.chunks if isinstance(chunk, Task)]
        title = next((chunk.title for chunk in self.chunks if isinstance(chunk, Plan)), "")
        return {
            "type": "plan",
            "title": title or (tasks[0].title if tasks else ""),
            "tasks": [task.card() for task in tasks],
        }


def _joined(chunks: tuple[Chunk, ...], added: Chunk) -> tuple[Chunk, ...]:
    """Adds a chunk: appends text to text, updates a known task in place, and keeps a single plan title."""
    if isinstance(added, Text) and chunks and isinstance(chunks[-1], Text):
        return (*chunks[:-1], Text(text=chunks[-1].text + added.text))
    for place, known in enumerate(chunks):
        if isinstance(added, Task) and isinstance(known, Task) and known.id == added.id:
            return (*chunks[:place], known.updated(added), *chunks[place + 1 :])
        if isinstance(added, Plan) and isinstance(known, Plan):
            return (*chunks[:place], added, *chunks[place + 1 :])
    return (*chunks, added)


def read_chunks(value: object) -> tuple[Chunk, ...]:
    """Returns the chunks of a call. Raises `invalid_chunks` with the errors, and the errors of blocks."""
    if not isinstance(value, list):
        raise _invalid("must be a list", "/chunks")
    return tuple(_chunk(item, f"/chunks/{place}") for place, item in enumerate(value))


def _chunk(item: object, pointer: str) -> Chunk:
    if not isinstance(item, dict):
        raise _invalid("must be an object", pointer)
    read = _READERS.get(str(item.get("type")))
    if read is None:
        raise _invalid(f"unsupported type: {item.get('type')}", f"{pointer}/type")
    return read(item, pointer)


def _text(item: Json, pointer: str) -> Text:
    return Text(text=_string(item, "text", pointer, longest=MAX_MARKDOWN_CHARACTERS))


def _task(item: Json, pointer: str) -> Task:
    status = item.get("status")
    if status not in tuple(TaskStatus):
        raise _invalid(f"must be one of {', '.join(TaskStatus)}", f"{pointer}/status")
    return Task(
        id=_string(item, "id", pointer),
        title=_string(item, "title", pointer),
        status=TaskStatus(str(status)),
        details=_string(item, "details", pointer) if item.get("details") else "",
        output=_string(item, "output", pointer) if item.get("output") else "",
        sources=_sources(item.get("sources"), f"{pointer}/sources"),
    )


def _plan(item: Json, pointer: str) -> Plan:
    return Plan(title=_string(item, "title", pointer))


def _blocks(item: Json, pointer: str) -> Blocks:
    if not isinstance(item.get("blocks"), list):
        raise _invalid("must be a list", f"{pointer}/blocks")
    return Blocks(blocks=checked_blocks(item["blocks"]))


_READERS: dict[str, Callable[[Json, str], Chunk]] = {
    "markdown_text": _text,
    "task_update": _task,
    "plan_update": _plan,
    "blocks": _blocks,
}


def _string(item: Json, name: str, pointer: str, *, longest: int = MAX_TASK_CHARACTERS) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise _invalid(f"missing required field: {name}", pointer)
    if len(value) > longest:
        raise _invalid(f"must be less than {longest + 1} characters", f"{pointer}/{name}")
    return value.replace("\x00", "")


def _sources(value: object, pointer: str) -> tuple[Json, ...]:
    """Returns the links below a task: `{type: url, url, text}`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _invalid("must be a list", pointer)
    for place, source in enumerate(value):
        fields = source if isinstance(source, dict) else {}
        if fields.get("type") != "url" or not all(isinstance(fields.get(name), str) for name in ("url", "text")):
            raise _invalid("must be a url source with url and text", f"{pointer}/{place}")
    return tuple(value)


def _invalid(message: str, pointer: str) -> SlackError:
    return SlackError("invalid_chunks", messages=[f"[ERROR] {message} [json-pointer:{pointer}]"])
