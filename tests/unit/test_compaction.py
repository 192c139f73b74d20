"""What is summarised and what is told: calls of tools stay whole, nothing is lost, the order stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.errors import Invalid
from swarm.domain.model.sessions import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MessageRole,
    SessionMessage,
    checked_name,
    compaction_point,
    kept,
    message_of,
    messages_for_model,
    plain,
    recent_messages,
    to_summarise,
    tool_pairs,
)
from tests.support.every import every

pytestmark = pytest.mark.req("AGENT-06")

USE, RESULT = MessageRole.TOOL_USE, MessageRole.TOOL_RESULT


def says(role: MessageRole = MessageRole.USER, text: str = "words") -> SessionMessage:
    return SessionMessage(role=role, text=text)


def use(call_id: str) -> SessionMessage:
    return SessionMessage(role=USE, call_id=call_id, tool="search", arguments={"query": "x"})


def result(call_id: str) -> SessionMessage:
    return SessionMessage(role=RESULT, call_id=call_id, tool="search", text="found")


@st.composite
def conversations(draw: st.DrawFn) -> list[SessionMessage]:
    """Whole histories: people and agents speak, and call tools, often several side by side."""
    numbers = count()
    told: list[SessionMessage] = []
    for calls in draw(st.lists(st.integers(0, 4), max_size=12)):
        if calls:
            ids = [f"call-{next(numbers)}" for _ in range(calls)]
            told += [*map(use, ids), *map(result, draw(st.permutations(ids)))]
        else:
            told.append(says(draw(st.sampled_from([MessageRole.USER, MessageRole.ASSISTANT]))))
    return told


broken = st.lists(
    st.one_of(
        st.builds(says, st.sampled_from([MessageRole.USER, MessageRole.ASSISTANT]), st.sampled_from(["words", " "])),
        st.builds(use, st.sampled_from("ab")),
        st.builds(result, st.sampled_from("ab")),
    ),
    max_size=25,
)
"""Histories in which calls lack results, results lack calls, and ids come again."""


def calls_in(messages: Sequence[SessionMessage], role: MessageRole) -> set[str]:
    return {message.call_id for message in messages if message.role is role}


@given(conversations(), st.integers(0, 40))
def test_a_cut_parts_no_call_from_its_result_and_keeps_as_many_as_it_must(
    messages: list[SessionMessage], keep: int
) -> None:
    place = compaction_point(messages, keep)
    for side in (messages[:place], messages[place:]):
        assert calls_in(side, USE) == calls_in(side, RESULT)
    assert len(messages) - place >= min(keep, len(messages))


@given(conversations(), st.integers(0, 40))
def test_a_cut_is_moved_no_further_than_needed(messages: list[SessionMessage], keep: int) -> None:
    place, wanted = compaction_point(messages, keep), max(len(messages) - keep, 0)
    for later in range(place + 1, wanted + 1):
        assert calls_in(messages[:later], USE) != calls_in(messages[:later], RESULT)


@given(conversations())
def test_a_history_that_is_whole_is_told_as_it_is(messages: list[SessionMessage]) -> None:
    assert messages_for_model(messages) == messages


@given(broken)
def test_of_a_history_that_was_cut_every_call_that_is_told_has_one_result_behind_it(
    messages: list[SessionMessage],
) -> None:
    told = messages_for_model(messages)
    open_calls: dict[str, int] = {}
    for message in told:
        if message.role is USE:
            open_calls[message.call_id] = open_calls.get(message.call_id, 0) + 1
        elif message.role is RESULT:
            open_calls[message.call_id] = open_calls.get(message.call_id, 0) - 1
            assert open_calls[message.call_id] >= 0
        else:
            assert message.text.strip()
    assert not any(open_calls.values())


@given(broken)
def test_what_is_told_is_in_order_and_lacks_nothing_that_could_be_told(messages: list[SessionMessage]) -> None:
    rest = iter([id(message) for message in messages])
    told = messages_for_model(messages)
    assert all(id(message) in rest for message in told)  # a subsequence
    assert [m for m in told if m.role not in (USE, RESULT)] == [
        m for m in messages if m.role not in (USE, RESULT) and m.text.strip()
    ]
    for call in "ab":  # each result that has a use before it takes one
        waiting = taken = 0
        for message in messages:
            if message.call_id == call:
                waiting += message.role is USE
                if message.role is RESULT and waiting:
                    waiting, taken = waiting - 1, taken + 1
        assert sum(message.role is RESULT and message.call_id == call for message in told) == taken
    assert messages_for_model(told) == told


def test_a_result_belongs_to_the_last_call_with_its_id() -> None:
    crashed, again, answer = use("call_0"), use("call_0"), result("call_0")
    assert tool_pairs([crashed, says(), again, answer]) == {2: 3}
    assert messages_for_model([crashed, says(), again, answer]) == [says(), again, answer]


@given(broken, st.integers(0, 30))
def test_with_a_limit_the_last_are_told_and_what_keeps_them_whole(messages: list[SessionMessage], limit: int) -> None:
    told, last = messages_for_model(messages), recent_messages(messages, limit)
    assert last == told[len(told) - len(last) :]
    assert len(last) >= min(limit, len(told))
    assert messages_for_model(last) == last


@given(conversations(), st.integers(1, 30), st.integers(0, 10))
def test_what_is_summarised_and_what_is_kept_are_together_everything(
    messages: list[SessionMessage], threshold: int, keep: int
) -> None:
    older = to_summarise(messages, threshold, keep)
    if len(messages) <= threshold:
        assert not older
    assert [*older, *messages[len(older) :]] == messages
    assert len(messages) - len(older) >= min(keep, len(messages))


def test_fifty_messages_are_told_and_of_fifty_one_all_but_five_are_summarised() -> None:
    messages = [says(text=str(number)) for number in range(51)]
    assert to_summarise(messages[:50], 50, 5) == ()
    assert to_summarise(messages, 50, 5) == messages[:46]


def test_calls_side_by_side_and_their_results_are_one() -> None:
    side_by_side = [use("a"), use("b"), use("c"), result("b"), result("a"), result("c")]
    one_by_one = [use("d"), result("d"), use("e"), result("e")]
    messages = [says(), *side_by_side, *one_by_one]
    assert [compaction_point(messages, keep) for keep in range(12)] == [11, 9, 9, 7, 7, 1, 1, 1, 1, 1, 1, 0]


def test_a_summary_alone_is_not_summarised_again() -> None:
    summary = says(MessageRole.SYSTEM)
    many = [*(use(str(number)) for number in range(9)), *(result(str(number)) for number in range(9))]
    assert to_summarise([summary, *many], 10, 2) == ()
    assert to_summarise([summary, says(), *many], 10, 2) == [summary, says()]


def test_what_has_no_words_is_not_worth_a_summary() -> None:
    assert to_summarise([says(text=" "), use("a"), *[says()] * 2], 3, 2) == ()


# What is kept of a message


@pytest.mark.req("AGENT-05")
def test_a_message_is_kept_as_it_is() -> None:
    message = SessionMessage(role=USE, call_id="c", tool="t", arguments={"a": [1, 2.5, None, True, {"b": "ü"}]})
    assert kept(message) == message
    assert kept(says(text="x" * MOST_BYTES)).text == "x" * MOST_BYTES


@pytest.mark.req("AGENT-05")
def test_text_that_is_too_long_is_cut_between_characters_and_says_so() -> None:
    cut_text = kept(says(text="x" + "ü" * MOST_BYTES)).text
    words, _, said = cut_text.partition("\n")
    assert words == "x" + "ü" * ((MOST_BYTES - 1) // 2)
    assert said == f"[Cut: there were {2 * MOST_BYTES + 1} bytes.]"


@pytest.mark.req("AGENT-05")
def test_arguments_that_are_too_long_are_replaced_by_a_note() -> None:
    long = SessionMessage(role=USE, call_id="c", tool="t", arguments={"a": ["x" * 600_000], "b": "ü" * 300_000})
    assert "more than is kept" in str(kept(long).arguments["not_kept"])


@pytest.mark.req("AGENT-05")
def test_characters_that_no_database_takes_are_replaced_wherever_they_are() -> None:
    message = SessionMessage(role=USE, text="a\0b", call_id="\0", tool="\ud800t", arguments={"\0": ["\udfff"]})
    assert kept(message) == SessionMessage(
        role=USE, text="a\ufffdb", call_id="\ufffd", tool="\ufffdt", arguments={"\ufffd": ["\ufffd"]}
    )


@pytest.mark.req("AGENT-05")
def test_values_that_json_does_not_have_become_text_and_depth_has_an_end() -> None:
    nested: list[object] = []
    nested.append(nested)
    assert "too deeply" in str(plain(nested))
    assert plain({1: {3}, "t": (1, 2)}) == {"1": "{3}", "t": [1, 2]}


@pytest.mark.req("AGENT-05")
@pytest.mark.parametrize("name", ["", "x" * (MOST_CHARACTERS + 1), "a\0b", "\ud800"])
def test_an_id_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        checked_name(name, "session")


@pytest.mark.req("AGENT-05")
def test_messages_are_made_of_role_and_content() -> None:
    assert message_of("user", "hello") == says(text="hello")
    assert message_of("tool_use", {"id": "c", "name": "t", "arguments": {"a": 1}}) == SessionMessage(
        role=USE, call_id="c", tool="t", arguments={"a": 1}
    )
    assert message_of(RESULT, {"id": "c", "name": "t", "content": {"n": 1}, "failed": True}) == SessionMessage(
        role=RESULT, call_id="c", tool="t", text='{"n": 1}', failed=True
    )


@pytest.mark.req("AGENT-05")
@every(
    ("role", "content", "field"),
    [
        ("king", "hello", "role"),
        ("user", " ", "content"),
        ("user", {"text": "hello"}, "content"),
        ("tool_use", "search", "content"),
        ("tool_use", {"id": "c"}, "content"),
        ("tool_use", {"id": "", "name": "t"}, "content"),
        ("tool_use", {"id": "c", "name": "t", "arguments": [1]}, "content"),
        ("tool_result", {"name": "t", "content": "x"}, "content"),
    ],
)
def test_a_role_or_content_that_cannot_be_is_refused_by_name(role: str, content: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        message_of(role, content)  # type: ignore[arg-type]
    assert set(refused.value.fields) == {field}
