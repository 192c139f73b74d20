"""Documents as text: words, titles, pieces, and the text of HTML pages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.documents import MOST_TERMS, PIECE_CHARACTERS, pieces_of, terms_of, text_of, title_of, words_of
from tests.support.every import every

pytestmark = pytest.mark.req("TOOL-06")

MARKDOWN = st.lists(
    st.sampled_from(["# Top\n", "## Sub\n", "words ", "\n", "\n\n", "```\n", "===\n", "x" * 700, "語" * 90])
)


@every(
    ("one", "other"),
    [
        ("Größe", "GRÖSSE"),
        ("été", "e\u0301te\u0301 ".upper()),
        ("max_tokens", "max tokens"),
        ("servers, queries; classes", "server query class"),
        ("ＧＰＴ－５", "gpt-5"),
        ("naïve—co\u00adoperate", "naive cooperate"),
        ("İstanbul", "istanbul"),
    ],
)
def test_words_are_the_same_however_they_are_written(one: str, other: str) -> None:
    assert words_of(one) == words_of(other)


def test_scripts_without_blanks_are_read_in_pairs_of_characters() -> None:
    assert words_of("東京都 Python入門") == ("東京", "京都", "都", "python", "入門", "門")
    assert words_of("हिन्दी में") == ("हिन्दी", "में")


@given(st.text())
def test_words_have_nothing_in_them_that_means_something_to_a_database(text: str) -> None:
    for word in words_of(text):
        assert word
        assert all(unicodedata.category(character)[0] in "LNM" for character in word), word.encode("unicode_escape")
        word.encode()


@given(st.text())
def test_a_query_asks_for_words_of_its_own_only_and_for_a_bounded_number(query: str) -> None:
    terms = terms_of(query)
    assert len(terms) <= MOST_TERMS
    assert {word for term in terms for word in term.words} <= set(words_of(query))


@every(
    ("text", "title"),
    [
        ("# The *guide* to [VPN](https://x.example)\n\nText", "The guide to VPN"),
        ("Text first\n\n## `later` ##\n", "later"),
        ("Guide\n=====\n\nText", "Guide"),
        ("=====\nGuide\n=====\n\nText", "Guide"),
        ("---\ntitle: 'From the front'\nx: 1\n---\n\n# Heading\n", "From the front"),
        ("```\n# a comment\n```\n\n# Real\n", "Real"),
        ("no heading\n\n---\n\nat all", None),
        ("", None),
    ],
)
def test_a_title_is_what_a_document_calls_itself(text: str, title: str | None) -> None:
    assert title_of(text) == title


@given(MARKDOWN.map("".join) | st.text())
def test_pieces_are_small_and_together_the_document(text: str) -> None:
    pieces = list(pieces_of(text))
    assert "".join(piece for piece, _ in pieces) == text
    assert all(0 < len(piece) <= PIECE_CHARACTERS for piece, _ in pieces)


def test_pieces_begin_at_headings_and_know_what_they_stand_below() -> None:
    text = "# Guide\n\nIntro.\n\n" + "".join(
        f"## Part {n}\n\n{'word ' * 80}\n\n### Deep {n}\n\n{'more ' * 80}\n\n" for n in (1, 2)
    )
    pieces = list(pieces_of(text))
    assert [piece.partition("\n")[0] for piece, _ in pieces] == ["# Guide", "### Deep 1", "## Part 2", "### Deep 2"]
    assert pieces[-1][1] == ["Guide", "Part 2", "Deep 2"]


def test_long_paragraphs_are_cut_between_words() -> None:
    words = " ".join(f"word{number}" for number in range(1000))
    assert [word for piece, _ in pieces_of(words) for word in piece.split()] == words.split()


def test_a_page_is_read_without_what_is_not_shown() -> None:
    page = (
        "<html><head><title>A &amp; B</title><style>x{}</style></head><body><script>alert(1)</script>"
        "<h2>Intro</h2><p>Hello  <b>w</b>orld<ul><li>one<li>two</ul><pre>a\n  b</pre>"
    )
    assert text_of(page) == "# A & B\n\n## Intro\n\nHello world\n\n- one\n- two\n\na\n  b"


@given(st.text(st.sampled_from("<>/!-&;abh1prescripttitle \n\"'=[]?")))
def test_any_text_is_a_page(page: str) -> None:
    text_of(page)


@pytest.mark.parametrize(
    "line", ["# a" + " " * 300_000 + "b", "[" * 300_000, "<" * 300_000, "=" * 300_000 + "x", "`" * 300_000]
)
def test_lines_that_try_ones_patience_take_no_time(line: str) -> None:
    text = f"text\n{line}\n{line}"
    title_of(text)
    assert "".join(piece for piece, _ in pieces_of(text)) == text


@pytest.mark.req("SEC-09")
@pytest.mark.parametrize(
    "part",
    ["<", "<a ", "<!--", "<?", "</", "</a", "<!x", "<![x", "<![CDATA[", '<a x="', "<a b='", "&#", "<svg>", "<a =="],
)
def test_a_page_of_markup_without_an_end_is_read_once(part: str) -> None:
    assert text_of(f"<h1>A page</h1>{part * 50_000}").startswith("# A page")


def test_numbers_of_any_length_are_text() -> None:
    assert text_of(f"a &#{'9' * 5000}; b &amp; c").endswith("; b &amp; c")
