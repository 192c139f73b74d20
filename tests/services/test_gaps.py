"""What was said while no event came is read from Slack and served once, in order, edits and deletes included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from swarm.clock import SECOND, to_iso, us_to_slack_ts
from swarm.domain.errors import NotFound, Unavailable
from swarm.domain.model.threads import ChannelMessage, ChannelType, SlackEvent, SlackMessage
from swarm.services.intake import catch_up as missed
from swarm.services.intake.backfill import READERS
from swarm.services.intake.catch_up import Handle
from swarm.store.threads import watermarks
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
        await self._world.database.write(watermarks.advance, ME.team, self.since)

    def says(self, message: SlackMessage) -> SlackMessage:
        """Somebody says something that Slack has, and we do not."""
        slack = self._world.slack
        if message.is_root:
            slack.channels.setdefault(message.channel, []).append(ChannelMessage(message=message))
            slack.threads.setdefault((message.channel, message.ts), []).append(message)
        else:
            slack.threads[message.channel, message.root_ts].append(message)
            slack.channels[message.channel] = [
                ChannelMessage(message=replace(one.message, has_replies=True), latest_reply_ts=message.ts)
                if one.message.ts == message.root_ts
                else one
                for one in slack.channels[message.channel]
            ]
        return message

    async def is_noticed(self) -> None:
        """The gap is noticed, and what was said outside of threads that we know is read."""
        await self._world.database.write(watermarks.open_gap, ME.team)
        await self._world.catch_up.read_gap()

    async def ends(self) -> None:
        """The gap is noticed and read."""
        await self.is_noticed()
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
    assert await world.inbox_messages(after) == []
    for again in (first, mention, direct, second):  # their events come after all
        await world.hears(again)
    await outage.ends()
    assert [len(await world.inbox_messages(one)) for one in (first, mention, direct, second)] == [1, 1, 1, 1]


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
    """And none of those takes a call that Slack allows from it: with 50 a minute, four reads are six seconds."""
    lead = await world.lead()
    for number in range(READERS + 1):
        await world.hears(outage.says(said(f"{BOT} {number}")))
    root = outage.says(said("the build is red", channel="C2"))
    await outage.begins()
    await world.database.write(watermarks.open_gap, ME.team)
    world.clock.advance(1)
    await world.hears(outage.says(said(f"{BOT} why?", thread_ts=root.ts, channel="C2")))
    assert await world.backfill.read_due() == 1
    assert ["@UBOT why?"] in texts(await world.poll(lead))
    for _ in range(READERS + 1):
        assert await world.backfill.read_due() == 1
    assert await world.backfill.read_due() == 0


async def test_a_thread_that_is_being_read_when_the_gap_opens_is_read_once_more(
    world: World, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    root = outage.says(said("the build is red", by="U2"))
    await outage.begins()
    await world.hears(outage.says(said(f"{BOT} why?", thread_ts=root.ts)))
    read_thread = world.slack.read_thread

    async def reads_what_was_said_before_the_outage(channel: str, thread_ts: str) -> list[SlackMessage]:
        read = list(await read_thread(channel, thread_ts))
        outage.says(said("and since when?", thread_ts=root.ts))
        await world.database.write(watermarks.open_gap, ME.team)
        return read

    with monkeypatch.context() as before:
        before.setattr(world.slack, "read_thread", reads_what_was_said_before_the_outage)
        assert await world.backfill.read_due() == 1
    assert await world.poll(lead) == []
    await world.catch_up.read_gap()
    assert await world.backfill.read_due() == 1
    assert texts(await world.poll(lead)) == [["@UBOT why?", "and since when?"]]
    assert await world.backfill.read_due() == 0


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
    assert (await world.inbox_message(oops)).status == "withdrawn"


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
    assert await world.inbox_messages(old) == []
    await world.database.write(watermarks.advance, ME.team, us_to_slack_ts(world.clock.now_us()))
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
    assert len(await world.inbox_messages(first)) == 1
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


@pytest.mark.both_engines
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
    assert (await world.inbox_message(root)).status == "withdrawn"


async def test_a_reply_that_the_channel_shows_too_comes_behind_those_before_it(world: World, outage: Outage) -> None:
    lead = await world.lead()
    tracked = outage.says(said(f"{BOT} hello"))
    await world.hears(tracked)
    await world.answers(lead, await world.only(lead), "hi")
    await outage.begins()
    outage.says(said("first", thread_ts=tracked.ts))
    shown = outage.says(said("for all to see", thread_ts=tracked.ts, subtype="thread_broadcast"))
    world.slack.channels["C1"].append(ChannelMessage(message=shown))
    await outage.is_noticed()
    world.clock.advance(60)  # so long threads may have to wait for Slack's limits
    await world.sweep()
    assert await world.poll(lead) == []
    while await world.backfill.read_due():
        pass
    assert texts(await world.poll(lead)) == [["first", "for all to see"]]


@pytest.mark.both_engines
async def test_a_fault_of_the_moment_costs_nothing_and_keeps_the_order(world: World, outage: Outage) -> None:
    lead = await world.lead()
    await outage.begins()
    root = outage.says(said(f"{BOT} help"))
    outage.says(said("it burns", thread_ts=root.ts))
    outage.says(said(f"{BOT} and later"))
    handle, taken = world.ingest.handle, list[SlackEvent]()

    async def fails_at_the_second(event: SlackEvent) -> None:
        if len(taken) == 1:
            raise OSError(28, "No space left on device")
        taken.append(event)
        await handle(event)

    world.catch_up._missed.handle = fails_at_the_second
    await outage.ends()
    assert await world.database.read(watermarks.gap, ME.team)
    assert len(taken) == 1
    world.catch_up._missed.handle = handle
    assert texts(await world.poll(lead)) == [["@UBOT help", "it burns"]]  # the thread was read as a whole meanwhile
    await world.catch_up.read_gap()
    assert await world.database.read(watermarks.gap, ME.team) is None
    assert texts(await world.poll(lead)) == [["@UBOT and later"]]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed, "PAUSE_SECONDS", 0.0)


def poisoned(world: World, text: str) -> list[str]:
    """From now on a message with this text cannot be taken in; the tries are counted."""
    handle, tries = world.ingest.handle, list[str]()

    async def stumbles(event: SlackEvent) -> None:
        if isinstance(event, SlackMessage) and text in event.text:
            tries.append(event.ts)
            raise ValueError("a lone surrogate")
        await handle(event)

    world.catch_up._missed.handle = world.backfill._missed.handle = stumbles
    return tries


@pytest.mark.usefixtures("no_pause")
async def test_what_can_never_be_taken_in_is_set_aside_for_the_operator_and_holds_up_nothing(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    tracked = outage.says(said(f"{BOT} hello"))
    await world.hears(tracked)
    await world.answers(lead, await world.only(lead), "hi")
    await outage.begins()
    bad = [outage.says(said(f"{BOT} poison", channel="C2")), outage.says(said("poison", thread_ts=tracked.ts))]
    outage.says(said(f"{BOT} help", channel="C2"))
    outage.says(said("and you?", thread_ts=tracked.ts))
    tries = poisoned(world, "poison")
    for _ in range(2):
        await outage.ends()
    assert sorted(texts(await world.poll(lead))) == [["@UBOT help"], ["and you?"]]
    assert sorted(tries) == sorted([message.ts for message in bad] * missed.TRIES)
    rows = await world.rows("SELECT subject FROM history WHERE change = 'route.set_aside' ORDER BY subject")
    assert [row["subject"] for row in rows] == [f"C1:{bad[1].ts}", f"C2:{bad[0].ts}"]


@pytest.mark.usefixtures("no_pause")
async def test_nothing_is_set_aside_while_that_cannot_be_stored(
    world: World, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    await outage.begins()
    outage.says(said(f"{BOT} poison"))
    tries = poisoned(world, "poison")

    def is_full(*args: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(missed.Missed, "_note", is_full)
        await outage.is_noticed()
    assert len(tries) == missed.TRIES
    assert await world.database.read(watermarks.gap, ME.team)
    await outage.ends()
    assert len(tries) == 2 * missed.TRIES


@pytest.mark.parametrize("is_shown", [True, False], ids=["before the read", "after the read"])
async def test_a_follow_up_that_overtakes_the_missed_beginning_of_its_thread_is_served_behind_it(
    world: World, outage: Outage, is_shown: bool
) -> None:
    lead = await world.lead()
    now = world.clock.now_us()
    root = outage.says(said(f"{BOT} my name is Ann", ts=us_to_slack_ts(now - 1800 * SECOND)))
    said_by_slack = world.slack.channels["C1"]
    if is_shown:
        outage.says(said("I have two cats", thread_ts=root.ts, ts=us_to_slack_ts(now - 1700 * SECOND)))
        said_by_slack = world.slack.channels["C1"]
    await outage.begins()
    await world.database.write(watermarks.open_gap, ME.team, root.ts)
    await world.hears(outage.says(said("who am I?", thread_ts=root.ts, ts=us_to_slack_ts(now))))
    world.clock.advance(1000)
    await world.sweeper.tidy()
    world.slack.channels["C1"] = said_by_slack
    world.catch_up._missed.handle = until_first(world)
    await world.catch_up.read_gap()
    if is_shown:
        assert await world.poll(lead) == []  # not without what was said between
    while await world.backfill.read_due():
        pass
    cats = ["I have two cats"] if is_shown else []
    assert texts(await world.poll(lead)) == [["@UBOT my name is Ann", *cats, "who am I?"]]


def until_first(world: World) -> Handle:
    """What takes the first event and is out of order from then on."""
    taken: list[SlackEvent] = []

    async def handle(event: SlackEvent) -> None:
        if taken:
            raise Unavailable("the database is locked")
        taken.append(event)
        await world.ingest.handle(event)

    return handle


async def test_what_is_older_than_three_days_is_left_alone_in_threads_too_and_the_operator_is_told(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    since = world.clock.now_us()
    await world.database.write(watermarks.advance, ME.team, us_to_slack_ts(since))
    for hours in (1, 99):
        outage.says(said(f"{hours} h", thread_ts=root.ts, ts=us_to_slack_ts(since + hours * 3600 * SECOND)))
        outage.says(said(f"{BOT} {hours} h", channel="C2", ts=us_to_slack_ts(since + hours * 3600 * SECOND)))
    world.clock.advance(100 * 3600)
    with capture_logs() as logs:
        await outage.ends()
    assert sorted(texts(await world.poll(lead))) == [["99 h"], ["@UBOT 99 h"]]
    (told,) = [line for line in logs if "left_alone_up_to" in line]
    assert told["left_alone_up_to"] == to_iso(world.clock.now_us() - 72 * 3600 * SECOND)


async def test_a_thousand_messages_are_served_from_the_first_on_while_the_rest_is_read(
    world: World, outage: Outage
) -> None:
    lead = await world.lead()
    await outage.begins()
    for number in range(60):
        root = outage.says(said(f"{number}"))
        outage.says(said(f"{BOT} {number}", thread_ts=root.ts))
    read, seen = world.slack.read_thread, list[int]()

    async def looks(channel: str, thread_ts: str) -> list[SlackMessage]:
        seen.append(len(await world.rows("SELECT 1 FROM inbox_messages")))
        return await read(channel, thread_ts)

    world.slack.read_thread = looks  # type: ignore[method-assign]
    with capture_logs() as logs:
        await outage.is_noticed()
    assert seen == [20 * (number // 20) for number in range(60)]
    assert [line["read"] for line in logs if "read" in line] == ["20 of 60", "40 of 60", "60 of 60"]
    assert lead


async def test_a_mention_in_a_thread_that_all_have_answered_and_nobody_owns_is_found(
    world: World, outage: Outage
) -> None:
    first, second = await world.lead("first"), await world.lead("second")
    root = outage.says(said("swarm#all hello"))
    await world.hears(root)
    for agent in (first, second):
        await world.answers(agent, await world.only(agent), "hi")
    assert await world.rows("SELECT owner_id, context FROM threads") == [{"owner_id": None, "context": "complete"}]
    await outage.begins()
    again = outage.says(said("swarm#second again please", thread_ts=root.ts))
    await outage.ends()
    assert texts(await world.poll(second)) == [["swarm#second again please"]]
    await outage.ends()
    assert len(await world.inbox_messages(again)) == 1


async def test_a_mention_is_found_in_a_thread_that_somebody_owns_only_since_the_gap_opened(
    world: World, outage: Outage
) -> None:
    first, second = await world.lead("first"), await world.lead("second")
    root = outage.says(said("swarm#all hello"))
    await world.hears(root)
    for agent in (first, second):
        await world.answers(agent, await world.only(agent), "hi")
    await outage.begins()
    missed_mention = outage.says(said("swarm#second again please", thread_ts=root.ts))
    await world.database.write(watermarks.open_gap, ME.team)
    await world.hears(outage.says(said("swarm#first and you?", thread_ts=root.ts)))
    await world.catch_up.read_gap()
    assert len(await world.inbox_messages(missed_mention)) == 1


@pytest.mark.parametrize("context", ["unknown", "stale"])
@pytest.mark.parametrize("is_tracked", [True, False])
async def test_a_thread_that_was_not_known_whole_and_left_alone_is_read_in_a_gap(
    world: World, outage: Outage, context: str, is_tracked: bool
) -> None:
    """Slack has refused it before, or it was doubted."""
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    await world.change(f"UPDATE threads SET context = '{context}', context_due_at = NULL")
    if not is_tracked:
        await world.change("UPDATE threads SET owner_id = NULL")
    await outage.begins()
    shown = outage.says(said(f"{BOT} for all to see", thread_ts=root.ts, subtype="thread_broadcast"))
    world.slack.channels["C1"].append(ChannelMessage(message=shown))
    outage.says(said(f"{BOT} and then?", thread_ts=root.ts))
    await outage.ends()
    got = [inbox_message.text for trigger in await world.poll(lead) for inbox_message in trigger.inbox_messages]
    assert got == ["@UBOT for all to see", "@UBOT and then?"]


@pytest.mark.parametrize(("context", "is_open"), [("unknown", False), ("stale", False), ("stale", True)])
async def test_a_tracked_thread_that_was_left_alone_is_read_in_a_gap_however_old_it_is(
    world: World, outage: Outage, context: str, is_open: bool
) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    await outage.begins()
    if is_open:
        await world.database.write(watermarks.open_gap, ME.team)
        await world.backfill.read_due()
    await world.change(f"UPDATE threads SET context = '{context}', context_due_at = NULL")
    outage.says(said("and then?", thread_ts=root.ts))
    world.slack.channels["C1"] = []  # its root is too old to be shown
    await outage.ends()
    assert texts(await world.poll(lead)) == [["and then?"]]


@pytest.mark.both_engines
async def test_a_thread_that_slack_refuses_for_good_is_read_once_in_a_gap(world: World, outage: Outage) -> None:
    lead = await world.lead()
    root = outage.says(said(f"{BOT} hello"))
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "hi")
    await world.change("UPDATE threads SET context = 'unknown', context_due_at = NULL")
    world.slack.channels["C1"] = []  # we were removed
    for _ in ("a gap", "another"):
        tried = 0
        for _ in range(3):  # it is opened anew while it is read
            await world.database.write(watermarks.open_gap, ME.team)
            world.slack.reads_fail.append(NotFound("not_in_channel"))
            tried += await world.backfill.read_due()
            world.slack.reads_fail.clear()
        assert tried == 1
        await world.catch_up.read_gap()
        assert await world.database.read(watermarks.gap, ME.team) is None
