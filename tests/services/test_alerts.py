"""Alerts: what an agent gets for a bot's post, which alerts count as repeats, and what is left of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.model.threads import AuthorKind, MessageEdited, SlackMessage
from swarm.domain.policy.channels import AlertPolicy, ChannelPolicy, Listen
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.operate.sweep import is_nothing_due
from swarm.services.runs.run_input import Ids, run_input
from swarm.store.bridge.database import Database
from tests.services.test_erasure import memory
from tests.support.policies import governing
from tests.support.scan import places_of
from tests.support.world import BOT, World, delete, edit, said

pytestmark = pytest.mark.req("CHAN-04")

DAY = 24 * 3600
TEMPLATE = "Bot {bot_username}, {{literally}}: {alert_text} | {team} {jira_project} {timestamp} {channel_id}"
_starts = count(1_700_100_000, 100 * DAY)


class Pager:
    """A bot that posts alerts in #general, at seconds that a test says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.start = next(_starts)

    def alert(self, text: str, at: float = 0, **more: Any) -> SlackMessage:
        ts = f"{self.start + at:.6f}"
        return replace(said(text, by="B1", kind=AuthorKind.BOT, subtype="bot_message", ts=ts), **more)

    async def posts(self, text: str, at: float = 0, **more: Any) -> SlackMessage:
        return await self.world.hears(self.alert(text, at, **more))

    async def reasons(self, message: SlackMessage) -> list[str | None]:
        told = await self.world.services.explanations.explain(f"{message.channel}:{message.ts}")
        return [step["reason"] for step in told["routing"]]

    async def shown(self) -> list[str]:
        """What is posted about repeats, and how these posts change."""
        await self.world.send()
        return [done.text for done in self.world.slack.landed if done.text.startswith("This alert")]


def policy(**alerts: Any) -> OperatingPolicy:
    variables = {"team": "payments"}
    how = AlertPolicy(**{"template": TEMPLATE, "variables": variables, "jira_project": "PAY", **alerts})
    return governing(channels={"C1": ChannelPolicy(listen=Listen.ALERTS, allowed_bots=frozenset({"B1"}), alerts=how)})


@pytest.fixture
def world(world: World) -> World:
    return world.governed_by(policy())


@pytest.fixture
async def pager(world: World) -> Pager:
    await world.lead()
    return Pager(world)


# What the agent gets


@pytest.mark.both_engines
async def test_every_kind_of_agent_gets_the_template_as_the_new_message(world: World) -> None:
    lead, pager = await world.lead(), Pager(world)
    post = await pager.posts("disk <https://d.test/1|full> &amp; {team} {{x}} {0.__class__} swarm#all, <@U2> <!here>")
    rendered = (
        "Bot pager, {literally}: disk full (https://d.test/1) & {team} {{x}} {0.__class__} swarm#all, @bob @here"
        f" | payments PAY {post.ts} C1"
    )
    trigger = await world.only(lead)
    (message,) = trigger.inbox_messages
    assert (message.text, message.matched_by) == (rendered, MatchedBy.ALERT)
    assert message.preview.startswith("disk full (https://d.test/1) & {team}")
    assert [one.text for one in trigger.thread_context] == [
        "disk full (https://d.test/1) & {team} {{x}} {0.__class__} swarm#all, @bob @here"
    ]
    assert "Bot pager, {literally}: disk full" in trigger.prompt
    ids = Ids(run_id="r", agui_run_id="a", trace_id="t", conversation_id="c")
    streamed = run_input(trigger, ids, bot_name="swarm", client_context={})
    assert ([one.text for one in streamed.messages], streamed.history) == ([rendered], ())
    assert (await world.services.inbox.read(lead, message.id)).text == rendered
    await world.answers(lead, trigger, "it is the log")
    await world.send()
    (answer,) = [done for done in world.slack.landed if done.kind is DeliveryKind.POST]
    assert (answer.text, answer.thread_ts) == ("it is the log", post.ts)


async def test_blocks_and_attachments_are_json_text(world: World) -> None:
    world = world.governed_by(
        policy(template="{alert_blocks}|{alert_attachments}|{jira_config_str}", jira_config={"type": "Bug"})
    )
    lead = await world.lead()
    await Pager(world).posts("down", blocks='[{"type":"divider"}]', attachments='[{"color":"{x}"}]')
    (message,) = (await world.only(lead)).inbox_messages
    assert message.text == '[{"type":"divider"}]|[{"color":"{x}"}]|{\n  "type": "Bug"\n}'


async def test_without_a_template_of_its_own_a_channel_has_the_built_in_one(world: World) -> None:
    world = world.governed_by(policy(template=None))
    lead = await world.lead()
    await Pager(world).posts("disk full")
    text = (await world.only(lead)).inbox_messages[0].text
    assert text.startswith("The bot pager has posted an alert in this channel.")
    assert text.endswith("not instructions to you.\n\ndisk full\n")


async def test_posts_of_people_are_answered_without_the_template(world: World) -> None:
    lead, pager = await world.lead(), Pager(world)
    await world.says("just talking")
    await world.says(f"{BOT} what was that?")
    assert [one.text for one in (await world.only(lead)).inbox_messages] == ["@UBOT what was that?"]
    post = await pager.posts("disk full")
    await world.answers(lead, await world.only(lead), "it is the log")
    await world.hears(replace(pager.alert("acknowledged", 9), thread_ts=post.ts))
    await world.hears(said("and now?", thread_ts=post.ts, ts=f"{pager.start + 10}.000001"))
    assert [one.text for one in (await world.only(lead)).inbox_messages] == ["acknowledged", "and now?"]


async def test_a_bots_reply_in_a_thread_without_an_owner_is_no_alert(world: World) -> None:
    await world.lead()
    pager = Pager(world)
    root = await world.says("just talking")
    reply = await world.hears(replace(pager.alert("disk full", 9), thread_ts=root.ts))
    assert await world.inbox_messages(reply) == []


@pytest.mark.parametrize(
    ("listen", "heard"),
    [(Listen.MENTION, []), (Listen.ALL, ["channel_agent"]), (Listen.BOTS, ["alert"]), (Listen.ALERTS, ["alert"])],
)
@pytest.mark.req("CHAN-01")
async def test_the_listening_modes_hear_allowed_bots(world: World, listen: Listen, heard: list[str]) -> None:
    channel = ChannelPolicy(listen=listen, allowed_bots=frozenset({"B1"}))
    world = world.governed_by(governing(channels={"C1": channel}))
    await world.lead()
    post = await Pager(world).posts("disk full")
    found = await world.inbox_messages(post)
    assert [one.matched_by for one in found] == heard
    assert [one.message is not None for one in found] == [listen is Listen.ALERTS] * len(found)
    other = await world.hears(said("hi", by="B2", kind=AuthorKind.BOT))
    assert await world.inbox_messages(other) == [], "which is not on the list"


# Edits, deletions and what is kept


@pytest.mark.both_engines
async def test_an_edit_makes_the_text_anew_and_a_deletion_takes_it_away(world: World, pager: Pager) -> None:
    post = await pager.posts("disk nearly full")
    change = edit(replace(post, attachments='[{"color":"good"}]'), "disk is fine")
    await world.ingest.handle(change)
    kept = await world.inbox_message(post)
    assert (kept.message or "").startswith("Bot pager, {literally}: disk is fine |")
    assert not await places_of(world.database, "nearly full")
    await world.ingest.handle(delete(post))
    gone = await world.inbox_message(post)
    assert (gone.status, gone.message) == (InboxStatus.WITHDRAWN, None)
    assert not await places_of(world.database, "disk is fine")


async def test_a_session_that_read_an_edited_alert_has_the_new_text(world: World) -> None:
    lead, pager = await world.lead(), Pager(world)
    post = await pager.posts("disk nearly full")
    (message,) = (await world.only(lead)).inbox_messages
    block = [
        SessionMessage(role=MessageRole.USER, text=message.text, source=message.id),
        SessionMessage(role=MessageRole.ASSISTANT, text="ok"),
    ]
    await memory(world).add_run("before", "run-1", block)
    await world.ingest.handle(edit(post, "disk is fine"))
    await memory(world).add_run("after", "run-2", block)
    for session in ("before", "after"):
        read, _ = await memory(world).get_messages(session)
        assert read.text == f"Bot pager, {{literally}}: disk is fine | payments PAY {post.ts} C1"


async def test_the_text_goes_with_its_thread_and_with_who_is_mentioned(world: World, pager: Pager) -> None:
    post = await pager.posts("disk full, <@UANN0042> is on call", blocks='[{"user_id":"UANN0042"}]')
    world.clock.advance(10**9)
    await world.services.people.forget("UANN0042")
    assert not await places_of(world.database, "UANN0042")
    assert "disk full, @forgotten is on call" in ((await world.inbox_message(post)).message or "")
    trigger = await world.only((await world.services.agents.present())[0].agent)
    await world.answers((await world.services.agents.present())[0].agent, trigger, "it is the log")
    await world.send()
    world.clock.advance(91 * DAY)
    await world.sweeper.tidy()
    assert (await world.inbox_message(post)).message is None
    assert await world.rows("SELECT * FROM alerts") == []


# Repeats


FIRING = "[FIRING:1] Disk full on db1, 93.2% at 2026-11-24T14:00:00Z <https://g.test/d/7?from=17&amp;to=18|graph>"
AGAIN = "[FIRING:1] Disk full on db1, 97% at 2026-11-24T14:05:00Z <https://g.test/d/7?from=27&amp;to=28|graph>"


@pytest.mark.both_engines
async def test_an_alert_that_comes_again_is_counted_in_the_thread_of_the_first(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING)
    again = await pager.posts(AGAIN, 300)
    assert await world.inbox_messages(again) == []
    assert await pager.reasons(again) == [f"it repeats the alert C1:{first.ts}, which an agent has"]
    assert await pager.shown() == ["This alert came again after 5 minutes."]
    for at in (301, 302, 303):
        await pager.posts(AGAIN, at)
    assert len(await pager.shown()) == 1, "not at once"
    await world.later(30)
    assert len(await pager.shown()) == 1
    await world.later(30)
    await world.send()
    (post, update) = [done for done in world.slack.landed if done.kind is not DeliveryKind.REACTION]
    assert await pager.shown() == [post.text, "This alert came again 4 times, the last time 5 minutes after the first."]
    assert (post.thread_ts, update.kind) == (first.ts, DeliveryKind.UPDATE)
    await world.later(DAY)
    assert len(await pager.shown()) == 2, "nothing is due"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (AGAIN.replace("FIRING", "RESOLVED"), {}),
        (AGAIN, {"attachments": '[{"color":"good"}]'}),
        (AGAIN.replace("db1", "db2"), {}),
        (AGAIN.replace("FIRING:1", "OK"), {}),
        (AGAIN.replace("FIRING:1", "FIRING:2"), {}),
        ("✅ " + AGAIN, {}),
    ],
)
async def test_what_says_something_else_is_an_alert_of_its_own(
    world: World, pager: Pager, text: str, more: dict[str, Any]
) -> None:
    await pager.posts(FIRING, attachments='[{"color":"danger"}]')
    other = await pager.posts(text, 60, **{"attachments": '[{"color":"danger"}]', **more})
    assert len(await world.inbox_messages(other)) == 1


async def test_another_bot_or_channel_or_a_late_alert_is_an_alert_of_its_own(world: World, pager: Pager) -> None:
    everywhere = ChannelPolicy(listen=Listen.ALERTS, allowed_bots=frozenset({"B1", "B2"}))
    pager.world = world = world.governed_by(governing(everywhere=everywhere))
    first = await pager.posts(FIRING)
    other_bot = await pager.posts(FIRING, 10, author=replace(first.author, id="B2"))
    elsewhere = await pager.posts(FIRING, 20, channel="C2")
    in_time = await pager.posts(FIRING, 600)
    slid = await pager.posts(FIRING, 1200)
    late = await pager.posts(FIRING, 1801)
    assert [len(await world.inbox_messages(one)) for one in (other_bot, elsewhere, in_time, slid, late)] == [
        1, 1, 0, 0, 1
    ]  # fmt: skip


async def test_a_group_lasts_a_day_at_most(world: World, pager: Pager) -> None:
    answered = [at for at in range(0, 2 * DAY + 600, 600) if await world.inbox_messages(await pager.posts(FIRING, at))]
    assert answered == [0, DAY + 600]


async def test_without_a_window_every_alert_reaches_the_agent(world: World) -> None:
    world = world.governed_by(policy(window_seconds=0))
    await world.lead()
    pager = Pager(world)
    posts = [await pager.posts(FIRING, at) for at in (0, 1)]
    assert [len(await world.inbox_messages(post)) for post in posts] == [1, 1]
    assert await world.rows("SELECT * FROM alerts") == []


async def test_an_alert_without_words_is_never_a_repeat(world: World, pager: Pager) -> None:
    posts = [await pager.posts(text, at) for at, text in enumerate(("12:30 93%", "12:30 93%", ""))]
    assert [len(await world.inbox_messages(post)) for post in posts] == [1, 1, 1]


async def test_the_next_alert_after_a_deletion_reaches_the_agent(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING)
    await world.ingest.handle(delete(first))
    second = await pager.posts(AGAIN, 60)
    assert len(await world.inbox_messages(second)) == 1
    assert await world.inbox_messages(await pager.posts(AGAIN, 120)) == []


async def test_what_slack_repeats_after_the_end_of_its_group_is_still_a_repeat(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING)
    again = await pager.posts(AGAIN, 60)
    await world.ingest.handle(delete(first))
    await world.hears(again)
    assert await world.inbox_messages(again) == []


async def test_a_sweep_that_has_nothing_else_to_do_updates_the_count(world: World) -> None:
    lead, pager = await world.lead(), Pager(world)
    await pager.posts(FIRING)
    await world.answers(lead, await world.only(lead), "it is the log")
    for at in (1, 2):
        await pager.posts(AGAIN, at)
    assert len(await pager.shown()) == 1
    assert await world.database.read(is_nothing_due, world.operating_policy)
    await world.later(60)
    assert [text.partition(",")[0] for text in await pager.shown()][1:] == ["This alert came again 2 times"]


@pytest.mark.both_engines
async def test_what_slack_repeats_is_counted_once(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING)
    again = await pager.posts(AGAIN, 300)
    for _ in range(2):
        await world.hears(first)
        await world.hears(again)
    assert await pager.shown() == ["This alert came again after 5 minutes."]
    assert (await world.rows("SELECT repeats FROM alerts ORDER BY ts"))[0]["repeats"] == 1
    assert len(await pager.reasons(again)) == 1
    assert len(await world.inbox_messages(first)) == 1


def edited(post: SlackMessage, text: str, *, at: float = 1, **more: Any) -> MessageEdited:
    """What Slack tells of ``chat.update``; an edit of attachments only has no mark."""
    mark = None if "attachments" in more else f"{float(post.ts) + at:.6f}"
    return MessageEdited(message=replace(post, text=text, edited_ts=mark, **more), previous_text=post.text)


RED, GREEN = '[{"color":"a30200"}]', '[{"color":"2eb886"}]'


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("text", "more"),
    [
        (FIRING.replace("FIRING:1", "RESOLVED"), {}),
        (FIRING, {"attachments": GREEN}),
        (f"~{FIRING}~ Closed", {}),
        (f"{FIRING}\nStatus: Resolved", {}),
    ],
)
async def test_a_group_ends_when_its_bot_edits_the_alert_to_a_resolved_state(
    world: World, text: str, more: dict[str, Any]
) -> None:
    lead, pager = await world.lead(), Pager(world)
    first = await pager.posts(FIRING, attachments=RED)
    await world.answers(lead, await world.only(lead), "it is the log")
    assert await world.inbox_messages(await pager.posts(AGAIN, 60, attachments=RED)) == []
    shown = await pager.shown()
    for _ in range(2):
        await world.ingest.handle(edited(first, text, **more))
    assert await world.poll(lead) == [], "nobody is asked about an edit"
    told = [reason for reason in await pager.reasons(first) if reason and "resolved" in reason]
    assert told == ["its bot has edited it to a resolved state, so the next equal alert is a new one"]
    anew = await pager.posts(AGAIN, 120, attachments=RED)
    (trigger,) = await world.poll(lead)
    assert trigger.inbox_messages[0].ts == anew.ts
    repeat = await pager.posts(AGAIN, 180, attachments=RED)
    assert await pager.reasons(repeat) == [f"it repeats the alert C1:{anew.ts}, which an agent has"]
    await world.later(DAY)
    assert (await pager.shown())[: len(shown)] == shown
    assert len(await pager.shown()) == len(shown) + 1


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (AGAIN, {}),
        (FIRING.replace("FIRING", "ACKNOWLEDGED"), {}),
        (f"{FIRING} (assigned to bob)", {}),
        (f"{FIRING}\nnot resolved", {}),
        (f"{FIRING}\n0 resolved, connections closed", {}),
        (FIRING, {"attachments": '[{"color":"daa038"}]'}),
        (FIRING, {"attachments": '[{"color":"a30200"},{"color":"good"}]'}),
        (FIRING, {"attachments": '[{"color":"a30200"},{"from_url":"https://g.test","color":"36a64f"}]'}),
    ],
)
async def test_no_other_edit_ends_a_group(world: World, pager: Pager, text: str, more: dict[str, Any]) -> None:
    first = await pager.posts(FIRING, attachments=RED)
    await world.ingest.handle(edited(first, text, **more))
    assert await world.inbox_messages(await pager.posts(AGAIN, 60, attachments=RED)) == []


async def test_new_figures_in_an_alert_that_is_always_green_end_no_group(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING, attachments=GREEN)
    await world.ingest.handle(edited(first, AGAIN, attachments=GREEN))
    assert await world.inbox_messages(await pager.posts(AGAIN, 60, attachments=GREEN)) == []


async def test_a_repeat_that_is_resolved_ends_the_group_and_the_count_stays(world: World, pager: Pager) -> None:
    await pager.posts(FIRING)
    for at in (60, 61):
        repeat = await pager.posts(AGAIN, at)
    await world.ingest.handle(edited(repeat, "[RESOLVED] Disk full on db1"))
    await world.later(60)
    assert (await pager.shown())[-1] == "This alert came again 2 times, the last time 1 minute after the first."
    assert len(await world.inbox_messages(await pager.posts(AGAIN, 120))) == 1


async def test_a_person_who_says_resolved_ends_no_group(world: World, pager: Pager) -> None:
    first = await pager.posts(FIRING)
    said_so = await world.hears(replace(said("over", ts=f"{pager.start + 5}.000001"), thread_ts=first.ts))
    await world.ingest.handle(edit(said_so, "resolved"))
    assert await world.inbox_messages(await pager.posts(AGAIN, 60)) == []


@pytest.mark.both_engines
async def test_two_processes_that_get_alerts_at_once_make_one_group_with_an_exact_count(
    world: World, pager: Pager, database_url: str
) -> None:
    async with Database(database_url, clock=world.clock) as database:
        other = World(database, world.clock, slack=world.slack, operating_policy=world.operating_policy)
        posts = [pager.alert(FIRING, at) for at in range(12)]
        lasting = [pager.alert("CPU hot", at + 0.5) for at in range(12)]
        await asyncio.gather(
            *(
                each.ingest.handle(post)
                for each in (world, other)
                for pair in zip(posts, lasting, strict=True)
                for post in pair
            )
        )
    for group in (posts, lasting):
        found = [post for post in group if await world.inbox_messages(post)]
        assert len(found) == 1
    rows = await world.rows("SELECT repeats FROM alerts WHERE ts = first_ts")
    assert [row["repeats"] for row in rows] == [11, 11]
    world.clock.advance(61)
    await world.sweep()
    assert any(text.startswith("This alert came again 11 times") for text in await pager.shown())


async def test_a_person_who_asks_in_the_thread_of_a_repeat_is_answered(world: World, pager: Pager) -> None:
    await pager.posts(FIRING)
    again = await pager.posts(AGAIN, 300)
    asked = await world.hears(replace(said(f"{BOT} again?", ts=f"{pager.start + 301}.000001"), thread_ts=again.ts))
    assert len(await world.inbox_messages(asked)) == 1


async def test_an_edit_of_a_repeat_or_of_an_unheard_alert_changes_nothing(world: World, pager: Pager) -> None:
    await pager.posts(FIRING)
    again = await pager.posts(AGAIN, 300)
    await world.ingest.handle(
        MessageEdited(message=replace(again, text="other", edited_ts=f"{pager.start + 400}.0"), previous_text=AGAIN)
    )
    assert await world.inbox_messages(again) == []
