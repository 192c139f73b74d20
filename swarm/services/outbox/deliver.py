"""Sends deliveries: posts in order within a thread, threads in parallel, each effect once.

A delivery is marked ``sending`` before the call and settled afterwards. If a delivery stays ``sending`` past its time
(the process died, the connection broke), its outcome is unknown: a post is searched for by its key before the next
attempt; all other calls are idempotent and are repeated.

Only the elected process sends (`swarm.services.ground.locks`), because of Slack's limits. Two processes can send at
the same time if one was suspended and has not noticed the end of its term. Even then the order is kept and no effect is
duplicated: one process takes a delivery, and a process that resumes too late after taking a delivery puts it back
instead of calling Slack. The few instructions between this check of the clock and the socket cannot be guarded.

The card of a request waits for a limited time for the text that leads to it, which is streamed, and the text that
follows waits for the card (``around_card``), so that people read all in order.

While Slack refuses the app's token, everything waits: posts where they stand, and the marks of answers with them;
👀 and what one person sees expire. A refusal that somebody may mend (`patience_seconds`) makes a delivery wait, with
what stands behind it in its thread. A post that fails permanently leaves ❌ on the message that it answers, and the
author is told.

Reactions share fifty calls a minute in a workspace. When calls are scarce and many reactions wait, ✅ and ❌ are sent
before 👀, and a message with a waiting end mark gets no 👀. Slack limits the removal of reactions separately (20 a
minute), so removals are queued separately and do not delay reactions in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, assert_never

import structlog

from swarm.clock import SECOND, boottime, until_next
from swarm.domain.errors import RefusedBySlack, SwarmError, Unavailable
from swarm.domain.model.deliveries import (
    GIVE_UP_SECONDS,
    PLACE_CODES,
    Answer,
    DeliveryAccepted,
    DeliveryKind,
    DeliveryRefused,
    DeliveryStatus,
    DeliveryStep,
    InDoubt,
    Mark,
    NotSent,
    patience_seconds,
)
from swarm.domain.model.threads import Author, AuthorKind, SlackMessage
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import SlackSender
from swarm.services.speaking.system_messages import tell_lost, tell_lost_here
from swarm.store import deliveries, reactions, requests, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import DELIVERIES, REACTIONS, REMOVALS
from swarm.store.inbox import inbox
from swarm.store.threads import threads, transcript

POST_LANES: Final = 500  # threads whose posts are sent in parallel; most of the time they wait for Slack's limits
REACTION_CALLS: Final = 100  # parallel calls for reactions, apart from posts, so that no answer waits for a 👀
FEW_REACTIONS: Final = 10  # up to here they are sent in order: at startup the first messages should also get 👀
ATTEMPTS: Final = 60  # calls and lookups with unknown outcomes before a delivery fails, which take about an hour

_GONE: Final = PLACE_CODES | {"message_not_found", "thread_not_found"}
"""Refusals after which a reaction would fail too."""

_KEEP_SECONDS: Final = 30.0  # how often end marks are kept from expiring before the posts that they follow
_STALE_SECONDS: Final = 1.0  # a call that starts this long after its delivery was taken may overlap the check for doubt
_HELD_SECONDS: Final = 5.0  # the shortest pause before a refused delivery is tried again
_UNCERTAIN_SECONDS: Final = 0.2
_LONGEST_SLEEP_SECONDS: Final = 1.0
_SHORTEST_SLEEP_SECONDS: Final = 0.005  # deliveries that are due at nearly the same time are read together
_BACKOFF_SECONDS: Final = (1, 2, 5, 10, 30, 60)
_BY_DEFAULT: Final = OperatingPolicy()

_Tasks = dict[str, asyncio.Task[None]]
Look = Callable[[Transaction, int], list[Row]]
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryLimits:
    """The limits that apply to every delivery."""

    team: str
    in_flight_seconds: float  # the maximum duration of a call
    operating_policy: OperatingPolicy


class OutboxSender:
    """The background task that empties the queue of deliveries.

    ``http_timeout_seconds`` is the gateway's timeout for one HTTP call; a delivery may require two calls. A delivery
    counts as in doubt, and a post is searched for, only after every call in flight must have ended.
    """

    def __init__(
        self,
        database: Database,
        slack: SlackSender,
        team: str,
        *,
        http_timeout_seconds: float,
        operating_policy: OperatingPolicy = _BY_DEFAULT,
        around_card: Callable[[Row], AbstractAsyncContextManager[None]] | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._database = database
        self._slack = slack
        in_flight_seconds = 2 * http_timeout_seconds + _STALE_SECONDS
        self._terms = DeliveryLimits(team=team, in_flight_seconds=in_flight_seconds, operating_policy=operating_policy)
        self._around_card = around_card
        self._clock = clock
        self._may_send: Callable[[], bool] = lambda: True
        self._is_certain: Callable[[], Awaitable[bool]] | None = None
        self._lanes: _Tasks = {}  # posts, by thread
        self._reactions: _Tasks = {}  # in flight, by delivery
        self._choosing: _Tasks = {}  # the tasks that start reactions
        self._expire_at = self._rest_until = self._keep_at = 0.0  # in the event loop's clock

    async def run(
        self, may_send: Callable[[], bool] = lambda: True, is_certain: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Sends until cancelled; a call in progress may finish.

        A delivery starts only if ``may_send()`` is true. Before a delivery is taken, ``is_certain`` is called once,
        because the process may have slept since its last database query.
        """
        self._may_send, self._is_certain = may_send, is_certain
        try:
            async with asyncio.TaskGroup() as looks:
                looks.create_task(self._watch(DELIVERIES, self._open_lanes))
                looks.create_task(self._watch(REACTIONS, self._open_reactions))
                looks.create_task(self._watch(REMOVALS, self._open_removals))
        finally:
            serving = [*self._lanes.values(), *self._choosing.values()]
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            await asyncio.gather(*self._reactions.values(), return_exceptions=True)  # their calls have started

    async def send_due(self) -> None:
        """Sends all deliveries that are due, then returns."""
        await self._keep(asyncio.get_running_loop().time())
        await self._database.write(reactions.expire_late)
        more = True
        while more:
            more = await self._open_reactions() | await self._open_removals()
            begun = [*self._choosing.values(), *self._reactions.values()]  # they may end during the next look
            more |= await self._open_lanes()
            await asyncio.gather(*begun, *self._lanes.values(), *self._choosing.values(), *self._reactions.values())

    async def _watch(self, topic: str, look: Callable[[], Awaitable[object]]) -> None:
        """Looks for due deliveries whenever the topic is bumped, and at least once a second.

        A shutdown wakes no waiters; new deliveries are still sent.
        """
        wakeups = self._database.wakeups
        is_woken = True
        while True:
            seen = wakeups.generation(topic)
            try:
                await look()
            except Unavailable:
                _log.exception("deliveries cannot be read", action="deliver_read")
                await asyncio.sleep(_LONGEST_SLEEP_SECONDS)
            if wakeups.closed:
                await asyncio.sleep(_LONGEST_SLEEP_SECONDS)
            elif is_woken:
                await asyncio.sleep(_SHORTEST_SLEEP_SECONDS)
            is_woken = await wakeups.wait(topic, seen, until_next(_LONGEST_SLEEP_SECONDS))

    async def _open_lanes(self) -> bool:
        """Serves the threads with due posts. Returns whether more posts may become due."""
        ending = bool(self._lanes)  # they may end after the check
        for thread_id in await self._database.read(deliveries.lanes_due, POST_LANES):
            if thread_id not in self._lanes and len(self._lanes) < POST_LANES:
                self._start(self._lanes, thread_id, self._serve(thread_id))
        return ending or bool(self._lanes)

    async def _open_reactions(self) -> bool:
        """Starts the choice of due reactions unless it is in progress. Returns whether more may become due.

        Late reactions expire together, once a second. Far above Slack's limits, these are most reactions.
        """
        ending = bool(self._choosing or self._reactions)  # they may end during the look
        now = asyncio.get_running_loop().time()
        await self._keep(now)
        limit = self._limit_of_look(REACTIONS)
        waiting: list[Row] = []
        if now >= self._expire_at or limit:
            is_late, waiting = await self._database.read(self._look_at_reactions, limit)
            if is_late and now >= self._expire_at:
                self._expire_at = now + _LONGEST_SLEEP_SECONDS
                await self._database.write(reactions.expire_late)
        return self._choose(REACTIONS, reactions.due, waiting) or ending

    @staticmethod
    def _look_at_reactions(tx: Transaction, limit: int) -> tuple[bool, list[Row]]:
        """Returns whether any reaction is late, and the due reactions."""
        return reactions.is_any_late(tx), reactions.due(tx, limit) if limit else []

    async def _keep(self, now: float) -> None:
        """Keeps the marks of answers from expiring before the answers are posted."""
        if now >= self._keep_at:
            self._keep_at = now + _KEEP_SECONDS
            await self._database.write(self._renew_marks, self._slack.refused_by)

    @staticmethod
    def _renew_marks(tx: Transaction, code: str | None) -> None:
        reactions.renew_ends(tx, are_all=code is not None)
        if code:
            deliveries.note_hold(tx, code)

    async def _open_removals(self) -> bool:
        """Like `_open_reactions`, for removals of reactions."""
        ending = bool(self._choosing or self._reactions)
        limit = self._limit_of_look(REMOVALS)
        waiting = await self._database.read(reactions.removals, limit) if limit else []
        return self._choose(REMOVALS, reactions.removals, waiting) or ending

    def _limit_of_look(self, name: str) -> int:
        """Returns how many due rows show whether one is not in flight yet; 0 if none may start."""
        return 0 if name in self._choosing or self._rests() else len(self._reactions) + 1

    def _choose(self, name: str, look: Look, waiting: list[Row]) -> bool:
        """Starts the choice if a waiting reaction is not in flight. Returns whether it did."""
        is_new = any(row["id"] not in self._reactions for row in waiting)
        if starts := is_new and name not in self._choosing and not self._rests():
            self._start(self._choosing, name, self._serve_reactions(look))
        return starts

    def _start(self, tasks: _Tasks, key: str, work: Coroutine[Any, Any, None]) -> None:
        tasks[key] = asyncio.create_task(work)
        tasks[key].add_done_callback(partial(self._ended, tasks, key))

    def _ended(self, tasks: _Tasks, key: str, task: asyncio.Task[None]) -> None:
        del tasks[key]
        if task.cancelled() or task.exception() is None:
            # New deliveries may have arrived while the lane was closing, and reactions wait for the posts before them.
            self._database.wakeups.bump([*([DELIVERIES] if tasks is self._lanes else []), REACTIONS, REMOVALS])
        else:  # the next lookup follows later, because an immediate retry would fail again
            _log.error("a delivery lane failed", action="deliver", lane=key, exc_info=task.exception())
            self._rest_until = asyncio.get_running_loop().time() + _LONGEST_SLEEP_SECONDS

    def _rests(self) -> bool:
        """Whether no reaction may start: a reaction failed internally, or the limit of parallel calls is reached."""
        return len(self._reactions) >= REACTION_CALLS or asyncio.get_running_loop().time() < self._rest_until

    async def _serve(self, thread_id: str) -> None:
        """Sends the due posts of one thread, one after another."""
        while self._may_send() and (row := await self._database.read(deliveries.due_in_lane, thread_id)):
            await self._step(row)

    async def _serve_reactions(self, due: Look) -> None:
        """Starts the ``due`` reactions, in order while Slack's limits leave calls for them.

        If no calls are left, the wait comes before the choice of the next reaction, because an end mark may arrive in
        the meantime.
        """
        while self._may_send() and (rows := await self._reactions_due(due)):
            for row in rows:
                if row["status"] != DeliveryStatus.QUEUED:
                    self._start(self._reactions, row["id"], self._step(row))
                elif self._slack.expected_wait_seconds(delivery := deliveries.delivery(row)) <= 0:
                    await self._slack.ready(delivery)
                    self._start(self._reactions, row["id"], self._call(row["id"]))
                else:
                    await self._slack.ready(delivery)
                    look = reactions.most_urgent if len(rows) > FEW_REACTIONS and due is reactions.due else due
                    for chosen in (await self._reactions_due(look))[:1]:
                        self._start(self._reactions, chosen["id"], self._call(chosen["id"]))
                    break

    async def _reactions_due(self, look: Look) -> list[Row]:
        """Returns the due reactions that fit, except those in flight; none after an internal failure."""
        rows = await self._database.read(look, REACTION_CALLS)
        room = 0 if self._rests() else REACTION_CALLS - len(self._reactions)
        return [row for row in rows if row["id"] not in self._reactions][:room]

    async def _step(self, row: Row) -> None:
        match DeliveryStatus(row["status"]):
            case DeliveryStatus.QUEUED:
                await self._send(row)
            case DeliveryStatus.SENDING:
                await self._database.write(doubt, row, "the process that sent it fell silent", 0.0)
            case DeliveryStatus.UNKNOWN:
                await self._look_up(row)
            case DeliveryStatus.SENT | DeliveryStatus.FAILED | DeliveryStatus.EXPIRED:
                raise AssertionError(f"delivery {row['id']} is over but was found due")

    async def _send(self, row: Row) -> None:
        is_card = row["request_id"] and row["kind"] == DeliveryKind.POST and row["thread_ts"] is not None
        async with self._around_card(row) if is_card and self._around_card else contextlib.nullcontext():
            await self._slack.ready(deliveries.delivery(row))
            call = asyncio.ensure_future(self._call(row["id"]))
            try:
                await asyncio.shield(call)
            except asyncio.CancelledError:
                await call  # a call in progress finishes, so that its outcome is known
                raise

    async def _call(self, delivery_id: str) -> None:
        if self._is_certain and not await self._is_certain():
            await asyncio.sleep(_UNCERTAIN_SECONDS)  # the term ends soon, or the database returns
        elif self._may_send():
            taken_at = self._clock()
            row = await self._database.write(take, delivery_id, self._terms)
            if row and self._may_send() and self._clock() - taken_at < _STALE_SECONDS:
                await self._settle(row, await self._slack.deliver(deliveries.delivery(row)))
            elif row:
                await self._database.write(self._put_back, row)

    @staticmethod
    def _put_back(tx: Transaction, row: Row) -> None:
        """Requeues a delivery that was taken but certainly not sent, so that any process that may send can take it."""
        deliveries.move(tx, DeliveryStep.POSTPONE, row, error="its sender resumed too late")
        tx.wake(deliveries.topic(DeliveryKind(row["kind"]), removes=bool(row["removes"])))

    async def _look_up(self, row: Row) -> None:
        found: Answer | None = None
        await self._slack.token_accepted()
        try:
            if row["kind"] == DeliveryKind.POST and not row["person"]:  # Slack's history has no ephemeral messages
                said_at = await self._database.read(inbox.slack_ts, row["inbox_message_id"])
                found = await self._slack.find(replace(deliveries.delivery(row), answers_ts=said_at))
        except RefusedBySlack as refused:
            await self._database.write(self._look_refused, row, refused.slack_code)
            return
        except SwarmError as error:
            _log.warning("a post could not be looked up", action="deliver_find", delivery=row["id"], error=str(error))
            await self._database.write(self._look_failed, row, error.message)
            return
        if found:
            await self._settle(row, found)
        else:
            await self._database.write(resend, row)

    def _look_refused(self, tx: Transaction, row: Row, code: str) -> None:
        """Postpones a lookup that Slack refuses as it would refuse the post, or fails the post."""
        wait = _hold(tx, row, code)
        if wait is None:
            _give_up(tx, row, f"in doubt, and may not be looked up: Slack answers {code}.", self._terms)
        else:
            deliveries.postpone_look(tx, row, wait, counts=False)

    def _look_failed(self, tx: Transaction, row: Row, reason: str) -> None:
        """Postpones a lookup that Slack did not answer, up to the limit of attempts."""
        if row["attempts"] + 1 >= ATTEMPTS:
            _give_up(tx, row, f"in doubt, and could not be looked up: {reason}", self._terms)
        else:
            deliveries.postpone_look(tx, row, _backoff(row["attempts"]))

    async def _settle(self, row: Row, answer: Answer) -> None:
        await self._database.write(settle, row, answer, self._terms)
        if isinstance(answer, DeliveryRefused | InDoubt | NotSent):
            _log.warning("Slack did not accept a delivery", action="deliver", delivery=row["id"], answer=repr(answer))


def take(tx: Transaction, delivery_id: str, terms: DeliveryLimits) -> Row | None:
    """Marks a delivery as ``sending``. Returns None if the delivery must no longer be sent."""
    row = deliveries.get(tx, delivery_id)
    if row is None or row["status"] != DeliveryStatus.QUEUED:
        return None
    if row["expires_at"] is not None and tx.now >= row["expires_at"]:
        deliveries.move(tx, DeliveryStep.EXPIRE, row, error="it could not be sent in time")
    elif _root_is_gone(tx, row):
        deliveries.move(tx, DeliveryStep.FAIL, row, error="the thread's first message was deleted")
    elif row["updates_id"] and not _aim(tx, row):
        deliveries.move(tx, DeliveryStep.FAIL, row, error="the message that it changes was never posted")
    elif row["attempts"] >= ATTEMPTS:
        _give_up(tx, row, f"{row['error']}, {ATTEMPTS} times", terms)
    elif deliveries.move(tx, DeliveryStep.TAKE, row, due_in_seconds=terms.in_flight_seconds):
        reactions.overtaken(tx, row)
        taken = deliveries.get(tx, delivery_id)
        if taken and taken["request_id"]:  # a card shows what its request is now
            if row["kind"] == DeliveryKind.POST:
                requests.begin_to_expire(tx, row["request_id"])
            thread = threads.get(tx, taken["thread_id"])
            asked_in = (thread.channel, thread.thread_ts) if thread and thread.channel != taken["channel"] else None
            return {**taken, "request": requests.get(tx, taken["request_id"]), "asked_in": asked_in}
        return taken
    return None


def settle(tx: Transaction, row: Row, answer: Answer, terms: DeliveryLimits) -> None:
    """Records the result of a call."""
    match answer:
        case DeliveryAccepted():
            if deliveries.move(tx, DeliveryStep.CONFIRM, row, sent_ts=answer.ts, channel=answer.channel):
                _remember(tx, row, answer, terms.team)
        case DeliveryRefused():
            _refused(tx, row, answer.error, terms)
        case NotSent():
            _postpone(tx, row, answer, terms)
        case InDoubt():
            # A post in flight may still arrive, so the lookup waits until the call must have ended.
            is_post = row["kind"] == DeliveryKind.POST
            doubt(tx, row, answer.reason, terms.in_flight_seconds if is_post else _backoff(row["attempts"]))
        case _:
            assert_never(answer)


def _refused(tx: Transaction, row: Row, code: str, terms: DeliveryLimits) -> None:
    """Retries a delivery as long as somebody may mend the reason for which Slack refuses it, then fails it."""
    wait = _hold(tx, row, code)
    if wait is None:
        _give_up(tx, row, code, terms)
    else:
        deliveries.move(tx, DeliveryStep.POSTPONE, row, due_in_seconds=wait, error=code)


def _hold(tx: Transaction, row: Row, code: str) -> float | None:
    """Returns the pause before the next attempt of a refused delivery; None if it waits no longer."""
    thread = threads.get(tx, row["thread_id"])
    is_elsewhere = thread is None or row["channel"] != thread.channel
    patience = patience_seconds(DeliveryKind(row["kind"]), code, is_elsewhere=is_elsewhere)
    age_seconds = (tx.now - (row["held_since"] or tx.now)) / SECOND
    if age_seconds >= patience:
        return None
    deliveries.hold(tx, row)
    reactions.renew_ends(tx, are_all=False)
    return min(max(_HELD_SECONDS, age_seconds / 10), _BACKOFF_SECONDS[-1], patience - age_seconds)


def _give_up(tx: Transaction, row: Row, reason: str, terms: DeliveryLimits) -> None:
    """Fails a delivery permanently. A lost answer is marked with ❌, if need be later, and the person who has asked is
    told.
    """
    if not deliveries.move(tx, DeliveryStep.FAIL, row, error=reason):
        return
    task = tasks.get(tx, row["task_id"]) if row["task_id"] else None
    answers = row["inbox_message_id"] or (task.inbox_message_id if task else None)  # or the message that was delegated
    thread = threads.get(tx, row["thread_id"])
    if thread:
        tell_lost_here(tx, thread, row)
    if row["kind"] != DeliveryKind.POST or row["person"] or answers is None or thread is None:
        return
    inbox_message = inbox.get(tx, answers)
    if inbox_message is None:
        return
    tell_lost(tx, thread, inbox_message, reason)
    if reason not in _GONE:
        if answered := terms.operating_policy.reactions.answered:
            reactions.take_back(tx, thread, inbox_message.ts, answered, "its answer is lost")
        reactions.react(tx, thread, inbox_message.ts, terms.operating_policy.reactions.failed, Mark.END, lasting=True)


def _postpone(tx: Transaction, row: Row, answer: NotSent, terms: DeliveryLimits) -> None:
    """Retries a delivery that was certainly not sent, less often with increasing age, until its time has run out."""
    age_seconds = (tx.now - row["created_at"]) / SECOND
    if age_seconds >= GIVE_UP_SECONDS:
        _give_up(tx, row, f"{answer.reason}, for {GIVE_UP_SECONDS // 3600} hours", terms)
    else:
        wait = max(answer.retry_after_seconds, min(age_seconds / 10, _BACKOFF_SECONDS[-1]))
        deliveries.move(tx, DeliveryStep.POSTPONE, row, due_in_seconds=wait, error=answer.reason)


def doubt(tx: Transaction, row: Row, reason: str, look_in_seconds: float) -> None:
    """Marks a delivery as in doubt, because its outcome is unknown."""
    deliveries.move(tx, DeliveryStep.DOUBT, row, due_in_seconds=look_in_seconds, error=reason)


def resend(tx: Transaction, row: Row) -> None:
    """Requeues a delivery after the lookup found nothing, or if a second call does no harm."""
    deliveries.move(tx, DeliveryStep.RESEND, row, error=row["error"])


def _remember(tx: Transaction, row: Row, answer: DeliveryAccepted, team: str) -> None:
    """Adds a sent post to the transcript, because Slack sends no event for the swarm's own posts."""
    if row["kind"] == DeliveryKind.UPDATE and row["updates_id"] and not row["removes"]:
        transcript.store_own_edit(tx, team, row["channel"], row["target_ts"], row["text"])
    is_direct = row["request_id"] and row["thread_ts"] is None  # a card for one person is no part of the thread
    if row["kind"] == DeliveryKind.POST and answer.ts and not row["person"] and not is_direct:
        author = Author(id=row["agent_id"] or "swarm", kind=AuthorKind.AGENT, name=row["agent_name"] or "swarm")
        place = {"channel": row["channel"], "ts": answer.ts, "thread_ts": row["thread_ts"]}
        transcript.store_own_post(tx, team, SlackMessage(**place, author=author, text=row["text"]))


def _aim(tx: Transaction, row: Row) -> bool:
    """Sets the target of an update, whose timestamp is known only after posting. Returns False if never posted."""
    posted = deliveries.get(tx, row["updates_id"])
    return bool(
        posted and posted["sent_ts"] and deliveries.set_target(tx, row["id"], posted["sent_ts"], posted["channel"])
    )


def _root_is_gone(tx: Transaction, row: Row) -> bool:
    """Whether the thread's root was deleted; a reply would then appear in the channel."""
    thread = threads.get(tx, row["thread_id"]) if row["kind"] == DeliveryKind.POST else None
    root = transcript.find(tx, thread.team, thread.channel, thread.thread_ts) if thread else None
    return root is not None and root["deleted_at"] is not None


def _backoff(attempts: int) -> float:
    return _BACKOFF_SECONDS[min(attempts, len(_BACKOFF_SECONDS)) - 1]
