"""Conversion between typed text and Slack's stored text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_twin.text import for_reader, from_reader, mentioned

PEOPLE = {"alice": "U1", "swarm": "U2", "j.doe": "U3"}
CHANNELS = {"general": "C1"}


def stored(text: str) -> str:
    return from_reader(text, PEOPLE.get, CHANNELS.get)


def read(text: str) -> str:
    names = {ident: name for name, ident in PEOPLE.items()}
    places = {ident: name for name, ident in CHANNELS.items()}
    return for_reader(text, names.get, places.get)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("@swarm hello", "<@U2> hello"),
        ("ask @alice.", "ask <@U1>."),
        ("@j.doe, look", "<@U3>, look"),
        ("see #general and #nowhere", "see <#C1> and #nowhere"),
        ("@swarm#all please", "<@U2>#all please"),
        ("me@swarm.org or me@swarm", "me@swarm.org or me@swarm"),
        ("@stranger", "@stranger"),
        ("@here now", "<!here> now"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("`@swarm` and ```#general```", "`@swarm` and ```#general```"),
        ("https://x.test/a?b=1&c=2, ok", "<https://x.test/a?b=1&amp;c=2>, ok"),
        ("<@U1> typed by hand", "&lt;@U1&gt; typed by hand"),
    ],
)
def test_what_is_typed_is_stored_as_slack_stores_it(typed: str, kept: str) -> None:
    assert stored(typed) == kept
    assert read(kept) == typed


def test_a_link_with_a_label_is_read_as_its_label() -> None:
    assert read("<https://x.test|the plan> by <@U9|zoe>") == "the plan by @zoe"


def test_mentions_are_found_by_id_and_only_where_slack_marks_them() -> None:
    assert mentioned("<@U1> and <@U2|swarm> but not @U3, &lt;@U4&gt; or <#C1>") == {"U1", "U2"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_any_text_comes_back_as_it_was_typed(typed: str) -> None:
    assert read(stored(typed)) == typed
