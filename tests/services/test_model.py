"""Anything in any order: people, agents, operators and time do what they may, and what must hold holds after each step.

At the end everybody works on until nothing is left: then every message has ended where people can see it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from conftest import ENGINES
from swarm.clock import ManualClock
from swarm.domain.errors import SwarmError
from swarm.domain.model.agents import OFFLINE_AFTER_SECONDS, Agent
from swarm.domain.model.leases import LEASE_SECONDS, MAX_MESSAGE_ATTEMPTS, FinishOutcome, LeaseEnd
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger, TriggerKind
from swarm.services.ground.idempotency import Caller
from swarm.services.inbox.claim import claim
from swarm.services.inbox.claim_calls import ClaimCall
from swarm.services.intake.posted import Posted
from swarm.services.tasks.tasks import brief
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from tests.services.conftest import emptied
from tests.support.truth import Tables, Truth, due_lanes, read_tables, silent, unfinished
from tests.support.world import BOT, World, delete, edit, said

T = TypeVar("T")
EXAMPLES, STEPS = 12, 50
ROUNDS_TO_THE_END = 40
MOST_THREADS = 3
MOST_AT_ONCE = 64
EVENTS = [
    "thread",
    "mention",
    "follow-up",
    "broadcast",
    "twice",
    "early reply",
    "repeat",
    "edit",
    "delete",
    "failing event",
]
AT_ONCE = ["poll", "poll", "waiting poll", "failing claim", "renew", "not mine", *FinishOutcome, *EVENTS]

which = st.integers(0, 1_000)  # one of however many there are
yes = st.booleans()


@dataclass(frozen=True, kw_only=True)
class Run:
    """Somebody who was handed a trigger, and may come back to it at any time."""

    agent: Agent
    trigger: Trigger

    @property
    def inbox_message_id(self) -> str | None:
        return self.trigger.inbox_messages[0].id if self.trigger.inbox_messages else None

    @property
    def task_id(self) -> str | None:
        return self.trigger.task.id if self.trigger.task else None


class Swarm(RuleBasedStateMachine):
    """Two leads, three workers, and whatever comes to pass among them."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = ManualClock()
        self.database = Database(url, clock=self.clock)
        self.wait(self.database.__aenter__())
        self.world = World(self.database, self.clock)
        self.truth = Truth()
        self.agents = [self.wait(self.world.lead(name)) for name in ("lead", "second")]
        self.agents += [self.wait(self.world.worker(name)) for name in ("a", "b", "c")]
        self.runs: list[Run] = []
        self.heard: list[SlackMessage] = []
        self.unacknowledged: list[SlackMessage] = []
        self.said = count(1)
        self.promised: list[str] = []  # what tools have accepted to post
        self.last_call: Callable[[], Coroutine[Any, Any, object]] | None = None

    def wait(self, act: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(act)

    def tables(self) -> Tables:
        return self.wait(self.database.read(read_tables))

    def teardown(self) -> None:
        try:
            if self.heard:
                self.everybody_works_on()
        finally:
            self.wait(self.database.__aexit__(None, None, None))
            self.loop.close()

    @invariant()
    def what_must_hold_holds(self) -> None:
        self.truth.check(self.tables())

    # People

    @rule(text=st.sampled_from([BOT, BOT, "swarm#second", "swarm#a", "swarm#all"]))
    def somebody_begins(self, text: str) -> None:
        if len(self.roots) < MOST_THREADS:
            self.heard.append(self.wait(self.world.hears(said(f"{text} {next(self.said)}"))))

    @precondition(lambda self: self.heard)
    @rule(thread=which, text=st.sampled_from(["", "", BOT, "swarm#second", "swarm#a", "swarm#all", "<@U3>"]))
    def somebody_goes_on(self, thread: int, text: str) -> None:
        root = self.roots[thread % len(self.roots)]
        self.heard.append(self.wait(self.world.hears(said(f"{text} {next(self.said)}", thread_ts=root.ts))))

    @precondition(lambda self: self.heard)
    @rule(message=which, change=st.sampled_from(["repeat", "edit", "edit", "delete"]))
    def a_message_comes_again_or_changes(self, message: int, change: str) -> None:
        chosen, before = self.heard[message % len(self.heard)], self.tables()
        if change == "repeat":
            self.wait(self.world.hears(chosen))
            assert before.rows == self.tables().rows
        else:
            event = edit(chosen, f"edited {next(self.said)}") if change == "edit" else delete(chosen)
            self.wait(self.world.ingest.handle(event))

    # Agents

    @rule(thread=which, to=st.sampled_from("abc"), offer=yes, taken=yes)
    def a_task_is_on_its_way(self, thread: int, to: str, offer: bool, taken: bool) -> None:
        """Somebody asks, a lead hands it on, the worker takes it: the shortest way to where it becomes difficult."""
        if self.roots and (thread % 3 or len(self.roots) >= MOST_THREADS):
            self.somebody_goes_on(thread, "swarm#lead")
        else:
            self.somebody_begins("swarm#lead")
        self.polls(self.agents[0], 20)
        asked = [run for run in self.runs if run.agent is self.agents[0] and run.inbox_message_id and not run.task_id]
        delegate, what = self.world.services.delegations.delegate, brief(f"Do {next(self.said)}.")
        for run in asked[-1:]:
            about = run.inbox_message_id or ""
            self.call(run, about, True, None, lambda by, about: delegate(by, about, to, what, offer=offer))
        for worker in [agent for agent in self.agents if taken and agent.name == to]:
            self.polls(worker, 20)

    @precondition(lambda self: self.heard)
    @rule(agent=which, limit=st.integers(1, 4), hold=yes)
    def an_agent_polls(self, agent: int, limit: int, hold: bool) -> None:
        self.polls(self.somebody_with_work(agent), limit, hold)

    @precondition(lambda self: self.heard)
    @rule(agent=which)
    def the_runs_of_an_agent_crash_until_nothing_is_left(self, agent: int) -> None:
        poller = self.somebody_with_work(agent)
        for _ in range(MAX_MESSAGE_ATTEMPTS):
            had = len(self.runs)
            self.polls(poller, 2)
            tokens = [run.trigger.lease_token for run in self.runs[had:]]
            self.wait(self.world.services.work.finish(poller, tokens, FinishOutcome.FAILED, "it crashed"))

    @precondition(lambda self: self.runs)
    @rule(run=which, only=yes, wait=yes, named=yes)
    def a_run_replies(self, run: int, only: bool, wait: bool, named: bool) -> None:
        text = f"reply {next(self.said)}"
        for of, inbox_message_id in self.run_with_message(run):
            self.call(
                of,
                inbox_message_id,
                named,
                text,
                lambda by, about: self.replies.reply(by, about, text, only=only, wait=wait),
            )

    @precondition(lambda self: self.runs)
    @rule(run=which, wait=yes, named=yes)
    def a_run_speaks_of_its_task(self, run: int, wait: bool, named: bool) -> None:
        text = f"word {next(self.said)}"
        for of, task_id in self.run_with_task(run):
            self.call(
                of, task_id, named, text, lambda by, about: self.replies.reply_to_task(by, about, text, wait=wait)
            )

    @precondition(lambda self: self.runs)
    @rule(run=which, named=yes)
    def a_run_dismisses(self, run: int, named: bool) -> None:
        why = f"no need {next(self.said)}"
        for of, inbox_message_id in self.run_with_message(run):
            self.call(of, inbox_message_id, named, None, lambda by, about: self.replies.dismiss(by, about, why))

    @precondition(lambda self: self.runs)
    @rule(run=which, to=st.sampled_from("abc"), offer=yes, only=yes, named=yes, after=which)
    def a_run_delegates(self, run: int, to: str, offer: bool, only: bool, named: bool, after: int) -> None:
        what = brief(f"Do {next(self.said)}.", depends_on=self.some_task(after) if not offer else ())
        delegate = self.world.services.delegations.delegate
        for of, inbox_message_id in self.run_with_message(run):
            self.call(
                of,
                inbox_message_id,
                named,
                None,
                lambda by, about: delegate(by, about, to, what, offer=offer, only=only),
            )

    @precondition(lambda self: self.runs)
    @rule(run=which, how=st.sampled_from(["progress", "complete", "complete", "fail"]), said=yes, named=yes)
    def a_run_reports_on_its_task(self, run: int, how: str, said: bool, named: bool) -> None:
        text, work = f"{how} {next(self.said)}", self.world.services.task_work
        end, reply = (work.complete if how == "complete" else work.fail), f"said: {text}" if said else None
        for of, task_id in self.run_with_task(run):
            if how == "progress":
                self.call(of, task_id, named, None, lambda by, about: work.progress(by, about, text))
            else:
                said_there = reply if of.trigger.thread else None
                self.call(of, task_id, named, said_there, lambda by, about: end(by, about, text, reply))

    @precondition(lambda self: self.runs)
    @rule(run=which, to=st.sampled_from(["a", "b", "c", None]), after=which, part=yes, named=yes)
    def a_run_creates_a_task(self, run: int, to: str | None, after: int, part: bool, named: bool) -> None:
        of = self.runs[run % len(self.runs)]
        what, parent = brief(f"Do {next(self.said)}.", depends_on=self.some_task(after)), of.task_id if part else None
        create = self.world.services.tasks.create
        self.call(of, parent or "", named, None, lambda by, about: create(by, what, agent=to, parent_id=about or None))

    @precondition(lambda self: self.runs)
    @rule(run=which, accept=yes)
    def a_worker_answers_an_offer(self, run: int, accept: bool) -> None:
        offers = [of for of in self.runs if of.trigger.kind is TriggerKind.TASK_OFFERED]
        why, delegations = f"no {next(self.said)}", self.world.services.delegations
        for of, task_id in self.one_of([(of, of.task_id) for of in offers if of.task_id], run):
            if accept:
                self.tries(delegations.accept(Caller(agent=of.agent), task_id))
            else:
                self.tries(delegations.decline(Caller(agent=of.agent), task_id, why))

    @precondition(lambda self: self.runs)
    @rule(run=which, how=st.sampled_from([0, 5, *FinishOutcome]))
    def a_run_gives_back_or_finishes(self, run: int, how: int | FinishOutcome) -> None:
        of, work = self.runs[run % len(self.runs)], self.world.services.work
        tokens = [of.trigger.lease_token]
        if isinstance(how, FinishOutcome):
            self.tries(work.finish(of.agent, tokens, how, "it says so"))
        else:
            self.tries(work.release(of.agent, tokens, delay_seconds=how))

    @precondition(lambda self: self.runs)
    @rule(run=which)
    def a_run_renews(self, run: int) -> None:
        of = self.runs[run % len(self.runs)]
        self.wait(self.world.is_here(of.agent))
        beat = self.wait(self.world.services.work.renew(of.agent, [of.trigger.lease_token]))
        self.runs += [Run(agent=of.agent, trigger=notice) for notice in beat.notices]

    @precondition(lambda self: self.last_call)
    @rule()
    def a_call_is_repeated(self) -> None:
        assert self.last_call is not None
        before = self.tables()
        self.wait(self.last_call())
        assert before.rows == self.tables().rows

    # Many at once

    @precondition(lambda self: self.heard)
    @rule(
        calls=st.lists(st.tuples(st.sampled_from(AT_ONCE), which), min_size=1, max_size=MOST_AT_ONCE),
        cancelled=st.dictionaries(st.integers(0, MOST_AT_ONCE - 1), st.integers(0, 3), max_size=8),
    )
    def many_call_at_once(self, calls: list[tuple[str, int]], cancelled: dict[int, int]) -> None:
        """What many want at once runs as sets. Nobody is harmed by a neighbour that fails or goes away."""
        for agent in self.agents:
            self.wait(self.world.is_here(agent))
        known = len(self.runs)
        finished = self.wait(self.at_once([self.one_call(kind, number) for kind, number in calls], cancelled))
        while self.unacknowledged:  # Slack repeats them
            self.wait(self.is_told(self.unacknowledged.pop()))
        assert max(Counter(finished).values(), default=1) == 1, "a lease has ended twice"
        held = {run.trigger.lease_token for run in self.runs}
        active = {row["token"] for row in self.tables()["leases"] if row["ended_at"] is None}
        assert active <= held, f"leased for nobody: {active - held}, beside {len(self.runs) - known} new runs"

    async def at_once(self, calls: list[Coroutine[Any, Any, list[str]]], cancelled: dict[int, int]) -> list[str]:
        """Run all calls, some of which are cancelled a few steps later. The tokens of the leases that they finished."""
        tasks = [asyncio.ensure_future(call) for call in calls]
        for step in range(4):
            await asyncio.sleep(0)
            for number, when in cancelled.items():
                if when == step and number < len(tasks):
                    tasks[number].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        while others := asyncio.all_tasks() - {asyncio.current_task()}:  # they give back what nobody received
            await asyncio.gather(*others, return_exceptions=True)
        for number, result in enumerate(results):
            if isinstance(result, asyncio.CancelledError):
                assert number in cancelled
            elif isinstance(result, BaseException):
                assert isinstance(result, SwarmError), result
                assert result.status < HTTPStatus.INTERNAL_SERVER_ERROR, result
        return [token for result in results if not isinstance(result, BaseException) for token in result]

    async def one_call(self, kind: str, number: int) -> list[str]:
        agent, work = self.agents[number % len(self.agents)], self.world.services.work
        run = self.runs[number % len(self.runs)] if self.runs else None
        if kind in EVENTS:
            await self.one_event(kind, number)
        elif kind in ("poll", "waiting poll"):
            seconds = 0.02 if kind == "waiting poll" else 0
            taken = await self.world.services.polls.poll(agent, wait_seconds=seconds, limit=1 + number % 4)
            self.runs += [Run(agent=agent, trigger=trigger) for trigger in taken]
        elif kind == "failing claim":
            with pytest.raises(TypeError):
                await self.database.write_together(claim, ClaimCall(agent_id=agent.id, limit=cast(int, None)))
        elif kind == "renew" and run:
            beat = await work.renew(run.agent, [run.trigger.lease_token, "unknown"])
            self.runs += [Run(agent=run.agent, trigger=notice) for notice in beat.notices]
        elif kind in (*FinishOutcome, "not mine") and run:
            of, outcome = (agent, FinishOutcome.FAILED) if kind == "not mine" else (run.agent, FinishOutcome(kind))
            done = await work.finish(of, [run.trigger.lease_token], outcome, "it says so", next_limit=number % 3)
            self.runs += [Run(agent=of, trigger=trigger) for trigger in done.triggers]
            return list(done.ended)
        return []

    async def one_event(self, kind: str, number: int) -> None:
        text, root = f"{next(self.said)}", self.roots[number % len(self.roots)]
        chosen = self.heard[number % len(self.heard)]
        reply = said(text, thread_ts=root.ts)
        if kind in ("thread", "early reply"):
            if len(self.roots) < MOST_THREADS + MOST_THREADS:
                first = said(f"{BOT} {text}")
                replies = [said("early", thread_ts=first.ts)] if kind == "early reply" else []
                await asyncio.gather(*map(self.is_told, [*replies, first]))
        elif kind == "failing event":
            with pytest.raises(AttributeError):
                await self.database.write_together(self.world.ingest._posted.route, cast(Posted, None))
        elif kind in ("edit", "delete"):
            await self.world.ingest.handle(edit(chosen, f"edited {text}") if kind == "edit" else delete(chosen))
        elif kind == "repeat":
            await self.is_told(chosen)
        else:
            whom = {"mention": BOT, "broadcast": "swarm#all"}.get(kind, "")
            message = replace(reply, text=f"{whom} {text}".strip())
            await asyncio.gather(*(self.is_told(message) for _ in range(2 if kind == "twice" else 1)))

    async def is_told(self, message: SlackMessage) -> None:
        """Slack tells of a message, and repeats it later if that is not acknowledged."""
        self.unacknowledged.append(message)
        await self.world.hears(message)
        self.unacknowledged.remove(message)
        if message not in self.heard:
            self.heard.append(message)

    # Operators and leads

    @precondition(lambda self: self.tables()["tasks"])
    @rule(task=which, by=st.sampled_from([0, None]), to=st.sampled_from("abc"))
    def a_task_is_managed(self, task: int, by: int | None, to: str) -> None:
        """Assigned, redriven or cancelled, whichever is possible."""
        managed = self.world.services.tasks
        caller = None if by is None else Caller(agent=self.agents[by])
        row = self.one_of(self.tables()["tasks"], task)[0]
        if row["status"] == TaskStatus.UNASSIGNED:
            self.tries(managed.assign(caller, row["id"], to))
        elif row["status"] == TaskStatus.DEAD:
            self.tries(managed.redrive(row["id"]))
        else:
            self.tries(managed.cancel(caller, row["id"], f"why {next(self.said)}"))

    @precondition(lambda self: len(self.agents) > 3)
    @rule(agent=which)
    def an_agent_is_removed(self, agent: int) -> None:
        removable = [found for found in self.agents[1:] if found.name != "c"]
        if agent % 4 == 0 and removable:
            gone = removable[agent % len(removable)]
            self.agents.remove(gone)
            self.wait(self.world.services.agents.revoke(gone.id))

    # Time

    @rule(
        seconds=st.sampled_from([1, 6, LEASE_SECONDS, OFFLINE_AFTER_SECONDS + 1]),
        away=st.sets(st.integers(0, 4), max_size=2),
    )
    def time_goes_by(self, seconds: float, away: set[int]) -> None:
        self.clock.advance(seconds)
        for number, agent in enumerate(self.agents):
            if number not in away:
                self.wait(self.world.is_here(agent))
        self.wait(self.world.sweep())

    @rule()
    def what_is_due_is_sent(self) -> None:
        self.wait(self.world.send())

    # How it is done

    @property
    def replies(self) -> Any:
        return self.world.services.replies

    @property
    def roots(self) -> list[SlackMessage]:
        return [message for message in self.heard if message.is_root]

    def somebody_with_work(self, number: int) -> Agent:
        """An agent for which there is something to do; anybody, if there is none."""
        waited_for = {agent_id for agent_id, _ in due_lanes(self.tables())} | {
            row["agent_id"] for row in self.news_left()
        }
        here = [found for found in self.agents if found.id in waited_for] or self.agents
        return here[number % len(here)]

    def polls(self, agent: Agent, limit: int, hold: bool = False) -> None:
        self.wait(self.world.is_here(agent))
        taken = self.wait(self.world.poll(agent, limit=limit, hold=hold))
        self.runs += [Run(agent=agent, trigger=trigger) for trigger in taken]

    def run_with_message(self, number: int) -> list[tuple[Run, str]]:
        """A run and a message that it was handed; seldom one that is over, and none if there is none."""
        return self.one_of([(run, run.inbox_message_id) for run in self.live(number) if run.inbox_message_id], number)

    def run_with_task(self, number: int) -> list[tuple[Run, str]]:
        """The same of tasks."""
        return self.one_of([(run, run.task_id) for run in self.live(number) if run.task_id], number)

    def live(self, number: int) -> list[Run]:
        """Runs that have a lease in force; now and then all that ever were."""
        tables, now = self.tables(), self.clock.now_us()
        return [run for run in self.runs if number % 5 == 0 or may_act(tables, run, now)]

    def one_of(self, found: list[T], number: int) -> list[T]:
        return [found[number % len(found)]] if found else []

    def some_task(self, number: int) -> tuple[str, ...]:
        found = self.tables()["tasks"]
        return (found[number % len(found)]["id"],) if found and number % 2 else ()

    def tries(self, act: Coroutine[Any, Any, T]) -> T | None:
        """What came of it; None where it was refused, with an error that is the caller's own."""
        try:
            return self.wait(act)
        except SwarmError as error:
            if error.status >= 500:
                raise
            return None

    def call(
        self,
        run: Run,
        about: str,
        named: bool,
        text: str | None,
        act: Callable[[Caller, str], Coroutine[Any, Any, object]],
    ) -> None:
        """A tool call of a run: one that has lost its lease changes nothing; one that posts posts once."""
        by = Caller(agent=run.agent, lease_token=run.trigger.lease_token if named else None)
        before = self.tables()
        result = self.tries(act(by, about))
        if result is None:
            assert before.rows == self.tables().rows, "it was refused and has changed something"
            return
        assert not named or may_act(before, run, self.clock.now_us()), "a late run was heard"
        self.promised += [text] if text else []
        self.last_call = (lambda: act(by, about)) if named else self.last_call

    # The end

    def everybody_works_on(self) -> None:
        """Until nothing is left to do; then every message has ended visibly, and everything was posted once."""
        for _ in range(ROUNDS_TO_THE_END):
            self.one_more_round()
            if not unfinished(self.tables()) and not self.news_left():
                break
        tables = self.tables()
        self.truth.check(tables)
        assert not unfinished(tables), "this is never over"
        assert not self.news_left(), "this was never told"
        assert not [inbox_message for inbox_message in silent(tables) if not self.was_deleted(inbox_message)], (
            "of this nothing was seen"
        )
        self.everything_was_posted_once()

    def everything_was_posted_once(self) -> None:
        """But into threads whose root is deleted nothing is posted, and the delivery says so."""
        for _ in range(ROUNDS_TO_THE_END):
            self.wait(self.world.send())
        wanted = [row for row in self.tables()["deliveries"] if row["kind"] == "post"]
        assert {row["status"] for row in wanted if row["error"] is None} <= {"sent"}
        assert Counter(row["text"] for row in wanted if row["text"] in self.promised) == Counter(self.promised)
        sent = Counter(row["text"] for row in wanted if row["status"] == "sent")
        assert Counter(self.world.slack.posts) == sent

    def one_more_round(self) -> None:
        for row in self.tables()["tasks"]:
            if row["status"] == TaskStatus.DEAD:
                self.tries(self.world.services.tasks.redrive(row["id"]))
            if row["status"] in (TaskStatus.UNASSIGNED, TaskStatus.BLOCKED) and row["agent_id"] is None:
                self.tries(self.world.services.tasks.assign(None, row["id"], "c"))
        for root in filter(self.somebody_waits, self.roots):
            self.wait(self.world.says(f"{BOT} well?", thread=root))
        for agent in self.agents:
            self.wait(self.world.is_here(agent))
        self.clock.advance(LEASE_SECONDS)
        self.wait(self.world.sweep())
        for agent in self.agents:
            for trigger in self.wait(self.world.poll(agent)):
                self.does_its_work(Run(agent=agent, trigger=trigger))

    def does_its_work(self, run: Run) -> None:
        by, token = Caller(agent=run.agent, lease_token=run.trigger.lease_token), run.trigger.lease_token
        if run.trigger.kind is TriggerKind.TASK_ASSIGNED and run.task_id:
            self.tries(self.world.services.task_work.complete(by, run.task_id, "done", None))
        elif run.trigger.kind is TriggerKind.SLACK_INBOX_MESSAGE:
            for inbox_message in run.trigger.inbox_messages:
                self.tries(self.replies.reply(by, inbox_message.id, f"at last {next(self.said)}"))
            ended = self.world.services.work.finish(run.agent, [token], FinishOutcome.DISMISSED, "its thread is gone")
            self.tries(ended)  # a thread whose root is deleted takes no reply
        else:
            if run.trigger.kind is TriggerKind.TASK_OFFERED and run.task_id:
                self.tries(self.world.services.delegations.accept(by, run.task_id))
            self.tries(self.world.services.work.finish(run.agent, [token], FinishOutcome.DONE))

    def somebody_waits(self, root: SlackMessage) -> bool:
        tables = self.tables()
        here = {row["id"] for row in tables["threads"] if row["thread_ts"] == root.ts}
        rows = [*tables["inbox_messages"], *tables["tasks"]]
        return any(row["thread_id"] in here and row["status"] == "waiting" for row in rows)

    def news_left(self) -> list[Row]:
        here = {agent.id for agent in self.agents}
        return [
            row
            for row in self.tables()["notices"]
            if row["status"] in ("unread", "claimed") and row["agent_id"] in here
        ]

    def was_deleted(self, inbox_message: Row) -> bool:
        deleted = self.wait(self.world.rows("SELECT ts FROM thread_messages WHERE deleted_at IS NOT NULL"))
        return inbox_message["ts"] in {row["ts"] for row in deleted}


def may_act(tables: Tables, run: Run, now: int) -> bool:
    (lease,) = [row for row in tables["leases"] if row["token"] == run.trigger.lease_token]
    in_force = lease["ended_at"] is None and lease["expires_at"] > now
    return bool(in_force or lease["ended_as"] == LeaseEnd.RESOLVED)


@pytest.fixture(params=ENGINES)
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives a migrated database without a row, again and again."""
    if request.param == "sqlite":
        template, numbers = request.getfixturevalue("migrated_sqlite"), count()
        return lambda: f"sqlite:///{shutil.copyfile(template, tmp_path / f'{next(numbers)}.db')}"
    url: str = request.getfixturevalue("reused_postgres")

    return lambda: emptied(url)


@pytest.mark.long
@pytest.mark.req("LOOP-09", "LOOP-10", "LOOP-13", "LOOP-16")
def test_whatever_happens_in_whatever_order_nothing_is_lost_doubled_or_left_in_silence(
    fresh_url: Callable[[], str],
) -> None:
    class OnFreshDatabases(Swarm):
        def __init__(self) -> None:
            super().__init__(fresh_url())

    run_state_machine_as_test(
        OnFreshDatabases,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
