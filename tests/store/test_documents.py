"""Documents in the database: found as a whole, replaced as a whole, dropped bit by bit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from swarm.clock import ManualClock, new_id
from swarm.domain.documents.documents import DocumentBatch, DocumentReading, FileState, IndexedFile, IndexedPiece
from swarm.domain.documents.query_words import terms_of, words_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import document_search, documents
from tests.support.world import look

pytestmark = pytest.mark.req("TOOL-06")

STATE = FileState(size=1, modified_ns=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def db(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


def reading(*texts: str, path: str = "a.md", title: str = "A") -> Sequence[DocumentBatch]:
    """A reading with one part for each text."""
    about = DocumentReading(id=new_id(), path=path, title=title, state=STATE, digest="|".join(texts))
    return [
        DocumentBatch(
            reading=about,
            pieces=(IndexedPiece(position=number, text=text, heading_words=words_of(title), words=words_of(text)),),
            begins=number == 0,
            ends=number == len(texts) - 1,
        )
        for number, text in enumerate(texts)
    ]


async def found(db: Database, query: str) -> list[str]:
    hits = await db.read(document_search.search, terms_of(query), 20)
    return [f"{hit.path}: {hit.text}" for hit in hits]


def count(tx: Transaction, table: str) -> int:
    return int(look(tx, f"SELECT count(*) AS n FROM {table}", {})[0]["n"])


async def counts(db: Database) -> list[int]:
    return [await db.read(count, table) for table in ("documents", "document_pieces", "document_words")]


async def drop_all(db: Database) -> int:
    """How many transactions it takes."""
    steps = 1
    while await db.write(documents.drop_some):
        steps += 1
    return steps


async def test_a_document_is_found_when_its_last_part_is_there_and_not_before(db: Database) -> None:
    first, last = reading("alpha", "beta")
    await db.write(documents.store, [first])
    assert await found(db, "alpha") == []
    assert await db.read(documents.get, "a.md") is None
    await db.write(documents.store, [last])
    assert await found(db, "alpha") == ["a.md: alpha"]
    document = await db.read(documents.get, "a.md")
    assert document is not None
    assert document.text == "alphabeta"


async def test_the_old_text_is_found_until_the_new_one_is_complete(db: Database) -> None:
    await db.write(documents.store, reading("alpha old"))
    first, last = reading("alpha new", "more")
    await db.write(documents.store, [first])
    assert await found(db, "alpha") == ["a.md: alpha old"]
    await db.write(documents.store, [last])
    assert await found(db, "alpha") == ["a.md: alpha new"]
    assert await found(db, "old") == []


async def test_what_was_replaced_is_dropped_bit_by_bit(db: Database) -> None:
    await db.write(documents.store, reading(*[f"old {number}" for number in range(120)]))
    await db.write(documents.store, reading("new"))
    assert await counts(db) == [2, 121, 121]
    assert await drop_all(db) == 4
    assert await counts(db) == [1, 1, 1]
    assert await found(db, "old") == []
    assert await found(db, "new") == ["a.md: new"]


async def test_a_reading_that_was_given_up_is_dropped_after_a_while(db: Database, clock: ManualClock) -> None:
    first, last = reading("alpha", "beta")
    await db.write(documents.store, [first])
    await drop_all(db)
    assert await counts(db) == [1, 1, 1]
    clock.advance(documents.ABANDONED_SECONDS + 1)
    await drop_all(db)
    assert await counts(db) == [0, 0, 0]
    await db.write(documents.store, [last])  # whoever was only slow has lost
    assert await counts(db) == [0, 0, 0]


async def test_the_same_text_is_not_stored_twice_but_how_the_file_looks_is_noted(db: Database) -> None:
    await db.write(documents.store, reading("alpha", "beta"))
    again = [
        replace(part, reading=replace(part.reading, id="second", state=FileState(size=1, modified_ns=2)))
        for part in reading("alpha", "beta")
    ]
    for part in again:
        await db.write(documents.store, [part])
    assert await counts(db) == [1, 2, 2]
    (known,) = await db.read(documents.known)
    assert known == IndexedFile(path="a.md", state=FileState(size=1, modified_ns=2), digest="alpha|beta")


async def test_of_two_readings_the_one_that_is_complete_last_is_found(db: Database) -> None:
    one_begins, one_ends = reading("alpha one", "end one")
    other_begins, other_ends = reading("alpha other", "end other")
    for part in (one_begins, other_begins, other_ends, one_ends):
        await db.write(documents.store, [part])
    assert await found(db, "alpha") == ["a.md: alpha one"]
    await drop_all(db)
    assert await counts(db) == [1, 2, 2]


async def test_a_document_that_has_gone_is_found_no_more(db: Database) -> None:
    await db.write(documents.store, [*reading("alpha"), *reading("alpha", path="b.md")])
    await db.write(documents.retire, ["a.md", "unknown.md"])
    assert await found(db, "alpha") == ["b.md: alpha"]
    assert await db.read(documents.get, "a.md") is None


async def test_a_word_in_the_title_counts_more_and_so_do_rare_words_and_several(db: Database) -> None:
    common = [reading(f"common word number {number}", path=f"c{number}.md", title="C")[0] for number in range(20)]
    await db.write(documents.store, common)
    await db.write(documents.store, reading("about something else", path="t.md", title="Printer"))
    await db.write(documents.store, reading("the printer is common", path="p.md", title="P"))
    await db.write(documents.store, reading("the toner is common", path="q.md", title="Q"))
    assert [hit.partition(":")[0] for hit in await found(db, "printer")] == ["t.md", "p.md"]
    assert (await found(db, "common toner"))[0].startswith("q.md")
    assert "c1" not in " ".join((await found(db, "toner printer common"))[:3])


async def test_words_written_together_are_better_found_together(db: Database) -> None:
    await db.write(documents.store, reading("gpt is older, 5 were sold", path="apart.md", title="X"))
    await db.write(documents.store, reading("they use gpt-5 and others", path="together.md", title="X"))
    await db.write(documents.store, [reading(f"filler {n}", path=f"{n}.md", title="X")[0] for n in range(8)])
    assert [hit.partition(":")[0] for hit in await found(db, "gpt-5")][:2] == ["together.md", "apart.md"]


async def test_an_exact_word_is_better_than_a_longer_one(db: Database) -> None:
    await db.write(documents.store, reading("portable things here", path="long.md", title="X"))
    await db.write(documents.store, reading("ports things here", path="word.md", title="X"))
    await db.write(documents.store, [reading(f"filler {n}", path=f"{n}.md", title="X")[0] for n in range(8)])
    assert [hit.partition(":")[0] for hit in await found(db, "port")] == ["word.md", "long.md"]


async def test_each_document_is_found_once_with_its_best_piece(db: Database) -> None:
    await db.write(documents.store, reading("beta", "alpha beta", "alpha alpha alpha beta gamma", path="a.md"))
    await db.write(documents.store, reading(*[f"alpha {number}" for number in range(60)], path="b.md"))
    await db.write(documents.store, [reading(f"filler {n}", path=f"{n}.md", title="X")[0] for n in range(80)])
    assert len(await found(db, "alpha")) == 2
    assert "a.md: alpha alpha alpha beta gamma" in await found(db, "alpha gamma")
    hits = await db.read(document_search.search, terms_of("alpha"), 1)
    assert len(hits) == 1
