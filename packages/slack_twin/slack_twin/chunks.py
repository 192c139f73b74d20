"""What a stream is fed with, and the message that grows from it.

https://docs.slack.dev/reference/methods/chat.appendStream#chunks: text, updates of tasks and of their plan, and blocks.
A task is named by an id: a later chunk with the same id changes its card in place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

import orjson

from slack_twin.blocks import MAX_BLOCKS, MAX_MARKDOWN_CHARACTERS, checked_blocks
from slack_twin.errors import Json, SlackError

# Slack ends a stream's growth between 10 and 11 kB, cards included; it documents no figure.
MAX_STREAM_BYTES = 10_500
MAX_TASK_CHARACTERS = 256


class Display(StrEnum):
    """How tasks are shown: a card each where it came up, or all of them in one plan."""

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
    """A task as it is known so far; in a chunk, what is new about it."""

    id: str
    title: str
    status: TaskStatus
    details: str = ""
    output: str = ""
    sources: tuple[Json, ...] = ()

    def updated(self, update: "Task") -> "Task":
        """Title and status are replaced; details, output and sources are added to what is there."""
        return replace(
            update,
            details=self.details + update.details,
            output=self.output + update.output,
            sources=self.sources + tuple(source for source in update.sources if source not in self.sources),
        )

    def card(self) -> Json:
        """The block that shows the task. https://docs.slack.dev/reference/block-kit/blocks/task-card-block"""
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
    """Everything a stream was fed with, in the order in which it shows: a task stands where it first came up."""

    display: Display = Display.TIMELINE
    chunks: tuple[Chunk, ...] = field(default=())

    def with_chunks(self, added: tuple[Chunk, ...]) -> "Content":
        """Raises `msg_too_long` when all together is more than 10,500 bytes, `msg_blocks_too_many` above 50 blocks."""
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
        """All the Markdown, without cards and blocks."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, Text))

    def blocks(self) -> Iterator[Json]:
        """The message as blocks; their ids stay the same while the stream grows."""
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
        """All tasks in one block. https://docs.slack.dev/reference/block-kit/blocks/plan-block"""
        tasks = [chunk for chunk in self.chunks if isinstance(chunk, Task)]
        title = next((chunk.title for chunk in self.chunks if isinstance(chunk, Plan)), "")
        return {
            "type": "plan",
            "title": title or (tasks[0].title if tasks else ""),
            "tasks": [task.card() for task in tasks],
        }


def _joined(chunks: tuple[Chunk, ...], added: Chunk) -> tuple[Chunk, ...]:
    """Text goes on where text ends; a known task changes where it stands; there is one plan title."""
    if isinstance(added, Text) and chunks and isinstance(chunks[-1], Text):
        return (*chunks[:-1], Text(text=chunks[-1].text + added.text))
    for place, known in enumerate(chunks):
        if isinstance(added, Task) and isinstance(known, Task) and known.id == added.id:
            return (*chunks[:place], known.updated(added), *chunks[place + 1 :])
        if isinstance(added, Plan) and isinstance(known, Plan):
            return (*chunks[:place], added, *chunks[place + 1 :])
    return (*chunks, added)


def read_chunks(value: object) -> tuple[Chunk, ...]:
    """Chunks as a call gives them. Raises `invalid_chunks` with what is wrong, and what blocks can raise."""
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
    """Links under a task: `{type: url, url, text}`."""
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
