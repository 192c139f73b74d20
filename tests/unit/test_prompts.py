"""A prompt gives back exactly what was put in, in order, whatever people write; and it says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.agents import Role, UserView
from swarm.domain.model.inbox import InboxStatus, MatchedBy, NoticeKind
from swarm.domain.model.threads import AuthorKind, File, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView, TriggerKind
from swarm.domain.prompts.input import left_out
from swarm.domain.prompts.prompts import render
from swarm.domain.text.slack_text import unescape
from swarm_base.characters import strip_invisible
from tests.support.every import every
from tests.support.prompts import (
    CONTENT,
    FENCE,
    MARKER,
    PLAIN,
    a_task,
    as_history,
    expected,
    fences,
    new_message,
    outside,
    read_history,
    read_new,
    said,
)

KINDS = st.sampled_from(AuthorKind)
FILES = st.lists(st.builds(File, id=st.just("F1"), name=CONTENT), max_size=2).map(tuple)
SAID = st.builds(
    TranscriptMessage,
    ts=st.integers(1_600_000_000, 1_699_999_999).map(lambda seconds: f"{seconds}.000100"),
    author=CONTENT,
    author_id=CONTENT,
    kind=KINDS,
    text=CONTENT,
    edited=st.booleans(),
    files=FILES,
)
NEW = st.builds(
    InboxMessageView,
    id=CONTENT,
    user=st.builds(UserView, id=CONTENT, name=CONTENT),
    ts=st.integers(1_700_000_000, 1_800_000_000).map(lambda seconds: f"{seconds}.000100"),
    text=CONTENT,
    preview=CONTENT,
    received_at=st.just(0),
    status=st.just(InboxStatus.CLAIMED),
    matched_by=st.sampled_from(MatchedBy),
    routing_reason=CONTENT,
    files=FILES,
    kind=KINDS,
)


@pytest.mark.req("LOOP-02", "LOOP-05")
@given(
    new=st.lists(NEW, min_size=1, max_size=3, unique_by=lambda message: message.ts),
    before=st.lists(SAID, max_size=4),
    name=CONTENT,
    answer=st.none() | CONTENT,
)
def test_a_reader_finds_every_message_as_it_was_put_in_whatever_people_write(
    new: list[InboxMessageView], before: list[TranscriptMessage], name: str, answer: str | None
) -> None:
    history = (*before, *(as_history(message) for message in new))
    prompt = render(
        replace(
            PLAIN,
            agent_name=name,
            channel_name=name,
            permalink=name,
            lease_token=name,
            new_messages=tuple(new),
            history=history,
            previous_reply=answer,
        ),
        MARKER,
    )
    found = fences(prompt, MARKER)
    answers = [] if answer is None else ["previous_reply"]
    assert [kind for kind, _ in found] == ["new_message"] * len(new) + answers + ["thread_context"]
    assert [read_new(content) for _, content in found[: len(new)]] == [expected(message) for message in new]
    references = [expected(as_history(message), number) for number, message in enumerate(new, 1)]
    assert read_history(found[-1][1]) == [*map(expected, before), *references]
    if answer is not None:
        assert unescape(found[len(new)][1]) == strip_invisible(answer)


@pytest.mark.req("LOOP-05")
@given(text=CONTENT, kind=st.sampled_from(TriggerKind))
def test_angle_brackets_stand_in_fence_lines_only_and_everything_can_be_encoded(text: str, kind: TriggerKind) -> None:
    message = replace(
        new_message(text=text),
        user=UserView(id=text, name=text),
        routing_reason=text,
        files=(File(id="F1", name=text),) * 2,
    )
    prompt = render(
        replace(
            PLAIN,
            kind=kind,
            agent_name=text,
            lease_token=text,
            channel_name=text,
            permalink=text,
            new_messages=(message,),
            history=(said(1, text),),
            notice_text=text,
            notice_author=text,
            notice_channel=text,
            task=a_task(everywhere=text),
            requester_name=text,
        ),
        MARKER,
    )
    lines = prompt.split("\n")
    assert len(lines) == len(prompt.splitlines()) + 1
    assert all(FENCE.fullmatch(line) for line in lines if "<" in line or ">" in line)
    fences(prompt, MARKER)
    prompt.encode()


@pytest.mark.req("LOOP-05")
@every("marker", ["", "short", "with space in it", 'quote"quote', "é" * 16, "x" * 65, MARKER + "\n"])
def test_a_marker_that_could_be_guessed_or_read_otherwise_is_refused(marker: str) -> None:
    with pytest.raises(ValueError, match="marker"):
        render(PLAIN, marker)


# --- What is in a prompt, and where -------------------------------------------------------------------------------


@pytest.mark.req("LOOP-02", "LOOP-05")
def test_a_message_of_20000_characters_in_a_thread_of_300_is_whole_first_and_apart() -> None:
    long = "\n".join(f"line {number} of a long message" for number in range(1_000))[:20_000]
    message = new_message(text=long)
    history = (*(said(number, f"remark {number}") for number in range(299)), as_history(message))
    prompt = render(replace(PLAIN, new_messages=(message,), history=history), MARKER)
    assert len(long) == 20_000
    assert prompt.count(long) == 1
    assert prompt.index(long) < 2_000
    assert prompt.index(long) + len(long) < prompt.index("<thread_context")
    (_, new), (_, context) = fences(prompt, MARKER)
    assert read_new(new).text == long
    assert [read.text for read in read_history(context)] == [*(f"remark {number}" for number in range(299)), ""]


@pytest.mark.req("LOOP-02", "LOOP-05")
def test_of_a_thread_of_5000_messages_the_first_and_the_newest_are_told_and_how_many_there_are_between() -> None:
    message = new_message(text="the question " * 500)
    history = (*(said(number, f"remark {number} " * 10) for number in range(4_999)), as_history(message))
    prompt = render(replace(PLAIN, new_messages=(message,), history=history), MARKER)
    (_, new), (_, context) = fences(prompt, MARKER)
    told = [read.text.split()[1] for read in read_history(context) if read.number is None]
    assert read_new(new).text == message.text
    assert 95_000 < len(context) <= 100_000 + len(told)
    assert told == ["0", *map(str, range(5_000 - len(told), 4_999))]
    assert f"{4_999 - len(told):,} messages are left out here" in outside(prompt, MARKER)
    assert "`slack-read-thread` (inbox_message_id, after_ts=1690000000.000200)" in outside(prompt, MARKER)
    whole = render(replace(PLAIN, new_messages=(message,), history=history, history_characters=None), MARKER)
    assert len(read_history(fences(whole, MARKER)[1][1])) == 5_000
    assert "left out" not in whole


@pytest.mark.req("LOOP-05")
@given(sizes=st.lists(st.integers(0, 50), min_size=1), most=st.integers(0, 200))
def test_what_is_left_out_is_one_gap_behind_the_first_message_and_no_larger_than_it_must_be(
    sizes: list[int], most: int
) -> None:
    gap = left_out(sizes, most)
    told = sum(sizes) - sum(sizes[place] for place in gap)
    assert told <= max(most, sizes[0])
    if gap:
        assert gap.start == 1
        assert told + sizes[gap.stop - 1] > most


@pytest.mark.req("LOOP-05", "LOOP-12")
def test_a_bundle_gives_each_message_a_fence_in_order_and_the_history_only_their_places() -> None:
    first, second = new_message(1, "the first thing"), new_message(2, "the second thing")
    between = replace(said(1), ts="1700000001.500000", text="in between")
    history = (said(1), as_history(first), between, as_history(second))
    prompt = render(replace(PLAIN, new_messages=(first, second), history=history), MARKER)
    names, contents = zip(*fences(prompt, MARKER), strict=True)
    assert names == ("new_message", "new_message", "thread_context")
    assert [read_new(content).text for content in contents[:2]] == ["the first thing", "the second thing"]
    assert [(read.number, read.text) for read in read_history(contents[2])] == [
        (None, "earlier"),
        (1, ""),
        (None, "in between"),
        (2, ""),
    ]
    assert prompt.count("the second thing") == 1
    assert prompt.index("New message 1, inbox_message_id entry-1") < prompt.index("the first thing")
    assert prompt.index("New message 2, inbox_message_id entry-2") < prompt.index("the second thing")


@pytest.mark.req("LOOP-05")
def test_the_head_says_who_what_which_inbox_message_under_which_lease_and_what_to_call() -> None:
    head = render(PLAIN, MARKER).split("<new_message")[0]
    for fact in ('"scout"', "a lead agent", '"general"', "a new message", "entry-1", "lease-77", "attempt 1", MARKER):
        assert fact in head
    for call in ("slack-reply", "dismiss-message", "inbox-delegate"):
        assert call in head
    assert "https://example.slack.com/archives/C1/p1?thread_ts=1.2&cid=C1" in head
    assert "mention: The message mentions the app." in head
    assert len(head) < 2_000


@pytest.mark.req("LOOP-05")
def test_a_channel_whose_name_is_not_known_is_left_out() -> None:
    assert "In Slack, a new message came for you." in render(replace(PLAIN, channel_name=""), MARKER)


@pytest.mark.req("LOOP-05")
def test_a_worker_is_not_told_to_delegate() -> None:
    assert "inbox-delegate" not in render(replace(PLAIN, role=Role.WORKER), MARKER)


@pytest.mark.req("LOOP-05", "LOOP-06")
def test_a_later_attempt_is_warned_that_something_may_have_been_posted() -> None:
    assert "earlier run" not in render(PLAIN, MARKER)
    assert "This is attempt 3: an earlier run did not finish." in render(replace(PLAIN, attempt=3), MARKER)


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("history", [(), (said(1),)])
def test_a_history_with_gaps_says_so(history: tuple[TranscriptMessage, ...]) -> None:
    gaps = "Messages are missing from the history"
    assert gaps in render(replace(PLAIN, history=history, context_incomplete=True), MARKER)
    assert gaps not in render(replace(PLAIN, history=history), MARKER)


@pytest.mark.req("LOOP-02", "LOOP-05")
def test_a_line_of_the_history_says_when_who_of_what_kind_and_with_which_files() -> None:
    agent = TranscriptMessage(
        ts="1700000000.000100",
        author="scout",
        author_id="U0BOT",
        kind=AuthorKind.AGENT,
        text="one\n\n[two]",
        edited=True,
        files=(File(id="F1", name="a.csv"), File(id="F2", name='b "2".csv')),
    )
    content = dict(fences(render(replace(PLAIN, history=(agent,)), MARKER), MARKER))["thread_context"]
    assert content.split("\n") == [
        '[2023-11-14 22:13:20 UTC] "scout" (agent U0BOT, edited)',
        'files: "a.csv", "b &quot;2&quot;.csv"',
        "| one",
        "| ",
        "| [two]",
    ]


@pytest.mark.req("LOOP-05")
def test_a_timestamp_that_is_none_does_not_break_the_prompt() -> None:
    odd = [replace(said(1), ts=ts) for ts in ("", "now", "9" * 40, "-1.0", "１７.0")]
    assert render(replace(PLAIN, history=tuple(odd)), MARKER).count("[at an unknown time]") == len(odd)


@pytest.mark.req("LOOP-05", "LOOP-15")
def test_a_change_is_told_with_the_new_text_in_a_fence_and_asks_for_no_answer() -> None:
    notice = replace(PLAIN, kind=NoticeKind.MESSAGE_CHANGED, notice_text="a < b", history=())
    prompt = render(notice, MARKER)
    assert "was edited in Slack" in prompt
    assert "entry-1" in prompt
    assert fences(prompt, MARKER) == [("notice_text", "a &lt; b")]
    assert "there is nothing to answer" in prompt
    assert "slack-reply" not in prompt
    assert "lease-77 (of this notice only" in prompt


@pytest.mark.req("LOOP-05", "LOOP-15")
def test_a_change_without_a_text_of_its_own_shows_the_message_as_it_is_now() -> None:
    prompt = render(replace(PLAIN, kind=NoticeKind.MESSAGE_CHANGED, history=()), MARKER)
    ((_, content),) = fences(prompt, MARKER)
    assert read_new(content).text == "hello"


@pytest.mark.req("LOOP-05", "LOOP-15")
def test_a_deletion_is_told_without_the_deleted_text() -> None:
    prompt = render(replace(PLAIN, kind=NoticeKind.MESSAGE_DELETED, history=()), MARKER)
    assert "was deleted in Slack" in prompt
    assert "entry-1" in prompt
    assert fences(prompt, MARKER) == []
    assert "hello" not in prompt


@pytest.mark.req("LOOP-05")
def test_a_trigger_without_words_for_it_is_an_error_not_a_strange_prompt() -> None:
    with pytest.raises(ValueError, match="no prompt for a trigger of kind 'weather'"):
        render(replace(PLAIN, kind="weather"), MARKER)
