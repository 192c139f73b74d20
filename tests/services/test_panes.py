"""The beginning of a conversation with the app: the greeting, the prompts, and the title of a thread."""

from __future__ import annotations

from itertools import count

import orjson
import pytest

from swarm.domain.model.deliveries import Delivery, DeliveryKind, DeliveryRefused
from swarm.domain.model.threads import FLAT, ChannelType
from swarm.domain.policy.channels import SUGGESTED_PROMPTS, ChannelPolicy, DirectReplies, SuggestedPrompt
from swarm.domain.policy.operating import Policies
from swarm.domain.requests.button_actions import PaneOpened
from swarm.domain.text.slack_text import title_of
from swarm.services.intake.panes import GREETING, GREETING_OF_NOBODY, Panes
from swarm.services.speaking.participants import Rosters
from tests.support.policies import governing
from tests.support.slack import next_ts
from tests.support.world import ME, World, said

pytestmark = pytest.mark.req("CHAN-08")

_numbers = count(1)


def prompt(name: str) -> SuggestedPrompt:
    return SuggestedPrompt(title=name, message=f"{name}!")


def pane(thread_ts: str = FLAT, **more: object) -> PaneOpened:
    values: dict[str, object] = {
        "key": f"pane:{next(_numbers)}", "user_id": "U1", "channel": "D1", "thread_ts": thread_ts,
        "event_ts": next_ts(), **more,
    }  # fmt: skip
    return PaneOpened(**values)  # type: ignore[arg-type]


async def open_pane(world: World, event: PaneOpened) -> PaneOpened:
    rosters = Rosters(world.database, world.operating_policy, kept_seconds=0)
    await Panes(world.database, world.operating_policy, ME.team, world.standings, rosters).opened(event)
    return event


async def shown(world: World, kind: DeliveryKind) -> list[Delivery]:
    await world.send()
    return [done for done in world.slack.landed if done.kind is kind]


async def prompts(world: World) -> list[tuple[str | None, list[str]]]:
    """The titles of the prompts of each call, with the thread."""
    sent = await shown(world, DeliveryKind.PROMPTS)
    return [(one.thread_ts, [each["title"] for each in orjson.loads(one.text)]) for one in sent]


@pytest.mark.both_engines
async def test_a_pane_is_greeted_once_and_gets_prompts_again_in_another_channel(world: World) -> None:
    await world.lead("ada")
    root = next_ts()
    first = await open_pane(world, pane(root))
    await open_pane(world, first)  # delivered again
    await open_pane(world, pane(root, viewing="C1", is_change=True))
    (greeting,) = await shown(world, DeliveryKind.POST)
    assert (greeting.channel, greeting.thread_ts, greeting.text) == ("D1", root, GREETING.format(agent="ada"))
    assert await prompts(world) == [(root, [SUGGESTED_PROMPTS[0].title])] * 2
    await open_pane(world, pane(other := next_ts()))
    assert [post.thread_ts for post in await shown(world, DeliveryKind.POST)] == [root, other]


async def test_the_messages_tab_is_greeted_once_per_person_and_outside_threads(world: World) -> None:
    for user, channel in (("U1", "D1"), ("U1", "D1"), ("U2", "D2")):
        await open_pane(world, pane(user_id=user, channel=channel))
    posts = await shown(world, DeliveryKind.POST)
    assert sorted((post.channel, post.thread_ts, post.text) for post in posts) == [
        ("D1", FLAT, GREETING_OF_NOBODY),
        ("D2", FLAT, GREETING_OF_NOBODY),
    ]
    assert len(await prompts(world)) == 3


async def test_beside_panes_the_messages_tab_shows_nothing(world: World) -> None:
    await open_pane(world, pane(next_ts()))
    await open_pane(world, pane())
    assert len(await shown(world, DeliveryKind.POST)) == 1
    assert len(await prompts(world)) == 1


@pytest.mark.parametrize(
    ("viewed", "own", "agents", "expected"),
    [
        (("of C1",), ("of D1",), ("of ada",), ["of C1"]),
        ((), ("of D1",), ("of ada",), ["of D1"]),
        ((), (), ("of ada",), ["of ada"]),
        ((), (), (), [SUGGESTED_PROMPTS[0].title]),
    ],
)
async def test_the_prompts_are_the_viewed_channels_or_the_direct_messages_or_the_agents(
    world: World, viewed: tuple[str, ...], own: tuple[str, ...], agents: tuple[str, ...], expected: list[str]
) -> None:
    await world.lead("ada")
    world.operating_policy.book.current = Policies(
        channels={"C1": ChannelPolicy(suggested_prompts=tuple(map(prompt, viewed)))},
        everywhere=ChannelPolicy(suggested_prompts=tuple(map(prompt, own)), greeting="Hello <!channel>"),
        agent_prompts={"ada": tuple(map(prompt, agents))},
    )
    await open_pane(world, pane(next_ts(), viewing="C1"))
    assert [titles for _, titles in await prompts(world)] == [expected]
    (greeting,) = await shown(world, DeliveryKind.POST)
    assert greeting.text.startswith("Hello")
    assert "<!channel>" not in greeting.text


async def test_who_may_not_use_the_swarm_sees_nothing_until_they_ask(world: World) -> None:
    closed = world.governed_by(governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U2"}))))
    await closed.lead()
    await open_pane(closed, pane(root := next_ts()))
    await closed.send()
    assert closed.slack.landed == []
    await closed.hears(said("hi", channel="D1", channel_type=ChannelType.DM, thread_ts=root))
    assert len(await shown(closed, DeliveryKind.POST)) == 1  # the refusal


async def test_a_call_that_slack_refuses_has_no_other_effect(world: World) -> None:
    lead = await world.lead()
    for _ in range(2):
        world.slack.script.append(lambda slack, delivery: DeliveryRefused(error="invalid_thread_ts"))
    root = next_ts()
    await open_pane(world, pane(root))
    await world.send()
    await world.hears(said("a question", channel="D1", channel_type=ChannelType.DM, thread_ts=root))
    await world.answers(lead, await world.only(lead), "an answer")
    assert [post.text for post in await shown(world, DeliveryKind.POST)] == ["an answer"]


@pytest.mark.both_engines
async def test_a_thread_is_named_once_after_its_first_message(world: World) -> None:
    await world.lead()
    in_pane = next_ts()
    await open_pane(world, pane(in_pane))
    for text in ("<@UBOT> when is the *next* release?", "and the one after?"):
        await world.hears(said(text, channel="D1", channel_type=ChannelType.DM, thread_ts=in_pane))
    root = await world.hears(said("a question", channel="D1", channel_type=ChannelType.DM))
    await world.hears(said("and another", channel="D1", channel_type=ChannelType.DM, thread_ts=root.ts))
    await world.says("<@UBOT> in a channel")
    titles = {(one.thread_ts, one.text) for one in await shown(world, DeliveryKind.TITLE)}
    assert titles == {(in_pane, "when is the *next* release?"), (root.ts, "a question")}
    assert len(await shown(world, DeliveryKind.TITLE)) == 2


async def test_a_flat_direct_message_has_no_title(world: World) -> None:
    flat = world.governed_by(governing(everywhere=ChannelPolicy(dm_replies=DirectReplies.FLAT)))
    await open_pane(flat, pane())
    await flat.hears(said("a question", channel="D1", channel_type=ChannelType.DM))
    assert await shown(flat, DeliveryKind.TITLE) == []


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("short", "short"),
        ("<@UBOT>  two\n lines &amp; <https://a.example/|a link>", "two lines & a link (https://a.example/)"),
        ("x" * 80, "x" * 59 + "…"),
        ("word " * 20, "word " * 11 + "word…"),
        ("my key is xoxb-1234567890-abcdefghij", title_of("my key is xoxb-1234567890-abcdefghij")),
        ("<@UBOT>", ""),
    ],
)
def test_a_title_is_one_line_cut_between_words(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title) <= 60
    assert "1234567890" not in title
