"""An answer: the state and the post change together, and a repeated call posts once."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.errors import Conflict, Invalid, TooLarge, Unavailable, Withdrawn
from swarm.domain.model.inbox import InboxStatus
from swarm.services.ground.idempotency import Caller
from swarm.services.inbox import replies
from swarm.services.speaking.system_messages import PART_CHARACTERS
from tests.support.world import BOT, World, delete, holding

pytestmark = pytest.mark.req("LOOP-08")


async def test_an_answer_goes_to_the_thread_of_the_message(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    replied = await world.services.replies.reply(holding(trigger, lead), trigger.id, "good morning")
    assert replied["status"] == InboxStatus.RESPONDED
    await world.send()
    (post,) = [landed for landed in world.slack.landed if landed.id in replied["delivery_ids"]]
    assert (post.channel, post.thread_ts, post.text) == ("C1", message.ts, "good morning")
    assert post.agent_name == "lead"


async def test_state_and_post_change_together_or_not_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)

    def breaks(*args: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(replies, "end_if_resolved", breaks)  # the last step: everything else has been written
        with pytest.raises(Unavailable):
            await world.answers(lead, trigger, "hello")
    assert (await world.inbox_message(message)).status is InboxStatus.CLAIMED
    assert await world.rows("SELECT id FROM deliveries WHERE kind = 'post'") == []
    await world.answers(lead, trigger, "hello")  # and the failed call left no receipt
    assert (await world.inbox_message(message)).status is InboxStatus.RESPONDED


async def test_the_same_call_again_returns_the_first_result_and_posts_nothing(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    calls = [await world.services.replies.reply(holding(trigger, lead), trigger.id, "hello") for _ in range(3)]
    assert calls[0] == calls[1] == calls[2]
    await world.send()
    assert world.slack.posts == ["hello"]


async def test_the_same_call_many_times_at_once_posts_once(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    replies = world.services.replies
    calls = await asyncio.gather(*(replies.reply(holding(trigger, lead), trigger.id, "hello") for _ in range(8)))
    assert all(call == calls[0] for call in calls)
    await world.send()
    assert world.slack.posts == ["hello"]


async def test_a_request_id_makes_calls_the_same_whatever_they_say(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    first = await world.services.replies.reply(holding(trigger, lead, "r1"), trigger.id, "hello")
    again = await world.services.replies.reply(holding(trigger, lead, "r1"), trigger.id, "hello, reworded")
    other = await world.services.replies.reply(holding(trigger, lead, "r2"), trigger.id, "hello")
    assert first == again != other
    await world.send()
    assert world.slack.posts == ["hello", "hello"]


async def test_another_text_posts_again_and_changes_no_state(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.answers(lead, trigger, "one")
    await world.answers(lead, trigger, "two")
    await world.send()
    assert world.slack.posts == ["one", "two"]
    assert world.slack.reactions.count((message.ts, "white_check_mark")) == 1


async def test_an_answer_resolves_the_whole_bundle(world: World) -> None:
    lead = await world.lead()
    messages = [await world.says(f"{BOT} one")]
    messages.append(await world.says("two", thread=messages[0]))
    await world.answers(lead, await world.only(lead), "both")
    assert {(await world.inbox_message(message)).status for message in messages} == {InboxStatus.RESPONDED}


async def test_an_answer_to_one_only_leaves_the_others(world: World) -> None:
    lead = await world.lead()
    first = await world.says(f"{BOT} one")
    second = await world.says("two", thread=first)
    trigger = await world.only(lead)
    inbox_message = await world.inbox_message(second)
    await world.services.replies.reply(holding(trigger, lead), inbox_message.id, "to the second", only=True)
    assert (await world.inbox_message(first)).status is InboxStatus.CLAIMED
    assert (await world.inbox_message(second)).status is InboxStatus.RESPONDED


async def test_a_long_text_is_split_without_losing_a_word_or_breaking_a_fence(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    code = "\n".join(f"line_{number} = {number}" for number in range(600))
    await world.answers(lead, await world.only(lead), f"Here:\n```\n{code}\n```\nThat is all.")
    await world.send()
    posts = world.slack.posts
    assert len(posts) > 1
    assert all(len(post) <= PART_CHARACTERS for post in posts)
    assert all(post.count("```") % 2 == 0 for post in posts)
    together = "\n".join(posts)
    assert [f"line_{number} = {number}" in together for number in range(600)] == [True] * 600
    assert posts[-1].endswith("That is all.")


async def test_an_answer_pings_nobody_but_people_of_the_thread(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "<!channel> <@U1> <@U3>")
    await world.send()
    (post,) = world.slack.posts
    assert "<!channel>" not in post
    assert "<@U1>" in post
    assert "<@U3>" not in post


@pytest.mark.parametrize("message", ["", " \n", "\u200b"])
async def test_an_empty_answer_is_refused(world: World, message: str) -> None:
    lead = await world.lead()
    question = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    with pytest.raises(Invalid):
        await world.answers(lead, trigger, message)
    assert (await world.inbox_message(question)).status is InboxStatus.CLAIMED


@pytest.mark.req("LOOP-15")
async def test_a_withdrawn_message_cannot_be_answered(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.ingest.handle(delete(message))
    with pytest.raises(Withdrawn):
        await world.answers(lead, trigger, "hello")
    await world.send()
    assert world.slack.posts == []


async def test_dismissing_needs_a_reason_says_nothing_and_happens_once(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} thanks")
    trigger = await world.only(lead)
    caller = holding(trigger, lead)
    with pytest.raises(Invalid):
        await world.services.replies.dismiss(caller, trigger.id, "")
    for _ in range(2):
        assert await world.services.replies.dismiss(caller, trigger.id, "only thanks") == {"status": "dismissed"}
    with pytest.raises(Conflict):
        await world.services.replies.dismiss(caller, trigger.id, "another reason")
    await world.send()
    assert world.slack.posts == []
    assert world.slack.reactions.count((message.ts, "white_check_mark")) == 1


async def test_one_agents_request_id_says_nothing_about_anothers(world: World) -> None:
    first, second = await world.lead(), await world.lead("second")
    await world.says("swarm#all hello")
    for agent in (first, second):
        trigger = await world.only(agent)
        caller = Caller(agent=agent, lease_token=trigger.lease_token, request_id="r1")
        await world.services.replies.reply(caller, trigger.id, f"{agent.name} here")
    await world.send()
    assert world.slack.posts == ["lead here", "second here"]


async def test_a_request_id_counts_only_within_one_inbox_message(world: World) -> None:
    """Models choose ids such as "1" again and again."""
    lead = await world.lead()
    for number in (1, 2):
        await world.says(f"{BOT} question {number}")
        trigger = await world.only(lead)
        await world.services.replies.reply(holding(trigger, lead, "1"), trigger.id, f"answer {number}")
    await world.send()
    assert sorted(world.slack.posts) == ["answer 1", "answer 2"]


async def test_a_repeat_that_leaves_out_the_lease_is_the_same_call(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    first = await world.services.replies.reply(holding(trigger, lead), trigger.id, "hello")
    again = await world.services.replies.reply(Caller(agent=lead), trigger.id, "hello")
    assert first == again


async def test_an_answer_of_a_million_characters_is_refused(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    with pytest.raises(TooLarge):
        await world.services.replies.reply(holding(trigger, lead), trigger.id, "x" * 1_000_000)
    await world.send()
    assert world.slack.posts == []


@pytest.mark.req("LOOP-07")
async def test_the_previous_reply_is_the_last_one_whenever_it_was_sent(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.id, "hello yourself")
    await world.send()
    assert (await world.services.inbox.read(lead, trigger.id)).previous_reply == "hello yourself"
