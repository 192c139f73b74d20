"""Stopping what runs: `!stop` in a thread or a direct message, the button, and Slack's own Stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from swarm.domain.answers.calls import NOTHING_BELOW
from swarm.domain.errors import Conflict
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import REACTION_STOPPED as STOPPED
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.runs import RunOutcome, RunStep
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import AuthorKind, ChannelType, SlackMessage
from swarm.domain.policy.access import AgentAccess
from swarm.domain.policy.channels import ChannelPolicy, Listen, PeopleLists
from swarm.domain.requests.button_actions import STOP_RUN_ACTION, ButtonPressed, SessionStopped
from swarm.services.operate.explain import Explanations
from swarm.services.runs.run_control import COMPLETE_TEXT, NOTHING_TEXT, stop_own
from swarm.store import agents
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.threads import open_work
from tests.services.test_locks import under_way
from tests.services.test_task_races import once_it_waits
from tests.support.live import playing
from tests.support.policies import governing
from tests.support.runs import asked, now
from tests.support.slack import is_busy
from tests.support.tasks import asked_and_handed, hand, is_work, status_of, work_of
from tests.support.world import BOT, ME, World, edit, holding, said, texts

pytestmark = pytest.mark.req("STREAM-09")

ONLY_U1 = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U1"})))
CHECK = "white_check_mark"


async def stopped_by(world: World, run: Run) -> str | None:
    return (await now(world, run)).stop_requested_by


async def end(world: World, run: Run, outcome: RunOutcome = RunOutcome.ANSWERED) -> None:
    await close(world, run, outcome)
    await world.database.write(runs.end, run.id, outcome.step)
    agent = await world.database.read(agents.by_id, run.agent_id)
    assert agent
    await world.services.work.finish(agent, [run.lease_token], FinishOutcome.DISMISSED, "it is answered")


async def close(world: World, run: Run, outcome: RunOutcome = RunOutcome.ANSWERED) -> bool:
    return await world.database.write(runs.closing, run.id, text="", closing=NOTHING_BELOW, outcome=outcome)


async def once_more(world: World, run: Run) -> Run:
    """Another run of the same agent in the same thread."""
    later = await world.database.write(
        runs.start,
        agent_id=run.agent_id,
        thread_id=run.thread_id,
        lease_token="another",
        trigger_id=run.trigger_id,
        attempt=2,
        conversation_id=run.conversation_id,
        agui_run_id="another",
    )
    assert later is not None
    return later


def direct(text: str, *, thread_ts: str | None = None) -> SlackMessage:
    return said(text, channel="D1", channel_type=ChannelType.DM, thread_ts=thread_ts)


# !stop


@pytest.mark.parametrize("text", ["!stop", "!STOP ", f"{BOT} !Stop", f" !stop {BOT}"])
async def test_it_stops_the_runs_of_its_thread_and_goes_to_no_agent(world: World, text: str) -> None:
    root, run = await asked(world, await world.lead())
    stop = await world.says(text, thread=root, by="U2")
    assert await stopped_by(world, run) == "U2"
    assert await world.database.read(runs.stops_wanted) == [run.id]
    assert await world.inbox_messages(stop) == []
    await world.send()
    assert (stop.ts, CHECK) in world.slack.reactions
    assert (stop.ts, "eyes") not in world.slack.reactions


@pytest.mark.both_engines
async def test_explain_tells_what_became_of_it(world: World) -> None:
    root, _ = await asked(world, await world.lead())
    stop = await world.says("!stop", thread=root)
    explained = await Explanations(world.database, ME.team).explain(f"C1:{stop.ts}")
    assert [(step["change"], step["reason"]) for step in explained["routing"]] == [
        ("route.stop", "it stops what runs here")
    ]


@pytest.mark.parametrize("where", ["in a thread", "in a channel", "in a direct message"])
async def test_where_nothing_runs_no_agent_reads_it_and_its_author_is_told(world: World, where: str) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    await end(world, run)
    match where:
        case "in a thread":
            stop = await world.says("!stop", thread=root)
        case "in a channel":
            stop = await world.says(f"{BOT} !stop")
        case _:
            stop = await world.hears(direct("!stop"))
    assert await world.inbox_messages(stop) == []
    assert await world.poll(lead) == []
    await world.send()
    (told,) = [done for done in world.slack.landed if done.kind is DeliveryKind.POST]
    assert (told.text, told.person) == (NOTHING_TEXT, None if where == "in a direct message" else "U1")
    assert (stop.ts, CHECK) in world.slack.reactions
    await world.hears(stop)
    await world.send()
    assert len([done for done in world.slack.landed if done.kind is DeliveryKind.POST]) == 1


async def test_people_among_themselves_may_say_it(world: World) -> None:
    await world.lead()
    root = await world.says("just talking")
    stop = await world.says("!stop", thread=root)
    assert await world.inbox_messages(stop) == []
    await world.send()
    assert (world.slack.posts, world.slack.reactions) == ([], [])


async def test_an_answer_that_is_just_being_closed_still_keeps_it_from_the_agent(world: World) -> None:
    root, run = await asked(world, await world.lead())
    await close(world, run)
    stop = await world.says("!stop", thread=root)
    assert await world.inbox_messages(stop) == []
    assert await stopped_by(world, run) is None
    await world.send()
    assert (stop.ts, CHECK) in world.slack.reactions


async def test_said_twice_it_is_no_message_either(world: World) -> None:
    root, run = await asked(world, await world.lead())
    for by in ("U1", "U2"):
        again = await world.says("!stop", thread=root, by=by)
        assert await world.inbox_messages(again) == []
    assert await stopped_by(world, run) == "U1"


async def test_told_of_again_it_does_not_stop_what_has_begun_since(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    stop = await world.says("!stop", thread=root)
    await world.database.write(runs.end, run.id, RunStep.STOP)
    later = await once_more(world, run)
    await world.hears(stop)
    assert await stopped_by(world, later) is None
    assert await world.inbox_messages(stop) == []


@pytest.mark.req("LOOP-16")
async def test_it_cancels_the_tasks_of_its_thread_and_ends_their_runs(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    await world.says("swarm#lead and the words", thread=first.root)
    second = await hand(world, lead, await work_of(world, lead), b, what="Words.", depends_on=[first.task_id])
    await world.says("!stop", thread=first.root)
    assert [await status_of(world, task) for task in (first.task_id, second)] == [TaskStatus.CANCELLED] * 2
    beat = await world.services.work.renew(a, [run.lease_token])
    assert beat.renewed.lost == (run.lease_token,)
    await world.send()
    assert [post for post in world.slack.posts if "topped" in post or "ancelled" in post] == [LINE.format(person="U1")]
    assert not any("failed" in post for post in world.slack.posts)


async def test_a_task_that_waits_for_its_run_or_for_people_is_stopped_as_well(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.says("!stop", thread=handed.root)
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED


async def test_it_leaves_other_threads_alone(world: World) -> None:
    lead = await world.lead()
    _, elsewhere = await asked(world, lead)
    root, run = await asked(world, lead)
    await world.says("!stop", thread=root)
    assert (await stopped_by(world, elsewhere), await stopped_by(world, run)) == (None, "U1")


async def test_who_may_not_speak_here_stops_nothing(world: World) -> None:
    root, run = await asked(world, await world.lead())
    await world.governed_by(ONLY_U1).says("!stop", thread=root, by="U2")
    assert await stopped_by(world, run) is None


@pytest.mark.parametrize("text", ["please !stop", "!stopit", "<@U3> !stop"])
async def test_what_says_more_or_is_said_to_somebody_else_stops_nothing(world: World, text: str) -> None:
    root, run = await asked(world, await world.lead())
    await world.says(text, thread=root)
    assert await stopped_by(world, run) is None


async def test_a_bot_stops_nothing(world: World) -> None:
    operating_policy = governing(everywhere=ChannelPolicy(allowed_bots=frozenset({"B1"})))
    root, run = await asked(world, await world.lead())
    message = said("!stop", by="B1", kind=AuthorKind.BOT, thread_ts=root.ts)
    await world.governed_by(operating_policy).hears(message)
    assert await stopped_by(world, run) is None


# !stop in a direct message


async def test_in_a_direct_message_it_stops_what_was_active_last(world: World) -> None:
    lead = await world.lead()
    _, older = await asked(world, lead, message=direct("first"))
    world.clock.advance(10)
    _, newer = await asked(world, lead, message=direct("second"))
    world.clock.advance(10)
    idle, over = await asked(world, lead, message=direct("third"))
    await end(world, over)
    stop = await world.hears(direct("!stop"))
    assert [await stopped_by(world, run) for run in (older, newer)] == [None, "U1"]
    assert await world.inbox_messages(stop) == []
    await world.send()
    assert (stop.ts, CHECK) in world.slack.reactions
    assert [row["thread_ts"] for row in await world.rows("SELECT thread_ts FROM threads")].count(stop.ts) == 0
    assert idle.ts != stop.ts


@pytest.mark.both_engines
async def test_in_a_direct_message_it_leaves_channels_alone(world: World) -> None:
    lead = await world.lead()
    _, elsewhere = await asked(world, lead)
    stop = await world.hears(direct("!stop"))
    assert await world.inbox_messages(stop) == []
    assert await stopped_by(world, elsewhere) is None


async def test_in_a_direct_message_it_counts_once_however_often_slack_tells_of_it(world: World) -> None:
    lead = await world.lead()
    _, run = await asked(world, lead, message=direct("first"))
    stop = direct("!stop")
    await asyncio.gather(*(world.hears(stop) for _ in range(3)))
    await end(world, run, RunOutcome.STOPPED)
    await world.hears(stop)  # nothing runs any more
    _, later = await asked(world, lead, message=direct("second"))
    await world.hears(stop)
    assert await world.inbox_messages(stop) == []
    assert await stopped_by(world, later) is None
    told = await world.rows("SELECT change FROM history WHERE change = 'route.stop'")
    assert len(told) == 1


# What a polling agent does without a stream

LINE = "🛑 Stopped by <@{person}>."


async def typed(world: World, root: SlackMessage) -> None:
    await world.says("!stop", thread=root)


async def pressed_in_slack(world: World, root: SlackMessage) -> None:
    await world.turn_control.stop_session(session(root))


async def commanded(world: World, root: SlackMessage) -> None:
    (thread,) = await world.rows("SELECT id FROM threads WHERE channel = 'C1'")
    assert await world.database.write(stop_own, thread["id"], "U1", world.operating_policy) == 1


WAYS = [typed, pressed_in_slack, commanded]


async def marks(world: World, message: SlackMessage) -> set[str]:
    await world.send()
    return {emoji for ts, emoji in world.slack.reactions if ts == message.ts} - {"eyes"}


@pytest.mark.both_engines
@pytest.mark.parametrize("stop", WAYS)
async def test_every_way_ends_the_work_on_a_message_in_the_same_way(
    world: World, stop: Callable[[World, SlackMessage], Awaitable[None]]
) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    await world.sweep()
    trigger = await world.only(lead, hold=True)
    await stop(world, root)
    assert (await world.inbox_message(root)).status is InboxStatus.DISMISSED
    assert await marks(world, root) == {STOPPED}
    assert world.slack.posts == [LINE.format(person="U1")]
    assert (await world.services.work.renew(lead, [trigger.lease_token])).renewed.lost == (trigger.lease_token,)
    with pytest.raises(Conflict, match="This inbox message was stopped by <@U1>") as refused:
        await world.answers(lead, trigger, "It is done.")
    assert "post nothing more" in str(refused.value.hint)
    with pytest.raises(Conflict, match="stopped by <@U1>"):
        await world.services.streams.open(holding(trigger, lead), inbox_message_id=trigger.inbox_messages[0].id)
    assert await world.poll(lead) == []
    explained = await Explanations(world.database, ME.team).explain(f"C1:{root.ts}")
    assert explained["entries"][0]["timeline"][-1]["reason"] == "stopped by <@U1>"
    later = await world.says("once more", thread=root)
    assert (await world.only(lead)).inbox_messages[0].ts == later.ts


async def test_a_stopped_stream_takes_no_reply_either(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    trigger = await world.only(lead)
    caller = holding(trigger, lead)
    async with playing(world) as show:
        await world.services.streams.open(caller, inbox_message_id=trigger.inbox_messages[0].id, text="On and on")
        await world.says("!stop", thread=root)
        await show.over(root)
    with pytest.raises(Conflict, match="This inbox message was stopped by <@U1>"):
        await world.services.replies.reply(caller, trigger.inbox_messages[0].id, "It is done.")
    assert await marks(world, root) == {STOPPED}


@pytest.mark.both_engines
async def test_two_stops_at_once_are_one_and_the_agent_gets_neither(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    await world.only(lead)
    stops = await asyncio.gather(*(world.says("!stop", thread=root, by=by) for by in ("U1", "U2")))
    (one,) = await world.rows("SELECT reason FROM history WHERE change = 'inbox.dismiss'")
    await world.send()
    assert sorted(world.slack.posts) == sorted([NOTHING_TEXT, f"🛑 {one['reason'].capitalize().replace('u', 'U')}."])
    assert [await world.inbox_messages(stop) for stop in stops] == [[], []]
    assert await world.poll(lead) == []


# What no agent has begun


@pytest.mark.both_engines
@pytest.mark.parametrize("running", [True, False])
async def test_what_was_written_before_it_and_waits_is_stopped_and_what_comes_after_runs(
    world: World, *, running: bool
) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    if running:
        await world.only(lead)
    queued = [await world.says("and this", thread=root), await world.says("and that", thread=root, by="U2")]
    stop = await world.says("!stop", thread=root, by="U3")
    after = await world.says("another job", thread=root)
    before = [root, *queued]
    assert [(await world.inbox_message(one)).status for one in before] == [InboxStatus.DISMISSED] * 3
    for one in before:
        assert await marks(world, one) == {STOPPED}
    assert await marks(world, stop) == {CHECK}
    assert world.slack.posts == ([LINE.format(person="U3")] if running else [])
    assert texts(await world.poll(lead)) == [["another job"]]
    explained = await Explanations(world.database, ME.team).explain(f"C1:{queued[0].ts}")
    assert explained["entries"][0]["timeline"][-1]["reason"] == "stopped by <@U3>"
    assert (await world.inbox_message(after)).status is InboxStatus.CLAIMED


async def test_what_waits_for_every_agent_and_without_any_is_stopped(world: World) -> None:
    root = await world.says(f"{BOT} is anybody there?")
    await world.says("!stop", thread=root)
    lead, worker = await world.lead(), await world.worker("a")
    assert [await world.poll(one) for one in (lead, worker)] == [[], []]
    both = await world.says("swarm#lead swarm#a look")
    await world.says("!stop", thread=both)
    assert [one.status for one in await world.inbox_messages(both)] == [InboxStatus.DISMISSED] * 2
    assert [await world.poll(one) for one in (lead, worker)] == [[], []]


async def test_slacks_stop_and_the_button_leave_alone_what_waits(world: World) -> None:
    lead = await world.lead()
    for number, stop in enumerate((pressed_in_slack, None)):
        root, run = await asked(world, lead)
        queued = await world.says("and this", thread=root)
        if stop:
            await stop(world, root)
        else:
            await world.buttons.press(press(run, key=f"press:{number}"))
        assert (await world.inbox_message(queued)).status is InboxStatus.UNREAD


@pytest.mark.both_engines
async def test_a_command_stops_what_its_person_wrote_and_nobody_has_begun(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job", by="U2")
    await world.only(lead)
    own, others = await world.says("mine", thread=root), await world.says("theirs", thread=root, by="U3")
    (thread_id,) = await world.database.read(open_work.stoppable_threads, ME.team, "C1", "U1")
    assert await world.database.write(stop_own, thread_id, "U1", world.operating_policy) == 1
    assert [(await world.inbox_message(one)).status for one in (root, own, others)] == [
        InboxStatus.CLAIMED,
        InboxStatus.DISMISSED,
        InboxStatus.UNREAD,
    ]
    assert (await marks(world, own), await marks(world, others)) == ({STOPPED}, set())


async def test_a_message_that_is_edited_into_a_stop_stops_its_authors_work(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    others, own = await world.says("theirs", thread=root, by="U2"), await world.says("mine", thread=root)
    await world.ingest.handle(edit(own, "!stop"))
    assert await stopped_by(world, run) == "U1"
    assert [(await world.inbox_message(one)).status for one in (others, own)] == [
        InboxStatus.UNREAD,
        InboxStatus.DISMISSED,
    ]
    assert await marks(world, own) == {STOPPED}


async def test_an_edit_that_asks_again_can_be_stopped_at_once(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} deploy")
    await world.ingest.handle(edit(root, f"{BOT} deploy to staging"))
    await world.says("!stop", thread=root)
    assert await world.poll(lead) == []
    assert (await world.inbox_message(root)).status is InboxStatus.DISMISSED


async def test_who_may_not_use_an_agent_does_not_stop_what_waits_for_it(world: World) -> None:
    limited = world.governed_by(
        governing(agent_access={"lead": AgentAccess(name="lead", people=PeopleLists(users=frozenset({"U1"})))})
    )
    await limited.lead()
    root = await limited.says(f"{BOT} a long job")
    await limited.says("!stop", thread=root, by="U2")
    assert (await limited.inbox_message(root)).status is InboxStatus.UNREAD


async def test_a_question_that_waits_for_an_answer_is_stopped_too(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} deploy")
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "Where?", wait=True)
    stop = await world.says("!stop", thread=root)
    assert ((await world.inbox_message(root)).status, await world.inbox_messages(stop)) == (InboxStatus.DISMISSED, [])
    assert await marks(world, root) == {STOPPED}
    assert world.slack.posts == ["Where?", LINE.format(person="U1")]


@pytest.mark.both_engines
async def test_a_command_stops_only_what_was_asked_for_by_its_person_last(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    await world.says("please", thread=root, by="U2")
    await world.only(lead)
    found = [
        await world.database.read(open_work.stoppable_threads, ME.team, "C1", person) for person in ("U1", "U2", "U3")
    ]
    (thread_id,) = found[1]
    assert found == [[], [thread_id], []]
    for person, stopped in (("U1", 0), ("U2", 1), ("U2", 0)):
        assert await world.database.write(stop_own, thread_id, person, world.operating_policy) == stopped
    assert await world.database.read(open_work.stoppable_threads, ME.team, "C1", "U2") == []


async def test_all_agents_at_work_are_stopped_and_the_thread_is_told_once(world: World) -> None:
    agents_at_work = [await world.lead(), await world.worker("a")]
    root = await world.says("swarm#lead swarm#a look")
    for agent in agents_at_work:
        await world.only(agent)
    await world.says("!stop", thread=root, by="U2")
    assert {entry.status for entry in await world.inbox_messages(root)} == {InboxStatus.DISMISSED}
    assert (await marks(world, root), world.slack.posts) == ({STOPPED}, [LINE.format(person="U2")])


async def test_in_a_direct_message_it_ends_such_work_as_well_and_older_work_after_it(world: World) -> None:
    lead = await world.lead()
    jobs = []
    for text in ("first", "second"):
        jobs.append(await world.hears(direct(text)))
        await world.only(lead)
        world.clock.advance(10)
    for ended in (1, 2):
        stop = await world.hears(direct("!stop"))
        assert await world.inbox_messages(stop) == []
        statuses = [(await world.inbox_message(job)).status for job in jobs]
        assert statuses.count(InboxStatus.DISMISSED) == ended
        assert statuses[1] is InboxStatus.DISMISSED


async def test_who_may_not_speak_here_ends_no_such_work(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    await world.only(lead)
    refusing = world.governed_by(ONLY_U1)
    await refusing.says("!stop", thread=root, by="U2")
    await refusing.turn_control.stop_session(session(root, by="U2"))
    assert (await world.inbox_message(root)).status is InboxStatus.CLAIMED


async def test_while_slack_is_down_the_work_ends_and_people_see_it_later(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} a long job")
    await world.only(lead)
    await world.send()
    world.slack.script.append(is_busy(30))
    world.slack.reaction_script.append(is_busy(30))
    await world.says("!stop", thread=root)
    await world.send()
    assert ((await world.inbox_message(root)).status, world.slack.posts) == (InboxStatus.DISMISSED, [])
    world.clock.advance(31)
    assert await marks(world, root) == {STOPPED}
    assert world.slack.posts == [LINE.format(person="U1")]


@pytest.mark.req("CHAN-02")
@pytest.mark.parametrize("stop", [typed, pressed_in_slack])
async def test_silent_work_ends_silently(world: World, stop: Callable[[World, SlackMessage], Awaitable[None]]) -> None:
    qa = world.governed_by(governing(channels={"C1": ChannelPolicy(listen=Listen.ALL, overthink=True)}))
    lead = await qa.lead()
    root = await qa.says("Does anybody know the plan?")
    trigger = await qa.only(lead)
    (thread,) = await qa.rows("SELECT id FROM threads")
    assert await qa.database.write(stop_own, thread["id"], "U1", qa.operating_policy) == 0
    assert await qa.database.read(open_work.stoppable_threads, ME.team, "C1", "U1") == []
    await stop(qa, root)
    assert (await qa.inbox_message(root)).status is InboxStatus.DISMISSED
    ends = await qa.rows("SELECT change FROM history WHERE substr(change, 1, 8) = 'silence.'")
    assert [row["change"] for row in ends] == ["silence.stopped"]
    with pytest.raises(Conflict, match="stopped by"):
        await qa.answers(lead, trigger, "Here it is.")
    assert await qa.rows("SELECT kind, text FROM deliveries") == []


@pytest.mark.req("LOOP-16")
@pytest.mark.parametrize("stop", WAYS)
async def test_every_way_cancels_a_task_that_its_worker_has_not_begun(
    world: World, stop: Callable[[World, SlackMessage], Awaitable[None]]
) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await stop(world, handed.root)
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED
    await world.send()
    assert [post for post in world.slack.posts if "<@U1>" in post] == [LINE.format(person="U1")]


# The button


def press(run: Run, *, key: str = "press:1", by: str = "U1", channel: str = "C1") -> ButtonPressed:
    return ButtonPressed(
        key=key,
        action_id=STOP_RUN_ACTION,
        value=run.id,
        user_id=by,
        channel=channel,
        message_ts="1700000000.000900",
        thread_ts=None,
    )


async def test_the_button_stops_its_run_and_a_second_press_is_quiet_while_it_ends(world: World) -> None:
    _, run = await asked(world, await world.lead())
    buttons = world.buttons
    presses = [press(run), press(run), press(run, key="press:2", by="U2")]
    assert await asyncio.gather(*map(buttons.press, presses)) == [None] * 3
    assert await stopped_by(world, run) in ("U1", "U2")


@pytest.mark.parametrize("closed", [True, False])
async def test_a_late_press_hears_that_the_answer_is_complete(world: World, closed: bool) -> None:
    _, run = await asked(world, await world.lead())
    await (end if closed else close)(world, run)
    assert await world.buttons.press(press(run)) == COMPLETE_TEXT


async def test_the_button_of_another_channel_stops_nothing(world: World) -> None:
    _, run = await asked(world, await world.lead())
    buttons = world.buttons
    assert await buttons.press(press(run, channel="C2")) == COMPLETE_TEXT
    assert await buttons.press(replace(press(run, key="press:2"), value="nothing")) == COMPLETE_TEXT
    assert await stopped_by(world, run) is None


async def test_the_button_does_nothing_for_who_may_not_speak_here(world: World) -> None:
    _, run = await asked(world, await world.lead())
    told = await world.governed_by(ONLY_U1).buttons.press(press(run, by="U2"))
    assert str(told).startswith("You may not do that here")
    assert await stopped_by(world, run) is None


# Slack's own Stop


def session(root: SlackMessage, *, key: str = "Ev1", by: str = "U1") -> SessionStopped:
    return SessionStopped(key=key, channel=root.channel, thread_ts=root.root_ts, user_id=by, message_ts=())


async def test_slacks_stop_stops_the_runs_of_its_thread_once(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    _, elsewhere = await asked(world, lead)
    control = world.turn_control
    await control.stop_session(session(root))
    assert (await stopped_by(world, run), await stopped_by(world, elsewhere)) == ("U1", None)
    await world.database.write(runs.end, run.id, RunStep.STOP)
    later = await once_more(world, run)
    await control.stop_session(session(root))
    assert await stopped_by(world, later) is None


async def test_slacks_stop_does_nothing_for_who_may_not_speak_here_and_where_we_are_not(world: World) -> None:
    root, run = await asked(world, await world.lead())
    await world.governed_by(ONLY_U1).turn_control.stop_session(session(root, by="U2"))
    elsewhere = replace(session(root, key="Ev2"), thread_ts="1.1")
    await world.turn_control.stop_session(elsewhere)
    assert await stopped_by(world, run) is None


# Races, on PostgreSQL: in SQLite there is one writer, so nothing ever waits.

postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@postgresql
async def test_a_stop_that_meets_the_end_of_the_run_finds_it_over(world: World) -> None:
    _, run = await asked(world, await world.lead())

    def closes(tx: Transaction) -> None:
        runs.closing(tx, run.id, text="", closing=NOTHING_BELOW, outcome=RunOutcome.ANSWERED)

    async with under_way(world, closes) as go_on:
        pressed = world.buttons.press(press(run))
        assert await once_it_waits(world, go_on, pressed) == COMPLETE_TEXT
    assert await stopped_by(world, run) is None


@postgresql
async def test_the_end_of_a_run_that_meets_a_stop_is_still_the_end(world: World) -> None:
    _, run = await asked(world, await world.lead())

    def stops(tx: Transaction) -> None:
        runs.request_stop(tx, "U1", run_id=run.id)

    async with under_way(world, stops) as go_on:
        assert await once_it_waits(world, go_on, close(world, run))
    assert await stopped_by(world, run) == "U1"


@postgresql
@pytest.mark.req("LOOP-16")
async def test_a_stop_that_meets_the_completion_of_the_task_changes_nothing_of_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    complete = world.services.task_work._complete
    async with under_way(world, complete, holding(run, worker), handed.task_id, "42", None) as go_on:
        await once_it_waits(world, go_on, world.says("!stop", thread=handed.root))
    assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED
    assert not any(map(is_work, await world.poll(lead))), "only the news about its task"
