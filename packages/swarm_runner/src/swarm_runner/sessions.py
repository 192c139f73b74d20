"""The CLI's sessions by thread, kept in the runner's folder, so that a follow-up continues them after a restart.

One run at a time uses the session of a thread: its lock is held from before the CLI starts until its processes are
gone. The file is replaced atomically; a file that cannot be read, or written, only means new sessions later.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from swarm_runner.port import UsageReported

_FILE: Final = "sessions.json"
_KEPT: Final = 2_000  # sessions; the oldest are dropped

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptSession:
    """The session of one thread. ``at`` is in microseconds."""

    provider: str
    workdir: str
    session_id: str | None = None  # None: the CLI cannot resume
    turns: int = 0
    at: int = 0
    input_tokens: int | None = None  # what all runs of the session have reported to the coordinator; None: unknown
    output_tokens: int | None = None
    cost_dollars: float | None = None

    @property
    def spent(self) -> UsageReported:
        """What all runs of the session have reported to the coordinator."""
        return UsageReported(
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost_dollars=self.cost_dollars
        )


class Sessions:
    """The sessions of a runner."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._kept = _read(self._path)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Returns the lock of a thread's session."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def get(self, key: str, provider: str) -> KeptSession | None:
        """Returns the session of a thread, if this provider has begun it."""
        found = self._kept.get(key)
        return found if found and found.provider == provider else None

    def keep(self, key: str, session: KeptSession) -> None:
        """Stores the session of a thread."""
        self._kept.pop(key, None)
        self._kept[key] = replace(session, at=time.time_ns() // 1000)
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        try:
            self._write()
        except OSError as error:  # such as a full disk, for which no answer may be lost
            _log.warning("The sessions cannot be stored.", action="runner_sessions", error=error.strerror or str(error))

    def _write(self) -> None:
        temporary = self._path.with_suffix(".new")
        content = json.dumps({key: asdict(session) for key, session in self._kept.items()})
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


def thread_key(trigger: Mapping[str, Any]) -> str:
    """Returns the key of a trigger's session: its thread, or without a thread its task, or the notice itself."""
    if thread := trigger.get("thread"):
        return f"{thread['team']}:{thread['channel']}:{thread['thread_ts']}"
    if task := trigger.get("task"):
        return f"task:{task['id']}"
    return f"notice:{trigger['id']}"


def _read(path: Path) -> dict[str, KeptSession]:
    try:
        with path.open(encoding="utf-8") as file:
            return {str(key): KeptSession(**kept) for key, kept in json.load(file).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _log.warning("The sessions cannot be read, so new ones begin.", action="runner_sessions", error=str(error))
        with suppress(OSError):
            path.replace(path.with_suffix(".unreadable"))
        return {}
