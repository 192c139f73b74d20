"""Slack's text as a reader sees it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.text.slack_text import readable
from tests.support.every import every

NAMES = {"U1": "alice", "U9": "al\n> ice", "C1": "general", "C3": ""}


@pytest.mark.req("LOOP-02", "CHAN-13")
@every(
    ("stored", "read"),
    [
        ("<@U1> hello", "@alice hello"),
        ("<@U2|bob> and <@U3>", "@bob and @U3"),
        ("<@U9>", "@al > ice"),
        ("in <#C1> or <#C2|random> or <#C3|secret>", "in #general (C1) or #random or #secret (C3)"),
        ("<!here> <!subteam^S1|@devs> <!date^1^{date}|today>", "@here @devs @today"),
        ("<https://a.b/?x=1&amp;y=2|this> <https://c.d>", "this (https://a.b/?x=1&y=2) https://c.d"),
        ("<mailto:a@b.c|a@b.c>", "a@b.c"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("<|x> and <|>", "x and "),
    ],
)
def test_ids_become_names_and_entities_characters(stored: str, read: str) -> None:
    assert readable(stored, NAMES) == read


@given(st.text(alphabet="<>|@#!^UC1 a&;"))
def test_no_text_raises(stored: str) -> None:
    readable(stored, NAMES)
