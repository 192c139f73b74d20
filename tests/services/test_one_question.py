"""One question is one request: who its requesters are, which later questions join it, and what waits for it."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Forbidden
from swarm.domain.model.requests import DecisionPolicy, HumanDecision, RequestStatus, ToolRequest
from tests.services.test_requests import Asking
from tests.support.tasks import work_of
from tests.support.world import World

D = HumanDecision
ALICE, BOB = "U1", "U2"
FOUR_EYES = DecisionPolicy(not_requester=True)
DEPLOY = ToolRequest(name="deploy", arguments={"to": "production"})


@pytest.fixture
async def asking(world: World) -> Asking:
    asking = Asking(world)
    await asking.begin()
    return asking


async def bundle(world: World) -> Asking:
    """An agent that has got a message of Alice and one of Bob in one trigger."""
    asking = Asking(world)
    await asking.begin()
    await world.answers(asking.lead, asking.trigger, "Hello.")
    await world.says("deploy it", thread=asking.root, by=ALICE)
    await world.says("yes, please", thread=asking.root, by=BOB)
    asking.trigger = await work_of(world, asking.lead)
    assert len(asking.trigger.inbox_messages) == 2
    return asking


# Requesters


@pytest.mark.req("HITL-09")
async def test_everybody_in_a_bundle_is_a_requester_whom_four_eyes_exclude(world: World) -> None:
    asking = await bundle(world)
    request = await asking.ask(policy=FOUR_EYES, tool=DEPLOY)
    assert (request.requesters, request.requester) == ((ALICE, BOB), ALICE)
    for person in (ALICE, BOB):
        with pytest.raises(Forbidden, match="somebody else has to decide"):
            await asking.decide(request, by=person)
    assert (await asking.decide(request, by="U3")).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-09")
async def test_each_requester_of_a_bundle_may_decide_by_default(world: World) -> None:
    asking = await bundle(world)
    assert (await asking.decide(await asking.ask(), by=BOB)).status is RequestStatus.APPROVED


@pytest.mark.req("HITL-09")
async def test_who_asked_for_a_tool_without_approval_asks_with_whoever_asks_next(asking: Asking, world: World) -> None:
    veto = DecisionPolicy(not_requester=True, veto=True)
    await asking.decide(await asking.ask(policy=veto, tool=DEPLOY), D.REJECT, by=BOB)
    await world.answers(asking.lead, await work_of(world, asking.lead), "Rejected.")
    await world.says("deploy it", thread=asking.root, by=BOB)
    again = await work_of(world, asking.lead)
    elsewhere = ToolRequest(name=" Deploy", arguments={"to": "staging"})
    request = await asking.ask(again, key="q2", policy=FOUR_EYES, tool=elsewhere)
    assert request.requesters == (BOB, ALICE)
    other = await asking.ask(again, key="q3", policy=FOUR_EYES, tool=ToolRequest(name="read"))
    assert other.requesters == (BOB,)
    with pytest.raises(Forbidden):
        await asking.decide(request, by=ALICE)
