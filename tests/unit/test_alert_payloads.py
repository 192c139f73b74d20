"""Alerts as monitoring systems post them: nothing that people see is lost, and nothing is said twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from swarm.domain.text.fingerprints import MOST_CHARACTERS, fingerprint, turned_resolved
from swarm.slack.incoming.fields import MAX_JSON_CHARACTERS
from tests.support.every import every
from tests.unit.test_message_text import BOT, PERSON, read

pytestmark = pytest.mark.req("CHAN-04", "CHAN-10")


def mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text}


ALERTMANAGER = {
    "username": "Alertmanager",
    "text": "",
    "attachments": [
        {
            "id": 1,
            "color": "a30200",
            "fallback": "[FIRING:1] HighCPU (db1 critical) | http://am.test/#/alerts",
            "title": "[FIRING:1] HighCPU (db1 critical)",
            "title_link": "http://am.test/#/alerts?receiver=slack",
            "text": "*Summary:* CPU of db1 is {{ 93% }}\n*Runbook:* <http://rb.test/cpu|here>",
            "fields": [
                {"title": "Severity", "value": "critical", "short": True},
                {"title": "Instance", "value": "10.0.0.5:9100", "short": True},
            ],
            "actions": [{"id": "1", "type": "button", "text": "Silence", "url": "http://am.test/#/silences/new"}],
            "footer": "prometheus",
            "ts": 1700000000,
            "mrkdwn_in": ["fallback", "pretext", "text"],
        }
    ],
}
PAGERDUTY = {
    "text": "*Triggered* <https://acme.pd.test/incidents/Q1|#4521: Disk full>",
    "attachments": [
        {
            "color": "#D63232",
            "fallback": "Triggered #4521: Disk full",
            "blocks": [
                {
                    "type": "section",
                    "text": mrkdwn(":red_circle: *<https://acme.pd.test/incidents/Q1|#4521: Disk full>*"),
                },
                {
                    "type": "section",
                    "fields": [
                        mrkdwn("*Assigned to*\n<@U2>"),
                        mrkdwn("*Service*\n<https://acme.pd.test/s/P1|payments>"),
                    ],
                },
                {"type": "context", "elements": [mrkdwn("*Urgency:* High"), mrkdwn("Escalation policy: night")]},
                {
                    "type": "actions",
                    "elements": [
                        {"type": "button", "text": {"type": "plain_text", "text": "Acknowledge"}, "action_id": "ack"},
                        {"type": "button", "text": {"type": "plain_text", "text": "Resolve"}, "action_id": "res"},
                    ],
                },
            ],
        }
    ],
}
GRAFANA = {
    "text": "",
    "attachments": [
        {
            "color": "#D63232",
            "title": "[Alerting] Queue length",
            "title_link": "https://graf.test/d/abc?from=1700000000000&to=1700000600000",
            "text": "Too many waiting",
            "fallback": "[Alerting] Queue length",
            "fields": [{"title": "queue", "value": "412.7", "short": True}],
            "image_url": "https://graf.test/render/abc.png",
            "footer": "Grafana v11",
            "footer_icon": "https://graf.test/icon.png",
            "ts": 1700000000,
        }
    ],
}
DATADOG = {
    "text": "",
    "attachments": [
        {
            "color": "#E63A2E",
            "fallback": "Triggered: [P1] Error rate is high on service:checkout",
            "title": "Triggered: [P1] Error rate is high",
            "title_link": "https://app.dd.test/monitors/123?group=service%3Acheckout",
            "author_name": "Datadog",
            "author_link": "https://app.dd.test/",
            "text": "More than 5% of requests fail\n@slack-alerts",
            "fields": [
                {"title": "Tags", "value": "env:prod, service:checkout"},
                {"title": "Notified", "value": "@pagerduty"},
                {"title": "Metric", "value": "`avg(last_5m):errors > 0.05`"},
            ],
            "thumb_url": "https://app.dd.test/snapshot.png",
        }
    ],
}

READ = {
    "alertmanager": (
        ALERTMANAGER,
        """\
[FIRING:1] HighCPU (db1 critical) <http://am.test/#/alerts?receiver=slack>
*Summary:* CPU of db1 is {{ 93% }}
*Runbook:* <http://rb.test/cpu|here>
Severity: critical
Instance: 10.0.0.5:9100
[button: Silence] <http://am.test/#/silences/new>
prometheus · 2023-11-14 22:13 UTC""",
    ),
    "pagerduty": (
        PAGERDUTY,
        """\
*Triggered* <https://acme.pd.test/incidents/Q1|#4521: Disk full>
:red_circle: *<https://acme.pd.test/incidents/Q1|#4521: Disk full>*
*Assigned to*
<@U2>
*Service*
<https://acme.pd.test/s/P1|payments>
*Urgency:* High
Escalation policy: night
[button: Acknowledge]
[button: Resolve]""",
    ),
    "grafana": (
        GRAFANA,
        """\
[Alerting] Queue length <https://graf.test/d/abc?from=1700000000000&to=1700000600000>
Too many waiting
queue: 412.7
[image: https://graf.test/render/abc.png]
Grafana v11 · 2023-11-14 22:13 UTC""",
    ),
    "datadog": (
        DATADOG,
        """\
Datadog <https://app.dd.test/>
Triggered: [P1] Error rate is high <https://app.dd.test/monitors/123?group=service%3Acheckout>
More than 5% of requests fail
@slack-alerts
Tags: env:prod, service:checkout
Notified: @pagerduty
Metric: `avg(last_5m):errors > 0.05`
[image: https://app.dd.test/snapshot.png]""",
    ),
}


@every(("payload", "text"), READ.values(), ids=READ)
def test_an_alert_is_read_whole_and_once(payload: dict[str, Any], text: str) -> None:
    assert read(BOT, **payload).text == text
    lines = Counter(text.splitlines())
    assert max(lines.values()) == 1


@every(("payload", "text"), READ.values(), ids=READ)
def test_an_alert_keeps_what_slack_sent_as_json(payload: dict[str, Any], text: str) -> None:
    message = read(BOT, **payload)
    assert orjson.loads(message.attachments) == payload["attachments"]
    assert message.blocks == ""


def test_json_is_bounded_without_invisible_characters_and_only_of_bots_root_messages() -> None:
    blocks = [{"type": "section", "text": mrkdwn("a\u200b\u202eb\U000e0041\x07\ud800")}]
    assert (
        read(BOT, text="x", blocks=blocks).blocks == '[{"type":"section","text":{"type":"mrkdwn","text":"ab\ufffd"}}]'
    )
    long = [{"type": "section", "text": mrkdwn("x" * 30_000)}]
    cut = read(BOT, text="x", blocks=long).blocks
    assert cut[MAX_JSON_CHARACTERS:].startswith("… [")
    assert cut.endswith(" more characters are left out]")
    assert read(BOT, text="x", blocks=long, thread_ts="1600000000.000100").blocks == ""
    assert read(PERSON, text="x", blocks=long).blocks == ""
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"elements": [deep]}
    assert read(BOT, text="x", blocks=[deep], attachments=[{"ts": 2**70}]).text == "x"


def test_a_fingerprint_is_of_a_bot_and_of_colours_and_needs_words() -> None:
    assert fingerprint("B1", "CPU") != fingerprint("B2", "CPU")
    assert fingerprint("B1", "CPU", '[{"color":"danger"}]') != fingerprint("B1", "CPU", '[{"color":"good"}]')
    assert fingerprint("B1", "12:30 93% 5m") is None
    assert fingerprint("B1", "CPU " * MOST_CHARACTERS) is None


def colour(name: str, **more: Any) -> str:
    return orjson.dumps([{"color": name, **more}]).decode()


@every(
    ("before", "after", "attachments", "is_resolved"),
    [
        ("[FIRING:1] CPU", "[RESOLVED] CPU", "", True),
        (None, "Recovered: CPU", "", True),
        ("CPU", "~CPU~ *Resolved* by bob", "", True),
        ("CPU", "<https://pd.test/Q1|Resolved #4521>: CPU", "", True),
        ("CPU", ":white_check_mark: Closed", "", True),
        ("CPU", "CPU\nAlert: Resolved", "", True),
        ("CPU", "[RESOLVED] CPU\nAlert: HighCPU\nProblem: CPU", "", True),
        ("CPU", "Status: Resolved by bob", "", True),
        ("CPU", "CPU\n*Status*\nResolved", "", True),
        ("CPU", "New State: ALARM -&gt; OK", "", True),
        ("CPU", "Priority: P1 | Status: Closed", "", True),
        ("Status: Closed", "Status: Closed, by bob", "", False),
        ("CPU", "CPU back to normal", "", False),
        ("CPU", "CPU is resolved", "", False),
        ("CPU", "Not resolved", "", False),
        ("CPU", "Status: not resolved", "", False),
        ("CPU", "STATE: NOT OK", "", False),
        ("CPU", "Resolved: no", "", False),
        ("CPU", "OK: 12, critical: 2", "", False),
        ("CPU", "Resolved?", "", False),
        ("CPU", "Closed connections pile up", "", False),
        ("CPU", "[FIRING:1, RESOLVED:2] CPU", "", False),
        ("CPU", "[FIRING] db1\n[RESOLVED] db2", "", False),
        ("CPU", "Status: firing\nResolved by hand last time", "", False),
        ("CPU", "Comment: ok, I look", "", False),
        ("CPU", "CPU", '[{"color":"good"},{"color":"danger"}]', False),
        ("PROBLEM", "OK: CPU", "", True),
        ("CPU", ":large_green_circle: CPU", "", True),
        ("CPU", "CPU", colour("good"), True),
        ("CPU", "CPU", colour("#36a64f"), True),
        ("CPU", "CPU", colour("3a5"), True),
        ("CPU", "CPU", colour("danger"), False),
        ("CPU", "CPU", colour("daa038"), False),
        ("CPU", "CPU", colour("439fe0"), False),
        ("CPU", "CPU", colour("808080"), False),
        ("CPU", "CPU", colour("36a64f", from_url="https://g.test"), False),
        ("CPU", "CPU", '[{"color":"good', False),
        ("CPU", "CPU", '{"color":"good"}', False),
        ("CPU", "CPU", '["good", 1]', False),
        ("0 resolved, 2 firing", "1 resolved, 1 firing", "", False),
        ("Unresolved", "Unresolved, ok_hand, token, disclosed", "", False),
        ("Triggered", "Acknowledged by bob", "", False),
        ("CPU", "CPU " + "x " * 10_000 + "resolved", "", False),
    ],
)
def test_an_edit_that_says_that_an_alert_is_over(
    before: str | None, after: str, attachments: str, is_resolved: bool
) -> None:
    assert turned_resolved(before, after, attachments) is is_resolved
