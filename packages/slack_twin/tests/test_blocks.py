"""Block Kit: valid blocks, and the error messages for invalid ones."""

from typing import Any

import orjson
import pytest
from slack_sdk.models import blocks as sdk
from slack_twin.blocks import checked_attachments, checked_blocks
from slack_twin.blocks.layout import Where
from slack_twin.blocks.reading import block_problems
from slack_twin.elements import elements_of
from slack_twin.errors import SlackError

from tests.acting import Json, actions, button, options, plain, text_input
from tests.world import World

pytestmark = pytest.mark.req("TWIN-02", "TWIN-03")

MRKDWN = {"type": "mrkdwn", "text": "*x*"}
SECTION = {"type": "section", "text": MRKDWN}
IMAGE = {"type": "image", "image_url": "https://twin.test/a.png", "alt_text": "a"}
MENU = {"type": "static_select", "options": options("a", "b")}
CONFIRM = {"title": plain("t"), "text": MRKDWN, "confirm": plain("y"), "deny": plain("n"), "style": "danger"}
TASK = {"type": "task_card", "task_id": "1", "title": "t", "status": "complete"}
CELL = {"type": "raw_text", "text": "x"}


def rich(*parts: Json) -> Json:
    return {"type": "rich_text", "elements": list(parts)}


def line(*inline: Json) -> Json:
    return {"type": "rich_text_section", "elements": list(inline)}


WORD = {"type": "text", "text": "x", "style": {"bold": True}}
FEEDBACK = {
    "type": "feedback_buttons",
    "positive_button": {"text": plain("+"), "value": "1"},
    "negative_button": {"text": plain("-"), "value": "0"},
}

GOOD: list[Json] = [
    SECTION,
    {"type": "section", "fields": [MRKDWN] * 10},
    *(
        {**SECTION, "accessory": accessory}
        for accessory in (
            button("a", confirm=CONFIRM, url="https://twin.test/", style="primary"),
            IMAGE,
            MENU,
            {"type": "multi_static_select", "option_groups": [{"label": plain("g"), "options": options("a")}]},
            {"type": "overflow", "options": [options("a")[0] | {"url": "https://twin.test/"}]},
            {"type": "datepicker", "initial_date": "2026-11-21", "placeholder": plain("when")},
            {"type": "checkboxes", "options": [{"text": MRKDWN, "value": "a", "description": plain("d")}]},
        )
    ),
    {"type": "divider"},
    {"type": "header", "text": plain("h" * 150)},
    IMAGE | {"title": plain("t")},
    {"type": "image", "slack_file": {"id": "F1"}, "alt_text": ""},
    {"type": "context", "elements": [MRKDWN, plain("x"), IMAGE]},
    actions(*(button(str(number)) for number in range(25))),
    actions({"type": "datetimepicker", "initial_date_time": 1_795_000_000}, {"type": "timepicker"}, MENU),
    {"type": "context_actions", "elements": [FEEDBACK, {"type": "icon_button", "icon": "trash", "text": plain("x")}]},
    text_input("a", initial_value="x", min_length=1, max_length=9, multiline=True, placeholder=plain("p")),
    text_input("a", dispatch_action_config={"trigger_actions_on": ["on_enter_pressed"]}) | {"dispatch_action": True},
    text_input("a", type="number_input", is_decimal_allowed=True, min_value="1"),
    text_input("a", type="rich_text_input", initial_value=rich(line(WORD))),
    text_input("a", type="conversations_select", filter={"include": ["im"], "exclude_bot_users": True}),
    text_input("a", type="file_input", filetypes=["png"], max_files=3),
    rich(
        line(
            WORD,
            {"type": "link", "url": "https://twin.test/", "text": "x"},
            {"type": "user", "user_id": "U1"},
            {"type": "channel", "channel_id": "C1"},
            {"type": "usergroup", "usergroup_id": "S1"},
            {"type": "emoji", "name": "wave", "skin_tone": 2},
            {"type": "broadcast", "range": "here"},
            {"type": "date", "timestamp": 1_795_000_000, "format": "{date}", "fallback": "then"},
            {"type": "color", "value": "#1264A3"},
        ),
        {"type": "rich_text_list", "style": "ordered", "indent": 1, "offset": 3, "elements": [line(WORD)]},
        {"type": "rich_text_quote", "elements": [WORD], "border": 1},
        {"type": "rich_text_preformatted", "elements": [WORD], "language": "python"},
    ),
    {
        "type": "video",
        "alt_text": "a",
        "title": plain("t"),
        "thumbnail_url": "https://a.test/",
        "video_url": "https://b.test/",
    },
    {"type": "alert", "text": MRKDWN, "level": "warning"},
    {"type": "auth_provider", "value": "a", "name": plain("A"), "is_connected": False, "auth_url": "https://a.test/"},
    {"type": "card", "title": MRKDWN, "body": plain("b"), "actions": [button("a")], "hero_image": IMAGE},
    {"type": "carousel", "elements": [{"type": "card", "title": plain("t")}]},
    {"type": "container", "title": plain("t"), "child_blocks": [SECTION, {"type": "divider"}], "width": "wide"},
]
GOOD_IN_MESSAGES: list[Json] = [
    {"type": "markdown", "text": "x" * 12_000},
    {"type": "table", "rows": [[CELL, rich(line(WORD))]], "column_settings": [None, {"align": "right"}]},
    TASK | {"details": rich(line(WORD)), "sources": [{"type": "url", "url": "https://twin.test/", "text": "x"}]},
    {"type": "plan", "title": "p", "tasks": [TASK]},
    {"type": "data_table", "caption": "c", "rows": [[CELL], [{"type": "raw_number", "value": 1.5, "text": "1.5"}]]},
    {"type": "file", "external_id": "x", "source": "remote"},
]


@pytest.mark.parametrize("where", Where)
def test_good_blocks_are_taken_everywhere(where: Where) -> None:
    shown = [block for block in GOOD if block["type"] != "context_actions" or where is Where.MESSAGE]
    wrong = {str(block): found for block in shown if (found := block_problems([block], where, "/blocks"))}
    assert wrong == {}


def test_some_blocks_are_for_messages_only() -> None:
    for block in GOOD_IN_MESSAGES:
        assert block_problems([block], Where.MESSAGE, "/blocks") == []
        for where in (Where.MODAL, Where.HOME):
            unsupported = [f"unsupported type: {block['type']} [json-pointer:/view/blocks/0/type]"]
            assert block_problems([block], where, "/view/blocks") == unsupported


def test_what_the_sdk_builds_is_taken() -> None:
    built: list[sdk.Block] = [
        sdk.SectionBlock(text="hello", fields=["a", "b"]),
        sdk.HeaderBlock(text="head"),
        sdk.DividerBlock(),
        sdk.ContextBlock(
            elements=[sdk.MarkdownTextObject(text="x"), sdk.ImageElement(image_url="https://a.test/", alt_text="a")]
        ),
        sdk.ActionsBlock(elements=[sdk.ButtonElement(text="Go", action_id="go", value="1", style="primary")]),
        sdk.InputBlock(label="Name", element=sdk.PlainTextInputElement(action_id="name")),
        sdk.MarkdownBlock(text="# hi"),
        sdk.RichTextBlock(elements=[sdk.RichTextSectionElement(elements=[sdk.RichTextElementParts.Text(text="x")])]),
        sdk.TableBlock(rows=[[{"type": "raw_text", "text": "x"}]]),
        sdk.PlanBlock(title="p", tasks=[sdk.TaskCardBlock(task_id="1", title="t", status="pending")]),
    ]
    stored = checked_blocks([block.to_dict() for block in built])
    assert [block["type"] for block in stored] == [block.type for block in built]
    assert all(block["block_id"] for block in stored)


# An invalid block, and Slack's error message.
WRONG: list[tuple[Any, str]] = [
    ("divider", "must provide an object [json-pointer:/blocks/0]"),
    ({}, "missing required field: type [json-pointer:/blocks/0]"),
    ({"type": "nonsense"}, "unsupported type: nonsense [json-pointer:/blocks/0/type]"),
    ({"type": ["divider"]}, "unsupported type: ['divider'] [json-pointer:/blocks/0/type]"),
    ({"type": "divider", "text": "x"}, "invalid additional property: text [json-pointer:/blocks/0]"),
    ({"type": "divider", "block_id": "x" * 256}, "must be less than 256 characters [json-pointer:/blocks/0/block_id]"),
    ({"type": "section"}, "missing required field: text [json-pointer:/blocks/0]"),
    ({"type": "section", "text": "x"}, "must provide an object [json-pointer:/blocks/0/text]"),
    ({"type": "section", "text": {"type": "mrkdwn"}}, "missing required field: text [json-pointer:/blocks/0/text]"),
    (
        {"type": "section", "text": {"type": "mrkdwn", "text": ""}},
        "must be more than 0 characters [json-pointer:/blocks/0/text/text]",
    ),
    (
        {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}},
        "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
    ),
    (
        {"type": "section", "text": MRKDWN | {"emoji": True}},
        "invalid additional property: emoji [json-pointer:/blocks/0/text]",
    ),
    ({"type": "section", "fields": [MRKDWN] * 11}, "no more than 10 items allowed [json-pointer:/blocks/0/fields]"),
    ({"type": "section", "fields": []}, "must provide at least 1 items [json-pointer:/blocks/0/fields]"),
    (
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "x" * 2_001}]},
        "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]",
    ),
    (
        {**SECTION, "accessory": {"type": "plain_text_input"}},
        "unsupported type: plain_text_input [json-pointer:/blocks/0/accessory/type]",
    ),
    ({"type": "header", "text": MRKDWN}, "unsupported type: mrkdwn [json-pointer:/blocks/0/text/type]"),
    (
        {"type": "header", "text": plain("x" * 151)},
        "must be less than 151 characters [json-pointer:/blocks/0/text/text]",
    ),
    ({"type": "image", "alt_text": "a"}, "missing required field: image_url [json-pointer:/blocks/0]"),
    (IMAGE | {"image_url": "javascript:alert(1)"}, "must be a valid URL [json-pointer:/blocks/0/image_url]"),
    (
        IMAGE | {"slack_file": {"id": "F1"}},
        "only one of these fields is allowed: image_url, slack_file [json-pointer:/blocks/0]",
    ),
    ({"type": "context", "elements": [MRKDWN] * 11}, "no more than 10 items allowed [json-pointer:/blocks/0/elements]"),
    (
        {"type": "context", "elements": [button("a")]},
        "unsupported type: button [json-pointer:/blocks/0/elements/0/type]",
    ),
    (actions(), "must provide at least 1 items [json-pointer:/blocks/0/elements]"),
    (actions(*[button("a")] * 26), "no more than 25 items allowed [json-pointer:/blocks/0/elements]"),
    (actions(FEEDBACK), "unsupported type: feedback_buttons [json-pointer:/blocks/0/elements/0/type]"),
    (actions(button("x" * 256)), "must be less than 256 characters [json-pointer:/blocks/0/elements/0/action_id]"),
    (
        actions(button("a", text=plain("x" * 76))),
        "must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]",
    ),
    (
        actions(button("a", value="x" * 2_001)),
        "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]",
    ),
    (
        actions(button("a", style="pink")),
        "must be one of: primary, danger [json-pointer:/blocks/0/elements/0/style]",
    ),
    (
        actions(button("a", confirm=CONFIRM | {"deny": None})),
        "missing required field: deny [json-pointer:/blocks/0/elements/0/confirm]",
    ),
    (
        actions(button("a"), button("a")),
        "action_id already exists: a [json-pointer:/blocks/0/elements/1/action_id]",
    ),
    (actions({"type": "static_select"}), "missing required field: options [json-pointer:/blocks/0/elements/0]"),
    (
        actions({"type": "static_select", "options": options("a") * 101}),
        "no more than 100 items allowed [json-pointer:/blocks/0/elements/0/options]",
    ),
    (
        actions({"type": "static_select", "options": [{"text": MRKDWN, "value": "a"}]}),
        "unsupported type: mrkdwn [json-pointer:/blocks/0/elements/0/options/0/text/type]",
    ),
    (
        actions({"type": "static_select", "options": options("x" * 76)}),
        "must be less than 76 characters [json-pointer:/blocks/0/elements/0/options/0/text/text]",
    ),
    (
        actions({"type": "overflow", "options": options(*"abcdef")}),
        "no more than 5 items allowed [json-pointer:/blocks/0/elements/0/options]",
    ),
    (
        actions({"type": "radio_buttons", "options": options(*"abcdefghijk")}),
        "no more than 10 items allowed [json-pointer:/blocks/0/elements/0/options]",
    ),
    (
        actions({"type": "datepicker", "initial_date": "tomorrow"}),
        "must be a date like 2026-11-21 [json-pointer:/blocks/0/elements/0/initial_date]",
    ),
    (
        actions({"type": "multi_users_select", "max_selected_items": 0}),
        "must be from 1 to 100 [json-pointer:/blocks/0/elements/0/max_selected_items]",
    ),
    ({"type": "input", "label": plain("x")}, "missing required field: element [json-pointer:/blocks/0]"),
    (text_input("a", type="button"), "unsupported type: button [json-pointer:/blocks/0/element/type]"),
    (text_input("a") | {"label": MRKDWN}, "unsupported type: mrkdwn [json-pointer:/blocks/0/label/type]"),
    (
        text_input("a", type="number_input"),
        "missing required field: is_decimal_allowed [json-pointer:/blocks/0/element]",
    ),
    (
        text_input("a", max_length=3_001),
        "must be from 1 to 3000 [json-pointer:/blocks/0/element/max_length]",
    ),
    (
        {"type": "context_actions", "elements": [FEEDBACK] * 6},
        "no more than 5 items allowed [json-pointer:/blocks/0/elements]",
    ),
    (
        {"type": "context_actions", "elements": [{"type": "icon_button", "icon": "axe", "text": plain("x")}]},
        "must be one of: trash [json-pointer:/blocks/0/elements/0/icon]",
    ),
    (rich({"type": "text", "text": "x"}), "unsupported type: text [json-pointer:/blocks/0/elements/0/type]"),
    (
        rich(line({"type": "text", "text": ""})),
        "must be more than 0 characters [json-pointer:/blocks/0/elements/0/elements/0/text]",
    ),
    (
        rich(line(WORD | {"style": {"loud": True}})),
        "invalid additional property: loud [json-pointer:/blocks/0/elements/0/elements/0/style]",
    ),
    (
        rich({"type": "rich_text_list", "style": "bullet", "elements": [WORD]}),
        "unsupported type: text [json-pointer:/blocks/0/elements/0/elements/0/type]",
    ),
    ({"type": "video", "alt_text": "a"}, "missing required field: video_url [json-pointer:/blocks/0]"),
    ({"type": "markdown", "text": ""}, "must be more than 0 characters [json-pointer:/blocks/0/text]"),
    ({"type": "markdown", "text": MRKDWN}, "must provide a string [json-pointer:/blocks/0/text]"),
    ({"type": "table", "rows": [[CELL]] * 101}, "no more than 100 items allowed [json-pointer:/blocks/0/rows]"),
    ({"type": "table", "rows": [[CELL] * 21]}, "no more than 20 items allowed [json-pointer:/blocks/0/rows/0]"),
    (
        {"type": "table", "rows": [[{"type": "raw_number", "value": "1", "text": "1"}]]},
        "must provide a number [json-pointer:/blocks/0/rows/0/0/value]",
    ),
    (
        {"type": "data_table", "caption": "c", "rows": [[CELL]]},
        "must provide at least 2 items [json-pointer:/blocks/0/rows]",
    ),
    ({"type": "table", "rows": [[MRKDWN]]}, "unsupported type: mrkdwn [json-pointer:/blocks/0/rows/0/0/type]"),
    (
        TASK | {"status": "completed"},
        "must be one of: pending, in_progress, complete, error [json-pointer:/blocks/0/status]",
    ),
    (TASK | {"details": "x"}, "must provide an object [json-pointer:/blocks/0/details]"),
    (
        {"type": "plan", "title": "p", "tasks": [SECTION]},
        "unsupported type: section [json-pointer:/blocks/0/tasks/0/type]",
    ),
    ({"type": "card", "subtitle": MRKDWN}, "missing required field: title [json-pointer:/blocks/0]"),
    ({"type": "carousel", "elements": [SECTION]}, "unsupported type: section [json-pointer:/blocks/0/elements/0/type]"),
    ({"type": "alert", "text": MRKDWN, "level": "loud"}, "must be one of: default, info, warning, error, success"),
    ({"type": "container", "child_blocks": [SECTION]}, "missing required field: title [json-pointer:/blocks/0]"),
    (
        {"type": "container", "title": plain("t"), "child_blocks": [SECTION] * 11},
        "no more than 10 items allowed [json-pointer:/blocks/0/child_blocks]",
    ),
]


@pytest.mark.parametrize(("block", "message"), WRONG, ids=lambda part: str(part)[:60])
def test_a_mistake_is_named_with_its_place(block: object, message: str) -> None:
    with pytest.raises(SlackError, match="invalid_blocks") as refused:
        checked_blocks([block])
    errors = refused.value.fields["errors"]
    assert isinstance(errors, list)
    assert any(error.startswith(message) for error in errors), errors


def test_every_mistake_is_named() -> None:
    with pytest.raises(SlackError) as refused:
        checked_blocks([{"type": "nonsense"}, SECTION, {"type": "header"}])
    assert refused.value.fields["errors"] == [
        "unsupported type: nonsense [json-pointer:/blocks/0/type]",
        "missing required field: text [json-pointer:/blocks/2]",
    ]


def test_a_message_has_one_table_and_each_block_its_own_id() -> None:
    table = {"type": "table", "rows": [[CELL]]}
    inside = {"type": "container", "title": plain("t"), "child_blocks": [table]}
    with pytest.raises(SlackError, match="invalid_attachments"):
        checked_blocks([table, inside])
    with pytest.raises(SlackError, match="invalid_blocks"):
        checked_blocks([SECTION | {"block_id": "a"}, {"type": "divider", "block_id": "a"}])
    with pytest.raises(SlackError, match="invalid_blocks"):
        checked_blocks([table | {"block_id": "a"}, inside | {"child_blocks": [SECTION | {"block_id": "a"}]}])
    assert len({block["block_id"] for block in checked_blocks([SECTION, SECTION])}) == 2


def test_blocks_within_others_have_ids_of_their_own() -> None:
    (container,) = checked_blocks(
        [{"type": "container", "title": plain("t"), "child_blocks": [text_input("a"), SECTION]}]
    )
    inside = container["child_blocks"]
    assert isinstance(inside, list)
    assert (inside[0]["block_id"], bool(inside[1]["block_id"])) == ("a", True)
    (element,) = elements_of([container])
    assert (element.block_id, element.is_input) == ("a", True)


def test_markdown_counts_over_all_blocks() -> None:
    half = {"type": "markdown", "text": "x" * 6_000}
    assert len(checked_blocks([half, half])) == 2
    for more in ({"type": "markdown", "text": "x"}, {"type": "container", "title": plain("t"), "child_blocks": [half]}):
        with pytest.raises(SlackError, match="msg_blocks_too_long"):
            checked_blocks([half, half, more])


def test_blocks_of_attachments_are_checked_too() -> None:
    with pytest.raises(SlackError, match="invalid_blocks") as refused:
        checked_attachments([{"text": "x"}, {"blocks": [{"type": "nonsense"}]}])
    assert refused.value.fields["errors"] == ["unsupported type: nonsense [json-pointer:/attachments/1/blocks/0/type]"]


async def test_the_refusal_tells_the_place_in_slacks_words(world: World) -> None:
    blocks = [SECTION, {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}]
    body = orjson.dumps({"channel": world.general, "blocks": blocks})
    kind = {"Content-Type": "application/json; charset=utf-8"}
    status, answer = await world.raw("chat.postMessage", data=body, headers=kind)
    message = "must be less than 3001 characters [json-pointer:/blocks/1/text/text]"
    assert (status, answer) == (
        200,
        {
            "ok": False,
            "error": "invalid_blocks",
            "errors": [message],
            "response_metadata": {"messages": [f"[ERROR] {message}"]},
        },
    )


async def test_an_update_is_checked_like_a_post(world: World) -> None:
    ts = (await world.client().chat_postMessage(channel=world.general, text="x"))["ts"]
    wrong = {"channel": world.general, "ts": ts, "blocks": [{"type": "nonsense"}]}
    assert await world.error("chat.update", json=wrong) == "invalid_blocks"
    assert [message["text"] for message in await world.seen()] == ["x"]
