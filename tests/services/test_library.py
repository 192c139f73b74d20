"""The library: what is in a folder is found, what changes there changes here, and nothing else is read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.domain.documents import PIECE_CHARACTERS, terms_of, words_of
from swarm.services.builtin import library_folder
from swarm.services.builtin.library import SCAN_SECONDS, DocumentLibrary, FolderIndex, Scanned
from swarm.services.builtin.library_folder import Folder, Inventory, Unreadable
from swarm.store.bridge.database import Database
from swarm.store.builtin import documents
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.req("TOOL-06")

LONG_AGO_NS = 1_600_000_000_000_000_000

TEXTS = {
    "vpn.md": "# VPN access\n\nContractors ask the service desk for a token.\n",
    "ops/printer.md": "# Printers\n\nThe printer on floor 3 needs a new drum. Ask NOT the desk.\n",
    "東京.txt": "東京大学の歴史について。機械学習の方法。\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    return folder


@pytest.fixture
def index(database: Database, place: Path) -> FolderIndex:
    return FolderIndex(database, Folder(path=place))


@pytest.fixture
def library(database: Database) -> DocumentLibrary:
    return DocumentLibrary(database)


@pytest.fixture
async def filled(index: FolderIndex, place: Path) -> None:
    for path, text in TEXTS.items():
        write(place / path, text)
    assert await index.scan() == Scanned(stored=3)


def write(path: Path, text: str | bytes, *, modified_ns: int = LONG_AGO_NS) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, ns=(modified_ns, modified_ns))


async def ids(library: DocumentLibrary, query: str) -> list[str]:
    return [document.id for document in await library.search(query)]


@pytest.mark.usefixtures("filled")
async def test_documents_are_found_with_title_and_excerpt_and_fetched_whole(library: DocumentLibrary) -> None:
    (found,) = await library.search("contractor tokens")
    assert (found.id, found.title) == ("vpn.md", "VPN access")
    assert "Contractors ask the service desk for a token." in found.excerpt
    document = await library.fetch(found.id)
    assert document is not None
    assert document.text == TEXTS["vpn.md"]
    assert (await library.search("printer"))[0].id == "ops/printer.md"
    assert await library.search("zebra") == []


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("TOKEN", {"vpn.md"}),
        ("contract", {"vpn.md"}),  # begins a longer word
        ("大学", {"東京.txt"}),
        ("学習", {"東京.txt"}),
        ("歴", {"東京.txt"}),
        ("ops", {"ops/printer.md"}),  # the folder that it is in
        ('"token" AND NOT desk', {"vpn.md", "ops/printer.md"}),
        ("NEAR(token drum, 2)", {"vpn.md", "ops/printer.md"}),
        ("words:token", {"vpn.md"}),
        ("-token +drum ^printer*", {"vpn.md", "ops/printer.md"}),
        ("to:ken & drum | <-> !x", {"ops/printer.md"}),
        ("tok'en\" drum') ; DROP TABLE documents --", {"ops/printer.md"}),
        ("%_\\ drum %s %(x)s :x", {"ops/printer.md"}),
        ("\0drum\0", {"ops/printer.md"}),
        ("🖨️drum🚀", {"ops/printer.md"}),
        ("\ud800 drum \udfff", {"ops/printer.md"}),
        ("\u202edrum\ufeff", {"ops/printer.md"}),
        ("drum " * 2_000, {"ops/printer.md"}),
        ("x" * 10_000, set()),
        ("(" * 10_000, set()),
        (" ".join(map(str, range(100_000, 110_000))) + " drum", set()),  # only the first words count
        ("📚", set()),
        ("", set()),
    ],
)
async def test_any_text_is_a_query_and_means_its_words(
    library: DocumentLibrary, query: str, expected: set[str]
) -> None:
    assert set(await ids(library, query)) == expected


@pytest.mark.usefixtures("filled")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("a* OR b")
@given(
    st.text()
    | st.lists(st.sampled_from(["drum", "NOT", '"', "*", "desk", "東京", "(", "'", "\\", "NEAR", "{", ":", "&"])).map(
        " ".join
    )
)
async def test_whatever_is_asked_what_is_found_has_a_word_of_it(library: DocumentLibrary, query: str) -> None:
    terms = terms_of(query)
    found = await library.search(query)
    texts = {path: words_of(f"{path} {text}") for path, text in TEXTS.items()}
    beginnings = tuple(term.words[-1] for term in terms)
    with_a_word = {path for path, words in texts.items() if any(word.startswith(beginnings) for word in words)}
    assert {document.id for document in found} <= with_a_word
    wanted = {
        path
        for path, words in texts.items()
        if set(words) & {word for term in terms for word in term.words if len(term.words) == 1}
    }
    assert wanted <= {document.id for document in found}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "document_id", ["", "../vpn.md", "./vpn.md", "/etc/passwd", "vpn.md\0", "\ud800", "x" * 100_000, "ops"]
)
async def test_only_ids_of_the_index_can_be_fetched(library: DocumentLibrary, document_id: str) -> None:
    assert await library.fetch(document_id) is None


@pytest.mark.usefixtures("filled")
async def test_the_number_of_results_is_bounded(library: DocumentLibrary, index: FolderIndex, place: Path) -> None:
    for number in range(30):
        write(place / f"{number}.md", f"common words {number}" * 100)
    await index.scan()
    assert [len(await library.search("common", limit)) for limit in (-1, 0, 1, 5, 20, 1000)] == [1, 1, 1, 5, 20, 20]
    assert all(len(found.excerpt) <= PIECE_CHARACTERS for found in await library.search("common", 20))


@pytest.mark.usefixtures("filled")
async def test_new_changed_and_deleted_files_are_followed(
    library: DocumentLibrary, index: FolderIndex, place: Path
) -> None:
    write(place / "new.md", "# New\n\nzebra\n")
    write(place / "vpn.md", "# VPN\n\nnow without\n", modified_ns=LONG_AGO_NS + 1)
    (place / "ops/printer.md").unlink()
    assert await index.scan() == Scanned(stored=2, removed=1)
    assert await ids(library, "zebra") == ["new.md"]
    assert await ids(library, "token") == []
    assert await ids(library, "now") == ["vpn.md"]
    assert await ids(library, "drum") == []
    assert await library.fetch("ops/printer.md") is None
    assert await index.scan() == Scanned()


@pytest.mark.usefixtures("filled")
async def test_a_file_that_looks_as_before_is_not_read_again_not_even_after_a_restart(
    database: Database, library: DocumentLibrary, index: FolderIndex, place: Path
) -> None:
    write(place / "vpn.md", TEXTS["vpn.md"].replace("token", "zebra"))  # of the same size and time
    for one in (index, FolderIndex(database, Folder(path=place))):
        assert await one.scan() == Scanned()
    assert await ids(library, "zebra") == []


async def test_a_file_that_was_only_just_written_is_read_again(
    library: DocumentLibrary, index: FolderIndex, place: Path
) -> None:
    now_ns = time.time_ns()
    write(place / "a.md", "zebra", modified_ns=now_ns)
    await index.scan()
    write(place / "a.md", "horse", modified_ns=now_ns)  # in the same tick of the file system's clock
    await index.scan()
    assert await ids(library, "horse") == ["a.md"]


@pytest.mark.both_engines
@pytest.mark.usefixtures("filled")
async def test_two_processes_whose_files_have_other_times_come_to_rest(
    database_url: str, index: FolderIndex, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "checkout of the other"
    for path, text in TEXTS.items():
        (elsewhere / path).parent.mkdir(parents=True, exist_ok=True)
        write(elsewhere / path, text, modified_ns=LONG_AGO_NS + 5)
    async with Database(database_url) as other:
        others = FolderIndex(other, Folder(path=elsewhere))
        for one in (others, index, others, index):
            assert await one.scan() == Scanned()
        before = await other.read(documents.known)
        for one in (others, index):
            assert await one.scan() == Scanned()
        assert await other.read(documents.known) == before


async def test_processes_that_scan_at_the_same_time_store_every_document_once(
    database_url: str, database: Database, library: DocumentLibrary, place: Path
) -> None:
    for number in range(40):
        write(place / f"{number}.md", f"# Document {number}\n\ncommon " + f"zebra{number} words " * 150)
    async with Database(database_url) as other, Database(database_url) as third:
        folder = Folder(path=place)
        await asyncio.gather(*(FolderIndex(each, folder).scan() for each in (database, other, third)))
    known = await database.read(documents.known)
    assert sorted(file.path for file in known) == sorted(f"{number}.md" for number in range(40))
    assert await FolderIndex(database, folder).scan() == Scanned()
    assert await ids(library, "zebra7") == ["7.md"]


async def test_only_documents_inside_the_folder_are_read(
    library: DocumentLibrary, index: FolderIndex, place: Path, tmp_path: Path
) -> None:
    write(tmp_path / "secret.md", "zebra outside")
    write(place / ".hidden.md", "zebra hidden")
    write(place / ".git/config.md", "zebra hidden")
    write(place / "program.py", "zebra")
    write(place / "new\nline.md", "zebra")
    write(place / "..data/mounted.md", "zebra mounted")  # as Kubernetes mounts a ConfigMap
    (place / "mounted.md").symlink_to("..data/mounted.md")
    (place / "link.md").symlink_to(tmp_path / "secret.md")
    (place / "broken.md").symlink_to("nowhere.md")
    (place / "loop.md").symlink_to("loop.md")
    (place / "folder").symlink_to(tmp_path)
    (place / "around").symlink_to(place)
    os.mkfifo(place / "pipe.md")
    (place / "directory.md").mkdir()
    assert await index.scan() == Scanned(stored=1)
    assert await ids(library, "zebra") == ["mounted.md"]


def test_a_file_that_became_a_link_or_a_pipe_since_it_was_found_is_not_read(place: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "secret")
    (place / "link.md").symlink_to(tmp_path / "secret.md")
    (place / "folder").symlink_to(tmp_path)
    os.mkfifo(place / "pipe.md")
    for path, reason in (
        ("link.md", "outside"),
        ("folder/secret.md", "outside"),
        ("../secret.md", "outside"),
        ("pipe.md", "regular"),
    ):
        with pytest.raises(Unreadable, match=reason):
            library_folder.read(Folder(path=place), path)


@pytest.mark.both_engines
async def test_files_that_are_no_text_or_too_large_are_left_out_and_the_log_says_so_once(
    database: Database, library: DocumentLibrary, place: Path
) -> None:
    index = FolderIndex(database, Folder(path=place, most_bytes=1_000))
    write(place / "binary.md", b"zebra\0zebra")
    write(place / "latin.txt", "zebra für alle".encode("latin-1"))
    write(place / "large.md", "zebra " * 1_000)
    write(place / "windows.txt", "zebra für alle\r\nneu".encode("utf-16"))
    write(place / "empty.md", "")
    with capture_logs() as logs:
        scans = [await index.scan() for _ in range(3)]
    assert scans == [Scanned(stored=2, skipped=3), Scanned(skipped=3), Scanned(skipped=3)]
    skipped = {line["path"] for line in logs if line["action"] == "documents_skip"}
    assert skipped == {"binary.md", "latin.txt", "large.md"}
    assert len(logs) == 4  # and that the index follows the folder
    assert await ids(library, "zebra") == ["windows.txt"]
    assert (await library.fetch("empty.md")) is not None
    write(place / "large.md", "zebra, shorter", modified_ns=LONG_AGO_NS + 1)
    write(place / "windows.txt", b"\0", modified_ns=LONG_AGO_NS + 1)
    assert await index.scan() == Scanned(stored=1, removed=1, skipped=3)
    assert await ids(library, "zebra") == ["large.md"]


@pytest.mark.usefixtures("filled")
async def test_a_folder_that_cannot_be_read_empties_nothing(
    database: Database, library: DocumentLibrary, index: FolderIndex, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = Inventory(files={}, unknown=("ops/",), left_out=0)
    with capture_logs() as logs:
        assert await FolderIndex(database, Folder(path=place / "missing")).scan() == Scanned()
        with monkeypatch.context() as patched:
            patched.setattr(library_folder, "look", lambda folder: partly)
            assert await index.scan() == Scanned(removed=2)
    assert [line["log_level"] for line in logs if line["action"] == "documents_scan"] == ["warning", "warning"]
    assert await ids(library, "drum token") == ["ops/printer.md"]


async def test_documents_beyond_the_limit_are_left_out(database: Database, place: Path) -> None:
    for name in "abc":
        write(place / f"{name}.md", "zebra")
    index = FolderIndex(database, Folder(path=place, most_documents=2))
    with capture_logs() as logs:
        assert [await index.scan(), await index.scan()] == [Scanned(stored=2), Scanned()]
    assert [line["event"] for line in logs if line["action"] == "documents_scan"] == [
        "1 documents beyond the limit are left out"
    ]


@pytest.mark.both_engines
async def test_a_large_document_is_found_by_its_last_words_and_read_whole(
    library: DocumentLibrary, index: FolderIndex, place: Path
) -> None:
    write(place / "large.txt", "\n\n".join(f"zebra{number} " + "word " * 150 for number in range(300)))
    await index.scan()
    assert await ids(library, "zebra299") == ["large.txt"]
    document = await library.fetch("large.txt")
    assert document is not None
    assert document.text == (place / "large.txt").read_text()


@pytest.fixture
async def running(database: Database, place: Path) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(FolderIndex(database, Folder(path=place), scan_seconds=0.05).run())
    yield task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_scans_at_the_start_and_again_and_survives_a_bad_scan(
    library: DocumentLibrary, place: Path, running: asyncio.Task[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "a.md", "zebra")
    await wait_until(lambda: ids(library, "zebra"))
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def broken(folder: Folder) -> Inventory:
        loop.call_soon_threadsafe(failed.set)
        raise RuntimeError("unforeseen")

    with monkeypatch.context() as patched:
        patched.setattr(library_folder, "look", broken)
        await asyncio.wait_for(failed.wait(), PATIENCE_SECONDS)
    write(place / "b.md", "horse")
    await wait_until(lambda: ids(library, "horse"))
    assert not running.done()


@pytest.mark.long
async def test_two_thousand_files_are_indexed_in_seconds_and_searched_in_milliseconds(
    library: DocumentLibrary, index: FolderIndex, place: Path
) -> None:
    for number in range(2_000):
        write(
            place / f"{number % 20}/{number}.md", f"# Document {number}\n\nzebra{number} " + "some common words " * 60
        )
    begun, used = time.monotonic(), time.process_time()
    assert await index.scan() == Scanned(stored=2_000)
    took, used = time.monotonic() - begun, time.process_time() - used
    again = time.monotonic()
    assert await index.scan() == Scanned()
    rescan = time.monotonic() - again
    waits = []
    for number in range(50):
        asked = time.monotonic()
        assert (await library.search(f"zebra{number} words"))[0].title == f"Document {number}"
        waits.append(time.monotonic() - asked)
    measured = f"{took:.1f} s, {used:.1f} s of CPU; again {rescan:.2f} s; a search {sorted(waits)[25] * 1000:.1f} ms"
    assert used < 10, measured
    assert sorted(waits)[25] < 0.5, measured


def test_the_scan_interval_is_the_documented_one() -> None:
    assert SCAN_SECONDS == 30
