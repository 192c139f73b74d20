"""``servers_config.json``: what it may say, and what is said of what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.config import mcp_servers as server
from swarm.config.mcp_servers import Address, McpServer, Program
from swarm.domain.errors import ConfigurationError

pytestmark = pytest.mark.req("AGENT-02")


def read(folder: Path, document: Any, **environment: str) -> tuple[McpServer, ...]:
    """The servers of a document."""
    path = folder / "servers_config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return server.read(path, environment)


def test_a_server_is_a_program_or_an_address(tmp_path: Path) -> None:
    git, wiki = read(
        tmp_path,
        {
            "mcpServers": {
                "git": {
                    "command": "uvx",
                    "args": ["mcp-server-git", "--token", "${GIT_TOKEN}"],
                    "env": {"A": "b"},
                    "cwd": "work",
                    "allowedTools": ["status", "log", "status"],
                    "timeout": 5,
                },
                "wiki": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}},
            }
        },
        GIT_TOKEN="hunter2hunter2",
        HOST="wiki.example",
        WIKI_TOKEN="correct-horse",
    )
    assert git == McpServer(
        name="git",
        reached=Program(
            command="uvx",
            args=("mcp-server-git", "--token", "hunter2hunter2"),
            env={"A": "b"},
            cwd=tmp_path.resolve() / "work",
        ),
        allowed=("status", "log"),
        timeout_seconds=5,
        secrets=("hunter2hunter2",),
    )
    assert wiki.reached == Address(url="https://wiki.example/mcp", headers={"Authorization": "Bearer correct-horse"})
    assert (wiki.allowed, wiki.timeout_seconds) == ((), 60)
    assert set(wiki.secrets) == {"correct-horse", "Bearer correct-horse"}
    assert "hunter2" not in repr(git)
    assert "correct" not in repr(wiki)


@pytest.mark.parametrize(
    ("top", "own", "expected"),
    [
        (["a", "b"], None, ("a", "b")),
        (["a", "b"], ["c"], ("c",)),
        (["a", "b"], [], ()),
        ({"s": ["a"], "t": ["b"]}, None, ("a",)),
        ({"t": ["b"]}, None, ()),
        ({"s": ["a"]}, ["c"], ("c",)),
        (None, ["c"], ("c",)),
        ([], None, ()),
        (None, None, ()),
    ],
)
def test_tools_are_allowed_at_the_top_or_by_the_server_which_wins(
    tmp_path: Path, top: Any, own: Any, expected: tuple[str, ...]
) -> None:
    server: dict[str, Any] = {"command": "s"} | ({} if own is None else {"allowedTools": own})
    document = {"mcpServers": {"s": server, "t": {"command": "t"}}} | ({} if top is None else {"allowedTools": top})
    read_server = read(tmp_path, document)[0]
    assert read_server.allowed == expected
    assert read_server.shares_list is (top == ["a", "b"] and own is None)


def test_a_list_at_the_top_is_the_only_servers_own(tmp_path: Path) -> None:
    (only,) = read(tmp_path, {"mcpServers": {"s": {"command": "s"}}, "allowedTools": ["a"]})
    assert (only.allowed, only.shares_list) == (("a",), False)


def test_a_disabled_server_is_left_out_whatever_it_needs(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "${NOT_SET}", "disabled": True}, "b": {"command": "b"}}}
    assert [server.name for server in read(tmp_path, document)] == ["b"]


def test_keys_of_other_programs_are_named_and_not_used(tmp_path: Path) -> None:
    document = {
        "mcpServers": {"a": {"url": "http://a/mcp", "type": "http", "autoApprove": ["x"]}},
        "inputs": [],
        "allowedTools": {"b": ["x"]},
    }
    with capture_logs() as lines:
        assert read(tmp_path, document)[0].allowed == ()
    assert [line["keys"] for line in lines if line["action"] == "mcp_unknown_keys"] == [
        ["inputs"],
        ["allowedTools.b"],
        ["mcpServers.a.autoApprove"],
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "line 1, column 2: Expecting property name"),
        ("[]", "a mapping with mcpServers is expected"),
        ({}, "mcpServers: this is missing; a mapping from the name of each server"),
        ({"mcpServers": []}, "mcpServers: a mapping from the name of each server"),
        ({"mcpServers": {"": {"command": "x"}}}, "mcpServers: every server needs a name"),
        ({"mcpServers": {"a": {}}}, "mcpServers.a: either command or url is expected"),
        ({"mcpServers": {"a": {"command": "x", "url": "http://a"}}}, "mcpServers.a: either command or url is expected"),
        ({"mcpServers": {"a": {"url": "ftp://SECRET"}}}, "mcpServers.a.url: an address that begins with http://"),
        ({"mcpServers": {"a": {"command": "x", "args": "SECRET"}}}, "mcpServers.a.args: a list of texts is expected"),
        ({"mcpServers": {"a": {"command": "x", "env": {"K": 7}}}}, "mcpServers.a.env.K: a mapping of texts"),
        ({"mcpServers": {"a": {"command": "x", "timeout": 60000}}}, "mcpServers.a.timeout: seconds are expected"),
        ({"mcpServers": {"a": {"command": "x", "timeout": 0}}}, "mcpServers.a.timeout: seconds are expected"),
        (
            {"mcpServers": {"a": {"command": "x", "allowedTools": "all"}}},
            "mcpServers.a.allowedTools: a list of tool names",
        ),
        ({"mcpServers": {"a": {"command": "x"}}, "allowedTools": "all"}, "allowedTools: a list of tool names"),
        ({"mcpServers": {"a": {"command": "x", "disabled": "no"}}}, "mcpServers.a.disabled: true or false"),
        ({"mcpServers": {"a": {"command": "x", "env": {"K": "SECRET${N}"}}}}, "mcpServers.a.env.K refers to ${N}"),
        (
            {"mcpServers": {"a": {"url": "http://a", "headers": {"K": "SECRET\n"}}}},
            "mcpServers.a.headers.K: a single line of text",
        ),
    ],
)
def test_what_it_may_not_say_is_told_with_file_and_key_and_without_values(
    tmp_path: Path, document: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, document)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "servers_config.json"))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json cannot be read: No such file or directory"):
        server.read(tmp_path / "none.json", {})


FOUND = {"T": "hunter2hunter2", "E": ""}


@pytest.mark.req("AGENT-13")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${T}", "hunter2hunter2"),
        ("${env:T}", "hunter2hunter2"),
        ("a-${T:-b}-c", "a-hunter2hunter2-c"),
        ("a-${NONE:-b}-c", "a-b-c"),
        ("a${env:NONE:-}c", "ac"),
        ("${NONE:-http://b/}", "http://b/"),
        ("5 $", "5 $"),
    ],
)
def test_placeholders_of_other_programs_are_filled_in(tmp_path: Path, text: str, meant: str) -> None:
    document = {
        "mcpServers": {
            "a": {"command": text, "args": [text], "env": {"K": text}},
            "b": {"url": f"http://b/{text}", "headers": {"K": text}},
        }
    }
    program, address = (one.reached for one in read(tmp_path, document, **FOUND))
    assert isinstance(program, Program)
    assert isinstance(address, Address)
    assert (program.command, program.args, program.env) == (meant, (meant,), {"K": meant})
    assert (address.url, address.headers) == (f"http://b/{meant}", {"K": meant})


LEFT_EVERYWHERE = ["${input:key}", "${NONE:-${T}}", "${config:a.b}", "${", "${T", "${/}", "a ${T:+x}", "${T:?no}"]
LEFT_BUT_IN_ARGS = ["$T", "$env:T", "$(cat key)", "{{T}}", "{env:T}", "{file:~/key}", "%USERPROFILE%", "${NONE:-$T}"]
LEFT_IN_A_PART = ["Bearer $T", "x$T/y", "Bearer {env:T}"]


@pytest.mark.req("AGENT-13")
@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("url", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS, *LEFT_IN_A_PART]),
        ("httpUrl", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS, *LEFT_IN_A_PART]),
        ("headers", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS, *LEFT_IN_A_PART]),
        ("command", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS]),
        ("cwd", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS]),
        ("env", [*LEFT_EVERYWHERE, *LEFT_BUT_IN_ARGS]),
        ("args", LEFT_EVERYWHERE),
    ],
)
def test_nothing_with_a_placeholder_left_in_it_is_sent(tmp_path: Path, key: str, texts: list[str]) -> None:
    base: dict[str, Any] = {"url": "http://b"} if key == "headers" else {} if "rl" in key else {"command": "x"}
    for text in texts:
        whole = f"http://b/{text}" if "rl" in key else text
        value: Any = {"headers": {"K": whole}, "env": {"K": whole}, "args": ["-x", whole]}.get(key, whole)
        with pytest.raises(ConfigurationError) as caught:
            read(tmp_path, {"servers": {"a": base | {key: value}}}, **FOUND)
        assert f"servers.a.{key}" in str(caught.value), text
        assert "is not replaced here; write ${NAME}" in str(caught.value), text
    for name in ("headers", "env"):
        with pytest.raises(ConfigurationError, match="a name without a placeholder"):
            read(
                tmp_path,
                {
                    "servers": {
                        "a": {"url": "http://b", "command": None, name: {"X-${T}": "b"}}
                        if name == "headers"
                        else {"command": "x", name: {"${T}": "b"}}
                    }
                },
                **FOUND,
            )


@pytest.mark.req("AGENT-13")
def test_a_dollar_that_a_program_may_mean_stays(tmp_path: Path) -> None:
    args = ["$T", "s/a$/b/", "$.items[0]", "{{name}}", "100%"]
    env = {"PATTERN": "^a$", "PASSWORD": "pa$word1", "MOTD": "{{ hello", "RATE": "%d"}
    (one,) = read(tmp_path, {"mcpServers": {"a": {"command": "x", "args": args, "env": env}}})
    assert isinstance(one.reached, Program)
    assert (list(one.reached.args), one.reached.env) == (args, env)


HTTP: dict[str, Any] = {"url": "http://a/mcp"}
RUN: dict[str, Any] = {"command": "x"}


@pytest.mark.req("AGENT-13")
@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"a": HTTP | {"type": "http"}}},
        {"mcpServers": {"a": HTTP | {"type": "streamable-http"}}},
        {"mcpServers": {"a": HTTP | {"transport": "streamableHttp"}}},
        {"mcpServers": {"a": {"serverUrl": "http://a/mcp"}}},
        {"mcpServers": {"a": {"httpUrl": "http://a/mcp", "type": "http", "enabled": True}}},
        {"servers": {"a": HTTP | {"disabled": False}}, "inputs": []},
        {"mcp": {"servers": {"a": HTTP}}},
        {"mcp.servers": {"a": HTTP}, "editor.fontSize": 12},
        {"mcpServers": {"b": RUN | {"enabled": False}, "c": HTTP | {"type": "sse", "disabled": True}, "a": HTTP}},
        '\ufeff{"mcpServers": {"a": {"url": "http://a/mcp"}}}',
        '{ // the servers\n"mcpServers": {"a": {/* "url": 1 */ "url": "http://a/mcp",},},\n}',
    ],
)  # fmt: skip
def test_a_file_of_another_program_is_understood(tmp_path: Path, document: Any) -> None:
    (one,) = read(tmp_path, document)
    assert (one.name, one.reached) == ("a", Address(url="http://a/mcp"))


def test_a_file_in_utf_16_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": HTTP}}), encoding="utf-16")
    assert [one.name for one in server.read(path, {})] == ["a"]


@pytest.mark.req("AGENT-13")
@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"mcpServers": {"a": HTTP | {"type": "sse"}}}, "mcpServers.a.type: SSE is not supported"),
        ({"servers": {"a": HTTP | {"transport": "SSE"}}}, "servers.a.transport: SSE is not supported"),
        ({"mcp": {"servers": {"a": HTTP | {"type": "ws"}}}}, "mcp.servers.a.type: http or streamable-http is"),
        ({"mcpServers": {"a": HTTP | {"type": "stdio"}}}, "mcpServers.a.type: http or"),
        ({"mcpServers": {"a": RUN | {"type": "http"}}}, "mcpServers.a.type: stdio is expected"),
        ({"mcpServers": {"a": HTTP | {"httpUrl": "http://b"}}}, "mcpServers.a: either command or url"),
        ({"mcpServers": {"a": RUN | {"serverUrl": "http://b"}}}, "mcpServers.a: either command or url"),
        ({"mcpServers": {"a": {"serverUrl": "ws://SECRET"}}}, "mcpServers.a.serverUrl: "),
        ({"mcpServers": {"a": {"url": "${SECRET_URL:-ftp://b}"}}}, "mcpServers.a.url: an address that begins with"),
        ({"mcpServers": {"a": RUN | {"enabled": "false"}}}, "mcpServers.a.enabled: true or false"),
        ({"mcpServers": {"a": RUN | {"enabled": True, "disabled": True}}}, "mcpServers.a: disabled and enabled"),
        ({"mcpServers": {"a": RUN | {"envFile": ".env"}}}, "mcpServers.a.envFile: this is not read"),
        ({"mcpServers": {"a": HTTP | {"oauth": {"clientId": "x"}}}}, "mcpServers.a.oauth: this is not supported"),
        ({"mcpServers": {"a": RUN | {"disabledTools": ["x"]}}}, "mcpServers.a.disabledTools: this is not read"),
        ({"mcpServers": {"a": RUN}, "servers": {"a": HTTP}}, "servers.a stands in mcpServers, too"),
        (
            '{"mcpServers": {"a": {"command": "x"},\n "b": {},\n "a": {"command": "y"}}}',
            "mcpServers.a stands twice (lines 1, 3)",
        ),
        ('{"mcpServers": {}, "mcpServers": {}}', ": mcpServers stands twice"),
        ('{"mcpServers": {"a": {"command": "x", "command": "y"}}}', "mcpServers.a.command stands twice"),
        ({"context_servers": {"a": {"command": {"path": "x"}}}}, "context_servers.a.command: "),
        ({"mcpServers": {"a": HTTP | {"headersHelper": "get.sh"}}}, "mcpServers.a.headersHelper: this is not read"),
        ({"mcpServers": {"a": RUN | {"environment": {"A": "b"}}}}, "mcpServers.a.environment: this is not read"),
        ({"mcpServers": {"a": RUN | {"workingDirectory": "/x"}}}, "mcpServers.a.workingDirectory: this is not read"),
        ({"servers": {"a": RUN | {"sandboxEnabled": True}}}, "servers.a.sandboxEnabled: this is not supported"),
        ({"mcpServers": {"a": RUN}, "mcp": {"excluded": ["a"]}}, "mcp.excluded: this is not read"),
        ({"mcpServers": {"a": RUN}, "allowMCPServers": ["b"]}, "allowMCPServers: this is not read"),
        ({"mcpServers": {"a": RUN}, "disabledMcpjsonServers": ["a"]}, "disabledMcpjsonServers: this is not read"),
        ({"mcpServers": {"a": RUN | {"timeout": 600000}}}, "mcpServers.a.timeout: "),
        ({"mcpServers": [{"name": "a", "command": "x"}]}, "mcpServers: a mapping from the name of each server"),
        ({"servers": ["a"]}, "servers: a mapping from the name of each server"),
        ('{"mcpServers": {"a": {/* no end', "line 1, column 23"),
    ],
)
def test_what_another_program_means_otherwise_is_refused_by_its_key(tmp_path: Path, document: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, document)
    assert said in str(caught.value)
    assert "SECRET" not in str(caught.value)
