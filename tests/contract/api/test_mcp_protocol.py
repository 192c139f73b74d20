"""MCP's messages themselves, as the official SDK's server answers them. `test_mcp` has the SDK's own clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types
import pytest
from mcp_types import version as versions

from swarm.entrypoints.mcp import mcp_protocol
from tests.support.doors import Doors, Visitor

ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
MODERN: Final = "2026-07-28"
META: Final = {
    mcp_types.PROTOCOL_VERSION_META_KEY: MODERN,
    mcp_types.CLIENT_CAPABILITIES_META_KEY: {},
    mcp_types.CLIENT_INFO_META_KEY: {"name": "a client", "version": "1"},
}
INITIALIZE: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
LIST_TASKS: Final = {"name": "list-tasks", "arguments": {}}

NO_BODY: Final = "Body must be a single JSON-RPC request or notification object"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message and what comes back: a status, and the error's code if there is one."""

    method: str = "ping"
    params: object = None
    id: object = 1
    headers: dict[str, str] = field(default_factory=dict)
    whole: object = None  # instead of a request
    status: int = 200
    code: int | None = None
    says: str = ""

    @property
    def body(self) -> object:
        if self.whole is not None:
            return self.whole
        params = {} if self.params is None else {"params": self.params}
        return {"jsonrpc": "2.0", "id": self.id, "method": self.method, **params}


def old(version: str | None = "2025-11-25", **rest: Any) -> Sent:
    return Sent(headers={**ACCEPT, **({"MCP-Protocol-Version": version} if version else {})}, **rest)


def new(method: str = "tools/call", params: Any = LIST_TASKS, /, drop: str = "", **rest: Any) -> Sent:
    """A request of 2026-07-28. ``meta`` changes its envelope, ``headers`` its headers; ``drop`` leaves one key out."""
    meta = {key: value for key, value in {**META, **rest.pop("meta", {})}.items() if key != drop}
    named = {"Mcp-Name": params["name"]} if "name" in params else {}
    headers = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named, **rest.pop("headers", {})}
    headers = {key: value for key, value in headers.items() if key != drop}
    return Sent(method=method, params={**params, "_meta": meta}, headers=headers, **rest)


SENT: Final = {
    "a ping": old(),
    "a ping of an unnamed version": old(None),
    "an id that is text": old(id="a"),
    "an id that is a fraction": old(id=1.5, status=400, code=-32600, says=NO_BODY),
    "an id that is a truth": old(id=True, status=400, code=-32600, says=NO_BODY),
    "an id that is null": old(id=None, status=400, code=-32600, says=NO_BODY),
    "a method that nobody serves": old(method="prompts/list", code=-32601, says="Method not found"),
    "a method of the other generation": old(method="server/discover", code=-32601),
    "an initialize without a client": old(method="initialize", params={**INITIALIZE, "clientInfo": {}}, code=-32602),
    "a call without a name": old(method="tools/call", params={"arguments": {}}, code=-32602),
    "arguments that are a list": old(method="tools/call", params={"name": "tray", "arguments": []}, code=-32602),
    "arguments that are null": old(method="tools/call", params={"name": "list-tasks", "arguments": None}),
    "a page that is a number": old(method="tools/list", params={"cursor": 5}, code=-32602),
    "a meta that is a number": old(params={"_meta": 5}, code=-32602),
    "a token of progress that is a list": old(params={"_meta": {"progressToken": [1]}}, code=-32602),
    "a token of progress": old(params={"_meta": {"progressToken": 1}}),
    "a notification": old(whole={"jsonrpc": "2.0", "method": "notifications/initialized"}, status=202),
    "a response": old(whole={"jsonrpc": "2.0", "id": 1, "result": {}}, status=202),
    "a notification whose parameters are a number": old(
        whole={"jsonrpc": "2.0", "method": "notifications/initialized", "params": 5}, status=400, code=-32600
    ),
    "another JSON-RPC": old(whole={"jsonrpc": "1.0", "id": 1, "method": "ping"}, status=400, code=-32600),
    "a text": old(whole="ping", status=400, code=-32600),
    "who takes no JSON": Sent(headers={"Accept": "text/event-stream"}, status=406, code=-32600),
    "who takes anything": Sent(headers={"Accept": "*/*"}),
    "who takes anything of an application": Sent(headers={"Accept": "application/*;q=0.5"}),
    "plain text": Sent(headers={**ACCEPT, "Content-Type": "text/plain"}, status=400, code=-32600),
    "JSON with its characters": Sent(headers={**ACCEPT, "Content-Type": "Application/JSON; charset=utf-8"}),
    "a modern call": new(),
    "a modern discovery": new("server/discover", {}),
    "a name in base64": new(headers={"Mcp-Name": "=?base64?bGlzdC10YXNrcw==?="}),
    "a name in broken base64": new(headers={"Mcp-Name": "=?base64?bGlzdC10YXNrcx==?="}, status=400, code=-32020),
    "another name in the header": new(headers={"Mcp-Name": "tray"}, status=400, code=-32020, says="mcp-name"),
    "no name in the header": new(drop="Mcp-Name", status=400, code=-32020, says="mcp-name"),
    "no method in the header": new(drop="Mcp-Method", status=400, code=-32020, says="mcp-method"),
    "another version in the header": new(
        headers={"MCP-Protocol-Version": "2027-01-01"}, status=400, code=-32020, says="mcp-protocol-version"
    ),
    "a version to come": new(
        meta={mcp_types.PROTOCOL_VERSION_META_KEY: "2027-01-01"},
        headers={"MCP-Protocol-Version": "2027-01-01"},
        status=400,
        code=-32022,
    ),
    "no version": new(drop=mcp_types.PROTOCOL_VERSION_META_KEY, status=400, code=-32602, says="protocolVersion"),
    "no capabilities": new(drop=mcp_types.CLIENT_CAPABILITIES_META_KEY, status=400, code=-32602),
    "capabilities that are null": new(
        meta={mcp_types.CLIENT_CAPABILITIES_META_KEY: None}, status=400, code=-32602, says="Invalid request parameters"
    ),
    "no client": new(drop=mcp_types.CLIENT_INFO_META_KEY),
    "a client without a version": new(
        meta={mcp_types.CLIENT_INFO_META_KEY: {"name": "x"}}, status=400, code=-32602, says="Invalid"
    ),
    "no envelope": old(MODERN, status=400, code=-32602, says="_meta must be an object"),
    "an old method": new("ping", {}, status=404, code=-32601),
    "a modern call without a name": new("tools/call", {}, status=400, code=-32602, says="Invalid"),
    "a modern notification": old(MODERN, whole={"jsonrpc": "2.0", "method": "x"}, status=202),
    "a notification of no version": old("1999", whole={"jsonrpc": "2.0", "method": "x"}, status=400, code=-32022),
    "a modern response": old(MODERN, whole={"jsonrpc": "2.0", "id": 1, "result": {}}, status=400, code=-32600),
}


@pytest.mark.req("LOOP-07")
async def test_each_message_gets_the_answer_of_its_generation(
    doors: Doors, lea: Visitor, subtests: pytest.Subtests
) -> None:
    for name, sent in SENT.items():
        with subtests.test(name):
            answer = await lea.ask("POST", "/mcp", json=sent.body, headers=sent.headers)
            assert answer.status_code == sent.status, answer.text
            if sent.status == 202:
                assert not answer.content
            elif sent.code is None:
                response = mcp_types.JSONRPCResponse.model_validate(answer.json())
                assert response.id == sent.id
                assert ("resultType" in response.result) == ("Mcp-Method" in sent.headers)
            else:
                refused = mcp_types.JSONRPCError.model_validate(answer.json())
                assert refused.error.code == sent.code
                assert sent.says in refused.error.message
                assert refused.id in (sent.id, None)


@pytest.mark.parametrize(
    ("asked", "gets"), [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), (MODERN, "2025-11-25")]
)
async def test_a_client_gets_the_version_it_asks_for_or_the_latest_with_a_handshake(
    lea: Visitor, asked: str, gets: str
) -> None:
    sent = old(None, method="initialize", params={**INITIALIZE, "protocolVersion": asked})
    answer = await lea.ask("POST", "/mcp", json=sent.body, headers=sent.headers)
    result = mcp_types.InitializeResult.model_validate(answer.json()["result"])
    assert result.protocol_version == gets
    assert result.server_info.name == "swarm"
    assert result.instructions


async def test_a_header_that_is_sent_twice_is_refused(lea: Visitor) -> None:
    sent = new("tools/list", {})
    headers = [("Authorization", f"Bearer {lea.token}"), *sent.headers.items(), ("Mcp-Method", "tools/list")]
    answer = await lea.http.post(f"{lea.base}/mcp", json=sent.body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, mcp_types.HEADER_MISMATCH)


def test_the_versions_are_those_of_the_sdk() -> None:
    """A new version of the protocol is looked at when the SDK is updated."""
    assert mcp_protocol.HANDSHAKE_VERSIONS == versions.HANDSHAKE_PROTOCOL_VERSIONS
    assert mcp_protocol.MODERN_VERSIONS == versions.MODERN_PROTOCOL_VERSIONS


async def test_who_may_not_call_is_refused_whatever_is_sent(doors: Doors) -> None:
    answer = await doors.visitor("nobody's").ask("POST", "/mcp", json=old().body, headers=ACCEPT)
    assert answer.status_code == 401
