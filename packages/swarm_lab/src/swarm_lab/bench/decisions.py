"""``swarm bench decisions``: measures people's decisions, from the click to the changed card and to the agent.

A polling agent asks one request per message with `request-human-input`: approvals, and forms with more fields than a
card has room for. People then press buttons at a steady rate: *Approve*, or the button that opens the form, and *Send*
in the form. Each part decides its own requests; the second part is measured while messages for another agent arrive.

Times of clicks, acknowledgements, opened forms and changed cards are taken in the twin, which runs in this process. A
card counts as changed, and a form as opened, when the twin has carried out the call. A decision counts as received when
the agent has read the poll that contains it. Slack's rate limits are off (except with ``--paced``); otherwise they
would determine the result, because Slack allows 50 changes of messages per minute. Without them, also every reaction to
the other messages is sent, about two calls per message.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from slack_twin.changes import Change, MessageChanged, MessagePosted
from slack_twin.surfaces import AppView

from swarm_lab.bench.agents import Agent, Json, Line, Part, dismiss, names, playing
from swarm_lab.bench.figures import BenchError, Figure, Lag, Say, largest, own_lag, percentile, spread
from swarm_lab.bench.plans import DecisionsPlan
from swarm_lab.bench.slack import Slack, steadily
from swarm_lab.bench.stage import UNPACED, Cluster, Window, stage

APPROVE: Final = "request_decide:approve"
FORM: Final = "request_form"

_FIELDS: Final[list[Json]] = [
    {"name": "branch", "type": "text", "required": True},
    {"name": "notes", "type": "textarea"},
    {"name": "part", "type": "select", "options": [{"value": "code"}, {"value": "tests"}], "required": True},
    {"name": "copies", "type": "integer"},
    {"name": "where", "type": "url"},
    {"name": "urgent", "type": "boolean"},
]
_ENTERED: Final = {"field:branch": "main", "field:notes": "after the tests", "field:part": "code", "field:copies": "3"}
_MORE_PEOPLE: Final = 20  # a person has at most one modal, so several fill in forms
_HANDS: Final = 8
"""The number of polls of each agent."""

_IN_FLIGHT: Final = 8
"""The number of questions at a time before the measurement."""

_WARM: Final = 10
"""The number of decisions before the first part, after which everything is loaded and known."""

_CARD_SECONDS: Final = 60.0
_EFFECT_SECONDS: Final = 30.0
"""The time after which a card that has not changed, or a decision that has not arrived, counts as lost."""


@dataclass(eq=False, kw_only=True, slots=True)
class _Card:
    """A request and everything that happens to it, with times from `time.perf_counter`; None: not yet."""

    number: int
    person: int
    is_form: bool
    channel: str = ""
    ts: str = ""
    view_id: str = ""
    clicked_at: float = 0.0  # the button in the message
    acked_at: float | None = None
    opened_at: float | None = None
    decided_at: float = 0.0  # the click that decides: the same, or that of the form's button
    sent_at: float | None = None  # the acknowledgement of the form
    shown_at: float | None = None
    told_at: float | None = None
    errors: list[str] = field(default_factory=list)
    posted: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """Reports the card as done once it has changed and its agent has the decision."""
        if self.shown_at and self.told_at:
            self.done.set()


class _Cards:
    """All requests by their names, and their cards in Slack."""

    def __init__(self, slack: Slack, plan: DecisionsPlan, asker: str) -> None:
        self._slack = slack
        self._plan = plan
        self._asker = asker
        self._named: dict[str, _Card] = {}
        self._placed: dict[str, _Card] = {}
        self._filling: dict[str, _Card] = {}  # by the id of the person who opens a form
        slack.listen(self._on_change, self._on_view)

    def __getitem__(self, name: str) -> _Card:
        return self._named[name]

    async def asked(self, count: int) -> list[_Card]:
        """Has the agent ask this many requests. Returns them once all cards are posted."""
        first = len(self._named)
        cards = [self._new(first + number) for number in range(count)]
        left = iter(cards)
        await asyncio.gather(*(self._ask(left) for _ in range(_IN_FLIGHT)))
        return cards

    def _new(self, number: int) -> _Card:
        every = self._plan.form_every
        is_form = bool(every) and number % every == every - 1
        card = _Card(number=number, person=number % len(self._slack.people), is_form=is_form)
        self._named[f"m{number}"] = card
        return card

    async def _ask(self, cards: Iterator[_Card]) -> None:
        for card in cards:
            self._slack.say(f"{self._slack.addressed(self._asker)} at m{card.number}", person=card.person)
            try:
                async with asyncio.timeout(_CARD_SECONDS):
                    await card.posted.wait()
            except TimeoutError as error:
                raise BenchError(f"m{card.number} got no card within {_CARD_SECONDS:g} s") from error

    def _on_change(self, change: Change) -> None:
        match change:
            case MessagePosted() if change.message.app_id:
                for name in names(change.message.text):
                    card = self._named[name]
                    card.channel, card.ts = change.channel.id, change.message.ts
                    self._placed[card.ts] = card
                    card.posted.set()
            case MessageChanged() if (shown := self._placed.get(change.message.ts)) and not shown.shown_at:
                shown.shown_at = time.perf_counter()
                shown.look()

    def _on_view(self, view: AppView) -> None:
        card = self._filling.get(view.user_id)
        if card and not card.opened_at:
            card.opened_at, card.view_id = time.perf_counter(), view.id

    async def decide(self, card: _Card) -> float:
        """Decides, and waits for the effects. Returns the seconds until then."""
        error = await (self._fill_in(card) if card.is_form else self._click(card, APPROVE))
        if error:
            card.errors.append(error)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EFFECT_SECONDS):
                    await card.done.wait()
        return time.perf_counter() - card.clicked_at

    async def _click(self, card: _Card, action_id: str) -> str | None:
        card.clicked_at = card.decided_at = time.perf_counter()
        error = await self._slack.press(card.person, card.channel, card.ts, action_id)
        card.acked_at = time.perf_counter()
        return error

    async def _fill_in(self, card: _Card) -> str | None:
        """Opens the form, fills it in and sends it. Returns the error, if any."""
        person = self._slack.people[card.person].id
        if person in self._filling:
            return "the person had another form open"
        self._filling[person] = card
        try:
            if error := await self._click(card, FORM):
                return error
            await asyncio.sleep(self._plan.fill_seconds)
            if not card.opened_at:
                return "the form was not opened"
            card.decided_at = time.perf_counter()
            error = await self._slack.submit(card.person, card.view_id, _ENTERED)
            card.sent_at = time.perf_counter()
            return error
        finally:
            del self._filling[person]


class _Asker(Agent):
    """The agent: it asks about each new message, and finishes the work when the decision comes."""

    def __init__(self, part: Part, cards: _Cards) -> None:
        super().__init__(part)
        self._cards = cards

    async def _handle(self, line: Line, trigger: Json) -> None:
        at, lease = time.perf_counter(), trigger["lease"]["token"]
        for request in trigger["requests"]:
            (name,) = names(request["title"])
            card = self._cards[name]
            card.told_at = card.told_at or at
            card.look()
        if not trigger["requests"]:
            for entry in trigger["inbox_messages"]:
                await self._ask(line, lease, entry)
            return
        ended = {"outcome": "done"} if trigger["notice"] else {"outcome": "dismissed", "reason": "measured"}
        await line.call("POST", "/leases/finish", {"tokens": [lease], **ended})

    async def _ask(self, line: Line, lease: str, entry: Json) -> None:
        (name,) = names(entry["text"])
        asked = {"inbox_message_id": entry["id"], "title": f"May I {name}?", "prompt": f"Release {name} is ready."}
        if self._cards[name].is_form:
            asked |= {"fields": _FIELDS, "decisions": ["answer", "reject"]}
        else:
            asked |= {"tool": {"name": "git_push", "arguments": {"branch": "main", "force": False}}}
        await line.tool("request-human-input", lease, asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measured:
    """One part of the measurement."""

    name: str
    cards: Sequence[_Card]
    events: Sequence[float]  # seconds from each other event to its acknowledgement
    lag: Lag
    own_lag: Sequence[float]
    window: Window


async def measure(plan: DecisionsPlan, say: Say) -> list[Figure]:
    """Measures decisions alone, then beside other events. Raises BenchError on failure."""
    rates = [0, plan.events_per_second] if plan.events_per_second else [0]
    found = list[Figure]()
    async with _bench(plan) as bench:
        for card in await bench.cards.asked(_WARM):
            await bench.cards.decide(card)
        for rate in rates:
            say(f"{plan.count} requests are asked")
            asked = await bench.cards.asked(plan.count)
            await bench.processes.settled()
            name = f"{plan.per_second:g}/s" + (f" beside {rate} events/s" if rate else "")
            say(f"{plan.count} decisions, {name}")
            found += _figures(await bench.part(name, asked, rate))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    plan: DecisionsPlan
    slack: Slack
    processes: Cluster
    cards: _Cards
    reader: str  # the name of the agent that gets the other events

    async def part(self, name: str, asked: Sequence[_Card], rate: int) -> _Measured:
        """Decides on these requests while ``rate`` other events per second arrive."""
        seconds, per_second = len(asked) / self.plan.per_second, self.plan.per_second
        async with self.processes.window() as window, own_lag() as late:
            before = await self.processes.lag()
            others = asyncio.create_task(steadily(self._event, seconds, rate))
            # Half a decision more, so that rounding leaves none out.
            await steadily(lambda number: self.cards.decide(asked[number]), seconds + 0.5 / per_second, per_second)
            lag = (await self.processes.lag()).since(before)
            events = await others
        return _Measured(name=name, cards=asked, events=events, lag=lag, own_lag=late, window=window)

    async def _event(self, _: int) -> float:
        return await self.slack.send(self.slack.addressed(self.reader))


@asynccontextmanager
async def _bench(plan: DecisionsPlan) -> AsyncIterator[_Bench]:
    """Starts all participants, and registers the agent that asks and the one that gets the other events."""
    settings = {} if plan.paced else UNPACED
    async with stage(plan, settings, more_people=_MORE_PEOPLE) as (slack, processes):
        (asker,), (reader,) = await processes.register(1, prefix="asker"), await processes.register(1, prefix="reader")
        cards = _Cards(slack, plan, asker.name)
        asking = _Asker(replace(asker, hands=_HANDS), cards).play()
        async with playing(asking, *(dismiss(reader) for _ in range(_HANDS))):
            await slack.send_to_each_channel(reader.name)
            yield _Bench(plan=plan, slack=slack, processes=processes, cards=cards, reader=reader.name)


def _figures(part: _Measured) -> list[Figure]:
    operations = 0 if part.events else len(part.cards)  # other events cost processor time, too
    return part.window.beside([*_times(part), *_faults(part), *_process(part)], operations)


def _times(part: _Measured) -> Iterator[Figure]:
    cards = part.cards
    shown = [card.shown_at - card.decided_at for card in cards if card.shown_at]
    told = [card.told_at - card.decided_at for card in cards if card.told_at]
    opened = [card.opened_at - card.clicked_at for card in cards if card.opened_at]
    acked = [card.acked_at - card.clicked_at for card in cards if card.acked_at and not card.is_form]
    sent = [card.sent_at - card.decided_at for card in cards if card.sent_at]
    for what, seconds, p99, most in (
        ("click → card changed", shown, 300.0, None),
        ("click → form opened", opened, None, 1_000.0),
        ("click → acknowledged", acked, None, None),
        ("form sent → acknowledged", sent, None, None),
        ("click → agent has the decision", told, None, None),
        ("other events, received → acked", part.events, None, None),
    ):
        if seconds:
            yield from spread(part.name, what, seconds, p99=p99)
            yield largest(part.name, what, seconds, most)


def _faults(part: _Measured) -> Iterator[Figure]:
    figure = partial(Figure, part.name, unit="", target=0)
    yield figure("clicks refused", sum(bool(card.errors) for card in part.cards))
    for error in sorted({error for card in part.cards for error in card.errors}):
        yield Figure(part.name, f"of these: {error}", sum(error in card.errors for card in part.cards), "")
    yield figure("cards not changed", sum(not card.shown_at for card in part.cards))
    yield figure("decisions not received by the agent", sum(not card.told_at for card in part.cards))


def _process(part: _Measured) -> Iterator[Figure]:
    figure = partial(Figure, part.name)
    yield figure("event loop lag, p50", 1_000 * part.lag.percentile(0.5), "ms")
    yield figure("event loop lag, p99", 1_000 * part.lag.percentile(0.99), "ms", target=20.0)
    yield figure("the same for the measuring process, p99", 1_000 * percentile(part.own_lag, 0.99), "ms")
    yield figure("processor time of the coordinators", 100 * part.window.cpu_seconds / part.window.seconds, "%")
