"""What a run sends to the coordinator: in order, once, within the limits, and without secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swarm_base import secrets
from swarm_runner import output
from swarm_runner.coordinator import Refused, Unreachable
from swarm_runner.output import RunOutput
from swarm_runner.port import StepShown, ToolState, UsageReported
from swarm_runner.run_log import RunLog


@pytest.fixture(autouse=True)
def knows_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has hidden holds back what could be its beginning."""
    monkeypatch.setattr(secrets, "_own", secrets._OwnSecrets())


class FakeCoordinator:
    """Records calls. ``away`` calls are not answered; what a call does is done nevertheless, as with a lost answer."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.calls: list[dict[str, Any]] = []
        self.logged = b""
        self.chunks: list[bytes] = []
        self.limit, self.log_refuses, self.start_refuses = 8_000_000, "", ""
        self.used: list[dict[str, Any]] = []
        self.exceeded: list[dict[str, Any]] = []
        self.refuses: str | None = None

    async def call(self, tool: str, lease_token: str, /, **arguments: Any) -> dict[str, Any]:
        self.calls.append(arguments)
        self._answer()
        if self.refuses and arguments["action"] != "open":
            raise Refused(self.refuses, "no more")
        return {"turn_id": "run-1"}

    async def log(self, run_id: str, chunk: bytes, offset: int) -> int:
        assert len(chunk) <= 64 * 1024
        self.chunks.append(chunk)
        self.logged = self.logged[:offset] + chunk
        self._answer()
        if self.log_refuses:
            raise Refused(self.log_refuses, "no more")
        return self.limit

    async def start(self, lease_token: str, about: dict[str, str]) -> tuple[str, int]:
        if self.start_refuses:
            raise Refused(self.start_refuses, "no run")
        return "run-2", 0

    async def usage(self, run_id: str, usage: dict[str, Any]) -> list[dict[str, Any]]:
        self.used.append(usage)
        self._answer()
        return self.exceeded

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise Unreachable("away")

    @property
    def text(self) -> str:
        """The text that people see: calls with the same id count once."""
        once = {call["request_id"]: call for call in self.calls if "request_id" in call}
        return "".join(call.get("text", "") for call in once.values())


async def opened(coordinator: FakeCoordinator, refused: Any = None, exceeded: Any = None) -> RunOutput:
    about = {"task_id": "task-1"}
    made = RunOutput(coordinator, "lease", about, refused or (lambda _: None), exceeded or (lambda _: None))  # type: ignore[arg-type]
    await made.open()
    return made


@pytest.mark.req("RUN-01")
async def test_text_and_steps_are_sent_in_batches_and_lost_answers_double_nothing() -> None:
    coordinator = FakeCoordinator()
    out = await opened(coordinator)
    coordinator.away = 2
    for part in ("Let me ", "see. "):
        out.text(part)
    out.step(StepShown(id="1", title="Reading\na file", state=ToolState.IN_PROGRESS))
    out.step(StepShown(id="1", title="Reading\na file", state=ToolState.COMPLETE))
    await out.flush()
    out.text("Done.")
    out.end_of_text()
    await out.flush()
    assert coordinator.text == "Let me see. Done."
    steps = [(call["title"], call["status"]) for call in coordinator.calls if call["action"] == "task"]
    assert steps == [("Reading a file", "complete")]


@pytest.mark.req("RUN-01")
async def test_a_long_answer_is_sent_in_pieces_up_to_the_limit_and_its_rest_is_kept_for_a_file() -> None:
    coordinator = FakeCoordinator()
    out = await opened(coordinator)
    for _ in range(400):
        out.text("x" * 1000)
    await out.flush()
    pieces = [call["text"] for call in coordinator.calls if call["action"] == "append"]
    assert max(map(len, pieces)) == 12_000
    assert len(coordinator.text) == output.MAX_TEXT_CHARACTERS
    assert len(out.rest) == 400_000 - output.MAX_TEXT_CHARACTERS
    for _ in range(400):
        out.text("y" * 1000)
    out.note("(The rest is elsewhere.)")
    await out.flush()
    assert len(out.rest) == output.MAX_FILE_CHARACTERS
    assert coordinator.text[output.MAX_TEXT_CHARACTERS :] == "\n\n(The rest is elsewhere.)"


@pytest.mark.req("RUN-03")
async def test_the_log_is_sent_in_chunks_of_whole_lines_by_offset_and_lost_answers_double_nothing() -> None:
    coordinator = FakeCoordinator()
    out = await opened(coordinator)
    coordinator.away = 1
    for number in range(30_000):
        out.log(f"zeile ö {number}")
    await out.flush()
    assert coordinator.logged.decode().splitlines() == [f"zeile ö {number}" for number in range(30_000)]
    assert all(chunk.endswith(b"\n") for chunk in coordinator.chunks)


@pytest.mark.req("RUN-03")
async def test_of_a_long_log_the_start_and_the_end_are_sent_within_the_coordinators_limit() -> None:
    coordinator = FakeCoordinator()
    coordinator.limit = 100_000
    out = await opened(coordinator)
    out.log("line 0")
    await out.flush()
    for number in range(1, 30_000):
        out.log(f"line {number}")
    await out.flush()
    assert len(coordinator.logged) < 75_000  # the end is for the end
    await out.flush(is_last=True)
    assert 99_000 < len(coordinator.logged) < 100_000
    before, note, after = coordinator.logged.decode().partition("\n(")
    first, last = before.splitlines(), after.partition("\n\n")[2].splitlines()
    assert first == [f"line {number}" for number in range(len(first))]
    assert last == [f"line {number}" for number in range(30_000 - len(last), 30_000)]
    left_out = int(after.partition(" ")[0])
    assert left_out == sum(len(f"line {number}\n") for number in range(len(first), 30_000 - len(last))), note


@pytest.mark.req("RUN-03")
async def test_text_is_logged_as_it_comes_and_lines_begin_a_line() -> None:
    coordinator = FakeCoordinator()
    out = await opened(coordinator)
    for text in ("Let ", "me see"):
        out.log_text(text)
    out.log("[completed] Reading")
    out.log("done")
    out.log_text("The end.")
    await out.end_reports()
    assert coordinator.logged == b"Let me see\n[completed] Reading\ndone\nThe end."


@pytest.mark.req("RUN-03")
@pytest.mark.parametrize("refused", ["", "not_found"])
async def test_work_without_a_thread_has_a_log_and_no_stream_also_if_the_coordinator_knows_no_such_runs(
    refused: str,
) -> None:
    coordinator = FakeCoordinator()
    coordinator.start_refuses = refused
    out = RunOutput(coordinator, "lease", {"task_id": "task-1"}, lambda _: None, lambda _: None)  # type: ignore[arg-type]
    await out.report()
    out.text("Hello.")
    out.log_text("Hello.")
    for number in range(10):
        out.step(StepShown(id=str(number), title="Reading", state=ToolState.COMPLETE))
    await out.flush(is_last=True)
    assert (coordinator.calls, out._steps, out.shown) == ([], {}, "Hello.")
    assert coordinator.logged == (b"" if refused else b"Hello.")


@pytest.mark.req("RUN-03")
async def test_a_refused_log_is_no_longer_sent_nor_kept() -> None:
    coordinator = FakeCoordinator()
    coordinator.log_refuses = "too_large"
    out = await opened(coordinator)
    for _ in range(3):
        out.log("line")
        await out.flush(is_last=True)
    assert len(coordinator.chunks) == 1
    assert coordinator.text == ""


@pytest.mark.req("RUN-03")
async def test_a_log_waits_a_little_so_that_a_talkative_program_costs_few_calls() -> None:
    coordinator = FakeCoordinator()
    out = await opened(coordinator)
    for number in range(5):
        out.log(f"line {number}")
        await out.flush()
    assert coordinator.logged == b"line 0\n"
    await out.end_reports()
    assert coordinator.logged.count(b"\n") == 5


@pytest.mark.req("RUN-03")
def test_a_log_without_line_breaks_is_cut_between_characters_and_needs_little_memory() -> None:
    log = RunLog(max_bytes=1_000_000)
    for _ in range(100):
        log.add("ö" * 40_000)
    assert log.waiting_bytes <= 1_000_000
    log.end()
    assert log.waiting_bytes <= 1_000_000
    while log.waiting_bytes:
        chunk = log.chunk()
        chunk.decode()
        log.sent(len(chunk))


@pytest.mark.req("RUN-03", "RUN-06")
async def test_the_usage_is_reported_at_the_end_and_an_exceeded_budget_is_told() -> None:
    coordinator = FakeCoordinator()
    told: list[list[dict[str, Any]]] = []
    coordinator.exceeded = [{"scope": "day", "limit": 1, "used": 2, "unit": "dollars"}]
    out = await opened(coordinator, exceeded=told.append)
    out.usage(UsageReported(input_tokens=1))
    out.usage(UsageReported(input_tokens=10, output_tokens=5, cost_dollars=0.5, model="m"))
    await out.flush(is_last=True)
    assert coordinator.used == [{"input_tokens": 10, "output_tokens": 5, "cost_dollars": 0.5, "model": "m"}]
    assert told == [coordinator.exceeded]


@pytest.mark.req("RUN-01")
async def test_after_a_refusal_nothing_more_is_sent() -> None:
    coordinator = FakeCoordinator()
    refused: list[Refused] = []
    out = await opened(coordinator, refused=refused.append)
    coordinator.refuses = "conflict"
    pump = asyncio.create_task(out.pump())
    out.text("one")
    await asyncio.wait_for(pump, 5)
    out.text("two")
    await out.flush()
    assert [error.code for error in refused] == ["conflict"]
    assert len(coordinator.calls) == 2
