"""What people and the operator see of a run: the streamed answer in the thread, the run's log, and its usage.

Everything is handed in without waiting, kept in small buffers, and sent in batches by one task, in order. A call that
the coordinator did not answer is repeated under the same id, so nothing is shown twice. The text has no secrets of this
process (`swarm_base.secrets`). What exceeds the limits is dropped, and a sentence says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import structlog

from swarm_base.secrets import Secrets, without_secrets
from swarm_runner.coordinator import CoordinatorConnection, Refused, Unreachable
from swarm_runner.port import StepShown, UsageReported
from swarm_runner.run_log import CHUNK_BYTES, RunLog

MAX_TEXT_CHARACTERS: Final = 150_000
"""The coordinator takes 200,000 in one answer; the rest is for the end."""

MAX_PLAIN_CHARACTERS: Final = 12_000
"""Of the output of a plain command, which may be a list of anything."""

MAX_FILE_CHARACTERS: Final = 500_000

_MESSAGE: Final = "inbox_message_id"
_PIECE_CHARACTERS: Final = 12_000
_TITLE_CHARACTERS: Final = 200
_MANY_CALLS: Final = 9_000  # of the 10,000 that one answer may have
_BATCH_SECONDS: Final = 0.4
_LATE_BATCH_SECONDS: Final = 3.0  # after a thousand calls
_LOG_SECONDS: Final = 2.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call until the coordinator answers. Raises Refused. The caller limits the time by a cancellation."""
    while True:
        try:
            return await call()
        except Unreachable as error:
            _log.debug("The coordinator does not answer.", action="runner_retry", error=error.message)
            pause = error.pause_seconds
        await asyncio.sleep(pause)


class RunOutput:
    """The output of one run. ``about`` names its inbox message or task; empty: neither.

    ``refused`` is called once if the coordinator refuses more output, and ``exceeded`` with the budgets that are
    exceeded.
    """

    def __init__(
        self,
        coordinator: CoordinatorConnection,
        lease_token: str,
        about: Mapping[str, str],
        refused: Callable[[Refused], object],
        exceeded: Callable[[list[dict[str, Any]]], object],
        *,
        is_plain: bool = False,  # the output of a plain command, whose calls of tools are not seen
    ) -> None:
        self.run_id: str | None = None  # of the log and the usage
        self.is_streamed = False  # people see the text as it comes
        self.shown = ""  # the text so far, as people see it
        self.rest = ""  # what was too long for that, as far as it fits into a file
        self._is_plain = is_plain
        self._most_characters = MAX_PLAIN_CHARACTERS if is_plain else MAX_TEXT_CHARACTERS
        self.on_reported: Callable[[Mapping[str, Any]], object] = lambda _: None  # the usage that the coordinator has
        self._coordinator = coordinator
        self._lease_token = lease_token
        self._about = dict(about)
        self._refused, self._exceeded = refused, exceeded
        self._secrets = Secrets()
        self._text = ""
        self._steps: dict[str, StepShown] = {}
        self._status = ""
        self._log = RunLog()
        self._log_at = 0.0
        self._usage: dict[str, Any] = {}  # of the run so far
        self.used_before: dict[str, Any] = {}  # of that, what an earlier CLI of this run has used
        self._has_new_usage = False
        self._calls = 0
        self._dirty = asyncio.Event()
        self._sending = asyncio.Lock()
        self._is_refused = self._keeps_no_log = False
        self._is_doubtful = True  # the CLI may have used a tool by which it answers
        self._answers: int | None = 0  # of earlier runs, under this lease; None: this run has answered itself

    async def open(self) -> None:
        """Starts the answer in the thread. Raises Refused, with ``conflict`` for work without a thread."""
        if self._about:
            opened = await repeated(lambda: self._stream("open", **self._about))
            self.run_id, self.is_streamed = str(opened["turn_id"]), True

    async def report(self) -> None:
        """Starts a run that has a log and usage, but no answer in a thread. Without effect if it is refused, unless the
        work is lost. Raises Refused then.
        """
        if self._about:
            try:
                self.run_id, self._answers = await repeated(self._started)
            except Refused as error:
                if error.code == "lease_lost":
                    raise
                _log.info("The coordinator keeps no log.", action="runner_no_log", error=error.message)

    async def has_answered(self) -> bool:
        """Whether the CLI has answered itself, with tools, all that it was asked. Raises Refused."""
        if self._answers is not None and self._about and (await repeated(self._started))[1] > self._answers:
            self._answers = None
        return self._answers is None

    async def _started(self) -> tuple[str, int]:
        return await self._coordinator.start(self._lease_token, self._about)

    def text(self, text: str) -> None:
        """Adds text to the answer, or to its rest if it is too long. What nobody will see costs nothing."""
        if len(self.rest) < MAX_FILE_CHARACTERS:
            self._secrets, safe = self._secrets.feed(text)
            self._add(safe)

    def end_of_text(self) -> None:
        """Ends a turn's text, so that nothing of it is held back."""
        self._secrets, rest = self._secrets.end()
        self._add(rest)

    def step(self, step: StepShown) -> None:
        """Shows a step, or its new state."""
        self._is_doubtful = True
        if self.is_streamed and self._calls < _MANY_CALLS:
            self._steps[step.id] = step
            self._dirty.set()

    def status(self, words: str) -> None:
        """Shows what the run does, while there is no text."""
        self._status = words
        self._dirty.set()

    def log(self, line: str) -> None:
        """Adds a line to the run's log."""
        self._write(self._log.add, line)

    def log_text(self, text: str) -> None:
        """Adds text to the run's log, as it comes."""
        self._write(self._log.write, text)

    def usage(self, usage: UsageReported) -> None:
        """Reports the usage of the CLI's session in this run so far."""
        given = {name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "cost_dollars")}
        counted = {name: value + self.used_before.get(name, 0) for name, value in given.items() if value is not None}
        self._usage |= counted | ({"model": usage.model} if usage.model else {})
        self._has_new_usage = True
        self._dirty.set()

    def begin_session(self) -> None:
        """Goes on with another CLI, whose usage adds to that of the earlier one."""
        self.used_before = dict(self._usage)

    async def pump(self) -> None:
        """Sends batches until it is cancelled."""
        while not self._is_refused:
            await self._dirty.wait()
            await self.flush()
            if self._log.waiting_bytes:
                self._dirty.set()
            await asyncio.sleep(_BATCH_SECONDS if self._calls < 1000 else _LATE_BATCH_SECONDS)

    async def flush(self, *, is_last: bool = False) -> None:
        """Sends everything so far. The last time, nothing is held back."""
        async with self._sending:
            self._dirty.clear()
            if self._has_new_usage and self.run_id and (exceeded := await self._report_usage()):
                self._exceeded(exceeded)  # first, since each moment costs
            try:
                await self._send_answer()
            except Refused as error:
                self._is_refused = True
                self._refused(error)
            await self._send_log(is_last=is_last)

    async def catch_up(self) -> None:
        """Sends everything so far, also text that was held back, because people are about to be asked."""
        self.end_of_text()
        await self.flush()

    async def end_reports(self) -> None:
        """Sends the rest of the log, and the last usage: what was spent counts, whatever became of the work."""
        async with self._sending:
            await self._send_log(is_last=True)
            if self._has_new_usage:
                await self._report_usage()

    async def close(self, rest: str = "", result: str | None = None, failed: str | None = None) -> None:
        """Sends the last text and ends the answer. Raises Refused."""
        rest = without_secrets(rest)
        while len(rest) > _PIECE_CHARACTERS:
            self._text, rest = rest[:_PIECE_CHARACTERS], rest[_PIECE_CHARACTERS:]
            await self._send_answer()
        said = {
            "text": rest,
            "result": result and without_secrets(result),
            "failed": failed and without_secrets(failed),
        }
        given = {name: value for name, value in said.items() if value}
        await repeated(lambda: self._stream("close", turn_id=self.run_id, **given))

    async def budgets_used_up(self) -> list[dict[str, Any]]:
        """Reports the usage so far, also if there is none yet. Returns the budgets that are used up."""
        async with self._sending:
            return await self._report_usage()

    def _write(self, write: Callable[[str], None], text: str) -> None:
        if self.run_id is not None and not self._keeps_no_log:
            write(text)
            self._dirty.set()

    def _add(self, safe: str) -> None:
        left = 0 if self.rest else self._most_characters - len(self.shown)
        self.rest += safe[left : left + MAX_FILE_CHARACTERS - len(self.rest)]
        self._show(safe[:left])

    def note(self, words: str) -> None:
        """Adds a sentence of the runner below the answer."""
        self._show(f"\n\n{words}")

    def _show(self, safe: str) -> None:
        if not safe:
            return
        self.shown += safe
        if self.is_streamed:
            self._text += safe
            self._dirty.set()

    async def _send_answer(self) -> None:
        if self._is_refused or not self.is_streamed:
            return
        if self._text and self._is_doubtful and _MESSAGE in self._about:
            self._is_doubtful = self._is_plain
            await self.has_answered()
        if self._answers is None:  # what it says to its end is for the log
            self._text = ""
        while self._text:
            piece = self._text[:_PIECE_CHARACTERS]
            await self._send("append", text=piece)
            self._text = self._text[len(piece) :]
        if status := self._status:
            await self._send("status", title=_title(status))
            self._status = "" if self._status == status else self._status
        for step in list(self._steps.values()):
            await self._send("task", id=step.id[:_TITLE_CHARACTERS], title=_title(step.title), status=step.state.value)
            if self._steps.get(step.id) is step:
                del self._steps[step.id]

    async def _send(self, action: str, **arguments: object) -> None:
        self._calls += 1
        request_id = f"{self.run_id}-{self._calls}"
        await repeated(lambda: self._stream(action, turn_id=self.run_id, request_id=request_id, **arguments))

    async def _stream(self, action: str, **arguments: object) -> dict[str, Any]:
        return await self._coordinator.call("slack-stream", self._lease_token, action=action, **arguments)

    async def _send_log(self, *, is_last: bool) -> None:
        log, now = self._log, asyncio.get_running_loop().time()
        if is_last:
            log.end()
        elif log.waiting_bytes < CHUNK_BYTES and now < self._log_at + _LOG_SECONDS:
            return
        self._log_at = now
        while log.waiting_bytes and self.run_id and not self._keeps_no_log:
            run_id, chunk = self.run_id, log.chunk()
            try:
                limit = await repeated(lambda: self._coordinator.log(run_id, chunk, log.offset))  # noqa: B023 -- awaited here
            except Refused as error:
                _log.info("The coordinator keeps no log.", action="runner_no_log", run=run_id, error=error.message)
                self._keeps_no_log, self._log = True, RunLog()
                return
            log.sent(len(chunk), limit)

    async def _report_usage(self) -> list[dict[str, Any]]:
        run_id, told = self.run_id, dict(self._usage)
        if run_id is None:
            return []
        self._has_new_usage = False
        try:
            exceeded = await repeated(lambda: self._coordinator.usage(run_id, told))
        except Refused as error:
            _log.info("The usage was not recorded.", action="runner_no_usage", run=run_id, error=error.message)
            return []
        self.on_reported(told)
        return exceeded


def _title(text: str) -> str:
    """Returns one short line for people."""
    line = " ".join(without_secrets(text).split())
    return (line[: _TITLE_CHARACTERS - 1] + "…" if len(line) > _TITLE_CHARACTERS else line) or "step"
