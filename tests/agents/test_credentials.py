"""How an agent knows us."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
import structlog

from swarm.clock import ManualClock
from swarm.domain.answers.agents import ClientCredentials, RemoteAgent
from swarm.domain.answers.events import Broken, Finished
from tests.agents.asking import CAIPE, reached, run, run_input
from tests.support.agui_server import (
    DROP,
    STALL,
    STARTED,
    AguiServer,
    Answer,
    Flood,
    answer_json,
    answering,
    said,
)

pytestmark = pytest.mark.req("STREAM-01")

SECRET = "very-secret-client-secret"
TOKEN = "/token"


def oauth(server: AguiServer, **more: Any) -> ClientCredentials:
    return ClientCredentials(token_url=server.url + TOKEN, client_id="swarm", client_secret=SECRET, **more)


def grants(server: AguiServer, *tokens: str, expires_in: object = 3600) -> None:
    """The token service gives out these, one after another."""
    for token in tokens:
        server.next(TOKEN, answer_json({"access_token": token, "token_type": "Bearer", "expires_in": expires_in}))


def basic(client_id: str, secret: str) -> str:
    return f"Basic {b64encode(f'{client_id}:{secret}'.encode()).decode()}"


def refusal(status: int, **error: object) -> tuple[Answer, bytes]:
    return Answer(status, {"Content-Type": "application/json"}), json.dumps(error).encode()


def shown(server: AguiServer) -> list[str | None]:
    """The tokens that the agent saw."""
    return [request.headers.get("authorization") for request in server.to("/")]


async def test_client_credentials_are_exchanged_for_a_token(server: AguiServer) -> None:
    grants(server, "one")
    server.on("/", *answering("hi"))
    await run(server.url, oauth=oauth(server, scope="a b", audience="agents"))
    (asked,) = server.to(TOKEN)
    assert dict(parse_qsl(asked.body.decode())) == {
        "grant_type": "client_credentials",
        "scope": "a b",
        "audience": "agents",
    }
    assert asked.headers["authorization"] == basic("swarm", SECRET)
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert shown(server) == ["Bearer one"]


async def test_a_token_serves_until_60_s_before_its_end(server: AguiServer) -> None:
    clock = ManualClock()
    grants(server, "one", "two")
    server.on("/", *answering("hi"))
    async with reached(server.url, oauth=oauth(server), clock=clock) as agent:
        for seconds in (0, 3539, 1):
            clock.advance(seconds)
            assert [event async for event in agent.run(run_input())][-1] == Finished()
    assert shown(server) == ["Bearer one", "Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("expires_in", "count"),
    [
        *[(60, 3), (-5, 3), (0, 3), (None, 1), (1e300, 1), ("3600", 1), (3599.5, 1), ("60", 3), ("soon", 1), ("", 1)],
        *[({}, 1), ([3600], 1), (True, 1), ("NaN", 1), ("Infinity", 1), ("-Infinity", 3), (int("9" * 400), 1)],
        *[("null", 1), ("2026-11-27T22:00:00Z", 1)],
    ],
)
async def test_odd_lifetimes_of_tokens(expires_in: object, count: int, server: AguiServer) -> None:
    said_so = {} if expires_in is None else {"expires_in": None if expires_in == "null" else expires_in}
    server.on(TOKEN, answer_json({"access_token": "one", **said_so}))
    server.on("/", *answering("hi"))
    async with reached(server.url, oauth=oauth(server)) as agent:
        for _ in range(3):
            assert [event async for event in agent.run(run_input())][-1] == Finished()
    assert len(server.to(TOKEN)) == count


async def test_runs_at_once_share_one_fetch(server: AguiServer) -> None:
    go_on = asyncio.Event()
    body = b'{"access_token": "one", "expires_in": 3600}'
    server.on(TOKEN, Answer(headers={"Content-Type": "application/json"}), go_on, body)
    server.on("/", *answering("hi"))
    async with reached(server.url, oauth=oauth(server)) as agent:
        first, *others = [asyncio.create_task(_read(agent)) for _ in range(5)]
        await server.asked(TOKEN)
        others.pop().cancel()
        go_on.set()
        ends = await asyncio.gather(first, *others)
    assert [events[-1] for events in ends] == [Finished()] * 4
    assert len(server.to(TOKEN)) == 1


async def test_a_run_that_gives_up_while_it_fetches_does_not_take_the_others_along(server: AguiServer) -> None:
    server.next(TOKEN, Answer(0), STALL)
    grants(server, "two")
    server.on("/", *answering("hi"))
    async with reached(server.url, oauth=oauth(server)) as agent:
        first, second = [asyncio.create_task(_read(agent)) for _ in range(2)]
        await server.asked(TOKEN)
        first.cancel()
        assert (await second)[-1] == Finished()


async def test_a_token_that_is_refused_is_replaced_once(server: AguiServer) -> None:
    grants(server, "old", "new")
    server.next("/", *answering("hi"))
    server.next("/", Answer(401, {}, b""))
    server.next("/", *answering("hi again"))
    async with reached(server.url, oauth=oauth(server)) as agent:
        for _ in range(2):
            assert (await _read(agent))[-1] == Finished()
    assert shown(server) == ["Bearer old", "Bearer old", "Bearer new"]


async def test_an_agent_that_refuses_every_token_is_asked_twice(server: AguiServer) -> None:
    server.on(TOKEN, answer_json({"access_token": "one", "expires_in": 3600}))
    server.on("/", Answer(401, {}, b""))
    assert await run(server.url, oauth=oauth(server)) == [
        Broken(reason="it refused our credentials (HTTP 401); its operator must look")
    ]
    assert len(server.to("/")) == len(server.to(TOKEN)) == 2


async def test_a_fixed_token_that_is_refused_is_not_tried_again(server: AguiServer) -> None:
    server.on("/", Answer(401, {}, b""))
    assert await run(server.url, token="fixed") == [
        Broken(reason="it refused our credentials (HTTP 401); its operator must look")
    ]
    assert len(server.to("/")) == 1


async def test_a_run_that_has_begun_to_answer_is_never_repeated(server: AguiServer) -> None:
    grants(server, "one", "two")
    server.on("/", STARTED, *said("so far"), DROP)
    await run(server.url, oauth=oauth(server))
    assert len(server.to("/")) == 1


NONE = "the token server gave no token"
INVALID = "the token server sent an invalid response"


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        pytest.param(f"{NONE}: it had an internal error (HTTP 500)", (Answer(500, {}, b""),), id="is broken"),
        pytest.param(f"{NONE}: it answered with a redirect", (Answer(302, {"Location": "/"}, b""),), id="elsewhere"),
        pytest.param(INVALID, (answer_json({"token": "one"}),), id="gives none"),
        pytest.param(INVALID, (answer_json({"access_token": "one\r\nX-Evil: yes"}),), id="gives one that is a header"),
        pytest.param(INVALID, (answer_json({"access_token": ""}),), id="gives an empty one"),
        pytest.param(INVALID, (Answer(200, {}, b"<html>"),), id="shows a page"),
        pytest.param(f"{NONE}: it sent more than", (Answer(200, {}), Flood(b"x" * 65536, 3200)), id="never ends"),
        pytest.param(f"{NONE}: it broke off", (Answer(0), DROP), id="hangs up"),
    ],
)
async def test_a_token_service_that_gives_no_token(said: str, steps: Any, server: AguiServer) -> None:
    server.on(TOKEN, *steps)
    server.on("/", *answering("hi"))
    (broken,) = await run(server.url, oauth=oauth(server))
    assert isinstance(broken, Broken)
    assert broken.reason.startswith(said)
    assert not server.to("/")


@pytest.mark.parametrize("other", ["body", "basic"])
async def test_a_service_that_takes_credentials_in_one_place_only_gets_them_there(
    server: AguiServer, other: str
) -> None:
    if other == "body":
        server.next(TOKEN, *refusal(401, error="invalid_client", error_description="Client secret not provided"))
    grants(server, "one", "two", expires_in=1)
    server.on("/", *answering("hi"))
    async with reached(server.url, oauth=oauth(server)) as agent:
        for _ in range(2):
            assert (await _read(agent))[-1] == Finished()
    *_, first, second = server.to(TOKEN)
    for asked in (first, second):
        in_body = dict(parse_qsl(asked.body.decode()))
        assert ("authorization" in asked.headers) is (other == "basic")
        assert (in_body.get("client_secret") == SECRET) is (other == "body")
    assert len(server.to(TOKEN)) == (3 if other == "body" else 2), "what works is the first from then on"


@pytest.mark.parametrize("auth", ["basic", "body"])
async def test_credentials_are_sent_only_where_the_settings_say(server: AguiServer, auth: str) -> None:
    server.on(TOKEN, *refusal(401, error="invalid_client"))
    reason = "the token server answered invalid_client"
    assert await run(server.url, oauth=oauth(server, auth=auth)) == [Broken(reason=reason)]
    (asked,) = server.to(TOKEN)
    assert ("authorization" in asked.headers) is (auth == "basic")


async def test_credentials_in_the_header_are_encoded_as_a_form(server: AguiServer) -> None:
    grants(server, "one")
    server.on("/", *answering("hi"))
    credentials = ClientCredentials(token_url=server.url + TOKEN, client_id="a:b c", client_secret="ü%+/é")
    await run(server.url, oauth=credentials)
    assert server.to(TOKEN)[0].headers["authorization"] == basic("a%3Ab+c", "%C3%BC%25%2B%2F%C3%A9")


@pytest.mark.parametrize(
    ("answers", "said", "count"),
    [
        ([refusal(401, error="invalid_client")] * 2, "invalid_client", 2),
        (
            [refusal(401, error="invalid_client", error_description="Bad"), refusal(400, error="invalid_request")],
            "invalid_client: Bad; invalid_request",
            2,
        ),
        ([refusal(400, error="invalid_scope", error_description="None: a")], "invalid_scope: None: a", 1),
        ([refusal(200, error="incorrect_client_credentials")], "incorrect_client_credentials", 1),
        ([(Answer(401, {}), b"<html>")] * 2, "HTTP 401", 2),
        ([refusal(403, error={"code": 7})] * 2, "HTTP 403", 2),
        ([refusal(400, error="invalid_target", error_description=f"<!here> {SECRET}\n")], "invalid_target: !here …", 1),
        ([refusal(400, error="x" * 500)], "x" * 200, 1),
    ],
)  # fmt: skip
async def test_the_services_own_error_is_in_the_sentence(
    server: AguiServer, answers: list[tuple[Answer, bytes]], said: str, count: int
) -> None:
    for steps in answers:
        server.next(TOKEN, *steps)
    assert await run(server.url, oauth=oauth(server)) == [Broken(reason=f"the token server answered {said}")]
    assert len(server.to(TOKEN)) == count
    assert not server.to("/")


async def test_no_secret_is_ever_logged_or_shown(
    server: AguiServer, caplog: pytest.LogCaptureFixture, logged: Callable[[], str]
) -> None:
    caplog.set_level(logging.DEBUG)
    server.next(TOKEN, answer_json({"access_token": "very-secret-token", "expires_in": {"very-secret-token": 1}}))
    grants(server, "very-secret-token")
    server.on("/", Answer(500, {}, b"Authorization: Bearer very-secret-token"))
    settings: dict[str, Any] = {"oauth": oauth(server), "token": "very-secret-fixed", "headers": {"X": "very-secret-x"}}
    ends = [await run(server.url, **settings) for _ in range(2)]
    remote = RemoteAgent(name="a", url=server.url, dialect=CAIPE, **settings)
    assert "very-secret" not in f"{ends} {remote!r} {logged()} {caplog.text}"
    assert "agent_refused" in logged()


@pytest.fixture
def logged() -> Any:
    """All that was logged during the test."""
    with structlog.testing.capture_logs() as lines:
        yield lambda: str(lines)


async def _read(agent: Any) -> list[Any]:
    return [event async for event in agent.run(run_input())]
