"""What was said while no event came is read from Slack and served once, in order, edits and deletes included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.clock import us_to_slack_ts
from swarm.domain.errors import NotFound, Unavailable
from swarm.domain.transcript import ChannelMessage, ChannelType, SlackEvent, SlackMessage
from swarm.services.backfill import READERS
from swarm.store import watermarks
from tests.support.slack import next_ts
from tests.support.world import BOT, ME, World, delete, edit, said, texts

pytestmark = pytest.mark.req("OPS-08")


class Outage:
    """Slack goes on while nobody hears it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.since = next_ts()

    async def begins(self) -> None:
        """Everything up to now was heard."""
        await self._world.database.write(watermarks.heard, ME.team, self.since)

    def says(self, message: SlackMessage) -> SlackMessage:
        """Somebody says something that Slack has, and we do not."""
        slack = self._world.slack
        if message.is_root:
            slack.channels.setdefault(message.channel, []).append(ChannelMessage(message=message))
            slack.threads.setdefault((message.channel, message.ts), []).append(message)
        else:
            slack.threads[message.channel, message.root_ts].append(message)
            slack.channels[message.channel] = [
                replace(one, latest_reply_ts=message.ts) if one.message.ts == message.root_ts else one
                for one in slack.channels[message.channel]
            ]
        return message

    async def ends(self) -> None:
        """The gap is noticed and read."""
        await self._world.database.write(watermarks.open_gap, ME.team)
        await self._world.catch_up.read_gap()
        while await self._world.backfill.read_due():
            pass


@pytest.fixture
async def outage(world: World) -> Outage:
    await world.database.write(watermarks.open_gap, ME.team)  # the first start
    world.clock.advance(10_000)
    return Outage(world)


async def test_mentions_follow_ups_and_direct_messages_of_an_outage_are_served_once_and_in_order(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    tracked = outage.says(said(f"{BOT} hello"))
    await world.hears(tracked)
    await world.answers(lead, await world.only(lead), "hi")
    await outage.begins()
    first = outage.says(said("and then?", thread_ts=tracked.ts))
    mention = outage.says(said(f"{BOT} help", channel="C2"))
    direct = outage.says(said("psst", channel="D1", channel_type=ChannelType.DM))
    second = outage.says(said("anybody?", thread_ts=tracked.ts, by="U2"))
    after = outage.says(said("nobody's business", channel="C2"))
    await outage.ends()
    got = texts(await world.poll(lead))
    assert sorted(got) == sorted([["and then?", "anybody?"], ["@UBOT help"], ["psst"]])
    assert await world.entries(after) == []
    for again in (first, mention, direct, second):  # their events come after all
        await world.hears(again)
    await outage.ends()
    assert [len(await world.entries(one)) for one in (first, mention, direct, second)] == [1, 1, 1, 1]


async def test_what_one_person_said_in_an_hour_is_not_too_much_for_a_minute(world: World, outage: Outage) -> None:
    lead = await world.lead()
    await outage.begins()
    for number in range(30):
        outage.says(said(f"{BOT} {number}"))
    await outage.ends()
    assert len(texts(await world.poll(lead)) + texts(await world.poll(lead))) == 30


async def test_a_message_after_the_gap_waits_for_what_was_said_in_it(world: World, outage: Outage) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    await outage.begins()
    outage.says(said("missed", thread_ts=root.ts))
    await world.database.write(watermarks.open_gap, ME.team)
    await world.hears(outage.says(said("heard", thread_ts=root.ts)))
    assert await world.poll(lead) == []
    await world.backfill.read_due()
    assert texts(await world.poll(lead)) == [["missed", "heard"]]


async def test_a_thread_for_which_somebody_waits_is_read_before_those_of_the_gap(world: World, outage: Outage) -> None:
    lead = await world.lead()
    for number in range(READERS + 1):
        await world.hears(outage.says(said(f"{BOT} {number}")))
    root = outage.says(said("the build is red", channel="C2"))
    await outage.begins()
    await world.database.write(watermarks.open_gap, ME.team)
    world.clock.advance(1)
    await world.hears(outage.says(said(f"{BOT} why?", thread_ts=root.ts, channel="C2")))
    await world.backfill.read_due()
    assert ["@UBOT why?"] in texts(await world.poll(lead))


async def test_what_was_heard_as_context_of_a_later_mention_stays_context(world: World, outage: Outage) -> None:
    lead = await world.lead()
    await outage.begins()
    root = outage.says(said("the build is red", by="U2"))
    await world.hears(root)
    missed_root = outage.says(said("so is the deploy", by="U2", channel="C2"))
    for message in (root, missed_root):
        await world.hears(outage.says(said(f"{BOT} why?", thread_ts=message.ts, channel=message.channel)))
    while await world.backfill.read_due():
        pass
    for trigger in await world.poll(lead):
        await world.answers(lead, trigger, "no idea")
    await outage.ends()
    assert await world.poll(lead) == []


async def test_edits_and_deletes_of_an_outage_count(world: World, outage: Outage) -> None:
    lead = await world.lead()
    typo, oops, answered = (outage.says(said(f"{BOT} {text}")) for text in ("helo", "oops", "do it"))
    quiet = outage.says(said("the build is red", channel="C2"))
    for message in (typo, oops, answered, quiet):
        await world.hears(message)
    await outage.begins()
    world.clock.advance(60)
    slack = world.slack
    slack.threads["C1", typo.ts] = [edit(typo, f"{BOT} hello").message]
    slack.threads["C1", oops.ts] = []
    called = edit(quiet, f"{BOT} the build is red").message
    slack.channels["C2"] = [ChannelMessage(message=called)]
    slack.threads["C2", quiet.ts] = [called]
    await outage.ends()
    got = texts(await world.poll(lead))
    assert sorted(got) == sorted([["@UBOT hello"], ["@UBOT do it"], ["@UBOT the build is red"]])
    assert (await world.entry(oops)).status == "withdrawn"


async def test_a_mention_in_a_thread_that_nobody_tracked_is_found_with_its_context(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    root = outage.says(said("the build is red", by="U2"))
    await world.hears(root)
    await outage.begins()
    outage.says(said("since noon", thread_ts=root.ts, by="U2"))
    outage.says(said(f"{BOT} why?", thread_ts=root.ts))
    outage.says(said("please", thread_ts=root.ts))
    await outage.ends()
    (trigger,) = await world.poll(lead)
    assert [one.text for one in trigger.inbox_messages] == ["@UBOT why?", "please"]
    assert [one.text for one in trigger.thread_context] == ["the build is red", "since noon", "@UBOT why?", "please"]


async def test_what_was_said_before_anybody_listened_or_long_ago_is_left_alone(world: World) -> None:
    lead = await world.lead()
    outage = Outage(world)
    old = outage.says(said(f"{BOT} are you there?"))
    await outage.ends()  # the first start ever
    assert await world.entries(old) == []
    await world.database.write(watermarks.heard, ME.team, us_to_slack_ts(world.clock.now_us()))
    world.clock.advance(8 * 24 * 3600)
    await outage.ends()
    assert await world.poll(lead) == []


async def test_a_gap_that_cannot_be_read_stays_open_and_what_slack_refuses_is_left_out(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    await outage.begins()
    outage.says(said(f"{BOT} help"))
    world.slack.reads_fail.append(Unavailable("Slack is down"))
    with pytest.raises(Unavailable):
        await outage.ends()
    assert await world.poll(lead) == []
    assert await world.database.read(watermarks.gap, ME.team)
    world.slack.channels["C9"] = []
    read = world.slack.read_channel

    async def refuses_one(channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        if channel == "C9":
            raise NotFound("not_in_channel")
        return await read(channel, oldest, limit)

    world.slack.read_channel = refuses_one  # type: ignore[method-assign]
    await outage.ends()
    assert texts(await world.poll(lead)) == [["@UBOT help"]]
    assert await world.database.read(watermarks.gap, ME.team) is None


async def test_a_gap_that_opens_anew_while_it_is_read_is_read_again(world: World, outage: Outage) -> None:
    lead = await world.lead()
    await outage.begins()
    first = outage.says(said(f"{BOT} help"))
    handle = world.ingest.handle

    async def meanwhile(event: SlackEvent) -> None:
        world.catch_up._missed.handle = handle
        outage.says(said(f"{BOT} and help me"))
        await world.database.write(watermarks.open_gap, ME.team)
        await handle(event)

    world.catch_up._missed.handle = meanwhile
    await outage.ends()
    assert await world.database.read(watermarks.gap, ME.team)
    await world.catch_up.read_gap()
    assert await world.database.read(watermarks.gap, ME.team) is None
    assert len(await world.entries(first)) == 1
    assert texts(await world.poll(lead)) == [["@UBOT help"], ["@UBOT and help me"]]


async def test_a_thread_that_was_forgotten_is_read_again_as_context_only(world: World, outage: Outage) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    thanks = outage.says(said("thanks", thread_ts=root.ts))
    await world.hears(thanks)
    for trigger in await world.poll(lead):
        await world.answers(lead, trigger, "any time")
    await world.send()
    world.clock.advance(91 * 24 * 3600)
    await world.sweeper.tidy()
    call = said(f"{BOT} one more thing", thread_ts=root.ts, ts=us_to_slack_ts(world.clock.now_us()))
    outage.says(call)
    await world.hears(call)
    await world.backfill.read_due()
    (trigger,) = await world.poll(lead)
    assert [one.text for one in trigger.inbox_messages] == ["@UBOT one more thing"]
    assert [one.text for one in trigger.thread_context][:2] == ["@UBOT hello", "thanks"]


async def test_a_delete_that_was_heard_is_not_told_twice(world: World, outage: Outage) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await outage.begins()
    world.clock.advance(60)
    await world.ingest.handle(delete(root))
    world.slack.threads["C1", root.ts] = []
    world.slack.channels["C1"] = []
    await outage.ends()
    assert await world.poll(lead) == []
    assert (await world.entry(root)).status == "withdrawn"
