"""The demo's model as a server on this machine. It offers OpenAI's chat completions, streamed or complete.

Source: https://platform.openai.com/docs/api-reference/chat and …/chat-streaming. Any client for that API works.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from swarm_lab.demo.rules import assistant_rules, router_rules
from swarm_lab.demo.rules.asked import MODEL, Asked, Call, Calls, Reply, Said, Text
from swarm_lab.demo.rules.assistant_rules import summary
from swarm_lab.demo.serving import WORD_SECONDS, pieces, serve

_CONVERSATION: Final = "The conversation"
"""The title of a conversation that is to be summarised."""

_ONE_WORD: Final = re.compile(r"\bsingle word (\w+)", re.IGNORECASE)


def reply(asked: Asked) -> Reply:
    """Returns the model's reply to any request."""
    if router_rules.REFUSE in asked.tools:
        return router_rules.decide(asked)
    if not asked.tools and router_rules.RESULTS in asked.data:
        return router_rules.word(asked)
    if not asked.tools and _CONVERSATION in asked.data:
        return Text(text=summary(asked.data[_CONVERSATION]))
    if word := _ONE_WORD.search(asked.last):
        return Text(text=word[1])
    return assistant_rules.answer(asked)


LONGEST_TEXT_SECONDS: Final = 6.0
"""The time limit for streaming a text. A long text is sent in larger pieces."""

_CHARACTERS_PER_TOKEN: Final = 4
_ARGUMENT_CHARACTERS: Final = 8  # characters of a call's arguments in one piece
_CREATED: Final = 1_790_000_000


def application(*, word_seconds: float = WORD_SECONDS) -> Starlette:
    """Returns the service. ``word_seconds`` is the pause after each word of a streamed answer."""

    async def complete(request: Request) -> Response:
        try:
            body = orjson.loads(await request.body())
            asked = _asked_in(body)
        except (ValueError, KeyError, TypeError, AttributeError):
            return _refused("This is not a request for a chat completion.")
        answer, used = reply(asked), _used(asked)
        if body.get("stream"):
            return StreamingResponse(_streamed(body, answer, used, word_seconds), media_type="text/event-stream")
        return JSONResponse(_whole(body, answer, used))

    async def alive(request: Request) -> Response:
        return PlainTextResponse("Rules instead of a model. POST /v1/chat/completions.")

    return Starlette(
        routes=[Route("/v1/chat/completions", complete, methods=["POST"]), Route("/", alive, methods=["GET"])]
    )


def _asked_in(body: Mapping[str, Any]) -> Asked:
    """Parses a request. Raises ValueError, KeyError, TypeError or AttributeError for an invalid request."""
    functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
    return Asked(
        messages=tuple(_said(message) for message in body["messages"]),
        tools={function["name"]: function.get("parameters") or {} for function in functions},
    )


def _said(message: Mapping[str, Any]) -> Said:
    role = "system" if message["role"] == "developer" else str(message["role"])
    return Said(
        role=role,
        text=_text(message.get("content")),
        calls=tuple(_call(call) for call in message.get("tool_calls") or ()),
        call_id=str(message.get("tool_call_id") or ""),
    )


def _text(content: object) -> str:
    """Returns the text of a message, whose content may consist of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _call(call: Mapping[str, Any]) -> Call:
    function = call["function"]
    return Call(tool=function["name"], arguments=orjson.loads(function.get("arguments") or b"{}"), id=call["id"])


def _whole(body: Mapping[str, Any], answer: Reply, read_tokens: int) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text if isinstance(answer, Text) else None}
    if isinstance(answer, Calls):
        message["tool_calls"] = [_function(id, call, _arguments(call)) for id, call in _named(answer)]
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer)}
    usage = _usage(read_tokens, answer)
    return {**_envelope(body, "chat.completion"), "choices": [choice], "usage": usage}


async def _streamed(
    body: Mapping[str, Any], answer: Reply, read_tokens: int, word_seconds: float
) -> AsyncIterator[bytes]:
    head = _envelope(body, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    match answer:
        case Text(text=text):
            for piece in pieces(text, word_seconds, LONGEST_TEXT_SECONDS):
                yield chunk({"content": piece})
                await asyncio.sleep(word_seconds)
        case Calls():
            for delta in _call_deltas(answer):
                yield chunk({"tool_calls": [delta]})
    yield chunk({}, _reason(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(read_tokens, answer)})
    yield b"data: [DONE]\n\n"


def _call_deltas(answer: Calls) -> Iterator[Mapping[str, Any]]:
    """Yields the deltas of each call: its name, then its arguments piece by piece."""
    for index, (id, call) in enumerate(_named(answer)):
        yield {"index": index, **_function(id, call, "")}
        text = _arguments(call)
        for start in range(0, len(text), _ARGUMENT_CHARACTERS):
            yield {"index": index, "function": {"arguments": text[start : start + _ARGUMENT_CHARACTERS]}}


def _named(answer: Calls) -> Sequence[tuple[str, Call]]:
    """Gives each call an id that is unique in its conversation."""
    return [(f"call_{os.urandom(8).hex()}", call) for call in answer.calls]


def _function(id: str, call: Call, arguments: str) -> Mapping[str, Any]:
    return {"id": id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _arguments(call: Call) -> str:
    return orjson.dumps(dict(call.arguments)).decode()


def _reason(answer: Reply) -> str:
    return "stop" if isinstance(answer, Text) else "tool_calls"


def _used(asked: Asked) -> int:
    """Estimates the tokens that a model would have read."""
    return _tokens("".join(said.text for said in asked.messages))


def _usage(read: int, answer: Reply) -> Mapping[str, int]:
    written = answer.text if isinstance(answer, Text) else "".join(_arguments(call) for call in answer.calls)
    wrote = _tokens(written)
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}


def _tokens(text: str) -> int:
    return 1 + len(text) // _CHARACTERS_PER_TOKEN


def _envelope(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    model = str(body.get("model") or MODEL)
    return {"id": f"chatcmpl-{os.urandom(8).hex()}", "object": kind, "created": _CREATED, "model": model}


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(value)


def _refused(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status_code=400)


if __name__ == "__main__":
    serve(application(), "MODEL_PORT")
