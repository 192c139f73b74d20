"""Attachments: the description and content of a file, for agents that participate in a thread with the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from swarm.domain.errors import NotFound
from swarm.domain.model.agents import Agent
from swarm.domain.model.files import TEXT_BYTES, FileInfo, as_text, check_size, may_be_text
from swarm.domain.ports import OpenFile, SlackFiles
from swarm.services.work.fencing import ThreadReference, thread_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class _FileContent:
    """A file, with its content if it is text of at most `TEXT_BYTES`."""

    info: FileInfo
    about: ThreadReference
    text: str | None
    sha256: str | None  # the hash of the content in hex; None if it was not read


class ThreadFiles:
    """Access to the files of threads. No file larger than ``cap_bytes`` is transferred."""

    def __init__(self, database: Database, slack: SlackFiles, *, cap_bytes: int) -> None:
        self._database = database
        self._slack = slack
        self._cap_bytes = cap_bytes

    async def show(self, agent: Agent, about: ThreadReference, file_id: str) -> _FileContent:
        """Returns a file and, for a small text file, its content.

        Raises NotFound for a file outside the agent's threads, TooLarge, and the errors of `SlackFiles.open`.
        """
        info = await self._info(agent, about, file_id)
        content = await self._small_content(info)
        return _FileContent(
            info=info,
            about=about,
            text=as_text(content) if content is not None else None,
            sha256=hashlib.sha256(content).hexdigest() if content is not None else None,
        )

    async def open(self, agent: Agent, about: ThreadReference, file_id: str) -> tuple[FileInfo, OpenFile]:
        """Returns a file and its open content, which the caller must close. Raises the errors of :meth:`show`."""
        info = await self._info(agent, about, file_id)
        return info, await self._slack.open(info, self._cap_bytes)

    async def _info(self, agent: Agent, about: ThreadReference, file_id: str) -> FileInfo:
        await self._database.read(self._insist_on_file, agent, about, file_id)
        info = await self._slack.info(file_id)
        check_size(info.size_bytes or 0, self._cap_bytes)
        return info

    @staticmethod
    def _insist_on_file(tx: Transaction, agent: Agent, about: ThreadReference, file_id: str) -> None:
        thread = thread_of(tx, agent, about)
        if transcript.file_in(tx, thread, file_id) is None:
            raise NotFound(
                f"There is no file '{file_id}' in this thread.", hint="Use an id from 'files' of one of its messages."
            )

    async def _small_content(self, info: FileInfo) -> bytes | None:
        if not may_be_text(info.mimetype) or info.size_bytes is None or info.size_bytes > TEXT_BYTES:
            return None
        opened = await self._slack.open(info, TEXT_BYTES)
        try:
            return b"".join([chunk async for chunk in opened.chunks()])
        finally:
            await opened.close()
