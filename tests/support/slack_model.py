"""A model of Slack for the reducer alone: streams, their limits, and faults at will. Time is simulated."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

import orjson

from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AcquireSlot,
    AppendStream,
    Card,
    Chunk,
    CloseStream,
    Closing,
    Find,
    HangUp,
    OpenStream,
    Over,
    PlanTitle,
    PostPage,
    SetStatus,
    Slot,
    StreamCall,
    Text,
    UpdatePage,
)
from swarm.domain.answers.events import AgentEvent
from swarm.domain.answers.reducer import (
    AgentEventReceived,
    BreakPassed,
    GrowForAll,
    Input,
    PageLocated,
    SealRequested,
    SlackAnswered,
    SlotGranted,
    StopRequested,
    Tick,
    begin,
    step,
)
from swarm.domain.answers.sending import wake_at
from swarm.domain.answers.state import Live, PageMode
from swarm.domain.model.deliveries import Answer, DeliveryAccepted, DeliveryRefused, InDoubt, NotSent

MAX_BYTES = 10_500
LIFETIME_SECONDS = 300.0


@dataclass
class Message:
    """One message of the answer as Slack has it."""

    ts: str
    mode: PageMode
    text: str = ""
    cards: dict[str, Card] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # what people see from top to bottom: text, and ids of cards
    plan_title: str = ""
    closing: Closing = NOTHING_BELOW
    is_live: bool = True
    is_stopped: bool = False  # by a person: it may be closed, and nothing more
    begun_at: float = 0.0
    ended_at: float | None = None

    def take(self, chunks: Iterable[Chunk]) -> None:
        """Grow, in the order of the chunks; a card that is known changes in its place."""
        for chunk in chunks:
            match chunk:
                case Text(text=text):
                    assert text, "an empty chunk is refused"
                    assert len(text) <= 12_000
                    self.text += text
                    if self.order and self.order[-1] not in self.cards:
                        self.order[-1] += text
                    else:
                        self.order.append(text)
                case Card(id=card_id, title=title):
                    assert 0 < len(card_id) <= 256
                    assert 0 < len(title) <= 256
                    if card_id not in self.cards:
                        self.order.append(card_id)
                    self.cards[card_id] = chunk
                case PlanTitle(title=title):
                    assert 0 < len(title) <= 256
                    self.plan_title = title

    @property
    def size(self) -> int:
        """In bytes, as the twin counts them."""
        return len(self.text.encode()) + sum(_size_of(card) for card in self.cards.values())


def _size_of(card: Card) -> int:
    shape = {"type": "task_card", "task_id": card.id, "title": card.title, "status": card.status.value}
    return len(orjson.dumps(shape))


Fault = Callable[[StreamCall, int], Answer | str | None]
"""What goes wrong with the n-th call: an answer without an effect, "applied" for a doubt with one, None for nothing;
"expire" ends all streams before the call, "stop" is a person who stops them, "delete" one who deletes all messages."""


Request = StopRequested | SealRequested | BreakPassed | GrowForAll


@dataclass
class Run:
    """One answer from its first to its last step."""

    fault: Fault = field(default=lambda call, number: None)
    turn_seconds: Callable[[Slot], float] = field(default=lambda slot: 0.0)
    call_seconds: float = 0.05
    search_seconds: float = 1.0
    mode: PageMode = PageMode.STREAM
    has_streams: bool = True
    max_bytes: int = MAX_BYTES
    now: float = 1000.0
    messages: list[Message] = field(default_factory=list)
    deleted: list[Message] = field(default_factory=list)
    calls: list[tuple[float, StreamCall]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)  # one for each call
    statuses: list[tuple[float, SetStatus]] = field(default_factory=list)
    hung_up_at: float | None = None
    over: Over | None = None
    live: Live = field(init=False)

    def play(self, events: Iterable[tuple[float, AgentEvent | Request]], mentionable: Iterable[str] = ()) -> Run:
        """Play a run: events with the seconds after its start at which they come."""
        self._heap: list[tuple[float, int, Input]] = []
        self._order = count()
        start = self.now
        for after, event in events:
            taken = event if isinstance(event, Request) else AgentEventReceived(event=event)
            heapq.heappush(self._heap, (start + after, next(self._order), taken))
        self.live, commands = begin(self.now, mentionable=mentionable, mode=self.mode)
        self._obey(commands)
        for _ in range(20_000):
            if self.over is not None:
                return self
            self._step()
        raise AssertionError("it never ends")

    def _step(self) -> None:
        wake = wake_at(self.live, self.now)
        if self._heap and (wake is None or self._heap[0][0] <= wake):
            at, _, taken = heapq.heappop(self._heap)
            if self.hung_up_at is not None and isinstance(taken, AgentEventReceived):
                return
        elif wake is not None:
            at, taken = wake, Tick()
        else:
            raise AssertionError("nothing will ever happen again, and it is not over")
        self.now = max(self.now, at)
        self.live, commands = step(self.live, taken, self.now)
        self._obey(commands)

    def _obey(self, commands: Iterable[object]) -> None:
        for command in commands:
            match command:
                case AcquireSlot(slot=slot):
                    self._later(self.turn_seconds(slot), SlotGranted(slot=slot))
                case Find():
                    self._later(self.search_seconds, PageLocated(ts=self._begun_last()))
                case HangUp():
                    self.hung_up_at = self.now
                case SetStatus():
                    self.statuses.append((self.now, command))
                case Over():
                    assert self.over is None, "it ended twice"
                    self.over = command
                case OpenStream() | AppendStream() | CloseStream() | PostPage() | UpdatePage():
                    assert not self._under_way, "two calls at once"
                    self.calls.append((self.now, command))
                    self.answers.append(self._answer(command))
                    self._later(self.call_seconds, SlackAnswered(answer=self.answers[-1]))
                case _:
                    raise AssertionError(command)

    @property
    def _under_way(self) -> bool:
        return any(isinstance(taken, SlackAnswered | PageLocated) for _, _, taken in self._heap)

    def _later(self, seconds: float, taken: Input) -> None:
        heapq.heappush(self._heap, (self.now + seconds, next(self._order), taken))

    def _begun_last(self) -> str | None:
        """The message that nobody has heard of yet, if there is one."""
        known = self.live.pages - len(self.deleted)
        return self.messages[-1].ts if len(self.messages) > known else None

    def _answer(self, call: StreamCall) -> Answer:
        wrong = self.fault(call, len(self.calls))
        if wrong == "applied":
            self._apply(call)
            return InDoubt(reason="the connection broke")
        if isinstance(wrong, str):
            self._happens(wrong)
        elif wrong is not None:
            return wrong
        return self._apply(call)

    def _happens(self, wrong: str) -> None:
        for message in self.messages:
            if wrong == "expire":
                message.is_live = False
            elif wrong == "stop":
                message.is_stopped = message.is_live
            elif wrong == "delete":
                self.deleted.append(message)
        if wrong == "delete":
            self.messages = []

    def _apply(self, call: StreamCall) -> Answer:
        match call:
            case OpenStream():
                return self._open(call)
            case PostPage():
                return self._begin(PageMode.POST, call.text, call.cards, call.closing)
            case AppendStream() | CloseStream() | UpdatePage() if all(one.ts != call.ts for one in self.messages):
                return DeliveryRefused(error="message_not_found")
            case AppendStream() if self._of(call.ts).is_stopped:
                return DeliveryRefused(error="stopped_by_user")
            case AppendStream():
                assert call.chunks, "an append that adds nothing is refused"
                return self._grow(self._of(call.ts), call.chunks)
            case CloseStream():
                return self._close(call)
            case UpdatePage():
                return self._update(call)

    def _open(self, call: OpenStream) -> Answer:
        if not self.has_streams:
            return DeliveryRefused(error="unknown_method")
        assert call.chunks, "a stream is opened with something to see"
        message = Message(ts=self._ts(), mode=PageMode.STREAM, begun_at=self.now)
        answer = self._grow(message, call.chunks)
        if isinstance(answer, DeliveryAccepted):
            self.messages.append(message)
        return answer

    def _begin(self, mode: PageMode, text: str, cards: tuple[Card, ...], closing: Closing) -> Answer:
        assert len(text) <= 4_000, "Slack would split this text"
        message = Message(ts=self._ts(), mode=mode, closing=closing, begun_at=self.now)
        message.take((*cards, Text(text=text)) if text else cards)
        self.messages.append(message)
        return DeliveryAccepted(ts=message.ts)

    def _grow(self, message: Message, chunks: tuple[Chunk, ...]) -> Answer:
        if not message.is_live or self.now - message.begun_at > LIFETIME_SECONDS:
            message.is_live = False
            return DeliveryRefused(error="message_not_in_streaming_state")
        grown = replace(message, cards=dict(message.cards), order=list(message.order))
        grown.take(chunks)
        if grown.size > self.max_bytes:
            return DeliveryRefused(error="msg_too_long")
        message.take(chunks)
        return DeliveryAccepted(ts=message.ts)

    def _close(self, call: CloseStream) -> Answer:
        message = self._of(call.ts)
        answer = self._grow(message, call.chunks)
        if isinstance(answer, DeliveryAccepted):
            message.is_live, message.closing, message.ended_at = False, call.closing, self.now
        return answer

    def _update(self, call: UpdatePage) -> Answer:
        message = self._of(call.ts)
        if message.mode is PageMode.STREAM and message.is_live:
            return DeliveryRefused(error="streaming_state_conflict")
        message.text, message.closing = call.text, call.closing
        message.cards = {card.id: card for card in call.cards}
        message.order = [*message.cards, *filter(None, [call.text])]
        return DeliveryAccepted(ts=message.ts)

    def _of(self, ts: str) -> Message:
        return next(message for message in self.messages if message.ts == ts)

    def _ts(self) -> str:
        return f"{self.now:.3f}{len(self.messages) + len(self.deleted):03}"

    @property
    def shown(self) -> list[str]:
        """The text of each message, and of what is left to others."""
        assert self.over is not None
        return [*(message.text for message in self.messages), *filter(None, [self.over.leftover])]

    @property
    def closings(self) -> list[Closing]:
        """Everything that stands below a message, or is to stand there."""
        assert self.over is not None
        below = [*(message.closing for message in self.messages), self.over.closing]
        return [closing for closing in below if closing != NOTHING_BELOW]


def no_answer(reason: str = "ratelimited", seconds: float = 1.0) -> NotSent:
    """It did not happen."""
    return NotSent(reason=reason, retry_after_seconds=seconds)
