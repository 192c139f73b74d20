"""A reload: what it changes at once, what it leaves to a restart, and what it does not let happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from threading import Event

import pytest

from swarm.app import settings_mapping
from swarm.app.reload import Reloader
from swarm.config import Settings, load
from swarm.domain.errors import ConfigurationError, Invalid
from swarm.domain.model.threads import ChannelType
from swarm.domain.policy.channels import SuggestedPrompt
from swarm.services.intake.ingest import Ingest
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.speaking.participants import Rosters
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS, ME, World, said

pytestmark = [pytest.mark.both_engines, pytest.mark.req("CHAN-01")]

LISTENING = "channels: {C123: {agent: %s, listen: all}}"


class Operator:
    """A coordinator with a swarm.yaml, and who edits it."""

    def __init__(self, world: World, folder: Path) -> None:
        self._folder = folder
        self.written("")
        settings = self.read()
        self.world = world.governed_by(settings_mapping.operating_policy(settings))
        self.book = self.world.operating_policy.book
        self.rosters = Rosters(world.database, self.world.operating_policy)  # which keeps what it has read for a second
        self.reloader = Reloader(settings, self.book, self.rosters, read=self.read)
        self.ingest = Ingest(
            world.database, self.rosters, ME, self.world.operating_policy, self.world.standings, world.slack
        )

    def written(self, yaml: str) -> None:
        (self._folder / "swarm.yaml").write_text(yaml, encoding="utf-8")

    def read(self) -> Settings:
        return load({}, folder=self._folder, user_home=self._folder / "nobody")

    async def reloads(self, yaml: str) -> tuple[str, ...]:
        """The operator writes settings and has them read; what has changed."""
        self.written(yaml)
        return (await self.reloader.reload()).changed

    async def gets(self, text: str, channel: str = "C123") -> str:
        """The name of the agent that gets a message."""
        kind = ChannelType.DM if channel.startswith("D") else ChannelType.CHANNEL
        message = said(text, channel=channel, channel_type=kind)
        await self.ingest.handle(message)
        inbox_message = await self.world.inbox_message(message)
        agent = (await self.rosters.current()).by_id(inbox_message.agent_id)
        assert agent is not None
        return agent.name


@pytest.fixture
async def operator(world: World, tmp_path: Path) -> Operator:
    """Of a coordinator with three agents, the oldest of which is the default lead."""
    await world.lead()
    await world.lead("other")
    await world.worker("helper")
    return Operator(world, tmp_path)


async def test_a_reload_between_two_messages_changes_who_gets_the_second(operator: Operator) -> None:
    await operator.reloads(LISTENING % "helper")
    assert await operator.gets("one") == "helper"
    assert await operator.reloads(LISTENING % "other") == ("channels.C123.agent",)
    assert await operator.gets("two") == "other"


async def test_messages_during_reloads_are_each_routed_by_one_of_the_two_settings(operator: Operator) -> None:
    await operator.reloads(LISTENING % "helper")
    got: set[str] = set()

    async def reload_until_both_were_seen() -> None:
        for name in cycle(("other", "helper")):
            await operator.reloads(LISTENING % name)
            if len(got) == 2:
                return

    reloading = asyncio.create_task(reload_until_both_were_seen())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not reloading.done():
            got.add(await operator.gets("hello"))
    await reloading
    assert got == {"helper", "other"}


async def test_the_default_lead_and_the_agent_for_direct_messages_change_at_once(operator: Operator) -> None:
    assert (await operator.gets(f"{BOT} one"), await operator.gets("psst", "D1")) == ("lead", "lead")
    assert await operator.reloads("agents: {default: other, dm: helper}") == ("agents.default", "agents.dm")
    assert (await operator.gets(f"{BOT} two"), await operator.gets("psst", "D1")) == ("other", "helper")
    assert await operator.gets(f"{BOT} psst", "D1") == "helper"


async def test_an_agent_for_direct_messages_that_does_not_exist_leaves_them_to_the_default_lead(
    operator: Operator,
) -> None:
    await operator.reloads("agents: {dm: nobody}")
    message = said("psst", channel="D1", channel_type=ChannelType.DM)
    await operator.ingest.handle(message)
    told = await operator.world.services.explanations.explain(f"D1:{message.ts}")
    assert "'nobody', the agent for direct messages, does not exist" in (told["routing"][0]["reason"] or "")


async def test_direct_messages_and_the_prompts_of_agents_change_at_once(operator: Operator) -> None:
    remote = "agents: {remote: {ada: {url: 'http://a.example', suggested_prompts: [{title: Hi, message: %s}]}}}\n"
    operator.written(remote % "hello")
    await operator.reloader.reload()
    changed = await operator.reloads(remote % "goodbye" + "channel_defaults: {dm_replies: flat}")
    assert changed == ("agents.remote.ada.suggested_prompts", "channel_defaults.dm_replies")
    assert operator.book.current.agent_prompts == {"ada": (SuggestedPrompt(title="Hi", message="goodbye"),)}
    assert operator.world.operating_policy.is_flat("D1")
    assert not operator.world.operating_policy.is_flat("C1")


async def test_reactions_change_for_those_who_were_handed_them_at_the_start(operator: Operator) -> None:
    world = operator.world
    sender = OutboxSender(
        world.database,
        world.slack,
        ME.team,
        http_timeout_seconds=HTTP_TIMEOUT_SECONDS,
        operating_policy=world.operating_policy,
    )
    await operator.reloads("reactions: {stored: null, answered: tada, failed: boom}")
    lead = next(agent.agent for agent in await world.services.agents.present() if agent.agent.name == "lead")
    message = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hi")
    await sender.send_due()
    assert world.slack.reactions == [(message.ts, "tada")]
    assert world.operating_policy.reactions.failed == "boom"


async def test_what_cannot_be_used_changes_nothing_and_is_named(operator: Operator) -> None:
    await operator.reloads(LISTENING % "helper")
    in_force = operator.book.current
    with pytest.raises(Invalid) as refused:
        await operator.reloads(LISTENING % "other" + "\nreactions: [eyes]")
    assert refused.value.fields == {"reactions": "a mapping is expected"}
    with pytest.raises(Invalid, match="line 1"):
        await operator.reloads("channels: {")
    assert operator.book.current is in_force
    assert await operator.gets("hello") == "helper"


@pytest.mark.req("CHAN-04")
async def test_a_template_is_read_anew_and_a_broken_one_is_refused(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "alert.txt"
    yaml = "channels: {C123: {listen: alerts, alerts: {template_file: alert.txt}}}"
    for template in ("one {alert_text}", "two {alert_text}"):
        file.write_text(template, encoding="utf-8")
        assert "channels.C123" in (await operator.reloads(yaml))[0]
        assert operator.book.current.of("C123").alerts.template == template
    for broken, key in (("{nope}", "template"), ("", "template_file")):
        file.write_text(broken, encoding="utf-8")
        with pytest.raises(Invalid) as refused:
            await operator.reloads(yaml)
        assert list(refused.value.fields) == [f"channels.C123.alerts.{key}"]
        assert operator.book.current.of("C123").alerts.template == "two {alert_text}"


async def test_an_agent_that_is_named_by_a_new_id_needs_a_restart(operator: Operator) -> None:
    service = "agents: {remote: {caipe: {url: 'http://a', dialect: caipe, agent_id: a-1}}}\n"
    operator.written(service + "channels: {C123: {agent_id: a-2}}")
    done = await operator.reloader.reload()
    assert done.needs_restart == ("agents.remote.caipe", "channels.C123.agent_id")
    assert done.doubts == (
        "There is no agent 'a-2', which channels.C123.agent_id names. "
        "Until the agent exists, the default lead answers.",
    )
    assert operator.reloader.warnings("a-2") == (
        "channels.C123.agent_id declares this agent, which will be registered again at the next reload or start unless "
        "you remove channels.C123.agent_id.",
    )


async def test_what_needs_a_restart_is_listed_until_there_is_one(operator: Operator) -> None:
    operator.written("http: {port: 1}\nagents: {offline_after_seconds: 5, remote: {a: {url: 'http://a'}}}")
    for _ in range(2):
        done = await operator.reloader.reload()
        assert done.changed == ()
        assert done.needs_restart == ("http.port", "agents.offline_after_seconds", "agents.remote.a")
    assert operator.world.operating_policy.offline_after_seconds == 120


async def test_a_name_that_no_agent_has_is_told_of(operator: Operator) -> None:
    operator.written(
        "channel_defaults: {agent: helper}\nagents: {default: nobody, remote: {a: {url: 'http://a'}}}\n"
        "channels: {C111: {agent: ghost}, C222: {agent: null}, C333: {enabled: false, agent: null}, C123: {}}"
    )
    doubts = (await operator.reloader.reload()).doubts
    assert doubts == (
        "The channel C222 names no agent; the default lead answers.",
        "There is no agent 'nobody', which agents.default names. Until the agent exists, the default lead answers.",
        "There is no agent 'ghost', which channels.C111.agent names. Until the agent exists, the default lead answers.",
    )


@pytest.mark.parametrize(
    "agents",
    ["agents: {remote: {a: {url: 'http://a'}}}", "model: {name: gpt}\nagents: {builtin: {a: {kind: assistant}}}"],
    ids=["remote", "built in"],
)
async def test_an_agent_that_the_settings_run_exists_before_it_is_registered(
    world: World, tmp_path: Path, agents: str
) -> None:
    await world.lead()
    operator = Operator(world, tmp_path)
    operator.written(f"{agents}\nchannels: {{C123: {{agent: a}}}}")
    started = Reloader(operator.read(), operator.book, operator.rosters, read=operator.read)
    assert await started.doubts() == ()
    assert len(await operator.reloader.doubts()) == 0, "its settings name nobody"


async def test_of_two_reloads_at_once_the_one_that_read_last_holds(operator: Operator) -> None:
    reads = iter(("slow", "quick"))
    slow_reads, go_on = Event(), Event()

    def read() -> Settings:
        settings = operator.read()
        if next(reads) == "slow":
            slow_reads.set()
            go_on.wait(PATIENCE_SECONDS)
        return settings

    reloader = Reloader(operator.read(), operator.book, operator.rosters, read=read)
    operator.written("agents: {default: other}")
    slow = asyncio.create_task(reloader.reload())
    await asyncio.to_thread(slow_reads.wait, PATIENCE_SECONDS)
    operator.written("agents: {default: helper}")
    quick = asyncio.create_task(reloader.reload())
    await asyncio.wait((quick,), timeout=0.2)  # as much as it needs, if it did not wait for the other
    go_on.set()
    await asyncio.gather(slow, quick)
    assert operator.book.current.default_agent == "helper"


async def test_a_signal_reloads_and_a_mistake_does_not_end_the_process(operator: Operator) -> None:
    heard = asyncio.Event()
    obeying = asyncio.create_task(operator.reloader.obey(heard))

    async def default() -> str | None:
        return operator.book.current.default_agent

    async def obeyed() -> bool:
        return not heard.is_set()

    operator.written("agents: [")
    heard.set()
    await wait_until(obeyed, bool)
    operator.written("agents: {default: other}")
    heard.set()
    await wait_until(default, lambda name: name == "other")
    obeying.cancel()


async def test_an_unforeseen_error_does_not_end_the_process_either(operator: Operator) -> None:
    """The folder that a coordinator was started in may be gone."""
    read: list[Callable[[], Settings]] = [operator.read]

    def fails() -> Settings:
        raise FileNotFoundError

    read.append(fails)
    reloader = Reloader(operator.read(), operator.book, operator.rosters, read=lambda: read.pop()())
    heard = asyncio.Event()
    obeying = asyncio.create_task(reloader.obey(heard))
    operator.written("agents: {default: other}")

    async def left() -> int:
        return len(read)

    heard.set()
    await wait_until(left, lambda count: count == 1)
    heard.set()
    await wait_until(left, lambda count: count == 0)
    assert not obeying.done()
    obeying.cancel()


@pytest.mark.req("OPS-15")
async def test_other_tokens_are_used_once_slack_accepts_them_and_refused_otherwise(
    world: World, tmp_path: Path
) -> None:
    operator = Operator(world, tmp_path)
    used: list[tuple[str | None, str | None]] = []

    async def use(bot_token: str | None, app_token: str | None) -> None:
        if bot_token == "xoxb-of-another-team":
            raise ConfigurationError("another team")
        used.append((bot_token, app_token))

    first = "slack: {bot_token: xoxb-first-token, app_token: xapp-first-token}"
    operator.written(first)
    operator.reloader = Reloader(
        operator.read(), operator.book, operator.rosters, read=operator.read, use_tokens=use,
        overruled=lambda: ("SLACK_BOT_TOKEN",),
    )  # fmt: skip
    assert await operator.reloads(first) == ()
    assert await operator.reloads(first.replace("xoxb-first", "xoxb-second")) == ("slack.bot_token",)
    assert used == [("xoxb-second-token", None)]
    with pytest.raises(Invalid, match="another team"):
        await operator.reloads(first.replace("xoxb-first-token", "xoxb-of-another-team"))
    operator.written(first.replace("xapp-first", "xapp-second"))
    reloaded = await operator.reloader.reload()
    assert (reloaded.needs_restart, used[1:]) == ((), [("xoxb-first-token", "xapp-second-token")])
    assert "restart" in reloaded.doubts[-1]
