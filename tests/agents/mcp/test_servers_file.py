"""``servers_config.json``: what it may say, and what is said of what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.agents.mcp import server
from swarm.agents.mcp.server import Address, McpServer, Program
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
        ["mcpServers.a.type", "mcpServers.a.autoApprove"],
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "Invalid JSON"),
        ("[]", "should be an object"),
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
