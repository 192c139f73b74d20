"""Block Kit on the twin's page: every block is drawn, every control notifies its app, and no script runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect
from slack_twin.workspace import Draft

from tests.twin_page import ALICE, BOB, GENERAL, RANDOM, SWARM, Scene, picture, say, scene

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.req("TWIN-05")]


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def options(*names: str) -> list[dict[str, Any]]:
    return [{"text": plain(name.capitalize()), "value": name} for name in names]


async def post(stage: Scene, *blocks: dict[str, Any], **more: Any) -> None:
    await stage.client.chat_postMessage(channel=GENERAL, text="blocks", blocks=list(blocks), **more)


async def chosen(stage: Scene) -> dict[str, Any]:
    """Returns the app's last action."""
    action: dict[str, Any] = (await stage.next_heard())["actions"][0]
    return action


def listen(stage: Scene) -> None:
    async def heard(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        await stage.hear(body)

    async def offers(ack: Any, payload: dict[str, Any]) -> None:
        await ack(options=options(f"{payload['value']}-one", f"{payload['value']}-two"))

    stage.app.action(re.compile(".*"))(heard)
    stage.app.options("far")(offers)


CONTROLS: list[dict[str, Any]] = [
    {"type": "static_select", "action_id": "near", "placeholder": plain("Near"), "options": options("red", "green")},
    {"type": "users_select", "action_id": "who", "placeholder": plain("Who")},
    {"type": "channels_select", "action_id": "where", "placeholder": plain("Where")},
    {"type": "datepicker", "action_id": "day", "initial_date": "2026-11-21"},
    {"type": "timepicker", "action_id": "hour"},
    {"type": "overflow", "action_id": "more", "options": options("copy", "move")},
    {"type": "radio_buttons", "action_id": "one", "options": options("left", "right")},
    {"type": "checkboxes", "action_id": "some", "options": options("ham", "eggs")},
    {"type": "multi_static_select", "action_id": "many", "placeholder": plain("Many"), "options": options("a1", "b2")},
    {"type": "external_select", "action_id": "far", "placeholder": plain("Far"), "min_query_length": 2},
]


async def test_every_control_tells_its_app_what_was_chosen() -> None:
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            page = await stage.window("alice")
            elements = [one for one in CONTROLS if not one["type"].startswith("multi_")]
            await post(
                stage,
                {"type": "actions", "block_id": "all", "elements": elements},
                {"type": "section", "block_id": "beside", "text": plain("Many"), "accessory": CONTROLS[8]},
            )
            await page.select_option("[data-action=near]", label="Green")
            assert (await chosen(stage))["selected_option"]["value"] == "green"
            await page.select_option("[data-action=who]", label="Bob")
            assert (await chosen(stage))["selected_user"] == BOB
            await page.select_option("[data-action=where]", label="# random")
            assert (await chosen(stage))["selected_channel"] == RANDOM
            await page.fill("[data-action=day]", "2027-01-02")
            assert (await chosen(stage))["selected_date"] == "2027-01-02"
            await page.fill("[data-action=hour]", "09:30")
            assert (await chosen(stage))["selected_time"] == "09:30"
            await page.click("[data-action=more]")
            await page.get_by_role("menuitem", name="Move").click()
            assert (await chosen(stage))["selected_option"]["value"] == "move"
            await page.get_by_label("Right").check()
            assert (await chosen(stage))["selected_option"]["value"] == "right"
            await page.get_by_label("Eggs").check()
            assert [one["value"] for one in (await chosen(stage))["selected_options"]] == ["eggs"]
            await page.select_option("[data-action=many] select", label="B2")
            assert [one["value"] for one in (await chosen(stage))["selected_options"]] == ["b2"]
            await page.click("[aria-label='Remove B2']")
            assert (await chosen(stage))["selected_options"] == []
            await page.fill("[data-action=far] input", "ab")
            await page.click("text=Ab-two")
            assert (await chosen(stage))["selected_option"]["value"] == "ab-two"
            await picture(page, "controls")


async def test_inputs_start_with_what_the_app_says_and_keep_what_was_typed_while_the_message_changes() -> None:
    inputs = {
        "plain_text_input": ("initial_value", "as before"),
        "email_text_input": ("initial_value", "a@example.com"),
        "url_text_input": ("initial_value", "https://example.com"),
        "number_input": ("initial_value", "7"),
        "datepicker": ("initial_date", "2026-11-21"),
        "timepicker": ("initial_time", "10:00"),
    }
    blocks = [
        {
            "type": "input",
            "block_id": kind,
            "label": plain(kind),
            "element": {"type": kind, "action_id": "it", key: value}
            | ({"is_decimal_allowed": False} if kind == "number_input" else {}),
        }
        for kind, (key, value) in inputs.items()
    ]
    button = {"type": "actions", "elements": [{"type": "button", "action_id": "go", "text": plain("Go")}]}
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            page = await stage.window("alice")
            sent = await stage.client.chat_postMessage(channel=GENERAL, text="form", blocks=[*blocks, button])
            for kind, (_, value) in inputs.items():
                await expect(page.get_by_label(kind)).to_have_value(value)
            await page.get_by_label("plain_text_input").fill("typed")
            await page.get_by_label("email_text_input").fill("")
            await stage.client.chat_update(
                channel=GENERAL, ts=sent["ts"], text="form", blocks=[{"type": "divider"}, *blocks, button]
            )
            await expect(page.locator("article hr")).to_be_visible()
            await expect(page.get_by_label("plain_text_input")).to_have_value("typed")
            await expect(page.get_by_label("email_text_input")).to_be_focused()
            await page.click("[data-action=go]")
            values = (await stage.next_heard())["state"]["values"]
            assert values["plain_text_input"]["it"]["value"] == "typed"
            assert values["email_text_input"]["it"]["value"] is None
            assert values["number_input"]["it"]["value"] == "7"


async def test_feedback_is_given_by_a_thumb_that_stays_marked() -> None:
    def thumb(name: str) -> dict[str, Any]:
        return {"text": plain(name), "value": name, "accessibility_label": f"{name} answer"}

    feedback = {
        "type": "feedback_buttons",
        "action_id": "judge",
        "positive_button": thumb("good"),
        "negative_button": thumb("bad"),
    }
    trash = {"type": "icon_button", "action_id": "away", "icon": "trash", "text": plain("Take it away")}
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            page = await stage.window("alice")
            await post(stage, {"type": "context_actions", "elements": [feedback, trash]})
            await page.get_by_label("bad answer").click()
            assert (await chosen(stage))["value"] == "bad"
            await expect(page.get_by_label("bad answer")).to_have_attribute("aria-pressed", "true")
            await expect(page.get_by_label("good answer")).to_have_attribute("aria-pressed", "false")
            await page.get_by_label("Take it away").click()
            assert (await chosen(stage))["action_id"] == "away"


async def test_an_app_that_does_not_answer_is_told_of() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await post(stage, {"type": "actions", "elements": [{"type": "button", "action_id": "go", "text": plain("Go")}]})
        await page.click("[data-action=go]")
        await expect(page.locator("#notice")).to_contain_text("The app did not accept this")


MARKDOWN = r"""# Title with `code`
Text **bold *both* bold**, _it_, ~~gone~~, [a link](https://example.com/a_(b)) and https://example.com/x.

* one
  1. inner
  2. more
* two with <@U00000BOB>
- [x] done

> quoted
> - still **quoted**

| left | right |
|:-----|------:|
| `a\|b` stays | 1 |
| c | 2 |

---
```js
const x = "**not bold**"; // <b>
"""


async def test_markdown_is_drawn_as_it_is_meant_even_while_it_is_unfinished() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await stage.client.chat_postMessage(channel=GENERAL, markdown_text=MARKDOWN)
        shown = page.locator("#log article .content")
        await expect(shown.locator("h3 code")).to_have_text("code")
        await expect(shown.locator("strong").first).to_have_text("bold both bold")
        await expect(shown.locator("strong em")).to_have_text("both")
        await expect(shown.locator("s")).to_have_text("gone")
        links = await shown.locator("a").evaluate_all("links => links.map((one) => [one.textContent, one.href])")
        assert links[:2] == [
            ["a link", "https://example.com/a_(b)"],
            ["https://example.com/x", "https://example.com/x"],
        ]
        await expect(shown.locator("ul > li > ol > li")).to_have_text(["inner", "more"])
        await expect(shown.locator("li .mention")).to_have_text("@bob")
        await expect(shown.locator("li.check input")).to_be_checked()
        await expect(shown.locator("blockquote li strong")).to_have_text("quoted")
        await expect(shown.locator("td.right")).to_have_text(["1", "2"])
        await expect(shown.locator("td code")).to_have_text("a|b")
        await expect(shown.locator("pre")).to_have_text('const x = "**not bold**"; // <b>\n')
        await picture(page, "markdown")


SLOW = (
    "x " + "`" * 11_000,
    "**a " * 2_900,
    "_a " * 3_900,
    "[" * 11_000,
    "# x" + " " * 11_000 + "y",
    "|" + " " * 11_000 + "x\n|-",
    "> " * 5_000,
    "\n".join("  " * depth + "- x" for depth in range(100)),
)


async def test_text_that_is_made_to_be_slow_is_not() -> None:
    async with scene() as stage:
        stage.world.twin.limits.enabled = False
        page = await stage.window("alice")
        for text in SLOW:
            await stage.client.chat_postMessage(channel=GENERAL, markdown_text=text)
        await expect(page.locator("article")).to_have_count(len(SLOW), timeout=20_000)


async def test_every_block_is_drawn() -> None:
    rich = {
        "type": "rich_text",
        "elements": [
            {
                "type": "rich_text_section",
                "elements": [
                    {"type": "text", "text": "Hello ", "style": {"bold": True, "italic": True}},
                    {"type": "user", "user_id": ALICE},
                    {"type": "emoji", "name": "tada"},
                    {"type": "link", "url": "https://example.com", "text": "there"},
                ],
            },
            {
                "type": "rich_text_list",
                "style": "bullet",
                "indent": 0,
                "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "outer"}]}],
            },
            {
                "type": "rich_text_list",
                "style": "ordered",
                "indent": 1,
                "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "inner"}]}],
            },
            {"type": "rich_text_quote", "elements": [{"type": "text", "text": "said"}]},
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "a  b"}]},
        ],
    }
    table = {
        "type": "table",
        "rows": [
            [{"type": "raw_text", "text": "Name"}, {"type": "raw_text", "text": "Count"}],
            [{"type": "raw_text", "text": "one"}, {"type": "raw_text", "text": "1"}],
        ],
        "column_settings": [{"align": "left"}, {"align": "right"}],
    }
    card = {"type": "task_card", "task_id": "t", "title": "Read", "status": "error"}
    async with scene() as stage:
        page = await stage.window("alice")
        await post(
            stage,
            {"type": "header", "text": plain("Head :wave:")},
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "*F1*"}, plain("F2")]},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "small `code`"}]},
            {"type": "image", "image_url": "https://example.com/cat.png", "alt_text": "a cat", "title": plain("Cat")},
            rich,
            table,
            {**card, "output": {"type": "rich_text", "elements": [rich["elements"][3]]}},
        )
        shown = page.locator("#log article .content")
        await expect(shown.locator("h3")).to_have_text("Head 👋")
        await expect(shown.locator(".fields strong")).to_have_text("F1")
        await expect(shown.locator(".context code")).to_have_text("code")
        await expect(shown.locator("a .elsewhere")).to_contain_text("a cat")  # external images are not loaded
        await expect(shown.locator("strong").filter(has_text="Hello")).to_be_visible()
        await expect(shown.locator(".mention.me")).to_have_text("@alice")
        await expect(shown.locator("ul > li > ol > li, ul > ol > li")).to_have_text("inner")
        await expect(shown.locator("blockquote").first).to_have_text("said")
        await expect(shown.locator("pre").first).to_have_text("a  b")
        await expect(shown.locator("td.right")).to_have_text("1")
        await expect(shown.locator("[data-status=error]")).to_contain_text("Read")
        await expect(shown.get_by_role("img", name="failed")).to_be_visible()
        await picture(page, "blocks")


EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script><b>b</b>"


async def test_nothing_of_a_message_runs_or_is_loaded_wherever_it_stands() -> None:
    script = "javascript:alert(1)"
    hostile: tuple[dict[str, Any], ...] = (
        {"type": "section", "text": {"type": "mrkdwn", "text": f"{EVIL} <{script}|click>"}},
        {"type": "section", "text": plain(EVIL), "fields": [plain(EVIL)]},
        {"type": "header", "text": plain(EVIL)},
        {"type": "markdown", "text": f"{EVIL}\n[click]({script})\n![x](https://example.com/spy.png)\n| {EVIL} |\n|--|"},
        {"type": "image", "image_url": script, "alt_text": EVIL, "title": plain(EVIL)},
        {"type": "image", "image_url": "https://example.com/spy.png", "alt_text": "spy"},
        {
            "type": "task_card",
            "task_id": "1",
            "title": EVIL,
            "status": EVIL,
            "sources": [{"url": script, "text": EVIL}],
        },
        {"type": "plan", "title": EVIL, "tasks": [{"title": EVIL, "status": "complete", "details": EVIL}]},
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "link", "url": script}]}],
        },
        {"type": "constructor", "text": EVIL},
        {"type": "section", "accessory": {"type": "__proto__"}, "text": None},
        {"type": "actions", "elements": [{"type": "button", "text": plain(EVIL), "url": script, "action_id": "a"}]},
        {"type": "table", "rows": [[{"type": "raw_text", "text": EVIL}]]},
    )
    attached: dict[str, object] = {
        "color": "red;background:url(//example.com)",
        "text": EVIL,
        "title": EVIL,
        "title_link": script,
    }
    async with scene() as stage:
        page = await stage.window("alice")
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url) if "example.com" in request.url else None)
        workspace = stage.world.twin.workspace
        numbered = tuple(block | {"block_id": f"b{place}"} for place, block in enumerate(hostile))
        draft = Draft(
            user=SWARM, app_id="A000SWARM", text=EVIL, username=EVIL, blocks=numbered, attachments=(attached,)
        )
        workspace.post(workspace.directory.channels[GENERAL], draft)
        await say(page, EVIL)
        articles = page.locator("#log article")
        await expect(articles).to_have_count(2)
        assert await page.locator("#log :is(script, img, b, iframe, object, [onerror], [style*=url])").count() == 0
        assert await page.locator("#log a[href^='javascript']").count() == 0
        await expect(articles.first.locator(".author")).to_have_text(EVIL)
        await expect(articles.nth(1).locator(".content")).to_have_text(EVIL)
        await page.locator("[data-action=a]").click()
        assert asked == []


async def test_the_page_allows_only_its_own_script_and_style() -> None:
    async with scene() as stage:
        page = await stage.context.new_page()
        answer = await page.goto(stage.world.base)
        assert answer is not None
        policy = (await answer.all_headers())["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy


async def test_a_message_for_one_person_is_seen_by_them_alone_and_its_button_works() -> None:
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            alice, bob = await stage.window("alice"), await stage.window("bob")
            button = {"type": "button", "action_id": "mine", "text": plain("Mine"), "value": "v"}
            blocks = [{"type": "actions", "elements": [button]}]
            await stage.client.chat_postEphemeral(channel=GENERAL, user=ALICE, text="psst", blocks=blocks)
            await expect(alice.locator(".message.private")).to_contain_text("Only visible to you")
            await alice.click("[data-action=mine]")
            assert (await stage.next_heard())["container"]["is_ephemeral"] is True
            await say(alice, "and this is for everybody")
            await expect(bob.locator("#log article")).to_have_count(1)


async def test_a_home_tab_is_opened_published_and_used() -> None:
    async with scene() as stage:
        listen(stage)

        async def opened(event: dict[str, Any], client: Any) -> None:
            button = {"type": "button", "action_id": "home", "text": plain("Press"), "value": "h"}
            blocks = [{"type": "header", "text": plain("At home")}, {"type": "actions", "elements": [button]}]
            await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": blocks})

        stage.app.event("app_home_opened")(opened)
        async with stage.connected():
            page = await stage.window("alice")
            await page.click("#directs [data-channel]")
            await page.get_by_role("tab", name="Home").click()
            await expect(page.locator("#home h3")).to_have_text("At home")
            await expect(page.locator("#composer")).to_be_hidden()
            await page.click("[data-action=home]")
            assert (await stage.next_heard())["view"]["type"] == "home"
            await page.get_by_role("tab", name="Messages").click()
            await expect(page.locator("#composer")).to_be_visible()


async def test_a_command_is_completed_and_run_and_an_unknown_one_is_explained() -> None:
    async with scene() as stage:

        async def run(ack: Any, command: dict[str, Any]) -> None:
            await ack(f"You said {command['text']}")

        stage.app.command("/swarm")(run)
        async with stage.connected():
            page = await stage.window("alice")
            await type_slowly(page, "/sw")
            await expect(page.locator("#choices [role=option]")).to_contain_text("swarm")
            await page.press("#text", "Tab")
            await type_slowly(page, "status please")
            await page.press("#text", "Enter")
            await expect(page.locator(".message.private")).to_contain_text("You said status please")
            await page.fill("#text", "/nothing")
            await page.press("#text", "Enter")
            await expect(page.locator("#notice")).to_contain_text("no app has the command '/nothing'")
            await expect(page.locator("#text")).to_have_value("/nothing")


async def type_slowly(page: Page, text: str) -> None:
    await page.locator("#text").press_sequentially(text)


async def test_two_modals_stand_in_front_of_each_other_and_close_one_by_one() -> None:
    def view(title: str, *blocks: dict[str, Any]) -> dict[str, Any]:
        return {"type": "modal", "title": plain(title), "notify_on_close": True, "blocks": list(blocks)}

    inner = {"type": "actions", "elements": [{"type": "button", "action_id": "deeper", "text": plain("Deeper")}]}
    async with scene() as stage:

        async def open_first(ack: Any, body: dict[str, Any], client: Any) -> None:
            await ack()
            await client.views_open(trigger_id=body["trigger_id"], view=view("First", inner))

        async def open_second(ack: Any, body: dict[str, Any], client: Any) -> None:
            await ack()
            note = {"type": "section", "text": plain("second")}
            await client.views_push(trigger_id=body["trigger_id"], view=view("Second", note))

        async def closed(ack: Any, body: dict[str, Any]) -> None:
            await ack()
            await stage.hear(body)

        stage.app.action("first")(open_first)
        stage.app.action("deeper")(open_second)
        stage.app.view_closed("")(closed)
        async with stage.connected():
            page = await stage.window("alice")
            button = {"type": "button", "action_id": "first", "text": plain("Open")}
            await post(stage, {"type": "actions", "elements": [button]})
            await page.click("[data-action=first]")
            await page.click("[data-action=deeper]")
            title = page.locator("dialog.modal h2")
            await expect(title).to_have_text("Second")
            await page.keyboard.press("Escape")
            await expect(title).to_have_text("First")
            assert (await stage.next_heard())["view"]["title"]["text"] == "Second"
            await page.click("dialog.modal [aria-label=Close]")
            await expect(title).to_have_count(0)
            await expect(page.locator("[data-action=first]")).to_be_focused()
