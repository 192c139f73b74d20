"""The demo's rules as a server: what clients of OpenAI's protocol get, streamed and whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx2
import pytest

from swarm_lab.demo.rules.model_server import application
from tests.support.doors import serving
from tests.support.http import client as http_client
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from openai import AsyncOpenAI

pytestmark = [pytest.mark.req("OPS-01"), pytest.mark.xdist_group("providers")]

MULTIPLY = {
    "type": "function",
    "function": {
        "name": "multiply",
        "parameters": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
    },
}
ASKED = {"model": "any", "messages": [{"role": "user", "content": "what is 6 times 7?"}], "tools": [MULTIPLY]}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serving(application(word_seconds=0.001)) as address:
        yield address.rstrip("/")


@pytest.fixture
async def openai(address: str) -> AsyncIterator[AsyncOpenAI]:
    from openai import AsyncOpenAI  # a second of work, for whoever collects the tests

    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="of-nobody", max_retries=0) as client:
        yield client


async def test_a_call_of_a_tool_comes_whole_and_in_pieces_that_make_the_same(openai: AsyncOpenAI) -> None:
    whole = await openai.chat.completions.create(**ASKED)
    (call,) = whole.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("multiply", '{"a":6,"b":7}')
    assert whole.choices[0].finish_reason == "tool_calls"
    pieces = [chunk async for chunk in await openai.chat.completions.create(**ASKED, stream=True)]
    deltas = [call for chunk in pieces for call in chunk.choices[0].delta.tool_calls or ()]
    assert deltas[0].function.name == "multiply"
    assert deltas[0].id
    assert len(deltas) > 2
    assert "".join(delta.function.arguments or "" for delta in deltas) == '{"a":6,"b":7}'
    assert pieces[-1].choices[0].finish_reason == "tool_calls"


async def test_a_text_is_streamed_word_by_word_and_its_tokens_are_told_where_they_are_wanted(
    openai: AsyncOpenAI,
) -> None:
    joke = {"model": "any", "messages": [{"role": "user", "content": [{"type": "text", "text": "tell me a joke"}]}]}
    whole = await openai.chat.completions.create(**joke)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = [chunk async for chunk in await openai.chat.completions.create(**joke, **options)]
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(texts) > 10
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens > 10


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"messages": [1]}', b'{"messages": 5}', b'{"messages": [{}]}']
)
async def test_what_is_no_request_is_refused_as_openai_does(address: str, body: bytes) -> None:
    async with http_client(timeout=PATIENCE_SECONDS) as http:
        answer = await http.post(f"{address}/v1/chat/completions", content=body)
    assert answer.status_code == httpx2.codes.BAD_REQUEST
    assert answer.json()["error"]["type"] == "invalid_request_error"
