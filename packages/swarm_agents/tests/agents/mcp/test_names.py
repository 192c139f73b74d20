"""What tools are called when a model is told of them: always valid, always unique, always the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.config.mcp_servers import McpServer, Program
from swarm_agents.mcp.servers import OfferedNames

pytestmark = pytest.mark.req("AGENT-02")

WORDS = st.text(min_size=1, max_size=80) | st.sampled_from(["a", "b", "a_b", "a b", "b_", "_b", "search"])


def server(name: str, *allowed: str, shares_list: bool = False) -> McpServer:
    """A server that nobody starts."""
    return McpServer(name=name, reached=Program(command="none"), allowed=allowed, shares_list=shares_list)


def offered_names(servers: Sequence[McpServer], reserved: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """The names of all allowed tools."""
    names = OfferedNames(servers, reserved)
    return {(server.name, tool): names.of(server.name, tool) for server in servers for tool in server.allowed}


def test_a_tool_keeps_its_name_where_that_is_valid_and_nobody_elses() -> None:
    servers = [server("a", "search", "get page"), server("b", "search", "create_issue"), server("c", "x" * 65)]
    names = offered_names(servers, reserved={"create_issue"})
    assert names == {
        ("a", "search"): "a_search",
        ("a", "get page"): "a_get_page",
        ("b", "search"): "b_search",
        ("b", "create_issue"): "b_create_issue",
        ("c", "x" * 65): names["c", "x" * 65],
    }
    assert names["c", "x" * 65].startswith("c_xxx")


def test_a_name_that_is_made_takes_nobody_elses() -> None:
    names = offered_names([server("a", "b"), server("c", "b", "a_b")])
    assert names["c", "a_b"] == "a_b"
    assert re.fullmatch("a_b_[0-9a-f]{8}", names["a", "b"])


def test_a_list_that_goes_for_all_servers_makes_no_tool_one_of_several() -> None:
    names = OfferedNames([server("a", "x", "y", shares_list=True), server("b", "x", "y", shares_list=True)])
    assert names.of("b", "y") == "y"
    assert names.of("a", "x") == "x"
    assert names.of("b", "x") == "b_x"  # it has one, too
    assert (names.of("a", "x"), names.of("b", "y")) == ("x", "y")


@settings(max_examples=15)
@given(
    st.dictionaries(WORDS, st.lists(WORDS, unique=True, max_size=4), max_size=4),
    st.sets(WORDS, max_size=3),
    st.sets(WORDS),
)
def test_names_are_valid_unique_and_the_same_again(
    allowed: dict[str, list[str]], reserved: set[str], sharing: set[str]
) -> None:
    servers = [server(name, *tools, shares_list=name in sharing) for name, tools in allowed.items()]
    names = offered_names(servers, reserved)
    assert set(names) == {(name, tool) for name, tools in allowed.items() for tool in tools}
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in names.values())
    assert len(set(names.values())) == len(names)
    assert not reserved & set(names.values())
    assert offered_names(servers, reserved) == names
