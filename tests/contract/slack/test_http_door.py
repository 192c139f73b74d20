"""The door over HTTP: what is signed by Slack is handled, what is not is refused, and nothing makes it fail."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import urlencode

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from swarm.domain.model.threads import MessageDeleted, SlackEvent, SlackMessage
from swarm.domain.policy.access import Me
from swarm.entrypoints.slack.slack_events import MAX_BODY_BYTES, SlackEntryPoint
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing

pytestmark = pytest.mark.req("OPS-02")

SECRET = "shhh"
ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")


class KnownGateway(Gateway):
    """A gateway that knows who it is; nothing else is asked of it here."""

    def __init__(self) -> None:
        super().__init__("xoxb-1", base_url="http://127.0.0.1:9/api/", pacing=Pacing())

    async def identify(self) -> Me:
        return ME


class Door:
    """The route in an application, and Slack on the other side."""

    def __init__(self) -> None:
        self.events: list[SlackEvent] = []
        self.problem: Exception | None = None
        self.gateway = KnownGateway()
        self.door = SlackEntryPoint(self.gateway, self._handle, signing_secret=SECRET)
        transport = httpx2.ASGITransport(app=Starlette(routes=self.door.routes()))
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://test")

    async def _handle(self, event: SlackEvent) -> None:
        if self.problem:
            raise self.problem
        self.events.append(event)

    async def send(
        self, body: bytes, headers: dict[str, str | bytes] | None = None, *, kind: str = "application/json"
    ) -> httpx2.Response:
        """Post a body, signed unless the headers say otherwise."""
        raw = {**signed(body), "content-type": kind, **(headers or {})}
        pairs = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in raw.items()]
        return await self.client.post("/slack/events", content=body, headers=pairs)

    async def event(self, **event: Any) -> httpx2.Response:
        return await self.send(json.dumps(envelope(**event)).encode())


def signed(body: bytes, *, at: float | None = None, secret: str = SECRET) -> dict[str, str | bytes]:
    timestamp = str(int(at if at is not None else time.time()))
    digest = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": timestamp, "x-slack-signature": f"v0={digest}"}


def envelope(**event: Any) -> dict[str, Any]:
    base = {"type": "message", "channel": "C1", "user": "U1", "text": "hello", "ts": "1700000000.000100"}
    return {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": {**base, **event}}


@pytest.fixture
async def slack() -> AsyncIterator[Door]:
    door = Door()
    yield door
    await door.client.aclose()
    await door.door.close()


@pytest.mark.req("LOOP-01")
async def test_a_signed_event_is_handled(slack: Door) -> None:
    answer = await slack.event()
    assert answer.status_code == 200
    [event] = slack.events
    assert isinstance(event, SlackMessage)
    assert event.text == "hello"


async def test_slack_can_verify_the_address(slack: Door) -> None:
    answer = await slack.send(json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode())
    assert (answer.status_code, answer.json()) == (200, {"challenge": "3eZbrw1a"})


@pytest.mark.req("LOOP-01")
async def test_an_event_that_could_not_be_stored_is_not_acknowledged(slack: Door) -> None:
    slack.problem = RuntimeError("the disk is full")
    assert (await slack.event()).status_code == 500
    slack.problem = None
    assert (await slack.event()).status_code == 200


async def test_a_redelivery_is_handled_like_a_first_delivery(slack: Door) -> None:
    body = json.dumps(envelope()).encode()
    again = {"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"}
    assert (await slack.send(body, {**signed(body), **again})).status_code == 200
    assert len(slack.events) == 1


async def test_new_posts_of_our_own_are_passed_over_and_their_deletion_is_not(slack: Door) -> None:
    ours = {"user": "UBOT", "bot_id": "BBOT"}
    assert (await slack.event(**ours)).status_code == 200
    assert slack.events == []
    await slack.event(subtype="message_deleted", deleted_ts="1700000000.000100", previous_message=ours)
    assert [type(event) for event in slack.events] == [MessageDeleted]


@pytest.mark.parametrize(
    "payload",
    [
        envelope(type="reaction_added"),
        envelope(type="app_home_opened"),
        {"type": "app_rate_limited", "team_id": "T1"},
        {"type": "something_new"},
    ],
)
async def test_what_nobody_listens_to_is_acknowledged(slack: Door, payload: dict[str, Any]) -> None:
    answer = await slack.send(json.dumps(payload).encode())
    assert answer.status_code == 200
    assert slack.events == []


@pytest.mark.parametrize(
    "form",
    [
        {"payload": json.dumps({"type": "block_actions", "actions": [], "user": {"id": "U1"}, "team": {"id": "T1"}})},
        {"payload": json.dumps({"type": "view_submission", "view": {}, "user": {"id": "U1"}})},
        {"ssl_check": "1", "token": "x"},
    ],
)
async def test_clicks_are_acknowledged(slack: Door, form: dict[str, str]) -> None:
    answer = await slack.send(urlencode(form).encode(), kind="application/x-www-form-urlencoded")
    assert answer.status_code == 200


BODY = json.dumps(envelope()).encode()


UNSIGNED: Final[Mapping[str, Mapping[str, str | bytes]]] = {
    "a wrong signature": {"x-slack-signature": "v0=" + "0" * 64},
    "none": {"x-slack-signature": ""},
    "no ASCII": {"x-slack-signature": "v0=ünsigned".encode()},
    "no ASCII of the right length": {"x-slack-signature": ("v0=" + "é" * 64).encode("latin-1")},
    "no number": {"x-slack-request-timestamp": "soon"},
    "a fraction": {"x-slack-request-timestamp": "1700000000.5"},
    "too long": {"x-slack-request-timestamp": "9" * 5000},
    "no time": {"x-slack-request-timestamp": ""},
    "a time before all others": {"x-slack-request-timestamp": "-1"},
    "other digits": {"x-slack-request-timestamp": "١٧٠٠٠٠٠٠٠٠".encode()},
    "too old": signed(BODY, at=time.time() - 100_000),
    "too new": signed(BODY, at=time.time() + 100_000),
    "another secret": signed(BODY, secret="guess"),
    "another body": signed(BODY + b" "),
}


async def test_what_slack_did_not_sign_is_refused(slack: Door, subtests: pytest.Subtests) -> None:
    for what, headers in UNSIGNED.items():
        with subtests.test(what):
            answer = await slack.send(BODY, {**headers})
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "unauthorized"
            assert slack.events == []


async def test_a_signature_is_as_old_as_slack_says_whatever_our_own_clock_shows(slack: Door) -> None:
    slacks = time.time() + 3600
    slack.gateway.clock.note(formatdate(slacks, usegmt=True))
    assert (await slack.send(BODY, signed(BODY, at=slacks))).status_code == 200
    assert (await slack.send(BODY, signed(BODY))).status_code == 401
    slack.gateway.clock.note("no date")
    assert (await slack.send(BODY, signed(BODY))).status_code == 200


async def test_a_request_without_a_signature_is_refused(slack: Door) -> None:
    answer = await slack.client.post("/slack/events", content=BODY)
    assert answer.status_code == 401


NOT_SLACKS: Final = (
    b'{"text": "\xff"}',
    b"{",
    b"[1, 2]",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'"text"',
    b"null",
    b"17",
    json.dumps({**envelope(), "event": 5}).encode(),
    json.dumps({**envelope(), "event": None}).encode(),
    json.dumps({**envelope(), "event": "message"}).encode(),
    json.dumps({**envelope(), "authorizations": 5}).encode(),
    json.dumps({**envelope(), "authorizations": ["x"]}).encode(),
    json.dumps({**envelope(), "enterprise": 5}).encode(),
    json.dumps(envelope(user=5)).encode(),
    json.dumps({"response_urls": 7}).encode(),
    b"",
    json.dumps({**envelope(), "event": {"type": "message"}}).encode(),
    json.dumps(envelope(ts="x")).encode(),
    json.dumps(envelope(subtype="message_changed", message=None)).encode(),
    b"{}",
)


async def test_a_body_that_is_not_slacks_is_a_bad_request(slack: Door, subtests: pytest.Subtests) -> None:
    for body in NOT_SLACKS:
        with subtests.test(body=body[:60]):
            answer = await slack.send(body)
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "bad_request"


async def test_a_form_whose_payload_is_no_json_is_a_bad_request(slack: Door) -> None:
    answer = await slack.send(b"payload=%7B", kind="application/x-www-form-urlencoded")
    assert answer.status_code == 400


async def test_a_body_over_the_limit_is_too_large_and_one_at_the_limit_is_not(slack: Door) -> None:
    padding = MAX_BODY_BYTES - len(json.dumps(envelope(text="")))
    assert (await slack.event(text="x" * padding)).status_code == 200
    answer = await slack.event(text="x" * (padding + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_a_lone_surrogate_and_a_nul_are_mended(slack: Door) -> None:
    assert (await slack.event(text="a\ud800b\0c")).status_code == 200
    [event] = slack.events
    assert isinstance(event, SlackMessage)
    assert event.text == "a\ufffdbc"


async def test_other_methods_are_not_allowed(slack: Door) -> None:
    assert (await slack.client.get("/slack/events")).status_code == 405


async def test_without_a_secret_there_is_no_route() -> None:
    async def handle(event: SlackEvent) -> None: ...

    assert SlackEntryPoint(KnownGateway(), handle, app_token="xapp-1").routes() == []


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from(
    ["type", "event", "team_id", "team", "user", "view", "authorizations", "enterprise", "channel", "payload",
     "is_ext_shared_channel", "response_url", "response_urls", "message", "item", "thread_ts", "actions", "ssl_check"]
)  # fmt: skip
TYPES = st.sampled_from(["event_callback", "block_actions", "view_submission", "shortcut", "url_verification"])


def test_no_signed_payload_makes_the_door_fail() -> None:
    async def make() -> Door:
        return Door()

    @given(kind=TYPES, changes=st.dictionaries(KEYS, ANY_JSON), event=st.dictionaries(KEYS, ANY_JSON))
    def holds(kind: str, changes: dict[str, Any], event: dict[str, Any]) -> None:
        body = {"type": kind, "event": event, **changes}
        assert runner.run(slack.send(json.dumps(body).encode())).status_code < 500

    with asyncio.Runner() as runner:  # one door for all of them: to make one takes longer than what it is asked
        slack = runner.run(make())
        holds()
        runner.run(slack.client.aclose())
