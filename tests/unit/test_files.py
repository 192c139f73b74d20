"""Which files may be moved: their names, their sizes, what is text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.errors import BadRequest, Invalid, TooLarge
from swarm.domain.model.files import (
    COMMENT_CHARACTERS,
    NAME_BYTES,
    TITLE_CHARACTERS,
    Counted,
    as_text,
    check_name,
    check_size,
    may_be_text,
    new_file,
)
from tests.support.every import every

pytestmark = pytest.mark.req("LOOP-20")


@every(
    ("name", "rule"),
    [
        ("", "empty"),
        (" \t", "empty"),
        ("../x", "path separator"),
        ("a/b", "path separator"),
        ("a\\b", "path separator"),
        ("/etc/passwd", "path separator"),
        (".", "dot"),
        ("..", "dot"),
        (".bashrc", "dot"),
        ("a\nb", "control"),
        ("a\tb", "control"),
        ("a\0b", "control"),
        ("a\x7f", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("a\ud800b", "control"),
        ("gnp\u202egpj.exe", "invisible"),
        ("a\u200bb", "invisible"),
        ("ä" * 128, "longer"),
        ("x" * 256, "longer"),
    ],
)
def test_a_name_that_means_something_to_a_file_system_is_refused_by_its_rule(name: str, rule: str) -> None:
    with pytest.raises(Invalid, match=rule) as caught:
        check_name(name)
    assert list(caught.value.fields) == ["name"]


@every(
    "name",
    [
        "a",
        "report (1).csv",
        "Übersicht.txt",
        "a..b",
        "名前",
        "10\u202fAM.png",
        "x" * NAME_BYTES,
        "ä" * 127,
        "👩\u200d💻",
    ],
)
def test_an_ordinary_name_is_taken(name: str) -> None:
    check_name(name)


@given(st.text(max_size=300))
def test_a_name_that_is_taken_is_one_component_of_a_path(name: str) -> None:
    try:
        check_name(name)
    except Invalid:
        return
    assert 0 < len(name.encode()) <= NAME_BYTES
    assert not name.startswith(".")
    assert not set("/\\\0\n\r") & set(name)


def test_a_new_file_has_a_size_within_the_cap() -> None:
    assert new_file("x", 5, cap_bytes=5).size_bytes == 5
    with pytest.raises(TooLarge):
        new_file("x", 6, cap_bytes=5)
    with pytest.raises(TooLarge, match="6 bytes; at most 5"):
        check_size(6, 5)
    with pytest.raises(Invalid, match="empty"):
        new_file("x", 0, cap_bytes=5)


def test_title_and_comment_lose_what_nobody_sees_and_have_a_limit() -> None:
    file = new_file("x", 1, title=" a\u202eb ", comment=" \u200b ", cap_bytes=5)
    assert (file.title, file.comment) == ("ab", None)
    for field, most in (("title", TITLE_CHARACTERS), ("comment", COMMENT_CHARACTERS)):
        new_file("x", 1, cap_bytes=5, **{field: "y" * most})
        with pytest.raises(Invalid) as caught:
            new_file("x", 1, cap_bytes=5, **{field: "y" * (most + 1)})
        assert list(caught.value.fields) == [field]


@every(
    ("content", "text"),
    [(b"a,b", "a,b"), ("ä\n".encode(), "ä\n"), (b"\xef\xbb\xbfa", "a"), (b"", ""), (b"a\0", None), (b"\xff", None)],
    ids=["ASCII", "UTF-8", "with a byte order mark", "nothing", "NUL", "not UTF-8"],
)
def test_text_is_utf_8_without_nul(content: bytes, text: str | None) -> None:
    assert as_text(content) == text


def test_only_what_could_be_text_is_looked_at() -> None:
    assert all(may_be_text(kind) for kind in (None, "text/csv", "application/json", "image/svg+xml", "x"))
    assert not any(may_be_text(kind) for kind in ("image/png", "video/mp4", "application/pdf", "application/zip"))


@given(st.lists(st.binary(max_size=5), max_size=5), st.integers(-2, 2))
def test_content_passes_only_in_the_announced_size(pieces: list[bytes], too_many: int) -> None:
    whole = b"".join(pieces)

    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    seen: list[bytes] = []

    async def passes() -> None:
        async for chunk in Counted(chunks(), len(whole) + too_many):
            seen.append(chunk)

    if too_many == 0:
        asyncio.run(passes())
        assert b"".join(seen) == whole
    else:
        with pytest.raises(BadRequest):
            asyncio.run(passes())
        assert sum(map(len, seen)) <= max(len(whole) + too_many, 0)
