"""Whatever comes in: a clear refusal, never a 500, and nothing is changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.doors import PATIENCE_SECONDS, Doors, Visitor
from tests.support.world import BOT
from tools.tool import discover

BIG = b'{"tokens": ["' + b"x" * (1024 * 1024) + b'"]}'
JSON_POSTS = ["/leases/renew", "/leases/release", "/leases/finish"]

BROKEN_BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "bad_request"),
    (b"{", 400, "bad_request"),
    (b"tokens=x", 400, "bad_request"),
    (b'{"tokens": ["\xff"]}', 400, "bad_request"),
    (b'{"tokens": ["\\ud800"]}', 400, "bad_request"),
    (b'{"tokens": [NaN]}', 400, "bad_request"),
    (b"[" * 9_000, 400, "bad_request"),
    (b'{"tokens": ["a\\u0000b"]}', 422, "invalid"),
    (b'{"to\\u0000kens": []}', 422, "invalid"),
    (b'{"tokens": [], "tokens": ["x"]}', 422, "invalid"),
    (b"null", 422, "invalid"),
    (b"[]", 422, "invalid"),
    (b'"tokens"', 422, "invalid"),
    (b"{}", 422, "invalid"),
    (b'{"tokens": "x"}', 422, "invalid"),
    (b'{"tokens": [1]}', 422, "invalid"),
    (b'{"tokens": [""]}', 422, "invalid"),
    (b'{"tokens": null}', 422, "invalid"),
    (b'{"tokens": [], "colour": "red"}', 422, "invalid"),
    (orjson.dumps({"tokens": ["x"] * 501}), 422, "invalid"),
    (BIG, 413, "too_large"),
    (orjson.dumps({str(n): 1 for n in range(10_001)}), 413, "too_large"),
    (orjson.dumps({"tokens": ['", [' * 10_001]}), 422, "invalid"),
]

BAD_VALUES: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/leases/release", {"tokens": [], "delay_seconds": -1}, "delay_seconds"),
    ("POST", "/leases/release", {"tokens": [], "delay_seconds": 1e9}, "delay_seconds"),
    ("POST", "/leases/release", {"tokens": [], "delay_seconds": "5"}, "delay_seconds"),
    ("POST", "/leases/release", {"tokens": [], "delay_seconds": True}, "delay_seconds"),
    ("POST", "/leases/finish", {"tokens": [], "outcome": "maybe"}, "outcome"),
    ("POST", "/leases/finish", {"tokens": []}, "outcome"),
    ("POST", "/leases/finish", {"tokens": ["x"], "outcome": "done", "next": 21}, "next"),
    ("POST", "/leases/finish", {"tokens": ["x"], "outcome": "dismissed"}, "reason"),
    ("POST", "/leases/finish", {"tokens": ["x"], "outcome": "dismissed", "reason": "  "}, "reason"),
]

BAD_OPERATOR_VALUES: list[tuple[str, str, object, str]] = [
    ("POST", "/agents", {"name": "Lea", "role": "lead"}, "name"),
    ("POST", "/agents", {"name": "all", "role": "lead"}, "name"),
    ("POST", "/agents", {"name": "x" * 33, "role": "lead"}, "name"),
    ("POST", "/agents", {"name": "leo\n", "role": "lead"}, "name"),
    ("POST", "/agents", {"name": 5, "role": "lead"}, "name"),
    ("POST", "/agents", {"name": "leo", "role": "king"}, "role"),
    ("POST", "/agents", {"name": "leo"}, "role"),
    ("POST", "/agents", {"name": "leo", "role": "lead", "token": "mine"}, "token"),
    ("POST", "/agents", {"name": "leo", "role": "lead", "capabilities": "python"}, "capabilities"),
    ("POST", "/agents", {"name": "leo", "role": "lead", "description": "a\0b"}, "description"),
    ("POST", "/agents", {"name": "leo", "role": "lead", "description": "x" * 5000}, "description"),
    ("PATCH", "/agents/lea", {}, "body"),
    ("PATCH", "/agents/lea", {"name": "leo"}, "name"),
    ("PATCH", "/agents/lea", {"description": 5}, "description"),
]

BAD_ADDRESSES = [
    ("/inbox?status=lost", "status"),
    ("/inbox?limit=0", "limit"),
    ("/inbox?limit=501", "limit"),
    ("/inbox?limit=many", "limit"),
    ("/inbox?colour=red", "colour"),
    ("/deliveries?status=lost", "status"),
    ("/explain", "message"),
    ("/explain?message=hello", "message"),
    ("/explain?message=C1:1.2%00", "url"),
    ("/threads/%00", "url"),
]

BAD_POLLS = [
    ("wait_seconds=-1", {"wait_seconds"}),
    ("wait_seconds=61", {"wait_seconds"}),
    ("wait_seconds=60.01", {"wait_seconds"}),
    ("wait_seconds=nan", {"wait_seconds"}),
    ("wait_seconds=inf", {"wait_seconds"}),
    ("wait_seconds=1e1", {"wait_seconds"}),
    ("wait_seconds=", {"wait_seconds"}),
    ("wait_seconds=%D9%A1", {"wait_seconds"}),
    ("limit=0", {"limit"}),
    ("limit=21", {"limit"}),
    ("limit=1.5", {"limit"}),
    ("limit=99999999999999999999", {"limit"}),
    ("hold=maybe", {"hold"}),
    ("wait_second=5", {"wait_second"}),
    ("limit=1&limit=2", {"limit"}),
    ("limit=0&hold=x&a=b", {"limit", "hold", "a"}),
    ("limit=1%00", {"url"}),
]


TWICE = [
    ("/leases/finish", b'{"tokens": [], "outcome": "done", "outcome": "failed"}', "outcome"),
    ("/leases/renew", b'{"tokens": [{"a": {"b": 1, "\\u0062": 1}}]}', "tokens.0.a.b"),
    ("/mcp", b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', "id"),
    (
        "/mcp",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
        b'"params": {"name": "slack-reply", "arguments": {"message": "yes", "message": "no"}}}',
        "params.arguments.message",
    ),
]


@pytest.fixture
async def busy(doors: Doors, lea: Visitor) -> Visitor:
    """A lead with something due, so that a call that should change nothing has something to change."""
    await doors.world.says(f"{BOT} hello")
    return lea


async def test_a_broken_body_is_refused_and_nothing_changes(doors: Doors, busy: Visitor) -> None:
    before = await doors.everything()
    for path in JSON_POSTS:
        for body, status, code in BROKEN_BODIES:
            answer = await busy.ask("POST", path, content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), (path, body[:60])
    assert await doors.everything() == before


async def test_a_body_over_one_mebibyte_is_refused_in_chunks_too(doors: Doors, busy: Visitor) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 65_536

    for path in [*JSON_POSTS, "/mcp"]:
        answer = await busy.ask("POST", path, content=chunks(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large"), path


async def test_a_value_out_of_bounds_is_named(doors: Doors, busy: Visitor) -> None:
    before = await doors.everything()
    for method, path, body, field in BAD_VALUES:
        await check_invalid(busy, method, path, body, {field})
    assert await doors.everything() == before


async def test_a_value_that_an_operator_gets_wrong_is_named(doors: Doors, busy: Visitor) -> None:
    before = await doors.everything()
    for method, path, body, field in BAD_OPERATOR_VALUES:
        await check_invalid(doors.operator, method, path, body, {field})
    for path, field in BAD_ADDRESSES:
        await check_invalid(doors.operator, "GET", path, None, {field})
    assert await doors.everything() == before


async def test_a_poll_out_of_bounds_claims_nothing(doors: Doors, busy: Visitor) -> None:
    before = await doors.everything()
    for query, fields in BAD_POLLS:
        await check_invalid(busy, "GET", f"/poll?{query}", None, fields)
    assert await doors.everything() == before


async def test_unknown_ids_are_not_found(doors: Doors, busy: Visitor) -> None:
    calls = [
        ("PATCH", "/agents/nobody", {"description": "x"}),
        ("DELETE", "/agents/nobody", None),
        ("POST", "/agents/nobody/rotate", None),
        ("POST", "/inbox/unknown/redrive", None),
        ("GET", "/threads/unknown", None),
        ("GET", "/threads/%FF%FE", None),
        ("GET", "/explain?message=C1:1.000001", None),
    ]
    before = await doors.everything()
    for method, path, body in calls:
        answer = await doors.operator.ask(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), path
    assert await doors.everything() == before


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_crash(
    doors: Doors, busy: Visitor, capsys: pytest.CaptureFixture[str]
) -> None:
    _, writer = await asyncio.open_connection(*doors.address)
    head = "POST /leases/renew HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {busy.token}\r\nContent-Length: 100\r\n\r\n"
    writer.write(head.encode() + b'{"tokens":')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await busy.poll() != []  # the server goes on
    assert "Traceback" not in "".join(capsys.readouterr())


def dump(document: object) -> bytes:
    return json.dumps(document).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(
    ["tokens", "delay_seconds", "outcome", "reason", "name", "role", "description", "capabilities", "status", "limit"]
)
documents = st.dictionaries(names | st.text(max_size=8), json_values, max_size=5)


writes = st.sampled_from(
    [("POST", "/agents"), ("PATCH", "/agents/lea"), *(("POST", path) for path in JSON_POSTS), ("POST", "/mcp")]
)
fuzzed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzzed
@given(write=writes, body=st.binary(max_size=60) | documents.map(dump))
async def test_no_body_at_all_leads_to_a_crash(
    doors: Doors, busy: Visitor, write: tuple[str, str], body: bytes
) -> None:
    method, path = write
    visitor = doors.operator if path.startswith("/agents") else busy
    assert (await visitor.ask(method, path, content=body)).status_code < 500


@fuzzed
@given(
    name=st.sampled_from(sorted(discover())),
    arguments=st.dictionaries(st.sampled_from(["inbox_message_id", "message", "reason", "only"]), json_values),
)
async def test_no_arguments_at_all_lead_to_a_crash_of_a_tool(
    busy: Visitor, name: str, arguments: dict[str, Any]
) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    params = {"name": name, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await busy.ask("POST", "/mcp", content=dump(call), headers=headers)
    assert answer.status_code in (200, 400), answer.text  # Infinity is no JSON
    result = answer.json().get("result", {})
    assert result.get("_meta", {}).get("swarm/error", {}).get("code") != "internal"


async def check_invalid(visitor: Visitor, method: str, path: str, body: object, fields: set[str]) -> None:
    """The call is refused as invalid, and exactly these fields are named."""
    answer = await visitor.ask(method, path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid"), (path, body, error)
    assert set(error["fields"]) == fields, (path, body, error)


@pytest.mark.req("SEC-05")
async def test_a_body_that_comes_too_slowly_is_answered_before_it_is_there(
    doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.entrypoints.web.body.MAX_BODY_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection(*doors.address)
    head = "POST /leases/renew HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {lea.token}\r\nContent-Length: 100\r\n\r\n"
    writer.write(head.encode() + b'{"tokens":')
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE_SECONDS)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"bad_request"' in answer
    assert b"within 0.1 seconds" in answer
    writer.close()


@pytest.mark.parametrize(("path", "body", "place"), TWICE)
async def test_a_key_that_stands_twice_is_refused_with_its_place(
    lea: Visitor, path: str, body: bytes, place: str
) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = await lea.ask("POST", path, content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == f"{place} stands twice."
    assert answer.json()["error"]["fields"] == {place: "a key that stands once"}
