"""What people post on the twin's page besides text: a pasted table, a clip with its transcript, a forward."""

from __future__ import annotations

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.twin_page import GENERAL, RANDOM, picture, scene

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.req("TWIN-05", "TWIN-07")]


async def paste(page: Page, kind: str, content: str) -> None:
    await page.evaluate(
        """([kind, content]) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData(kind, content);
            const pasted = new ClipboardEvent("paste", { clipboardData, cancelable: true });
            document.querySelector("#text").dispatchEvent(pasted);
        }""",
        [kind, content],
    )


async def test_a_table_is_pasted_a_clip_described_and_a_message_forwarded() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await paste(page, "text/plain", "just words")
        await expect(page.locator("#files li")).to_have_count(0)
        await paste(page, "text/html", "<table><tr><th>City<th>Sum</tr><tr><td>Bonn<td>12</tr></table>")
        await page.set_input_files("#pick", FilePayload(name="clip.m4a", mimeType="audio/mp4", buffer=b"x"))
        await page.select_option("#files select", "voice")
        await page.fill("#files input", "check the notes")
        await page.fill("#text", "The *figures*")
        await picture(page, "posting")
        await page.press("#text", "Enter")
        said = page.locator("article")
        await expect(said.locator("td")).to_have_text(["Bonn", "12"])
        await expect(said.locator(".file")).to_contain_text("“check the notes”")
        (kept,) = await stage.world.seen()
        assert [block["type"] for block in kept["blocks"]] == ["rich_text", "table"]
        assert (kept["files"][0]["subtype"], kept["files"][0]["transcript"]) == ("slack_audio", "check the notes")

        await said.hover()
        await said.get_by_label("Forward").click()
        await page.select_option("dialog select", RANDOM)
        await page.fill("dialog input", "see below")
        await page.click("dialog [value=yes]")
        await page.click(f"[data-channel={RANDOM}]")
        await expect(page.locator("article .attachment")).to_contain_text("Alice")
        await expect(page.locator("article .attachment td")).to_have_text(["Bonn", "12"])
        await picture(page, "forwarded")
        (shared,) = await stage.world.seen("random")
        assert (shared["text"], shared["attachments"][0]["channel_id"]) == ("see below", GENERAL)


async def test_markdown_does_not_decode_the_targets_of_links() -> None:
    async with scene() as stage:
        text = "[a](https://x.test/?a=1&amp;b=2) <https://x.test/?c=1&amp;d=2> https://x.test/?e=1&amp;f=2"
        await stage.client.chat_postMessage(channel=GENERAL, markdown_text=text)
        await stage.client.chat_postMessage(channel=GENERAL, text="<https://x.test/?g=1&amp;h=2|b>")
        page = await stage.window("bob")
        links = await page.locator("article .content a").evaluate_all(
            "all => all.map((one) => one.getAttribute('href'))"
        )
        wanted = [f"https://x.test/?{first}=1&amp;{then}=2" for first, then in ("ab", "cd", "ef")]
        assert links == [*wanted, "https://x.test/?g=1&h=2"]
