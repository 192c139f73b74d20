"""Anthropic's messages. Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from swarm.clock import new_id
from swarm.domain.model.language_models import Provider
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Used
from tests.support.providers.wire import Encoder, Whole, flat, pieces

_REASONS = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"}

_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("invalid_request_error", "messages: at least one message is required"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model: nobody"),
    413: ("request_too_large", "Request exceeds the maximum allowed number of bytes."),
    429: ("rate_limit_error", "This request would exceed your account's rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}
_KINDS: Mapping[str, tuple[str, str]] = {
    "context": ("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
    "quota": ("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "filter": ("invalid_request_error", "Output blocked by content filtering policy"),
}


class AnthropicWire:
    """POST /v1/messages."""

    provider = Provider.ANTHROPIC
    base_path = ""
    stream_type = "text/event-stream; charset=utf-8"
    api_key: str | None = "sk-ant-test-key-of-nobody"
    region: str | None = None
    model_name = "claude-sonnet-5"

    def is_for(self, request: Request) -> bool:
        return request.path.partition("?")[0] == "/v1/messages"

    def is_streamed(self, request: Request) -> bool:
        return bool(request.json.get("stream"))

    def model(self, request: Request) -> str:
        return str(request.json["model"])

    def system(self, body: Any) -> str:
        return flat(body.get("system"))

    def said(self, body: Any) -> list[str]:
        blocks = (flat([b for b in _blocks(m) if b["type"] == "text"]) for m in _users(body))
        return [text for text in blocks if text]

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or ()]

    def results(self, body: Any) -> list[str]:
        return [flat(b.get("content")) for m in _users(body) for b in _blocks(m) if b["type"] == "tool_result"]

    def is_after_tool(self, body: Any) -> bool:
        last = body["messages"][-1]
        return bool(last["role"] == "user" and _blocks(last)[-1]["type"] == "tool_result")

    def encoder(self, request: Request) -> Encoder:
        return _Encoder(request)

    def whole(self, request: Request, reply: Whole) -> Mapping[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
        content += [{**_call(id, call), "input": call.arguments} for id, call in reply.calls]
        reason = _reason(reply.reason, bool(reply.calls))
        return {**_message(request, reply.used), "content": content, "stop_reason": reason}

    def failure(self, fails: Fails) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        return {}, _error(fails)


class _Encoder:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.index = -1
        self.open = ""
        self.has_calls = False

    def start(self) -> bytes:
        return _sse("message_start", message=_message(self.request, Used(output=1))) + _sse("ping")

    def say(self, piece: str) -> bytes:
        begun = b"" if self.open == "text" else self._block("text", {"type": "text", "text": ""})
        return begun + self._delta({"type": "text_delta", "text": piece})

    def call(self, id: str, call: Call) -> Iterable[bytes]:
        self.has_calls = True
        yield self._block("tool", {**_call(id, call), "input": {}})
        yield self._delta({"type": "input_json_delta", "partial_json": ""})
        for piece in pieces(call):
            yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def fail(self, fails: Fails) -> bytes:
        return b"event: error\ndata: %b\n\n" % json.dumps(_error(fails)).encode()

    def finish(self, reason: Reason, used: Used) -> bytes:
        delta = {"stop_reason": _reason(reason, self.has_calls), "stop_sequence": None}
        return self._close() + _sse("message_delta", delta=delta, usage=_usage(used)) + _sse("message_stop")

    def _block(self, kind: str, block: Mapping[str, Any]) -> bytes:
        closed = self._close()
        self.open = kind
        self.index += 1
        return closed + _sse("content_block_start", index=self.index, content_block=block)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return _sse("content_block_delta", index=self.index, delta=delta)

    def _close(self) -> bytes:
        return _sse("content_block_stop", index=self.index) if self.open else b""


def _users(body: Any) -> list[Any]:
    return [message for message in body["messages"] if message["role"] == "user"]


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _reason(reason: Reason, has_calls: bool) -> str:
    return "tool_use" if has_calls and reason == "stop" else _REASONS[reason]


def _call(id: str, call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": call.tool}


def _message(request: Request, used: Used) -> dict[str, Any]:
    # Clients count the usage of each message once, by its id.
    head = {"id": f"msg_{new_id()}", "type": "message", "role": "assistant", "model": request.model, "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": _usage(used)}


def _usage(used: Used) -> dict[str, Any]:
    """Anthropic counts what is read from and written to the cache apart from the input."""
    return {
        "input_tokens": max(0, (used.input or 0) - used.cache_read - used.cache_write),
        "cache_read_input_tokens": used.cache_read,
        "cache_creation_input_tokens": used.cache_write,
        "output_tokens": used.output,
    }


def _error(fails: Fails) -> dict[str, Any]:
    kind, message = _KINDS.get(fails.kind) or _ERRORS.get(fails.status, ("api_error", "Something broke"))
    return {"type": "error", "error": {"type": kind, "message": fails.message or message}, "request_id": "req_1"}


def _sse(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())
