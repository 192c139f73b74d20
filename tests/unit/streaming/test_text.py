"""Safe text that comes in pieces is the safe text of the whole, whatever the pieces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.domain.answers.text import SafeText, without_markers
from swarm.domain.text.slack_text import safe
from swarm_base import secrets
from swarm_base.characters import strip_invisible
from swarm_base.secrets import without_secrets

pytestmark = pytest.mark.req("STREAM-04")

ALICE = frozenset({"U1"})
PIECES = (
    "` `` ``` ```py\n ~~~ \n \r\n \r < <!channel> <@U1> <@U2|x> @channel @here @ channel here > https://a.b/c?d=1&e=2 "
)
FRAGMENTS = st.sampled_from(
    [
        *PIECES.split(" "),
        " ",
        "> ",
        "<https://x.y|label>",
        "&",
        "&amp;",
        "a",
        "word",
        "中",
        "é",
        "[FINAL ANSWER]",
        "[1]: ",
        "太**「",
        "」**",
        "，**中",
        "~~（***",
        "\n- [",
        "\n> - [x]:",
        "]:",
        "[final",
        "[",
        "]",
        "[CONFIDENCE: high]",
        "\ud83d",
        "\ude00",
        "\x00",
        "|a|b|\n",
        "-",
        "\t",
        "x@here.org",
        "http",
        "[bank.example](https://evil.example)",
        "[bank.example",
        "](https://evil.example",
        "](",
        "(",
        ")",
        "<https://evil.example|bank.example>",
        "https://bank.example@evil.example/",
        "sk-",
        "4f9aQ2mX7bL0cV3nZ8kR",
        "api_key = ",
        "-----BEGIN PRIVATE KEY-----\n",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n",
        "-----END PRIVATE KEY-----",
        "://u:",
        "@",
        "hunter",
        "my-own-secret-1",
        "my-own",
        "\ufe0f",
        "❤",
        "\u200d",
        "\u200b",
        "\U000e0041",
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=5), max_size=25).map("".join)


@pytest.fixture(scope="module", autouse=True)
def told() -> Iterator[None]:
    """A secret that this process knows."""
    known = secrets._own
    secrets._own = secrets._OwnSecrets()
    secrets.hide(["my-own-secret-1", "my-own-secret-1-longer"])
    yield
    secrets._own = known


def fed(pieces: list[str], *, pauses: bool = False) -> tuple[str, str]:
    """The plain and the safe text that some pieces give, maybe with a pause behind each of them."""
    state, plain, settled = SafeText(mentionable=ALICE), [], []
    for piece in pieces:
        state, more, safe_now = state.feed(piece)
        plain.append(more)
        settled.append(safe_now)
        if pauses:
            state, released = state.release()
            settled.append(released)
    state, more, safe_now = state.end_line()
    return "".join([*plain, more]), "".join([*settled, safe_now])


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, cuts=st.lists(st.integers(0, 200)), pauses=st.booleans())
def test_pieces_give_what_the_whole_gives(text: str, cuts: list[int], pauses: bool) -> None:
    """Mentions, links, code and escapes mean the same, wherever a piece ends."""
    ends = sorted({cut for cut in cuts if cut < len(text)})
    plain, shown = fed([text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)], pauses=pauses)
    assert plain == without_secrets(without_markers(strip_invisible(text)))
    assert shown == safe(plain, ALICE)


@pytest.mark.parametrize(
    "text", ["- [x]: https://a.org", "> 1. [x]:https://a.org", "    [x]:y", "太，**太**太~~（a）~~太"]
)
def test_pauses_behind_every_character_change_nothing(text: str) -> None:
    assert fed(list(text), pauses=True)[1] == safe(text)


def test_code_that_begins_behind_an_open_bracket_stays_code() -> None:
    """A bracket that another one follows is none of a token, so a backtick between the two counts."""
    assert fed(["<", "`` <@U1> ", "`` and "])[1] == safe("<`` <@U1> `` and ", ALICE)


@given(text=TEXTS, pauses=st.booleans())
def test_single_characters_give_what_the_whole_gives(text: str, pauses: bool) -> None:
    """The smallest pieces there are."""
    _, shown = fed(list(text), pauses=pauses)
    assert shown == safe(without_markers(strip_invisible(text)), ALICE)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["Hello <!chan", "nel> you "], ["Hello ", "&lt;!channel&gt; you "]),
        (["Ask <@U", "1> now "], ["Ask ", "<@U1> now "]),
        (["a word and more"], ["a word and "]),
        (["a `code wi", "th blanks` end "], ["a ", "`code with blanks` end "]),
        (["[FINAL AN", "SWER]\nYes, "], ["", "Yes, "]),
        (["``", "`py\nx = <1>\n"], ["", "```py\nx = &lt;1&gt;\n"]),
    ],
)
def test_what_can_no_longer_change_is_shown_at_once(pieces: list[str], shown: list[str]) -> None:
    """What may still become live or code is held back, and nothing else."""
    state, seen = SafeText(mentionable=ALICE), []
    for piece in pieces:
        state, _, settled = state.feed(piece)
        seen.append(settled)
    assert seen == shown


def test_an_endless_line_is_not_held_back_for_ever() -> None:
    """Neither by a backtick nor by a bracket that nobody closes."""
    _, _, settled = SafeText().feed("see ` and < " + "word " * 1_000)
    assert len(settled) > 4_000
