"""Amazon Bedrock's converse and converse-stream, with AWS's framing of events.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, and for the framing
https://smithy.io/2.0/aws/amazon-eventstream.html.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from swarm.domain.model.language_models import Provider
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Used
from tests.support.providers.wire import Encoder, Whole, flat, pieces

AWS_ENVIRONMENT: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "AKIATESTOFNOBODY",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-nobody",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""What stands in for the credentials that Bedrock takes from the environment."""

_REASONS = {"stop": "end_turn", "length": "max_tokens", "filter": "content_filtered"}

_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("ValidationException", "The model returned the following errors: malformed input request"),
    401: ("UnrecognizedClientException", "The security token included in the request is invalid."),
    403: ("AccessDeniedException", "You don't have access to the model with the specified model ID."),
    404: ("ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."),
    408: ("ModelTimeoutException", "The request took too long to process."),
    424: ("ModelErrorException", "The request failed due to an error while processing the model."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "An internal server error occurred."),
    503: ("ServiceUnavailableException", "The service isn't currently available. Try again later."),
}
_KINDS: Mapping[str, tuple[str, str]] = {
    "context": ("ValidationException", "Input is too long for requested model."),
    "quota": ("ServiceQuotaExceededException", "Your request exceeds the service quota for your account."),
    "filter": ("ValidationException", "Output blocked by content filtering policy"),
}


class BedrockWire:
    """POST /model/{model}/converse-stream, and without -stream."""

    provider = Provider.BEDROCK
    base_path = ""
    stream_type = "application/vnd.amazon.eventstream"
    api_key: str | None = None
    region: str | None = "eu-central-1"
    model_name = "eu.anthropic.claude-sonnet-5-v1:0"

    def is_for(self, request: Request) -> bool:
        return request.path.startswith("/model/") and request.path.endswith(("/converse", "/converse-stream"))

    def is_streamed(self, request: Request) -> bool:
        return request.path.endswith("/converse-stream")

    def model(self, request: Request) -> str:
        return unquote(request.path.split("/")[2])

    def system(self, body: Any) -> str:
        return flat(body.get("system"))

    def said(self, body: Any) -> list[str]:
        texts = (flat(message["content"]) for message in body["messages"] if message["role"] == "user")
        return [text for text in texts if text]

    def tools(self, body: Any) -> list[str]:
        return [
            tool["toolSpec"]["name"] for tool in (body.get("toolConfig") or {}).get("tools", ()) if "toolSpec" in tool
        ]

    def results(self, body: Any) -> list[str]:
        blocks = (block for message in body["messages"] for block in message["content"])
        return [_result(block["toolResult"]) for block in blocks if "toolResult" in block]

    def is_after_tool(self, body: Any) -> bool:
        blocks = [block for block in body["messages"][-1]["content"] if "cachePoint" not in block]
        return "toolResult" in blocks[-1]

    def encoder(self, request: Request) -> Encoder:
        return _Encoder()

    def whole(self, request: Request, reply: Whole) -> Mapping[str, Any]:
        content: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
        content += [{"toolUse": {**_call(id, call), "input": call.arguments}} for id, call in reply.calls]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _reason(reply.reason, bool(reply.calls)),
            "usage": _usage(reply.used),
            "metrics": {"latencyMs": 1},
        }

    def failure(self, fails: Fails) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        kind, message = _words(fails)
        return {"x-amzn-ErrorType": kind}, {"message": message}


class _Encoder:
    def __init__(self) -> None:
        self.index = -1
        self.open = ""
        self.has_calls = False

    def start(self) -> bytes:
        return event("messageStart", {"role": "assistant"})

    def say(self, piece: str) -> bytes:
        closed = b""
        if self.open != "text":
            closed = self._close()
            self.open = "text"
            self.index += 1
        return closed + self._delta({"text": piece})

    def call(self, id: str, call: Call) -> Iterable[bytes]:
        self.has_calls = True
        closed = self._close()
        self.open = "tool"
        self.index += 1
        start = {"contentBlockIndex": self.index, "start": {"toolUse": _call(id, call)}}
        yield closed + event("contentBlockStart", start)
        for piece in pieces(call):
            yield self._delta({"toolUse": {"input": piece}})

    def fail(self, fails: Fails) -> bytes:
        kind, message = _words(fails)
        return frame(
            {
                ":exception-type": kind[0].lower() + kind[1:],
                ":content-type": "application/json",
                ":message-type": "exception",
            },
            {"message": message},
        )

    def finish(self, reason: Reason, used: Used) -> bytes:
        stop = event("messageStop", {"stopReason": _reason(reason, self.has_calls)})
        metadata = event("metadata", {"usage": _usage(used), "metrics": {"latencyMs": 1}})
        return self._close() + stop + metadata

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return event("contentBlockDelta", {"contentBlockIndex": self.index, "delta": delta})

    def _close(self) -> bytes:
        return event("contentBlockStop", {"contentBlockIndex": self.index}) if self.open else b""


def event(kind: str, payload: Mapping[str, Any]) -> bytes:
    """One event of a stream."""
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def frame(headers: Mapping[str, str], payload: Mapping[str, Any]) -> bytes:
    """One message in AWS's framing: lengths, their checksum, headers, the payload, and the checksum of all that."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    text = 7  # the type of a header's value
    data = value.encode()
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", text, len(data)) + data


def _words(fails: Fails) -> tuple[str, str]:
    kind, message = _KINDS.get(fails.kind) or _ERRORS.get(fails.status, ("InternalServerException", "Something broke"))
    return kind, fails.message or message


def _reason(reason: Reason, has_calls: bool) -> str:
    return "tool_use" if has_calls and reason == "stop" else _REASONS[reason]


def _call(id: str, call: Call) -> dict[str, Any]:
    return {"toolUseId": id, "name": call.tool}


def _result(result: Any) -> str:
    return "".join(block.get("text") or json.dumps(block.get("json")) for block in result["content"])


def _usage(used: Used) -> dict[str, Any]:
    """Bedrock counts what is read from and written to the cache apart from the input."""
    asked = max(0, (used.input or 0) - used.cache_read - used.cache_write)
    return {
        "inputTokens": asked,
        "outputTokens": used.output,
        "totalTokens": (used.input or 0) + used.output,
        "cacheReadInputTokens": used.cache_read,
        "cacheWriteInputTokens": used.cache_write,
    }
