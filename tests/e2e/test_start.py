"""Starting, stopping and starting again: what cannot work is said in one line, and what ends, ends in order."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
from dataclasses import dataclass, field

import pytest

from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import SWARM, Ended, Processes, free_port
from tests.support.stage import OPERATOR_TOKEN, Stage
from tests.support.telemetry import read_metrics
from tests.support.twin_client import ANSWERED
from tests.support.waiting import wait_until

HTTP_SECONDS = 60
END_SECONDS = 30
"""So long may an end take on a busy machine; what goes on for ever is not even then over."""

FILES = "model: {name: gpt}\nagents: {builtin: {helper: {kind: assistant, tools: [file-read, file-write]}}}\n"
"""An assistant with tools of the host."""

TOKENS = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
HOW_TO_MAKE_ONE = "import secrets; print(secrets.token_urlsafe(32))"
LOCALHOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """A configuration that cannot work, and what the one line about it must name."""

    says: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    yaml: str = ""


MISTAKES = {
    "no token": Mistake(says=("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "swarm slack manifest", "swarm demo")),
    "a bot token alone": Mistake(env={"SLACK_BOT_TOKEN": "xoxb-secret"}, says=("SLACK_APP_TOKEN", "expected")),
    "an app token alone": Mistake(env={"SLACK_APP_TOKEN": "xapp-secret"}, says=("SLACK_BOT_TOKEN", "expected")),
    "HTTP mode without its secret": Mistake(
        env={"SLACK_BOT_TOKEN": "xoxb-secret", "SWARM_SLACK_MODE": "http"}, says=("SLACK_SIGNING_SECRET", "http")
    ),
    "a mode that is none": Mistake(
        env={"SWARM_SLACK_MODE": "carrier-pigeon"}, says=("SWARM_SLACK_MODE", "carrier-pigeon", "socket", "http")
    ),
    "a port that is none": Mistake(env={"PORT": "http"}, says=("PORT", "'http'", "integer")),
    "a base URL that is none": Mistake(
        env={"SLACK_API_BASE_URL": "slack.example"}, says=("SLACK_API_BASE_URL", "slack.example", "http")
    ),
    "a home that cannot be made": Mistake(
        env={**TOKENS, "SWARM_HOME": "/proc/none"}, says=("SWARM_HOME", "/proc/none")
    ),
    "a database of another kind": Mistake(
        env={**TOKENS, "SWARM_DATABASE_URL": "mysql://here/swarm"}, says=("SWARM_DATABASE_URL", "postgresql://")
    ),
    "a setting that does not exist": Mistake(yaml="slack: {bot_tokn: x}", says=("slack.bot_tokn", "no such setting")),
    "a value that is none": Mistake(yaml="log: {level: loud}", says=("log.level", "'loud'", "debug|info")),
    "a channel by name": Mistake(yaml="channels: {general: {enabled: true}}", says=("'general'", "C0123456789")),
    "a variable that is not set": Mistake(yaml="operator_token: ${NOT_THERE}", says=("operator_token", "${NOT_THERE}")),
    "YAML that is none": Mistake(yaml="operator_token: [secret\nhttp: }", says=("swarm.yaml", "line 2, column 5")),
    "tools of the host without a work tree": Mistake(
        env=TOKENS, yaml=FILES, says=("SWARM_WORK_TREE", "not set", "helper has file-read, file-write", "Name a folder")
    ),
    "a work tree with the settings": Mistake(
        env={**TOKENS, "SWARM_WORK_TREE": "."},
        yaml=FILES,
        says=("SWARM_WORK_TREE", "/swarm.yaml", "/.env", "/servers_config.json", "Name a folder"),
    ),
    "a variable that nothing reads": Mistake(
        env={**TOKENS, "SWARM_DATBASE_URL": "postgresql://x:secret@y/z", "SLACK_INTEGRATION_BOT_CONFG": "bot.yaml"},
        says=("SWARM_DATBASE_URL", "is SWARM_DATABASE_URL meant?", "is SLACK_INTEGRATION_BOT_CONFIG meant?"),
    ),
    "channels of CAIPE's bot that are not there": Mistake(
        env={**TOKENS, "SLACK_INTEGRATION_BOT_CONFIG": "bot.yaml"}, says=("bot.yaml", "no such file")
    ),
    "an operator token of one character": Mistake(
        env={**TOKENS, "SWARM_OPERATOR_TOKEN": "q"}, says=("SWARM_OPERATOR_TOKEN", "at least 16", "token_urlsafe")
    ),
    "a host with a scheme": Mistake(
        env={"SWARM_ALLOWED_HOSTS": "https://swarm.example.org"}, says=("http.allowed_hosts", "without scheme")
    ),
    "an origin without one": Mistake(
        yaml="http: {allowed_origins: [chat.example.org]}", says=("http.allowed_origins", "https://chat.example.org")
    ),
    "a list for a mapping": Mistake(yaml="- slack", says=("swarm.yaml", "mapping")),
}


@pytest.mark.req("OPS-02", "OPS-11", "CHAN-01", "SEC-02", "SEC-05")
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_stops_the_start_with_one_line_about_it(processes: Processes, mistake: Mistake) -> None:
    if mistake.yaml:
        (processes.folder / "swarm.yaml").write_text(mistake.yaml)
    line = one_line(await processes.command("up", env={"PORT": str(free_port()), **mistake.env}))
    for word in mistake.says:
        assert word in line
    assert "secret" not in line.lower().replace("signing_secret", "").replace(HOW_TO_MAKE_ONE, "")


@pytest.fixture
async def stage(processes: Processes) -> Stage:
    """A twin that runs, and a coordinator that is not started."""
    stage = Stage(processes)
    await stage.start_twin()
    return stage


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize(
    ("name", "begins"), [("SLACK_BOT_TOKEN", "xoxb"), pytest.param("SLACK_APP_TOKEN", "xapp", marks=pytest.mark.long)]
)
async def test_a_token_that_slack_refuses_stops_the_start(stage: Stage, name: str, begins: str) -> None:
    line = one_line(await _up(stage, **{name: f"{begins}-of-somebody-else"}))
    assert name in line
    assert "invalid_auth" in line
    assert "somebody" not in line


@pytest.mark.req("OPS-02")
async def test_a_port_in_use_stops_the_start(processes: Processes) -> None:
    with socket.create_server((LOCALHOST, 0)) as other:
        port = str(other.getsockname()[1])
        line = one_line(await processes.command("up", env={**TOKENS, "PORT": port}))
    assert "PORT" in line
    assert port in line


@pytest.mark.req("OPS-03")
async def test_a_database_that_cannot_be_reached_stops_the_start(processes: Processes) -> None:
    url = f"postgresql://swarm:hidden@{LOCALHOST}:{free_port()}/swarm"
    line = one_line(await processes.command("up", env={**TOKENS, "PORT": "0", "SWARM_DATABASE_URL": url}))
    assert "database cannot be reached" in line
    assert "hidden" not in line


@pytest.mark.req("OPS-03")
async def test_a_postgresql_that_is_not_migrated_stops_the_start_until_it_is(
    processes: Processes, postgres_server_url: str
) -> None:
    with fresh_database(postgres_server_url) as url:
        env = {**TOKENS, "PORT": "0", "SWARM_DATABASE_URL": url}
        assert "Run: swarm db upgrade" in one_line(await processes.command("up", env=env))
        assert (await processes.command("db", "upgrade", env=env)).code == 0
        coordinator = processes.start(
            "coordinator", SWARM, "up", env={**env, "SLACK_API_BASE_URL": "http://127.0.0.1:1/"}
        )
        await coordinator.says("Our identity cannot be read")  # which comes after the database
        coordinator.kill()


@pytest.mark.req("OPS-02")
async def test_the_environment_comes_before_dot_env_before_the_home_before_yaml(processes: Processes) -> None:
    here = processes.folder / "here"
    (processes.folder / ".swarm").mkdir()
    here.mkdir()
    (here / "swarm.yaml").write_text("log: {level: from-yaml}")
    (processes.folder / ".swarm" / ".env").write_text("SWARM_LOG_LEVEL=from-home\n")
    (here / ".env").write_text("SWARM_LOG_LEVEL=from-here\n")

    async def complained_of(**env: str) -> str:
        """The value that counts, since it is refused."""
        line = one_line(await processes.command("up", env=env, cwd=here))
        return line.split("'")[1]

    assert await complained_of(SWARM_LOG_LEVEL="from-environment") == "from-environment"
    assert await complained_of() == "from-here"
    (here / ".env").unlink()
    assert await complained_of() == "from-home"
    (processes.folder / ".swarm" / ".env").unlink()
    assert await complained_of() == "from-yaml"


@pytest.mark.req("OPS-12", "LOOP-04")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_stop_answers_waiting_polls_with_nothing_and_ends_with_0(stage: Stage, number: signal.Signals) -> None:
    stage.settings["SWARM_METRICS_TOKEN"] = "scraper-of-the-test"
    await stage.start_coordinator()
    async with http_client(timeout=HTTP_SECONDS) as http:

        async def polls() -> float:
            return (await read_metrics(stage.base, http, "scraper-of-the-test")).value("swarm_polls_waiting")

        lea = stage.visitor(http, await stage.register(http, "lea"))
        waiting = [asyncio.create_task(lea.poll(wait_seconds=55)) for _ in range(3)]
        await wait_until(polls, lambda count: count == 3, what="three polls wait")
        stage.coordinator.send(number)
        assert await asyncio.gather(*waiting) == [[], [], []]
    assert await stage.coordinator.exit_code(END_SECONDS) == 0
    assert "Traceback" not in stage.coordinator.output


@pytest.mark.req("OPS-12", "OPS-10")
async def test_a_stop_brings_the_call_in_flight_to_its_end(stage: Stage) -> None:
    stage.settings["SWARM_SLACK_TIMEOUT_SECONDS"] = "30"
    await stage.start_coordinator()
    async with http_client(timeout=HTTP_SECONDS) as http:
        twin = stage.person(http)
        lea = stage.visitor(http, await stage.register(http, "lea"))
        assert await lea.poll() == []
        ts = await twin.say("@swarm hello")
        (trigger,) = await lea.poll(wait_seconds=20)
        await twin.fault("delay", method="chat.postMessage", seconds=600)
        entry = trigger["inbox_messages"][0]
        await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=entry["id"], message="last words")
        await twin.until(ts, lambda seen: seen.answers)  # the post is there, but Slack is silent
        stage.coordinator.send(signal.SIGTERM)
        await _door_closed(stage.port)
        await twin.advance(600)  # now Slack answers
        assert await stage.coordinator.exit_code(END_SECONDS) == 0
        await stage.start_coordinator()
        await twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji)
        assert len(await twin.posts(ts)) == 1
        reads = await twin.calls("conversations.replies")
        assert [call for call in reads if "oldest" in call["args"]] == []  # there was nothing to doubt


@pytest.mark.long
@pytest.mark.req("OPS-12")
async def test_a_second_signal_ends_it_at_once(stage: Stage) -> None:
    stage.settings["SWARM_SLACK_TIMEOUT_SECONDS"] = "30"
    await stage.start_coordinator()
    async with http_client(timeout=HTTP_SECONDS) as http:
        twin = stage.person(http)
        await twin.fault("delay", method="reactions.add", seconds=600)
        lea = stage.visitor(http, await stage.register(http, "lea"))
        assert await lea.poll() == []
        await twin.until(await twin.say("@swarm hello"), lambda seen: seen.emoji)  # 👀 is there, but Slack is silent
        stage.coordinator.send(signal.SIGTERM)
        await stage.coordinator.says("Stopping")
        assert stage.coordinator.alive
        stage.coordinator.send(signal.SIGTERM)
        assert await stage.coordinator.exit_code(END_SECONDS) == 128 + signal.SIGTERM  # and not 0, as without haste


@pytest.mark.long
@pytest.mark.req("OPS-04", "OPS-12")
async def test_a_restart_keeps_the_operators_token_and_those_of_the_agents(stage: Stage) -> None:
    stage.settings["SWARM_OPERATOR_TOKEN"] = ""
    await stage.start_coordinator()
    path = stage.home / "operator.token"
    operator_token = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with http_client(timeout=HTTP_SECONDS) as http:
        added = await stage.visitor(http, operator_token).post("/agents", {"name": "lea", "role": "lead"})
        await stage.restart_coordinator()
        assert path.read_text().strip() == operator_token
        assert (await stage.visitor(http, operator_token).get("/agents"))["agents"][0]["name"] == "lea"
        assert (await stage.visitor(http, added["token"]).get("/me"))["name"] == "lea"


@pytest.mark.long
@pytest.mark.req("OPS-02", "LOOP-01")
async def test_over_http_slack_is_answered_as_well(stage: Stage) -> None:
    secret = "the-signing-secret-of-the-test"
    stage.settings |= {"SWARM_SLACK_MODE": "http", "SLACK_SIGNING_SECRET": secret, "SLACK_APP_TOKEN": ""}
    async with http_client(timeout=HTTP_SECONDS) as http:
        twin = stage.person(http)
        await stage.listen_over_http(http, secret)
        await stage.start_coordinator()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        assert await lea.poll() == []
        ts = await twin.say("@swarm hello")
        (trigger,) = await lea.poll(wait_seconds=20)
        entry = trigger["inbox_messages"][0]
        await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=entry["id"], message="by post")
        seen = await twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji)
        assert seen.answers == ("by post",)
        assert await twin.calls("apps.connections.open") == []


@pytest.mark.long
@pytest.mark.req("SEC-05")
async def test_hosts_and_pages_of_the_settings_are_answered_at_each_door_and_no_others(stage: Stage) -> None:
    page = "https://chat.example.org"
    stage.settings |= {"SWARM_ALLOWED_HOSTS": "swarm.example.org,*.local", "SWARM_ALLOWED_ORIGINS": page}
    await stage.start_coordinator()
    async with http_client(timeout=HTTP_SECONDS) as http:
        operator = stage.visitor(http, OPERATOR_TOKEN)
        for path in ("/mcp", "/metrics", "/slack/events", "/poll", "/agents", "/agui/x", "/docs", "/readyz"):
            for foreign in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
                refused = await operator.ask("GET", path, headers=foreign)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden"), (path, foreign)
        for own in ({"Host": "swarm.example.org"}, {"Host": "a.local:80"}):
            answer = await operator.ask("GET", "/agents", headers=own)
            assert answer.status_code == 200, own
        assert (await operator.ask("GET", "/agents", headers={"Origin": page})).status_code == 403
        answer = await operator.ask("GET", "/agui/x", headers={"Origin": page})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (404, page)


def one_line(ended: Ended) -> str:
    """The one line with which a command gave up."""
    assert ended.code not in (0, None)
    (line,) = ended.err.splitlines()
    return line


async def _up(stage: Stage, **env: str) -> Ended:
    """A start that must fail; of the log only errors are wanted."""
    return await stage.processes.command("up", env={**stage.environment, "SWARM_LOG_LEVEL": "error", **env})


async def _door_closed(port: int) -> None:
    """Nobody listens any more, for a while now: what is shut after the doors has begun to shut."""
    refused = 0

    async def look() -> int:
        nonlocal refused
        try:
            _, writer = await asyncio.open_connection(LOCALHOST, port)
            writer.close()
            refused = 0
        except ConnectionError:
            refused += 1
        return refused

    await wait_until(look, lambda times: times >= 10, what="the coordinator takes no more requests")
