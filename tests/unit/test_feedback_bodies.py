"""What other services get of feedback, held to the types of Langfuse's own SDK and to what CAIPE's bot sends."""

from __future__ import annotations

from dataclasses import replace

import httpx
import orjson
import pytest
from langfuse.api.client import LangfuseAPI
from langfuse.api.core.pydantic_utilities import parse_obj_as
from langfuse.api.scores.types.create_score_request import CreateScoreRequest

from swarm.domain.model.feedback import (
    FeedbackView,
    Opinion,
    Reason,
    caipe_body,
    langfuse_body,
    webhook_body,
)
from swarm.domain.policy.access import Me
from tests.support.every import every

pytestmark = pytest.mark.req("CHAN-05")

LINK = "https://team.slack.example/archives/C1/p1700000009000100?thread_ts=1700000000.000100&cid=C1"
GOOD = FeedbackView(
    id="01a20c2e-357b-727f-af82-233b31d2df70",
    answer_id="run",
    run_id="run",
    trace_id="0af7651916cd43dd8448eb211c80319c",
    conversation_id="4a5f1c6e-8b1d-5d2c-9b0a-6f1f5f0f7c11",
    agent="docs",
    team="T1",
    channel="C1",
    thread_ts="1700000000.000100",
    message_ts="1700000009.000100",
    user_id="U1",
    value=Opinion.UP,
    reason=None,
    comment=None,
    created_at=1_700_000_010_500_000,
)
BAD = replace(GOOD, value=Opinion.DOWN)
WORDED = replace(BAD, reason=Reason.OTHER, comment="It is 43.")
WITHOUT_RUN = replace(GOOD, run_id=None, trace_id=None)


@every("given", [GOOD, BAD, replace(BAD, reason=Reason.BRIEFER), WORDED, WITHOUT_RUN])
def test_a_score_is_what_langfuses_own_sdk_would_send(given: FeedbackView) -> None:
    """The SDK sends a list, and the server also takes the single score that older servers expect."""
    body = langfuse_body(given)
    typed = parse_obj_as(CreateScoreRequest, body)
    assert typed.model_extra == {}, "the SDK knows every field"
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(202, json={"message": "Accepted"})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    api = LangfuseAPI(base_url="http://langfuse.test", username="pk", password="sk", httpx_client=http)
    api.scores.create(request=[typed])
    assert (sent[0].url.path, sent[0].method) == ("/api/public/scores", "POST")
    assert [_without_nones(one) for one in orjson.loads(sent[0].content)] == [_without_nones(body)]


def _without_nones(body: object) -> object:
    """Absent and null mean the same to Langfuse."""
    return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body


def test_a_score_says_what_is_rated_and_why() -> None:
    body = langfuse_body(WORDED)
    assert (body["id"], body["traceId"], body["value"]) == (GOOD.id, GOOD.trace_id, 0)
    assert (body["name"], body["dataType"], body["comment"]) == ("user-feedback", "BOOLEAN", "other: It is 43.")
    assert langfuse_body(GOOD)["value"] == 1
    about = langfuse_body(WITHOUT_RUN)
    assert ("traceId" in about, about["sessionId"]) == (False, GOOD.conversation_id)


@every(
    ("given", "kind", "value"),
    [
        (GOOD, "like", "thumbs_up"),
        (BAD, "dislike", "thumbs_down"),
        (replace(BAD, reason=Reason.MORE_DETAIL), "dislike", "needs_detail"),
        (replace(BAD, reason=Reason.BRIEFER), "dislike", "too_verbose"),
        (replace(BAD, reason=Reason.WRONG_ANSWER), "dislike", "wrong_answer"),
        (WORDED, "dislike", "other"),
    ],
)
def test_caipe_gets_the_values_that_it_knows(given: FeedbackView, kind: str, value: str) -> None:
    body = caipe_body(given, LINK)
    assert (body["feedbackType"], body["value"]) == (kind, value)
    assert body.get("reason") == given.comment


def test_caipe_gets_what_its_own_bot_sends() -> None:
    assert caipe_body(GOOD, LINK) == {
        "traceId": GOOD.trace_id,
        "messageId": GOOD.message_ts,
        "feedbackType": "like",
        "value": "thumbs_up",
        "conversationId": GOOD.conversation_id,
        "source": "slack",
        "channelId": "C1",
        "threadTs": GOOD.thread_ts,
        "slackPermalink": LINK,
        "userId": "U1",
    }
    assert "traceId" not in caipe_body(WITHOUT_RUN, LINK)


def test_the_operators_own_service_gets_everything() -> None:
    body = webhook_body(WORDED, LINK)
    assert body == {
        "type": "feedback",
        "id": GOOD.id,
        "value": "down",
        "reason": "other",
        "comment": "It is 43.",
        "user_id": "U1",
        "agent": "docs",
        "run_id": "run",
        "trace_id": GOOD.trace_id,
        "conversation_id": GOOD.conversation_id,
        "team": "T1",
        "channel": "C1",
        "thread_ts": GOOD.thread_ts,
        "message_ts": GOOD.message_ts,
        "permalink": LINK,
        "created_at": "2023-11-14T22:13:30.500000Z",
    }


def test_the_link_of_a_reply_leads_to_the_reply() -> None:
    me = Me(team="T1", user_id="U", bot_id="B", url="https://team.slack.example/")
    assert me.link("C1", GOOD.message_ts, GOOD.thread_ts) == LINK
    assert me.link("C1", GOOD.thread_ts, GOOD.thread_ts) == "https://team.slack.example/archives/C1/p1700000000000100"
