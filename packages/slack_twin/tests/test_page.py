"""The page in a real browser: a person's display, typing and clicks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright, expect
from slack_twin.workspace import Draft

from tests.browser import CHROMIUM, FLAGS, PATIENCE_MILLISECONDS
from tests.world import World, new_world

# One browser serves all tests of this file, so they share an event loop; each test has its own twin.
pytestmark = [
    pytest.mark.req("TWIN-05"),
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("page"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no Chromium at {CHROMIUM}: the page is NOT tested (set CHROMIUM to its path)")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """Yields a separate browser context. An error in the page's script fails the test."""
    context = await chromium.new_context()
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    problems: list[str] = []
    context.on("weberror", lambda problem: problems.append(str(problem.error)))
    yield context
    await context.close()
    assert problems == []


@pytest_asyncio.fixture(loop_scope="module")
async def world() -> AsyncIterator[World]:
    async with new_world() as world:
        yield world


async def opened(browser: BrowserContext, world: World, user: str = "alice", place: str = "") -> Page:
    """Opens a person's page."""
    page = await browser.new_page()
    await page.goto(f"{world.base}?user={user}{place}")
    await page.wait_for_selector("body[data-ready]")
    return page


async def test_a_newcomer_sees_what_to_do_and_does_it(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    await expect(page.locator(".welcome")).to_contain_text("Type @swarm hello in #general")
    await page.click(".begin")
    await page.press("#text", "Enter")
    await expect(page.locator("article .content")).to_have_text("@swarm hello")
    assert [message["text"] for message in await world.seen()] == ["@swarm hello"]


async def test_an_answer_and_its_reactions_appear_by_themselves(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    ts = await world.say("alice", "@swarm hello")
    await world.client().reactions_add(channel=world.general, name="eyes", timestamp=ts)
    await expect(page.locator(".reaction")).to_have_text("👀1")
    await world.client().chat_postMessage(channel=world.general, thread_ts=ts, text="*hi* <@U000ALICE>")
    await expect(page.locator(".replies")).to_contain_text("1 reply")
    await page.click(".replies")
    answer = page.locator("#thread article").nth(1)
    await expect(answer.locator(".badge")).to_have_text("APP")
    await expect(answer.locator("strong", has_text="hi")).to_be_visible()
    await expect(answer.locator(".mention.me")).to_have_text("@alice")
    await page.fill("#thread-text", "thank you")
    await page.press("#thread-text", "Enter")
    await expect(page.locator("#thread article").nth(2)).to_contain_text("thank you")
    assert [message["text"] for message in await world.seen(thread_ts=ts)][2] == "thank you"


async def test_two_people_see_each_other_and_what_they_missed(browser: BrowserContext, world: World) -> None:
    alice, bob = await opened(browser, world, "alice"), await opened(browser, world, "bob", "#C00RANDOM")
    await alice.fill("#text", "@bob are you there?")
    await alice.press("#text", "Enter")
    unread = bob.locator("[data-channel=C0GENERAL]")
    await expect(unread.locator(".count")).to_have_text("1")
    await unread.click()
    await expect(bob.locator("article .content")).to_have_text("@bob are you there?")
    await bob.click("[data-channel=C00RANDOM]")
    await expect(bob.locator("#title")).to_have_text("# random")
    await expect(unread.locator(".count")).to_have_count(0)


async def test_a_mention_is_completed_from_the_keyboard(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    await page.type("#text", "hi @")
    await expect(page.locator("#choices [role=option]")).to_have_count(3)
    await page.type("#text", "sw")
    await page.press("#text", "Enter")
    await expect(page.locator("#text")).to_have_value("hi @swarm ")
    await page.press("#text", "Enter")
    await expect(page.locator("article")).to_have_count(1)
    stored = (await world.client().conversations_history(channel=world.general))["messages"][0]["text"]
    assert stored.strip() == "hi <@U000SWARM>"


async def test_markup_in_a_message_stays_text(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    evil = "<img src=x onerror=alert(1)> <script>alert(2)</script> [x](javascript:alert(3)) &lt;b&gt;"
    await world.say("bob", evil)
    post = world.client().chat_postMessage
    await post(channel=world.general, text="<javascript:alert(4)|click> " + evil)
    await post(channel=world.general, markdown_text=evil + "\n\n# <b>head</b>")
    hostile: dict[str, object] = {
        "type": "image",
        "block_id": "b",
        "image_url": "javascript:alert(5)",
        "alt_text": "<i>",
    }
    say = Draft(user="U000SWARM", app_id="A000SWARM", text="x", blocks=(hostile,))  # the Web API would refuse it
    world.twin.workspace.post(world.twin.workspace.directory.channels[world.general], say)
    await expect(page.locator("article")).to_have_count(4)
    assert await page.locator("#log img, #log script, #log b, #log i, #log a[href^=javascript]").count() == 0
    await expect(page.locator("article .content").first).to_contain_text(evil)
    assert dialogs == []


async def put_right(page: Page, world: World) -> None:
    """Posts a message of alice with a typo, and corrects it."""
    await world.say("alice", "frist")
    await page.hover("article")
    await page.click("[aria-label=Edit]")
    await page.fill(".editing", "first")
    await page.press(".editing", "Enter")
    await expect(page.locator("article .content")).to_have_text("first (edited)")


async def test_own_messages_are_edited_and_deleted(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    await put_right(page, world)
    await page.hover("article")
    await page.click("[aria-label=Delete]")
    await page.click("dialog button:text-is('Delete')")
    await expect(page.locator(".welcome")).to_be_visible()


async def test_an_edit_that_others_see_before_its_answer_comes_is_shown_to_who_made_it(
    browser: BrowserContext, world: World
) -> None:
    page = await opened(browser, world)
    other = await opened(browser, world, user="bob")
    two_frames = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"

    async def slow(route: Route) -> None:
        answer = await route.fetch()
        await expect(other.locator("article .content")).to_have_text("first (edited)")
        await page.evaluate(two_frames)  # now the update has arrived here as well, while the field was open
        await route.fulfill(response=answer)

    await page.route("**/twin/messages", slow)
    await put_right(page, world)


async def test_a_direct_conversation_and_a_status_are_shown(browser: BrowserContext, world: World) -> None:
    page = await opened(browser, world)
    await page.click("#directs button")
    await page.fill("#text", "hello")
    await page.press("#text", "Enter")
    await expect(page.locator("article")).to_have_count(1)
    (message,) = await world.seen("@swarm", user="alice")
    channel = (await world.client().conversations_open(users="U000ALICE"))["channel"]["id"]
    await world.client().assistant_threads_setStatus(channel_id=channel, thread_ts=message["ts"], status="is thinking…")
    await expect(page.locator("#working")).to_have_text("swarm is thinking…")
    await world.advance(120)
    await expect(page.locator("#working")).to_have_text("")


async def test_a_permalink_opens_the_thread(browser: BrowserContext, world: World) -> None:
    root = await world.say("alice", "root")
    reply = await world.say("bob", "the reply", thread_ts=root)
    link = (await world.client().chat_getPermalink(channel=world.general, message_ts=reply))["permalink"]
    page = await browser.new_page()
    await page.goto(link)
    await expect(page.locator("#thread article.marked")).to_contain_text("the reply")


async def test_the_page_fits_a_phone(browser: BrowserContext, world: World) -> None:
    await world.say("bob", "x" * 300 + " https://example.com/" + "y" * 200)
    page = await opened(browser, world)
    await page.set_viewport_size({"width": 390, "height": 844})
    await expect(page.locator("#sidebar")).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.click("#menu")
    await page.click("[data-channel=C00RANDOM]")
    await expect(page.locator("#title")).to_have_text("# random")
    await expect(page.locator("#sidebar")).to_be_hidden()


async def test_an_unknown_person_is_told_who_there_is(browser: BrowserContext, world: World) -> None:
    page = await browser.new_page()
    await page.goto(f"{world.base}?user=zed")
    await expect(page.locator("#notice")).to_have_text("no user 'zed'; available: alice, bob, carol")
