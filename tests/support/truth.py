"""What must hold of the swarm at every moment, read from its tables and checked against plain rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.domain.model.inbox import INBOX_TRANSITIONS, InboxStatus, InboxStep
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS
from swarm.domain.model.states import Transition
from swarm.domain.model.tasks import TASK_TRANSITIONS, TaskStatus, TaskStep
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from tests.support.world import look

TABLES = (
    "inbox_messages", "tasks", "task_dependencies", "threads", "leases", "queue_heads", "notices", "deliveries",
)  # fmt: skip
ENDS = ("task.complete", "task.fail", "task.break", "task.bury", "task.cancel")
Lane = tuple[str, str]  # agent, thread or task


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Everything that is so at one moment."""

    rows: Mapping[str, list[Row]]
    timeline: list[Row]

    def __getitem__(self, table: str) -> list[Row]:
        return self.rows[table]

    def by_id(self, table: str) -> dict[str, Row]:
        return {row["id"]: row for row in self[table]}


def read_tables(tx: Transaction) -> Tables:
    rows = {table: look(tx, f"SELECT * FROM {table}", {}) for table in TABLES}
    return Tables(rows=rows, timeline=look(tx, "SELECT * FROM history ORDER BY seq", {}))


@dataclass
class Truth:
    """Follows a swarm from check to check."""

    seen: int = 0  # lines of the timeline
    states: dict[str, str] = field(default_factory=dict)  # of inbox_messages and tasks, as the timeline has them
    owners: dict[str, tuple[int, str | None]] = field(default_factory=dict)  # thread -> epoch, owner

    def check(self, tables: Tables) -> None:
        """Raises AssertionError for whatever must not be."""
        self._states_follow_the_diagrams(tables)
        self._owners_change_with_epochs(tables)
        _one_entry_per_message_and_agent(tables)
        _one_run_per_lane(tables)
        _work_in_hand_has_a_lease(tables)
        _attempts_are_limited(tables)
        _heads_are_what_is_due(tables)
        _nothing_runs_before_what_it_depends_on(tables)
        _ends_are_told_once(tables)

    def _states_follow_the_diagrams(self, tables: Tables) -> None:
        for line in tables.timeline[self.seen :]:
            kind, _, what = line["change"].partition(".")
            if kind == "inbox" and what in set(InboxStep) | {"store"}:
                self._step(line, what, "store", InboxStatus.UNREAD, INBOX_TRANSITIONS)
            elif kind == "task" and what in set(TaskStatus) | set(TaskStep):
                self._step(line, what, what, what, TASK_TRANSITIONS)
        self.seen = len(tables.timeline)
        for row in [*tables["inbox_messages"], *tables["tasks"]]:
            assert self.states[row["id"]] == row["status"], f"the timeline of {row} says otherwise"

    def _step(self, line: Row, what: str, birth: str, first: str, table: Mapping[Any, Transition[Any]]) -> None:
        subject = line["subject"]
        if subject not in self.states:
            assert what == birth, f"{line} happened to something unknown"
            self.states[subject] = first
            return
        transition = table[what]
        assert self.states[subject] in transition.sources, f"{line} happened to what was {self.states[subject]}"
        self.states[subject] = transition.target

    def _owners_change_with_epochs(self, tables: Tables) -> None:
        for thread in tables["threads"]:
            epoch, owner = self.owners.get(thread["id"], (0, None))
            assert thread["epoch"] >= epoch
            assert thread["epoch"] > epoch or thread["owner_id"] == owner, "a new owner without a new epoch"
            self.owners[thread["id"]] = (thread["epoch"], thread["owner_id"])


def _one_entry_per_message_and_agent(tables: Tables) -> None:
    had = Counter(
        (inbox_message["channel"], inbox_message["ts"], inbox_message["agent_id"])
        for inbox_message in tables["inbox_messages"]
    )
    assert not [key for key, count in had.items() if count > 1]


def _one_run_per_lane(tables: Tables) -> None:
    runs = Counter(
        (lease["agent_id"], lease["thread_id"] or lease["task_id"])
        for lease in tables["leases"]
        if lease["kind"] == "work" and lease["ended_at"] is None
    )
    assert not [lane for lane, count in runs.items() if count > 1]


def _work_in_hand_has_a_lease(tables: Tables) -> None:
    active = {lease["token"]: lease for lease in tables["leases"] if lease["ended_at"] is None}
    held = [
        inbox_message for inbox_message in tables["inbox_messages"] if inbox_message["status"] == InboxStatus.CLAIMED
    ]
    running = [task for task in tables["tasks"] if task["status"] == TaskStatus.IN_PROGRESS]
    for row in [*held, *running]:
        assert row["lease_token"] in active, f"nobody will ever end {row}"
        assert active[row["lease_token"]]["agent_id"] == row["agent_id"]


def _attempts_are_limited(tables: Tables) -> None:
    for row in [*tables["inbox_messages"], *tables["tasks"]]:
        assert row["attempts"] < MAX_MESSAGE_ATTEMPTS or (
            row["attempts"] == MAX_MESSAGE_ATTEMPTS and row["status"] == "dead"
        )


def due_lanes(tables: Tables) -> dict[Lane, int]:
    """The lowest key of what is due in each lane."""
    lanes: dict[Lane, list[int]] = defaultdict(list)
    for inbox_message in tables["inbox_messages"]:
        if (
            inbox_message["status"] == InboxStatus.UNREAD
            and inbox_message["delay_reason"] is None
            and inbox_message["agent_id"]
        ):
            lanes[inbox_message["agent_id"], inbox_message["thread_id"]].append(inbox_message["order_key"])
    for task in tables["tasks"]:
        if task["status"] == TaskStatus.PENDING and task["delay_reason"] is None:
            lanes[task["agent_id"], task["lane_id"]].append(task["order_key"])
    return {lane: min(keys) for lane, keys in lanes.items()}


def _heads_are_what_is_due(tables: Tables) -> None:
    assert {(head["agent_id"], head["lane_id"]): head["order_key"] for head in tables["queue_heads"]} == due_lanes(
        tables
    )


def _nothing_runs_before_what_it_depends_on(tables: Tables) -> None:
    tasks = tables.by_id("tasks")
    begun = {TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.WAITING, TaskStatus.COMPLETED}
    for link in tables["task_dependencies"]:
        task, other = tasks[link["task_id"]], tasks[link["depends_on_id"]]
        assert task["status"] not in begun or other["status"] == TaskStatus.COMPLETED


def _ends_are_told_once(tables: Tables) -> None:
    """Whoever created a task hears of each of its ends once, unless it brought it about itself."""
    told = Counter(notice["task_id"] for notice in tables["notices"] if notice["kind"] == "task_finished")
    tasks = tables.by_id("tasks")
    ends = Counter(
        line["subject"]
        for line in tables.timeline
        if line["change"] in ENDS
        and (creator := tasks[line["subject"]]["created_by"])
        and not (line["change"] == "task.cancel" and line["agent_id"] == creator)
    )
    assert told == ends


def unfinished(tables: Tables) -> list[Row]:
    """Entries and tasks that are not over, and delegated ones whose task is not."""
    tasks = tables.by_id("tasks")
    open_entries = {InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING}
    return [
        *(inbox_message for inbox_message in tables["inbox_messages"] if inbox_message["status"] in open_entries),
        *(task for task in tasks.values() if task["ended_at"] is None),
    ]


def silent(tables: Tables) -> list[Row]:
    """Entries of which nothing was ever seen, though the message is there: withdrawn, and nobody else had it."""
    ended = {InboxStatus.RESPONDED, InboxStatus.DELEGATED, InboxStatus.DISMISSED, InboxStatus.DEAD}
    seen = {
        (inbox_message["channel"], inbox_message["ts"])
        for inbox_message in tables["inbox_messages"]
        if inbox_message["status"] in ended
    }
    return [
        inbox_message
        for inbox_message in tables["inbox_messages"]
        if (inbox_message["channel"], inbox_message["ts"]) not in seen
    ]
