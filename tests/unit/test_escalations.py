"""The texts of an escalation, and the bodies for paging services."""

from __future__ import annotations

import orjson
import pytest

from swarm.domain.model.threads import ChannelType, ContextState, Thread
from swarm.domain.policy.channels import EscalationPolicy, WebhookFormat
from swarm.domain.policy.escalations import (
    MAX_SUMMARY_CHARACTERS,
    EscalationAsker,
    EscalationCall,
    EscalationDoor,
    call_text,
    cleaned_reason,
    email_in,
    user_id_in,
    webhook_body,
)
from tests.support.every import every

pytestmark = pytest.mark.req("CHAN-07")

THREAD = Thread(
    id="t", team="T1", channel="C1", thread_ts="1700000000.000100", channel_type=ChannelType.CHANNEL, owner_id=None,
    epoch=0, context=ContextState.COMPLETE, queued_notice_at=None, watermark_ts="0",
)  # fmt: skip
AGENT = EscalationAsker(door=EscalationDoor.TOOL, agent_id="a", name="lea", channel_name="support")


@every(
    ("answer", "email"),
    {
        "plain": ("bob@example.org", "bob@example.org"),
        "the last one": ("not ann@example.org, but bob.b+x@mail.example.co.uk.", "bob.b+x@mail.example.co.uk"),
        "Slack's link": ("<mailto:bob@example.org|bob@example.org>", "bob@example.org"),
        "none": ("ask @bob, at 10:00", None),
        "no domain": ("bob@localhost", None),
    }.values(),
)
def test_the_last_e_mail_address_of_an_answer_counts(answer: str, email: str | None) -> None:
    assert email_in(answer) == email


@every(
    ("answer", "user_id"),
    {
        "plain": ("U0123ABCD", "U0123ABCD"),
        "a mention": ("first <@U1>, now <@W0123ABCD|bob>", "W0123ABCD"),
        "words": ("UNKNOWN. WHOEVER IS UP. USERS", None),
        "part of a word": ("xU0123ABCD U0123ABCDx@y", None),
    }.values(),
)
def test_the_last_user_id_of_an_answer_counts(answer: str, user_id: str | None) -> None:
    assert user_id_in(answer) == user_id


def test_without_mentions_the_post_is_a_sentence_as_well() -> None:
    emoji_only = EscalationPolicy(emoji="sos")
    assert call_text(emoji_only, AGENT, "") == "The agent lea needs a human here."
    assert call_text(emoji_only, AGENT, "really?") == "The agent lea needs a human here: really?"


@pytest.mark.parametrize("format", WebhookFormat)
def test_bodies_stay_within_the_services_limits(format: WebhookFormat) -> None:
    reason = cleaned_reason("\U0001f525 “fire” " * 10_000)
    call = EscalationCall(
        escalation_id="e", at=1_700_000_000_000_000, thread=THREAD, asker=AGENT, reason=reason,
        workspace_url="https://team.slack.example/",
    )  # fmt: skip
    body = webhook_body(call, format)
    assert len(orjson.dumps(body)) < 10_000
    payload = body["payload"] if format is WebhookFormat.PAGERDUTY else body
    assert isinstance(payload, dict)
    summary = payload["entity_display_name" if format is WebhookFormat.VICTOROPS else "summary"]
    assert str(summary).startswith("lea asks for help in #support: ")
    assert len(str(summary)) <= MAX_SUMMARY_CHARACTERS
    assert "https://team.slack.example/archives/C1/p1700000000000100" in str(body)
