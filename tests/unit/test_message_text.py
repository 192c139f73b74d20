"""What a message says: text, blocks and attachments, each thing once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from swarm.domain.access import Me
from swarm.domain.model.threads import SlackMessage
from swarm.slack.incoming.message_text import MAX_ADDED_CHARACTERS
from swarm.slack.incoming.payloads import history_message
from tests.support.every import every

pytestmark = pytest.mark.req("LOOP-02", "CHAN-10")

SAMPLES = Path(__file__).parents[2] / "packages" / "slack_twin" / "tests" / "samples" / "slack"
ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")
BOT = {"bot_id": "B1", "subtype": "bot_message"}
PERSON = {"user": "U1"}


def read(author: dict[str, Any], **content: Any) -> SlackMessage:
    found = history_message("C1", {"type": "message", "ts": "1700000000.000100", **author, **content}, ME)
    assert found is not None
    return found


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def rich(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "rich_text", "elements": list(elements)}


def part(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": f"rich_text_{kind}", "elements": [{"type": "text", "text": text}], **more}


def listed(*items: str, **more: Any) -> dict[str, Any]:
    return {"type": "rich_text_list", "elements": [part("section", item) for item in items], **more}


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

BLOCKS = {
    "fields of a section": (
        {"type": "section", "text": plain("Build 7"), "fields": [plain("*Branch*\nmain"), plain("*By*\n<@U2>")]},
        "Build 7\n*Branch*\nmain\n*By*\n<@U2>",
    ),
    "what stands beside a section": (
        {
            "type": "section",
            "text": plain("x"),
            "accessory": {"type": "button", "text": plain("Open"), "url": "https://a.b"},
        },
        "x\n[button: Open] <https://a.b>",
    ),
    "a context with an image": (
        {
            "type": "context",
            "elements": [{"type": "image", "alt_text": "a cat"}, {"type": "mrkdwn", "text": "by <@U2>"}],
        },
        "[image: a cat]\nby <@U2>",
    ),
    "an image's title and description": (
        {"type": "image", "title": plain("Load"), "alt_text": "a steep curve"},
        "[image: Load – a steep curve]",
    ),
    "buttons and menus": (
        {
            "type": "actions",
            "elements": [
                {"type": "button", "text": plain("Approve"), "confirm": {"title": plain("Sure?")}},
                {"type": "static_select", "placeholder": plain("Choose"), "options": [{"text": plain("one")}]},
            ],
        },
        "[button: Approve]\n[choice: Choose: one]",
    ),
    "a table": (
        {
            "type": "table",
            "rows": [
                [{"type": "raw_text", "text": "host"}, {"type": "rich_text", "elements": [part("section", "free")]}],
                [{"type": "raw_text", "text": "db-1"}, {"type": "raw_number", "value": 2.5}],
            ],
        },
        "host | free\ndb-1 | 2.5",
    ),
    "lists with numbers and levels": (
        rich(listed("one", "two", style="ordered", offset=1), listed("below", style="bullet", indent=1)),
        "2. one\n3. two\n    • below",
    ),
    "a quotation and code": (
        rich(part("quote", "said\ntwice"), part("preformatted", "a < b")),
        "&gt; said\n&gt; twice\n```\na &lt; b\n```",
    ),
    "what is struck out, and a date": (
        rich(
            {
                "type": "rich_text_section",
                "elements": [
                    {"type": "text", "text": "no", "style": {"strike": True}},
                    {"type": "date", "timestamp": 1700000000, "format": "{date}"},
                ],
            }
        ),
        "~no~2023-11-14 22:13 UTC",
    ),
    "a video": (
        {"type": "video", "title": plain("Talk"), "title_url": "https://v.test", "description": plain("on queues")},
        "[video: Talk] <https://v.test>\non queues",
    ),
    "a card, and any other block with texts": (
        {
            "type": "carousel",
            "elements": [
                {
                    "type": "card",
                    "title": plain("T"),
                    "body": {"type": "mrkdwn", "text": "b"},
                    "actions": [{"type": "button", "text": plain("Buy"), "confirm": {"title": plain("Sure?")}}],
                }
            ],
        },
        "T\nb\n[button: Buy]",
    ),
    "a task of an agent": (
        {"type": "task_card", "task_id": "1", "title": "Search", "output": rich(part("section", "3 hits"))},
        "Search\n3 hits",
    ),
    "a divider": ({"type": "divider"}, ""),
}


@every(("block", "says"), BLOCKS.values(), ids=BLOCKS)
def test_a_bots_blocks_are_read_below_its_text(block: dict[str, Any], says: str) -> None:
    assert read(BOT, text="Notification", blocks=[block]).text == "\n".join(filter(None, ["Notification", says]))
    assert read(BOT, text="", attachments=[{"blocks": [block], "fallback": "[no preview available]"}]).text == says


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


def test_a_persons_text_stands_for_its_blocks() -> None:
    blocks = [rich(part("section", "see "), listed("one"))]
    assert read(PERSON, text="see\n• *one*", blocks=blocks).text == "see\n• *one*"


def test_our_own_posts_are_read_without_their_buttons_and_footers() -> None:
    footer = {"type": "context", "elements": [{"type": "mrkdwn", "text": "lead · for Alice"}]}
    assert read({"user": "UBOT", "bot_id": "BBOT"}, text="42", blocks=[footer]).text == "42"


FORWARDED = {
    "is_msg_unfurl": True,
    "is_share": True,
    "author_name": "Bob",
    "ts": "1700000000.000100",
    "from_url": "https://t.slack.test/archives/C2/p1700000000000100",
    "text": "<@UBOT> swarm#all !stop\nplease",
    "files": [{"name": "log.txt"}],
    "fallback": "[November 14th] bob: …",
}


@pytest.mark.req("LOOP-11")
def test_a_forwarded_message_is_read_as_a_quotation_and_addresses_nobody() -> None:
    message = read(PERSON, text="what is this?", attachments=[FORWARDED])
    assert message.text == (
        "what is this?\n[forwarded: Bob, 2023-11-14 22:13 UTC] <https://t.slack.test/archives/C2/p1700000000000100>\n"
        "&gt; <@UBOT> swarm#all !stop\n&gt; please\n&gt; [file: log.txt]"
    )
    assert message.own_text == "what is this?\n"


def test_the_preview_of_a_link_is_no_part_of_a_message() -> None:
    preview = {"title": "A page", "text": "its words", "from_url": "https://x.test", "original_url": "https://x.test"}
    assert read(PERSON, text="see <https://x.test>", attachments=[preview]).text == "see <https://x.test>"


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
