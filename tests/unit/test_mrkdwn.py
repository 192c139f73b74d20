"""What an agent writes is safe in Slack, loses nothing when it is cut, and hides nothing."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.text.cutting import MIN_LIMIT, cut, split, tables
from swarm.domain.text.slack_text import escape, for_markdown, preview, safe, unescape
from swarm.domain.text.tables import with_one_table
from swarm_base.characters import Visible, strip_invisible
from tests.support.every import every

PEOPLE = frozenset({"U1ALICE", "W2BOB"})
LIVE = re.compile(
    r"<(?:@(?:U1ALICE|W2BOB)|#[CG][A-Z0-9]+|(?:https?://|mailto:)[^\s<>|]+(?:\|[^<>|\n]+)?)>", re.IGNORECASE
)
PING = re.compile(r"(?<![A-Za-z0-9])@(?:channel|here|everyone)(?![A-Za-z0-9])", re.IGNORECASE)

# Text that is likely to be trouble: the pieces of markup in any order, between any characters.
TROUBLE = st.lists(
    st.sampled_from(["<", ">", "!", "@", "#", "|", "&", "`", "```", "~~~", "~~~~", "\n", " ", "\t", "\x00", "a\u0301"])
    | st.sampled_from(["channel", "here", "everyone", "U1ALICE", "U3EVE", "C1", "https://a.org", "mailto:", "a@b.org"])
    | st.sampled_from(["&lt;", "&gt;", "&amp;", "<!channel>", "<@U3EVE>", "<@U1ALICE>", "<https://a.org|", "@here"])
    | st.sampled_from(["\ud83d", "\udc00", "\u200b", "\u2028", "py"])
    | st.text(max_size=4),
    max_size=30,
).map("".join)


@dataclass(frozen=True)
class Block:
    """A code block as a simple reading of the text finds it, line by line."""

    opening: str
    code: list[str]
    is_closed: bool


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    opening, code = "", list[str]()
    for line in text.split("\n"):
        if opening and line.strip() and set(line.strip()) == {opening.strip()[0]} and len(line.strip()) >= run(opening):
            found.append(Block(opening, code, True))
            opening, code = "", []
        elif opening:
            code.append(line)
        elif run(line) >= 3:
            opening = line
    return [*found, Block(opening, code, False)] if opening else found


def run(line: str) -> int:
    """How many backticks or tildes a line begins with."""
    line = line.strip()
    return max(len(line) - len(line.lstrip("`")), len(line) - len(line.lstrip("~")))


def open_fence(text: str) -> str:
    """The opening line of the code block that is open where a text ends."""
    return next((block.opening for block in blocks(text) if not block.is_closed), "")


# --- Safe to post -------------------------------------------------------------------------------------------------


@pytest.mark.req("LOOP-08")
@every(
    ("written", "posted"),
    [
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("<!channel> <!here> <!everyone>", "&lt;!channel&gt; &lt;!here&gt; &lt;!everyone&gt;"),
        ("<!subteam^S1|team> <!date^1^{date}|x>", "&lt;!subteam^S1|team&gt; &lt;!date^1^{date}|x&gt;"),
        ("<!channel|x> < !channel>", "&lt;!channel|x&gt; &lt; !channel&gt;"),
        ("<@U1ALICE> and <@U3EVE>", "<@U1ALICE> and &lt;@U3EVE&gt;"),
        ("<@U1ALICE|admin>", "<@U1ALICE>"),
        ("<#C1> <#G2|general>", "<#C1> <#G2>"),
        ("<https://a.org/x?a=1&b=2>", "<https://a.org/x?a=1&amp;b=2>"),
        ("<https://a.org/x?a=1&amp;b=2|R&amp;D>", "<https://a.org/x?a=1&amp;b=2|R&amp;D>"),
        ("<HTTP://a.org|here you are>", "<HTTP://a.org|here you are>"),
        ("<mailto:bob@a.org|Bob>", "<mailto:bob@a.org|Bob>"),
        ("<javascript:alert(1)|x>", "&lt;javascript:alert(1)|x&gt;"),
        ("<https://a.org/a b|x>", "&lt;https://a.org/a b|x&gt;"),
        ("<https://a.org/\u202egpj.exe|x>", "<https://a.org/gpj.exe|x>"),
        ("<docs|https://a.org/x?a=1&b=2>", "<https://a.org/x?a=1&amp;b=2|docs>"),
        ("<bank.example|https://evil.example>", "bank.example (<https://evil.example>)"),
        ("<!here|https://a.org>", "&lt;!here|https://a.org&gt;"),
        ("[bank\u3002example](https://evil.example)", "bank\u3002example (https://evil.example)"),
        ("[bank\u2024example](https://evil.example)", "bank\u2024example (https://evil.example)"),
        ("[\uff42\uff41nk\uff0eexample](https://bank.example)", "[\uff42\uff41nk\uff0eexample](https://bank.example)"),
        ("[bank.example][1]\n\n[1]: https://evil.example", "[bank.example][1]\n\n\\[1]: https://evil.example"),
        ("> 1. [b & c]: <https://evil.example>", "> 1. \\[b &amp; c]: <https://evil.example>"),
        ("a [1]: b", "a [1]: b"),
        ("これは**「太字」**です", "これは\u200a**「太字」**\u200aです"),
        ("~~(古い)~~値段: **重要:**今日", "~~(古い)~~\u200a値段: **重要:**\u200a今日"),
        ("你好，**世界**很大（**好**）", "你好，**世界**很大（**好**）"),
        ("안녕**<@U1ALICE>**님, **`code`**를", "안녕\u200a**<@U1ALICE>**\u200a님, **`code`**\u200a를"),
        ("**C++**는 **注意：**API ***（三）***字", "**C++**\u200a는 **注意：**\u200aAPI ***（三）***\u200a字"),
        ("字**~~（旧）~~**新\n，**世界**很大", "字\u200a**~~（旧）~~**\u200a新\n，**世界**很大"),
        ("2**(3)**x \\**（a）", "2**(3)**x \\**（a）"),
        ("これは**太字**です `は**「a」**で`", "これは**太字**です `は**「a」**で`"),
        ("<https://a.org|a|b>", "&lt;https://a.org|a|b&gt;"),
        ("<https://a.org|<!here>>", "&lt;https://a.org|&lt;!here&gt;&gt;"),
        ("<https://a.org|&lt;!here&gt;>", "<https://a.org|&lt;!here&gt;>"),
        ("<https://a.org|@here>", "<https://a.org|@\u2060here>"),
        ("<https://a.org|\u200b>", "<https://a.org>"),
        ("&lt;!channel&gt; &amp;lt;", "&amp;lt;!channel&amp;gt; &amp;amp;lt;"),
        ("@channel @Here, _@everyone_", "@\u2060channel @\u2060Here, _@\u2060everyone_"),
        ("bob@here.org @hereafter", "bob@here.org @hereafter"),
        ("x@here", "x@\u2060here"),
        ("https://a.org/@here", "https://a.org/@here"),
        ("@\x00here", "@\u2060here"),
        ("> quoted > twice\n>> deeper\n  > indented", "> quoted &gt; twice\n>> deeper\n  > indented"),
        ("`<@U1ALICE>` <@U1ALICE>", "`&lt;@U1ALICE&gt;` <@U1ALICE>"),
        ("``a ` <@U1ALICE>`` x", "``a ` &lt;@U1ALICE&gt;`` x"),
        ("it's 5` long <@U1ALICE>", "it's 5` long <@U1ALICE>"),
        ("```\n> a && <@U1ALICE>\n```\n> b", "```\n&gt; a &amp;&amp; &lt;@U1ALICE&gt;\n```\n> b"),
        ("~~~~ c\n```\n<#C1>\n~~~\n~~~~\n<#C1>", "~~~~ c\n```\n&lt;#C1&gt;\n~~~\n~~~~\n<#C1>"),
        ("```\nnever closed <#C1>", "```\nnever closed &lt;#C1&gt;"),
        ("```a``` <#C1>\n<#C1>", "```a``` <#C1>\n<#C1>"),
        ("```\n``` x <#C1>\n```", "```\n``` x &lt;#C1&gt;\n```"),
        ("a\x00b\x1b[1mc\x7fd\x85e", "ab[1mcd\ne"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("\ud800 \udc00 \ud83d\ude00", "\ufffd \ufffd \U0001f600"),
        ("", ""),
    ],
)
def test_an_agents_text_is_escaped_and_only_what_was_checked_is_live(written: str, posted: str) -> None:
    assert safe(written, PEOPLE) == posted


@pytest.mark.req("LOOP-08")
@every(
    ("written", "block"),
    [
        ("a & b, R&amp;D", "a &amp; b, R&amp;amp;D"),
        ("[a & b](https://a.org/?x=1&y=2)", "[a &amp; b](https://a.org/?x=1&y=2)"),
        ('[a](https://a.org/?x=1&y=2 "R&D") &', '[a](https://a.org/?x=1&y=2 "R&amp;D") &amp;'),
        ("![a](https://a.org/?x=1&y=2)", "![a](https://a.org/?x=1&y=2)"),
        (
            "<https://a.org/?x=1&y=2|a & b> & <https://a.org/?x&y>",
            "<https://a.org/?x=1&y=2|a &amp; b> &amp; <https://a.org/?x&y>",
        ),
        (
            "[a](https://a.org/?x=a|b&y=2) <https://a.org/?x&y|x&y>",
            "[a](https://a.org/?x=a|b&y=2) <https://a.org/?x&y|x&amp;y>",
        ),
        ("www.a.org/?x&y [a](slack://x?a&b)", "www.a.org/?x&y [a](slack://x?a&b)"),
        ("see https://a.org/?x=1&y=2 & go", "see https://a.org/?x=1&y=2 &amp; go"),
        ("[1]: https://a.org/?x=1&y=2", "\\[1]: https://a.org/?x=1&y=2"),
        ("[write](mailto:a@b.org?subject=x&body=y)", "[write](mailto:a@b.org?subject=x&body=y)"),
        ("`https://a.org/?x&y` ```https://a.org/?x&y```", "`https://a.org/?x&amp;y` ```https://a.org/?x&amp;y```"),
        ("```\nhttps://a.org/?x&y\n```", "```\nhttps://a.org/?x&amp;y\n```"),
        ("https://a.org/?q=&lt;!here&gt;", "https://a.org/?q=&lt;!here&gt;"),
        ("https://a.org/?q=<!here>", "https://a.org/?q=&lt;!here&gt;"),
    ],
)
def test_in_markdown_blocks_an_ampersand_stays_raw_in_the_targets_of_links(written: str, block: str) -> None:
    assert for_markdown(safe(written)) == block


@pytest.mark.req("LOOP-08")
@given(TROUBLE)
def test_raw_targets_make_no_markup(written: str) -> None:
    posted = safe(written, PEOPLE)
    assert re.findall("[<>]", for_markdown(posted)) == re.findall("[<>]", posted)


@pytest.mark.req("LOOP-08")
def test_nobody_may_be_mentioned_unless_the_caller_says_so() -> None:
    assert safe("<@U1ALICE>") == "&lt;@U1ALICE&gt;"


@pytest.mark.req("LOOP-08")
@given(TROUBLE)
def test_whatever_an_agent_writes_pings_nobody_and_makes_no_markup_of_its_own(written: str) -> None:
    posted = safe(written, PEOPLE)
    plain = LIVE.sub("", posted)
    assert "<" not in plain
    assert all(">" not in line.lstrip(" >") for line in plain.split("\n"))
    assert not re.search(r"&(?!amp;|lt;|gt;)", posted)
    assert not PING.search(re.sub(r"https?://\S+", "URL", posted))
    posted.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", posted)


@pytest.mark.req("LOOP-08")
@given(st.text("<>&;@!|#ltampg hereU1ALICE\n", max_size=60))
def test_a_reader_sees_in_code_what_the_agent_wrote(code: str) -> None:
    written = f"```\n{code}\n```"
    assert unescape(safe(written, PEOPLE)).replace("\u2060", "") == written


@given(st.text())
def test_escaping_can_be_undone(text: str) -> None:
    assert unescape(escape(text)) == text


HEAD = "| a | b |\n|---|---|"
ROW = "| 1 | 222 |\n"
SHORT = "a|b\n-|-\n"
LINE = "1|22222222\n"


@pytest.mark.req("STREAM-05")
@every(
    ("text", "parts"),
    [
        ("a | b", ["a | b"]),
        (f"x\n\n{HEAD}\n{ROW}\ny", [f"x\n\n{HEAD}\n{ROW}\ny"]),
        (f"{HEAD}\n{ROW}\nthen\n\n{HEAD}\n{ROW}z", [f"{HEAD}\n{ROW}".rstrip(), f"then\n\n{HEAD}\n{ROW}z"]),
        (f"{HEAD}\n{ROW * 99}", [f"{HEAD}\n{ROW * 99}"]),
        (f"{HEAD}\n{ROW * 100}x", [f"{HEAD}\n{ROW * 99}".rstrip(), f"{HEAD}\n{ROW}x"]),
        ("a|b\n-|-\n1|2", ["a|b\n-|-\n1|2"]),
        ("a|" * 20 + "\n" + "-|" * 20, ["a|" * 20 + "\n" + "-|" * 20]),
        ("a|" * 21 + "\n" + "-|" * 21 + "\nx|```", ["````\n" + "a|" * 21 + "\n" + "-|" * 21 + "\nx|```\n````"]),
        (f"{HEAD}\n|{'x' * 10_001}|", [f"```\n{HEAD}\n|{'x' * 10_001}|\n```"]),
        (f"```\n{HEAD}\n```\n{HEAD}", [f"```\n{HEAD}\n```\n{HEAD}"]),
        (f"> {HEAD}".replace("\n", "\n> ") + "\n> 1|2" * 100, None),
        (f"- {HEAD}".replace("\n", "\n  ") + "\n  1|2" * 100, None),
        (f"\t{HEAD}".replace("\n", "\n\t") + "\n\t1|2" * 100, None),
        ("a | b\n- | -\n" + LINE * 100, None),
        (f"{HEAD}\n\na | b | c\n|---|---|", [f"{HEAD}\n\na | b | c\n|---|---|"]),
    ],
)
def test_a_block_has_one_table_of_a_size_that_slack_takes(text: str, parts: list[str] | None) -> None:
    """None: the last row is below the header again."""
    lines = text.rstrip("\n").split("\n")
    given = ["\n".join(lines[:101]), "\n".join([*lines[:2], lines[-1]])]
    shown = with_one_table(text, tables(text))
    assert shown == parts if parts else [part.rstrip("\n") for part in shown] == given


# --- Cut to size --------------------------------------------------------------------------------------------------

LIMITS = st.integers(MIN_LIMIT, 160)
WORDS = st.lists(st.text("abcdefg", min_size=1, max_size=12), min_size=1, max_size=25).map(" ".join)
PARAGRAPHS = st.lists(WORDS, min_size=1, max_size=4).map("\n".join)
UNDIVIDED = st.sampled_from(["&amp;", "&lt;", "<https://a.org|two words>", "<@U1ALICE>", "word", "字", "`a b`"]) | (
    st.sampled_from(["e\u0301", "\U0001f469\u200d\U0001f680", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea"])
)
BREAKS = st.sampled_from([" ", "\n", "\n\n"])
# Blocks as agents write them; the longer fence holds a shorter one.
CODE = st.builds(
    lambda fence, info, lines: "\n".join([fence + info, *lines, fence]),
    st.sampled_from(["```", "~~~", "````", "  ```"]),
    st.sampled_from(["", "python", "js title"]),
    st.lists(
        WORDS.map(lambda line: line[:70]) | st.sampled_from(["", "    x = 1", "x" * 90]), min_size=1, max_size=8
    ).filter(any),
)
NESTED = CODE.filter(lambda code: code.startswith("```") and "````" not in code).map(
    lambda code: f"`````md\n{code}\n`````"
)
DOCUMENTS = st.lists(PARAGRAPHS | CODE | NESTED, min_size=1, max_size=4).map("\n\n".join)


@pytest.mark.req("LOOP-08")
@given(TROUBLE | DOCUMENTS, LIMITS)
def test_cutting_loses_doubles_and_reorders_nothing(text: str, limit: int) -> None:
    parts = cut(text, limit)
    assert "".join(part.gap + part.body for part in parts) == text.rstrip()
    assert all(not part.gap.strip() for part in parts)
    assert [part.text for part in parts] == split(text, limit)


@pytest.mark.req("LOOP-08")
@given(TROUBLE.map(lambda text: text * 9) | DOCUMENTS, LIMITS)
def test_every_part_fits_and_shows_something(text: str, limit: int) -> None:
    assert all(len(part.text) <= limit and part.body.strip() for part in cut(text, limit))


@pytest.mark.req("LOOP-08")
@given(DOCUMENTS, LIMITS)
def test_a_code_block_is_closed_in_its_part_and_goes_on_in_the_next_with_its_info_string(text: str, limit: int) -> None:
    shown = ""
    for part in cut(text, limit):
        going_on = open_fence(shown)
        assert part.opened == (f"{going_on}\n" if going_on else "")
        assert open_fence(part.text) == ""
        shown += part.gap + part.body
        assert bool(part.closed) == bool(open_fence(shown))


@pytest.mark.req("LOOP-08")
@given(DOCUMENTS, LIMITS)
def test_no_part_shows_an_empty_code_block(text: str, limit: int) -> None:
    assert all(any(block.code) for part in split(text, limit) for block in blocks(part))


@pytest.mark.req("LOOP-08")
@given(st.lists(UNDIVIDED, min_size=20, max_size=60) | st.lists(UNDIVIDED | BREAKS, max_size=80), LIMITS)
def test_an_escape_a_link_or_a_character_as_a_reader_sees_it_is_never_divided(pieces: list[str], limit: int) -> None:
    text = "".join(pieces)
    borders = {0}
    for piece in pieces:
        borders.add(max(borders) + len(piece))
    words = {found.start() + offset for found in re.finditer("word", text) for offset in range(4)}
    at = 0
    for part in cut(text, limit):
        at += len(part.gap)
        assert at in borders | words
        at += len(part.body)
        assert at in borders | words


@pytest.mark.req("LOOP-08")
@every(
    ("text", "parts"),
    [
        ("", []),
        (" \n\t\n ", []),
        ("short", ["short"]),
        ("x" * 64 + "\n", ["x" * 64]),
        ("x" * 65, ["x" * 64, "x"]),
        ("a" * 40 + "\n\n" + "b" * 10 + "\n" + "c" * 20, ["a" * 40, "b" * 10 + "\n" + "c" * 20]),
        ("a" * 40 + " b\n" + "c" * 10 + " " + "d" * 20, ["a" * 40 + " b", "c" * 10 + " " + "d" * 20]),
        ("a" * 40 + " " + "b" * 40, ["a" * 40, "b" * 40]),
        ("a" * 62 + " ```b", ["a" * 61, "a ```b"]),
        ("a\n" + "    " + "b" * 62, ["a\n    " + "b" * 58, "bbbb"]),
        ("a" * 60 + "\n    b c", ["a" * 60, "    b c"]),
        (" " * 500 + "a", ["a"]),
        ("a" * 60 + "&amp;", ["a" * 60, "&amp;"]),
        ("a" + "🇩🇪" * 33, ["a" + "🇩🇪" * 31, "🇩🇪🇩🇪"]),
        ("字" * 63 + "**字**", ["字" * 63, "**字**"]),
        ("字" * 60 + "`a字b字c`", ["字" * 60, "`a字b字c`"]),
        ("abc<" + "d" * 62 + ">", ["abc", "<" + "d" * 62 + ">"]),
        ("<" + "d" * 80 + ">", ["<" + "d" * 63, "d" * 17 + ">"]),
        ("```\n" + "a" * 40 + "\n```  \n" + "b" * 40, ["```\n" + "a" * 40 + "\n```", "b" * 40]),
        ("a" * 55 + "\n```py\n" + "b" * 40 + "\n```", ["a" * 55, "```py\n" + "b" * 40 + "\n```"]),
        ("```\n" + "b" * 56 + "\n```\nc", ["```\n" + "b" * 56 + "\n```", "c"]),
        ("```\n" + "b" * 57 + "\n```\nc", ["```\n" + "b" * 56 + "\n```", "```\nb\n```\nc"]),
        ("```\n" + "b" * 80 + "\n```", ["```\n" + "b" * 56 + "\n```", "```\n" + "b" * 24 + "\n```"]),
        ("```\n" + "b" * 54 + "\n" + "`" * 20 + "\nc", ["```\n" + "b" * 54 + "\n```", "```\n" + "`" * 20 + "\nc"]),
        ("```" + "b" * 50 + "\n" + "c" * 30 + "\n```", ["```" + "b" * 50, "c" * 30 + "\n```"]),
        (f"{SHORT}{LINE * 9}end", [f"{SHORT}{LINE * 5}".rstrip(), f"{SHORT}{LINE * 4}end"]),
        (f"{SHORT}{LINE * 4}\n{'p' * 40}", [f"{SHORT}{LINE * 4}".rstrip(), "p" * 40]),
        (f"```\n{SHORT}{LINE * 5}```", [f"```\n{SHORT}{LINE * 4}```", f"```\n{LINE}```"]),
    ],
)
def test_a_cut_falls_between_paragraphs_else_lines_else_words_else_anywhere(text: str, parts: list[str]) -> None:
    assert split(text, 64) == parts


@pytest.mark.req("LOOP-08")
def test_a_limit_without_room_for_a_code_block_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 64"):
        cut("text", MIN_LIMIT - 1)


@pytest.mark.req("LOOP-08")
@pytest.mark.parametrize(
    "piece", ["<", "`", "|", "a|b\n-|-\n", "x", "x `` ", "```\na\n```\n", "🇩🇪", "\u0301", "> ", "&amp;", "x  \n"]
)
def test_a_very_long_text_is_cut_without_loss_whatever_it_consists_of(piece: str) -> None:
    text = "x" + piece * (50_000 // len(piece))
    parts = cut(text, 3_000)
    assert "".join(part.gap + part.body for part in parts) == text.rstrip()
    assert len(parts) < 40
    assert len(safe(text)) >= len(text.rstrip())


# --- Links that deceive ---------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-04")
@every(
    ("written", "posted"),
    [
        ("<https://evil.example|https://bank.example>", "https://bank.example (<https://evil.example>)"),
        ("[bank.example](https://evil.example)", "bank.example (https://evil.example)"),
        ("[log in at www.bank.de](https://evil.example/a)", "log in at www.bank.de (https://evil.example/a)"),
        ("[x [bank.example] y](https://evil.example)", "x [bank.example] y (https://evil.example)"),
        ("[bank.example](<https://evil.example> 'title')", "bank.example (https://evil.example)"),
        ("[bank.example](mailto:a@evil.example)", "bank.example (mailto:a@evil.example)"),
        ("[bank.example\u202e](https://evil.example)", "bank.example (https://evil.example)"),
        ("[b\u0430nk.com](https://bank.com)", "b\u0430nk.com (https://bank.com)"),  # a Cyrillic a
        ("[bank.com](https://b\u0430nk.com/x)", "bank.com (https://xn--bnk-6cd.com/x)"),
        ("[bank\\.ex*am*ple](https://evil.example)", "bank\\.ex*am*ple (https://evil.example)"),
        ("[__bank__.example](https://evil.example)", "__bank__.example (https://evil.example)"),
        ("[log in](https://bank.example@evil.example/)", "[log in](https://evil.example/)"),
        ("<https://bank.example@evil.example|log in>", "<https://evil.example|log in>"),
        ("https://bank.example@evil.example/x", "https://evil.example/x"),
        # and what does not
        ("[www.bank.example](https://bank.example/a)", "[www.bank.example](https://bank.example/a)"),
        ("[bank.example](https://login.bank.example/)", "[bank.example](https://login.bank.example/)"),
        ("[here](https://a.org/(x)?b=1&c)", "[here](https://a.org/(x)?b=1&amp;c)"),
        (
            "[README.md](https://a.org/b) [os.path](https://a.org)",
            "[README.md](https://a.org/b) [os.path](https://a.org)",
        ),
        ("[v1.2.3](https://a.org) [e.g. this](https://a.org)", "[v1.2.3](https://a.org) [e.g. this](https://a.org)"),
        ("[`a.b` <@U1ALICE>](https://a.org) @here", "[`a.b` <@U1ALICE>](https://a.org) @\u2060here"),
        ("https://me@a.org/x", "https://me@a.org/x"),
        ("`[bank.example](https://evil.example)`", "`[bank.example](https://evil.example)`"),
    ],
)
def test_a_label_that_names_another_place_shows_where_the_link_leads(written: str, posted: str) -> None:
    assert safe(written, PEOPLE) == posted


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("piece", ["[", "[a", "[a](", "[a](https://", "[a\\", "<https://a|"])
def test_links_that_never_end_take_no_time(piece: str) -> None:
    begun = time.process_time()
    safe(piece * (50_000 // len(piece)))
    assert time.process_time() - begun < 5


# --- What nobody can see ------------------------------------------------------------------------------------------

VISIBLE_FORMATS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
LINE_BREAKS = "\r\v\f\x85\u2028\u2029"
IGNORABLE = frozenset(
    (  # what Unicode's Default_Ignorable_Code_Point has beside the categories Cc and Cf
        *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0",
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0000, 0xE1000)),
    )
)


def is_hidden(character: str) -> bool:
    return character in IGNORABLE or unicodedata.category(character) in ("Cc", "Cf")


@pytest.mark.req("LOOP-05")
@pytest.mark.req("SEC-04")
def test_every_invisible_character_of_unicode_goes_and_every_other_one_stays() -> None:
    everything = {char: unicodedata.category(char) for char in map(chr, range(sys.maxunicode + 1))}
    assigned = {char for char, category in everything.items() if category not in ("Cn", "Cs")} | {*IGNORABLE}
    gone = {char for char in assigned if is_hidden(char)} - {*"\n\t", *VISIBLE_FORMATS, *LINE_BREAKS}
    hidden, others = "".join(sorted(gone)), "".join(sorted(assigned - gone - set(LINE_BREAKS)))
    assert strip_invisible(hidden) == ""
    assert strip_invisible("".join(f"a{char}b" for char in sorted(gone))) == "ab" * len(gone)
    assert strip_invisible(others) == others
    assert strip_invisible(LINE_BREAKS) == "\n" * len(LINE_BREAKS)


@pytest.mark.req("SEC-04")
@every(
    ("written", "read"),
    [
        ("❤\ufe0f 1\ufe0f\u20e3 ☎\ufe0e ‼\ufe0f", "❤\ufe0f 1\ufe0f\u20e3 ☎\ufe0e ‼\ufe0f"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 👍🏽", "👩\u200d💻 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 👍🏽"),
        ("می\u200cخواهم क्\u200dष ᠠ\u180b", "می\u200cخواهم क्\u200dष ᠠ\u180b"),
        ("❤\ufe0f\ufe0e\ufe0f\ufe00x", "❤\ufe0fx"),  # one, not a row of them
        ("👩\u200d\u200c\u200d💻", "👩\u200d💻"),
        ("a\ufe0fb 1\ufe0f a\u200db 字\u200d字", "ab 1 ab 字字"),
        ("葛\U000e0100城 字\ufe00", "葛城 字"),  # a byte for each ideograph otherwise
        ("😀" + "".join(map(chr, range(0xE0100, 0xE01F0))), "😀"),
        ("end\u200d", "end"),
        ("\u3164 \u115f", " "),
    ],
)
def test_what_is_invisible_stays_only_where_a_script_or_an_emoji_needs_it(written: str, read: str) -> None:
    assert strip_invisible(written) == read
    assert strip_invisible(read) == read


@pytest.mark.req("SEC-04")
@given(st.lists(st.sampled_from([*"ab1❤👩字یक\ufe0f\ufe0e\u200d\u200c\u20e3\u200b\r\n\ud83d\udc00"]), max_size=12))
def test_characters_one_by_one_give_what_the_whole_gives(characters: list[str]) -> None:
    state, shown = Visible(), ""
    for character in characters:
        state, more = state.feed(character)
        shown += more
    assert shown + state.end()[1] == strip_invisible("".join(characters))


@pytest.mark.req("LOOP-05")
def test_text_without_invisible_characters_can_be_encoded() -> None:
    assert strip_invisible("a\ud800b\ud83d\ude00\r\nc").encode() == "a\ufffdb😀\nc".encode()


@pytest.mark.req("LOOP-18")
def test_a_preview_is_the_first_two_hundred_characters_that_can_be_seen() -> None:
    assert preview("\u200b" * 300 + "ab\nc") == "ab\nc"
    assert preview("x" * 200) == "x" * 200
    assert preview("x" * 300) == "x" * 199 + "…"
    assert preview("xyz", limit=2) == "x…"
