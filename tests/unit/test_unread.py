"""Variables that look like settings and that nothing reads stop a start; those that any part reads do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.config import VARIABLES, Settings, load
from swarm.config.variables import READ_ELSEWHERE
from swarm.domain.errors import ConfigurationError

ROOT = Path(__file__).parents[2]

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(**environment: str) -> Settings:
        return load(environment, folder=tmp_path, user_home=tmp_path / "user")

    return read


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SWARM_DATBASE_URL", "is SWARM_DATABASE_URL meant?"),
        ("SWARM_METRICS_TOKN", "is SWARM_METRICS_TOKEN meant?"),
        ("SWARM_PORT", "is PORT meant?"),
        ("SWARM_LLM_MODEL", "is LLM_MODEL meant?"),
        ("SWARM_TOKN", "is SWARM_TOKEN meant?"),
        ("SLACK_INTEGRATION_BOT_TOKN", "is SLACK_INTEGRATION_BOT_TOKEN meant?"),
        ("SLACK_INTEGRATION_BOT_CONFG", "is SLACK_INTEGRATION_BOT_CONFIG meant?"),
        ("SWARM_ZZZZZZZZZZZZZZZZ", "there is no such setting"),
    ],
)
def test_a_variable_that_nothing_reads_stops_the_start_and_says_what_to_do(read: Read, name: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(**{name: "hush-hush"})
    said = f"{raised.value.message} {raised.value.hint}"
    assert f"{name} (in the environment) is never read: " in said
    assert says in said
    assert "unset it" in said
    assert "hush" not in said


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize("file", [".env", "user/.swarm/.env"])
def test_a_variable_of_a_file_is_named_with_the_file(read: Read, tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("SWARM_EMPTY=\nSWARM_HOME_FOLDER=/x\nOTHER_PROGRAM=1\nexport SWARM_DOCUMENT=/y\n")
    with pytest.raises(ConfigurationError) as raised:
        read()
    assert f"SWARM_HOME_FOLDER (in {path})" in raised.value.message
    assert f"SWARM_DOCUMENT (in {path}) is never read: is SWARM_DOCUMENTS meant?" in raised.value.message
    assert "SWARM_EMPTY" not in raised.value.message
    assert "OTHER" not in raised.value.message


@pytest.mark.req("OPS-11")
def test_every_variable_that_a_part_reads_may_be_set(read: Read) -> None:
    """Also where another part starts: the environment is one for the coordinator, the agents and their hooks."""
    for name in READ_ELSEWHERE - {"SWARM_CONFIG"}:
        read(**{name: "anything"})
    read(SWARM_TEST_ANYTHING="1", SLACK_WEBHOOK_URL="1", SWARMS="1", DYNAMIC_AGENTS_URL="http://agents.example")


def test_every_variable_of_ours_that_the_code_names_is_known() -> None:
    named = {
        name
        for folder in ("swarm", "tools")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\"(SWARM_[A-Z_]*[A-Z])\"", path.read_text(encoding="utf-8"))
    }
    assert named - VARIABLES.keys() - READ_ELSEWHERE == set()
    assert named >= READ_ELSEWHERE


@pytest.mark.req("OPS-11")
def test_what_files_and_tools_ask_for_is_read(read: Read, tmp_path: Path) -> None:
    (tmp_path / "swarm.yaml").write_text(
        "agents: {remote: {a: {url: 'http://a', token: '${SWARM_TOKEN_OF_A}'}}}\n"
        "tools: {shell: {environment: [SWARM_OF_SHELL]}, git: {environment: [SWARM_OF_GIT]}, "
        "delegates: {environment: [SWARM_OF_DELEGATES]}, servers_config: mcp.json}"
    )
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"url": "http://a/${SWARM_OF_SERVER}"}}}')
    asked = {f"SWARM_OF_{who}": "1" for who in ("SHELL", "GIT", "DELEGATES", "SERVER")}
    read(SWARM_TOKEN_OF_A="1", **asked)
    with pytest.raises(ConfigurationError, match="SWARM_OF_NOBODY"):
        read(SWARM_TOKEN_OF_A="1", SWARM_OF_NOBODY="1", **asked)


@pytest.mark.req("OPS-11")
def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_setting(read: Read) -> None:
    for service in ("SWARM", "SWARM_POSTGRES"):
        port = f"{service}_PORT_8080_TCP"
        read(
            **{
                f"{service}_SERVICE_HOST": "10.0.0.1",
                f"{service}_SERVICE_PORT": "8080",
                f"{service}_SERVICE_PORT_HTTP": "8080",
                f"{service}_PORT": "tcp://10.0.0.1:8080",
                port: "tcp://10.0.0.1:8080",
                f"{port}_ADDR": "10.0.0.1",
                f"{port}_PORT": "8080",
                f"{port}_PROTO": "tcp",
            }
        )
