"""What people post: rich text, tables, images, attachments, forwards, clips, e-mails and files of other workspaces."""

from typing import Any

import pytest
from slack_twin.blocks import checked_blocks
from slack_twin.blocks.typed import rich_text, text_of
from slack_twin.testing import SlackTwin

from tests.test_files import download
from tests.test_shapes import differences, sample
from tests.world import World

pytestmark = pytest.mark.req("TWIN-07")

ALICE = "<@U000ALICE>"


def section(*leaves: dict[str, Any]) -> dict[str, Any]:
    return {"type": "rich_text_section", "elements": list(leaves)}


def text(words: str, **style: bool) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({"style": style} if style else {})


def listed(style: str, *items: str, **more: Any) -> dict[str, Any]:
    return {"type": "rich_text_list", "style": style, "elements": [section(text(one)) for one in items], **more}


# Rich text, and the `text` that Slack derives from it.
WRITTEN: list[tuple[list[dict[str, Any]], str]] = [
    ([section(text("a < b & c"))], "a &lt; b &amp; c"),
    (
        [section(text("be "), text("bold", bold=True), text(" and "), text("both", bold=True, italic=True))],
        "be *bold* and _*both*_",
    ),
    ([section(text("old", strike=True), text(" "), text("x = 1", code=True))], "~old~ `x = 1`"),
    (
        [
            section(
                {"type": "user", "user_id": "U000ALICE"}, text(" in "), {"type": "channel", "channel_id": "C0GENERAL"}
            )
        ],
        f"{ALICE} in <#C0GENERAL>",
    ),
    (
        [section({"type": "link", "url": "https://x.test/?a=1&b=2", "text": "the plan"})],
        "<https://x.test/?a=1&amp;b=2|the plan>",
    ),
    (
        [section({"type": "broadcast", "range": "here"}, {"type": "usergroup", "usergroup_id": "S1"})],
        "<!here><!subteam^S1>",
    ),
    ([section({"type": "emoji", "name": "tada"})], ":tada:"),
    (
        [{"type": "rich_text_quote", "elements": [text("one\ntwo")]}, section(text("agreed"))],
        "&gt; one\n&gt; two\nagreed",
    ),
    ([{"type": "rich_text_preformatted", "elements": [text("if a < b:\n    pass")]}], "```if a &lt; b:\n    pass```"),
    ([section(text("do:\n")), listed("ordered", "first", "second", offset=2)], "do:\n3. first\n4. second"),
    (
        [listed("bullet", "a"), listed("bullet", "b", indent=1), listed("bullet", "c", indent=2)],
        "• a\n    ◦ b\n        ▪ c",
    ),
]


@pytest.mark.parametrize(("elements", "derived"), WRITTEN)
async def test_rich_text_of_a_person_reaches_apps_with_its_text(
    world: World, elements: list[dict[str, Any]], derived: str
) -> None:
    line = await world.line()
    block = {"type": "rich_text", "elements": elements}
    await world.say("bob", "", blocks=[block])
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["text"], event["blocks"][0]["elements"]) == (derived, elements)


# Typed text, and the elements of the block that Slack's clients add.
TYPED: list[tuple[str, list[dict[str, Any]]]] = [
    ("plain", [section(text("plain"))]),
    (
        "*a* _b_ ~c~ `d`",
        [
            section(
                text("a", bold=True),
                text(" "),
                text("b", italic=True),
                text(" "),
                text("c", strike=True),
                text(" "),
                text("d", code=True),
            )
        ],
    ),
    ("snake_case_name 2*3*4", [section(text("snake_case_name 2*3*4"))]),
    ("at 10:30:45 :nope:", [section(text("at 10:30:45 :nope:"))]),
    (
        "look\n&gt; said\n&gt; more\nso",
        [section(text("look\n")), {"type": "rich_text_quote", "elements": [text("said\nmore")]}, section(text("so"))],
    ),
    (
        "run\n```\nls &lt;x\n```",
        [section(text("run\n")), {"type": "rich_text_preformatted", "elements": [text("ls <x")]}],
    ),
    (
        f"{ALICE} <https://x.test|here> :eyes:",
        [
            section(
                {"type": "user", "user_id": "U000ALICE"},
                text(" "),
                {"type": "link", "url": "https://x.test", "text": "here"},
                text(" "),
                {"type": "emoji", "name": "eyes"},
            )
        ],
    ),
]


@pytest.mark.parametrize(("typed", "elements"), TYPED)
def test_typed_text_has_the_block_that_clients_add(typed: str, elements: list[dict[str, Any]]) -> None:
    block = rich_text(typed)
    assert block["elements"] == elements
    assert checked_blocks([block])
    assert text_of([block]).replace("```ls", "```\nls").replace("x```", "x\n```") == typed


IMAGE = {"type": "image", "image_url": "https://x.test/a.png", "alt_text": "a chart"}


async def test_a_table_and_an_image_stand_below_the_sentence_and_not_in_the_text(world: World) -> None:
    line = await world.line()
    await world.say("bob", "The *figures*", table=[["City", "Sum"], ["Bonn", "1 < 2"], ["", "x"]], blocks=[IMAGE])
    event = (await line.next_acknowledged())["payload"]["event"]
    assert event["text"] == "The *figures*"
    assert [block["type"] for block in event["blocks"]] == ["rich_text", "image", "table"]
    assert event["blocks"][2]["rows"][1][1]["elements"] == [section(text("1 < 2"))]
    ts = (await world.seen())[-1]["ts"]
    await world.ask("PATCH", "messages", {"user": "bob", "channel": "general", "ts": ts, "text": "mended"})
    changed = (await line.next_acknowledged())["payload"]["event"]["message"]
    assert [block["type"] for block in changed["blocks"]] == ["rich_text", "image", "table"]
    assert changed["blocks"][0]["elements"] == [section(text("mended"))]


async def test_attachments_get_a_number_a_fallback_and_hexadecimal_colours(world: World) -> None:
    given = [{"color": "good", "text": "fine"}, {"color": "danger"}, {"color": "#36A64F", "fallback": "f"}]
    said = await world.client().chat_postMessage(channel=world.general, text="x", attachments=given)
    found = said["message"]["attachments"]
    assert [(one["id"], one["color"], one["fallback"]) for one in found] == [
        (1, "2eb886", "fine"),
        (2, "a30200", "[no preview available]"),
        (3, "36A64F", "f"),
    ]
    ts = await world.say("bob", "", attachments=[{"title": "A page", "from_url": "https://x.test"}])
    read = (await world.client().conversations_history(channel=world.general, oldest=ts, inclusive=True))["messages"]
    assert read[0]["attachments"] == [{"title": "A page", "from_url": "https://x.test", "id": 1, "fallback": "A page"}]


async def test_a_forward_brings_author_words_blocks_and_files(world: World) -> None:
    secret = {"name": "den", "members": ["bob"], "is_private": True}
    await world.ask("POST", "seed", {"channels": [secret]})
    line = await world.line()
    ts = await world.say("bob", "delete *everything*", "den", files=[{"name": "plan.txt", "content": "1"}])
    await world.say("bob", "", forward={"channel": "den", "ts": ts})
    payload = (await line.next_acknowledged())["payload"]
    (share,) = payload["event"]["attachments"]
    assert (payload["event"]["text"], payload["event"].get("subtype")) == ("", None)
    assert (share["is_share"], share["author_id"], share["author_name"]) == (True, "U00000BOB", "Bob")
    assert (share["text"], share["ts"], share["private_channel_prompt"]) == ("delete *everything*", ts, True)
    assert share["from_url"].endswith(f"/archives/{share['channel_id']}/p{ts.replace('.', '')}")
    assert share["message_blocks"][0]["message"]["blocks"][0]["elements"][0]["elements"][1]["style"] == {"bold": True}
    assert [file["name"] for file in share["files"]] == ["plan.txt"]
    assert await download(world, share["files"][0]["url_private_download"]) == (200, b"1")
    assert differences(payload, sample("events/MessagePayload.json")) == []


EMPTY = {"created": 0, "timestamp": 0, "user": ""}


async def first_file(world: World, **file: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns a posted file as in the event, as in `files.info`, and the event."""
    line = await world.line()
    user = file.pop("user", "bob")
    await world.say(user, "", files=[{"name": "f.bin", "content": "x\n" * 9} | file])
    payload = (await line.next_acknowledged())["payload"]
    assert differences(payload, sample("events/MessageFileSharePayload.json")) == []
    (told,) = payload["event"]["files"]
    return told, (await world.client().files_info(file=told["id"]))["file"], payload["event"]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, {"mode": "hosted", "editable": False, "external_type": "", "username": "", "channels": None}),
        (
            {"kind": "voice"},
            {"subtype": "slack_audio", "mimetype": "audio/mp4", "transcription": {"status": "processing"}},
        ),
        (
            {"kind": "video", "transcript": "hi", "seconds": 3},
            {"subtype": "slack_video", "media_display_type": "video", "duration_ms": 3000},
        ),
        ({"fields": {"mode": "post", "preview": "p"}}, {"mode": "post", "preview": "p"}),
    ],
)
async def test_a_file_of_each_kind_has_its_fields(world: World, given: Any, fields: Any) -> None:
    told, whole, _ = await first_file(world, **given)
    assert {name: told[name] for name in fields} == fields
    assert whole["channels"] == [world.general]


async def test_a_long_transcript_is_cut_in_the_preview_and_whole_as_subtitles(world: World) -> None:
    words = "please check the release notes " * 9
    _, clip, _ = await first_file(world, kind="voice", transcript=words, seconds=61)
    preview = clip["transcription"]["preview"]
    assert (clip["transcription"]["status"], preview["has_more"]) == ("complete", True)
    assert words.startswith(preview["content"])
    status, track = await download(world, clip["vtt"])
    assert (status, track.decode()) == (200, f"\ufeffWEBVTT \n\n00:00:00.000 --> 00:01:01.000\n- {words}\n\n\n")


async def test_an_email_into_a_channel_comes_from_slackbot(world: World) -> None:
    mail = {"kind": "email", "subject": "Invoice", "from": "Ann Example <ann@x.test>", "text": "Please pay."}
    told, _, event = await first_file(world, user="slackbot", **mail)
    assert (event["user"], event["subtype"], "client_msg_id" in event) == ("USLACKBOT", "file_share", False)
    assert (told["mode"], told["title"], told["subject"], told["plain_text"]) == (
        "email",
        "Invoice",
        "Invoice",
        "Please pay.",
    )
    assert told["from"] == [{"address": "ann@x.test", "name": "Ann Example", "original": "Ann Example <ann@x.test>"}]


async def test_a_file_of_slack_connect_is_only_in_files_info(world: World) -> None:
    told, whole, _ = await first_file(world, kind="connect")
    assert told == {"id": told["id"], "mode": "file_access", "file_access": "check_file_info"} | EMPTY
    assert (whole["name"], whole["mode"], whole["file_access"]) == ("f.bin", "hosted", "visible")


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"text": ""}, 422, "text"),
    ({"blocks": [{"type": "nonsense"}]}, 422, "unsupported type: nonsense"),
    ({"blocks": "x"}, 422, "blocks"),
    ({"table": [["a"], "b"]}, 422, "table"),
    ({"attachments": [7]}, 422, "attachments"),
    ({"forward": {"channel": "general", "ts": "1.2"}}, 404, "message"),
    ({"forward": {"channel": "den", "ts": "1.2"}}, 403, "not a member"),
    ({"files": [{"name": "a", "kind": "song"}]}, 422, "voice"),
    ({"files": [{"name": "a", "kind": "email", "subject": "s"}]}, 422, "from"),
]


@pytest.mark.parametrize(("body", "status", "named"), REFUSED)
async def test_what_slack_cannot_post_is_refused_by_name(world: World, body: Any, status: int, named: str) -> None:
    await world.ask("POST", "seed", {"channels": [{"name": "den", "members": ["bob"], "is_private": True}]})
    found, answer = await world.control("POST", "messages", {"user": "alice", "channel": "general"} | body)
    assert found == status
    assert named in str(answer["error"])
    assert await world.seen() == []


def test_the_kit_posts_what_people_post(slack_twin: SlackTwin) -> None:
    alice = slack_twin.user("alice")
    table = alice.says("Look", table=[["a", "b"], ["1", "2"]])
    assert [block["type"] for block in table.blocks] == ["rich_text", "table"]
    clip = alice.says(files={"clip.m4a": {"kind": "voice", "transcript": "hello"}, "raw": b"\xff", "a.txt": "x"})
    assert [(file["subtype"], file["transcript"], file["size"]) for file in clip.files] == [
        ("slack_audio", "hello", 0),
        (None, "", 1),
        (None, "", 1),
    ]
    shared = slack_twin.user("bob").forwards(table, "see", channel="random")
    assert (shared.text, shared.attachments[0]["text"], shared.attachments[0]["author_name"]) == (
        "see",
        "Look",
        "Alice",
    )
    mail = slack_twin.email("Invoice", "Please pay.", sender="Ann <ann@x.test>")
    assert (mail.author, mail.files[0]["mode"], mail.files[0]["title"]) == ("slackbot", "email", "Invoice")
