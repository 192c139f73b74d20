"""Servers that are programs, over stdin and stdout: they die, flood, print garbage, and do not want to end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from packages.swarm_agents.tests.agents.mcp.conftest import (
    QUICK,
    Plain,
    alive,
    call,
    library,
    names,
    plain_in,
    tool,
    until_offered,
    until_status,
)
from swarm.config.mcp_servers import Program
from swarm_agents.mcp.servers import McpServers
from swarm_agents.mcp.transports import INHERITED
from tests.support.idle_time import time_passes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("AGENT-02")


async def test_offers_the_allowed_tools_and_calls_them(plain: Plain) -> None:
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        (offered,) = servers.tools()
        assert (offered.name, offered.server, offered.parameters) == ("echo", "plain", {"type": "object"})
        answer = await offered.call({"text": "grüezi"})
        assert answer.text == 'echo {"text": "gr\\u00fcezi"}'
        assert not answer.failed
        (status,) = servers.status()
        assert (status.is_up, status.detail, status.allowed, status.others) == (True, "", ("echo",), ("remove",))
    assert not alive(plain.pids)
    assert not servers.tools()


async def test_a_program_of_the_library_is_used_with_the_newest_protocol_and_tells_of_new_tools() -> None:
    server = library("grow", "add", "grown", "whoami", env={"ITS_OWN": "yes"})
    async with McpServers([server], timeouts=QUICK) as servers:
        assert names(servers) == ["grow", "add", "whoami"]
        assert tool(servers, "add").description == "Add two numbers."
        assert (await call(servers, "add", a=1, b=2)).text == "3"
        environment = json.loads((await call(servers, "whoami")).text)
        assert environment["ITS_OWN"] == "yes"
        assert (await call(servers, "grow")).text == "done"
        await until_offered(servers, "grow", "add", "grown", "whoami")
        assert (await call(servers, "grown")).text == "grown"


async def test_a_program_gets_nothing_of_our_environment_but_the_way_to_programs(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-very-secret")
    for name in INHERITED[2:]:
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    plain.offer("environment")
    async with McpServers([plain.server("environment")], timeouts=QUICK) as servers:
        environment = json.loads((await call(servers, "environment")).text)
    assert set(environment) - {"LC_CTYPE"} == set(INHERITED)  # LC_CTYPE is Python's own
    assert {"https_proxy", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"} <= set(INHERITED)
    manual = (Path(__file__).parents[5] / "docs" / "built-in-agents.md").read_text(encoding="utf-8")
    assert [name for name in INHERITED if name.isupper() and f"`{name}`" not in manual] == []


async def test_a_program_that_dies_in_a_call_is_said_to_be_away_and_comes_back_without_the_call(plain: Plain) -> None:
    plain.offer("die", "echo")
    async with McpServers([plain.server("die", "echo")], timeouts=QUICK) as servers:
        answer = await call(servers, "die")
        assert answer.failed
        assert answer.text == (
            "The server 'plain' disconnected during the call; it may or may not have been carried out."
        )
        await wait_until(_started_twice(plain), what="it was started again")
        await until_status(servers, is_up=True)
        assert (await call(servers, "echo")).text == "echo {}"
    calls = plain.seen("tools/call")
    assert [one["params"]["name"] for one in calls] == ["die", "echo"]
    assert not alive(plain.pids)


def _called(plain: Plain) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool(plain.seen("tools/call"))

    return look


def _started_twice(plain: Plain) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return len(plain.pids) >= 2

    return look


async def test_a_program_that_is_not_there_yet_delays_nothing_and_is_used_when_it_comes(
    plain: Plain, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    program = plain.server("echo")
    assert isinstance(program.reached, Program)
    absent = replace(program, name="late", reached=replace(program.reached, command=str(late)))
    async with McpServers([absent, plain_in(tmp_path / "other").server("echo")], timeouts=QUICK) as servers:
        assert names(servers) == ["plain_echo"]
        status, other = servers.status()
        assert not status.is_up
        assert other.is_up
        assert status.detail == f"its program {str(late)!r} cannot be started: No such file or directory"
        late.symlink_to(sys.executable)
        await until_offered(servers, "late_echo", "plain_echo")
        assert (await call(servers, "late_echo")).text == "echo {}"


async def test_a_program_that_never_answers_does_not_hold_up_the_start_nor_the_end(tmp_path: Path) -> None:
    silent = plain_in(tmp_path / "silent", "silent")
    began = time.monotonic()
    timeouts = replace(QUICK, start_seconds=0.3, connect_seconds=600.0)
    async with McpServers([silent.server("echo")], timeouts=timeouts) as servers:
        assert not servers.tools()
        assert servers.status()[0].detail == "it has not been reached yet"
    assert time.monotonic() - began < 60
    assert not alive(silent.pids)


async def test_a_program_that_never_answers_is_given_up_and_said_to_be_slow(tmp_path: Path) -> None:
    silent = plain_in(tmp_path / "silent", "silent")
    timeouts = replace(QUICK, connect_seconds=0.5)
    with capture_logs() as lines:
        async with McpServers([silent.server("echo")], timeouts=timeouts) as servers:
            assert "0.5 s" in servers.status()[0].detail or "in time" in servers.status()[0].detail
            await wait_until(_started_twice(silent), what="it was tried again")
    warned = [line for line in lines if line["action"] == "mcp_down" and line["log_level"] == "warning"]
    assert len(warned) == 1  # the same again is no news
    assert not alive(silent.pids)


async def test_a_slow_call_ends_in_its_time_and_the_server_is_told(plain: Plain) -> None:
    plain.offer("slow", "echo")
    async with McpServers([plain.server("slow", "echo", timeout_seconds=300)], timeouts=QUICK) as servers:
        calling = asyncio.create_task(call(servers, "slow"))
        await wait_until(_called(plain), what="the call has arrived")
        time_passes(300)
        answer = await calling
        assert answer.failed
        assert answer.text.startswith("The tool 'slow' of the server 'plain' did not answer within 300 s.")
        assert (await call(servers, "echo")).text == "echo {}"
    (cancelled,) = plain.seen("notifications/cancelled")
    assert cancelled["params"]["requestId"] == plain.seen("tools/call")[0]["id"]


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(plain: Plain) -> None:
    plain.offer("slow")
    async with McpServers([plain.server("slow")], timeouts=QUICK) as servers:
        calling = asyncio.create_task(call(servers, "slow"))
        await wait_until(_called(plain), what="the call has arrived")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        async def told() -> int:
            return len(plain.seen("notifications/cancelled"))

        await wait_until(told, what="the server was told")
        assert servers.status()[0].is_up


async def test_calls_at_the_same_time_get_their_own_answers(plain: Plain) -> None:
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        answers = await asyncio.gather(*(call(servers, "echo", n=n) for n in range(50)))
    assert [answer.text for answer in answers] == [f'echo {{"n": {n}}}' for n in range(50)]


async def test_a_failure_of_the_tool_is_an_answer(plain: Plain) -> None:
    plain.offer("fail", "break", "nonsense")
    async with McpServers([plain.server("fail", "break", "nonsense")], timeouts=QUICK) as servers:
        assert await call(servers, "fail") == replace(await call(servers, "fail"), text="no such ticket", failed=True)
        broken = await call(servers, "break")
        assert broken.failed
        assert broken.text == (
            "The server 'plain' answered the call of the tool 'break' with an error: the database is on fire"
        )
        nonsense = await call(servers, "nonsense")
        assert nonsense.failed
        assert "cannot be understood" in nonsense.text
        assert servers.status()[0].is_up


async def test_what_a_server_says_of_our_secrets_is_hidden(plain: Plain) -> None:
    async with McpServers([plain.server("echo", secrets=("hunter2hunter2",))], timeouts=QUICK) as servers:
        assert (await call(servers, "echo", text="hunter2hunter2")).text == 'echo {"text": "…"}'


async def test_long_answers_come_whole_up_to_a_mebibyte(plain: Plain) -> None:
    plain.offer("long")
    async with McpServers([plain.server("long")], timeouts=QUICK) as servers:
        assert (await call(servers, "long", characters=700_000)).text == "x" * 700_000
        cut = await call(servers, "long", characters=3_000_000)
        assert cut.text == "x" * 1024 * 1024 + "\n[1951424 more characters are left out]"


async def test_a_message_without_an_end_ends_the_connection_only(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_agents.mcp.transports.LINE_BYTES", 100_000)
    plain.offer("long", "echo")
    async with McpServers([plain.server("long", "echo")], timeouts=QUICK) as servers:
        answer = await call(servers, "long", characters=5_000_000)
        assert "disconnected during the call" in answer.text
        await wait_until(_started_twice(plain), what="it was started again")
        await until_status(servers, is_up=True)
        assert (await call(servers, "echo")).text == "echo {}"
    assert len(plain.seen("tools/call")) == 2


@pytest.mark.req("SEC-09")
async def test_a_message_of_too_many_values_ends_the_connection_only(plain: Plain) -> None:
    plain.offer("many", "echo")
    async with McpServers([plain.server("many", "echo")], timeouts=QUICK) as servers:
        assert (await call(servers, "many", values=20_000)).text.count("1") == 20_000
        assert "disconnected during the call" in (await call(servers, "many", values=40_000)).text
        await wait_until(_started_twice(plain), what="it was started again")
        await until_status(servers, is_up=True)
        assert (await call(servers, "echo", text="," * 40_000)).text.count(",") == 40_000


async def test_garbage_on_stdout_is_passed_over_and_logged_at_debug_only(tmp_path: Path) -> None:
    garbage = plain_in(tmp_path / "garbage", "garbage")
    with capture_logs() as lines:
        async with McpServers([garbage.server("echo")], timeouts=QUICK) as servers:
            assert (await call(servers, "echo")).text == "echo {}"
    said = [line for line in lines if line["action"] == "mcp_said"]
    assert "INFO starting up, my-secret-word" in [line["said"] for line in said]
    assert {line["log_level"] for line in said} == {"debug"}
    assert "my-secret-word" not in str([line for line in lines if line["log_level"] != "debug"])


async def test_a_flood_on_stderr_stops_nobody_and_fills_no_log(tmp_path: Path) -> None:
    flood = plain_in(tmp_path / "flood", "flood")
    with capture_logs() as lines:

        async def heard() -> list[EventDict]:
            return [line for line in lines if line["action"] == "mcp_said"]

        async with McpServers([flood.server("echo")], timeouts=QUICK) as servers:
            for _ in range(3):
                assert (await call(servers, "echo")).text == "echo {}"
            await wait_until(heard, what="something of it is in the log")
    said = await heard()
    assert len(said) <= 120
    assert max(len(line["said"]) for line in said) <= 1000
    assert not alive(flood.pids)


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("manners", [("deaf",), ("child",), ("daemon",), ("deaf", "child", "daemon")], ids=" and ".join)
async def test_nothing_is_left_of_a_program_that_does_not_want_to_end(tmp_path: Path, manners: tuple[str, ...]) -> None:
    stubborn = plain_in(tmp_path / "stubborn", *manners)
    async with McpServers([stubborn.server("echo")], timeouts=QUICK) as servers:
        assert (await call(servers, "echo")).text == "echo {}"
        assert len(alive(stubborn.pids)) == 1 + ("child" in manners) + ("daemon" in manners)
    await _until_ended(stubborn.pids)


async def test_nothing_is_left_when_the_end_itself_is_cancelled(tmp_path: Path) -> None:
    stubborn = plain_in(tmp_path / "stubborn", "deaf", "child")
    timeouts = replace(QUICK, end_seconds=600.0)
    servers = McpServers([stubborn.server("echo")], timeouts=timeouts)
    await servers.start()
    assert len(alive(stubborn.pids)) == 2
    closing = asyncio.create_task(servers.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await _until_ended(stubborn.pids)


async def test_a_program_that_dies_while_its_child_keeps_its_stdout_is_started_anew(tmp_path: Path) -> None:
    parent = plain_in(tmp_path / "parent", "child", tools=("die", "echo"))
    async with McpServers([parent.server("die", "echo")], timeouts=QUICK) as servers:
        assert "disconnected during the call" in (await call(servers, "die")).text

        async def again() -> bool:
            return len(parent.pids) == 4

        await wait_until(again, what="it was started again")
        await until_status(servers, is_up=True)
        assert (await call(servers, "echo")).text == "echo {}"
        await _until_ended(parent.pids[:2])
    await _until_ended(parent.pids)


async def test_it_can_be_closed_twice_and_without_a_start(plain: Plain) -> None:
    servers = McpServers([plain.server("echo")], timeouts=QUICK)
    await servers.aclose()
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        offered = tool(servers, "echo")
    await servers.aclose()
    assert (await offered.call({})).text == "The tool 'echo' of the server 'plain' is not available now."
    assert not plain.seen("tools/call")


async def test_a_call_that_is_under_way_breaks_off_when_everything_is_closed(plain: Plain) -> None:
    plain.offer("slow")
    async with McpServers([plain.server("slow")], timeouts=QUICK) as servers:
        calling = asyncio.create_task(call(servers, "slow"))
        await wait_until(_called(plain), what="the call has arrived")
    answer = await calling
    assert answer.failed
    assert "disconnected during the call" in answer.text


async def test_many_servers_start_and_end_beside_each_other(tmp_path: Path) -> None:
    programs = [plain_in(tmp_path / f"deaf{n}", "deaf") for n in range(5)]
    servers = McpServers(
        [program.server("echo", name=f"s{n}") for n, program in enumerate(programs)],
        timeouts=replace(QUICK, end_seconds=0.5, term_seconds=0.5),
    )
    await servers.start()
    assert names(servers) == [f"s{n}_echo" for n in range(5)]
    now = asyncio.get_running_loop().time
    began = now()
    await servers.aclose()
    assert now() - began < 3  # one after the other would take five
    await _until_ended([pid for program in programs for pid in program.pids])


async def _until_ended(pids: list[int]) -> None:
    """Killed is not gone: the system takes a moment."""

    async def look() -> list[int]:
        return alive(pids)

    await wait_until(look, lambda left: not left, what="all processes have ended")
