"""What a kill has left, judged by the twin's log of calls, by what people see, and at last by the tables.

Whole answers are judged as `swarm bench storm` judges them. Of an answer that was shown live people may see several
beginnings, each of which says below it that it does not count, and then, once, the whole.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.services.runs.run_ends import STOP_TEXT
from swarm_lab.bench.storm import Asked
from swarm_lab.bench.streaming_agent import Order, marks_in
from tests.support.truth import TABLES, Tables
from tests.support.twin_client import ANSWERED, STORED

Message = Mapping[str, Any]

FAILED = "x"

NOTES = ("starts again", "not complete")
"""What stands below an answer that does not count."""

_OPEN = {
    "inbox messages": "SELECT * FROM inbox_messages WHERE status IN ('unread', 'claimed', 'waiting')",
    "tasks": "SELECT * FROM tasks WHERE ended_at IS NULL",
    "leases": "SELECT * FROM leases WHERE ended_at IS NULL",
    "notices": "SELECT * FROM notices WHERE status IN ('unread', 'claimed')",
    "deliveries": "SELECT * FROM deliveries WHERE status IN ('queued', 'sending', 'unknown')",
    "runs": "SELECT * FROM runs WHERE status IN ('running', 'closing')",
}


class Rows:
    """Looks into the database of a coordinator that runs, without disturbing it."""

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def select(self, query: str) -> list[Mapping[str, Any]]:
        """The rows that a query finds."""
        if isinstance(self._where, str):
            with psycopg.connect(self._where, autocommit=True, row_factory=dict_row) as there:
                return list(there.execute(query.encode()).fetchall())
        with closing(sqlite3.connect(f"file:{self._where}?mode=ro", uri=True)) as here:
            here.row_factory = sqlite3.Row
            return [dict(row) for row in here.execute(query)]

    def open(self) -> dict[str, list[Mapping[str, Any]]]:
        """What is not over, by what it is."""
        found = {what: self.select(query) for what, query in _OPEN.items()}
        return {what: rows for what, rows in found.items() if rows}

    def tables(self) -> Tables:
        """Everything, for `Truth`."""
        rows = {table: self.select(f"SELECT * FROM {table}") for table in TABLES}
        return Tables(rows=rows, timeline=self.select("SELECT * FROM history ORDER BY seq"))


def numbers(message: Message, order: Order) -> list[int]:
    """The pieces of an order's answer that people see in a message, in order.

    Of a long message that was changed the plain text is cut, and its blocks show the whole.
    """
    whole = "".join(block["text"] for block in message["blocks"] if block["type"] == "markdown")
    found = [
        [number for stream, number in marks_in(text) if stream == order.stream] for text in (whole, message["text"])
    ]
    return max(found, key=len)


def attempts(thread: Sequence[Message], order: Order) -> list[list[Message]]:
    """The messages that show an order's answer, by the attempt that they belong to, oldest first."""
    found: list[list[Message]] = []
    for message in thread:
        shown = numbers(message, order)
        if shown and message["kind"] == "bot":
            if shown[0] == 0 or not found:
                found.append([])
            found[-1].append(message)
    return found


def wants_retry(thread: Sequence[Message]) -> list[Message]:
    """The messages with a button that asks whether to run an agent again."""
    return [message for message in thread if RETRY_RUN_ACTION in json.dumps(message["blocks"])]


def is_whole(pages: Sequence[Message], order: Order) -> bool:
    """Whether an attempt shows every piece once, in order, and nothing grows any more."""
    shown = [number for page in pages for number in numbers(page, order)]
    return shown == list(range(order.deltas)) and not any(page["streaming"] for page in pages)


def is_disowned(pages: Sequence[Message]) -> bool:
    """Whether people are told, where they begin to read, that an attempt does not count."""
    return any(note in json.dumps(pages[0]["blocks"], ensure_ascii=False) for note in NOTES) if pages else False


def faults_of_stream(thread: Sequence[Message], order: Order) -> list[str]:
    """What is wrong with an answer that was shown live."""
    *before, last = attempts(thread, order) or [[]]
    found = []
    if not is_whole(last, order) or is_disowned(last):
        found.append(f"s{order.stream} was not answered whole")
    for pages in before:
        if not is_disowned(pages):
            found.append(f"s{order.stream} is shown once more, and the first time counts as well")
        if any(page["streaming"] for page in pages):
            found.append(f"s{order.stream}: a message that was given up still grows")
    if any(STOP_TEXT in message["text"] for message in thread):
        found.append(f"s{order.stream}: the Stop button is still there")
    return found


def faults_of_marks(asked: Asked, seen: Mapping[str, Message]) -> list[str]:
    """What is wrong with the reactions on a message that was answered; a mark of an earlier failure is taken away."""
    given = [reaction["name"] for reaction in seen[asked.ts]["reactions"] for _ in reaction["users"]]
    is_fine = given.count(ANSWERED) == 1 and set(given) <= {ANSWERED, STORED}
    is_fine = is_fine and len(given) == len(set(given))
    return [] if is_fine else [f"{asked.name} is marked {given}"]


def faults_of_posts(
    posted: Mapping[tuple[str, str, str], int],
    threads: Mapping[tuple[str, str], Sequence[Message]],
    deliveries: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Which texts stand more often in a thread than there are runs that say them.

    Two runs that were both interrupted before they showed anything say the same words, each once: where somebody
    pressed Retry, or where the agent runs again by itself. ``posted`` counts the calls by channel, thread and text.
    """
    run_of = {row["id"]: json.loads(row["closing"] or "{}").get("place", {}).get("run_id") for row in deliveries}
    found = []
    for (channel, thread, text), count in posted.items():
        same = [message for message in threads.get((channel, thread), []) if message["text"] == text]
        runs = {run_of.get(((one["metadata"] or {}).get("event_payload") or {}).get("delivery_id")) for one in same}
        if count > max(1, len(runs - {None})) and STOP_TEXT not in text:
            found.append(f"posted twice: {(channel, thread, text)}")
    return found
