"""Pages of other sites at the doors of the coordinator: foreign Host and Origin headers on every route."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import httpx2
import pytest
from starlette.routing import BaseRoute

from packages.swarm_agents.tests.contract.agui_api.scene import EVERYBODY, HELLO, Scripted
from swarm.clock import ManualClock
from swarm.entrypoints.http.http_api import PAGES_MAY_CALL, create_app
from swarm.entrypoints.mcp.mcp_server import McpEntryPoint
from swarm.entrypoints.web.access import Access, checked_host, checked_origin
from swarm.entrypoints.web.identity import Identities
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.store.bridge.database import Database
from swarm_agents.agui.agui_api import AguiEntryPoint
from tests.support.doors import OPERATOR_TOKEN, serving
from tests.support.http import client as http_client
from tests.support.world import World

pytestmark = pytest.mark.req("SEC-05")

FOREIGN: dict[str, dict[str, str]] = {
    "a foreign host": {"host": "evil.example"},
    "a host that was rebound": {"host": "evil.example:{port}"},
    "a name that only begins like ours": {"host": "localhost.evil.example"},
    "a name that only ends like ours": {"host": "notlocalhost"},
    "an address of somebody else": {"host": "203.0.113.7"},
    "half an address": {"host": "127.0.0.1:x"},
    "an empty host": {"host": ""},
    "a foreign origin": {"origin": "https://evil.example"},
    "another port of this machine": {"origin": "http://localhost:3000"},
    "nobody's origin": {"origin": "null"},
    "an origin with our host in front": {"origin": "http://localhost:{port}.evil.example"},
    "two that agree with each other": {"host": "evil.example", "origin": "http://evil.example"},
    "an image in a foreign page": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
}
OWN: dict[str, dict[str, str]] = {
    "no browser": {},
    "the name": {"host": "localhost:{port}"},
    "the address": {"host": "127.0.0.1:{port}"},
    "another address of the loop": {"host": "127.9.9.9"},
    "the address of version 6": {"host": "[::1]:{port}"},
    "a name below localhost": {"host": "swarm.localhost"},
    "a name with a dot at its end": {"host": "LocalHost."},
    "a page of ours": {"host": "localhost:{port}", "origin": "http://localhost:{port}"},
    "a page of ours behind TLS": {"host": "localhost", "origin": "https://localhost"},
    "a link that was followed": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
}


PAGE = "https://chat.example.org"
IDS: Final = (
    "agent", "delivery_id", "file_id", "grant_id", "inbox_message_id", "person", "request_id", "run_id", "task_id",
    "thread_id",
)  # fmt: skip
ALLOWING = Access(hosts=[checked_host("*.example.com")], origins=[checked_origin(PAGE)], origin_paths=PAGES_MAY_CALL)


@dataclass
class Doors:
    """A coordinator with everything under one origin, and a client that says who it is."""

    base: str
    http: httpx2.AsyncClient
    paths: list[tuple[str, str]]  # method and path of every route

    async def ask(self, method: str, path: str, **headers: str) -> httpx2.Response:
        port = self.base.rpartition(":")[2]
        said = {name: value.format(port=port) for name, value in headers.items()}
        return await self.http.request(
            method, self.base + path, headers={"authorization": f"Bearer {OPERATOR_TOKEN}", **said}
        )


@pytest.fixture
async def doors(sqlite_url: str) -> AsyncIterator[Doors]:
    async with Database(sqlite_url) as database:
        world = World(database, ManualClock())
        identities = Identities(world.services.agents, OPERATOR_TOKEN)
        mcp = McpEntryPoint(world.services, identities)
        runs = AgentRuns({"router": Scripted(*HELLO)}, ConversationLocks(database), {"router": EVERYBODY})
        routes: list[BaseRoute] = [*mcp.routes(), *AguiEntryPoint(runs, identities).routes()]
        app = create_app(world.services, identities, dict, routes=routes, running=[mcp.running], access=ALLOWING)
        paths = [
            (
                method.upper(),
                path.format(**dict.fromkeys(IDS, "x") | {"agent": "router"}),
            )
            for path, operations in app.openapi()["paths"].items()
            for method in operations
        ]
        others = ["/docs", "/openapi.json", "/metrics", "/slack/events", "/no/such/route"]
        async with serving(app) as base, http_client(timeout=20) as http:
            yield Doors(base, http, [*paths, ("POST", "/mcp"), *(("GET", path) for path in others)])
        await runs.close()


async def test_no_door_answers_a_foreign_page(doors: Doors) -> None:
    """The token is the operator's: it opens nothing here."""
    assert len(doors.paths) > 35
    answered = []
    for case, headers in FOREIGN.items():
        option = "http.allowed_hosts" if "host" in headers else "http.allowed_origins"
        for method, path in doors.paths:
            answer = await doors.ask(method, path, **headers)
            error = answer.json().get("error", {"code": None, "hint": None})
            if (answer.status_code, error["code"]) != (403, "forbidden") or option not in str(error["hint"]):
                answered.append((case, method, path, answer.status_code))
    assert not answered


async def test_callers_of_this_machine_are_answered(doors: Doors) -> None:
    for case, headers in OWN.items():
        for path in ("/healthz", "/agents", "/api/v1/agents"):
            assert (await doors.ask("GET", path, **headers)).status_code == 200, (case, path)


async def test_a_host_of_the_settings_is_answered(doors: Doors) -> None:
    assert (await doors.ask("GET", "/agents", host="swarm.example.com:8443")).status_code == 200
    assert (await doors.ask("GET", "/agents", host="example.com")).status_code == 403


async def test_an_allowed_page_may_ask_before_it_calls_and_read_what_it_gets(doors: Doors) -> None:
    asked = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    preflight = await doors.http.options(f"{doors.base}/agui/router", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    started = {"message": "hi", "conversation_id": "c1"}
    run = await doors.http.post(
        f"{doors.base}/api/v1/chat/stream/start",
        json=started,
        headers={"authorization": f"Bearer {OPERATOR_TOKEN}", "origin": PAGE},
    )
    assert run.status_code == 200
    assert "RUN_FINISHED" in run.text
    assert run.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-credentials" not in preflight.headers | run.headers
    unknown = await doors.ask("GET", "/api/v1/agents", origin=PAGE, authorization="Bearer wrong")
    assert (unknown.status_code, unknown.headers["access-control-allow-origin"]) == (401, PAGE)


async def test_an_allowed_page_may_call_the_agents_and_nothing_else(doors: Doors) -> None:
    """Whatever token it has, and whether it asks before."""
    open_to_pages = {path for _, path in doors.paths if path.startswith(PAGES_MAY_CALL)}
    assert len(open_to_pages) == 6
    for method, path in doors.paths:
        for asked in (method, "OPTIONS"):
            answer = await doors.ask(asked, path, origin=PAGE, **{"access-control-request-method": method})
            allowed = answer.headers.get("access-control-allow-origin")
            if path in open_to_pages:
                assert (answer.status_code == 403, allowed) == (False, PAGE), (asked, path)
            else:
                assert (answer.status_code, allowed) == (403, None), (asked, path)
                assert "/agui/* and /api/v1/* only" in answer.json()["error"]["message"]


async def test_another_page_gets_no_leave_to_call(doors: Doors) -> None:
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    preflight = await doors.http.options(f"{doors.base}/agui/router", headers=asked)
    assert preflight.status_code == 403
    assert "access-control-allow-origin" not in preflight.headers


def status(access: Access, *headers: tuple[str, str], kind: str = "http", version: str = "1.1") -> int | None:
    """Of the refusal of a GET; None if it may pass."""
    raw = [(name.encode(), value.encode()) for name, value in headers]
    refusal = access.refusal({"type": kind, "method": "GET", "http_version": version, "headers": raw})
    return refusal.status if refusal else None


@pytest.mark.parametrize("bound_to", ["0.0.0.0", "::", "10.0.0.5", "swarm.internal"])
def test_beyond_loopback_addresses_and_bare_names_are_answered_as_well(bound_to: str) -> None:
    access = Access(bound_to=bound_to)
    for host in (
        "10.1.2.3:8080",
        "[fd00::1]:8080",
        "swarm:8080",
        "localhost",
        bound_to if ":" not in bound_to else "x",
    ):
        assert status(access, ("host", host)) is None, host
    for host in ("evil.example", "swarm.example.org", "10.0.0.5.evil.example"):
        assert status(access, ("host", host)) == 403, host


def test_a_request_has_one_host_unless_it_is_too_old_to_have_any() -> None:
    assert status(Access()) == 400
    assert status(Access(), ("host", "localhost"), ("host", "evil.example")) == 400
    assert status(Access(), version="1.0") is None


def test_a_request_has_one_origin_at_most() -> None:
    two = (("host", "localhost"), ("origin", "http://localhost"), ("origin", "https://evil.example"))
    assert status(Access(), *two) == 403


def test_a_form_of_another_page_is_no_link() -> None:
    headers = [(b"host", b"localhost"), (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate")]
    refusal = Access().refusal({"type": "http", "method": "POST", "http_version": "1.1", "headers": headers})
    assert refusal is not None


@pytest.mark.parametrize("text", ["", "*", "https://a.example", "a.example:80", "a example", "*.*.example", "a/b"])
def test_what_is_no_host_is_no_setting(text: str) -> None:
    with pytest.raises(ValueError, match="name without scheme and port"):
        checked_host(text)


@pytest.mark.parametrize(
    "text",
    ["", "*", "null", "a.example", "https://a.example/", "https://a.example/x", "ftp://a.example", "https://a:x"],
)
def test_what_is_no_origin_is_no_setting(text: str) -> None:
    with pytest.raises(ValueError, match="scheme, host and port"):
        checked_origin(text)


def test_settings_are_compared_as_browsers_write_them() -> None:
    assert checked_host("[::1]") == "::1"
    assert checked_host("Swarm.Example.ORG.") == "swarm.example.org"
    assert checked_origin("HTTPS://Chat.Example.org:443") == "https://chat.example.org"
    assert checked_origin("http://[::1]:3000") == "http://[::1]:3000"
