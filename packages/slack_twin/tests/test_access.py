"""Requests from pages of other sites, which must not act as a person of the workspace."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from slack_twin import build_twin, create_app, running
from slack_twin.access import Access
from starlette.routing import Mount, Route, WebSocketRoute

from tests.world import APP_TOKEN, World

pytestmark = pytest.mark.req("SEC-05")

PAGE = "http://localhost:3000"
FOREIGN = (
    {"Host": "evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": PAGE},
)
SAID = {"user": "alice", "channel": "general", "text": "not me"}


async def test_no_route_of_the_twin_answers_a_foreign_page(world: World) -> None:
    answered = []
    asked = 0
    for route in create_app(world.twin).routes:
        path = route.path.replace("{method}", "auth.test") if isinstance(route, Route) else "/static/app.js"
        if isinstance(route, WebSocketRoute):
            continue
        assert isinstance(route, Route | Mount)
        for method in sorted(getattr(route, "methods", None) or {"GET"}):
            for headers in FOREIGN:
                asked += 1
                async with world.http.request(method, world.base + path[1:], headers=headers) as answer:
                    body = await answer.read()
                    error = json.loads(body)["error"] if body else {"code": "forbidden", "hint": "--allow"}
                    if (answer.status, error["code"]) != (403, "forbidden") or "--allow" not in error["hint"]:
                        answered.append((method, path, headers, answer.status))
    assert asked > 100
    assert not answered


async def test_a_foreign_page_posts_as_nobody(world: World) -> None:
    for headers in FOREIGN:
        async with world.http.post(world.base + "twin/messages", json=SAID, headers=headers) as answer:
            assert answer.status == 403
    assert (await world.ask("GET", "messages?channel=general"))["messages"] == []


async def test_a_foreign_page_opens_no_socket(world: World) -> None:
    opened = await world.client().apps_connections_open(app_token=APP_TOKEN)
    for address in (f"{world.base}page/live?user=alice", opened["url"]):
        for headers in FOREIGN:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await world.http.ws_connect(address, headers=headers)
            assert refused.value.status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_page_works_under_each_name_of_this_machine(world: World, host: str) -> None:
    base = world.base.replace("127.0.0.1", host)
    own = {"Origin": base.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    async with world.http.get(base) as page:
        assert page.status == 200
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
    async with world.http.ws_connect(f"{base}page/live?user=alice", headers=own) as live:
        assert json.loads(await live.receive_bytes())["kind"] == "hello"
    async with world.http.post(f"{base}page/messages", json=SAID, headers=own) as answer:
        assert answer.status == 200


@pytest.fixture
async def allowing() -> AsyncIterator[str]:
    """Yields a twin that another page may call."""
    async with running(build_twin(), allowed=Access(origins=[PAGE])) as base:
        yield base


async def test_a_page_that_was_allowed_may_call(allowing: str) -> None:
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    async with aiohttp.ClientSession() as http:
        async with http.options(allowing + "twin/messages", headers=asked) as preflight:
            assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
            assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
            assert "content-type" in preflight.headers["Access-Control-Allow-Headers"].lower()
        async with http.post(allowing + "twin/messages", json=SAID, headers={"Origin": PAGE}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
            assert "Access-Control-Allow-Credentials" not in answer.headers
        async with http.post(allowing + "twin/messages", json=SAID, headers={"Origin": "http://localhost:1"}) as answer:
            assert answer.status == 403
            assert "Access-Control-Allow-Origin" not in answer.headers


LOCAL = "localhost:8400"
REFUSED = {
    "a foreign host": [("host", "evil.example")],
    "a host that was rebound": [("host", "evil.example:8400")],
    "a name that only begins like ours": [("host", "localhost.evil.example")],
    "a name that only ends like ours": [("host", "notlocalhost")],
    "an address of somebody else": [("host", "203.0.113.7")],
    "half an address": [("host", "127.0.0.1:x")],
    "a host with a user in front": [("host", "evil.example@localhost")],
    "a host with a path behind": [("host", "localhost/evil.example")],
    "an empty host": [("host", "")],
    "a bracket that never ends": [("host", "[::1")],
    "a foreign origin": [("host", LOCAL), ("origin", "https://evil.example")],
    "another port of this machine": [("host", LOCAL), ("origin", "http://localhost:3000")],
    "another name of this machine": [("host", LOCAL), ("origin", "http://127.0.0.1:8400")],
    "another scheme": [("host", LOCAL), ("origin", f"ftp://{LOCAL}")],
    "an origin without a scheme": [("host", LOCAL), ("origin", LOCAL)],
    "nobody's origin": [("host", LOCAL), ("origin", "null")],
    "an empty origin": [("host", LOCAL), ("origin", "")],
    "an origin with our host in front": [("host", LOCAL), ("origin", f"http://{LOCAL}.evil.example")],
    "an origin with our host as a user": [("host", LOCAL), ("origin", f"http://{LOCAL}@evil.example")],
    "two that agree with each other": [("host", "evil.example"), ("origin", "http://evil.example")],
    "two origins": [("host", LOCAL), ("origin", f"http://{LOCAL}"), ("origin", "https://evil.example")],
    "an image in a foreign page": [("host", LOCAL), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    "a page of another port": [("host", LOCAL), ("sec-fetch-site", "same-site")],
}
ANSWERED = {
    "no browser": [("host", LOCAL)],
    "the address": [("host", "127.0.0.1:8400")],
    "another address of the loop": [("host", "127.9.9.9")],
    "the address of version 6": [("host", "[::1]:8400")],
    "the address of version 4 in version 6": [("host", "[::ffff:127.0.0.1]")],
    "a name below localhost": [("host", "twin.localhost")],
    "a name with a dot at its end": [("host", "LocalHost.")],
    "a page of ours": [("host", LOCAL), ("origin", f"http://{LOCAL}")],
    "a page of ours behind TLS": [("host", "localhost"), ("origin", "https://localhost")],
    "a page of ours with the port that its scheme has": [("host", "localhost:80"), ("origin", "http://localhost")],
    "a link that was followed": [("host", LOCAL), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
}


def status(access: Access, *headers: tuple[str, str], method: str = "GET", version: str = "1.1") -> int:
    """Returns the status of a refused request; 200 if it is accepted."""
    raw = [(name.encode(), value.encode()) for name, value in headers]
    refusal = access.refusal({"type": "http", "method": method, "http_version": version, "headers": raw})
    return refusal.status_code if refusal else 200


def test_headers_of_foreign_pages_are_refused_and_own_ones_answered() -> None:
    expected = dict.fromkeys(REFUSED, 403) | dict.fromkeys(ANSWERED, 200)
    assert {case: status(Access(), *headers) for case, headers in (REFUSED | ANSWERED).items()} == expected


def test_beyond_loopback_addresses_and_bare_names_are_answered_as_well() -> None:
    for bound_to in ("0.0.0.0", "::", "10.0.0.5", "Twin.internal"):
        access = Access(bound_to=bound_to)
        own = "twin.internal" if bound_to[0] == "T" else "127.0.0.1"
        for host in ("10.1.2.3:8400", "[fd00::1]:8400", "twin:8400", "localhost", own):
            assert status(access, ("host", host)) == 200, (bound_to, host)
        for host in ("evil.example", "twin.example.org", "10.0.0.5.evil.example"):
            assert status(access, ("host", host)) == 403, (bound_to, host)


def test_hosts_and_origins_that_were_allowed_are_compared_as_browsers_write_them() -> None:
    access = Access(
        hosts=["*.Example.com.", "[fd00::1]"], origins=["HTTPS://Chat.Example.org:443", "http://[::1]:3000"]
    )
    for host, expected in (("twin.example.com:8400", 200), ("[FD00::1]", 200), ("example.com", 403), ("fd00--1", 403)):
        assert status(access, ("host", host)) == expected, host
    for origin, expected in (
        ("https://chat.example.org", 200),
        ("http://[::1]:3000", 200),
        ("http://chat.example.org", 403),
        ("https://chat.example.org:444", 403),
    ):
        assert status(access, ("host", LOCAL), ("origin", origin)) == expected, origin


def test_a_form_of_another_page_is_no_link() -> None:
    headers = ANSWERED["a link that was followed"]
    assert [status(Access(), *headers, method=method) for method in ("GET", "POST")] == [200, 403]


def test_a_request_has_one_host_unless_it_is_too_old_to_have_any() -> None:
    assert status(Access()) == 400
    assert status(Access(), ("host", "localhost"), ("host", "evil.example")) == 400
    assert status(Access(), version="1.0") == 200


@pytest.mark.parametrize(
    ("hosts", "origins"),
    [
        *(((host,), ()) for host in ("", "*", "https://a.example", "a.example:80", "a b", "*.*.example", "a/b")),
        *(((), (origin,)) for origin in ("", "*", "null", "a.example", "https://a.example/", "https://a.example/x")),
        *(((), (origin,)) for origin in ("ftp://a.example", "https://a:x", "https://u@a.example", "http://a?b")),
    ],
)
def test_what_is_no_host_or_origin_cannot_be_allowed(hosts: tuple[str, ...], origins: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=", such as"):
        Access(hosts=hosts, origins=origins)
