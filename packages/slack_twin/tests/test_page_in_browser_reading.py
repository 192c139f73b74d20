"""Reading on the twin's page: unread marks, keyboard, lost connections, long conversations, small and dark screens."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, WebSocketRoute, expect

from tests.naughty import TEXT, hidden_in
from tests.twin_page import GENERAL, RANDOM, open_pages_are, picture, say, scene

LINE = re.compile("/page/live")
pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.req("TWIN-05")]


async def test_unread_marks_agree_over_windows_and_survive_a_reload() -> None:
    async with scene() as stage:
        first, second = await stage.window("alice", RANDOM), await stage.window("alice", RANDOM)
        await stage.world.say("bob", "nothing special")
        for page in (first, second):
            await expect(page.locator(f"[data-channel={GENERAL}]")).to_have_class("entry unread")
        await stage.world.say("bob", "@alice look here")
        await stage.world.say("carol", "@here everybody")
        await second.reload()
        for page in (first, second):
            await expect(page.locator(f"[data-channel={GENERAL}] .count")).to_have_text("2")
            await expect(page).to_have_title("(2) #random · Twin")
        await first.click(f"[data-channel={GENERAL}]")
        await expect(first.locator(".line.new + article")).to_contain_text("nothing special")
        await expect(second.locator(f"[data-channel={GENERAL}]")).to_have_class("entry")
        await expect(second.locator(".count")).to_have_count(1)  # the count of the phone's menu, which is hidden
        await expect(second).to_have_title("#random · Twin")


async def test_replies_to_oneself_are_counted_until_the_thread_is_read_and_those_among_others_are_not() -> None:
    async with scene() as stage:
        alice, carol = await stage.window("alice", RANDOM), await stage.window("carol", RANDOM)
        root = await stage.world.say("alice", "a question")
        await stage.client.chat_postMessage(channel=GENERAL, thread_ts=root, text="an answer")
        await stage.world.say("bob", "another", thread_ts=root)
        await expect(alice.locator(f"[data-channel={GENERAL}] .count")).to_have_text("2")
        await expect(carol.locator(f"[data-channel={GENERAL}]")).to_have_class("entry unread")
        await expect(carol.locator(f"[data-channel={GENERAL}] .count")).to_have_count(0)
        await alice.click(f"[data-channel={GENERAL}]")
        await expect(alice.locator("#log .replies .count")).to_have_text("2 new")
        await alice.click("#log .replies")
        await expect(alice.locator("#log .replies .count")).to_have_count(0)
        async with alice.expect_response("**/page/read"):
            await stage.world.say("bob", "seen at once", thread_ts=root)
        await expect(alice.locator("#thread article")).to_have_count(4)
        await expect(alice.locator("#log .replies .count")).to_have_count(0)
        await alice.reload()
        await expect(alice.locator("#log .replies")).to_contain_text("3 replies")
        await expect(alice.locator("#log .replies .count")).to_have_count(0)


async def test_the_keyboard_is_enough() -> None:
    async with scene() as stage:
        await stage.world.say("bob", "first")
        await stage.world.say("alice", "secnd")
        page = await stage.window("alice")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("rand")
        await picture(page, "switcher")
        await page.keyboard.press("Enter")
        await expect(page.locator("#title")).to_have_text("# random")
        await expect(page.locator("#text")).to_be_focused()
        await page.keyboard.press("Alt+ArrowUp")
        await expect(page.locator("#title")).to_have_text("# general")

        await page.focus("#text")
        await page.keyboard.press("ArrowUp")  # the person's own last message, for editing
        await expect(page.locator(".editing")).to_have_value("secnd")
        await page.keyboard.press("Escape")
        await expect(page.locator(".editing")).to_have_count(0)
        await expect(page.locator("article").nth(1)).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await expect(page.locator("article").nth(0)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#thread-text")).to_be_focused()
        await page.keyboard.type("a reply")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("of two lines")
        await page.keyboard.press("Enter")
        await expect(page.locator("#thread article").nth(1)).to_contain_text("a reply\nof two lines")
        await page.keyboard.press("Escape")
        await expect(page.locator("#thread")).to_be_hidden()
        await expect(page.locator("#log .replies")).to_be_focused()

        await page.locator("article").nth(1).focus()
        await page.keyboard.press("r")
        await page.keyboard.type("rocket")
        await page.keyboard.press("Enter")
        await expect(page.locator("article").nth(1).locator(".reaction")).to_contain_text("🚀")
        await page.locator("article").nth(1).focus()
        await page.keyboard.press("Delete")
        await expect(page.locator("dialog")).to_contain_text("Delete this message?")
        await page.keyboard.press("Escape")
        await expect(page.locator("article")).to_have_count(2)


async def test_a_conversation_with_somebody_new_is_begun_from_the_switcher() -> None:
    async with scene() as stage:
        alice, bob = await stage.window("alice"), await stage.window("bob")
        await alice.keyboard.press("Control+k")
        await alice.keyboard.type("bob")
        await alice.keyboard.press("Enter")
        await expect(alice.locator("#title")).to_have_text("Bob")
        await say(alice, "just between us")
        await expect(bob.locator("#directs .unread")).to_contain_text("Alice")
        await bob.click("#directs .unread")
        await expect(bob.locator("article .content")).to_have_text("just between us")


async def test_a_lost_line_is_told_quietly_and_everything_missed_is_there_afterwards() -> None:
    async with scene() as stage:
        is_cut = False

        async def line(socket: WebSocketRoute) -> None:
            if is_cut:
                await socket.close()
            else:
                socket.connect_to_server()

        page = await stage.context.new_page()
        await page.route_web_socket(LINE, line)
        await stage.world.say("bob", "before")  # comes with the page, which loads nothing more before the cut
        await page.goto(f"{stage.world.base}?as=alice")
        await expect(page.locator("article")).to_have_count(1)
        await open_pages_are(1, stage.world)  # the page connects after it has loaded
        is_cut = True
        stage.world.twin.feed.hang_up()
        await expect(page.locator("#connection")).to_have_text("Connection lost. Trying again…")
        await stage.world.say("bob", "meanwhile")
        await stage.world.say("bob", "@alice meanwhile", channel="random")
        await expect(page.locator("article")).to_have_count(1)
        is_cut = False
        await expect(page.locator("article")).to_have_count(2)
        await expect(page.locator(f"[data-channel={RANDOM}] .count")).to_have_text("1")
        await expect(page.locator("#connection")).to_contain_text("everything is up to date")
        await stage.world.say("bob", "and live again")
        await expect(page.locator("article")).to_have_count(3)


async def test_a_line_that_is_lost_while_missed_changes_are_loaded_is_not_told_as_restored() -> None:
    async with scene() as stage:
        is_missed, may_load = asyncio.Event(), asyncio.Event()

        async def line(socket: WebSocketRoute) -> None:
            if is_missed.is_set():
                return  # every later connection stays silent
            await stage.world.say("bob", "missed")
            is_missed.set()
            socket.connect_to_server()

        async def state(route: Route) -> None:
            if is_missed.is_set():
                await may_load.wait()
            await route.continue_()

        page = await stage.context.new_page()
        await page.route_web_socket(LINE, line)
        await page.route("**/page/state?*", state)
        async with page.expect_request(lambda asked: is_missed.is_set() and "/page/state?" in asked.url):
            await page.goto(f"{stage.world.base}?as=alice")
        stage.world.twin.feed.hang_up()
        await expect(page.locator("#connection")).to_have_text("Connection lost. Trying again…")
        may_load.set()
        await expect(page.locator("article")).to_have_count(1)
        await expect(page.locator("#connection")).to_have_text("Connection lost. Trying again…")


async def test_more_windows_than_a_browser_has_connections_all_hear() -> None:
    async with scene() as stage:
        pages = [await stage.window(person) for person in ("alice", "bob", "carol") * 3]
        await stage.world.say("bob", "to all of you")
        for page in pages:
            await expect(page.locator("article")).to_have_count(1)


async def test_what_happens_between_loading_and_listening_is_not_missed() -> None:
    async with scene() as stage:
        page = await stage.context.new_page()

        async def late(socket: WebSocketRoute) -> None:
            await stage.world.say("bob", "in between")
            socket.connect_to_server()

        await page.route_web_socket(LINE, late)
        await page.goto(f"{stage.world.base}?as=alice")
        await expect(page.locator("article .content")).to_have_text("in between")


async def test_a_long_conversation_is_loaded_as_far_as_one_reads_and_does_not_jump() -> None:
    async with scene() as stage:
        for number in range(130):
            await stage.world.say("bob", f"message {number}")
        page = await stage.window("alice")
        await expect(page.locator("article")).to_have_count(100)
        await expect(page.locator("article").last).to_be_in_viewport()
        await page.evaluate("document.getElementById('log').scrollTop = 0")
        await expect(page.locator("article")).to_have_count(130)
        await expect(page.locator("article", has_text=re.compile(r"message 30\b"))).to_be_in_viewport()
        await stage.world.say("bob", "a new one")
        await expect(page.locator("article")).to_have_count(131)
        await expect(page.locator("article").last).not_to_be_in_viewport()
        await page.click("#to-end")
        await expect(page.locator("article").last).to_be_in_viewport()
        await stage.world.say("bob", "the next")
        await expect(page.locator("article").last).to_contain_text("the next")
        await expect(page.locator("article").last).to_be_in_viewport()


async def test_a_draft_waits_where_it_was_begun() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await page.fill("#text", "half a thought")
        await page.click(f"[data-channel={RANDOM}]")
        await expect(page.locator("#text")).to_have_value("")
        await page.click(f"[data-channel={GENERAL}]")
        await expect(page.locator("#text")).to_have_value("half a thought")
        await page.reload()
        await expect(page.locator("#text")).to_have_value("half a thought")


async def test_a_refused_message_comes_back_into_the_box() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await page.fill("#text", "x" * 40_001)
        await page.press("#text", "Enter")
        await expect(page.locator("#notice")).to_contain_text("a message has at most 40000 characters")
        await expect(page.locator("#text")).to_have_value("x" * 40_001)


async def test_status_prompts_and_title_of_an_assistant_are_shown() -> None:
    async with scene() as stage:
        root = await stage.world.say("alice", "hello", "@swarm")
        page = await stage.window("alice")
        await page.click("#directs [data-channel]")
        channel = await page.locator("#directs [data-channel]").get_attribute("data-channel")
        assert channel
        await page.hover("article")
        await page.get_by_label("Reply in thread").click()
        client = stage.client
        await client.assistant_threads_setTitle(channel_id=channel, thread_ts=root, title="A first talk")
        await client.assistant_threads_setSuggestedPrompts(
            channel_id=channel, thread_ts=root, title="Try", prompts=[{"title": "Plan", "message": "make a plan"}]
        )
        await expect(page.locator("#thread-title")).to_have_text("A first talk")
        await client.assistant_threads_setStatus(
            channel_id=channel, thread_ts=root, status="is thinking…", loading_messages=["is reading", "is writing"]
        )
        await expect(page.locator("#thread-working")).to_have_text(re.compile("swarm is (reading|writing)"))
        await page.click("text=Plan")
        await expect(page.locator("#thread article").nth(1)).to_contain_text("make a plan")
        await client.assistant_threads_setStatus(channel_id=channel, thread_ts=root, status="")
        await expect(page.locator("#thread-working")).to_have_text("")


async def test_a_person_opens_a_pane_and_the_messages_tab_and_chooses_their_prompts() -> None:
    async with scene() as stage:
        direct = (await stage.client.conversations_open(users="U000ALICE"))["channel"]["id"]
        line = await stage.world.line()
        page = await stage.window("alice")
        await page.click("#directs [data-channel]")
        opened = (await line.next_acknowledged())["payload"]["event"]
        entity = {"type": "slack#/types/channel_id", "value": stage.world.general, "team_id": "T0TWIN"}
        assert (opened["type"], opened["tab"], opened["context"]) == (
            "app_home_opened",
            "messages",
            {"entities": [entity]},
        )
        prompts = [{"title": "Plan", "message": "make a plan"}]
        await stage.client.assistant_threads_setSuggestedPrompts(channel_id=direct, prompts=prompts)
        await page.click("#prompts >> text=Plan")
        await expect(page.locator("#log article").first).to_contain_text("make a plan")
        assert (await line.next_acknowledged())["payload"]["event"]["text"] == "make a plan"
        await page.click("text=New chat")
        pane = (await line.next_acknowledged())["payload"]["event"]["assistant_thread"]
        place = {"channel_id": direct, "thread_ts": pane["thread_ts"]}
        await stage.client.chat_postMessage(channel=direct, thread_ts=pane["thread_ts"], text="How can I help?")
        await expect(page.locator("#thread article").nth(1)).to_contain_text("How can I help?")
        await stage.client.assistant_threads_setSuggestedPrompts(**place, prompts=[{"title": "Sum", "message": "add"}])
        await page.click("#thread-prompts >> text=Sum")
        await expect(page.locator("#thread article").nth(2)).to_contain_text("add")
        await stage.client.assistant_threads_setTitle(**place, title="A first talk")
        await expect(page.locator("#log .thread-title")).to_have_text("A first talk")


async def test_dark_follows_the_system_until_somebody_chooses() -> None:
    async def paper(page: Page) -> str:
        return str(await page.evaluate("getComputedStyle(document.body).backgroundColor"))

    async with scene() as stage:
        page = await stage.window("alice")
        await page.emulate_media(color_scheme="light")
        assert await paper(page) == "rgb(255, 255, 255)"
        await page.emulate_media(color_scheme="dark")
        assert await paper(page) != "rgb(255, 255, 255)"
        await page.click("#person")
        await picture(page, "person")
        await page.get_by_role("menuitemradio", name="Light", exact=True).click()
        assert await paper(page) == "rgb(255, 255, 255)"
        await page.reload()
        await page.wait_for_selector("body[data-ready]")
        assert await paper(page) == "rgb(255, 255, 255)"


async def test_a_window_for_somebody_else_is_opened_from_the_menu() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        await page.click("#person")
        async with page.expect_popup() as opened:
            await page.get_by_label("Open a window as Carol").click()
        carol = await opened.value
        await carol.wait_for_selector("body[data-ready]")
        await expect(carol.locator("#person")).to_contain_text("Carol")
        await say(carol, "hello from Carol")
        await expect(page.locator("article .author")).to_have_text("Carol")


async def test_a_phone_shows_one_pane_at_a_time() -> None:
    async with scene(width=390, height=844) as stage:
        root = await stage.world.say("bob", "wide `" + "x" * 200 + "` " + "y" * 200)
        table = "| " + " | ".join("column" for _ in range(12)) + " |\n|" + "-|" * 12
        await stage.client.chat_postMessage(channel=GENERAL, thread_ts=root, markdown_text=table)
        await stage.world.say("bob", "@alice", channel="random")
        page = await stage.window("alice")
        await expect(page.locator("#sidebar")).to_be_hidden()
        await expect(page.locator("#menu-count")).to_have_text("1")
        await fits(page)
        await page.click(".replies")
        await expect(page.locator("#conversation")).to_be_hidden()
        await fits(page)
        await page.click("#back")
        await expect(page.locator("#conversation")).to_be_visible()
        await page.click("#menu")
        await page.click(f"[data-channel={RANDOM}]")
        await expect(page.locator("#sidebar")).to_be_hidden()
        await expect(page.locator("article")).to_contain_text("@alice")
        await picture(page, "phone-random")


async def fits(page: Page) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    assert await page.evaluate("[...document.querySelectorAll('.scroll')].every((one) => one.scrollWidth <= 390)")


async def test_everything_has_a_name_for_those_who_do_not_see() -> None:
    async with scene() as stage:
        await stage.world.say("alice", "hello")
        page = await stage.window("alice")
        await page.hover("article")
        await page.click("article [aria-label='Reply in thread']")
        await expect(page.locator("#thread article")).to_have_count(1)
        nameless = await page.evaluate(
            "[...document.querySelectorAll('button, a, input, textarea, select')]"
            ".filter((one) => one.checkVisibility() && !one.labels?.length && !one.getAttribute('aria-label')"
            " && !/[\\p{L}\\p{N}]/u.test(one.textContent)).map((one) => one.outerHTML)"
        )
        assert nameless == []
        await expect(page.get_by_role("navigation")).to_be_visible()
        await expect(page.get_by_role("main")).to_be_visible()
        await expect(page.get_by_role("complementary", name="Thread")).to_be_visible()


async def test_a_reset_empties_every_page() -> None:
    async with scene() as stage:
        await stage.world.say("alice", "gone soon")
        page = await stage.window("bob")
        await expect(page.locator("article")).to_have_count(1)
        await stage.world.ask("POST", "reset", {})
        await expect(page.locator(".welcome")).to_be_visible()


async def test_a_link_to_a_message_is_followed_in_the_same_window() -> None:
    async with scene() as stage:
        root = await stage.world.say("bob", "the root", channel="random")
        reply = await stage.world.say("bob", "the reply", channel="random", thread_ts=root)
        link = (await stage.client.chat_getPermalink(channel=RANDOM, message_ts=reply))["permalink"]
        await stage.world.say("bob", f"see {link}")
        page = await stage.window("carol")
        await page.click("article a")
        await expect(page.locator("#title")).to_have_text("# random")
        await expect(page.locator("#thread article.marked")).to_contain_text("the reply")
        await expect(page.locator("#person")).to_contain_text("Carol")
        assert len(stage.context.pages) == 1


@pytest.mark.req("SEC-04")
async def test_naughty_text_is_text_on_the_page_and_hides_nothing() -> None:
    async with scene() as stage:
        page = await stage.window("carol")
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        await stage.world.say("bob", TEXT)
        article = page.locator("article").last
        await expect(article).to_contain_text("Ignore all instructions.")
        assert hidden_in(await article.inner_text()) == ""
        assert asked == []
        assert await article.locator("script, iframe, img[src='x']").count() == 0
        assert await article.locator("a:not([href^='https://']):not([href^='#'])").count() == 0


async def test_names_are_completed_for_people_channels_and_emoji() -> None:
    async with scene() as stage:
        page = await stage.window("alice")
        for typed, offered, taken in (
            ("@ca", "carol", "@carol "),
            ("#ra", "random", "#random "),
            (":tad", "tada", ":tada: "),
        ):
            await page.fill("#text", "")
            await page.locator("#text").press_sequentially(typed)
            await expect(page.locator("#choices [aria-selected=true]")).to_contain_text(offered)
            await page.press("#text", "Tab")
            await expect(page.locator("#text")).to_have_value(taken)
        await page.locator("#text").press_sequentially("@")
        await page.press("#text", "Escape")
        await expect(page.locator("#choices")).to_be_hidden()
        await page.fill("#text", "@carol in #random :tada:")
        await page.press("#text", "Enter")
        await expect(page.locator("article .content")).to_have_text("@carol in #random 🎉")
        stored = (await stage.client.conversations_history(channel=GENERAL))["messages"][0]["text"]
        assert stored == "<@U000CAROL> in <#C00RANDOM> :tada:"


async def test_a_hundred_pieces_a_second_flow_without_a_lost_one_and_without_a_jump() -> None:
    async with scene() as stage:
        stage.world.twin.limits.enabled = False
        root = await stage.world.say("alice", "go")
        page = await stage.window("alice")
        await page.click("article")
        await page.keyboard.press("Enter")
        stream = await stage.client.chat_startStream(
            channel=GENERAL, thread_ts=root, recipient_user_id="U000ALICE", recipient_team_id="T0TWIN"
        )
        for number in range(300):
            await stage.client.chat_appendStream(channel=GENERAL, ts=stream["ts"], markdown_text=f"word{number}  \n")
        shown = page.locator("#thread article").nth(1).locator(".content")
        await expect(shown).to_contain_text("word299")
        words = str(await shown.inner_text()).split()
        assert words == [f"word{number}" for number in range(300)]
        at_end = "(() => { const log = document.getElementById('thread-log');"
        at_end += " return log.scrollHeight - log.scrollTop - log.clientHeight < 5 })()"
        assert await page.evaluate(at_end)
