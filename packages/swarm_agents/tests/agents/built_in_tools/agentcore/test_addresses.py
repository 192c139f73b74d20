"""Which addresses a browser at AWS may open."""

from __future__ import annotations

import pytest

from swarm_agents.built_in_tools.agentcore.browse import passages, refusal
from tests.support.every import every

pytestmark = pytest.mark.req("TOOL-04")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org",
        "http://example.org:8080/a?b=c#d",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://bücher.example/ä",
        "HTTPS://EXAMPLE.ORG/",
        "https://localhost.example.org/",
    ],
)
def test_public_addresses_may(url: str) -> None:
    assert refusal(url) is None


@every(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://127\u00ad.0.0.1/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.1./",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1%25eth0]/",
        "http://224.0.0.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "http://metadata.google.internal/",
        "http://printer.local/",
    ],
)
def test_private_addresses_may_not_in_any_spelling(url: str) -> None:
    why = refusal(url)
    assert why is not None
    assert "private network" in why
    assert refusal(url, has_private_addresses=True) is None


@every(
    "url",
    [
        "",
        "example.org",
        "//example.org",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "chrome://version",
        "ftp://example.org/",
        "view-source:https://example.org",
        "https://",
        "https://user:word@example.org/",
        "https://example.org\\@127.0.0.1/",
        "https://exa mple.org/",
        "https://example.org/\n",
        "https://example.org:port/",
        "https://[::1/",
        "https://example.org/" + "a" * 5_000,
    ],
)
def test_what_is_no_address_of_a_page_may_not(url: str) -> None:
    assert refusal(url, has_private_addresses=True) is not None


def test_a_short_text_stays_as_it_is() -> None:
    assert passages("one\ntwo", "anything", 100) == "one\ntwo"


def test_without_words_in_common_the_beginning_is_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    kept = passages(text, "extract content", 3_000)
    assert kept.startswith("line 0\nline 1\n")
    assert len(kept) <= 3_000


def test_parts_that_fit_are_kept_in_order_with_marks_between() -> None:
    pieces = [f"{'x' * 900} {number}\n" for number in range(20)]
    pieces[12], pieces[5] = "alpha beta " * 80 + "\n", "beta " * 150 + "\n"
    kept = passages("".join(pieces), "alpha beta", 2_500)
    assert 0 < kept.index("beta") < kept.index("alpha beta alpha")
    assert "[…]" in kept


def test_one_endless_line_is_cut() -> None:
    assert len(passages("a" * 100_000, "b", 2_000)) <= 2_000


def test_a_limit_smaller_than_a_part_still_gives_something() -> None:
    assert passages("a" * 5_000, "b", 300) == "a" * 300
