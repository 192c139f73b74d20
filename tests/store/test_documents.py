"""Documents in the database: found as a whole, replaced as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from swarm.domain.documents import DocumentReading, IndexedFile, IndexedPiece, terms_of, words_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import documents
from tests.support.world import look

pytestmark = pytest.mark.req("TOOL-06")


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url) as opened:
        yield opened


def reading(*texts: str, path: str = "a.md", title: str = "A", modified_ns: int = 1) -> DocumentReading:
    """A reading with one piece for each text."""
    return DocumentReading(
        file=IndexedFile(path=path, size=1, modified_ns=modified_ns, digest="|".join(texts)),
        title=title,
        pieces=[IndexedPiece(text=text, heading_words=words_of(title), words=words_of(text)) for text in texts],
    )


async def store(db: Database, *readings: DocumentReading) -> None:
    await db.write(documents.store, readings)


async def found(db: Database, query: str, limit: int = 20) -> list[str]:
    return [f"{hit.id}: {hit.excerpt}" for hit in await db.read(documents.search, terms_of(query), limit)]


def count(tx: Transaction, table: str) -> int:
    return int(look(tx, f"SELECT count(*) AS n FROM {table}", {})[0]["n"])


async def counts(db: Database) -> list[int]:
    return [await db.read(count, table) for table in ("documents", "document_pieces", "document_words")]


async def test_a_document_is_found_and_read_whole(db: Database) -> None:
    await store(db, reading("alpha", "beta"))
    assert await found(db, "alpha") == ["a.md: alpha"]
    document = await db.read(documents.get, "a.md")
    assert document is not None
    assert document.text == "alphabeta"


async def test_a_new_text_replaces_the_old_one(db: Database) -> None:
    await store(db, reading(*[f"alpha old {number}" for number in range(120)]))
    await store(db, reading("alpha new", "more"))
    assert await counts(db) == [1, 2, 2]
    assert await found(db, "alpha") == ["a.md: alpha new"]
    assert await found(db, "old") == []


async def test_the_same_text_is_not_stored_twice_but_the_state_of_the_file_is_noted(db: Database) -> None:
    await store(db, reading("alpha", "beta"))
    await store(db, replace(reading("alpha", "beta", modified_ns=2), title="not stored"))
    assert await counts(db) == [1, 2, 2]
    assert await db.read(documents.known) == [IndexedFile(path="a.md", size=1, modified_ns=2, digest="alpha|beta")]
    await store(db, replace(reading("other", modified_ns=3), pieces=None))  # another process has stored "alpha"
    assert await db.read(documents.known) == [IndexedFile(path="a.md", size=1, modified_ns=2, digest="alpha|beta")]


async def test_a_removed_document_is_not_found(db: Database) -> None:
    await store(db, reading("alpha"), reading("alpha", path="b.md"))
    await db.write(documents.remove, ["a.md", "unknown.md"])
    assert await found(db, "alpha") == ["b.md: alpha"]
    assert await counts(db) == [1, 1, 1]
    assert await db.read(documents.get, "a.md") is None


async def test_a_word_in_the_title_counts_more_and_so_do_rare_words_and_several(db: Database) -> None:
    common = [reading(f"common word number {number}", path=f"c{number}.md", title="C") for number in range(20)]
    await store(db, *common)
    await store(db, reading("about something else", path="t.md", title="Printer"))
    await store(db, reading("the printer is common", path="p.md", title="P"))
    await store(db, reading("the toner is common", path="q.md", title="Q"))
    assert [hit.partition(":")[0] for hit in await found(db, "printer")] == ["t.md", "p.md"]
    assert (await found(db, "common toner"))[0].startswith("q.md")
    assert "c1" not in " ".join((await found(db, "toner printer common"))[:3])


async def test_words_written_together_are_better_found_together(db: Database) -> None:
    await store(db, reading("gpt is older, 5 were sold", path="apart.md", title="X"))
    await store(db, reading("they use gpt-5 and others", path="together.md", title="X"))
    await store(db, *[reading(f"filler {n}", path=f"{n}.md", title="X") for n in range(8)])
    assert [hit.partition(":")[0] for hit in await found(db, "gpt-5")][:2] == ["together.md", "apart.md"]


async def test_an_exact_word_is_better_than_a_longer_one(db: Database) -> None:
    await store(db, reading("portable things here", path="long.md", title="X"))
    await store(db, reading("ports things here", path="word.md", title="X"))
    await store(db, *[reading(f"filler {n}", path=f"{n}.md", title="X") for n in range(8)])
    assert [hit.partition(":")[0] for hit in await found(db, "port")] == ["word.md", "long.md"]


async def test_a_rare_word_counts_as_rare_beside_common_words_that_begin_with_it(db: Database) -> None:
    await store(db, *[reading("portable things here", path=f"long{n}.md", title="X") for n in range(60)])
    await store(db, *[reading("toner things here", path=f"toner{n}.md", title="X") for n in range(10)])
    await store(db, reading("ports things here", path="word.md", title="X"))
    assert (await found(db, "port toner"))[0] == "word.md: ports things here"


async def test_each_document_is_found_once_with_its_best_piece(db: Database) -> None:
    await store(db, reading("beta", "alpha beta", "alpha alpha alpha beta gamma", path="a.md"))
    await store(db, reading(*[f"alpha {number}" for number in range(60)], path="b.md"))
    await store(db, *[reading(f"filler {n}", path=f"{n}.md", title="X") for n in range(80)])
    assert len(await found(db, "alpha")) == 2
    assert "a.md: alpha alpha alpha beta gamma" in await found(db, "alpha gamma")
    assert len(await found(db, "alpha", 1)) == 1
