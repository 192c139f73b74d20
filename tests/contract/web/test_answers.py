"""JSON answers: what a model must not see is removed, however the encoder writes it, and one call writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import MappingProxyType

import orjson
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from swarm.entrypoints.web.answers import Answer, AnswerTransport, json_for_model
from swarm.entrypoints.web.server import Config, HttpProtocol
from swarm_base.characters import data_for_model
from tests.support.every import every
from tests.support.naughty import STORABLE

CONTROLS = tuple(f"a{chr(code)}b" for code in (*range(0x20), *range(0x7F, 0xA0)))


@pytest.mark.req("SEC-04")
@every("text", [*STORABLE, *CONTROLS, "half \ud83d", "\\u200b", "plain"])
@every("is_key", [False, True])
def test_an_answer_is_the_json_of_its_data_as_a_model_may_see_it(text: str, is_key: bool) -> None:
    data = {"list": [{text: 1} if is_key else {"deep": text}], "count": 1, "none": None}
    assert json_for_model(data) == orjson.dumps(data_for_model(data))


@pytest.mark.req("SEC-04")
def test_an_answer_of_other_mappings_and_of_tuples_is_json_too() -> None:
    assert json_for_model(MappingProxyType({"of": ("a", "b")})) == b'{"of":["a","b"]}'


class Written(asyncio.Transport):
    """What is passed on to the system, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def test_head_and_body_are_written_with_one_call_and_later_parts_at_once() -> None:
    written = Written()
    answer = AnswerTransport(written, asyncio.get_running_loop())
    for part in (b"head", b"body", b"more"):
        answer.write(part)
    await asyncio.sleep(0)
    assert written.calls == [b"headbody", b"more"]


async def test_a_head_without_a_body_is_written_in_the_next_turn_or_before_the_end() -> None:
    streamed, ended = Written(), Written()
    stream, end = [AnswerTransport(written, asyncio.get_running_loop()) for written in (streamed, ended)]
    stream.write(b"head")
    end.write(b"head")
    end.close()
    assert (ended.calls, ended.closed) == ([b"head"], True)
    await asyncio.sleep(0)
    assert streamed.calls == ended.calls == [b"head"]
    stream.write(b"event")
    assert streamed.calls == [b"head", b"event"]


async def test_the_server_writes_an_answer_with_one_call() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Answer({"a": 1})(scope, receive, send)

    config = Config(app)
    config.load()
    server = HttpProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    written = Written()
    server.connection_made(written)
    server.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.gather(*server.tasks)
    server.connection_lost(None)
    (answer,) = written.calls
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'\r\n\r\n{"a":1}')


async def test_an_answer_to_head_is_written_at_once_because_the_connection_may_be_closed_in_the_same_turn() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Answer({"a": 1})(scope, receive, send)
        server.shutdown()

    config = Config(app)
    config.load()
    server = HttpProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    written = Written()
    server.connection_made(written)
    server.data_received(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.gather(*server.tasks)
    server.connection_lost(None)
    assert b"".join(written.calls).startswith(b"HTTP/1.1 200")
