"""A thread is escalated to a human once, whoever asks and however, with everything that the settings name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from swarm.agents.webhooks import HttpWebhookClient
from swarm.domain.answers.events import Failed
from swarm.domain.errors import Conflict, Invalid, LeaseLost, NotFound, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.model.webhooks import WebhookEndpoint, WebhookKind
from swarm.domain.policy.channels import ChannelPolicy, EscalationPolicy, EscalationWebhook, Listen, WebhookFormat
from swarm.domain.policy.escalations import ON_CALL_SECONDS
from swarm.domain.requests.button_actions import ESCALATE_ACTION, ButtonPressed
from swarm.services.outbox.webhooks import WebhookSender
from swarm.services.requests.human_requests import AskedWork
from swarm.services.runs.run_control import ESCALATED_TEXT, UNKNOWN_THREAD_TEXT
from swarm.services.speaking.escalations import tell_failed_call
from tests.support.live import Scripted, ends, hired, playing
from tests.support.policies import governing
from tests.support.services import other_service
from tests.support.tasks import asked_and_handed, hand
from tests.support.world import BOT, World, delete, holding

pytestmark = pytest.mark.req("CHAN-07")

URL = "https://team.slack.example/"
EVERYTHING = EscalationPolicy(
    users=("U03",),
    groups=("S0PS",),
    emoji="rotating_light",
    webhook=EscalationWebhook(url=URL, format=WebhookFormat.PAGERDUTY),
    team="payments",
)


def offering(world: World, policy: EscalationPolicy = EVERYTHING, **everywhere: Any) -> World:
    """The same workspace, where channels offer help."""
    return world.governed_by(governing(everywhere=ChannelPolicy(escalation=policy, **everywhere), workspace_url=URL))


def press(message: SlackMessage, *, key: str = "press:1", by: str = "U1", **other: Any) -> ButtonPressed:
    there = {"channel": message.channel, "message_ts": "1700000000.000900", "thread_ts": message.root_ts}
    return ButtonPressed(key=key, action_id=ESCALATE_ACTION, value="run-1", user_id=by, **{**there, **other})


async def asked(world: World, text: str = f"{BOT} my refund is stuck") -> tuple[SlackMessage, Agent, Trigger]:
    """A message that a polling lead works on."""
    lead = await world.lead()
    message = await world.says(text)
    return message, lead, await world.only(lead)


async def by_tool(world: World, agent: Agent, trigger: Trigger, reason: str = "Only a human may refund.") -> Any:
    work = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
    return await world.services.escalations.escalate(holding(trigger, agent), work, reason)


async def webhook_bodies(world: World) -> list[Any]:
    return [orjson.loads(row["body"]) for row in await world.rows("SELECT body FROM webhooks ORDER BY id")]


# --- One escalation, and what it does


@pytest.mark.both_engines
async def test_a_press_calls_everybody_whom_the_settings_name(world: World) -> None:
    world = offering(world)
    message, *_ = await asked(world)
    assert await world.buttons.press(press(message)) == ESCALATED_TEXT
    await world.send()
    assert world.slack.posts == ["<@U03> <!subteam^S0PS>: <@U1> needs a human here."]
    assert (message.ts, "rotating_light") in world.slack.reactions
    (body,) = await webhook_bodies(world)
    assert body["event_action"] == "trigger"
    assert body["dedup_key"] == f"swarm:T1:C1:{message.ts}"
    assert body["payload"]["summary"] == "alice asks for help in #general"
    assert body["links"][0]["href"] == f"{URL}archives/C1/p{message.ts.replace('.', '')}"
    assert "routing_key" not in body
    (row,) = await world.rows("SELECT person, target, kind FROM webhooks")
    assert row == {"person": "U1", "target": "C1", "kind": "escalation"}


async def test_an_agent_escalates_with_a_reason_and_goes_on_with_its_work(world: World) -> None:
    world = offering(world)
    message, lead, trigger = await asked(world)
    done = await by_tool(world, lead, trigger)
    assert (done["status"], done["by"], done["reason"]) == ("asked", "lead", "Only a human may refund.")
    await world.answers(lead, trigger, "I have asked somebody.")
    await world.send()
    assert world.slack.posts == [
        "<@U03> <!subteam^S0PS>: the agent lead needs a human here: Only a human may refund.",
        "I have asked somebody.",
    ]
    assert (await world.inbox_message(message)).status == "responded"


async def test_the_second_one_hears_who_asked_and_when_and_nothing_happens_again(world: World) -> None:
    world = offering(world)
    message, lead, trigger = await asked(world)
    await world.buttons.press(press(message))
    said = await world.buttons.press(press(message, key="press:2", by="U2"))
    assert isinstance(said, str)
    assert said.startswith("<@U1> already asked for help here, <!date^")
    again = await by_tool(world, lead, trigger)
    assert (again["status"], again["by"]) == ("asked_before", "U1")
    await world.send()
    assert len(world.slack.posts) == 1
    assert len(await webhook_bodies(world)) == 1


async def test_a_thread_stays_escalated_when_the_settings_are_taken_away(world: World) -> None:
    message, *_ = await asked(world)
    await offering(world).buttons.press(press(message))
    said = await world.buttons.press(press(message, key="press:2"))
    assert isinstance(said, str)
    assert said.startswith("<@U1> already asked for help here")


async def test_the_same_press_and_the_same_call_told_twice_are_one(world: World) -> None:
    world = offering(world)
    message, lead, trigger = await asked(world)
    first = await by_tool(world, lead, trigger)
    assert await by_tool(world, lead, trigger) == first
    assert [await world.buttons.press(press(message)) for _ in range(2)][1] is None


@pytest.mark.both_engines
async def test_two_people_at_once_are_one_escalation(world: World) -> None:
    world = offering(world)
    message, lead, trigger = await asked(world)
    presses = [world.buttons.press(press(message, key=f"press:{by}", by=by)) for by in ("U1", "U2", "U03")]
    *said, tool = await asyncio.gather(*presses, by_tool(world, lead, trigger))
    assert sum(text == ESCALATED_TEXT for text in said) + (tool["status"] == "asked") == 1
    await world.send()
    assert len(world.slack.posts) == 1
    assert len(await webhook_bodies(world)) == 1
    assert len(await world.rows("SELECT id FROM escalations")) == 1


async def test_another_thread_has_its_own_escalation(world: World) -> None:
    world = offering(world)
    message, *_ = await asked(world)
    other = await world.says(f"{BOT} and mine")
    assert await world.buttons.press(press(message)) == ESCALATED_TEXT
    assert await world.buttons.press(press(other, key="press:2")) == ESCALATED_TEXT
    assert len(await webhook_bodies(world)) == 2


async def test_a_reason_pings_nobody_and_is_one_line_without_secrets(world: World) -> None:
    world = offering(world, EscalationPolicy(users=("U03",)))
    _, lead, trigger = await asked(world)
    evil = "look <!channel> <@U2>\n@here xoxb-1234567890-abcdefghij\u202e " + "x" * 900
    await by_tool(world, lead, trigger, evil)
    await world.send()
    (post,) = world.slack.posts
    called, _, rest = post.partition(": ")
    assert called == "<@U03>"
    assert not any(part in rest for part in ("<!", "<@", "\n", "abcdefghij", "@here"))
    assert len(post) < 800
    assert post.endswith("…")


# --- Refusals


async def test_a_channel_without_an_escalation_says_which_setting_is_missing(world: World) -> None:
    message, lead, trigger = await asked(world)
    with pytest.raises(Conflict) as refused:
        await by_tool(world, lead, trigger)
    assert "channels.C1.escalation" in (refused.value.hint or "")
    assert await world.buttons.press(press(message)) == "Nobody can be asked for help in this channel."
    await world.send()
    assert world.slack.posts == []


async def test_a_press_in_a_thread_that_is_not_ours_does_nothing(world: World) -> None:
    world = offering(world)
    message, *_ = await asked(world)
    for wrong in ({"thread_ts": "1600000000.000100"}, {"channel": "C2"}):
        assert await world.buttons.press(press(message, key=str(wrong), **wrong)) == UNKNOWN_THREAD_TEXT
    assert await webhook_bodies(world) == []


async def test_who_may_not_use_the_swarm_here_may_not_call_anybody(world: World) -> None:
    world = offering(world, allowed_users=frozenset({"U1"}))
    message, *_ = await asked(world)
    said = await world.buttons.press(press(message, by="U2"))
    assert isinstance(said, str)
    assert said.startswith("You may not do that here")
    assert await webhook_bodies(world) == []


async def test_only_the_run_that_holds_the_work_may_escalate_and_says_why(world: World) -> None:
    world = offering(world)
    _, lead, trigger = await asked(world)
    worker = await world.worker()
    with pytest.raises(NotFound):
        await by_tool(world, worker, trigger)
    with pytest.raises(LeaseLost):
        await by_tool(world, lead, replace(trigger, lease=replace(trigger.lease, token="another")))
    with pytest.raises(Invalid):
        await by_tool(world, lead, trigger, "  ")
    assert await webhook_bodies(world) == []


# --- Dead letters


async def fails(world: World, agent: Agent) -> None:
    """The agent's work fails until it is set aside."""
    while triggers := await world.poll(agent):
        tokens = [trigger.lease_token for trigger in triggers]
        await world.services.work.finish(agent, tokens, FinishOutcome.FAILED, "it cannot be read")
        await world.later(60)
        await world.is_here(agent)


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_dead_letter_escalates_if_the_settings_say_so(world: World, wanted: bool) -> None:
    world = offering(world, EVERYTHING.model_copy(update={"on_dead_letter": wanted}))
    lead = await world.lead()
    message = await world.says(f"{BOT} my refund is stuck")
    await fails(world, lead)
    await world.send()
    assert (await world.inbox_message(message)).status == "dead"
    called = [post for post in world.slack.posts if post.startswith("<@U03>")]
    assert called == (
        ["<@U03> <!subteam^S0PS>: I could not answer a message here, and need a human."] if wanted else []
    )
    if wanted:
        (body,) = await webhook_bodies(world)
        assert body["payload"]["summary"].startswith("The swarm could not answer a message in C1: it cannot be read")
        said = await world.buttons.press(press(message))
        assert isinstance(said, str)
        assert said.startswith("I already asked for help here")


async def test_a_task_that_is_set_aside_escalates_its_thread(world: World) -> None:
    world = offering(world, EVERYTHING.model_copy(update={"on_dead_letter": True}))
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await fails(world, worker)
    await world.send()
    assert len([post for post in world.slack.posts if post.startswith("<@U03>")]) == 1


async def test_a_streamed_answer_that_fails_escalates_its_thread(world: World) -> None:
    world = offering(world, EVERYTHING.model_copy(update={"on_dead_letter": True}))
    _, lead, trigger = await asked(world)
    caller = holding(trigger, lead)
    opened = await world.services.streams.open(caller, inbox_message_id=trigger.inbox_messages[0].id)
    await world.services.streams.close(caller, opened["turn_id"], failed="the archive is down")
    (row,) = await world.rows("SELECT door, reason FROM escalations")
    assert row == {"door": "dead_letter", "reason": "the archive is down"}


async def test_a_failed_run_of_the_coordinators_own_agents_escalates_its_thread(world: World) -> None:
    world = offering(world, EVERYTHING.model_copy(update={"on_dead_letter": True}))
    async with playing(world, hired("ada", Scripted(ends(Failed(message="no model"))))) as show:
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await world.send()
    assert len([post for post in world.slack.posts if post.startswith("<@U03>")]) == 1


@pytest.mark.parametrize("delegates", [True, False])
async def test_where_nobody_has_asked_nobody_is_called(world: World, delegates: bool) -> None:
    policy = EVERYTHING.model_copy(update={"on_dead_letter": True})
    world = offering(world, policy, listen=Listen.ALL, overthink=True)
    lead, worker = await world.lead(), await world.worker()
    await world.says("just talking about refunds")
    trigger = await world.only(lead)
    with pytest.raises(Conflict, match="Nobody has asked in this thread"):
        await by_tool(world, lead, trigger)
    if delegates:
        await hand(world, lead, trigger, worker)
        await fails(world, worker)
    else:
        await world.services.work.release(lead, [trigger.lease_token])
        await fails(world, lead)
    await world.send()
    assert (world.slack.landed, await webhook_bodies(world)) == ([], [])


# --- The paging service


async def test_the_thread_hears_that_the_service_could_not_be_told_for_an_hour(world: World) -> None:
    world = offering(world)
    message, *_ = await asked(world)
    await world.buttons.press(press(message))
    async with other_service() as service:
        service.answers = [(503, {})] * 50
        endpoint = WebhookEndpoint(url=service.base)
        sender = WebhookSender(
            world.database,
            HttpWebhookClient(),
            lambda: {(WebhookKind.ESCALATION, "C1"): endpoint},
            on_failure=partial(tell_failed_call, operating_policy=world.operating_policy),
        )
        while await world.rows("SELECT id FROM webhooks WHERE status = 'open'"):
            await sender.send_due()
            world.clock.advance(900)
        assert len(service.calls) == 5
    await world.send()
    assert world.slack.posts[1:] == ["I could not tell PagerDuty: it answered with HTTP 503, for 1 hour."]
    found = await world.services.explanations.explain(f"C1:{message.ts}")
    assert found["escalation"] is not None
    assert "service: failed, 5 calls it answered with HTTP 503, for 1 hour" in found["escalation"]["effects"]


# --- What is kept


async def test_explain_and_the_timeline_tell_who_escalated_and_what_came_of_it(world: World) -> None:
    world = offering(world, EVERYTHING.model_copy(update={"agent": "oncall"}))
    message, lead, trigger = await asked(world)
    assert (await world.services.explanations.explain(f"C1:{message.ts}"))["escalation"] is None
    await by_tool(world, lead, trigger)
    await world.send()
    found = (await world.services.explanations.explain(f"C1:{message.ts}"))["escalation"]
    assert found is not None
    assert (found["by"], found["door"], found["reason"]) == ("lead", "tool", "Only a human may refund.")
    post, reaction, service, on_call = found["effects"]
    assert post.startswith("post: sent")
    assert reaction.startswith("reaction: sent")
    assert service == "service: open, 0 calls"
    assert on_call == "on call: not_found there is no agent oncall"
    changes = [row["change"] for row in await world.rows("SELECT change FROM history ORDER BY seq")]
    assert [change for change in changes if change.startswith("escalation.")] == [
        "escalation.ask",
        "escalation.on_call_not_found",
    ]


async def test_a_forgotten_person_is_no_longer_named_and_the_thread_stays_escalated(world: World) -> None:
    world = offering(world)
    message, *_ = await asked(world)
    await world.buttons.press(press(message))
    await world.services.people.forget("U1")
    assert await world.rows("SELECT person FROM escalations") == [{"person": None}]
    said = await world.buttons.press(press(message, key="press:2", by="U2"))
    assert isinstance(said, str)
    assert said.startswith("somebody already asked for help here")


async def test_a_reason_that_quotes_a_deleted_message_is_cut(world: World) -> None:
    world = offering(world)
    message, lead, trigger = await asked(world, f"{BOT} the launch code is zebra-4711")
    await by_tool(world, lead, trigger, "They wrote: the launch code is zebra-4711")
    await world.hears(delete(message))  # type: ignore[arg-type]
    assert "zebra" not in str(await world.rows("SELECT reason FROM escalations"))


async def test_an_escalation_goes_with_the_messages_of_its_thread(world: World) -> None:
    world = offering(world)
    _, lead, trigger = await asked(world)
    await by_tool(world, lead, trigger)
    await world.answers(lead, trigger, "done")
    await world.send()
    world.clock.advance(91 * 24 * 3600)
    await world.sweeper.tidy()
    assert await world.rows("SELECT id FROM escalations") == []


async def test_the_prompt_names_the_tool_only_where_the_channel_offers_help(world: World) -> None:
    _, _, trigger = await asked(world)
    assert "`escalate`" not in trigger.prompt
    other = offering(world)
    message = await other.says(f"{BOT} more", by="U2")
    lead = next(one.agent for one in await other.services.agents.present() if one.agent.name == "lead")
    (trigger,) = [one for one in await other.poll(lead) if one.inbox_messages[0].ts == message.ts]
    assert "`escalate` (inbox_message_id, reason, lease_token)" in trigger.prompt


# --- Who is on call


ON_CALL = EscalationPolicy(agent="oncall", team="payments")


async def question(world: World) -> tuple[SlackMessage, Agent, Trigger]:
    """The on-call agent has its question."""
    agent = await world.worker("oncall")
    message, *_ = await asked(world)
    await world.buttons.press(press(message))
    return message, agent, await world.only(agent)


async def answers(world: World, agent: Agent, trigger: Trigger, text: str) -> list[str]:
    """The agent answers, and the thread hears of it. Returns the posts after the first."""
    await world.services.task_work.complete(holding(trigger, agent), trigger.id, text)
    await world.sweep()
    await world.sweep()
    await world.send()
    return world.slack.posts[1:]


@pytest.mark.both_engines
async def test_the_person_on_call_is_mentioned_in_the_thread(world: World) -> None:
    world = offering(world, ON_CALL)
    world.slack.emails["U2"] = "bob@example.org"
    message, agent, trigger = await question(world)
    assert trigger.thread is None
    assert trigger.task is not None
    assert trigger.task.description.startswith("Who is on call for payments now?")
    said = await answers(world, agent, trigger, "first@example.org is off. On call: <mailto:bob@example.org|Bob>")
    assert said == ["<@U2> is on call for payments: please look at this thread."]
    assert {done.thread_ts for done in world.slack.landed if done.text == said[0]} == {message.ts}
    assert await world.poll(agent) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("U2", "oncall named nobody"),  # too short to be an id of Slack's
        ("<@U2>", ""),
        ("It is Bob, I think.", "oncall named nobody"),
        ("nobody@example.org", "oncall named nobody in this Slack"),
        ("U0NOBODY1", "oncall named nobody in this Slack"),
    ],
)
async def test_an_answer_names_a_person_or_the_thread_hears_that_nobody_was_found(
    world: World, answer: str, told: str
) -> None:
    world = offering(world, ON_CALL)
    _, agent, trigger = await question(world)
    said = await answers(world, agent, trigger, answer)
    not_found = f"I could not find who is on call for payments: {told}."
    assert said == [not_found if told else "<@U2> is on call for payments: please look at this thread."]


async def test_an_agent_that_cannot_answer_is_reported_once(world: World) -> None:
    world = offering(world, ON_CALL)
    _, agent, trigger = await question(world)
    await world.services.task_work.fail(holding(trigger, agent), trigger.id, "the rota is down")
    await world.later(1)
    await world.later(1)
    await world.send()
    assert world.slack.posts[1:] == ["I could not find who is on call for payments: oncall could not answer."]


@pytest.mark.parametrize("exists", [True, False])
async def test_an_agent_that_is_not_there_is_reported_at_once(world: World, exists: bool) -> None:
    world = offering(world, ON_CALL)
    if exists:
        await world.worker("oncall", online=False)
    message, *_ = await asked(world)
    await world.buttons.press(press(message))
    await world.send()
    why = "oncall is offline" if exists else "there is no agent oncall"
    assert world.slack.posts[1:] == [f"I could not find who is on call for payments: {why}."]
    assert await world.rows("SELECT id FROM tasks") == []


async def test_an_agent_without_an_answer_in_time_is_told_to_stop(world: World) -> None:
    world = offering(world, ON_CALL)
    _, agent, trigger = await question(world)
    lead = next(one.agent for one in await world.services.agents.present() if one.agent.name == "lead")
    for _ in range(ON_CALL_SECONDS // 20 + 1):
        await world.is_here(agent)
        await world.is_here(lead)
        await world.services.work.renew(agent, [trigger.lease_token])
        await world.later(20)
    await world.send()
    assert world.slack.posts[1:] == ["I could not find who is on call for payments: oncall gave no answer in time."]
    (task,) = await world.rows("SELECT status FROM tasks")
    assert task == {"status": "cancelled"}


async def test_an_agent_that_goes_away_is_reported_and_nobody_else_gets_its_question(world: World) -> None:
    world = offering(world, ON_CALL)
    await question(world)
    world.clock.advance(200)
    await world.lead("boss")
    await world.sweep()
    await world.send()
    assert "I could not find who is on call for payments: oncall is offline." in world.slack.posts
    assert await world.rows("SELECT id FROM notices WHERE kind = 'task_returned'") == []


async def test_while_slack_does_not_answer_the_lookup_is_repeated(world: World) -> None:
    world = offering(world, ON_CALL)
    world.slack.emails["U2"] = "bob@example.org"
    _, agent, trigger = await question(world)
    world.slack.reads_fail.append(Unavailable("Slack is down."))
    said = await answers(world, agent, trigger, "bob@example.org")
    assert said == ["<@U2> is on call for payments: please look at this thread."]


async def test_a_missing_scope_is_named(world: World) -> None:
    world = offering(world, ON_CALL)
    _, agent, trigger = await question(world)
    world.slack.reads_fail.append(NotFound("Slack answers missing_scope."))
    (said,) = await answers(world, agent, trigger, "bob@example.org")
    assert "Slack answers missing_scope" in said


@pytest.mark.both_engines
async def test_the_thread_hears_once_who_is_on_call_from_two_processes(world: World) -> None:
    world = offering(world, ON_CALL)
    _, agent, trigger = await question(world)
    await world.services.task_work.complete(holding(trigger, agent), trigger.id, "<@U2>")
    other = world.governed_by(world.operating_policy)
    await asyncio.gather(world.sweep(), other.sweep())
    await world.send()
    assert len(world.slack.posts) == 2
