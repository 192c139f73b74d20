"""Routers ask people before they call certain tools, and tell the results when people have decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from packages.swarm_agents.tests.agents.builtin.making import (
    Made,
    hear,
    multiply,
    remembering,
    router,
    run_input,
    texts,
)
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Scripted
from swarm.domain.answers.events import AgentEvent, Asked, Decided, Finished, Interrupted
from swarm.domain.model.requests import HumanDecision
from swarm.store.bridge.database import Database
from swarm_agents.toolbox.approval_rules import ApprovalRules

pytestmark = pytest.mark.req("HITL-04", "AGENT-03")

ASKS = ApprovalRules(patterns=("multiply",))
PRODUCT = Calls("multiply", {"a": 6, "b": 7}, id="c1")


async def asked_by(db: Database, *tools: Made, calls: tuple[Calls, ...] = (PRODUCT,)) -> tuple[Asked, ...]:
    model = Scripted([*calls]).model
    events = await hear(
        router(model, remembering(db), *(tool.tool for tool in tools), approvals=ASKS), run_input("6 x 7?")
    )
    end = events[-1]
    assert isinstance(end, Interrupted)
    return end.asked


async def after(
    db: Database, *tools: Made, script: Scripted, decided: Decided | None = None, text: str = ""
) -> list[AgentEvent]:
    """The next run, in another process."""
    run = run_input(text) if text else replace(run_input(), decided=(decided,) if decided else ())
    return await hear(router(script.model, remembering(db), *(tool.tool for tool in tools), approvals=ASKS), run)


def on(asked: Asked, decision: HumanDecision) -> Decided:
    return Decided(interrupt_id=asked.id, values={}, raw=asked.raw, decision=decision)


async def test_an_approved_call_is_made_and_its_result_is_told(db: Database) -> None:
    first = multiply()
    (asked,) = await asked_by(db, first)
    assert not first.calls
    again, script = multiply(), Scripted("It is 42.")
    events = await after(db, again, script=script, decided=on(asked, HumanDecision.APPROVE))
    assert again.calls == [{"a": 6, "b": 7}]
    assert texts(events) == ["It is 42."]
    assert events[-1] == Finished()
    (question,) = script.told[0].said
    assert question.startswith("6 x 7?")
    assert "answered:\n42" in question.replace("\n| ", "\n")


async def test_a_rejected_call_is_told_without_the_model(db: Database) -> None:
    (asked,) = await asked_by(db, multiply())
    again, script = multiply(), Scripted()
    (told,) = texts(await after(db, again, script=script, decided=on(asked, HumanDecision.REJECT)))
    assert "a person has rejected this call" in told
    assert not again.calls


async def test_other_calls_are_made_before_the_question_and_once(db: Database) -> None:
    look = Made("look")
    (asked,) = await asked_by(db, look, multiply(), calls=(Calls("look"), PRODUCT))
    assert len(look.calls) == 1
    again, script = multiply(), Scripted("Done.")
    await after(db, look, again, script=script, decided=on(asked, HumanDecision.APPROVE))
    assert (len(look.calls), len(again.calls)) == (1, 1)
    assert "`look` answered:" in script.told[0].said[0]


async def test_a_decision_that_comes_twice_or_too_late_does_nothing(db: Database) -> None:
    (asked,) = await asked_by(db, multiply())
    again = multiply()
    (told,) = texts(
        await after(db, again, script=Scripted(), decided=replace(on(asked, HumanDecision.APPROVE), interrupt_id="x"))
    )
    assert "nothing was called" in told
    await after(db, again, script=Scripted([Calls("swarm_refuse")]), text="never mind")
    await after(db, again, script=Scripted(), decided=on(asked, HumanDecision.APPROVE))
    assert not again.calls
