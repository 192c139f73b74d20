"""Every answer of Slack to every kind of call: nothing is lost or doubled, and one end is seen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from swarm.domain.answers.calls import (
    AppendStream,
    CloseStream,
    OpenStream,
    PostPage,
    StreamCall,
    UpdatePage,
)
from swarm.domain.answers.events import AgentEvent, Failed, Finished, TextDelta, ToolEnded, ToolStarted
from swarm.domain.answers.reducer import StopRequested
from swarm.domain.answers.slack_results import MOST_DOUBTS
from swarm.domain.answers.state import PageMode
from swarm.domain.model.deliveries import Answer, DeliveryRefused, InDoubt, NotSent
from tests.support.slack_model import Fault, Run

pytestmark = [pytest.mark.req("STREAM-04"), pytest.mark.req("STREAM-05"), pytest.mark.req("STREAM-06")]

PARAGRAPH = "A sentence of the answer that goes on for a while. " * 12 + "\n\n"
TEXT = PARAGRAPH * 40  # three messages of a stream
FINISHED = Finished()
FAILED = Failed(message="the model is gone")

Events = list[tuple[float, AgentEvent | StopRequested]]


def told(end: AgentEvent) -> Events:
    """A run with a tool, text over several messages, and an end."""
    events: Events = [(0.0, ToolStarted(id="t", name="search")), (0.5, ToolEnded(id="t"))]
    events += [(1.0 + n * 0.4, TextDelta(text=PARAGRAPH, message_id="m")) for n in range(40)]
    return [*events, (18.0, end)]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of call."""

    name: str
    mode: PageMode
    of: type[StreamCall]
    is_last: bool | None = None

    def concerns(self, call: StreamCall) -> bool:
        """Whether a call is of this kind."""
        return isinstance(call, self.of) and self.is_last in (None, getattr(call, "is_last", None))


KINDS = [
    Kind(name="open", mode=PageMode.STREAM, of=OpenStream),
    Kind(name="append", mode=PageMode.STREAM, of=AppendStream),
    Kind(name="close", mode=PageMode.STREAM, of=CloseStream, is_last=False),
    Kind(name="last close", mode=PageMode.STREAM, of=CloseStream, is_last=True),
    Kind(name="post", mode=PageMode.POST, of=PostPage),
    Kind(name="update", mode=PageMode.POST, of=UpdatePage, is_last=False),
    Kind(name="last update", mode=PageMode.POST, of=UpdatePage, is_last=True),
]

HARMLESS: dict[str, Answer | str] = {
    "nothing sent": NotSent(reason="ratelimited", retry_after_seconds=2.0),
    "doubt, not applied": InDoubt(reason="timeout"),
    "doubt, applied": "applied",
    "expired": "expire",
    "too long": DeliveryRefused(error="msg_too_long"),
    "no streams": DeliveryRefused(error="missing_recipient_user_id"),
    "unknown": DeliveryRefused(error="internal_error"),
}
"""After these everything can still be shown."""


def at_nth(kind: Kind, nth: int, wrong: Answer | str, times: int = 1) -> Fault:
    """The fault for the n-th call of a kind, and for the next ones."""
    seen = 0

    def fault(call: StreamCall, number: int) -> Answer | str | None:
        nonlocal seen
        seen += kind.concerns(call)
        return wrong if kind.concerns(call) and nth <= seen < nth + times else None

    return fault


def assert_told(run: Run, text: str = TEXT) -> None:
    """Everything once, in order, with one end; no stream is left open."""
    assert "".join("".join(run.shown).split()) == "".join(text.split())
    assert len(run.closings) == 1


@pytest.mark.parametrize("end", [FINISHED, FAILED], ids=["finished", "failed"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("wrong", HARMLESS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_goes_wrong_once_loses_and_doubles_nothing(kind: Kind, wrong: str, nth: int, end: AgentEvent) -> None:
    """At the first call of a kind and at a later one, for a good end and a bad one."""
    fault = at_nth(kind, nth, HARMLESS[wrong])
    run = Run(fault=fault, mode=kind.mode).play(told(end))
    assert_told(run)
    assert run.closings[0].feedback is (end is FINISHED)
    assert run.closings[0].retry is (end is FAILED)
    assert not any(message.is_live for message in run.messages if message.mode is PageMode.STREAM)


@pytest.mark.parametrize("wrong", ["too long", "no streams", "unknown", "nothing sent", "doubt, not applied"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_never_taken_is_left_to_posts_that_wait(kind: Kind, wrong: str) -> None:
    """Slack takes no call of one kind for good: the answer ends, and all of it is somewhere."""
    fault = at_nth(kind, 1, HARMLESS[wrong], times=10_000)
    run = Run(fault=fault, mode=kind.mode).play(told(FINISHED))
    assert_told(run)
    assert run.now < 1000 + 18 + 95


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS[1:4], ids=lambda kind: kind.name)
def test_slacks_own_stop_ends_the_run_and_is_said(kind: Kind, nth: int) -> None:
    """What is shown stays, nothing is added, the agent is cut off, and the message is closed."""
    run = Run(fault=at_nth(kind, nth, "stop")).play(told(FINISHED))
    if kind.of is AppendStream:
        assert run.hung_up_at is not None
        assert [closing.note for closing in run.closings] == ["🛑 Stopped."]
    assert "".join(TEXT.split()).startswith("".join("".join(run.shown).split()))
    assert len(run.closings) == 1
    assert not any(message.is_live for message in run.messages)


def test_slacks_own_stop_after_the_end_of_the_run_is_said() -> None:
    """The answer was whole, but the person did not want the rest of it."""
    late = Kind(name="append", mode=PageMode.STREAM, of=AppendStream)
    turns = {"chat.stopStream": 20.0}
    seen = 0

    def fault(call: StreamCall, number: int) -> str | None:
        nonlocal seen
        seen += late.concerns(call)
        return "stop" if late.concerns(call) and seen == 1 else None

    run = Run(fault=fault, turn_seconds=lambda slot: turns.get(slot.value, 0.0))
    run.play([(0, TextDelta(text="One. ")), (0.06, TextDelta(text="Two. ")), (0.07, FINISHED)])
    assert [message.text for message in run.messages] == ["One. "]
    assert [closing.note for closing in run.closings] == ["🛑 Stopped."]


def test_a_close_that_a_stop_refuses_is_made_good_by_an_update() -> None:
    """Some workspaces refuse the last close as well once a person has stopped the stream."""
    fault = at_nth(KINDS[3], 1, DeliveryRefused(error="stopped_by_user"))
    run = Run(fault=lambda call, number: fault(call, number) or ("expire" if isinstance(call, UpdatePage) else None))
    run.play([(0, TextDelta(text="One. ")), (1, FINISHED)])
    assert [message.text for message in run.messages] == ["One. "]
    assert [closing.note for closing in run.closings] == ["🛑 Stopped."]


@pytest.mark.parametrize("kind", KINDS[1:3], ids=lambda kind: kind.name)
def test_a_deleted_message_is_a_stop(kind: Kind) -> None:
    """Who deletes the answer while it is written does not want it; that it was stopped is still said."""
    events: Events = [(at, TextDelta(text="A word and a half", message_id="m")) for at in range(3)]
    run = Run(fault=at_nth(kind, 1, "delete")).play([*events, *((at + 3, event) for at, event in told(FINISHED))])
    assert run.hung_up_at is not None
    assert not run.messages
    assert run.over is not None
    assert not run.over.leftover
    assert run.over.closing.note == "🛑 Stopped."


def test_a_message_deleted_after_the_end_is_not_written_again() -> None:
    """Nothing is left to be said about it."""
    run = Run(fault=at_nth(KINDS[3], 1, "delete")).play([(0, TextDelta(text="One. ")), (1, FINISHED)])
    assert not run.messages
    assert not run.closings
    assert run.shown == []


def test_a_deleted_post_goes_on_in_another_one() -> None:
    """An update that is refused for good does not say whether a person meant it so."""
    run = Run(mode=PageMode.POST, fault=at_nth(KINDS[5], 1, "delete")).play(told(FINISHED))
    whole = "".join(message.text for message in [*run.deleted, *run.messages])
    assert "".join(whole.split()) == "".join(TEXT.split())
    assert len(run.closings) == 1


@pytest.mark.req("OPS-15")
@pytest.mark.parametrize("error", ["channel_not_found", "not_in_channel", "ekm_access_denied", "restricted_action"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_where_nothing_can_be_written_all_is_left_to_posts_that_wait(kind: Kind, error: str) -> None:
    """The run goes on, because somebody may invite the app back, or its author is told of the loss."""
    run = Run(mode=kind.mode, fault=at_nth(kind, 1, DeliveryRefused(error=error), times=100)).play(told(FINISHED))
    assert_told(run)
    assert run.hung_up_at is None


@pytest.mark.req("OPS-15")
@pytest.mark.parametrize("held_seconds", [40, 600])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_while_the_token_is_refused_an_answer_collects_and_is_shown_whole(
    kind: Kind, nth: int, held_seconds: int
) -> None:
    """Slack has ended a stream that was open for too long; an update completes it."""
    held_until = 0.0
    refused = NotSent(reason="token_revoked", retry_after_seconds=1)
    first = at_nth(kind, nth, refused)

    def fault(call: StreamCall, number: int) -> Answer | str | None:
        nonlocal held_until
        if first(call, number):
            held_until = run.now + held_seconds
        if run.now < held_until:
            return refused
        if (
            held_seconds > 300
            and held_until
            and run.now < held_until + 1
            and isinstance(call, AppendStream | CloseStream)
        ):
            return "expire"
        return None

    run = Run(mode=kind.mode, fault=fault)
    run.turn_seconds = lambda slot: max(0.0, held_until - run.now)
    run.play(told(FINISHED))
    assert_told(run)
    has_waited = run.now > 1000 + held_seconds
    assert not held_until or has_waited or (run.over and run.over.leftover), "nothing is open, and posts wait"
    assert not any(message.is_live for message in run.messages if message.mode is PageMode.STREAM)


@pytest.mark.parametrize("wrong", ["applied", InDoubt(reason="cut")])
@pytest.mark.parametrize(("kind", "nth"), [(KINDS[1], 4), (KINDS[2], 1), (KINDS[3], 1)])
@pytest.mark.parametrize("error", ["block_mismatch", "internal_error", "msg_too_long"])
def test_a_piece_in_doubt_that_cannot_be_looked_after_is_not_lost(
    kind: Kind, nth: int, wrong: Answer | str, error: str
) -> None:
    """Rather than nowhere, it may stand twice; but what Slack certainly has does not."""
    first = at_nth(kind, nth, wrong)

    def fault(call: StreamCall, number: int) -> Answer | str | None:
        return DeliveryRefused(error=error) if isinstance(call, UpdatePage) else first(call, number)

    run = Run(fault=fault).play([*told(FINISHED)[:-1], (16.62, FINISHED)])  # with the last piece on its way
    shown, said = "".join("".join(run.shown).split()), "".join(TEXT.split())
    assert len(said) <= len(shown) <= len(said) + 9_000
    if not (kind.is_last is not True and wrong == "applied"):
        assert shown == said
    assert len(run.closings) == 1


def test_with_slack_away_the_answer_is_given_up_and_left_to_posts() -> None:
    """Ninety seconds after its end; an answer whose stream never opened goes sooner."""
    away = NotSent(reason="connection refused", retry_after_seconds=0.5)
    run = Run(fault=lambda call, number: away if number > 2 else None).play(told(FINISHED))
    assert_told(run)
    assert run.over is not None
    assert run.over.closing.feedback
    assert run.now == pytest.approx(1000 + 18 + 90, abs=1)


@pytest.mark.parametrize("mode", [PageMode.STREAM, PageMode.POST])
@pytest.mark.parametrize("end", [18.0, 3600.0], ids=["a run that ends", "a run that goes on for an hour"])
def test_a_message_whose_calls_are_always_in_doubt_is_tried_ever_later_and_then_left_to_posts(
    end: float, mode: PageMode
) -> None:
    """A connection that is reset is reset at once: without a pause that was 400 calls a second."""
    doubt = InDoubt(reason="the connection was reset")
    run = Run(fault=lambda call, number: doubt if number > 2 else None, call_seconds=0.001, mode=mode)
    run.play([*told(FINISHED)[:-1], (end, FINISHED)])
    assert_told(run)
    moments = [moment for moment, call in run.calls[2:] if isinstance(call, AppendStream | CloseStream | UpdatePage)]
    pauses = [after - before for before, after in itertools.pairwise(moments)][1:]  # the first may wait for more text
    assert len(moments) <= MOST_DOUBTS
    assert all(longer > 1.9 * pause for pause, longer in itertools.pairwise(pauses))
    assert moments[-1] - moments[0] > 50


def test_slack_that_cannot_be_reached_is_tried_ever_more_rarely_and_one_that_is_busy_as_often_as_it_says() -> None:
    """An hour without a connection was a try a second for each answer."""
    for reason, most in (("connection refused", 500), ("ratelimited", 4_000)):
        calls = _calls_while(NotSent(reason=reason, retry_after_seconds=1.0))
        assert most / 2 < calls < most, reason


def _calls_while(away: NotSent) -> int:
    """The calls of a run of an hour while Slack answers so."""
    run = Run(fault=lambda call, number: away if number > 2 else None)
    return len(run.play([*told(FINISHED)[:-1], (3600.0, FINISHED)]).calls)


def test_doubts_are_forgotten_once_a_call_succeeds() -> None:
    """A short trouble now and then ends no live answer."""
    fault = at_nth(KINDS[1], 1, "applied", times=1)
    run = Run(fault=lambda call, number: fault(call, number) or ("applied" if number % 4 == 2 else None))
    run.play([(n * 2.0, TextDelta(text=f"Line {n}.\n")) for n in range(100)] + [(201, FINISHED)])
    assert run.over is not None
    assert not run.over.leftover


def test_an_answer_given_up_in_a_code_block_opens_it_again() -> None:
    """What is left is a whole piece of Markdown."""
    away = NotSent(reason="connection refused", retry_after_seconds=0.5)
    run = Run(fault=lambda call, number: away if number > 1 else None)
    run.play([(0, TextDelta(text="```py\na = 1\n")), (1, TextDelta(text="b = 2\n```\nDone.")), (2, FINISHED)])
    assert run.shown == ["```py\na = 1\n", "```py\nb = 2\n```\nDone."]


def test_a_refused_close_does_not_leave_the_stream_open() -> None:
    """It is closed with nothing in it, and what it was to show goes elsewhere."""
    fault = at_nth(KINDS[3], 1, DeliveryRefused(error="invalid_blocks"))
    run = Run(fault=fault).play([(0, TextDelta(text="One. ")), (0.06, TextDelta(text="Two.")), (0.07, FINISHED)])
    assert [message.text for message in run.messages] == ["One. ", "Two."]
    assert not any(message.is_live for message in run.messages)
    assert run.over is not None
    assert run.over.closing.feedback


def test_a_doubted_end_leaves_one_message_where_an_update_can_complete_it() -> None:
    """What came after the piece in doubt is part of the same update."""
    fault = at_nth(KINDS[1], 1, InDoubt(reason="timeout"))
    events: Events = [
        (0, TextDelta(text="One. ")),
        (1, TextDelta(text="Two. ")),
        (2, TextDelta(text="Three.")),
        (3, FINISHED),
    ]
    run = Run(fault=fault, call_seconds=5.0).play(events)
    assert [message.text for message in run.messages] == ["One. Two. Three."]


def test_the_age_of_a_looked_up_stream_counts_from_its_call() -> None:
    """Slack began it then, however long the search took."""
    fault = at_nth(KINDS[0], 1, "applied")
    events: Events = [(n * 4.0, TextDelta(text=f"Line {n}.\n")) for n in range(80)]
    run = Run(fault=fault, call_seconds=30.0).play([*events, (321, FINISHED)])
    assert all((message.ended_at or 0) - message.begun_at < 300 for message in run.messages)
    assert not any(call for _, call in run.calls if isinstance(call, UpdatePage))


def test_a_message_that_could_not_begin_at_first_still_opens_its_code_block() -> None:
    """What failed has changed nothing."""
    fault = at_nth(KINDS[0], 2, NotSent(reason="ratelimited", retry_after_seconds=1.0))
    run = Run(fault=fault).play(
        [(0, TextDelta(text="```py\na = 1\n")), (290, TextDelta(text="b = 2\n")), (291, FINISHED)]
    )
    assert run.messages[1].text.startswith("```py\nb = 2")


@pytest.mark.parametrize("error", ["internal_error", "msg_too_long", "missing_recipient_user_id"])
def test_where_a_stream_is_refused_a_post_is_written_live(error: str) -> None:
    """Whatever the reason: people do not wait for the end of the run."""
    run = Run(fault=at_nth(KINDS[0], 1, DeliveryRefused(error=error))).play(told(FINISHED))
    assert isinstance(run.calls[1][1], PostPage)
    assert run.calls[1][0] < 1001
    assert all(message.mode is PageMode.POST for message in run.messages)
    assert run.over is not None
    assert not run.over.leftover


def test_a_search_that_never_ends_is_given_up() -> None:
    """Ninety seconds after the end of the run, and the answer is left to posts."""
    run = Run(fault=at_nth(KINDS[0], 1, InDoubt(reason="timeout")), search_seconds=1e6).play(told(FINISHED))
    assert_told(run)
    assert run.now == pytest.approx(1000 + 18 + 90, abs=1)


def test_a_mended_message_takes_what_came_meanwhile() -> None:
    """Nobody has to open another message for the last sentence."""
    run = Run(fault=at_nth(KINDS[1], 1, InDoubt(reason="timeout")), turn_seconds=lambda slot: 0.5)
    run.play(
        [(0, TextDelta(text="One. ")), (1, TextDelta(text="Two. ")), (2.6, TextDelta(text="Three.")), (2.7, FINISHED)]
    )
    assert [message.text for message in run.messages] == ["One. Two. Three."]
