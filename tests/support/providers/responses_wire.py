"""OpenAI's responses. Source: https://platform.openai.com/docs/api-reference/responses-streaming."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.providers.openai_wire import OpenAIWire
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Used
from tests.support.providers.wire import Encoder, Whole, arguments, flat, pieces

_OUTPUTS = ("function_call_output", "custom_tool_call_output")


class ResponsesWire(OpenAIWire):
    """POST /v1/responses, streamed, with calls of functions. A tool of a namespace is called as ``namespace/tool``."""

    def is_for(self, request: Request) -> bool:
        return request.path == "/v1/responses"

    def is_streamed(self, request: Request) -> bool:
        return True

    def system(self, body: Any) -> str:
        told = [flat(item["content"]) for item in _messages(body) if item["role"] in ("system", "developer")]
        return "\n\n".join([body.get("instructions") or "", *told])

    def said(self, body: Any) -> list[str]:
        return [flat(item["content"]) for item in _messages(body) if item["role"] == "user"]

    def tools(self, body: Any) -> list[str]:
        return [name for tool in body.get("tools") or () for name in _names(tool)]

    def results(self, body: Any) -> list[str]:
        return [_text(item["output"]) for item in body["input"] if item.get("type") in _OUTPUTS]

    def is_after_tool(self, body: Any) -> bool:
        return body["input"][-1].get("type") in _OUTPUTS

    def encoder(self, request: Request) -> Encoder:
        return _Encoder(len(body["input"]) if isinstance(body := request.json, dict) else 0)

    def whole(self, request: Request, reply: Whole) -> Mapping[str, Any]:
        raise AssertionError("Only streamed answers are known here.")


class _Encoder:
    def __init__(self, number: int) -> None:
        self.id = f"resp_{number}"
        self.index = -1
        self.text: str | None = None
        self.calls = 0

    def start(self) -> bytes:
        return _sse("response.created", response=self._response("in_progress"))

    def say(self, piece: str) -> bytes:
        begun = b""
        if self.text is None:
            self.index, self.text = self.index + 1, ""
            begun = _sse("response.output_item.added", output_index=self.index, item=self._message("in_progress"))
        self.text += piece
        place = {"item_id": self._message("")["id"], "output_index": self.index, "content_index": 0}
        return begun + _sse("response.output_text.delta", delta=piece, **place)

    def call(self, id: str, call: Call) -> Iterable[bytes]:
        yield self._close()
        self.index += 1
        self.calls += 1
        namespace, _, name = call.tool.rpartition("/")
        made = {"id": f"fc_{self.id}_{self.index}", "type": "function_call", "call_id": f"{id}_{self.id}", "name": name}
        item = {**made, "namespace": namespace} if namespace else made
        place = {"item_id": made["id"], "output_index": self.index}
        yield _sse("response.output_item.added", output_index=self.index, item={**item, "arguments": ""})
        for piece in pieces(call):
            yield _sse("response.function_call_arguments.delta", delta=piece, **place)
        whole = {**item, "arguments": arguments(call), "status": "completed"}
        yield _sse("response.output_item.done", output_index=self.index, item=whole)

    def fail(self, fails: Fails) -> bytes:
        error = {"code": "server_error", "message": fails.message or "Something broke"}
        return _sse("response.failed", response={**self._response("failed"), "error": error})

    def finish(self, reason: Reason, used: Used) -> bytes:
        usage = {"input_tokens": used.input or 0, "output_tokens": used.output}
        details = {"input_tokens_details": {"cached_tokens": used.cache_read}}
        total = {"total_tokens": sum(usage.values()), **details}
        done = {**self._response("completed"), "usage": {**usage, **total}}
        return self._close() + _sse("response.completed", response=done)

    def _close(self) -> bytes:
        if self.text is None:
            return b""
        item = self._message("completed", [{"type": "output_text", "text": self.text, "annotations": []}])
        self.text = None
        return _sse("response.output_item.done", output_index=self.index, item=item)

    def _message(self, status: str, content: Iterable[Any] = ()) -> dict[str, Any]:
        head = {"type": "message", "role": "assistant", "id": f"msg_{self.id}_{self.index}"}
        return {**head, "status": status, "content": list(content)}

    def _response(self, status: str) -> dict[str, Any]:
        return {"id": self.id, "object": "response", "status": status, "output": []}


def _messages(body: Any) -> list[Any]:
    return [item for item in body["input"] if item.get("type", "message") == "message"]


def _names(tool: Mapping[str, Any]) -> list[str]:
    """The tool's name; those of a namespace are tools of their own."""
    if tool.get("type") == "namespace":
        return [f"{tool['name']}/{name}" for one in tool.get("tools") or () for name in _names(one)]
    return [str(tool.get("name") or tool.get("type"))]


def _text(output: Any) -> str:
    return output if isinstance(output, str) else flat(output)


def _sse(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())
