"""Reading and writing files: within the work tree, plain ones, in parts."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from swarm_agents.built_in_tools.files import file_tools
from swarm_agents.toolbox.tool import ToolAnswer

pytestmark = pytest.mark.req("TOOL-05")

_MOST = 100
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE: see renameat2(2)


class Files:
    """The two tools on a tree, and what lies outside of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.outside = folder / "outside"
        for made in (self.root, self.outside):
            made.mkdir()
        (self.outside / "secret").write_text("secret")
        self._read, self._write = file_tools(self.root, most_bytes=_MOST)

    async def read(self, path: str, **more: Any) -> ToolAnswer:
        """Call file-read."""
        return await self._read.call({"path": path, **more})

    async def write(self, path: str, content: str = "new", **more: Any) -> ToolAnswer:
        """Call file-write."""
        return await self._write.call({"path": path, "content": content, **more})

    async def refuses(self, path: str, content: str) -> ToolAnswer | None:
        """What file-write would refuse."""
        return await self._write.refuse({"path": path, "content": content})

    def untouched(self) -> bool:
        """Whether nothing happened outside."""
        return {path.name: path.read_text() for path in self.outside.iterdir()} == {"secret": "secret"}

    def names(self) -> set[str]:
        """All that is in the tree."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """An empty tree."""
    return Files(tmp_path)


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("../outside/secret", "x"),
        ("/etc/x", "x"),
        (".git/config", "x"),
        (".git/new/hook", "x"),
        ("new/.git/hook", "x"),
        ("file/a", "x"),
        ("a", "x" * (_MOST + 1)),
        ("d", ""),
    ],
)
async def test_nobody_is_asked_for_a_write_that_is_refused_anyway(files: Files, path: str, content: str) -> None:
    for folder in ("d", ".git"):
        (files.root / folder).mkdir()
    (files.root / "file").write_text("")
    refusal = await files.refuses(path, content)
    assert refusal
    assert refusal.failed
    assert (await files.write(path, content)).failed


@pytest.mark.parametrize("path", ["a", "new/folder/a"])
async def test_asking_whether_a_write_is_refused_writes_nothing(files: Files, path: str) -> None:
    assert await files.refuses(path, "x") is None
    assert not files.names()
    assert not (await files.write(path, "x")).failed


async def test_what_is_written_is_read(files: Files) -> None:
    wrote = await files.write("docs/new/a.md", "Grüße\n")
    assert wrote == ToolAnswer(text="Wrote 8 bytes to docs/new/a.md.")
    assert await files.read("docs/new/a.md") == ToolAnswer(text="Grüße\n")
    assert files.names() == {"docs", "docs/new", "docs/new/a.md"}


async def test_a_file_is_appended_to(files: Files) -> None:
    await files.write("a", "one\n", append=True)
    assert (await files.write("a", "two\n", append=True)).text == "Appended 4 bytes to a."
    assert (files.root / "a").read_text() == "one\ntwo\n"


async def test_a_file_is_replaced_with_its_permissions(files: Files) -> None:
    script = files.root / "run"
    script.write_text("old")
    script.chmod(0o4755)
    await files.write("run", "new")
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755


async def test_a_file_that_has_another_name_elsewhere_is_not_changed_there(files: Files) -> None:
    os.link(files.outside / "secret", files.root / "same")
    assert not (await files.write("same", "new")).failed
    assert not (await files.write("same", "er", append=True)).failed
    assert (files.root / "same").read_text() == "newer"
    assert files.untouched()


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files.root / "a").write_text("old")

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fails)
    assert await files.write("a", "new") == ToolAnswer(text="It failed: No space left on device.", failed=True)
    monkeypatch.undo()
    assert files.names() == {"a"}
    assert (files.root / "a").read_text() == "old"


async def test_a_long_file_is_read_in_parts(files: Files) -> None:
    lines = [f"line {number}\n" for number in range(1, 41)]
    (files.root / "a").write_text("".join(lines))
    found: list[str] = []
    while len(found) < 40:
        text = (await files.read("a", offset=len(found) + 1)).text
        part, _, note = text.partition("[a continues; read from offset=")
        found += part.splitlines(keepends=True)
        assert not note or note == f"{len(found) + 1}, of 40 lines]"
    assert found == lines


async def test_some_lines_are_read(files: Files) -> None:
    (files.root / "a").write_text("1\n2\n3\n4")
    assert (await files.read("a", offset=2, limit=2)).text == "2\n3\n[a continues; read from offset=4, of 4 lines]"
    assert (await files.read("a", offset=4, limit=9)).text == "4"
    assert (await files.read("a", offset=5)).text == "a has 4 lines; there is no line 5."


async def test_a_line_that_is_too_long_is_read_as_far_as_it_goes(files: Files) -> None:
    (files.root / "a").write_text("x" + "ä" * _MOST)
    text = (await files.read("a")).text
    assert text == "x" + "ä" * ((_MOST - 1) // 2) + "\n[line 1 continues; it is too long to be read completely]"


async def test_lines_are_counted_beyond_what_is_read_at_once(files: Files) -> None:
    (files.root / "a").write_text("".join(f"{number:09}\n" for number in range(1, 20_001)))
    assert (await files.read("a", offset=13_000, limit=1)).text.startswith(
        "000013000\n[a continues; read from offset=13001"
    )


@pytest.mark.parametrize("content", [b"a\0b", b"\x89PNG\r\n", b"caf\xe9"])
async def test_a_binary_file_is_called_one(files: Files, content: bytes) -> None:
    (files.root / "a").write_bytes(content)
    answer = await files.read("a")
    assert answer.failed
    assert "binary" in answer.text


async def test_an_empty_file_is_called_one(files: Files) -> None:
    (files.root / "a").touch()
    assert await files.read("a") == ToolAnswer(text="a is empty.")


async def test_a_folder_is_listed(files: Files) -> None:
    (files.root / "b").mkdir()
    (files.root / "a").touch()
    assert (await files.read(".")).text == ". is a folder with 2 entries.\na\nb/"


async def test_a_link_within_the_tree_is_followed(files: Files) -> None:
    (files.root / "d").mkdir()
    (files.root / "l").symlink_to("d")
    (files.root / "d/up").symlink_to("../a")
    await files.write("l/up", "through")
    assert (files.root / "a").read_text() == "through"
    assert (files.root / "d/up").is_symlink()
    assert (await files.read("l/up")).text == "through"


_AWAY = [
    "../outside/secret",
    "/etc/passwd",
    "{outside}/secret",
    "d/../../outside/secret",
    "link/secret",
    "file-link",
    "absolute/secret",
    "hop/secret",
    "link/../outside/secret",
    "d/l/l/l/secret",
    "circle",
    "circle/a",
    "../tree/../outside/secret",
    "..",
    "link",
    "new-outside",
]


@pytest.mark.parametrize("path", _AWAY)
async def test_nothing_outside_is_read_or_written(files: Files, path: str) -> None:
    (files.root / "d").mkdir()
    (files.root / "link").symlink_to("../outside")
    (files.root / "file-link").symlink_to("../outside/secret")
    (files.root / "new-outside").symlink_to("../outside/new")
    (files.root / "absolute").symlink_to(files.outside)
    (files.root / "hop").symlink_to("d/l")
    (files.root / "d/l").symlink_to("../link")
    (files.root / "circle").symlink_to("circle")
    before = files.names()
    named = path.format(outside=files.outside)
    for answer in (
        await files.read(named),
        await files.write(named),
        await files.write(named, append=True),
        await files.write(f"{named}/deeper/file"),
    ):
        assert answer.failed
        assert answer.text.endswith(".")
        assert "secret" not in answer.text.replace("/secret", "")
    assert files.untouched()
    assert files.names() == before


@pytest.mark.parametrize(
    "path", [".git/config", ".git/hooks/pre-commit", "sub/.git", "sub/.git/new/x", ".GIT/config", "l/config", ".git"]
)
async def test_what_belongs_to_git_is_neither_read_nor_written(files: Files, path: str) -> None:
    (files.root / ".git").mkdir()
    (files.root / ".git/config").write_text("url = https://me:secret@host")
    (files.root / "l").symlink_to(".git")
    wrote, read = await files.write(path), await files.read(path)
    assert "git tool" in wrote.text
    assert wrote.failed
    assert read.failed
    assert not any(".git/" in name and name != ".git/config" for name in files.names())
    assert not (files.root / "sub/.git").exists()


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
async def test_only_plain_files_are_opened(files: Files, kind: str) -> None:
    path = files.root / "a"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("NOT TESTED HERE: only root makes devices")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    before = path.lstat()
    for answer in (await files.write("a"), await files.write("a", append=True)):
        assert answer.failed
    assert (await files.read("a")).failed is (kind != "folder")
    assert path.lstat().st_ino == before.st_ino


async def test_too_much_is_not_written(files: Files) -> None:
    answer = await files.write("a", "ä" * _MOST)
    assert answer == ToolAnswer(text="That is 200 bytes; at most 100 can be written at once.", failed=True)
    assert not files.names()


async def test_a_huge_file_is_not_opened(files: Files) -> None:
    with (files.root / "a").open("wb") as file:
        file.truncate(1 << 40)
    for answer in (await files.read("a"), await files.write("a", append=True)):
        assert answer.failed
        assert "1,099,511,627,776 bytes" in answer.text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("absent", "There is no file absent in the work tree."),
        ("absent/a", "There is no folder absent in the work tree."),
        ("a/b", "a is not a folder."),
        ("x\0y", "The path has a character that no program accepts (NUL, or an unpaired surrogate)."),
        ("\ud800", "The path has a character that no program accepts (NUL, or an unpaired surrogate)."),
        ("n" * 300, f"It failed: File name too long ({'n' * 300})."),
    ],
)
async def test_a_reading_that_fails_says_why(files: Files, path: str, why: str) -> None:
    (files.root / "a").touch()
    assert await files.read(path) == ToolAnswer(text=why, failed=True)


async def test_a_work_tree_that_is_not_there_is_said(files: Files) -> None:
    files.root.rmdir()
    for answer in (await files.read("a"), await files.write("a")):
        assert answer == ToolAnswer(
            text=f"The work tree {files.root} cannot be opened: No such file or directory.", failed=True
        )


async def test_a_folder_that_is_exchanged_for_a_link_at_the_wrong_moment_is_not_followed(files: Files) -> None:
    """A folder becomes a link to the outside, and back, while files are written into it."""
    (files.root / "d").mkdir()
    (files.root / "link").symlink_to("../outside")
    names = [os.fsencode(files.root / name) for name in ("d", "link")]
    stop = threading.Event()
    libc = ctypes.CDLL(None)
    exchanges = 0

    def exchange() -> None:
        nonlocal exchanges
        while not stop.is_set():
            assert not libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
            exchanges += 1

    exchanging = asyncio.create_task(asyncio.to_thread(exchange))
    refused: list[bool] = []
    while len(refused) < 150 or exchanges < 150 or len(set(refused)) < 2:  # until both have happened, often
        refused.append((await files.write(f"d/{len(refused) % 150}")).failed)
    stop.set()
    await exchanging
    assert files.untouched()


async def test_no_descriptor_is_left_open(files: Files) -> None:
    await files.write("d/a")
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    await files.write("d/b")
    await files.read("d/b")
    await files.read("d/absent")
    await files.read("../x")
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_write_that_is_cancelled_is_done_or_not_but_not_half(files: Files) -> None:
    task = asyncio.create_task(files.write("a", "whole"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files.names() in ({"a"}, set())
    assert not files.names() or (files.root / "a").read_text() == "whole"
