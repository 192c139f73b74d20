"""Runs of built-in agents and budgets: their usage counts, and a new run waits for people, or does not start."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from packages.swarm_agents.tests.agents.builtin.making import assistant, remembering
from packages.swarm_agents.tests.agents.builtin.scripted import Scripted as ScriptedModel
from swarm.domain.model.agents import Reach
from swarm.domain.model.budgets import BudgetScope, BudgetUnit
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.requests import HumanDecision
from swarm.domain.model.runs import RunStatus
from swarm.domain.policy.budgets import Budget, Budgets
from swarm.store.builtin import budget_raises, model_usage
from tests.services.test_live_questions import decide, open_requests
from tests.support.live import Scripted, Show, hired, playing, says
from tests.support.streams import begun
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("RUN-06")


def limit(world: World, **budgets: Any) -> None:
    book = world.operating_policy.book
    book.current = replace(book.current, budgets=Budgets(**budgets))


async def used(world: World, scope: BudgetScope, of: str) -> int:
    return (await world.database.read(model_usage.used, scope, of))[0]


@asynccontextmanager
async def helping(world: World, *replies: Any) -> AsyncIterator[tuple[Show, ScriptedModel]]:
    """A built-in assistant in a process in office."""
    model = ScriptedModel(*replies)
    agent = assistant(model.model, remembering(world.database, "helper"), runs=world.services.model_usage)
    async with playing(world, hired("helper", agent, reach=Reach.BUILTIN)) as show:
        yield show, model
    await agent.aclose()


async def test_a_run_in_slack_counts_for_its_thread_and_shows_its_usage(world: World) -> None:
    async with helping(world, "Hello.") as (show, _):
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        assert run.thread_id
        tokens = await used(world, BudgetScope.THREAD, run.thread_id)
        assert tokens > 0
        for scope, of in ((BudgetScope.RUN, run.id), (BudgetScope.AGENT, "helper"), (BudgetScope.DAY, "")):
            assert await used(world, scope, of) == tokens
        (shown,) = show.live.of(root)
        assert shown.closing.usage == f"{tokens} tokens"


async def test_the_operator_may_hide_the_usage(world: World) -> None:
    book = world.operating_policy.book
    book.current = replace(book.current, budgets=Budgets(show_usage=False))
    async with helping(world, "Hello.") as (show, _):
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        (shown,) = show.live.of(root)
        assert (shown.closing.footer, shown.closing.usage) == (True, "")


@pytest.mark.parametrize("decision", [HumanDecision.APPROVE, HumanDecision.REJECT])
async def test_a_run_waits_for_people_before_it_starts(world: World, decision: HumanDecision) -> None:
    limit(world, thread=Budget(tokens=50))
    async with helping(world, "One.", "Two.") as (show, model):
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await world.says("and again", thread=root)
        (request,) = await open_requests(world)
        assert request.title.startswith("The budget of this thread is used up: ")
        assert len(model.told) == 1  # nothing is spent while people decide
        await decide(world, request, decision)
        run = (await show.over(root, 2))[1]
        if decision is HumanDecision.APPROVE:
            assert (run.status, len(model.told)) == (RunStatus.ANSWERED, 2)
        else:
            assert (run.status, len(model.told)) == (RunStatus.FAILED, 1)
            assert "budget of this thread is used up" in (run.outcome_note or "")


async def test_a_run_whose_people_cannot_be_asked_does_not_start(world: World) -> None:
    limit(world, day=Budget(tokens=1))
    async with helping(world, "One.") as (show, model):
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        assert await world.services.run_usage.why_not_start("helper") == (
            f"The budget of all agents for today is used up: {await used(world, BudgetScope.DAY, '')} of 1 tokens."
        )
        assert len(model.told) == 1


async def test_an_agent_elsewhere_reports_no_usage_and_is_not_held_back(world: World) -> None:
    limit(world, day=Budget(tokens=1))
    writing = await begun(world, await world.lead("lea"))
    usage = ModelUsage(input_tokens=5, cost_microdollars=None)
    (budget,) = await world.services.run_usage.report(writing.agent, writing.run_id, usage)
    assert (budget.scope, budget.used) == (BudgetScope.DAY, 5)
    async with playing(world, hired("eve", Scripted(says("Hi.")))) as show:
        root = await world.says("swarm#eve hello")
        (over,) = await show.over(root)
        assert over.status is RunStatus.ANSWERED


async def test_what_people_approved_is_kept_as_long_as_usage(world: World) -> None:
    limit(world, thread=Budget(tokens=50))
    async with helping(world, "One.", "Two.") as (show, _):
        root = await world.says(f"{BOT} hello")
        await show.over(root)
        await world.says("and again", thread=root)
        (request,) = await open_requests(world)
        await decide(world, request, HumanDecision.APPROVE)
        await show.over(root, 2)
    assert request.budget
    about = (request.budget.scope, BudgetUnit.TOKENS, request.budget.subject)
    assert await world.database.read(budget_raises.approved_limit, *about) == request.budget.limit
    world.clock.advance(91 * 24 * 3600)
    await world.sweeper.tidy()
    assert await world.database.read(budget_raises.approved_limit, *about) is None


@pytest.mark.req("AGENT-05")
async def test_a_session_tells_where_it_is_and_which_model_answered(world: World) -> None:
    async with helping(world, "Hello.") as (show, _):
        root = await world.says(f"{BOT} hello")
        await show.over(root)
    (row,) = await world.rows("SELECT metadata FROM sessions")
    found = json.loads(row["metadata"])
    assert (found["source"], found["channel"], found["last_outcome"]) == ("slack", root.channel, "answered")
    assert found["model"]
