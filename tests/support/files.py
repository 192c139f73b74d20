"""A stand-in for Slack's files as the use cases see them: content by id, what was placed, what was shared where."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field

from swarm.domain.errors import NotFound, SwarmError
from swarm.domain.model.deliveries import Answer, DeliveryAccepted
from swarm.domain.model.files import FileInfo, Share, check_size
from tests.support.slack import next_ts


@dataclass
class FakeContent:
    """A file's content, in pieces of ten bytes or as many as a test says."""

    content: bytes
    cap_bytes: int
    piece_bytes: int = 10
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def closed(self) -> bool:
        return self.ended.is_set()

    @property
    def size_bytes(self) -> int | None:
        return len(self.content)

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.content), self.piece_bytes):
            piece = self.content[at : at + self.piece_bytes]
            check_size(at + len(piece), self.cap_bytes)
            yield piece

    async def close(self) -> None:
        self.ended.set()


@dataclass
class FakeFiles:
    """Takes everything, unless ``answers`` says what becomes of the next calls to share a file.

    ``True`` in ``lands`` means that such a call puts the file into the thread all the same.
    """

    kept: dict[str, tuple[FileInfo, bytes]] = field(default_factory=dict)
    opened: list[FakeContent] = field(default_factory=list)
    placed: dict[str, bytes] = field(default_factory=dict)
    shared: list[Share] = field(default_factory=list)  # what is in Slack's threads
    timestamps: list[str] = field(default_factory=list)
    calls: list[Share] = field(default_factory=list)
    answers: deque[tuple[Answer, bool]] = field(default_factory=deque)  # and whether it lands all the same
    piece_bytes: int = 10
    looks: int = 0
    looks_fail: deque[SwarmError] = field(default_factory=deque)
    hides: bool = False  # Slack does not show what was shared
    go_on: asyncio.Event | None = None  # calls to share wait for it before they are answered
    under_way: asyncio.Event = field(default_factory=asyncio.Event)

    def keep(self, file_id: str, content: bytes, mimetype: str | None = "text/plain", size: int | None = None) -> None:
        """A file that people have shared."""
        info = FileInfo(
            id=file_id,
            name=f"{file_id}.txt",
            mimetype=mimetype,
            size_bytes=len(content) if size is None else size,
            url=f"https://files.slack.com/{file_id}",
        )
        self.kept[file_id] = (info, content)

    async def info(self, file_id: str) -> FileInfo:
        if file_id not in self.kept:
            raise NotFound("Slack answers file_not_found.")
        return self.kept[file_id][0]

    async def open(self, file: FileInfo, cap_bytes: int) -> FakeContent:
        opened = FakeContent(self.kept[file.id][1], cap_bytes, self.piece_bytes)
        self.opened.append(opened)
        return opened

    async def place(self, name: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> str:
        file_id = f"FNEW{len(self.placed)}"
        self.placed[file_id] = b"".join([chunk async for chunk in chunks])
        return file_id

    async def ready_to_share(self) -> None:
        await asyncio.sleep(0)

    async def share(self, share: Share) -> Answer:
        self.calls.append(share)
        self.under_way.set()
        answer, lands = self.answers.popleft() if self.answers else (DeliveryAccepted(), True)
        if lands:
            self.land(share)
        if self.go_on:
            await self.go_on.wait()
        return answer

    def land(self, share: Share) -> None:
        """The file appears in the thread."""
        self.shared.append(share)
        self.timestamps.append(next_ts())

    async def shared_as(self, file_id: str, channel: str, thread_ts: str) -> str | None:
        self.looks += 1
        if self.looks_fail:
            raise self.looks_fail.popleft()
        for share, ts in zip(self.shared, self.timestamps, strict=True):
            if not self.hides and (share.file_id, share.channel, share.thread_ts) == (file_id, channel, thread_ts):
                return ts
        return None
