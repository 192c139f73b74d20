"""Lists of people by user group and e-mail domain, in channels and per agent, at every entry point."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.domain.errors import Forbidden, Unavailable
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.requests import DecisionPolicy, RequestStatus
from swarm.domain.model.threads import ChannelType, SlackMessage, Standing
from swarm.domain.model.triggers import TriggerKind
from swarm.domain.policy.access import AgentAccess
from swarm.domain.policy.channels import ChannelPolicy, External, Listen, PeopleLists
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.button_actions import (
    FEEDBACK_ACTION,
    RETRY_RUN_ACTION,
    STOP_RUN_ACTION,
    ButtonPressed,
    Feedback,
    SessionStopped,
    feedback_value,
)
from swarm.services.ground.idempotency import Caller
from swarm.services.intake.verify import GIVE_UP_SECONDS, RETRY_SECONDS
from swarm.services.speaking.participants import UNVERIFIED_TEXT
from swarm.services.tasks.tasks import brief
from tests.services.test_requests import Asking
from tests.services.test_strangers import guest, outcome, whispers
from tests.support.policies import governing
from tests.support.runs import asked, failed, now
from tests.support.tasks import work_of
from tests.support.world import BOT, World, edit, holding, said

pytestmark = pytest.mark.req("CHAN-09")

OPS = frozenset({"S01"})
BY_GROUP = governing(channels={"C1": ChannelPolicy(allowed_groups=OPS)})
BY_DOMAIN = governing(channels={"C1": ChannelPolicy(allowed_domains=frozenset({"example.org"}))})


def limited(name: str = "prod", **lists: frozenset[str]) -> OperatingPolicy:
    """Only some people may use an agent."""
    people = {kind: ids for kind, ids in lists.items() if kind != "channels"}
    access = AgentAccess(name=name, people=PeopleLists(**people), channels=lists.get("channels"))
    return governing(agent_access={name: access})


PROD = limited(groups=OPS)


async def routed(world: World, message: SlackMessage) -> int:
    return len(await world.inbox_messages(message))


# A channel's lists


async def test_members_of_the_group_are_heard_and_who_joins_or_leaves_it_is_noticed(world: World) -> None:
    listed = world.governed_by(BY_GROUP)
    await listed.lead()
    listed.slack.groups["S01"] = frozenset({"U1"})
    assert await routed(listed, await listed.says(f"{BOT} hello")) == 1
    outside = await listed.says(f"{BOT} hello", by="U2")
    assert await routed(listed, outside) == 0
    assert "not on the list of allowed user groups" in await outcome(listed, outside)
    listed.slack.groups["S01"] = frozenset({"U2"})
    assert await routed(listed, await listed.says(f"{BOT} hello", by="U2")) == 1
    assert await routed(listed, await listed.says(f"{BOT} hello")) == 0


async def test_the_domain_of_the_address_counts_and_explain_names_the_scope(world: World) -> None:
    listed = world.governed_by(BY_DOMAIN)
    await listed.lead()
    listed.slack.emails |= {"U1": "alice@example.org", "U3": "carol@evil.example"}
    heard = [await listed.says(f"{BOT} hello", by=by) for by in ("U1", "U2", "U3")]
    assert [await routed(listed, message) for message in heard] == [1, 0, 0]
    assert "scope users:read.email" in await outcome(listed, heard[1])
    assert "users:read.email" not in await outcome(listed, heard[2])


async def test_where_no_list_needs_it_slack_is_not_asked(world: World) -> None:
    listed = world.governed_by(
        governing(channels={"C1": ChannelPolicy(allowed_users=frozenset({"U1"}), allowed_groups=OPS)})
    )
    await listed.lead()
    listed.slack.groups["S01"] = frozenset()
    root = await listed.says(f"{BOT} hello")  # on the list of users
    await listed.says("lunch?", by="U2")  # nobody's work
    await listed.hears(said(f"{BOT} hello", by="U2", channel="C2"))  # no list there
    assert listed.slack.groups_asked == []
    for _ in range(3):
        await listed.says("and I", thread=root, by="U2")
    assert listed.slack.groups_asked == ["S01"]
    assert sorted(listed.slack.persons_asked) == ["U1", "U2"]


@pytest.mark.both_engines
async def test_while_slack_does_not_show_the_group_messages_wait_and_then_only_members_are_heard(world: World) -> None:
    listed = world.governed_by(BY_GROUP)
    lead = await listed.lead()
    root = await listed.says(f"{BOT} hello")
    other = await listed.says(f"{BOT} and me", by="U2")
    late = await listed.says("more", thread=root)
    assert "route.unverified it waits until Slack says whether its author is on a list" in await outcome(listed, root)
    for _ in range(2):
        listed.clock.advance(RETRY_SECONDS)
        await listed.verifier.verify_due()
    assert await listed.poll(lead) == []
    assert await whispers(listed) == []
    listed.slack.groups["S01"] = frozenset({"U1"})
    listed.clock.advance(RETRY_SECONDS)
    await listed.is_here(lead)
    await listed.governed_by(BY_GROUP).verifier.verify_due()  # another process
    assert [await routed(listed, message) for message in (root, other, late)] == [1, 0, 1]
    assert [person for person, _ in await whispers(listed)] == ["U2"]
    assert await listed.rows("SELECT * FROM early_messages") == []


async def test_what_slack_never_tells_is_refused_after_a_day_and_what_it_hides_at_once(world: World) -> None:
    listed = world.governed_by(BY_GROUP)
    await listed.lead()
    waiting = await listed.says(f"{BOT} hello")
    listed.clock.advance(GIVE_UP_SECONDS)
    await listed.verifier.verify_due()
    assert "route.not_allowed" in await outcome(listed, waiting)
    assert await listed.rows("SELECT * FROM early_messages") == []
    listed.slack.hidden_groups.add("S01")
    hidden = await listed.says(f"{BOT} hello")
    assert "Slack does not show the members of S01" in await outcome(listed, hidden)


async def test_an_edit_that_adds_a_mention_waits_as_well(world: World) -> None:
    listed = world.governed_by(BY_GROUP)
    await listed.lead()
    chat = await listed.says("hm")
    await listed.ingest.handle(edit(chat, f"{BOT} hm"))
    assert await routed(listed, chat) == 0
    listed.slack.groups["S01"] = frozenset({"U1"})
    listed.clock.advance(RETRY_SECONDS)
    await listed.verifier.verify_due()
    assert await routed(listed, chat) == 1
    refused = await listed.says("hm", by="U2")
    await listed.ingest.handle(edit(refused, f"{BOT} hm"))
    assert await routed(listed, refused) == 0
    assert [person for person, _ in await whispers(listed)] == ["U2"]


@pytest.mark.req("CHAN-11")
async def test_strangers_are_refused_before_the_lists_and_the_lists_apply_where_they_are_allowed(world: World) -> None:
    listed = world.governed_by(BY_GROUP)
    await listed.lead()
    listed.slack.persons["U2"] = guest()
    listed.slack.groups["S01"] = frozenset({"U2"})
    assert "route.stranger" in await outcome(listed, await listed.says(f"{BOT} hello", by="U2"))
    open_ = ChannelPolicy(allowed_groups=OPS, external=External.ALLOW)
    allowing = listed.governed_by(governing(channels={"C1": open_}))
    assert await routed(allowing, await allowing.says(f"{BOT} hello", by="U2")) == 1
    listed.slack.persons["U3"] = guest("U3")
    assert "route.not_allowed" in await outcome(allowing, await allowing.says(f"{BOT} hello", by="U3"))


async def test_nothing_is_said_to_people_who_have_not_addressed_the_swarm(world: World) -> None:
    policy = ChannelPolicy(allowed_users=frozenset({"U1"}), listen=Listen.ALL)
    listed = world.governed_by(governing(channels={"C1": policy}))
    await listed.lead()
    root = await listed.says("how do I reset my password?")
    await listed.says("lunch?", by="U2")
    await listed.says("same here", thread=root, by="U2")
    assert await whispers(listed) == []
    await listed.says(f"{BOT} help", by="U2")
    assert len(await whispers(listed)) == 1


# Lists of agents


async def test_only_some_people_reach_an_agent_by_any_way(world: World) -> None:
    guarded = world.governed_by(replace_policy(PROD, everywhere=ChannelPolicy(agent="prod")))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, prod = await guarded.lead(), await guarded.worker("prod")
    ways = [
        said("swarm#prod hello", by="U2"),
        said(f"{BOT} hello", by="U2"),
        said("hello", by="U2", channel="D2", channel_type=ChannelType.DM),
    ]
    for way in ways:
        denied = await guarded.hears(way)
        assert await routed(guarded, denied) == 0
        assert "not on prod's list of allowed user groups" in await outcome(guarded, denied)
        allowed = await guarded.hears(replace(way, author=replace(way.author, id="U1"), ts=said("").ts))
        assert (await guarded.inbox_message(allowed)).agent_id == prod.id
    assert (await guarded.inbox_message(await guarded.says("swarm#lead hello", by="U2"))).agent_id == lead.id
    assert [text for _, text in await whispers(guarded)] == ["You cannot use prod; my operator can change that."]


def replace_policy(policy: OperatingPolicy, **more: object) -> OperatingPolicy:
    return governing(agent_access=policy.agent_access, **more)


async def test_swarm_all_reaches_those_that_the_person_may_use_and_says_nothing_of_the_others(world: World) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, prod = await guarded.lead(), await guarded.worker("prod")
    everybody = await guarded.inbox_messages(await guarded.says("swarm#all hi"))
    assert {one.agent_id for one in everybody} == {lead.id, prod.id}
    assert (await guarded.inbox_message(await guarded.says("swarm#all hi", by="U2"))).agent_id == lead.id
    assert await whispers(guarded) == []


async def test_of_several_named_agents_those_that_may_be_used_get_it_and_the_person_hears_of_the_others(
    world: World,
) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset()
    await guarded.lead()
    await guarded.worker("prod")
    helper = await guarded.worker("helper")
    for _ in range(2):
        both = await guarded.says("swarm#prod and swarm#helper, look")
        assert (await guarded.inbox_message(both)).agent_id == helper.id
    ((person, text),) = await whispers(guarded)
    assert (person, "prod" in text) == ("U1", True)


@pytest.mark.both_engines
async def test_in_the_thread_of_such_an_agent_others_are_context_and_are_told_once_they_address_it(
    world: World,
) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, prod = await guarded.lead(), await guarded.worker("prod")
    root = await guarded.says("swarm#prod restart it")
    await guarded.only(prod)
    talk = await guarded.says("drop the database", thread=root, by="U2")
    assert await routed(guarded, talk) == 0
    assert await whispers(guarded) == []
    for text in (f"{BOT} do it", "!stop"):
        assert await routed(guarded, await guarded.says(text, thread=root, by="U2")) == 0
    assert len(await whispers(guarded)) == 1
    other = await guarded.inbox_message(await guarded.says("swarm#lead help", thread=root, by="U2"))
    assert other.agent_id == lead.id
    mine = await guarded.says("and restart it again", thread=root)
    assert (await guarded.inbox_message(mine)).agent_id == prod.id  # the thread was not taken away
    rows = await guarded.rows("SELECT ts, standing FROM thread_messages")
    assert {row["ts"]: row["standing"] for row in rows}[talk.ts] == Standing.NOT_ALLOWED


async def test_an_agent_is_used_in_its_channels_only(world: World) -> None:
    guarded = world.governed_by(limited(channels=frozenset({"C2"})))
    await guarded.lead()
    prod = await guarded.worker("prod")
    refused = await guarded.says("swarm#prod hi")
    assert "prod cannot be used in this channel" in await outcome(guarded, refused)
    there = await guarded.hears(said("swarm#prod hi", channel="C2"))
    assert (await guarded.inbox_message(there)).agent_id == prod.id
    ((_, text),) = await whispers(guarded)
    assert text == "prod cannot be used in this channel; my operator can change that."


async def test_each_reason_is_said_once_a_day_and_person(world: World) -> None:
    policies = {"C1": ChannelPolicy(allowed_users=frozenset()), "C2": ChannelPolicy(allowed_users=frozenset())}
    guarded = world.governed_by(replace_policy(limited(users=frozenset()), channels=policies))
    lead = await guarded.lead()
    await guarded.worker("prod")
    for _ in range(3):
        for channel in ("C1", "C2", "C3", "C4"):
            await guarded.hears(said("swarm#prod hi", by="U2", channel=channel))
    told = await whispers(guarded)
    assert sorted(text.split(";")[0] for _, text in told) == [
        "You cannot use me in this channel",
        "You cannot use me in this channel",
        "You cannot use prod",
    ]
    await guarded.later(24 * 3600)
    await guarded.is_here(lead)
    await guarded.hears(said("swarm#prod hi", by="U2", channel="C3"))
    assert len(await whispers(guarded)) == len(told) + 1


# Stand-ins


async def test_no_stand_in_gets_a_message_whose_author_may_not_use_it(world: World) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead = await guarded.lead()
    helper = await guarded.worker("helper", online=False)
    waits = await guarded.says("swarm#helper hi", by="U2")
    assert (await guarded.inbox_message(waits)).agent_id == helper.id
    mine = await guarded.inbox_message(await guarded.says("swarm#helper hi"))
    assert (mine.agent_id, mine.matched_by) == (lead.id, MatchedBy.READDRESSED)
    await guarded.send()
    (queued,) = [post for post in guarded.slack.posts if "queued" in post]
    assert queued == (
        "helper is not available right now. Your message is queued and will be answered as soon as helper is available."
    )


@pytest.mark.both_engines
async def test_failover_hands_over_only_what_the_author_may_give_the_lead(world: World) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    helper = await guarded.worker("helper")
    mine, theirs = [await guarded.says("swarm#helper hi", by=by) for by in ("U1", "U2")]
    guarded.clock.advance(300)
    lead = await guarded.lead()  # while Slack does not show the group, everything waits
    await guarded.sweep()
    assert {(await guarded.inbox_message(message)).agent_id for message in (mine, theirs)} == {helper.id}
    guarded.slack.groups["S01"] = frozenset({"U1"})
    for _ in range(2):
        await guarded.sweep()
    assert [(await guarded.inbox_message(message)).agent_id for message in (mine, theirs)] == [lead.id, helper.id]
    await guarded.send()
    assert sum("Your message is queued" in post for post in guarded.slack.posts) == 2  # both threads were told once


@pytest.mark.both_engines
async def test_what_waits_for_a_lead_is_refused_if_its_author_may_not_use_the_one_that_comes(world: World) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    mine, theirs = [await guarded.says(f"{BOT} hi", by=by) for by in ("U1", "U2")]
    lead = await guarded.lead()
    assert (await guarded.inbox_message(mine)).agent_id is None
    guarded.slack.groups["S01"] = frozenset({"U1"})
    await guarded.sweep()
    assert (await guarded.inbox_message(mine)).agent_id == lead.id
    assert (await guarded.inbox_message(theirs)).status is InboxStatus.WITHDRAWN
    ((person, text),) = await whispers(guarded)
    assert (person, "cannot use lead" in text) == ("U2", True)


async def test_a_new_owner_gets_only_the_messages_of_people_who_may_use_it(world: World) -> None:
    guarded = world.governed_by(limited(users=frozenset({"U1"})))
    lead, prod = await guarded.lead(), await guarded.worker("prod")
    root = await guarded.says(f"{BOT} hello")
    theirs = await guarded.says("and me", thread=root, by="U2")
    await guarded.says("swarm#prod take over", thread=root)
    assert (await guarded.inbox_message(root)).agent_id == prod.id
    assert (await guarded.inbox_message(theirs)).agent_id == lead.id


# Delegation


async def test_a_lead_may_delegate_to_an_agent_only_what_a_person_who_may_use_it_has_asked(world: World) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, prod = await guarded.lead(), await guarded.worker("prod")
    delegations = guarded.services.delegations
    await guarded.says(f"{BOT} restart it", by="U2")
    trigger = await guarded.only(lead)
    with pytest.raises(Forbidden) as refused:
        await delegations.delegate(holding(trigger, lead), trigger.inbox_messages[0].id, "prod", brief("Restart."))
    assert refused.value.message == "U2 asked for this and may not use prod here."
    with pytest.raises(Forbidden):
        await guarded.services.tasks.create(holding(trigger, lead), brief("Restart."), agent="prod")
    await guarded.says(f"{BOT} restart it")
    (mine,) = [one for one in await guarded.poll(lead) if one.inbox_messages]
    await delegations.delegate(holding(mine, lead), mine.inbox_messages[0].id, prod.id, brief("Restart."))
    assert (await guarded.only(prod)).kind is TriggerKind.TASK_ASSIGNED


async def test_messages_of_others_are_not_delegated_along(world: World) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, _ = await guarded.lead(), await guarded.worker("prod")
    root = await guarded.says(f"{BOT} restart it")
    await guarded.says("and drop it", thread=root, by="U2")
    trigger = await guarded.only(lead)
    caller, first = holding(trigger, lead), trigger.inbox_messages[0].id
    delegate = guarded.services.delegations.delegate
    with pytest.raises(Forbidden) as refused:
        await delegate(caller, first, "prod", brief("Restart."))
    assert "only=true" in (refused.value.hint or "")
    await delegate(caller, first, "prod", brief("Restart."), only=True)


async def test_nobodys_task_is_for_nobody_and_an_operator_may_assign_anything(world: World) -> None:
    guarded = world.governed_by(PROD)
    lead, _ = await guarded.lead(), await guarded.worker("prod")
    tasks = guarded.services.tasks
    with pytest.raises(Forbidden) as refused:
        await tasks.create(Caller(agent=lead), brief("Restart."), agent="prod")
    assert "nobody is known to have asked" in refused.value.message
    assert (await tasks.create(None, brief("Restart."), agent="prod")).agent == "prod"
    await guarded.says(f"{BOT} restart it")
    trigger = await guarded.only(lead)
    with pytest.raises(Unavailable):  # Slack does not show the group
        await tasks.create(holding(trigger, lead), brief("Restart."), agent="prod")


async def test_the_parts_of_a_task_go_to_an_agent_if_who_asked_for_the_whole_may_use_it(world: World) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    lead, helper, _ = await guarded.lead(), await guarded.worker("helper"), await guarded.worker("prod")
    for by, may in (("U1", True), ("U2", False)):
        await guarded.says(f"{BOT} restart it", by=by)
        trigger = await guarded.only(lead)
        caller = holding(trigger, lead)
        delegate = guarded.services.delegations.delegate
        await delegate(caller, trigger.inbox_messages[0].id, "helper", brief("Restart."))
        task = await guarded.only(helper)
        part = guarded.services.tasks.create(holding(task, helper), brief("Part."), agent="prod", parent_id=task.id)
        if may:
            assert (await part).agent == "prod"
        else:
            with pytest.raises(Forbidden):
                await part


# Clicks


def press(action: str, value: str, *, by: str, key: str) -> ButtonPressed:
    return ButtonPressed(
        key=key,
        action_id=action,
        value=value,
        user_id=by,
        channel="C1",
        message_ts="1700000000.000900",
        thread_ts=None,
    )


@pytest.mark.parametrize("action", [STOP_RUN_ACTION, RETRY_RUN_ACTION, FEEDBACK_ACTION])
async def test_a_click_on_what_an_agent_said_takes_the_right_to_use_it_and_each_is_answered(
    world: World, action: str
) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    _, run = await asked(guarded, await guarded.lead())
    if action == RETRY_RUN_ACTION:
        await failed(guarded, run)
    value = feedback_value(Feedback(answer_id=run.id, is_good=True)) if action == FEEDBACK_ACTION else run.id
    before = await now(guarded, run)
    told = [await guarded.buttons.press(press(action, value, by="U2", key=str(number))) for number in range(3)]
    refusal = "you cannot use lead; my operator can change that."
    assert told == [f"You may not do that here: {refusal}"] * 3
    assert await now(guarded, run) == before
    assert await guarded.rows("SELECT * FROM feedback") == []
    explained = await guarded.rows("SELECT reason FROM history WHERE change = 'press.refused'")
    assert len(explained) == 3
    assert "not on lead's list" in str(explained[0]["reason"])
    allowed = await guarded.buttons.press(press(action, value, by="U1", key="mine"))
    assert "may not" not in str(allowed)
    assert await now(guarded, run) != before or action == FEEDBACK_ACTION


async def test_while_slack_does_not_show_the_group_a_click_can_be_repeated(world: World) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    _, run = await asked(guarded, await guarded.lead())
    del guarded.slack.groups["S01"]
    for number in range(2):
        told = await guarded.buttons.press(press(STOP_RUN_ACTION, run.id, by="U1", key=str(number)))
        assert told == UNVERIFIED_TEXT
    guarded.slack.groups["S01"] = frozenset({"U1"})
    assert await guarded.buttons.press(press(STOP_RUN_ACTION, run.id, by="U1", key="again")) is None
    assert (await now(guarded, run)).stop_requested_by == "U1"


async def test_a_stop_in_words_takes_the_right_to_use_every_agent_at_work(world: World) -> None:
    guarded = world.governed_by(PROD)
    guarded.slack.groups["S01"] = frozenset({"U1"})
    await guarded.lead()
    root, run = await asked(guarded, await guarded.worker("prod"), "swarm#all look")
    for _ in range(2):
        stop = await guarded.says("!stop", thread=root, by="U2")
        assert "route.not_allowed" in await outcome(guarded, stop)
    assert (await now(guarded, run)).stop_requested_by is None
    assert [person for person, _ in await whispers(guarded)] == ["U2"]
    await guarded.says("!stop", thread=root)
    assert (await now(guarded, run)).stop_requested_by == "U1"


async def test_slacks_own_stop_takes_the_right_to_use_the_agents_at_work_and_is_refused_once(world: World) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    root, run = await asked(guarded, await guarded.lead())

    def stop(by: str, key: str) -> SessionStopped:
        return SessionStopped(key=key, channel="C1", thread_ts=root.ts, user_id=by, message_ts=())

    for number in range(3):
        await guarded.turn_control.stop_session(stop("U2", f"theirs:{number}"))
    assert (await now(guarded, run)).stop_requested_by is None
    ((person, text),) = await whispers(guarded)
    assert (person, "cannot use lead" in text) == ("U2", True)
    del guarded.slack.groups["S01"]
    with pytest.raises(Unavailable):  # Slack tells of it again
        await guarded.turn_control.stop_session(stop("U1", "mine"))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    await guarded.turn_control.stop_session(stop("U1", "mine"))
    assert (await now(guarded, run)).stop_requested_by == "U1"


async def test_the_limit_is_said_once_a_minute_to_who_clicks_on(world: World) -> None:
    limiting = world.governed_by(governing(messages_per_minute=1))
    _, run = await asked(limiting, await limiting.lead())
    told = [await limiting.buttons.press(press(RETRY_RUN_ACTION, run.id, by="U1", key=str(n))) for n in range(4)]
    assert ["reached the limit" in str(text) for text in told] == [True] * 4, "each press is answered"
    limiting.clock.advance(61)
    assert "limit" not in str(await limiting.buttons.press(press(RETRY_RUN_ACTION, run.id, by="U1", key="x")))
    assert "limit" in str(await limiting.buttons.press(press(RETRY_RUN_ACTION, run.id, by="U1", key="y")))


async def test_who_may_not_use_an_agent_decides_on_none_of_its_requests_unless_its_policy_names_them(
    world: World,
) -> None:
    guarded = world.governed_by(limited("lead", groups=OPS))
    guarded.slack.groups["S01"] = frozenset({"U1"})
    asking = Asking(guarded)
    await asking.begin()
    others = await asking.ask(policy=DecisionPolicy(requester=False, not_requester=True))
    for _ in range(2):
        with pytest.raises(Forbidden, match="cannot use lead"):
            await asking.decide(others, by="U2")
    guarded.slack.groups["S01"] = frozenset({"U1", "U3"})
    await asking.decide(others, by="U3")
    named = await asking.ask(await work_of(guarded, asking.lead), key="q2", policy=DecisionPolicy(users=("U2",)))
    assert (await asking.decide(named, by="U2")).status is RequestStatus.APPROVED
