"""The demo in a browser: a person types, and sees 👀, the answer and ✅. With SWARM_TEST_SCREENSHOT a picture is kept.

SWARM_TEST_STREAM_SCREENSHOT keeps one of an answer while it is streamed.
"""

from __future__ import annotations

import os

import pytest
from playwright.async_api import Locator, Page, expect

from packages.swarm_lab.tests.e2e.demo import Demo
from tests.support.browser import browser
from tests.support.twin_client import TwinClient

pytestmark = pytest.mark.long


@pytest.mark.browser
@pytest.mark.req("OPS-01", "LOOP-08", "LOOP-14", "TWIN-05")
async def test_a_person_asks_in_a_channel_and_goes_on_in_the_thread(demo: Demo, twin: TwinClient) -> None:
    await twin.say("Good morning! The release notes are ready for a last look.", user="bob")
    await twin.say("I will read them after lunch :+1:", user="carol")
    async with browser() as context:
        page = await context.new_page()
        await page.goto(demo.url)
        await page.wait_for_selector("body[data-ready]")
        question = await _ask(page)
        await expect(question.locator("[data-name=eyes]")).to_contain_text("👀")
        await expect(question.locator("[data-name=white_check_mark]")).to_contain_text("✅")

        await question.locator(".replies").click()
        answers = page.locator("#thread article", has=page.locator(".badge"))
        await expect(answers).to_have_count(1)
        await expect(answers.first).to_contain_text("Hello Alice! I am lead, a rule-driven program.")

        await page.fill("#thread-text", "what time is it?")
        await page.press("#thread-text", "Enter")
        await expect(answers).to_have_count(2)
        await expect(answers.nth(1)).to_contain_text("UTC")
        follow_up = page.locator("#thread article").nth(2)
        await expect(follow_up.locator(".reaction")).to_have_count(2)
        await expect(question.locator(".replies")).to_contain_text("3 replies")


@pytest.mark.browser
@pytest.mark.req("OPS-01", "RUN-01", "RUN-05", "TWIN-05")
async def test_a_person_lets_the_coder_fix_a_test(demo: Demo, twin: TwinClient) -> None:
    await twin.say("Good morning! The release notes are ready for a last look.", user="bob")
    await twin.say("I will read them after lunch :+1:", user="carol")
    async with browser(width=1280, height=1290) as context:
        page = await context.new_page()
        await page.goto(demo.url)
        await page.wait_for_selector("body[data-ready]")
        await _opened(page, "@swarm fix the failing test")
        thread = page.locator("#thread")
        card = thread.locator("article", has_text="coder wants to edit prices.py (+1 −1)")
        await expect(card).to_contain_text("+    if pieces >= DISCOUNT_FROM:")
        await card.get_by_role("button", name="Approve").click()
        await expect(thread).to_contain_text("Approved by @alice")
        await expect(thread).to_contain_text("Fixed. All 2 tests pass.")
        await expect(thread).to_contain_text("1 file changed, 1 insertion(+), 1 deletion(-)")
        await expect(thread.locator("article", has_text=".diff")).to_be_visible()
        await expect(page.locator("#log article").last.locator("[data-name=white_check_mark]")).to_contain_text("✅")
        if path := os.environ.get("SWARM_TEST_SCREENSHOT"):
            await page.mouse.move(0, 0)  # away from the message, whose tools would hide the others
            await page.screenshot(path=path)


@pytest.mark.browser
@pytest.mark.req("OPS-01", "STREAM-03", "STREAM-12", "TWIN-05")
async def test_a_person_watches_an_answer_being_written(demo: Demo, twin: TwinClient) -> None:
    await twin.say("Good morning! The release notes are ready for a last look.", user="bob")
    await twin.say("I will read them after lunch :+1:", user="carol")
    async with browser() as context:
        page = await context.new_page()
        await page.goto(demo.url)
        await page.wait_for_selector("body[data-ready]")
        await page.fill("#text", "swarm#writer tell me about this repository")
        await page.press("#text", "Enter")
        question = page.locator("#log article", has_text="swarm#writer tell me").last
        await question.locator(".replies").click()
        answer = page.locator("#thread article", has=page.locator(".badge")).first
        await expect(answer.locator(".plan")).to_contain_text("count_lines")
        unfinished = page.locator("#thread article", has=page.locator(".caret"))
        await expect(unfinished.get_by_role("table")).to_contain_text(".py")  # while it is still being written
        if path := os.environ.get("SWARM_TEST_STREAM_SCREENSHOT"):
            await expect(answer).to_contain_text("Most of it is in these folders")
            await page.mouse.move(0, 0)
            await page.screenshot(path=path)
        await expect(answer).to_contain_text("writer · asked by @alice")
        await expect(answer.locator(".plan")).to_contain_text("5 of 5")
        await expect(answer.get_by_role("button", name="This answer is good")).to_be_visible()


@pytest.mark.browser
@pytest.mark.req("HITL-01", "HITL-02", "HITL-04", "HITL-05", "TWIN-05")
async def test_a_person_fills_in_a_form_and_approves_a_call_with_other_arguments(demo: Demo, twin: TwinClient) -> None:
    async with browser() as context:
        page = await context.new_page()
        await page.goto(demo.url)
        await page.wait_for_selector("body[data-ready]")
        await _opened(page, "swarm#writer ask me something")
        await page.get_by_role("button", name="Open the form").click()
        form = page.locator("dialog.modal")
        await form.get_by_label("Part").select_option("code")
        await form.get_by_label("Why").fill("it is *new* <!channel>")
        await form.get_by_label("E-mail").fill("ada@example.org")
        if path := os.environ.get("SWARM_TEST_FORM_SCREENSHOT"):
            await page.screenshot(path=path)
        await form.get_by_role("button", name="Send").click()
        thread = page.locator("#thread")
        await expect(thread).to_contain_text("Answered by @alice")
        await expect(thread).to_contain_text("it is *new* <!channel>")
        await expect(thread).to_contain_text("So it is “code”.")

        await _opened(page, "swarm#assistant write down: buy milk")
        card = thread.locator("article", has_text="assistant wants to write")
        await expect(card).to_contain_text("buy milk")
        if path := os.environ.get("SWARM_TEST_CARD_SCREENSHOT"):
            await page.screenshot(path=path)
        await card.get_by_role("button", name="Change arguments").click()
        await form.get_by_label("content").fill("- buy oat milk")
        await form.get_by_role("button", name="Approve").click()
        await expect(thread).to_contain_text("Approved with changed arguments by @alice")
        await expect(thread).to_contain_text("Appended 14 bytes to notes.md")


async def _opened(page: Page, text: str) -> None:
    """Says something in the channel, and opens its thread."""
    await page.fill("#text", text)
    await page.press("#text", "Enter")
    question = page.locator("#log article", has_text=text).last
    await question.locator(".replies").click()


async def _ask(page: Page) -> Locator:
    """Type a mention, with its completion; the message as the channel shows it."""
    await page.locator("#text").press_sequentially("@sw")
    await expect(page.locator("#choices [role=option]")).to_have_count(1)
    await page.press("#text", "Tab")
    await page.locator("#text").press_sequentially("hello")
    await expect(page.locator("#text")).to_have_value("@swarm hello")
    await page.press("#text", "Enter")
    return page.locator("#log article", has_text="@swarm hello")
