"""Markup that is under way where an answer is divided is whole in one of its messages, formatted as in the undivided
text; what a message continues (a code block, a table, a quotation) is opened again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from swarm.domain.answers import state
from swarm.domain.answers.events import AgentEvent, Broken, Failed, Finished, TextDelta
from swarm.domain.answers.reducer import GrowForAll, StopRequested
from swarm.domain.answers.state import PageMode
from swarm.domain.text import cutting, tables
from swarm.domain.text.slack_text import for_markdown, safe
from swarm.slack.outgoing.answer_blocks import text_blocks
from tests.support.slack_model import Message, Request, Run

pytestmark = [pytest.mark.req("STREAM-05"), pytest.mark.req("STREAM-15")]

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PEOPLE = ["U1"]
INLINE = {"strong", "em", "s", "link"}
AROUND = {"blockquote": "quote", "list_item": "item", "heading": "heading", "th": "th", "td": "td"}

Seen = tuple[str, frozenset[str]]
"""A character and how it is formatted."""


def seen_in(pieces: Iterable[str]) -> list[Seen]:
    """What people see of the parts of an answer: every character but blanks, without headers that are repeated."""
    seen: list[Seen] = []
    header: list[Seen] = []
    for piece in pieces:
        shown = list(_characters(MARKDOWN.parse(piece), set()))
        begun = [one for one in shown if any(name.startswith("th") for name in one[1])][: len(header)]
        repeated = len(header) if header and shown[: len(header)] == header == begun else 0
        seen += shown[repeated:]
        tables_seen = [one for one in shown if any(name.startswith("th") for name in one[1])]
        header = tables_seen or header
    return seen


def _characters(tokens: Iterable[Token], formats: set[str]) -> Iterator[Seen]:
    column = 0
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        column = 0 if name == "tr" else column + (token.type in ("th_open", "td_open"))
        label = f"{AROUND.get(name, name)}{column if name in ('th', 'td') else ''}{token.attrGet('href') or ''}"
        if token.nesting == 1 and name in INLINE | set(AROUND):
            formats = formats | {label}
        elif token.nesting == -1 and name in INLINE | set(AROUND):
            formats = {one for one in formats if not one.startswith(AROUND.get(name, name))}
        elif token.type == "inline":
            yield from _characters(token.children or [], formats)
        elif token.content:
            kind = {"fence": f"fence {token.info}", "code_inline": "code"}.get(token.type)
            these = frozenset(formats | ({kind} if kind else set()))
            yield from ((character, these) for character in token.content if not character.isspace())


def parts(messages: Iterable[Message]) -> Iterator[str]:
    """The Markdown of each message, as Slack gets it: a post has blocks."""
    for message in messages:
        if message.mode is PageMode.POST:
            yield from (str(block["text"]) for block in text_blocks(message.text))
        else:
            yield for_markdown(message.text)


@pytest.mark.parametrize("ends", [Finished(), Broken(reason="it broke"), StopRequested(by="U2"), None])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("First this. **A bold te", "xt** and the end."),
        ("First this. A wo", "rd and the end."),
        ("这是第一句。**重要：", "注意**，然后结束。"),
        ("First this. ~~gone and ", "away~~ and so it is."),
        ("First this. See [the docs ", "here](https://a.org/?x=1&y=2) and so on."),
        ("First this. Ask <@U", "1> and so on."),
        ("First this.\n```py\nx = ", "1\ny = 2\n```\nDone."),
        ("First this.\n\n| a | b |\n", "|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"),
        ("First this.\n\n| a | b |\n|---|---|\n", "| 1 | 2 |\n| 3 | 4 |\n"),
        ("First this.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 ", "| 4 |\n| 5 | 6 |\n\nDone."),
        ("First this.\n\n1. one\n2. the second ", "goes on\n3. three\n"),
        ("First this.\n\n- one\n  - **nested ", "item**\n- two\n"),
        ("First this.\n> a quotation that ", "goes on\n> here\n"),
        ("First this.\n\n## A head", "ing\nText."),
        ("**A bold ", "text** at the very beginning."),
    ],
)
def test_what_is_under_way_at_the_switch_is_whole(before: str, after: str, ends: AgentEvent | Request | None) -> None:
    """Also if the agent goes on only after the stream was closed, or ends, fails or is stopped right then."""
    end = (7.0, Finished()) if ends is None else (1.2, ends)
    rest = [] if isinstance(ends, StopRequested) else [(6.0 if ends is None else 1.1, TextDelta(text=after))]
    run = Run().play([(0.0, TextDelta(text=before)), (1.0, GrowForAll()), *rest, end], mentionable=PEOPLE)
    said = before + (after if rest else "")
    assert seen_in(parts(run.messages)) == seen_in([for_markdown(safe(said, frozenset(PEOPLE)))])
    assert not any(message.is_live for message in run.messages if message.mode is PageMode.STREAM)


PIECES = (
    "word|longer-word|README_FIRST.md|5~10|&|a<b|👩\u200d👩\u200d👧|🇩🇪|e\u0301|<@U1>|<@U2>|<!channel>|@here|*em*|~~gone~~|"
    "https://a.org/?x=1&y=2|[a label](https://a.org/?x=1&y=2)|<https://a.org/?a&b>|中文，**重要：注意**。|`c & d`|"
    "これは**「太字」**です。|**bold text**|***both of them***|**see `x = 1` there**|**[the docs](https://a.org)**"
)
WORDS = st.sampled_from(PIECES.split("|"))
LINES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ROWS = st.lists(st.tuples(WORDS, WORDS).map("| {0[0]} | {0[1]} |".format), min_size=1, max_size=14)
PARAGRAPHS = st.lists(LINES, min_size=1, max_size=3).map("\n".join)
CODE = st.lists(WORDS | st.just("x" * 700) | st.just("| a | b |"), min_size=1, max_size=9)
BLOCKS = st.one_of(
    PARAGRAPHS,
    LINES.map("## {}".format),
    ROWS.map(lambda rows: "\n".join(["| head | b |", "|---|---|", *rows])),
    CODE.map(lambda lines: "\n".join(["```py", *lines, "```"])),
    st.lists(LINES, min_size=1, max_size=5).map(lambda lines: "\n".join(f"> {line}" for line in lines)),
    st.lists(LINES, min_size=1, max_size=5).map(lambda lines: "\n".join(f"- {line}\n  - nested" for line in lines)),
    st.lists(LINES, min_size=1, max_size=5).map(lambda lines: "\n".join(f"1. {line}" for line in lines)),
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=7).map(
    lambda blocks: "\n\n".join(block.replace("head", f"head{number}") for number, block in enumerate(blocks))
)


def small(patched: pytest.MonkeyPatch) -> None:
    """Small messages and tables, so that everything is divided."""
    patched.setattr(state, "STREAM_BYTES", 700)
    patched.setattr(state, "POST_BYTES", 600)
    patched.setattr(tables, "MAX_ROWS", 6)
    patched.setattr(cutting, "MAX_ROWS", 6)


@given(
    said=DOCUMENTS,
    cuts=st.lists(st.integers(0, 2_000), max_size=20),
    pauses=st.lists(st.sampled_from([0.0, 0.05, 0.5, 2.0]), min_size=21, max_size=21),
    switch=st.none() | st.floats(0, 15),
    mode=st.sampled_from([PageMode.STREAM, PageMode.POST]),
    end=st.sampled_from([Finished(), Failed(message="no")]),
)
def test_divided_anywhere_an_answer_looks_like_the_undivided_one(
    said: str,
    cuts: list[int],
    pauses: list[float],
    switch: float | None,
    mode: PageMode,
    end: AgentEvent,
) -> None:
    """In whatever pieces it comes, whenever others begin to take part, wherever a message is full."""
    ends, at = sorted({cut for cut in cuts if cut < len(said)}), 0.0
    events: list[tuple[float, AgentEvent | Request]] = [] if switch is None else [(switch, GrowForAll())]
    for begin, stop, pause in zip([0, *ends], [*ends, len(said)], pauses, strict=False):
        events.append((at := at + pause, TextDelta(text=said[begin:stop])))
    with pytest.MonkeyPatch.context() as patched:
        small(patched)
        run = Run(mode=mode).play([*events, (at + 0.1, end)], mentionable=PEOPLE)
        shown = list(parts(run.messages))
    assert seen_in(shown) == seen_in([for_markdown(safe(said, frozenset(PEOPLE)))])
    for message in run.messages:
        rows = [len(table.rows) for table in cutting.tables(message.text)]
        assert message.mode is PageMode.POST or (len(rows) <= 1 and max(rows, default=0) < 6)


HEAD = "| n | b |\n|---|---|\n"
WIDE = "| c " * 25 + "|\n" + "|---" * 25 + "|\n" + "".join(f"| w{n} " + "| c " * 24 + "|\n" for n in range(9))


@pytest.mark.parametrize("mode", list(PageMode))
@pytest.mark.parametrize("size", [3, 40, 100_000])
@pytest.mark.parametrize(
    "said",
    [
        "Rows:\n\n" + HEAD + "".join(f"| {n} | x |\n" for n in range(250)) + "\nDone.",
        f"One:\n\n{HEAD}| 1 | 2 |\n\nTwo:\n\n{HEAD}| 3 | 4 |\n\n{HEAD}| 5 | 6 |\n\nDone.",
        f"{HEAD}| 1 | {'long cell ' * 1_100}| \n| 2 | x |\n",
        f"Wide:\n\n{WIDE}\nDone.",
        WIDE,
    ],
    ids=["rows", "tables", "cell", "columns", "columns at the beginning"],
)
def test_a_table_that_slack_does_not_take_in_a_stream_is_cut_into_what_it_takes(
    said: str, size: int, mode: PageMode
) -> None:
    events = [(at / 50, TextDelta(text=said[at : at + size])) for at in range(0, len(said), size)]
    run = Run(mode=mode).play([*events, (len(said) / 50 + 1, Finished())])
    shown = list(parts(run.messages))
    for part in shown:
        found = cutting.tables(part)
        assert len(found) <= 1
        assert not any(table.is_refused or len(table.rows) >= 100 for table in found)
    words = re.findall(r"\w+", "\n".join(shown).replace(HEAD, ""))
    assert [word for word in words if word != "c"] == [
        word for word in re.findall(r"\w+", said.replace(HEAD, "")) if word != "c"
    ]
