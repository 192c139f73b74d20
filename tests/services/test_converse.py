"""Agents that answer live, run end to end: what they get, what becomes of the work, what people see."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.answers.agents import History, RunEnd
from swarm.domain.answers.calls import NOTHING_BELOW
from swarm.domain.answers.events import (
    Asked,
    Broken,
    Failed,
    Finished,
    Interrupted,
    RunInput,
    Speaker,
    TextDelta,
)
from swarm.domain.model.deliveries import DeliveryRefused
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import AuthorKind, ChannelType, SlackMessage
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.prompts.input import ChannelFacts
from swarm.store import requests
from tests.support.live import Events, Gate, Scripted, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, said

CHECK, CROSS = "white_check_mark", "x"


async def status(world: World, message: SlackMessage) -> InboxStatus:
    return (await world.inbox_message(message)).status


def texts_of(run: RunInput) -> list[str]:
    return [message.text for message in run.messages]


# What a run gets


@pytest.mark.req("STREAM-01")
async def test_a_run_gets_the_persons_own_words_and_nothing_else(world: World) -> None:
    ada = Scripted()
    world.slack.emails["U1"] = "alice@example.com"
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT}, tell me: is 1 < 2 &amp; why?")
        await show.over(root)
    (run,) = ada.inputs
    (message,) = run.messages
    assert (message.text, message.speaker, message.author) == ("tell me: is 1 < 2 & why?", Speaker.USER, "alice")
    assert run.history == ()
    assert "alice@example.com" not in repr(run)


@pytest.mark.req("STREAM-01", "CHAN-03")
async def test_what_shapes_an_answer_comes_apart_and_what_does_not_apply_is_absent(world: World) -> None:
    ada = Scripted()
    world.slack.facts["C1"] = ChannelFacts(name="general", topic="all sorts")
    async with playing(world, hired("ada", ada)) as show:
        await show.over(await world.says(f"{BOT} hello"))
        direct = said("hello", channel="D1", channel_type=ChannelType.DM)
        await show.over(await world.hears(direct))
    in_channel, in_direct = (run.client_context for run in ada.inputs)
    assert in_channel == {
        "source": "slack",
        "user": {"id": "U1", "name": "alice"},
        "channel_type": "channel",
        "channel_name": "#general",
        "channel_topic": "all sorts",
    }
    assert in_direct["channel_type"] == "dm"
    assert not {"channel_topic", "user_email", "overthink"} & set(in_direct)


@pytest.mark.req("STREAM-02")
async def test_the_conversation_is_the_same_for_every_run_in_a_thread_and_another_elsewhere(world: World) -> None:
    ada = Scripted()
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await world.says("and?", thread=root)
        await show.over(root, 2)
        await show.over(await world.says(f"{BOT} hello"))
    first, second, elsewhere = (run.conversation_id for run in ada.inputs)
    assert first == second != elsewhere


@pytest.mark.req("LOOP-12", "STREAM-01")
async def test_what_was_said_meanwhile_comes_together_and_in_order_with_the_history_apart(world: World) -> None:
    gate = Gate(before="", after="The first answer.")
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} one")
        await gate.arrived.wait()
        await world.says("two", thread=root)
        await world.says("three", thread=root, by="U2")
        gate.opened.set()
        await show.over(root, 2)
        await world.send()
        assert [len(show.live.of(root)), [*map(texts_of, ada.inputs)]] == [2, [["one"], ["two", "three"]]]
    history = [(message.speaker, message.text, message.author) for message in ada.inputs[1].history]
    assert history == [(Speaker.USER, "one", "alice"), (Speaker.ASSISTANT, "The first answer.", "ada")]


@pytest.mark.req("LOOP-05", "STREAM-01")
async def test_of_a_long_thread_an_agent_gets_the_first_message_the_newest_and_how_many_there_are_between(
    world: World,
) -> None:
    ada = Scripted()
    governed = world.governed_by(OperatingPolicy(history_characters=60))
    async with playing(governed, hired("ada", ada)) as show:
        root = said("the beginning of it", by="U2")
        between = [said(f"remark number {number}", by="U2", thread_ts=root.ts) for number in range(9)]
        asked = said(f"{BOT} well?", thread_ts=root.ts)
        world.slack.threads["C1", root.ts] = [root, *between, asked]
        await governed.hears(asked)
        await governed.backfill.read_due()
        await show.over(asked)
    history = [(message.author, message.text) for message in ada.inputs[0].history]
    assert history == [
        ("bob", "the beginning of it"),
        ("swarm", "(7 messages of this thread are left out here.)"),
        ("bob", "remark number 7"),
        ("bob", "remark number 8"),
    ]
    assert texts_of(ada.inputs[0]) == ["well?"]


@pytest.mark.req("STREAM-01")
async def test_an_agent_that_remembers_gets_new_messages_only(world: World) -> None:
    ada = Scripted()
    async with playing(world, hired("ada", ada, history=History.NEW)) as show:
        root = await world.says(f"{BOT} one")
        await show.over(root)
        await world.says("two", thread=root)
        await show.over(root, 2)
    assert (texts_of(ada.inputs[1]), ada.inputs[1].history) == (["two"], ())


@pytest.mark.req("STREAM-13")
async def test_an_agent_that_remembers_knows_the_discussion_it_is_mentioned_in_and_hears_of_it_once(
    world: World,
) -> None:
    ada, bea = Scripted(), Scripted(says("Bea's answer."))
    async with playing(world, hired("ada", ada, history=History.NEW), hired("bea", bea)) as show:
        root = said("shall we deploy?", by="U2")
        before = said("the tests are red", thread_ts=root.ts)
        asked = said(f"{BOT} swarm#ada what do you think?", thread_ts=root.ts)
        world.slack.threads["C1", root.ts] = [root, before, asked]
        await world.hears(asked)
        await world.backfill.read_due()
        await show.over(asked)
        await world.says("swarm#bea and you?", thread=root)
        await show.over(asked, 2)
        await world.says("swarm#ada she is right", thread=root, by="U2")
        await show.over(asked, 3)
    first, again = ([(message.author, message.text) for message in run.history] for run in ada.inputs)
    assert first == [("bob", "shall we deploy?"), ("alice", "the tests are red")]
    assert again == [("alice", "swarm#bea and you?"), ("bea", "Bea's answer.")]


@pytest.mark.req("STREAM-13")
async def test_what_a_run_that_failed_was_told_is_told_again(world: World) -> None:
    """Nobody knows how much of it has arrived."""
    ada = Scripted()
    ada.scripts.append(ends(Broken(reason="it cannot be reached")))
    async with playing(world, hired("ada", ada, history=History.NEW)) as show:
        root = await world.says(f"{BOT} one")
        await show.over(root)
        await world.says(f"{BOT} two", thread=root)
        await show.over(root, 2)
    assert [message.text for message in ada.inputs[1].history if message.author == "alice"] == ["one"]


@pytest.mark.req("STREAM-04")
async def test_an_answer_with_signs_that_mean_something_to_slack_comes_back_as_it_was_said(world: World) -> None:
    ada = Scripted(says("1 < 2 & <!channel>"))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} one")
        await show.over(root)
        await world.says("two", thread=root)
        await show.over(root, 2)
        assert show.live.of(root)[0].text == "1 &lt; 2 &amp; &lt;!channel&gt;"
    assert ada.inputs[1].history[-1].text == "1 < 2 & <!channel>"


# How a run ends


@pytest.mark.req("STREAM-03", "LOOP-13", "LOOP-14")
async def test_an_answer_resolves_its_message_and_frees_the_thread(world: World) -> None:
    ada = Scripted(says("Hello there."))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        await world.send()
        (shown,) = show.live.of(root)
        assert (shown.text, shown.streaming, shown.closing.feedback) == ("Hello there.", False, True)
        assert (run.status, run.requester) == (RunStatus.ANSWERED, "U1")
        assert await status(world, root) is InboxStatus.RESPONDED
        assert show.live.statuses[root.ts] == ""
    assert (root.ts, CHECK) in world.slack.reactions
    assert await leases_open(world) == 0
    assert world.slack.posts == []


async def leases_open(world: World) -> int:
    (row,) = await world.rows("SELECT count(*) AS n FROM leases WHERE ended_as IS NULL")
    return int(row["n"])


BAD_ENDS: dict[str, tuple[RunEnd, str]] = {
    "failed": (Failed(message="no such model"), "There is no answer: no such model"),
    "broken": (Broken(reason="it hung up"), "*ada* hung up"),
    "empty": (Finished(), "*ada* ended without an answer"),
}


@pytest.mark.req("STREAM-04", "STREAM-07")
@pytest.mark.parametrize("end", BAD_ENDS)
async def test_a_run_without_an_answer_is_told_in_the_thread_with_a_retry(world: World, end: str) -> None:
    event, words = BAD_ENDS[end]
    async with playing(world, hired("ada", Scripted(ends(event)))) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        await world.send()
        assert show.live.of(root) == []
        assert show.live.statuses[root.ts] == ""
    assert run.status is RunStatus.FAILED
    assert await status(world, root) is InboxStatus.DEAD
    (post,) = [done for done in world.slack.landed if done.kind == "post"]
    assert post.text == f"⚠️ {words}."
    assert post.closing is not None
    assert post.closing.retry
    assert (root.ts, CROSS) in world.slack.reactions
    assert await leases_open(world) == 0


@pytest.mark.req("STREAM-07")
async def test_a_run_that_breaks_off_keeps_what_it_said(world: World) -> None:
    ada = Scripted(ends(TextDelta(text="Half of it", message_id="1"), Broken(reason="it hung up")))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        (shown,) = show.live.of(root)
    assert (shown.text, shown.streaming, shown.closing.retry) == ("Half of it", False, True)
    assert "it hung up" in shown.closing.note
    assert (run.status, await status(world, root)) == (RunStatus.FAILED, InboxStatus.DEAD)


@pytest.mark.req("STREAM-04")
async def test_what_slack_did_not_take_live_is_posted_as_it_was_said(world: World) -> None:
    async with playing(world, hired("ada", Scripted(says("1 < 2 & <!channel>")))) as show:
        for _ in range(4):
            show.live.script.append(lambda live, place, call: DeliveryRefused(error="internal_error"))
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await world.send()
        assert show.live.of(root) == []
    assert world.slack.posts == ["1 &lt; 2 &amp; &lt;!channel&gt;"]
    assert await status(world, root) is InboxStatus.RESPONDED


@pytest.mark.req("STREAM-08")
async def test_a_bot_gets_one_post_and_no_stream(world: World) -> None:
    operating_policy = governing(everywhere=ChannelPolicy(allowed_bots=frozenset({"B1"})))
    world = world.governed_by(operating_policy)
    ada = Scripted()
    async with playing(world, hired("ada", ada)) as show:
        root = await world.hears(said(f"{BOT} disk full", by="B1", kind=AuthorKind.BOT))
        (run,) = await show.over(root)
        await world.send()
        assert show.live.calls == []
    assert (len(ada.invoked), ada.inputs, run.requester) == (1, [], None)
    assert world.slack.posts == ["Beep."]
    assert await status(world, root) is InboxStatus.RESPONDED


@pytest.mark.req("STREAM-08")
async def test_a_bots_run_that_fails_is_told_too(world: World) -> None:
    world = world.governed_by(governing(everywhere=ChannelPolicy(allowed_bots=frozenset({"B1"}))))
    ada = Scripted()
    ada.result = Failed(message="no such model")
    async with playing(world, hired("ada", ada)) as show:
        root = await world.hears(said(f"{BOT} disk full", by="B1", kind=AuthorKind.BOT))
        (run,) = await show.over(root)
        await world.send()
    assert run.status is RunStatus.FAILED
    assert world.slack.posts == ["⚠️ There is no answer: no such model."]


# A run that asks people

QUESTION = Interrupted(asked=(Asked(id="i1", prompt="May I?"),))


@pytest.mark.req("STREAM-03")
async def test_a_question_leaves_the_run_and_its_message_waiting(world: World) -> None:
    ada = Scripted(ends(TextDelta(text="I could deploy.", message_id="1"), QUESTION))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} deploy")
        (run,) = await show.over(root)
        (shown,) = show.live.of(root)
        assert shown.closing == NOTHING_BELOW  # the answer ends below the card
        assert (run.status, await status(world, root)) == (RunStatus.WAITING, InboxStatus.WAITING)
        (asked,) = await world.database.read(requests.of_run, run.id)
        assert (asked.prompt, asked.status) == ("May I?", RequestStatus.OPEN)
        assert await leases_open(world) == 0


@pytest.mark.both_engines
@pytest.mark.req("STREAM-03", "HITL-02", "LOOP-12")
async def test_the_next_message_answers_the_question_and_the_run_continues_with_it(world: World) -> None:
    ada = Scripted()
    ada.scripts.append(ends(TextDelta(text="I could deploy.", message_id="1"), QUESTION))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} deploy")
        (waiting,) = await show.over(root)
        answer = await world.says("yes, to dev", thread=root)
        await show.over(root, 2)
        (before, after) = await show.runs(root)
        (asked,) = await world.database.read(requests.of_run, waiting.id)
    assert (before.status, after.status) == (RunStatus.ANSWERED, RunStatus.ANSWERED)
    assert (asked.status, asked.values) == (RequestStatus.ANSWERED, {"answer": "yes, to dev"})
    (decided,) = ada.inputs[1].decided
    assert (decided.interrupt_id, decided.values) == ("i1", {"answer": "yes, to dev"})
    assert await status(world, root) is InboxStatus.RESPONDED
    assert await world.inbox_messages(answer) == []


@pytest.mark.req("STREAM-03", "HITL-02", "LOOP-12")
async def test_a_message_from_before_the_question_is_no_answer_to_it(world: World) -> None:
    go_on = asyncio.Event()

    async def script(run: RunInput) -> Events:
        yield TextDelta(text="I could deploy.", message_id="1")
        await go_on.wait()
        yield QUESTION

    ada = Scripted()
    ada.scripts.append(script)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} deploy")
        await wait_until(lambda: shown_of(show, root))
        earlier = await world.says("to dev, please", thread=root)
        go_on.set()
        await show.over(root)
        (before,) = await show.runs(root)
        (asked,) = await world.database.read(requests.of_run, before.id)
        assert (asked.status, await status(world, earlier)) == (RequestStatus.OPEN, InboxStatus.UNREAD)
        await world.says("yes", thread=root)
        await show.over(root, 3)
    assert [[one.values for one in run.decided] for run in ada.inputs] == [[], [{"answer": "yes"}], []]
    assert texts_of(ada.inputs[2]) == ["to dev, please"]


async def shown_of(show: object, root: SlackMessage) -> object:
    return show.live.of(root)  # type: ignore[attr-defined]


# Several at once


@pytest.mark.req("LOOP-12")
async def test_threads_do_not_wait_for_each_other(world: World) -> None:
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        stuck = await world.says(f"{BOT} one")
        await gate.arrived.wait()
        for _ in range(3):
            await show.over(await world.says(f"{BOT} two"))
        assert await show.runs(stuck)
        assert await status(world, stuck) is InboxStatus.CLAIMED
        gate.opened.set()
        await show.over(stuck)


@pytest.mark.req("LOOP-12")
async def test_an_agent_has_no_more_runs_at_once_than_it_may(world: World) -> None:
    gates = [Gate() for _ in range(5)]
    ada = Scripted()
    ada.scripts.extend(gates)
    async with playing(world, hired("ada", ada, parallel=2), hired("bob", Scripted())) as show:
        roots = [await world.says(f"swarm#ada {number}") for number in range(5)]
        await gates[1].arrived.wait()
        for _ in range(3):
            await show.over(await world.says("swarm#bob hello"))
        assert len(ada.inputs) == 2
        for gate in gates:
            gate.opened.set()
        for root in roots:
            await show.over(root)
    assert ada.most == 2


@pytest.mark.req("LOOP-12")
async def test_an_agent_that_is_stuck_holds_up_no_other(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate), parallel=1), hired("bob", Scripted())) as show:
        root = await world.says("swarm#ada hello")
        await gate.arrived.wait()
        await show.over(await world.says("swarm#bob hello"))
        assert len(await show.runs(root)) == 1


@pytest.mark.req("LOOP-11", "STREAM-04")
async def test_two_agents_answer_in_one_thread_at_once_each_in_a_message_of_its_own(world: World) -> None:
    gates = Gate(before="I am ada.\n"), Gate(before="I am bob.\n")
    async with playing(world, hired("ada", Scripted(gates[0])), hired("bob", Scripted(gates[1]))) as show:
        root = await world.says("swarm#ada and swarm#bob hello")
        for gate in gates:
            await gate.arrived.wait()
        for gate in gates:
            gate.opened.set()
        await show.over(root, 2)
        shown = {message.place.agent_name: message.text for message in show.live.of(root)}
    assert shown == {"ada": "I am ada.\nThe end.", "bob": "I am bob.\nThe end."}
    assert {inbox_message.status for inbox_message in await world.inbox_messages(root)} == {InboxStatus.RESPONDED}


@pytest.mark.req("LOOP-12")
@pytest.mark.timeout(60)
async def test_fifty_threads_at_once_are_all_answered(world: World) -> None:
    async with playing(world, hired("ada", Scripted(), parallel=50)) as show:
        roots = [await world.says(f"{BOT} {number}") for number in range(50)]
        for root in roots:
            await show.over(root, within_seconds=30)
        assert [message.streaming for message in show.live.messages] == [False] * 50
    assert await leases_open(world) == 0
