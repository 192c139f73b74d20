"""Who may use the swarm: one place decides, for every message that comes in."""

from __future__ import annotations

import pytest

from swarm.domain.model.threads import AuthorKind, ChannelType, SlackMessage
from swarm.domain.policy.channels import BOT_MESSAGES_PER_HOUR, ChannelPolicy, Listen
from tests.support.policies import governing
from tests.support.world import BOT, World, said

ALICE_ONLY = ChannelPolicy(allowed_users=frozenset({"U1"}))
PAGER = ChannelPolicy(allowed_bots=frozenset({"B1"}))


def by_pager(text: str, thread: SlackMessage | None = None) -> SlackMessage:
    return said(text, by="B1", kind=AuthorKind.BOT, thread_ts=thread.root_ts if thread else None)


@pytest.mark.req("CHAN-09")
@pytest.mark.parametrize("text", [f"{BOT} hello", "swarm#lead hello", "swarm#all hello"])
async def test_only_the_people_on_a_channels_list_are_heard_there(world: World, text: str) -> None:
    guarded = world.governed_by(governing(channels={"C1": ALICE_ONLY}))
    await guarded.lead()
    assert len(await guarded.inbox_messages(await guarded.says(text, by="U1"))) == 1
    denied = await guarded.says(text, by="U2")
    assert await guarded.inbox_messages(denied) == []
    elsewhere = await guarded.hears(said(text, by="U2", channel="C2"))
    assert len(await guarded.inbox_messages(elsewhere)) == 1
    told = await guarded.services.explanations.explain(f"C1:{denied.ts}")
    assert "not on the list of allowed users" in (told["routing"][0]["reason"] or "")


@pytest.mark.req("CHAN-09")
async def test_who_is_not_allowed_is_not_heard_in_an_owned_thread_or_a_direct_message_either(world: World) -> None:
    guarded = world.governed_by(governing(everywhere=ALICE_ONLY))
    await guarded.lead()
    root = await guarded.says(f"{BOT} hello")
    assert await guarded.inbox_messages(await guarded.says("me too", thread=root, by="U2")) == []
    direct = await guarded.hears(said("psst", by="U2", channel="D2", channel_type=ChannelType.DM))
    assert await guarded.inbox_messages(direct) == []


@pytest.mark.req("CHAN-01")
async def test_a_channel_that_is_switched_off_is_silent(world: World) -> None:
    guarded = world.governed_by(governing(channels={"C1": ChannelPolicy(enabled=False)}))
    await guarded.lead()
    assert await guarded.inbox_messages(await guarded.says(f"{BOT} hello")) == []


@pytest.mark.req("CHAN-01")
async def test_a_channels_agent_answers_where_the_channel_listens(world: World) -> None:
    await world.lead()
    helper = await world.worker("helper")
    listening = world.governed_by(governing(channels={"C1": ChannelPolicy(agent="helper", listen=Listen.ALL)}))
    inbox_message = await listening.inbox_message(await listening.says("how do I reset my password?"))
    assert inbox_message.agent_id == helper.id
    assert await listening.inbox_messages(await listening.hears(said("lunch?", channel="C2"))) == []


@pytest.mark.req("CHAN-10")
async def test_own_posts_never_trigger(world: World) -> None:
    await world.lead()
    root = await world.says(f"{BOT} hello")
    for text in (f"{BOT} hello", "swarm#all hello", "hello"):
        own = await world.hears(said(text, by="UBOT", kind=AuthorKind.BOT, thread_ts=root.ts))
        assert await world.inbox_messages(own) == []


@pytest.mark.req("CHAN-10")
async def test_other_bots_are_heard_only_where_they_are_allowed(world: World) -> None:
    await world.lead()
    assert await world.inbox_messages(await world.hears(by_pager(f"{BOT} disk full"))) == []
    allowing = world.governed_by(governing(channels={"C1": PAGER}))
    assert len(await allowing.inbox_messages(await allowing.hears(by_pager(f"{BOT} disk full")))) == 1


@pytest.mark.req("CHAN-10")
async def test_the_turns_of_bots_in_a_thread_are_capped_by_the_hour(world: World) -> None:
    allowing = world.governed_by(governing(everywhere=PAGER))
    await allowing.lead()
    root = await allowing.says(f"{BOT} watch this")
    heard = [await allowing.hears(by_pager(f"line {number}", root)) for number in range(BOT_MESSAGES_PER_HOUR + 3)]
    routed = [len(await allowing.inbox_messages(message)) for message in heard]
    assert routed == [1] * BOT_MESSAGES_PER_HOUR + [0] * 3
    assert len(await allowing.inbox_messages(await allowing.says("a person", thread=root))) == 1
    allowing.clock.advance(3600 + 1)
    assert len(await allowing.inbox_messages(await allowing.hears(by_pager("next hour", root)))) == 1


@pytest.mark.req("CHAN-10")
async def test_bots_that_are_not_heard_use_up_nobodys_turns(world: World) -> None:
    allowing = world.governed_by(governing(everywhere=PAGER))
    await allowing.lead()
    root = await allowing.says(f"{BOT} watch this")
    for number in range(BOT_MESSAGES_PER_HOUR + 1):
        await allowing.hears(said(f"spam {number}", by="B2", kind=AuthorKind.BOT, thread_ts=root.ts))
    assert len(await allowing.inbox_messages(await allowing.hears(by_pager("disk full", root)))) == 1


@pytest.mark.req("CHAN-10")
async def test_that_bots_have_had_their_turns_is_said_once_and_the_limit_is_the_channels_own(world: World) -> None:
    allowing = world.governed_by(governing(everywhere=PAGER.model_copy(update={"bot_messages_per_hour": 2})))
    await allowing.lead()
    root = await allowing.says(f"{BOT} watch this")
    heard = [await allowing.hears(by_pager(f"line {number}", root)) for number in range(2)]
    await allowing.hears(by_pager("<@U2> look", root))  # would be nobody's work anyway
    await allowing.send()
    assert allowing.slack.posts == []
    heard += [await allowing.hears(by_pager(f"line {number}", root)) for number in range(2)]
    assert [len(await allowing.inbox_messages(message)) for message in heard] == [1, 1, 0, 0]
    await allowing.send()
    (told,) = [delivery for delivery in allowing.slack.landed if "Bots have reached" in delivery.text]
    assert (told.person, told.thread_ts) == (None, root.ts)


@pytest.mark.req("LOOP-11")
@pytest.mark.parametrize("text", ["swarm#conter hello", f"{BOT}#conter hello", f"{BOT}<#C9|conter> hello"])
async def test_who_writes_to_a_name_that_nobody_has_is_told_alone_who_got_it_and_who_there_is(
    world: World, text: str
) -> None:
    world = world.governed_by(governing(everywhere=PAGER))
    lead = await world.lead()
    await world.worker("adder", online=False)
    await world.worker("counter")
    for message in (said(text), by_pager(text)):
        assert (await world.inbox_message(await world.hears(message))).agent_id == lead.id
    await world.send()
    (told,) = [delivery for delivery in world.slack.landed if delivery.kind == "post"]
    assert (told.person, told.text) == (
        "U1",
        "There is no agent called “conter”, so lead got your message. "
        "You can write to swarm#lead, swarm#counter, swarm#adder, or to all of them with swarm#all.",
    )
