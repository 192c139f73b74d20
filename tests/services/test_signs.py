"""Work that an agent has held for a minute without a sign: a post in the thread, and `explain`."""

from __future__ import annotations

import asyncio

import pytest

from swarm.clock import SECOND
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.requests import NewRequest
from swarm.domain.model.runs import PageKind
from swarm.domain.model.threads import AuthorKind
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.services.requests.human_requests import AskedWork
from swarm.services.speaking.signs import NO_SIGN_TEXT
from swarm.services.tasks.tasks import brief
from swarm.store.runs import run_pages
from swarm.store.threads.status_lines import NO_SIGN_AFTER
from tests.support.policies import governing
from tests.support.runs import begun
from tests.support.tasks import asked_and_handed, hand
from tests.support.world import BOT, World, holding, said

pytestmark = pytest.mark.req("LOOP-22")

MINUTE = NO_SIGN_AFTER // SECOND
SAID = NO_SIGN_TEXT.format(agent="lead")


async def goes_by(world: World, agent: Agent, trigger: Trigger, seconds: float = MINUTE) -> None:
    """The agent holds its work for some time, as its renewals show."""
    for _ in range(int(seconds // 30)):
        world.clock.advance(30)
        await world.services.work.renew(agent, [trigger.lease_token])
    await world.sweep()


async def notes(world: World) -> list[str]:
    """What people read about work without a sign."""
    await world.send()
    shown = await world.rows(
        "SELECT text FROM deliveries d WHERE kind = 'post' AND substr(idempotency_key, 1, 8) = 'no_sign:' "
        "AND NOT EXISTS (SELECT 1 FROM deliveries g WHERE g.kind = 'delete' AND g.updates_id = d.id)"
    )
    return [row["text"] for row in shown]


@pytest.mark.both_engines
async def test_the_agent_is_named_once_until_it_answers(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await goes_by(world, lead, trigger, MINUTE - 30)
    assert await notes(world) == []
    await goes_by(world, lead, trigger, 30)
    second = world.governed_by(world.operating_policy)  # another coordinator, or this one after a restart
    await asyncio.gather(world.sweep(), second.sweep())
    await goes_by(second, lead, trigger)
    assert await notes(world) == [SAID]
    (entry,) = (await world.services.explanations.explain(f"C1:{root.ts}"))["entries"]
    assert entry["waits_for"] == "a first sign of the agent, for 120 seconds so far"
    await world.answers(lead, trigger, "Hello.")
    assert await notes(world) == []
    (entry,) = (await world.services.explanations.explain(f"C1:{root.ts}"))["entries"]
    assert entry["waits_for"] is None


async def named(world: World, *, hold: bool = False) -> tuple[Agent, Trigger]:
    """A lead that has been named."""
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=hold)
    await goes_by(world, lead, trigger)
    assert await notes(world) == [SAID]
    return lead, trigger


@pytest.mark.parametrize("sign", ["answer", "page", "question", "task"])
async def test_a_sign_takes_the_post_away_and_none_comes_again(world: World, sign: str) -> None:
    lead, trigger = await named(world, hold=True)
    caller, message_id = holding(trigger, lead), trigger.inbox_messages[0].id
    match sign:
        case "answer":
            await world.services.replies.reply(caller, message_id, "Let me see.")
        case "page":
            run = await begun(world, lead, trigger)
            await world.database.write(run_pages.open_page, run.id, 1, PageKind.STREAM)
        case "question":
            work = AskedWork(inbox_message_id=message_id)
            await world.services.requests.ask(caller, work, NewRequest(key="q1", title="May I?"), wait=True)
        case "task":
            await hand(world, lead, trigger, await world.worker())
    await world.sweep()
    assert await notes(world) == []
    await goes_by(world, lead, trigger)
    assert await notes(world) == []


@pytest.mark.parametrize("end", ["lost", "failed", "released", "dismissed", "stopped"])
async def test_it_goes_however_the_work_ends_and_does_not_come_again(world: World, end: str) -> None:
    lead, trigger = await named(world)
    tokens, work = [trigger.lease_token], world.services.work
    match end:
        case "lost":
            await world.later(LEASE_SECONDS)
        case "failed":
            await work.finish(lead, tokens, FinishOutcome.FAILED, "no idea")
        case "released":
            await work.release(lead, tokens, delay_seconds=0)
        case "dismissed":
            await work.finish(lead, tokens, FinishOutcome.DISMISSED, "nothing to do")
        case _:
            await world.services.agents.revoke("lead")
    assert await notes(world) == []
    await world.is_here(lead)
    await world.later(LEASE_SECONDS)
    for again in await world.poll(lead):
        await goes_by(world, lead, again)
    assert await notes(world) == []


async def test_a_worker_is_named_until_it_shows_progress(world: World) -> None:
    lead, worker = await world.lead(), await world.worker("wim")
    handed = await asked_and_handed(world, lead, worker)
    task = await world.only(worker)
    await goes_by(world, worker, task)
    assert await notes(world) == [NO_SIGN_TEXT.format(agent="wim")]
    (explained,) = (await world.services.explanations.explain(handed.task_id))["tasks"]
    assert explained["waits_for"] == "a first sign of the agent, for 60 seconds so far"
    await world.services.task_work.progress(holding(task, worker), handed.task_id, "half", 50)
    await world.sweep()
    assert await notes(world) == []


async def test_a_task_for_others_is_a_sign_also_once_it_has_ended(world: World) -> None:
    lead, worker = await world.lead(), await world.worker("wim")
    handed, other = await asked_and_handed(world, lead, worker), await world.worker("ola")
    task = await world.only(worker)
    part = await world.services.tasks.create(
        holding(task, worker), brief("a part"), agent="ola", parent_id=handed.task_id
    )
    await goes_by(world, worker, task)
    await world.services.task_work.complete(holding(await world.only(other), other), part.id, "done")
    await world.sweep()
    assert await notes(world) == []


@pytest.mark.parametrize("kind", ["silent", "bot"])
async def test_nobody_is_told_who_has_not_asked(world: World, kind: str) -> None:
    policy = ChannelPolicy(listen=Listen.ALL, overthink=kind == "silent", allowed_bots=frozenset({"B1"}))
    qa = world.governed_by(governing(channels={"C1": policy}))
    lead = await qa.lead()
    by = {"by": "B1", "kind": AuthorKind.BOT} if kind == "bot" else {}
    await qa.hears(said("Does anybody know the plan?", **by))  # type: ignore[arg-type]
    await goes_by(qa, lead, await qa.only(lead))
    assert await notes(qa) == []
