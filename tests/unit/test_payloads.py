"""What Slack sends becomes events and messages, and nothing that it sends can break us."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.domain.errors import BadRequest
from swarm.domain.model.deliveries import METADATA_EVENT_TYPE
from swarm.domain.model.threads import AuthorKind, ChannelType, MessageDeleted, MessageEdited, SlackEvent, SlackMessage
from swarm.domain.policy.access import Me
from swarm.slack.incoming.payloads import history_message, slack_event
from tests.support.every import every

SAMPLES = Path(__file__).parents[2] / "packages" / "slack_twin" / "tests" / "samples" / "slack"
ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")

FILLED_IN = {
    "channel": "C024BE91L",
    "ts": "1700000001.000100",
    "deleted_ts": "1700000001.000100",
    "thread_ts": "1700000000.000100",
    "user": "U061F7AUR",
    "bot_id": "B08MFMKH6",
    "event_id": "Ev08MFMKH6",
    "type": "event_callback",
    "channel_type": "channel",
}
NAMES_OF_SAMPLES = [
    "AppMention",
    "Message",
    "MessageBot",
    "MessageChannelJoin",
    "MessageFileShare",
    "MessageMe",
    "MessageThreadBroadcast",
]


def sample(name: str) -> dict[str, Any]:
    """A recorded payload, whose values are blank, with the ids and timestamps that Slack would send."""
    body: dict[str, Any] = filled(json.loads((SAMPLES / f"{name}Payload.json").read_text()))
    return body


def filled(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list):
        return [filled(element, depth + 1) for element in value]
    if not isinstance(value, dict):
        return value
    blanks = {key: text for key, text in FILLED_IN.items() if value.get(key) == ""}
    return {key: filled(element, depth + 1) for key, element in value.items()} | blanks


def envelope(**event: Any) -> dict[str, Any]:
    base = {"type": "message", "channel": "C1", "user": "U1", "text": "hello", "ts": "1700000000.000100"}
    return {
        "type": "event_callback",
        "event_id": "Ev1",
        "event": {key: value for key, value in {**base, **event}.items() if value is not None},
    }


def message(**event: Any) -> SlackMessage:
    found = slack_event(envelope(**event), ME)
    assert isinstance(found, SlackMessage)
    return found


@every("name", NAMES_OF_SAMPLES)
def test_every_recorded_kind_of_message_is_understood(name: str) -> None:
    found = slack_event(sample(name), ME)
    assert isinstance(found, SlackMessage)
    assert (found.channel, found.ts, found.event_id) == ("C024BE91L", "1700000001.000100", "Ev08MFMKH6")


def test_a_recorded_edit_is_an_edit_with_the_text_before_it() -> None:
    body = sample("MessageChanged")
    body["event"]["message"] |= {"text": "new", "subtype": None}
    body["event"]["previous_message"]["text"] = "old"
    found = slack_event(body, ME)
    assert isinstance(found, MessageEdited)
    assert (found.message.text, found.previous_text, found.message.channel) == ("new", "old", "C024BE91L")


def test_a_recorded_delete_names_the_message_and_its_thread() -> None:
    body = sample("MessageDeleted")
    body["event"]["previous_message"]["thread_ts"] = "1700000000.000100"
    assert slack_event(body, ME) == MessageDeleted(
        channel="C024BE91L", ts="1700000001.000100", thread_ts="1700000000.000100", event_id="Ev08MFMKH6"
    )


def test_news_that_a_message_was_replied_to_says_nothing_new() -> None:
    with capture_logs() as logs:
        assert slack_event(sample("MessageReplied"), ME) is None
    assert logs == []


@every(
    ("told", "channel", "expected"),
    [
        ("im", "D1", ChannelType.DM),
        ("app_home", "D1", ChannelType.DM),
        ("mpim", "G1", ChannelType.GROUP),
        ("channel", "C1", ChannelType.CHANNEL),
        ("group", "G1", ChannelType.CHANNEL),
        (None, "D1", ChannelType.DM),
        (None, "C1", ChannelType.CHANNEL),
    ],
)
def test_the_channel_type_is_told_or_seen_from_the_id(told: str | None, channel: str, expected: ChannelType) -> None:
    assert message(channel=channel, channel_type=told).channel_type is expected


@pytest.mark.req("LOOP-01")
def test_a_mention_and_the_message_it_stands_in_are_the_same_message() -> None:
    as_message, as_mention = message(channel_type="channel"), message(type="app_mention")
    assert as_message == as_mention


def test_a_root_that_has_replies_is_still_outside_its_thread() -> None:
    assert message(thread_ts="1700000000.000100").thread_ts is None
    assert message(thread_ts="1600000000.000100").thread_ts == "1600000000.000100"


def test_a_person_a_bot_with_a_user_and_a_bare_bot_are_told_apart() -> None:
    person = message().author
    bot = message(bot_id="B1", bot_profile={"name": "Deploys"}).author
    bare = message(user=None, bot_id="B1", username="Alerts", subtype="bot_message").author
    assert (person.id, person.kind, person.name) == ("U1", AuthorKind.USER, None)
    assert (bot.id, bot.kind, bot.name, bot.bot_id) == ("U1", AuthorKind.BOT, "Deploys", "B1")
    assert (bare.id, bare.kind, bare.name, bare.bot_id) == ("B1", AuthorKind.BOT, "Alerts", "B1")


@pytest.mark.req("CHAN-10")
@pytest.mark.parametrize("said", [{"user": "USLACKBOT"}, {"user": "U7", "subtype": "bot_message"}])
def test_slackbot_and_whoever_posts_as_a_bot_is_no_person(said: dict[str, str]) -> None:
    author = message(**said, username="Reminder").author
    assert (author.id, author.kind, author.name) == (said["user"], AuthorKind.BOT, "Reminder")


def test_only_our_own_posts_carry_our_key() -> None:
    metadata = {"event_type": METADATA_EVENT_TYPE, "event_payload": {"delivery_id": "d-1", "agent": "lead"}}
    ours = message(user="UBOT", bot_id="BBOT", metadata=metadata)
    forged = message(user="U1", metadata=metadata)
    foreign = message(user="UBOT", bot_id="BBOT", metadata={**metadata, "event_type": "something_else"})
    assert (ours.author.kind, ours.author.name, ours.delivery_id) == (AuthorKind.AGENT, "lead", "d-1")
    assert (forged.author.kind, forged.delivery_id) == (AuthorKind.USER, None)
    assert (foreign.author.kind, foreign.delivery_id) == (AuthorKind.AGENT, None)


@pytest.mark.req("LOOP-02")
def test_files_keep_their_names_and_one_that_may_not_be_seen_goes_by_its_id() -> None:
    files = [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf", "size": 7}, {"id": "F2"}, {"name": "x"}, 3]
    found = message(subtype="file_share", files=files).files
    assert [(file.id, file.name, file.mimetype, file.size_bytes) for file in found] == [
        ("F1", "plan.pdf", "application/pdf", 7),
        ("F2", "F2", None, None),
    ]


def test_a_message_from_another_workspace_is_read_like_any_other() -> None:
    shared = message(team="T999", user_team="T999", source_team="T999", user_profile={"name": "eve"}, user="W1")
    assert (shared.author.id, shared.author.kind) == ("W1", AuthorKind.USER)


def test_an_unfurled_link_is_an_edit_without_an_edit_time() -> None:
    inner = {"type": "message", "user": "U1", "text": "see <https://x.test>", "ts": "1700000000.000100"}
    found = slack_event(
        envelope(
            subtype="message_changed",
            text=None,
            ts="1700000009.000000",
            message={**inner, "attachments": [{"fallback": "a page", "from_url": "https://x.test"}]},
            previous_message=inner,
        ),
        ME,
    )
    assert isinstance(found, MessageEdited)
    assert found.message.ts == "1700000000.000100"
    assert found.message.edited_ts is None
    assert found.previous_text == found.message.text


def test_an_edit_says_when_it_was_made() -> None:
    assert message(edited={"user": "U1", "ts": "1700000005.000000"}).edited_ts == "1700000005.000000"


def test_a_deleted_root_that_leaves_a_tombstone_is_deleted() -> None:
    tombstone = {"subtype": "tombstone", "user": "USLACKBOT", "text": "…", "ts": "1700000000.000100"}
    found = slack_event(envelope(subtype="message_changed", message=tombstone, ts="1700000009.000000"), ME)
    assert found == MessageDeleted(channel="C1", ts="1700000000.000100", thread_ts=None, event_id="Ev1")


RICH_TEXT = {
    "type": "rich_text",
    "elements": [
        {
            "type": "rich_text_section",
            "elements": [
                {"type": "user", "user_id": "U2"},
                {"type": "text", "text": " a < b & c "},
                {"type": "link", "url": "https://x.test", "text": "there"},
                {"type": "emoji", "name": "wave"},
                {"type": "channel", "channel_id": "C2"},
                {"type": "broadcast", "range": "here"},
            ],
        },
        {
            "type": "rich_text_list",
            "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "two"}]},
            ],
        },
    ],
}


@every(
    ("content", "expected"),
    [
        (
            {"blocks": [RICH_TEXT]},
            "<@U2> a &lt; b &amp; c <https://x.test|there>:wave:<#C2><!here>\n• one\n• two",
        ),
        (
            {
                "blocks": [
                    {"type": "header", "text": {"type": "plain_text", "text": "Title"}},
                    {"type": "section", "text": {"text": "*body*"}, "fields": [{"text": "left"}, {"text": "right"}]},
                    {"type": "divider"},
                    {"type": "markdown", "text": "**md**"},
                    {"type": "context", "elements": [{"type": "mrkdwn", "text": "small"}, {"type": "image"}]},
                ]
            },
            "Title\n*body*\nleft\nright\n**md**\nsmall",
        ),
        ({"attachments": [{"fallback": "only this"}]}, "only this"),
        ({"attachments": [{"title": "T", "text": "x", "fallback": "no"}, {"blocks": [RICH_TEXT]}]}, None),
        (
            {"text": "said", "blocks": [RICH_TEXT]},
            "said\n<@U2> a &lt; b &amp; c <https://x.test|there>:wave:<#C2><!here>\n• one\n• two",
        ),
        ({}, ""),
    ],
)
def test_a_message_without_text_says_what_its_blocks_or_attachments_say(
    content: dict[str, Any], expected: str | None
) -> None:
    text = message(**{"text": " ", **content}).text.strip()
    if expected is None:
        assert text.startswith("T\nx\n<@U2> a")
    else:
        assert text == expected


def test_a_text_is_never_cut() -> None:
    assert len(message(text="x" * 50_000).text) == 50_000


def test_text_that_no_database_takes_is_mended() -> None:
    mended = message(text="a\ud800b\0c", files=[{"id": "F1", "name": "\udfff.txt"}])
    assert mended.text == "a\ufffdbc"
    assert mended.files[0].name == "\ufffd.txt"


@every(
    "broken",
    [
        {"channel": None},
        {"channel": 5},
        {"channel": ""},
        {"channel": "C1\0"},
        {"ts": None},
        {"ts": 1700000000.0001},
        {"ts": "yesterday"},
        {"ts": "1700000000"},
        {"ts": "١٧٠٠٠٠٠٠٠٠.٠٠٠١٠٠"},
        {"ts": "1700000000.000100\n"},
        {"user": None},
        {"user": {"id": "U1"}},
        {"subtype": "message_changed"},
        {"subtype": "message_deleted", "ts": None},
    ],
)
def test_a_malformed_message_is_refused_with_what_is_wrong(broken: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="missing or malformed"):
        slack_event(envelope(**broken), ME)


def test_an_event_about_something_else_is_ignored_silently() -> None:
    with capture_logs() as logs:
        assert slack_event(envelope(type="reaction_added"), ME) is None
        assert slack_event({"type": "url_verification"}, ME) is None
    assert logs == []


def test_a_message_of_history_needs_no_channel_of_its_own() -> None:
    raw = {"type": "message", "user": "U1", "text": "hi", "ts": "1700000000.000100"}
    found = history_message("D1", raw, ME)
    assert found is not None
    assert (found.channel, found.channel_type, found.event_id) == ("D1", ChannelType.DM, None)


def test_a_tombstone_in_history_is_no_message() -> None:
    with capture_logs() as logs:
        assert history_message("C1", {"subtype": "tombstone", "user": "USLACKBOT", "ts": "1.0"}, ME) is None
    assert logs == []


ANY_TEXT = st.text(st.characters(codec=None), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)
KEYS = st.sampled_from(
    sorted({*FILLED_IN, "text", "subtype", "message", "previous_message", "files", "blocks", "attachments"})
)
SUBTYPES = st.sampled_from([None, "message_changed", "message_deleted", "file_share", "bot_message", "tombstone"])


def is_storable(text: str | None) -> bool:
    return text is None or (text.encode("utf-8") is not None and "\0" not in text)


def event_or_nothing(body: object) -> SlackEvent | None:
    with contextlib.suppress(BadRequest):
        return slack_event(body, ME)
    return None


@given(ANY_JSON)
def test_no_json_whatever_raises_anything_but_a_refusal(body: object) -> None:
    event_or_nothing(body)
    event_or_nothing({"event": body})
    history_message("C1", body, ME)


@given(subtype=SUBTYPES, changes=st.dictionaries(KEYS, ANY_JSON, max_size=4), inner=st.dictionaries(KEYS, ANY_JSON))
def test_a_message_with_fields_of_any_type_is_a_storable_message_or_nothing(
    subtype: str | None, changes: dict[str, Any], inner: dict[str, Any]
) -> None:
    nested = {**envelope()["event"], **inner}
    body = envelope(**{"subtype": subtype, "message": nested, "previous_message": nested, **changes, "type": "message"})
    found = event_or_nothing(body)
    told = found.message if isinstance(found, MessageEdited) else found
    if isinstance(told, SlackMessage):
        assert all(map(is_storable, (told.text, told.author.name, told.subtype, *(file.name for file in told.files))))


def deep(levels: int, make: Callable[[Any], Any]) -> Any:
    value: Any = {"type": "text", "text": "x"}
    for _ in range(levels):
        value = make(value)
    return value


def test_blocks_nested_without_end_do_not_exhaust_the_stack() -> None:
    bottomless = deep(5_000, lambda inner: {"type": "rich_text_section", "elements": [inner]})
    assert message(text="", blocks=[{"type": "rich_text", "elements": [bottomless]}]).text == ""
