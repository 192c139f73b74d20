"""While Slack refuses the token nothing is sent but one question whether it is good; other refusals hold less."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from slack_twin.faults import FaultKind

from swarm.domain.answers.calls import AnswerTarget, Slot
from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.domain.model.deliveries import TOKEN_CODES, DeliveryAccepted, DeliveryKind, DeliveryRefused, NotSent
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.workspace import Workspace, delivery

pytestmark = pytest.mark.req("OPS-15")

PROBE_SECONDS = 0.2


PLACE = AnswerTarget(
    team="T0TWIN", channel="C0GENERAL", thread_ts="1700000000.000100", is_direct=False, requester=None,
    agent_name="lead", run_id="run",
)  # fmt: skip


def refuse(workspace: Workspace, code: str, method: str | None = None) -> None:
    workspace.twin.faults.plan(FaultKind.ERROR, method=method, error=code, times=1_000_000)


async def started(workspace: Workspace) -> Gateway:
    gateway = workspace.gateway(probe_seconds=PROBE_SECONDS)
    await gateway.identify()
    return gateway


@pytest.mark.parametrize("code", sorted(TOKEN_CODES))
async def test_a_refused_token_holds_every_call_until_slack_accepts_it(workspace: Workspace, code: str) -> None:
    gateway = await started(workspace)
    refuse(workspace, code)
    assert isinstance(await gateway.deliver(delivery(DeliveryKind.POST)), NotSent)
    before = len(await workspace.all_calls())
    for kind in (
        DeliveryKind.POST,
        DeliveryKind.UPDATE,
        DeliveryKind.DELETE,
        DeliveryKind.REACTION,
        DeliveryKind.TITLE,
    ):
        assert await gateway.deliver(delivery(kind)) == NotSent(reason=code, retry_after_seconds=1.0), kind
    with pytest.raises(Unavailable, match=code):
        await gateway.channel("C0GENERAL")
    await gateway.whisper("C0GENERAL", "U1", "hi")
    assert not await gateway.streams.status(PLACE, "thinks")
    turn = asyncio.create_task(gateway.ready(delivery(DeliveryKind.POST)))
    slot = asyncio.create_task(gateway.streams.acquire_slot(Slot.APPEND, "C0GENERAL"))
    await asyncio.sleep(2.5 * PROBE_SECONDS)
    calls = (await workspace.all_calls())[before:]
    assert {call["method"] for call in calls} == {"auth.test"}
    assert len(calls) in (1, 2, 3)
    assert not any(task.done() for task in (turn, slot))
    assert gateway.troubles[0].code == code
    workspace.twin.faults.clear()
    async with asyncio.timeout(10):
        await asyncio.gather(turn, slot)
    assert gateway.troubles == ()
    assert isinstance(await gateway.deliver(delivery(DeliveryKind.POST)), DeliveryAccepted)
    await gateway.close()


async def test_an_answer_from_another_token_says_nothing_about_ours(workspace: Workspace) -> None:
    gateway = await started(workspace)
    refuse(workspace, "invalid_auth", "apps.connections.open")
    with pytest.raises(ConfigurationError):
        await gateway.socket_url("xapp-wrong")
    assert gateway.refused_by is None
    await gateway.close()


async def test_a_token_that_is_refused_at_the_start_is_said_at_once(workspace: Workspace) -> None:
    gateway = workspace.gateway(token="xoxb-wrong")
    with pytest.raises(ConfigurationError, match="invalid_auth"):
        await gateway.identify()
    await gateway.close()


async def test_another_token_of_the_same_app_ends_the_hold(workspace: Workspace) -> None:
    gateway = await started(workspace)
    refuse(workspace, "token_revoked")
    await gateway.deliver(delivery(DeliveryKind.POST))
    workspace.twin.faults.clear()
    with pytest.raises(ConfigurationError, match="invalid_auth"):
        await gateway.check_token("xoxb-wrong")
    assert gateway.refused_by
    workspace.twin.workspace.directory.put_app(replace(workspace.app, bot_token="xoxb-new"))
    await gateway.check_token("xoxb-new")
    gateway.use_token("xoxb-new")
    assert isinstance(await gateway.deliver(delivery(DeliveryKind.POST)), DeliveryAccepted)
    await gateway.close()


@pytest.mark.parametrize(("method", "is_fatal"), [("chat.postMessage", True), ("reactions.add", False)])
async def test_a_missing_scope_is_a_trouble_until_the_method_works(
    workspace: Workspace, method: str, is_fatal: bool
) -> None:
    gateway = await started(workspace)
    refuse(workspace, "missing_scope", method)
    kind = DeliveryKind.POST if is_fatal else DeliveryKind.REACTION
    assert await gateway.deliver(delivery(kind)) == DeliveryRefused(error="missing_scope")
    (trouble,) = gateway.troubles
    assert (trouble.is_fatal, method in trouble.message) == (is_fatal, True)
    await gateway.close()


@pytest.mark.parametrize("code", ["team_access_not_granted", "ekm_access_denied"])
async def test_access_to_a_channel_is_a_trouble_of_that_channel_only(workspace: Workspace, code: str) -> None:
    gateway = await started(workspace)
    refuse(workspace, code, "chat.postMessage")
    post = delivery(DeliveryKind.POST)
    assert await gateway.deliver(post) == DeliveryRefused(error=code)
    (trouble,) = gateway.troubles
    assert (trouble.is_fatal, post.channel in trouble.message) == (False, True)
    workspace.twin.faults.clear()
    await gateway.deliver(post)
    assert gateway.troubles == ()
    await gateway.close()
