"""An agent sees the whole thread: from events where we were there, read from Slack once where we were not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from swarm.domain.errors import NotFound, Unavailable
from swarm.domain.model.threads import AuthorKind, File, SlackMessage
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads, transcript
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, World, delete, edit, said

pytestmark = pytest.mark.req("LOOP-02", "LOOP-03")


async def test_a_thread_that_opens_with_us_is_never_read(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "good morning")
    await world.send()
    await world.says("and now?", thread=root, by="U2")
    await world.backfill.read_due()
    trigger = await world.only(lead)
    assert world.slack.reads == []
    assert [(one.author, one.kind, one.text) for one in trigger.thread_context] == [
        ("alice", AuthorKind.USER, "@UBOT hello"),
        ("lead", AuthorKind.AGENT, "good morning"),
        ("bob", AuthorKind.USER, "and now?"),
    ]
    assert not trigger.context_incomplete
    assert [inbox_message.text for inbox_message in trigger.inbox_messages] == ["and now?"]


async def test_an_unknown_thread_is_read_once_and_given_whole_in_order(world: World) -> None:
    lead = await world.lead()
    root = said("the build is red", by="U2")
    pager = said("it broke at night", by="B1", kind=AuthorKind.BOT, thread_ts=root.ts)
    call = said(f"{BOT} why?", thread_ts=root.ts)
    world.slack.threads["C1", root.ts] = [call, root, pager]
    await world.hears(call)
    assert await world.poll(lead) == []
    assert await world.backfill.read_due() == 1
    trigger = await world.only(lead)
    assert [(one.author, one.text) for one in trigger.thread_context] == [
        ("bob", "the build is red"),
        ("pager", "it broke at night"),
        ("alice", "@UBOT why?"),
    ]
    assert not trigger.context_incomplete
    await world.says("hello?", thread=root)
    assert await world.backfill.read_due() == 0
    assert world.slack.reads == [("C1", root.ts)]


async def test_the_context_ends_with_the_new_message(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    trigger = await world.only(lead)
    await world.says("two", thread=root)
    whole = await world.services.inbox.read(lead, trigger.inbox_messages[0].id)
    assert [one.text for one in whole.thread_context] == ["@UBOT one"]


@pytest.mark.both_engines
async def test_a_thread_that_cannot_be_read_holds_a_message_for_ten_seconds(world: World) -> None:
    lead = await world.lead()
    world.slack.reads_fail.append(Unavailable("Slack is down"))
    call = await world.hears(said(f"{BOT} why?", thread_ts="1600000000.000100"))
    await world.backfill.read_due()
    await world.later(9.9)
    assert await world.poll(lead) == []
    await world.later(0.1)
    trigger = await world.only(lead)
    assert trigger.context_incomplete
    assert [one.ts for one in trigger.thread_context] == [call.ts]


async def test_a_failed_read_is_tried_again_later_each_time_until_it_works(world: World) -> None:
    """What was missed in an outage may be in it, so it is never left alone."""
    await world.lead()
    root_ts = "1600000000.000100"
    world.slack.reads_fail.extend(Unavailable("Slack is down") for _ in range(6))
    await world.hears(said(f"{BOT} why?", thread_ts=root_ts))
    assert await world.backfill.read_due() == 1
    assert await world.backfill.read_due() == 0
    for failures in range(1, 6):
        await world.later(5 * failures - 0.1)
        assert await world.backfill.read_due() == 0
        await world.later(0.1)
        assert await world.backfill.read_due() == 1
    await world.change("UPDATE threads SET context_failures = 1000")
    world.slack.reads_fail.append(Unavailable("Slack is still down"))
    await world.later(5 * 6)
    assert await world.backfill.read_due() == 1
    await world.later(300)
    assert await world.backfill.read_due() == 1


async def test_a_reader_that_was_never_heard_of_again_is_replaced(world: World) -> None:
    await world.lead()
    await world.hears(said(f"{BOT} why?", thread_ts="1600000000.000100"))
    assert len(await world.database.write(threads.begin_reads, 4)) == 1
    assert await world.backfill.read_due() == 0
    await world.later(60)
    assert await world.backfill.read_due() == 1


@pytest.mark.req("LOOP-01")
async def test_a_history_read_that_overtakes_an_event_routes_its_message_once(world: World) -> None:
    lead = await world.lead()
    root = said("the build is red", by="U2")
    first, second = (said(f"{BOT} {text}", thread_ts=root.ts) for text in ("why?", "since when?"))
    world.slack.threads["C1", root.ts] = [root, first, second]
    await world.hears(first)
    await world.backfill.read_due()
    assert len(await world.inbox_messages(second)) == 1
    for _ in range(2):
        await world.hears(second)
    assert len(await world.inbox_messages(second)) == 1
    trigger = await world.only(lead)
    assert [inbox_message.ts for inbox_message in trigger.inbox_messages] == [first.ts, second.ts]


async def test_a_stale_thread_is_read_again_and_knows_our_posts_by_the_agent_that_spoke(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "good morning")
    await world.send()
    (post,) = [landed for landed in world.slack.landed if landed.text == "good morning"]
    own = said("good morning", by="UBOT", kind=AuthorKind.BOT, ts=world.slack.timestamps[post.id], thread_ts=root.ts)
    missed = said("by the way", by="U2", thread_ts=root.ts)
    call = said(f"{BOT} again", thread_ts=root.ts)
    world.slack.threads["C1", root.ts] = [root, replace(own, delivery_id=post.id), missed, call]
    await world.change("DELETE FROM thread_messages WHERE author_kind = 'agent'")
    await world.change("UPDATE threads SET context = 'stale'")
    await world.hears(call)
    assert await world.poll(lead) == []
    await world.backfill.read_due()
    trigger = await world.only(lead)
    assert [one.author for one in trigger.thread_context] == ["alice", "lead", "bob", "alice"]


async def test_edits_and_deletes_show_in_the_context(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hi")
    typo = await world.says("helo", thread=root)
    oops = await world.says("oops", thread=root)
    await world.ingest.handle(edit(typo, "hello again"))
    await world.ingest.handle(delete(oops))
    await world.says("well?", thread=root)
    trigger = await world.only(lead)
    assert [(one.text, one.edited) for one in trigger.thread_context] == [
        ("@UBOT hello", False),
        ("hello again", True),
        ("well?", False),
    ]


@pytest.mark.req("LOOP-15")
async def test_a_read_that_still_shows_a_deleted_message_does_not_bring_it_back(world: World) -> None:
    lead = await world.lead()
    root, oops = said("the build is red", by="U2"), said("oops", by="U2", edited_ts="1900000000.000100")
    call = said(f"{BOT} why?", thread_ts=root.ts)
    world.slack.threads["C1", root.ts] = [root, replace(oops, thread_ts=root.ts), call]
    await world.hears(call)
    await world.ingest.handle(delete(replace(oops, thread_ts=root.ts)))
    await world.backfill.read_due()
    trigger = await world.only(lead)
    assert [one.text for one in trigger.thread_context] == ["the build is red", "@UBOT why?"]
    assert await world.rows(f"SELECT text FROM thread_messages WHERE ts = '{oops.ts}'") == [{"text": ""}]


async def test_what_others_say_in_between_is_context(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hi")
    await world.says("<@U2> what do you think?", thread=root)
    assert await world.poll(lead) == []
    await world.says("so?", thread=root)
    trigger = await world.only(lead)
    assert [one.text for one in trigger.thread_context][-2:] == ["@bob what do you think?", "so?"]
    assert len(trigger.inbox_messages) == 1


async def test_attachments_come_by_name(world: World) -> None:
    lead = await world.lead()
    report = File(id="F1", name="report.pdf", mimetype="application/pdf", size_bytes=10)
    await world.hears(replace(said(f"{BOT} read this"), files=(report,)))
    trigger = await world.only(lead)
    assert trigger.inbox_messages[0].files == (report,)
    assert "report.pdf" in trigger.prompt


async def test_a_new_message_is_never_cut(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} begin")
    for number in range(30):
        await world.says(f"<@U2> remark {number}", thread=root)
    long = " ".join(f"word{number}" for number in range(3_000))
    await world.says(f"{BOT} {long}", thread=root)
    trigger = await world.only(lead)
    assert trigger.inbox_messages[-1].text == f"@UBOT {long}"
    assert long in trigger.prompt
    assert len(trigger.thread_context) == 32


@pytest.mark.req("LOOP-07")
async def test_an_inbox_message_can_be_read_whole_by_its_agent_and_by_nobody_else(world: World) -> None:
    lead, other = await world.lead(), await world.lead("other")
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "good morning")
    await world.send()
    inbox_message = await world.inbox_message(await world.says("and now?", thread=root))
    whole = await world.services.inbox.read(lead, inbox_message.id)
    assert (whole.text, whole.user.name, whole.thread.channel_name) == (
        "and now?",
        "alice",
        "#general",
    )
    assert whole.previous_reply == "good morning"
    assert whole.routing_reason == "lead owns the thread"
    assert [one.text for one in whole.thread_context] == ["@UBOT hello", "good morning", "and now?"]
    with pytest.raises(NotFound) as foreign:
        await world.services.inbox.read(other, inbox_message.id)
    with pytest.raises(NotFound) as unknown:
        await world.services.inbox.read(lead, "no-such-id")
    assert foreign.value.message.replace(inbox_message.id, "") == unknown.value.message.replace("no-such-id", "")


async def test_a_thread_that_slack_does_not_let_us_read_holds_nothing_up_and_is_left_alone(world: World) -> None:
    lead = await world.lead()
    root_ts = "1600000000.000100"
    world.slack.reads_fail.extend(NotFound("missing_scope") for _ in range(2))
    await world.hears(said(f"{BOT} why?", thread_ts=root_ts))
    assert await world.backfill.read_due() == 1
    trigger = await world.only(lead)
    assert trigger.context_incomplete
    await world.later(3600)
    assert await world.backfill.read_due() == 0
    await world.hears(said(f"{BOT} hello?", thread_ts=root_ts))
    assert await world.backfill.read_due() == 1
    reasons = await world.rows("SELECT DISTINCT reason FROM history WHERE change = 'thread.refused'")
    assert reasons == [{"reason": "missing_scope"}]


async def test_a_thread_that_cannot_be_stored_keeps_no_other_from_being_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    good, bad = (said("the build is red", by="U2") for _ in range(2))
    keep = transcript.keep

    def stumbles(tx: Transaction, team: str, messages: list[SlackMessage]) -> None:
        if any(message.ts == bad.ts for message in messages):
            raise RuntimeError("broken")
        keep(tx, team, messages)

    monkeypatch.setattr(transcript, "keep", stumbles)
    for root in (bad, good):
        world.slack.threads["C1", root.ts] = [root]
        await world.hears(said(f"{BOT} why?", thread_ts=root.ts))
    assert await world.backfill.read_due() == 2
    states = await world.rows("SELECT thread_ts, context, context_failures FROM threads ORDER BY thread_ts")
    assert [(row["context"], row["context_failures"]) for row in states] == [("complete", 0), ("unknown", 1)]
    await world.later(5)
    assert await world.backfill.read_due() == 1


async def test_reading_goes_on_after_an_error_and_ends_at_the_shutdown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Event()
    loop = asyncio.get_running_loop()

    def breaks(*args: object) -> None:
        loop.call_soon_threadsafe(tried.set)
        raise RuntimeError("broken")

    monkeypatch.setattr(threads, "begin_reads", breaks)
    reading = asyncio.ensure_future(world.backfill.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(2):
            await tried.wait()
            tried.clear()
            world.database.wakeups.bump([threads.CONTEXTS])
        assert not reading.done()
        world.database.wakeups.close()
        await reading
