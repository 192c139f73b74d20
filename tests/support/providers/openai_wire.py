"""OpenAI's chat completions, and Ollama's, which speak alike.

Source: https://platform.openai.com/docs/api-reference/chat-streaming, and for the differences of Ollama's
https://docs.ollama.com/api/openai-compatibility.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from swarm.domain.model.language_models import Provider
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Used
from tests.support.providers.wire import Encoder, Whole, arguments, flat, pieces

_REASONS = {"stop": "stop", "length": "length", "filter": "content_filter"}

_ERRORS: Mapping[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "Invalid value for 'messages'."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-wro**********key."),
    403: ("invalid_request_error", "unsupported_country_region_territory", "Country not supported"),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 1s."),
    500: ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
}
_KINDS: Mapping[str, tuple[str, str | None, str]] = {
    "context": (
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 200001 tokens.",
    ),
    "quota": ("insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan."),
    "filter": ("invalid_request_error", "content_filter", "The response was filtered."),
}


class OpenAIWire:
    """POST /v1/chat/completions."""

    provider = Provider.OPENAI
    base_path = "/v1"
    stream_type = "text/event-stream; charset=utf-8"
    api_key: str | None = "sk-test-key-of-nobody"
    region: str | None = None
    model_name = "gpt-5-mini"

    def is_for(self, request: Request) -> bool:
        return request.path == "/v1/chat/completions"

    def is_streamed(self, request: Request) -> bool:
        return bool(request.json.get("stream"))

    def model(self, request: Request) -> str:
        return str(request.json["model"])

    def system(self, body: Any) -> str:
        return "\n\n".join(flat(m["content"]) for m in body["messages"] if m["role"] in ("system", "developer"))

    def said(self, body: Any) -> list[str]:
        return [flat(m["content"]) for m in body["messages"] if m["role"] == "user"]

    def tools(self, body: Any) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or ()]

    def results(self, body: Any) -> list[str]:
        return [flat(m["content"]) for m in body["messages"] if m["role"] == "tool"]

    def is_after_tool(self, body: Any) -> bool:
        return bool(body["messages"][-1]["role"] == "tool")

    def encoder(self, request: Request) -> Encoder:
        return _Encoder(request)

    def whole(self, request: Request, reply: Whole) -> Mapping[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [_call(id, call, arguments(call)) for id, call in reply.calls]
        choice = {"index": 0, "message": message, "finish_reason": _reason(reply.reason, bool(reply.calls))}
        answer = {**_envelope(request, "chat.completion"), "choices": [choice]}
        return answer if reply.used.input is None else {**answer, "usage": _usage(reply.used)}

    def failure(self, fails: Fails) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        kind, code, message = _words(fails)
        return {}, {"error": {"message": message, "type": kind, "param": None, "code": code}}


class OllamaWire(OpenAIWire):
    """The same at an address without /v1; nobody needs a key, and errors have no codes."""

    provider = Provider.OLLAMA
    base_path = ""
    api_key: str | None = None
    model_name = "qwen3:8b"

    def failure(self, fails: Fails) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        message = fails.message or ('model "nobody" not found, try pulling it first' if fails.status == 404 else "oops")
        return {}, {"error": {"message": message, "type": "api_error", "param": None, "code": None}}


class _Encoder:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.calls = 0

    def start(self) -> bytes:
        return self._delta({"role": "assistant", "content": ""})

    def say(self, piece: str) -> bytes:
        return self._delta({"content": piece})

    def call(self, id: str, call: Call) -> Iterable[bytes]:
        index, self.calls = self.calls, self.calls + 1
        yield self._delta({"tool_calls": [{"index": index, **_call(id, call, "")}]})
        for piece in pieces(call):
            yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def fail(self, fails: Fails) -> bytes:
        kind, code, message = _words(fails)
        return _sse({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def finish(self, reason: Reason, used: Used) -> bytes:
        end = self._delta({}, _reason(reason, bool(self.calls)))
        wants_usage = (self.request.json.get("stream_options") or {}).get("include_usage")
        if wants_usage and used.input is not None:
            end += self._chunk({"choices": [], "usage": _usage(used)})
        return end + b"data: [DONE]\n\n"

    def _delta(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return self._chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _chunk(self, part: Mapping[str, Any]) -> bytes:
        return _sse({**_envelope(self.request, "chat.completion.chunk"), **part})


def _words(fails: Fails) -> tuple[str, str | None, str]:
    kind, code, message = _KINDS.get(fails.kind) or _ERRORS.get(fails.status, ("server_error", None, "Something broke"))
    return kind, code, fails.message or message


def _envelope(request: Request, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_790_000_000, "model": request.model}


def _reason(reason: Reason, has_calls: bool) -> str:
    return "tool_calls" if has_calls and reason == "stop" else _REASONS[reason]


def _call(id: str, call: Call, text: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": call.tool, "arguments": text}}


def _usage(used: Used) -> dict[str, Any]:
    asked = used.input or 0
    return {
        "prompt_tokens": asked,
        "completion_tokens": used.output,
        "total_tokens": asked + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cache_read},
    }


def _sse(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()
