"""The list of a server's tools: read whole, read again when it changes, and only what is allowed is offered and run."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.mcp.conftest import (
    QUICK,
    Plain,
    at,
    call,
    names,
    plain_in,
    port_of_ours,
    tool,
    until_offered,
)
from swarm_agents.mcp import connection, listed
from swarm_agents.mcp.servers import McpServers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("AGENT-02")


async def test_a_list_of_several_pages_is_read_whole(tmp_path: Path) -> None:
    paged = plain_in(tmp_path / "paged", "pages=2", tools=("a", "b", "c", "d", "e"))
    async with McpServers([paged.server("e", "a", "c")], timeouts=QUICK) as servers:
        assert names(servers) == ["e", "a", "c"]
        assert servers.status()[0].others == ("b", "d")
    assert len(paged.seen("tools/list")) == 3


@pytest.mark.req("CHAN-11")
async def test_only_a_tool_whose_server_says_so_counts_as_reading(tmp_path: Path) -> None:
    hinting = plain_in(tmp_path / "hinting", tools=("look", "touch", "echo"))
    async with McpServers([hinting.server("look", "touch", "echo")], timeouts=QUICK) as servers:
        assert {tool.name: tool.is_read_only for tool in servers.tools()} == {
            "look": True, "touch": False, "echo": False,
        }  # fmt: skip


@pytest.mark.req("HITL-04")
async def test_a_tool_is_destructive_if_its_server_says_so_or_hints_at_changes(tmp_path: Path) -> None:
    all_names = ("look", "touch", "add", "wipe", "titled", "echo")
    hinting = plain_in(tmp_path / "hinting", tools=all_names)
    async with McpServers([hinting.server(*all_names)], timeouts=QUICK) as servers:
        assert [tool.name for tool in servers.tools() if tool.is_destructive] == ["touch", "wipe"]


async def test_a_list_without_an_end_is_a_server_that_cannot_be_used(tmp_path: Path) -> None:
    endless = plain_in(tmp_path / "endless", "endless")
    async with McpServers([endless.server("echo")], timeouts=QUICK) as servers:
        assert not servers.tools()
        assert servers.status()[0].detail == "its list of tools is endless"


async def test_a_list_with_more_pages_after_too_many_tools_is_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MOST_TOOLS", 3)
    paged = plain_in(tmp_path / "paged", "pages=2", tools=("a", "b", "c", "d", "e"))
    async with McpServers([paged.server("a")], timeouts=QUICK) as servers:
        assert servers.status()[0].detail == "its list of tools is endless"
    whole = plain_in(tmp_path / "whole", "pages=2", tools=("a", "b", "c", "d"))  # its last page
    async with McpServers([whole.server("d")], timeouts=QUICK) as servers:
        assert names(servers) == ["d"]


def test_the_library_gets_no_more_of_a_list_than_what_is_read() -> None:
    big = {"description": "x" * 1000, "inputSchema": {"type": "object", "properties": {"a": {}}}}
    page = {"tools": [{"name": name, **big} for name in ("a", "b")], "nextCursor": "2", "_meta": {"a": [1] * 1000}}
    kept = listed.sound(page, "2025-11-25", {"a"}, lambda *_: pytest.fail("both are sound"))
    left = {"name": "b", "inputSchema": {"type": "object"}}
    assert kept == {"tools": [{"name": "a", **big}, left], "nextCursor": "2"}


async def test_a_list_that_changes_is_read_again(plain: Plain) -> None:
    async with McpServers([plain.server("echo", "later")], timeouts=QUICK) as servers:
        assert names(servers) == ["echo"]
        plain.offer("later", "remove")
        plain.tell()
        await until_offered(servers, "later")
        assert (await call(servers, "later")).text == "later {}"


async def test_a_change_that_is_told_of_while_the_first_list_is_read_is_read_again(tmp_path: Path) -> None:
    growing = plain_in(tmp_path / "growing", "growing")
    async with McpServers([growing.server("echo", "later")], timeouts=QUICK) as servers:
        await until_offered(servers, "echo", "later")


async def test_a_change_that_no_notification_tells_of_is_found_out(plain: Plain) -> None:
    timeouts = replace(QUICK, refresh_seconds=0.1)
    async with McpServers([plain.server("echo", "later")], timeouts=timeouts) as servers:
        plain.offer("later")
        await until_offered(servers, "later")


async def test_a_tool_that_was_offered_and_is_renamed_is_not_run_under_any_name(plain: Plain) -> None:
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        before = tool(servers, "echo")
        plain.offer("echo2", "remove")
        plain.tell()
        await until_offered(servers)
        answer = await before.call({})
        assert answer.failed
        assert answer.text == "The tool 'echo' of the server 'plain' is not available now."
        plain.offer("echo")  # and a tool with an allowed name is allowed
        plain.tell()
        await until_offered(servers, "echo")
        assert (await before.call({})).text == "echo {}"
    assert len(plain.seen("tools/call")) == 1


async def test_nothing_is_allowed_that_is_not_named_exactly(plain: Plain) -> None:
    plain.offer("Echo", "echo ", "echo2", "ech", "ECHO")
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        assert not servers.tools()
        for name in ("Echo", "echo ", "echo", "ECHO", "remove"):
            answer = await servers._connections[0].call(name, {})
            assert "is not available" in answer.text
    assert not plain.seen("tools/call")


async def test_without_allowed_tools_there_are_none_and_the_log_names_those_that_could_be(plain: Plain) -> None:
    with capture_logs() as lines:
        async with McpServers([plain.server()], timeouts=QUICK) as servers:
            assert not servers.tools()
    (line,) = [line for line in lines if line["action"] == "mcp_tools"]
    assert (line["allowed"], line["not_allowed"]) == ([], ["echo", "remove"])
    assert (line["server"], line["log_level"]) == ("plain", "warning")


async def test_the_log_names_allowed_tools_that_there_are_not_once(plain: Plain) -> None:
    with capture_logs() as lines:
        async with McpServers([plain.server("echo", "ecko")], timeouts=QUICK) as servers:
            plain.tell()

            async def read_again() -> bool:
                return len(plain.seen("tools/list")) == 2

            await wait_until(read_again, what="the list was read again")
            assert names(servers) == ["echo"]
    (line,) = [line for line in lines if line["action"] == "mcp_tools"]
    assert line["allowed_but_missing"] == ["ecko"]


async def test_tools_of_one_name_on_two_servers_both_work_and_keep_their_names(tmp_path: Path) -> None:
    one, two = plain_in(tmp_path / "one"), plain_in(tmp_path / "two", tools=("remove", "echo", "alone"))
    configured = [one.server("echo", name="Our wiki"), two.server("echo", "alone", name="two")]
    async with McpServers(configured, timeouts=QUICK, reserved={"two_echo"}) as servers:
        first, second, third = names(servers)
        assert (first, third) == ("Our_wiki_echo", "alone")
        assert second.startswith("two_echo_")
        await call(servers, first, a=1)
        await call(servers, second, a=2)
        one.offer()
        one.tell()
        await until_offered(servers, second, third)
    assert [seen["params"]["arguments"] for seen in one.seen("tools/call") + two.seen("tools/call")] == [
        {"a": 1},
        {"a": 2},
    ]


async def test_tools_of_a_list_for_all_servers_keep_their_names_and_none_is_missed(tmp_path: Path) -> None:
    one, two = plain_in(tmp_path / "one", tools=("a", "c")), plain_in(tmp_path / "two", tools=("b", "c"))
    both = [program.server("a", "b", "c", name=program.folder.name, shares_list=True) for program in (one, two)]
    with capture_logs() as lines:
        async with McpServers(both, timeouts=QUICK) as servers:
            assert names(servers) == ["a", "c", "b", "two_c"]
            assert (await call(servers, "two_c")).text == "c {}"
    assert len(two.seen("tools/call")) == 1
    assert not [line for line in lines if line["action"] == "mcp_tools" and line["log_level"] == "warning"]


def _doubled(levels: int) -> dict[str, Any]:
    parts: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": parts | {f"d{levels}": {}}}


def _deep(levels: int) -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"allOf": [deep]}
    return deep


BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "nowhere": (
        {"allOf": [{"$ref": "#/allOf/7"}]},
        "models cannot read it: Could not find $ref definition for #/allOf/7",
    ),
    "elsewhere": (
        {"properties": {"a": {"$ref": "http://example.org/"}}},
        "models cannot read it: Could not find $ref definition for http://example.org/",
    ),
    "unknown type": (
        {"properties": {"a": {"type": "strin"}}},
        "its properties.a.type is no JSON Schema: 'strin' is not valid under any of the given schemas",
    ),
    "no schema": (
        {"properties": {"a": "string"}},
        "its properties.a is no JSON Schema: 'string' is not of type 'object', 'boolean'",
    ),
    "required as a text": ({"required": "a"}, "its required is no JSON Schema: 'a' is not of type 'array'"),
    "a tuple of before": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{}]}}},
        "its properties.a.items is no JSON Schema: [{}] is not of type 'object', 'boolean'",
    ),
    "in a definition": (
        {"$defs": {"a": {"enum": "x"}}},
        "its $defs.a.enum is no JSON Schema: 'x' is not of type 'array'",
    ),
    "large": ({"enum": ["x" * 1000] * 70}, "it is larger than 64 KiB"),
    "deep": (_deep(300), "it is nested too deeply"),
    "doubled": (_doubled(40), "it has more than 10,000 values with its references filled in"),
    "chained": (
        {"$ref": "#/$defs/0", "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(900)}},
        "it has more than 10,000 values with its references filled in",
    ),
    "a property with that name": (
        {"properties": {"$defs": {"anyOf": [{"$ref": "#/$defs/d0"}] * 40}}, "$defs": _doubled(8)["$defs"]},
        "it has more than 10,000 values with its references filled in",
    ),
    "pointing": (
        {"properties": {"a": {"enum": [1] * 300}, "b": {"anyOf": [{"$ref": "#/properties/a"}] * 40}}},
        "it has more than 10,000 values with its references filled in",
    ),
}
GOOD_SCHEMAS: dict[str, dict[str, Any]] = {
    "fine": {},
    "few": _doubled(5),
    "within itself": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#"}] * 9}}},
}


@pytest.mark.req("SEC-09")
async def test_a_tool_whose_schema_takes_too_long_to_read_is_refused_once_with_the_reason() -> None:
    class Listing:
        more: dict[str, Any] = {}

        async def list_tools(self, *, cursor: str | None) -> types.ListToolsResult:
            schemas = {name: schema for name, (schema, _) in BAD_SCHEMAS.items()} | GOOD_SCHEMAS | self.more
            return types.ListToolsResult(
                tools=[
                    types.Tool(name=name, input_schema={"type": "object"} | schema) for name, schema in schemas.items()
                ]
            )

    listing = Listing()
    one = connection.McpConnection(at("http://127.0.0.1/", *BAD_SCHEMAS, *GOOD_SCHEMAS), QUICK)
    with capture_logs() as logs:
        for _ in range(3):
            assert set(await one._read_tools(cast("Any", listing))) == set(GOOD_SCHEMAS)
        listing.more = {"large": {"enum": ["y" * 1000] * 70}, "not allowed": _doubled(40)}
        assert set(await one._read_tools(cast("Any", listing))) == {*GOOD_SCHEMAS, "not allowed"}
    assert [line["tool"] for line in logs] == [*BAD_SCHEMAS, "large"]
    for line in logs:
        assert line["why"] == BAD_SCHEMAS[line["tool"]][1]


FINE = {"type": "object"}
ODD_TOOLS: dict[str, tuple[Any, str]] = {
    "no schema": ({"name": "no schema"}, "inputSchema: Field required"),
    "a text as schema": ({"name": "a text as schema", "inputSchema": "object"}, "inputSchema: Input should be"),
    "a list as schema": ({"name": "a list as schema", "inputSchema": {"type": "array"}}, "inputSchema.type: Input"),
    "properties": ({"name": "properties", "inputSchema": {"type": "object", "properties": []}}, "properties"),
    "required": ({"name": "required", "inputSchema": {"type": "object", "required": "a"}}, "required"),
    "unknown type": (
        {"name": "unknown type", "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}},
        "its properties.a.type is no JSON Schema",
    ),
    "description": ({"name": "description", "inputSchema": FINE, "description": 7}, "description: Input should be"),
    "hints": ({"name": "hints", "inputSchema": FINE, "annotations": "x"}, "annotations: Input should be"),
    "number 9 of the list": (7, "it has no name"),
    "number 10 of the list": ({"name": None, "inputSchema": FINE}, "it has no name"),
    "number 11 of the list": ({"name": " ", "inputSchema": FINE}, "it has no name"),
    "echo": ({"name": "echo", "inputSchema": FINE, "title": "Another"}, "a second tool has this name"),
}
AS_MEANT: dict[str, dict[str, Any]] = {
    "without type": {"inputSchema": {"properties": {}}},
    "nulls": {"inputSchema": {"type": "object", "required": None}, "title": None, "annotations": None},
    "unread": {"inputSchema": FINE, "outputSchema": {"type": 7}, "icons": "none", "_meta": [], "execution": 1},
}


@pytest.mark.parametrize("over_http", [False, True])
async def test_an_odd_tool_is_refused_by_name_and_the_others_work(tmp_path: Path, over_http: bool) -> None:
    named = [{"name": name, **listed} for name, listed in AS_MEANT.items()]
    listed = [*(listed for name, (listed, _) in ODD_TOOLS.items() if name != "echo"), "echo", ODD_TOOLS["echo"][0]]
    allowed = [*ODD_TOOLS, *AS_MEANT]
    with port_of_ours() as port, capture_logs() as logs:
        plain = plain_in(tmp_path / "odd", *([f"http={port}"] if over_http else []), tools=(*listed, *named))
        process = subprocess.Popen(plain.command) if over_http else None
        server = at(f"http://127.0.0.1:{port}", *allowed) if over_http else plain.server(*allowed)
        try:
            async with McpServers([server], timeouts=QUICK) as servers:
                await until_offered(
                    servers,
                    "echo",
                    *(f"{server.name}_{name.replace(' ', '_')}" if " " in name else name for name in AS_MEANT),
                )
                assert (await call(servers, "echo")).text == "echo {}"
                assert (await call(servers, "nulls")).text == "nulls {}"
                (status,) = servers.status()
        finally:
            if process:
                process.kill()
                process.wait()
    refused = {line["tool"]: line["why"] for line in logs if line["action"] == "mcp_tool_refused"}
    assert refused == status.refused
    assert refused.keys() == ODD_TOOLS.keys()
    for name, (_, why) in ODD_TOOLS.items():
        assert why in refused[name]
