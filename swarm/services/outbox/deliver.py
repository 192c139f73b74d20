"""Sends deliveries: posts in order within a thread, threads side by side, each effect once.

A delivery is marked ``sending`` before the call and settled after it. Whoever finds one that stayed ``sending`` past
its time (the process died, the connection broke) doubts it: a post is looked up by its key before it is sent again,
everything else is repeated, since twice is the same as once.

Only the elected process sends (`swarm.services.outbox.elections`), for the sake of Slack's limits. Two that send at
once, when one was suspended and does not know yet that its term is over, keep the order and double nothing: a delivery
is taken by one of them, and one that comes to itself too late after taking it puts it back instead of calling Slack.
Between that look at the clock and the socket lie a few instructions that nothing can guard.

A post that fails for good leaves ❌ on the message that it was meant to answer.

Reactions share fifty calls a minute in a workspace. When these are scarce and many wait, ✅ and ❌ are sent before
👀, and no 👀 on a message whose end mark waits. To take one away is another method of Slack's with a limit of its own
(20 a minute), so those wait for themselves: none holds up a reaction of another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, assert_never

import structlog

from swarm.clock import SECOND
from swarm.domain.errors import NotFound, SwarmError, Unavailable
from swarm.domain.model.deliveries import (
    Answer,
    DeliveryAccepted,
    DeliveryKind,
    DeliveryRefused,
    DeliveryStatus,
    DeliveryStep,
    InDoubt,
    Mark,
    NotSent,
)
from swarm.domain.model.threads import Author, AuthorKind, SlackMessage
from swarm.domain.operating_policy import Reactions
from swarm.domain.ports import SlackSender
from swarm.services.outbox.elections import boottime
from swarm.store import deliveries, reactions, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import DELIVERIES
from swarm.store.inbox import inbox
from swarm.store.threads import threads, transcript

POST_LANES: Final = 500
"""The posts of so many threads are served side by side; most of their time they wait for Slack's limits."""

FEW_REACTIONS: Final = 10
"""So many wait in order for calls: after a start there are none at first, and the first messages get a 👀 as well."""

REACTIONS: Final = 100
"""So many reactions are on their way side by side, apart from posts: no answer waits behind a 👀."""

ATTEMPTS: Final = 60
"""A delivery has failed after so many calls, and looks for it, that left it in doubt. It takes about an hour."""

GIVE_UP_SECONDS: Final = 24 * 3600
"""A delivery that Slack certainly did not get is tried again for so long."""

_GONE: Final = frozenset(
    {"channel_not_found", "is_archived", "message_not_found", "not_in_channel", "thread_not_found"}
)
"""Refusals where there is no place left for a reaction either."""

_STALE_SECONDS: Final = 1.0  # a call that begins so long after its delivery was taken may meet the doubt about it
_UNCERTAIN_SECONDS: Final = 0.2
_LONGEST_SLEEP_SECONDS: Final = 1.0
_SHORTEST_SLEEP_SECONDS: Final = 0.005  # what comes at once is looked at together
_BACKOFF_SECONDS: Final = (1, 2, 5, 10, 30, 60)
_AS_SHOWN_BY_DEFAULT: Final = Reactions()

_Tasks = dict[str, asyncio.Task[None]]
Look = Callable[[Transaction, int], list[Row]]
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryLimits:
    """What holds for every delivery."""

    team: str
    in_flight_seconds: float  # so long after its start a call must be over
    reactions: Reactions


class OutboxSender:
    """The background task that empties the queue of deliveries.

    ``http_timeout_seconds`` is the gateway's, for one HTTP call; a delivery may take two. A delivery is doubted, and a
    post looked up, only when a call that may still be in flight must be over.
    """

    def __init__(
        self,
        database: Database,
        slack: SlackSender,
        team: str,
        *,
        http_timeout_seconds: float,
        reactions: Reactions = _AS_SHOWN_BY_DEFAULT,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._database = database
        self._slack = slack
        self._terms = DeliveryLimits(
            team=team, in_flight_seconds=2 * http_timeout_seconds + _STALE_SECONDS, reactions=reactions
        )
        self._clock = clock
        self._may_send: Callable[[], bool] = lambda: True
        self._is_certain: Callable[[], Awaitable[bool]] = _always
        self._lanes: _Tasks = {}  # of posts, by thread
        self._reactions: _Tasks = {}  # that are on their way, by delivery
        self._choosing: _Tasks = {}  # who starts them, if somebody does
        self._expire_at = 0.0
        self._rest_until = 0.0  # on the loop's clock, as the other

    async def run(
        self, may_send: Callable[[], bool] = lambda: True, is_certain: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Send until cancelled; a call that is under way then is allowed to end.

        None begins unless ``may_send()``, and unless that ``is_certain`` still: asked once for each delivery, before it
        is taken, by a process that may have slept since it asked the database.
        """
        self._may_send = may_send
        self._is_certain = is_certain or _always
        try:
            while True:
                seen = self._database.wakeups.generation(DELIVERIES)
                try:
                    await self._expire_late()
                    await self._open_lanes()
                except Unavailable:
                    _log.exception("deliveries cannot be read", action="deliver_read")
                    await asyncio.sleep(_LONGEST_SLEEP_SECONDS)
                await asyncio.sleep(_SHORTEST_SLEEP_SECONDS)
                await self._sleep(seen)
        finally:
            await self._close_lanes()

    async def send_due(self) -> None:
        """Send what is due now; returns when that is done."""
        await self._database.write(reactions.expire_late)
        while await self._open_lanes():
            await asyncio.gather(*self._lanes.values(), *self._choosing.values(), *self._reactions.values())

    async def _sleep(self, seen: int) -> None:
        """Until something has come, or a while. During a shutdown nobody is woken, and what comes is still sent."""
        if self._database.wakeups.closed:
            await asyncio.sleep(_LONGEST_SLEEP_SECONDS)
        else:
            await self._database.wakeups.wait(DELIVERIES, seen, _LONGEST_SLEEP_SECONDS)

    async def _open_lanes(self) -> bool:
        """Serve the threads in which a post is due, and the reactions; whether something may still become due."""
        ending = bool(self._lanes or self._choosing or self._reactions)  # perhaps only after the look
        threads_due, *marks = await self._database.read(lanes_due, POST_LANES, len(self._reactions) + 1)
        for thread_id in threads_due:
            if thread_id not in self._lanes and len(self._lanes) < POST_LANES:
                self._start(self._lanes, thread_id, self._serve(thread_id))
        for key, look, waiting in zip(
            ("reactions", "removals"), (reactions.due, reactions.removals), marks, strict=True
        ):
            if not (key in self._choosing or self._rests()) and any(mark not in self._reactions for mark in waiting):
                self._start(self._choosing, key, self._serve_reactions(look))
        return ending or bool(self._lanes or self._choosing)

    async def _expire_late(self) -> None:
        """Give up together, once a second, what is late: under a load far above Slack's limits, most reactions."""
        now = asyncio.get_running_loop().time()
        if now >= self._expire_at:
            self._expire_at = now + _LONGEST_SLEEP_SECONDS
            await self._database.write(reactions.expire_late)

    def _start(self, tasks: _Tasks, key: str, work: Coroutine[Any, Any, None]) -> None:
        tasks[key] = asyncio.create_task(work)
        tasks[key].add_done_callback(partial(self._ended, tasks, key))

    def _ended(self, tasks: _Tasks, key: str, task: asyncio.Task[None]) -> None:
        del tasks[key]
        if task.cancelled() or task.exception() is None:
            self._database.wakeups.bump([DELIVERIES])  # something may have come while the lane was closing
        else:  # the next look comes in its time: what failed once would only fail again at once
            _log.error("a delivery lane failed", action="deliver", lane=key, exc_info=task.exception())
            self._rest_until = asyncio.get_running_loop().time() + _LONGEST_SLEEP_SECONDS

    def _rests(self) -> bool:
        """No reaction is begun: one has failed inside, or as many as may be are on their way."""
        return len(self._reactions) >= REACTIONS or asyncio.get_running_loop().time() < self._rest_until

    async def _close_lanes(self) -> None:
        waiting = [*self._lanes.values(), *self._choosing.values()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*self._reactions.values(), return_exceptions=True)  # their calls have begun

    async def _serve(self, thread_id: str) -> None:
        """Send what is due in one thread, one after another."""
        while self._may_send() and (row := await self._database.read(deliveries.due_in_lane, thread_id)):
            await self._step(row)

    async def _serve_reactions(self, due: Look) -> None:
        """Start the reactions that are ``due``, in order as long as Slack's limits leave calls for them.

        When there is none, the wait for the next one comes before the choice: an end mark may come meanwhile.
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
        """As many as there is room for, without those that are on their way; none after one has failed inside."""
        rows = await self._database.read(look, REACTIONS)
        room = 0 if self._rests() else REACTIONS - len(self._reactions)
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
        await self._slack.ready(deliveries.delivery(row))
        call = asyncio.ensure_future(self._call(row["id"]))
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:
            await call  # a call that has begun is brought to its end, so that nobody has to doubt it
            raise

    async def _call(self, delivery_id: str) -> None:
        if not await self._is_certain():
            await asyncio.sleep(_UNCERTAIN_SECONDS)  # the term ends soon, or the database comes back
            return
        if not self._may_send():
            return
        taken_at = self._clock()
        row = await self._database.write(take, delivery_id, self._terms)
        if row is None:
            return
        if self._may_send() and self._clock() - taken_at < _STALE_SECONDS:
            await self._settle(row, await self._slack.deliver(deliveries.delivery(row)))
        else:
            await self._database.write(put_back, row)

    async def _look_up(self, row: Row) -> None:
        if row["kind"] != DeliveryKind.POST or row["person"]:  # Slack does not show what one person alone saw
            await self._database.write(resend, row)
            return
        said_at = await self._database.read(inbox.slack_ts, row["inbox_message_id"])
        try:
            found = await self._slack.find(replace(deliveries.delivery(row), answers_ts=said_at))
        except NotFound as refused:  # Slack will say no next time too
            await self._settle(row, DeliveryRefused(error=f"in doubt, and may not be looked up: {refused.message}"))
            return
        except SwarmError as error:
            _log.warning("a post could not be looked up", action="deliver_find", delivery=row["id"], error=str(error))
            await self._database.write(look_failed, row, error.message, self._terms)
            return
        if found:
            await self._settle(row, found)
        else:
            await self._database.write(resend, row)

    async def _settle(self, row: Row, answer: Answer) -> None:
        await self._database.write(settle, row, answer, self._terms)
        if isinstance(answer, DeliveryRefused | InDoubt | NotSent):
            _log.warning("Slack did not take a delivery", action="deliver", delivery=row["id"], answer=repr(answer))


async def _always() -> bool:
    return True


def lanes_due(tx: Transaction, posts: int, marks: int) -> tuple[list[str], list[str], list[str]]:
    """So many threads in which a post is due, and so many reactions that are to be given, and to be taken away."""
    given, taken = reactions.due(tx, marks), reactions.removals(tx, marks)
    return deliveries.lanes_due(tx, posts), [row["id"] for row in given], [row["id"] for row in taken]


def take(tx: Transaction, delivery_id: str, terms: DeliveryLimits) -> Row | None:
    """Mark a delivery as being sent; None if it is no longer to be sent."""
    row = deliveries.get(tx, delivery_id)
    if row is None or row["status"] != DeliveryStatus.QUEUED:
        return None
    if row["expires_at"] is not None and tx.now >= row["expires_at"]:
        deliveries.move(tx, DeliveryStep.EXPIRE, row, error="it could not leave in time")
        return None
    if _root_is_gone(tx, row):
        deliveries.move(tx, DeliveryStep.FAIL, row, error="the thread's first message was deleted")
        return None
    if row["updates_id"] and not _aim(tx, row):
        deliveries.move(tx, DeliveryStep.FAIL, row, error="the message that it changes was never posted")
        return None
    if row["attempts"] >= ATTEMPTS:
        give_up(tx, row, f"{row['error']}, {ATTEMPTS} times", terms)
        return None
    if not deliveries.move(tx, DeliveryStep.TAKE, row, due_in_seconds=terms.in_flight_seconds):
        return None
    reactions.overtaken(tx, row)
    return deliveries.get(tx, delivery_id)


def settle(tx: Transaction, row: Row, answer: Answer, terms: DeliveryLimits) -> None:
    """Write what came of a call."""
    match answer:
        case DeliveryAccepted():
            if deliveries.move(tx, DeliveryStep.CONFIRM, row, sent_ts=answer.ts):
                _remember(tx, row, answer, terms.team)
        case DeliveryRefused():
            give_up(tx, row, answer.error, terms)
        case NotSent():
            postpone(tx, row, answer, terms)
        case InDoubt():
            # A post in flight may still land, so the look comes only when it must be over.
            is_post = row["kind"] == DeliveryKind.POST
            doubt(tx, row, answer.reason, terms.in_flight_seconds if is_post else _backoff(row["attempts"]))
        case _:
            assert_never(answer)


def give_up(tx: Transaction, row: Row, reason: str, terms: DeliveryLimits) -> None:
    """A delivery has failed for good. Of a lost answer the thread is told by ❌, however late that can be shown."""
    if not deliveries.move(tx, DeliveryStep.FAIL, row, error=reason):
        return
    answers = row["inbox_message_id"] or _delegated(tx, row)
    if row["kind"] != DeliveryKind.POST or answers is None or reason in _GONE:
        return
    entry, thread = inbox.get(tx, answers), threads.get(tx, row["thread_id"])
    if entry and thread:
        if answered := terms.reactions.answered:
            reactions.take_back(tx, thread, entry.ts, answered, "its answer is lost")
        reactions.react(tx, thread, entry.ts, terms.reactions.failed, Mark.END, lasting=True)


def _delegated(tx: Transaction, row: Row) -> str | None:
    """The message that was delegated as the task of which a delivery says something."""
    task = tasks.get(tx, row["task_id"]) if row["task_id"] else None
    return task.inbox_message_id if task else None


def postpone(tx: Transaction, row: Row, answer: NotSent, terms: DeliveryLimits) -> None:
    """It was certainly not sent: try again, the more rarely the older it is, until it is too old."""
    age_seconds = (tx.now - row["created_at"]) / SECOND
    if age_seconds >= GIVE_UP_SECONDS:
        give_up(tx, row, f"{answer.reason}, for {GIVE_UP_SECONDS // 3600} hours", terms)
        return
    wait = max(answer.retry_after_seconds, min(age_seconds / 10, _BACKOFF_SECONDS[-1]))
    deliveries.move(tx, DeliveryStep.POSTPONE, row, due_in_seconds=wait, error=answer.reason)


def put_back(tx: Transaction, row: Row) -> None:
    """It was taken and certainly not sent, and whoever may send it should do so."""
    deliveries.move(tx, DeliveryStep.POSTPONE, row, error="its sender came to itself too late")
    tx.wake(DELIVERIES)


def look_failed(tx: Transaction, row: Row, reason: str, terms: DeliveryLimits) -> None:
    """Slack could not be asked whether it has a post: ask again later, but not for ever."""
    if row["attempts"] + 1 >= ATTEMPTS:
        give_up(tx, row, f"in doubt, and could not be looked up: {reason}", terms)
    else:
        deliveries.postpone_look(tx, row, _backoff(row["attempts"]))


def doubt(tx: Transaction, row: Row, reason: str, look_in_seconds: float) -> None:
    """Nobody knows whether Slack has it."""
    deliveries.move(tx, DeliveryStep.DOUBT, row, due_in_seconds=look_in_seconds, error=reason)


def resend(tx: Transaction, row: Row) -> None:
    """Slack does not have it, or may have it twice: try again."""
    deliveries.move(tx, DeliveryStep.RESEND, row, error=row["error"])


def _remember(tx: Transaction, row: Row, answer: DeliveryAccepted, team: str) -> None:
    """Own posts enter the transcript when they are sent: Slack does not tell us of them."""
    if row["kind"] == DeliveryKind.UPDATE and row["updates_id"] and not row["removes"]:
        transcript.store_own_edit(tx, team, row["channel"], row["target_ts"], row["text"])
    if row["kind"] != DeliveryKind.POST or answer.ts is None or row["person"]:
        return
    author = Author(id=row["agent_id"] or "swarm", kind=AuthorKind.AGENT, name=row["agent_name"] or "swarm")
    message = SlackMessage(
        channel=row["channel"], ts=answer.ts, thread_ts=row["thread_ts"], author=author, text=row["text"]
    )
    transcript.store_own_post(tx, team, message)


def _aim(tx: Transaction, row: Row) -> bool:
    """Point an update at the message that it changes, known only since that was posted; False if it never was."""
    posted = deliveries.get(tx, row["updates_id"])
    sent_ts = posted["sent_ts"] if posted else None
    return sent_ts is not None and deliveries.set_target(tx, row["id"], sent_ts)


def _root_is_gone(tx: Transaction, row: Row) -> bool:
    """Nothing is posted into a channel because its thread's root is gone."""
    thread = threads.get(tx, row["thread_id"])
    if row["kind"] != DeliveryKind.POST or thread is None:
        return False
    root = transcript.find(tx, thread.team, thread.channel, thread.thread_ts)
    return root is not None and root["deleted_at"] is not None


def _backoff(attempts: int) -> float:
    return _BACKOFF_SECONDS[min(attempts, len(_BACKOFF_SECONDS)) - 1]
