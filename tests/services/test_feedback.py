"""What people think of answers: buttons below each of them, opinions with reasons, and another answer on request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from swarm.domain.answers.calls import ANSWERED_BELOW
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import Delivery
from swarm.domain.model.feedback import INSTRUCTIONS, FeedbackView, Opinion, Reason
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import MAX_TASK_ATTEMPTS, FinishOutcome
from swarm.domain.model.runs import RunStep
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.model.webhooks import WebhookEndpoint, WebhookKind
from swarm.domain.policy.channels import ChannelPolicy, EscalationPolicy
from swarm.domain.policy.operating import OperatingPolicy, Policies, PolicyBook
from swarm.domain.prompts.input import RETRY_PREFIX
from swarm.domain.requests.button_actions import (
    FEEDBACK_ACTION,
    FEEDBACK_FORM,
    REASON_ACTION,
    RETRY_RUN_ACTION,
    ButtonPressed,
    Feedback,
    FeedbackChoice,
    FeedbackForm,
    PressResult,
    feedback_value,
)
from swarm.services.runs.feedback import FORGOTTEN_TEXT, NO_RERUN_TEXT, NOTED_TEXT, THANKS_TEXT, UNDER_WAY_TEXT
from swarm.store.bridge.statements import Row
from swarm.store.runs import feedback, runs
from tests.support.policies import governing
from tests.support.runs import asked, begun, failed
from tests.support.slack import FakeSlack
from tests.support.tasks import asked_and_handed, complete, work_of
from tests.support.world import BOT, World, delete, holding, said, texts

pytestmark = pytest.mark.req("CHAN-05")

ONLY_U1 = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U1"})))
WITH_HELP = governing(everywhere=ChannelPolicy(escalation=EscalationPolicy(users=("U03",))))
HOOK = WebhookEndpoint(url="http://127.0.0.1:1/")


def forwarding(*kinds: WebhookKind) -> OperatingPolicy:
    return OperatingPolicy(book=PolicyBook(Policies(webhooks={(kind, ""): HOOK for kind in kinds})))


def pressed(
    action_id: str, value: str, *, key: str, by: str = "U1", channel: str = "C1", text: str = "", ts: str = "1.000100"
) -> ButtonPressed:
    return ButtonPressed(
        key=key,
        action_id=action_id,
        value=value,
        user_id=by,
        channel=channel,
        message_ts=ts,
        thread_ts=None,
        text=text,
    )


async def thumb(
    world: World, answer: str, *, up: bool, key: str, by: str = "U1", channel: str = "C1", ts: str = "1.000100"
) -> PressResult:
    value = feedback_value(Feedback(answer_id=answer, is_good=up))
    return await world.buttons.press(pressed(FEEDBACK_ACTION, value, key=key, by=by, channel=channel, ts=ts))


async def because(
    world: World, answer: str, reason: Reason, *, key: str, by: str = "U1", channel: str = "C1"
) -> PressResult:
    return await world.buttons.press(pressed(REASON_ACTION + reason, answer, key=key, by=by, channel=channel))


async def opinions(world: World, answer: str) -> dict[str, tuple[Opinion, Reason | None]]:
    given = await world.database.read(feedback.of_answer, answer)
    return {one.user_id: (one.value, one.reason) for one in given}


async def opinion(world: World, answer: str) -> FeedbackView:
    (given,) = await world.database.read(feedback.of_answer, answer)
    return given


def rated(slack: FakeSlack) -> list[Delivery]:
    """The posts with 👍 and 👎."""
    return [post for post in slack.landed if post.closing and post.closing.feedback]


def answer_in(post: Delivery) -> str:
    """The value of its buttons."""
    assert post.place is not None
    return post.place.run_id


async def replied(world: World, lead: Agent, text: str = "42", **more: bool) -> tuple[SlackMessage, str]:
    """A message that an agent has answered with slack-reply: the message and the answer."""
    root = await world.says(f"{BOT} how many?")
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, text, **more)
    await world.send()
    (post,) = rated(world.slack)
    return root, answer_in(post)


async def answered(world: World, lead: Agent, trigger: Trigger) -> str:
    """The answer of a run that has answered the messages of a trigger."""
    run = await begun(world, lead, trigger)
    await world.answers(lead, trigger, "from the run")
    await world.database.write(runs.end, run.id, RunStep.ANSWER)
    return run.id


# Below which posts


@pytest.mark.req("STREAM-12")
async def test_an_answer_has_its_footer_and_buttons_below_its_last_part(world: World) -> None:
    lead = await world.lead()
    _, answer = await replied(world, lead, "\n\n".join(f"Line {n} of a long answer." for n in range(400)))
    parts = [post for post in world.slack.landed if post.text.startswith("Line")]
    assert len(parts) > 1
    assert [post.closing is not None for post in parts] == [False] * (len(parts) - 1) + [True]
    (post,) = rated(world.slack)
    assert post.closing == ANSWERED_BELOW
    assert post.place
    assert (post.place.agent_name, post.place.requester, post.place.is_direct) == ("lead", "U1", False)
    assert answer == post.id == parts[-1].id


@pytest.mark.req("STREAM-12")
async def test_a_question_and_an_interim_word_have_none(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} how many?")
    trigger = await world.only(lead, hold=True)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "Which?", wait=True)
    handed = await asked_and_handed(world, lead, worker)
    await world.services.replies.reply(
        holding(handed.trigger, lead), handed.trigger.inbox_messages[0].id, "worker counts them"
    )
    task = await work_of(world, worker)
    await world.services.task_work.progress(holding(task, worker), task.id, "half", 50)
    await world.services.replies.reply_to_task(holding(task, worker), task.id, "still at it")
    await world.services.task_work.fail(holding(task, worker), task.id, "no lines", "There are no lines.")
    await world.send()
    assert {"Which?", "worker counts them", "still at it", "There are no lines."} <= set(world.slack.posts)
    assert rated(world.slack) == []


@pytest.mark.req("STREAM-12")
async def test_the_result_of_a_task_has_them_whoever_posts_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await work_of(world, worker), reply="There are 42.")
    await world.send()
    assert [(post.text, post.place and post.place.agent_name) for post in rated(world.slack)] == [
        ("There are 42.", "worker")
    ]
    handed = await asked_and_handed(world, lead, worker)
    await complete(world, worker, await work_of(world, worker), result="43")
    notices = [trigger for trigger in await world.poll(lead) if trigger.task and trigger.task.id == handed.task_id]
    await world.services.replies.reply_to_task(holding(notices[0], lead), handed.task_id, "It is 43.")
    await world.send()
    assert rated(world.slack)[-1].text == "It is 43."
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await work_of(world, worker), result="nobody tells 44")
    await world.is_here(worker)
    world.clock.advance(world.operating_policy.offline_after_seconds + 1)
    await world.is_here(worker)
    await world.sweep()
    await world.send()
    last = rated(world.slack)[-1]
    assert last.place
    assert (last.text, last.place.agent_name, last.place.requester) == ("nobody tells 44", "worker", "U1")


# Opinions


@pytest.mark.both_engines
async def test_the_last_opinion_of_each_person_counts_with_its_reason(world: World) -> None:
    _, run = await asked(world, await world.lead())
    choice = FeedbackChoice(answer_id=run.id, offers_help=False)
    assert await thumb(world, run.id, up=True, key="1") == THANKS_TEXT
    assert await thumb(world, run.id, up=False, key="2") == choice
    first = await opinion(world, run.id)
    assert await because(world, run.id, Reason.WRONG_ANSWER, key="3") == NOTED_TEXT
    assert await thumb(world, run.id, up=False, key="4") == choice
    assert await thumb(world, run.id, up=True, key="5", by="U2") == THANKS_TEXT
    assert await opinions(world, run.id) == {"U1": (Opinion.DOWN, Reason.WRONG_ANSWER), "U2": (Opinion.UP, None)}
    await thumb(world, run.id, up=True, key="6")
    assert (await opinions(world, run.id))["U1"] == (Opinion.UP, None)
    rows = await world.rows("SELECT id, comment FROM feedback WHERE user_id = 'U1'")
    assert rows == [{"id": first.id, "comment": None}], "a new opinion replaces the row"


async def test_an_opinion_of_a_run_names_the_trace_and_the_conversation(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    await world.change("UPDATE runs SET trace_id = 'trace'")
    await thumb(world, run.id, up=True, key="1", ts="2.000100")
    given = await opinion(world, run.id)
    assert (given.run_id, given.trace_id, given.conversation_id) == (run.id, "trace", "conversation")
    assert (given.agent, given.channel, given.thread_ts, given.message_ts) == ("lead", "C1", root.ts, "2.000100")


async def test_an_opinion_of_an_answer_without_a_run_names_its_place(world: World) -> None:
    root, answer = await replied(world, await world.lead())
    await thumb(world, answer, up=True, key="1", ts="2.000100")
    given = await opinion(world, answer)
    assert (given.run_id, given.trace_id, given.agent, given.thread_ts) == (None, None, "lead", root.ts)
    assert given.conversation_id


async def test_presses_at_once_are_one_opinion(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await asyncio.gather(*(thumb(world, run.id, up=n % 2 == 0, key=str(n)) for n in range(4)))
    assert len(await world.rows("SELECT * FROM feedback")) == 1


async def test_help_is_offered_only_where_there_is_some(world: World) -> None:
    _, run = await asked(world, await world.lead())
    told = await thumb(world.governed_by(WITH_HELP), run.id, up=False, key="1")
    assert told == FeedbackChoice(answer_id=run.id, offers_help=True)


async def test_an_opinion_about_nothing_is_told_so_and_nonsense_is_ignored(world: World) -> None:
    lead = await world.lead()
    _, run = await asked(world, lead)
    await world.send()
    _, answer = await replied(world, lead)
    for number, gone in enumerate(("gone", world.slack.landed[0].id)):
        assert await thumb(world, gone, up=True, key=f"gone {number}") == FORGOTTEN_TEXT
    for number, real in enumerate((run.id, answer)):
        assert await thumb(world, real, up=True, key=f"elsewhere {number}", channel="C2") == FORGOTTEN_TEXT
        assert await because(world, real, Reason.BRIEFER, key=f"unrated {number}") == FORGOTTEN_TEXT
    nonsense = pressed(FEEDBACK_ACTION, f"{run.id}:sideways", key="n")
    unknown = pressed(REASON_ACTION + "ugly", run.id, key="u")
    assert [await world.buttons.press(press) for press in (nonsense, unknown)] == [None, None]
    assert await world.rows("SELECT * FROM feedback") == []


@pytest.mark.req("CHAN-09")
async def test_who_may_not_speak_here_has_no_say(world: World) -> None:
    _, answer = await replied(world, await world.lead())
    await thumb(world, answer, up=False, key="0", by="U2")
    ruled = world.governed_by(ONLY_U1)
    told = [
        await thumb(ruled, answer, up=True, key="1", by="U2"),
        await because(ruled, answer, Reason.MORE_DETAIL, key="2", by="U2"),
        await because(ruled, answer, Reason.OTHER, key="3", by="U2"),
        await ruled.buttons.press(pressed(FEEDBACK_FORM, answer, key="4", by="U2", text="no")),
    ]
    assert all(str(text).startswith("You may not do that here") for text in told)
    assert await opinions(world, answer) == {"U2": (Opinion.DOWN, None)}
    assert await world.poll(await world.lead("other")) == []


async def test_a_comment_is_entered_in_a_form_and_stored_once(world: World) -> None:
    _, answer = await replied(world, await world.lead())
    await thumb(world, answer, up=False, key="1", ts="2.000100")
    assert await because(world, answer, Reason.OTHER, key="2") == FeedbackForm(answer_id=answer)
    assert await opinions(world, answer) == {"U1": (Opinion.DOWN, None)}
    form = pressed(FEEDBACK_FORM, answer, key="view:1", text="  It is <b>43</b>.  ")
    assert [await world.buttons.press(form) for _ in range(2)] == [NOTED_TEXT, None]
    given = await opinion(world, answer)
    assert (given.reason, given.comment, given.message_ts) == (Reason.OTHER, "It is <b>43</b>.", "2.000100")


# Another answer


@pytest.mark.both_engines
@pytest.mark.parametrize("reason", list(INSTRUCTIONS))
async def test_the_message_is_due_again_with_the_instruction(world: World, reason: Reason) -> None:
    lead = await world.lead()
    root, answer = await replied(world, lead)
    assert (root.ts, "white_check_mark") in world.slack.reactions
    await thumb(world, answer, up=False, key="1")
    assert await world.poll(lead) == []
    told = await because(world, answer, reason, key="2")
    assert isinstance(told, str)
    assert "answered again" in told
    await world.send()
    assert (root.ts, "white_check_mark") not in world.slack.reactions
    again = await world.only(lead)
    assert (len(again.inbox_messages), again.attempt) == (1, 1)
    assert (again.instruction, again.inbox_messages[0].instruction) == (INSTRUCTIONS[reason], INSTRUCTIONS[reason])
    before, _, after = again.prompt.partition("how many?")
    assert INSTRUCTIONS[reason] in before
    assert INSTRUCTIONS[reason] not in after
    assert before.index(INSTRUCTIONS[reason]) < before.rindex("<new_message marker=")
    await world.answers(lead, again, "42, that is forty-two")
    await world.send()
    assert len(rated(world.slack)) == 2
    assert (root.ts, "white_check_mark") in world.slack.reactions
    changes = await world.rows("SELECT reason FROM history WHERE change = 'inbox.rerun'")
    assert [row["reason"] for row in changes] == [f"{reason.replace('_', ' ')}, for <@U1>"]


@pytest.mark.both_engines
async def test_a_second_press_while_it_is_under_way_says_so(world: World) -> None:
    lead = await world.lead()
    _, answer = await replied(world, lead)
    people = ("U1", "U2", "U3")
    for person in people:
        await thumb(world, answer, up=False, key=f"down {person}", by=person)
    told = await asyncio.gather(*(because(world, answer, Reason.BRIEFER, key=one, by=one) for one in people))
    assert (told.count(UNDER_WAY_TEXT), len(set(told))) == (2, 2)
    assert await opinions(world, answer) == dict.fromkeys(people, (Opinion.DOWN, Reason.BRIEFER))
    again = await world.only(lead)
    assert await because(world, answer, Reason.MORE_DETAIL, key="later") == UNDER_WAY_TEXT
    await world.answers(lead, again, "42")
    assert await because(world, answer, Reason.BRIEFER, key="after it") != UNDER_WAY_TEXT
    assert len(await world.poll(lead)) == 1


async def test_the_same_click_told_twice_reruns_once(world: World) -> None:
    lead = await world.lead()
    _, answer = await replied(world, lead)
    await thumb(world, answer, up=False, key="1")
    first, second = [await because(world, answer, Reason.BRIEFER, key="2") for _ in range(2)]
    assert (first is None, second) == (False, None)
    again = await world.only(lead)
    await world.answers(lead, again, "42")
    assert await because(world, answer, Reason.BRIEFER, key="2") is None
    assert await world.poll(lead) == []


@pytest.mark.parametrize("by_run", [False, True])
async def test_messages_that_were_answered_together_are_answered_together_again(world: World, by_run: bool) -> None:
    lead = await world.lead()
    root = await world.says("swarm#lead one")
    await world.says("two", thread=root)
    trigger = await world.only(lead)
    answer = await answered(world, lead, trigger) if by_run else None
    if answer is None:
        await world.answers(lead, trigger, "both")
        await world.send()
        answer = answer_in(rated(world.slack)[0])
    await world.says("three", thread=root)
    await world.answers(lead, await world.only(lead), "third")
    await thumb(world, answer, up=False, key="1")
    await because(world, answer, Reason.BRIEFER, key="2")
    again = await world.only(lead)
    assert texts([again]) == [["swarm#lead one", "two"]]
    assert again.instruction == INSTRUCTIONS[Reason.BRIEFER]


async def test_what_an_only_reply_has_answered_is_run_again_alone(world: World) -> None:
    lead = await world.lead()
    root = await world.says("swarm#lead one")
    await world.says("two", thread=root)
    trigger = await world.only(lead)
    one, two = trigger.inbox_messages
    await world.services.replies.reply(holding(trigger, lead), one.id, "first", only=True)
    world.clock.advance(1)
    await world.services.replies.reply(holding(trigger, lead), two.id, "second", only=True)
    await world.send()
    answer = answer_in(rated(world.slack)[0])
    await thumb(world, answer, up=False, key="1")
    await because(world, answer, Reason.BRIEFER, key="2")
    assert texts([await world.only(lead)]) == [["swarm#lead one"]]


async def test_a_lost_lease_keeps_the_instruction(world: World) -> None:
    lead = await world.lead()
    _, answer = await replied(world, lead)
    await thumb(world, answer, up=False, key="1")
    await because(world, answer, Reason.BRIEFER, key="2")
    lost = await world.only(lead)
    await world.services.work.finish(lead, [lost.lease_token], FinishOutcome.FAILED, "it broke")
    await world.later(60)
    await world.is_here(lead)
    again = await world.only(lead)
    assert (again.attempt, again.instruction) == (2, INSTRUCTIONS[Reason.BRIEFER])


async def test_a_task_cannot_be_answered_again_and_the_reason_is_kept(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await work_of(world, worker), reply="There are 42.")
    await world.send()
    answer = answer_in(rated(world.slack)[0])
    await thumb(world, answer, up=False, key="1")
    assert await because(world, answer, Reason.MORE_DETAIL, key="2") == NO_RERUN_TEXT
    assert await opinions(world, answer) == {"U1": (Opinion.DOWN, Reason.MORE_DETAIL)}


async def test_a_deleted_question_is_not_answered_again(world: World) -> None:
    lead = await world.lead()
    root, answer = await replied(world, lead)
    await thumb(world, answer, up=False, key="1")
    await world.ingest.handle(delete(root))
    assert await because(world, answer, Reason.MORE_DETAIL, key="2") == NO_RERUN_TEXT
    assert (await world.inbox_message(root)).status is InboxStatus.RESPONDED


async def test_an_answered_message_does_not_keep_its_thread(world: World) -> None:
    """That it could be answered again is no reason to keep what people wrote beyond the retention."""
    root, answer = await replied(world, await world.lead())
    await thumb(world, answer, up=False, key="1")
    world.clock.advance((world.operating_policy.retention.threads_days + 1) * 24 * 3600)
    for _ in range(3):
        await world.sweeper.tidy()
    assert await world.rows("SELECT * FROM thread_messages") == []
    assert await world.rows("SELECT * FROM feedback") == []
    assert await thumb(world, answer, up=False, key="2") == FORGOTTEN_TEXT
    assert (await world.inbox_message(root)).status is InboxStatus.RESPONDED


# Retry's prefix


@pytest.mark.req("CHAN-06")
@pytest.mark.parametrize("prefix", [RETRY_PREFIX, "Once more, please.", None])
async def test_what_is_retried_comes_with_the_prefix(world: World, prefix: str | None) -> None:
    lead = await world.lead()
    _, run = await asked(world, lead)
    await failed(world, run)
    await world.services.work.finish(lead, [run.lease_token], FinishOutcome.DONE)
    ruled = world.governed_by(OperatingPolicy(retry_prefix=prefix))
    await ruled.buttons.press(pressed(RETRY_RUN_ACTION, run.id, key="1"))
    again = await world.only(lead)
    assert again.instruction == prefix
    assert (prefix is None) == (RETRY_PREFIX not in again.prompt and "Once more" not in again.prompt)


@pytest.mark.req("CHAN-06")
async def test_a_retried_task_comes_with_the_prefix_before_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    for _ in range(MAX_TASK_ATTEMPTS):
        work = await work_of(world, worker)
        run = await begun(world, worker, work)
        await world.database.write(runs.end, run.id, RunStep.FAIL, "it broke")
        await world.services.work.finish(worker, [work.lease_token], FinishOutcome.FAILED, "it broke")
        await world.later(60)
        await world.is_here(worker)
    assert await world.buttons.press(pressed(RETRY_RUN_ACTION, run.id, key="1")) is None
    again = await work_of(world, worker)
    assert again.instruction == RETRY_PREFIX
    assert again.prompt.index(RETRY_PREFIX) < again.prompt.index("<task marker=")


# Other services


def bodies(rows: Sequence[Row]) -> dict[str, dict[str, object]]:
    return {str(row["kind"]): orjson.loads(str(row["body"])) for row in rows}


@pytest.mark.both_engines
async def test_only_configured_services_are_told_and_a_new_opinion_replaces_what_waits(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await thumb(world, run.id, up=True, key="0")
    assert await world.rows("SELECT * FROM webhooks") == []
    ruled = world.governed_by(forwarding(WebhookKind.LANGFUSE, WebhookKind.FEEDBACK))
    await thumb(ruled, run.id, up=False, key="1")
    await because(ruled, run.id, Reason.WRONG_ANSWER, key="2")
    await thumb(ruled, run.id, up=True, key="3", by="U2")
    rows = await world.rows("SELECT * FROM webhooks WHERE person = 'U1' ORDER BY kind")
    assert [row["kind"] for row in rows] == ["feedback", "langfuse"]
    given = {one.user_id: one for one in await world.database.read(feedback.of_answer, run.id)}
    sent = bodies(rows)
    assert (sent["langfuse"]["id"], sent["langfuse"]["comment"]) == (given["U1"].id, "wrong_answer")
    assert (sent["feedback"]["reason"], sent["feedback"]["user_id"]) == ("wrong_answer", "U1")
    assert len(await world.rows("SELECT * FROM webhooks WHERE person = 'U2'")) == 2
    await thumb(ruled, run.id, up=True, key="4")
    sent = bodies(await world.rows("SELECT * FROM webhooks WHERE person = 'U1' ORDER BY kind"))
    assert (sent["langfuse"]["id"], sent["langfuse"]["value"]) == (given["U1"].id, 1)
    assert (sent["feedback"]["value"], sent["feedback"]["reason"]) == ("up", None)


@pytest.mark.req("SEC-06")
async def test_forgetting_a_person_forgets_their_opinions_and_what_waits_of_them(world: World) -> None:
    _, answer = await replied(world, await world.lead())
    ruled = world.governed_by(forwarding(WebhookKind.FEEDBACK))
    for person in ("U1", "U2"):
        await thumb(ruled, answer, up=False, key=person, by=person)
        about = pressed(FEEDBACK_FORM, answer, key=f"view:{person}", by=person, text="ask <@U1>, alice knows")
        await ruled.buttons.press(about)
    await world.services.people.forget("U1")
    assert [(row["user_id"], row["comment"]) for row in await world.rows("SELECT * FROM feedback")] == [
        ("U2", "ask @forgotten, alice knows")
    ]
    (row,) = await world.rows("SELECT * FROM webhooks")
    assert "U1" not in str(row["body"])


@pytest.mark.req("SEC-06")
async def test_what_is_deleted_in_slack_is_deleted_from_comments(world: World) -> None:
    lead = await world.lead()
    root, answer = await replied(world, lead)
    (post,) = rated(world.slack)
    ts = world.slack.timestamps[post.id]
    quoted = await world.says("the secret number is seven hundred", thread=root, by="U2")
    await thumb(world, answer, up=False, key="1", ts=ts)
    comment = pressed(FEEDBACK_FORM, answer, key="2", text="bob: the secret number is seven hundred, not 42")
    await world.buttons.press(comment)
    await world.ingest.handle(delete(quoted))
    assert "seven hundred" not in str((await opinion(world, answer)).comment)
    own = replace(said("42", channel="C1", thread_ts=root.ts, ts=ts), author=root.author)
    await world.ingest.handle(delete(own))
    assert (await opinion(world, answer)).comment is None
