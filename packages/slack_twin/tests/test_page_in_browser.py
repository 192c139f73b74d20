"""A session of two people in the twin: a thread, a streamed answer, a form, a modal, files, Stop."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import FilePayload, expect

from tests.twin_page import ALICE, GENERAL, Scene, picture, say, scene

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.req("TWIN-05")]

# An image of one pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkaPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

FORM: list[dict[str, Any]] = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "Which *build* shall I deploy?"}},
    {
        "type": "input",
        "block_id": "why",
        "label": {"type": "plain_text", "text": "Why now?"},
        "element": {"type": "plain_text_input", "action_id": "reason"},
    },
    {
        "type": "actions",
        "block_id": "decide",
        "elements": [
            {
                "type": "button",
                "action_id": "deploy",
                "style": "primary",
                "value": "build-7",
                "text": {"type": "plain_text", "text": "Deploy"},
                "confirm": {
                    "title": {"type": "plain_text", "text": "Deploy now?"},
                    "text": {"type": "plain_text", "text": "It goes live at once."},
                    "confirm": {"type": "plain_text", "text": "Yes, deploy"},
                    "deny": {"type": "plain_text", "text": "Not yet"},
                },
            },
            {"type": "button", "action_id": "details", "text": {"type": "plain_text", "text": "Details…"}},
        ],
    },
]

MODAL = {
    "type": "modal",
    "callback_id": "release",
    "title": {"type": "plain_text", "text": "Release"},
    "submit": {"type": "plain_text", "text": "Save"},
    "blocks": [
        {
            "type": "input",
            "block_id": "version",
            "label": {"type": "plain_text", "text": "Version"},
            "element": {"type": "plain_text_input", "action_id": "version"},
            "hint": {"type": "plain_text", "text": "three numbers"},
        },
        {
            "type": "input",
            "block_id": "parts",
            "optional": True,
            "label": {"type": "plain_text", "text": "Parts"},
            "element": {
                "type": "checkboxes",
                "action_id": "parts",
                "options": [
                    {"text": {"type": "mrkdwn", "text": "*Server*"}, "value": "server"},
                    {"text": {"type": "mrkdwn", "text": "*Page*"}, "value": "page"},
                ],
            },
        },
    ],
}


def listen(stage: Scene) -> None:
    """Defines the app of this session: it opens a modal, rejects its input once, and posts the input."""

    async def deploy(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        await stage.hear(body)

    async def details(ack: Any, body: dict[str, Any], client: Any) -> None:
        await client.views_open(trigger_id=body["trigger_id"], view=MODAL)
        await ack()

    async def release(ack: Any, view: dict[str, Any], client: Any) -> None:
        values = view["state"]["values"]
        version = values["version"]["version"]["value"]
        if version.count(".") != 2:
            await ack(response_action="errors", errors={"version": "Write it like 1.2.3"})
            return
        await ack()
        parts = [option["value"] for option in values["parts"]["parts"]["selected_options"]]
        await client.chat_postMessage(channel=GENERAL, text=f"Saved {version} with {', '.join(parts)}")

    async def stopped(event: dict[str, Any]) -> None:
        await stage.hear(event)

    async def anything(event: dict[str, Any]) -> None:
        """Acknowledges messages."""

    stage.app.action("deploy")(deploy)
    stage.app.action("details")(details)
    stage.app.view("release")(release)
    stage.app.event("agent_session_stopped")(stopped)
    stage.app.event("app_mention")(anything)
    stage.app.event("message")(anything)


async def test_two_people_talk_in_a_thread_while_an_answer_is_streamed_and_stopped() -> None:
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            alice, bob = await stage.window("alice"), await stage.window("bob")
            await say(alice, "@swarm what is left for the release?")
            question = bob.locator("#log article", has_text="what is left")
            await expect(question.locator(".author")).to_have_text("Alice")
            (root,) = await stage.world.seen()

            stream = await stage.client.chat_startStream(
                channel=GENERAL,
                thread_ts=root["ts"],
                recipient_user_id="U00000BOB",
                recipient_team_id="T0TWIN",
                task_display_mode="plan",
                chunks=[
                    {"type": "plan_update", "title": "Look at the release"},
                    {"type": "task_update", "id": "1", "title": "Read the notes", "status": "in_progress"},
                ],
            )
            await question.locator(".replies").click()
            answer = bob.locator("#thread article").nth(1)
            await expect(answer.locator(".plan")).to_contain_text("Look at the release")
            await expect(answer.locator("[data-status=in_progress]")).to_contain_text("Read the notes")
            for piece in ("Two things are **left**", ":\n\n- the notes\n- the"):
                await stage.client.chat_appendStream(
                    channel=GENERAL, ts=stream["ts"], chunks=[{"type": "markdown_text", "text": piece}]
                )
            await expect(answer.locator("strong", has_text="left")).to_be_visible()
            await expect(answer.locator("li")).to_have_text(["the notes", "the"])
            await expect(answer).to_have_class("message streaming")
            await say(bob, "I do the notes.", "#thread-text")
            await picture(bob, "stream")

            await alice.locator("#log .replies").click()
            await expect(alice.locator("#thread article")).to_have_count(3)
            others = alice.locator("#thread article").nth(1)  # Slack shows a stream live to its recipient only
            await expect(others.locator("[data-status=in_progress]")).to_contain_text("Read the notes")
            await expect(others).not_to_contain_text("left")
            await alice.locator("#thread .stop").first.click()
            event = await stage.next_heard()
            assert (event["user"], event["streaming_message_ts"]) == (ALICE, [stream["ts"]])
            await expect(answer).to_have_class("message")
            await expect(bob.locator(".stop")).to_have_count(0)
            await expect(others.locator("strong", has_text="left")).to_be_visible()


async def test_a_form_is_filled_in_confirmed_and_leads_to_a_modal_that_complains_and_is_saved() -> None:
    async with scene() as stage:
        listen(stage)
        async with stage.connected():
            page = await stage.window("alice")
            await stage.client.chat_postMessage(channel=GENERAL, text="Deploy?", blocks=FORM)
            await page.fill("[data-block=why] input", "it is green")
            await page.click("text=Deploy >> nth=-1")
            await picture(page, "confirm")
            await page.click("text=Not yet")
            await page.click("[data-action=deploy]")
            await page.click("text=Yes, deploy")
            pressed = await stage.next_heard()
            assert pressed["actions"][0]["value"] == "build-7"
            assert pressed["state"]["values"]["why"]["reason"]["value"] == "it is green"
            assert stage.heard.empty()  # pressing "Not yet" sent nothing to the app

            await page.click("[data-action=details]")
            modal = page.locator("dialog.modal")
            await expect(modal.locator("h2")).to_have_text("Release")
            await page.get_by_label("Version").fill("1.2")
            await page.get_by_label("Page").check()
            await picture(page, "modal")
            await modal.get_by_text("Save").click()
            await expect(modal.locator("[role=alert]")).to_have_text("Write it like 1.2.3")
            await expect(page.get_by_label("Version")).to_be_focused()
            await picture(page, "modal-error")
            await page.get_by_label("Version").fill("1.2.3")
            await page.keyboard.press("Enter")
            await expect(modal).to_have_count(0)
            await expect(page.locator("#log article .content").last).to_have_text("Saved 1.2.3 with page")


async def test_files_are_added_by_button_and_by_drop_and_come_back_whole(tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "dot.png").write_bytes(PNG)
    async with scene() as stage:
        alice, bob = await stage.window("alice"), await stage.window("bob")
        await alice.set_input_files("#pick", [tmp_path / "notes.bin", tmp_path / "dot.png"])
        await expect(alice.locator("#files li")).to_have_count(2)
        await alice.click("[aria-label='Remove dot.png']")
        await drop(alice, "dropped.png")
        await expect(alice.locator("#files li")).to_have_count(2)
        await say(alice, "both of them")
        message = bob.locator("#log article", has_text="both of them")
        await expect(message.locator("a.file")).to_contain_text("10 kB")
        await expect(message.locator("img")).to_have_js_property("naturalWidth", 1)
        await picture(bob, "files")
        async with bob.expect_download() as started:
            await message.locator("a.file").click()
        download = await started.value
        assert download.suggested_filename == "notes.bin"
        assert Path(await download.path()).read_bytes() == bytes(range(256)) * 40
        await expect(alice.locator("#files")).to_be_hidden()


async def drop(page: Any, name: str) -> None:
    """Drops an image on the conversation."""
    encoded = base64.b64encode(PNG).decode()
    data = await page.evaluate_handle(
        "([name, encoded]) => { const data = new DataTransfer();"
        " const bytes = Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));"
        " data.items.add(new File([bytes], name, { type: 'image/png' })); return data; }",
        [name, encoded],
    )
    await page.dispatch_event("#conversation", "dragover", {"dataTransfer": data})
    await expect(page.locator("#conversation")).to_have_class("conversation dropping")
    await page.dispatch_event("#conversation", "drop", {"dataTransfer": data})


async def test_a_file_that_is_too_large_is_refused_and_the_message_waits() -> None:
    async with scene() as stage:
        stage.world.twin.workspace.files.cap_bytes = 1_000_000
        page = await stage.window("alice")
        await page.fill("#text", "with a file")
        too_large = FilePayload(name="large.bin", mimeType="application/octet-stream", buffer=b"x" * 1_000_001)
        await page.set_input_files("#pick", [too_large])
        await expect(page.locator("#notice")).to_have_text("large.bin: a file has at most 1 MB here")
        await expect(page.locator("#files")).to_be_hidden()
        await expect(page.locator("#text")).to_have_value("with a file")
        assert await stage.world.seen() == []
