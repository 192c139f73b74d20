"""Lists of people through the real doors: the twin's user groups and e-mail addresses, Socket Mode, presses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.policy.access import AgentAccess
from swarm.domain.policy.channels import ChannelPolicy, PeopleLists
from swarm.domain.requests.button_actions import STOP_TASK_ACTION
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.tasks import brief
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.names import MEMBERS_FRESH_SECONDS, Names
from swarm.store.bridge.database import Database
from tests.contract.slack.test_door import eventually
from tests.contract.slack.test_strangers import Desk
from tests.contract.slack.workspace import Workspace
from tests.support.policies import governing

pytestmark = pytest.mark.req("CHAN-09")

OPS = "S00000OPS"
GENERAL = "C0GENERAL"
PROD = governing(
    agent_access={"prod": AgentAccess(name="prod", people=PeopleLists(groups=frozenset({OPS})))},
    everywhere=ChannelPolicy(),
)


class Office(Desk):
    """A desk with a clock for what is known of people, and with an agent that only some may use."""

    now = 0.0

    def __init__(self, database: Database, gateway: Gateway, workspace: Workspace) -> None:
        self.names = Names(gateway, monotonic=lambda: self.now)
        super().__init__(database, gateway, self.names, workspace)

    async def prod(self) -> Agent:
        agent = (await self.services.agents.register("prod", Role.WORKER)).agent
        await self.work_of(agent)  # a sign of life
        return agent

    async def work_of(self, agent: Agent) -> list[Any]:
        return await self.services.polls.poll(agent, wait_seconds=0, limit=20)

    async def heard(self, workspace: Workspace, text: str, *, user: str = "bob", **more: str) -> str:
        """What becomes of a message in #general."""
        return await self.decided(GENERAL, await workspace.say(text, user=user, **more))


@pytest.fixture
async def office(gateway: Gateway, workspace: Workspace, sqlite_url: str) -> AsyncIterator[Office]:
    await workspace.seed(user_groups=[{"handle": "ops", "members": ["alice"]}])
    async with Database(sqlite_url) as database:
        office = Office(database, gateway, workspace)
        yield office
        await office.door.close()
        await office.names.close()


async def test_who_joins_or_leaves_a_user_group_is_heard_or_refused_within_a_minute(
    office: Office, workspace: Workspace
) -> None:
    await office.open(governing(channels={GENERAL: ChannelPolicy(allowed_groups=frozenset({OPS}))}))
    assert "mentions the bot" in await office.heard(workspace, "@swarm hello", user="alice")
    assert "not on the list of allowed user groups" in await office.heard(workspace, "@swarm hello")
    await workspace.seed(user_groups=[{"handle": "ops", "members": ["bob"]}])
    office.now += MEMBERS_FRESH_SECONDS
    assert "mentions the bot" in await office.heard(workspace, "@swarm hello")
    assert (await office.heard(workspace, "@swarm hello", user="alice")).startswith("route.not_allowed")
    assert MEMBERS_FRESH_SECONDS <= 60
    assert len(await workspace.calls("usergroups.users.list")) == 2
    told = await office.told()
    assert sorted(call["user"] for call in told) == ["U00000BOB", "U000ALICE"]
    assert told[0]["text"] == ("You cannot use me in this channel; my operator can change that.")


async def test_people_are_allowed_by_the_domain_of_their_address_and_a_missing_scope_is_named(
    office: Office, workspace: Workspace
) -> None:
    await workspace.seed(users=[{"name": "mallory", "email": "mallory@evil.test"}])
    policy = ChannelPolicy(allowed_domains=frozenset({"twin.test"}))
    await office.open(governing(channels={GENERAL: policy}))
    assert "mentions the bot" in await office.heard(workspace, "@swarm hello")
    assert (await office.heard(workspace, "@swarm hello", user="mallory")).startswith("route.not_allowed")
    assert await workspace.calls("usergroups.users.list") == []
    app = workspace.app
    scopes = sorted(app.scopes - {"users:read.email"})
    await workspace.seed(apps=[{"name": app.name, "bot_token": app.bot_token, "app_token": app.app_token,
                                "signing_secret": app.signing_secret, "scopes": scopes}])  # fmt: skip
    assert "scope users:read.email" in await office.heard(workspace, "@swarm hello", user="carol")
    assert office._gateway.scopes == frozenset(scopes)


async def test_an_agent_is_reached_only_by_its_people_by_name_mention_message_and_thread(
    office: Office, workspace: Workspace
) -> None:
    await office.open(governing(agent_access=PROD.agent_access, everywhere=ChannelPolicy(agent="prod")))
    prod = await office.prod()
    root = await workspace.say("swarm#prod restart it", user="alice")
    assert "swarm#prod" in await office.decided(GENERAL, root)
    assert "not on prod's list" in await office.heard(workspace, "swarm#prod me too")
    assert "not on prod's list" in await office.heard(workspace, "@swarm me too")
    assert "not on prod's list" in await office.heard(workspace, "@swarm and me", thread_ts=root)
    aside = await workspace.say("I would not do that", user="bob", thread_ts=root)
    assert (await office.decided(GENERAL, aside)).startswith("route.not_allowed")
    direct = await workspace._post("messages", {"user": "bob", "channel": "@swarm", "text": "psst"})
    assert "not on prod's list" in await office.decided(direct["channel"], direct["ts"])
    (trigger,) = await office.work_of(prod)
    assert [one.text for one in trigger.inbox_messages] == ["swarm#prod restart it"]
    (told,) = await office.told()
    assert (told["user"], told["text"]) == (
        "U00000BOB",
        "You cannot use prod; my operator can change that.",
    )
    assert await workspace.calls("chat.postMessage") == []


async def test_a_click_on_an_agents_task_takes_the_right_to_use_the_agent(office: Office, workspace: Workspace) -> None:
    await office.open(PROD)
    await office.prod()
    await office.decided(GENERAL, await workspace.say("@swarm restart it", user="alice"))
    (trigger,) = await office.triggers()
    caller = Caller(agent=office.lead, lease_token=trigger.lease_token)
    made = await office.services.delegations.delegate(caller, trigger.inbox_messages[0].id, "prod", brief("Restart."))
    blocks = [{"type": "actions", "elements": [
        {"type": "button", "action_id": STOP_TASK_ACTION, "value": made["task_id"],
         "text": {"type": "plain_text", "text": "Stop"}},
    ]}]  # fmt: skip
    posted = await office._gateway.client.chat_postMessage(channel=GENERAL, text="half of it", blocks=blocks)
    for _ in range(2):
        await workspace.press(posted["ts"], STOP_TASK_ACTION, user="bob")

    async def refused() -> Any:
        explained = await office.services.explanations.explain(made["task_id"])
        return await workspace.ephemerals() and explained["tasks"][0]["status"] != TaskStatus.CANCELLED

    assert await eventually(refused)
    await workspace.press(posted["ts"], STOP_TASK_ACTION, user="alice")

    async def stopped() -> bool:
        return (await office.services.tasks.get(None, made["task_id"])).status is TaskStatus.CANCELLED

    assert await eventually(stopped)
    told = await workspace.ephemerals()
    assert [(one["user"], "cannot use prod" in one["text"]) for one in told] == [("U00000BOB", True)] * 2


@pytest.mark.parametrize("fault", ["http_500", "http_429"])
async def test_while_slack_does_not_show_the_group_nothing_is_lost_and_nobody_is_told_anything(
    office: Office, workspace: Workspace, fault: str
) -> None:
    await office.open(governing(channels={GENERAL: ChannelPolicy(allowed_groups=frozenset({OPS}))}), wait_seconds=0.2)
    about = {"seconds": 1, "times": 2} if fault == "http_429" else {"times": 2}
    await workspace.fault(fault, method="usergroups.users.list", **about)
    mine, theirs = await workspace.say("@swarm hello", user="alice"), await workspace.say("@swarm hi", user="bob")
    for ts in (mine, theirs):
        assert "waits until Slack says whether its author is on a list" in await office.decided(GENERAL, ts)
    assert await office.triggers() == []
    assert await office.told() == []

    async def routed() -> list[Any]:
        await office.verifier.verify_due()
        return await office.triggers()

    (trigger,) = await eventually(routed)
    assert [one.ts for one in trigger.inbox_messages] == [mine]

    async def told() -> list[dict[str, Any]]:
        await office.verifier.verify_due()
        return await office.told()

    (refusal,) = await eventually(told)
    assert refusal["user"] == "U00000BOB"
    assert await office.triggers() == []
