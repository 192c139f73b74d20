"""What a message says: text, blocks and attachments, each thing once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.access import Me
from swarm.slack.incoming.message_text import MAX_ADDED_CHARACTERS
from swarm.slack.incoming.payloads import history_message

pytestmark = pytest.mark.req("LOOP-02", "CHAN-10")

SAMPLES = Path(__file__).parents[2] / "packages" / "slack_twin" / "tests" / "samples" / "slack"
ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")
BOT = {"bot_id": "B1", "subtype": "bot_message"}
PERSON = {"user": "U1"}


def read(author: dict[str, Any], **content: Any) -> SlackMessage:
    found = history_message("C1", {"type": "message", "ts": "1700000000.000100", **author, **content}, ME)
    assert found is not None
    return found


ALERT = {
    "pretext": "New alert",
    "title": "Disk full",
    "title_link": "https://alerts.test/7",
    "text": "db-1 has 2 % left",
    "fields": [{"title": "Severity", "value": "critical", "short": True}, {"value": "no title"}],
    "actions": [{"type": "button", "text": "Acknowledge", "url": "https://alerts.test/7/ack"}],
    "footer": "Monitoring",
    "ts": 1700000000,
    "fallback": "Disk full: db-1",
}
ALERT_TEXT = """\
New alert
Disk full <https://alerts.test/7>
db-1 has 2 % left
Severity: critical
no title
[button: Acknowledge] <https://alerts.test/7/ack>
Monitoring · 2023-11-14 22:13 UTC"""


def test_a_bots_attachments_are_read_below_its_text_with_their_fields() -> None:
    assert read(BOT, text="Attention", attachments=[ALERT]).text == f"Attention\n{ALERT_TEXT}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Disk full", ALERT_TEXT),  # a part
        ("*New alert* Disk full <https://alerts.test/7> db-1 ha…", ALERT_TEXT),  # the beginning
        ("New alert: db-1 has 2 % left", None),  # says one line of it, and something else
    ],
)
def test_what_the_text_says_already_is_not_said_twice(text: str, expected: str | None) -> None:
    expected = expected or "\n".join(
        [text, *(line for line in ALERT_TEXT.splitlines() if "2 %" not in line and "New" not in line)]
    )
    assert read(BOT, text=text, attachments=[ALERT]).text == expected


def test_a_short_value_is_not_taken_for_said_because_its_letters_occur_in_the_text() -> None:
    field = {"title": "", "value": "3"}
    assert read(BOT, text="Alert 13", attachments=[{"fields": [field]}]).text == "Alert 13\n3"


def test_our_own_posts_are_read_without_their_buttons_and_footers() -> None:
    footer = {"type": "context", "elements": [{"type": "mrkdwn", "text": "lead · for Alice"}]}
    assert read({"user": "UBOT", "bot_id": "BBOT"}, text="42", blocks=[footer]).text == "42"


def test_what_is_added_to_a_text_is_bounded_and_says_so() -> None:
    long = {"text": "x" * 30_000}
    text = read(BOT, text="Log", attachments=[long, long]).text
    assert len(text) < MAX_ADDED_CHARACTERS + 100
    assert text.endswith("[20001 more characters of blocks and attachments are left out]")


UNSEEN = {"confirm", "options", "description", "preview", "list", "metadata"}
"""What Slack shows after a click only, in a preview, or never."""


def numbered(value: Any, words: list[str], key: str = "", *, within: str = "") -> Any:
    """The same with a word of its own in each blank text that is seen, noted in ``words``."""
    if isinstance(value, list):
        return [numbered(element, words, key, within=within) for element in value]
    if isinstance(value, dict):
        return {name: numbered(field, words, name, within=key) for name, field in value.items() if name not in UNSEEN}
    is_seen = key in {"text", "pretext", "title", "footer", "alt_text"} or (key, within) == ("value", "fields")
    if value == "" and is_seen:
        words.append(f"word{len(words)}")
        return words[-1]
    return value


def test_a_recorded_bots_message_loses_nothing_that_is_seen() -> None:
    event = json.loads((SAMPLES / "MessageBotPayload.json").read_text())["event"]
    words: list[str] = []
    shown = {key: numbered(event[key], words) for key in ("blocks", "attachments")}
    told = re.findall(r"word\d+", read(BOT, text="Recorded", **shown).text)
    assert len(words) > 20
    assert sorted(set(words) - set(told)) == []
