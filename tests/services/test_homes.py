"""The Home tab: what it shows, and when it is published."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from swarm.domain.commands import HomeContent, HomeOpened, WorkState
from swarm.domain.model.requests import DecisionPolicy
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.slack_check import NOT_LOOKED
from swarm.services.intake.homes import MOST_WATCHED, PACE_SECONDS, RECHECK_SECONDS, WATCHED_SECONDS, HomeTabs
from swarm.services.tasks.tasks import brief
from tests.services.test_requests import Asking
from tests.support.policies import governing
from tests.support.world import BOT, ME, World, holding

pytestmark = pytest.mark.req("CHAN-08")


@dataclass
class Tabs:
    """The Home tabs over a world, the tabs that Slack has got, and a clock that the test moves."""

    world: World
    accepts: bool = True
    published: list[tuple[str, HomeContent]] = field(default_factory=list)
    seconds: float = 1_000.0

    def __post_init__(self) -> None:
        world = self.world
        self.homes = HomeTabs(
            world.database,
            self,
            ME,
            world.operating_policy,
            world.standings,
            world.slack,
            monotonic=lambda: self.seconds,
        )

    async def publish_home(self, user_id: str, content: HomeContent) -> bool:
        self.published.append((user_id, content))
        return self.accepts

    async def open(self, person: str = "U1") -> None:
        """A person opens the tab, and a round follows."""
        self.homes.opened(HomeOpened(user_id=person, channel=f"D{person}"))
        await self.homes.refresh()

    async def round(self, seconds: float = PACE_SECONDS) -> list[tuple[str, HomeContent]]:
        """Let time pass, and look what a round publishes."""
        self.seconds += seconds
        before = len(self.published)
        await self.homes.refresh()
        return self.published[before:]

    @property
    def last(self) -> HomeContent:
        return self.published[-1][1]


async def ask(world: World, policy: DecisionPolicy) -> None:
    """The lead asks about a message of U1."""
    asking = Asking(world)
    await asking.begin()
    await asking.ask(policy=policy)


async def delegated(world: World) -> Trigger:
    """A task of a worker for U1, which the worker has begun."""
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    run = holding(trigger, lead)
    await world.services.delegations.delegate(run, trigger.inbox_messages[0].id, "worker", brief("Count."))
    return await world.only(worker)


async def test_an_opened_tab_shows_the_agents_and_that_nothing_is_open(world: World) -> None:
    await world.lead()
    tabs = Tabs(world)
    await tabs.open()
    ((person, content),) = tabs.published
    assert (person, content.refused, content.work, content.decisions) == ("U1", "", (), ())
    assert [agent.name for agent in content.agents] == ["lead"]


@pytest.mark.both_engines
async def test_the_persons_own_work_is_followed_until_it_is_done(world: World) -> None:
    lead = await world.lead()
    tabs = Tabs(world)
    await tabs.open()
    await tabs.open("U2")
    message = await world.says(f"{BOT} hello")
    ((person, waiting),) = await tabs.round()
    assert person == "U1"
    assert [(work.title, work.state, work.agent) for work in waiting.work] == [("hello", WorkState.QUEUED, "lead")]
    assert waiting.work[0].link == ME.link("C1", message.ts)
    trigger = await world.only(lead)
    ((_, claimed),) = await tabs.round()
    assert [work.state for work in claimed.work] == [WorkState.RUNNING]
    await world.answers(lead, trigger, "hi")
    ((_, answered),) = await tabs.round()
    assert answered.work == ()


async def test_a_task_is_the_work_of_who_asked_for_it(world: World) -> None:
    await delegated(world)
    tabs = Tabs(world)
    await tabs.open()
    assert [(work.title, work.state, work.agent) for work in tabs.last.work] == [
        ("Count.", WorkState.RUNNING, "worker")
    ]
    await tabs.open("U2")
    assert tabs.last.work == ()


@pytest.mark.req("CHAN-02")
async def test_what_nobody_has_asked_for_is_not_shown(world: World) -> None:
    policy = governing(channels={"C1": ChannelPolicy(listen=Listen.ALL, overthink=True)})
    tabs = Tabs(world := world.governed_by(policy))
    lead = await world.lead()
    root = await world.says("How do I get a token?")
    await tabs.open()
    assert tabs.last.work == ()
    await world.only(lead)
    tabs.seconds += RECHECK_SECONDS
    await tabs.open()
    assert tabs.last.work == ()
    await world.says(f"{BOT} please", thread=root)
    ((_, content),) = await tabs.round()
    assert [(work.title, work.state) for work in content.work] == [("please", WorkState.QUEUED)]


@pytest.mark.both_engines
@pytest.mark.req("HITL-01")
async def test_a_request_is_shown_to_who_may_decide_and_the_work_to_who_asked(world: World) -> None:
    await ask(world, DecisionPolicy(users=("U2",), groups=("S1",)))
    world.slack.groups["S1"] = frozenset({"U3"})
    tabs = Tabs(world)
    await tabs.open()
    assert ([work.state for work in tabs.last.work], tabs.last.decisions) == ([WorkState.ASKING], ())
    for person in ("U2", "U3"):
        await tabs.open(person)
        (wanted,) = tabs.last.decisions
        assert (wanted.agent, tabs.last.work) == ("lead", ())
        assert wanted.link.startswith("https://team.slack.example/archives/C1/p")


async def test_who_has_decided_is_not_asked_again(world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    request = await asking.ask(policy=DecisionPolicy(users=("U2", "U3"), need=2))
    await asking.decide(request, by="U2")
    tabs = Tabs(world)
    await tabs.open("U2")
    assert tabs.last.decisions == ()
    await tabs.open("U3")
    assert len(tabs.last.decisions) == 1


async def test_a_request_that_names_nobody_is_shown_to_nobody(world: World) -> None:
    await ask(world, DecisionPolicy(not_requester=True))
    tabs = Tabs(world)
    await tabs.open("U2")
    assert tabs.last.decisions == ()


async def test_a_tab_is_published_again_only_for_changes_and_not_faster_than_the_pace(world: World) -> None:
    lead = await world.lead()
    tabs = Tabs(world)
    await tabs.open()
    assert await tabs.round() == []
    assert await tabs.round(RECHECK_SECONDS) == []
    await world.says("swarm#lead from somebody else", by="U2")
    assert await tabs.round() == []
    await world.says(f"{BOT} one")
    assert len(await tabs.round()) == 1
    await world.poll(lead)
    assert await tabs.round(PACE_SECONDS - 0.1) == []
    assert len(await tabs.round(0.2)) == 1


async def test_opening_it_ten_times_publishes_it_twice(world: World) -> None:
    tabs = Tabs(world)
    for _ in range(10):
        await tabs.open()
    await tabs.round()
    await tabs.round()
    assert len(tabs.published) == 2


async def test_after_ten_minutes_nobody_looks_any_more(world: World) -> None:
    await world.lead()
    tabs = Tabs(world)
    await tabs.open()
    await world.says(f"{BOT} one")
    assert await tabs.round(WATCHED_SECONDS) == []


async def test_when_slack_does_not_accept_it_it_is_published_with_the_next_round(world: World) -> None:
    tabs = Tabs(world, accepts=False)
    await tabs.open()
    assert len(await tabs.round()) == 1
    tabs.accepts = True
    assert len(await tabs.round()) == 1
    assert await tabs.round() == []


@pytest.mark.req("CHAN-09")
async def test_who_may_not_use_the_swarm_sees_a_refusal_and_nothing_else(world: World) -> None:
    await delegated(world)
    only_u2 = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U2"})))
    tabs = Tabs(world.governed_by(only_u2))
    await tabs.open()
    assert tabs.last.refused.startswith("You may not do that here")
    assert (tabs.last.work, tabs.last.agents) == ((), ())


async def test_the_number_of_watched_people_is_bounded(world: World) -> None:
    tabs = Tabs(world)
    for number in range(MOST_WATCHED + 5):
        tabs.homes.opened(HomeOpened(user_id=f"U{number}", channel="D1"))
    assert len(tabs.homes._tabs) == MOST_WATCHED
    assert "U4" not in tabs.homes._tabs


@pytest.mark.req("OPS-17")
async def test_operators_see_mistakes_in_the_settings_and_when_they_are_gone(world: World) -> None:
    world.slack.groups["S1"] = frozenset({"U2"})
    policy = OperatingPolicy()
    policy.book.current = replace(policy.book.current, operators=DecisionPolicy(users=("U1",), groups=("S1",)))
    tabs = Tabs(world.governed_by(policy))
    for person in ("U1", "U2", "U3"):
        await tabs.open(person)
    assert [content.mistakes for _, content in tabs.published] == [(NOT_LOOKED,), (NOT_LOOKED,), ()]
    policy.book.findings = ()
    assert [(person, content.mistakes) for person, content in await tabs.round(RECHECK_SECONDS)] == [
        ("U1", ()),
        ("U2", ()),
    ]
