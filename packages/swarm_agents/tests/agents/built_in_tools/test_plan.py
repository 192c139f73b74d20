"""`write-plan`: what an agent says about its steps is what people see of them."""

from __future__ import annotations

import pytest

from packages.swarm_agents.tests.agents.builtin.making import Forgetful, assistant, hear, run_input
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Scripted
from swarm.domain.answers.events import PlanShown, PlanStep, StepStatus
from swarm_agents.built_in_tools.plan import plan_tool
from swarm_agents.toolbox.arguments import checked

pytestmark = pytest.mark.req("CONF-05")


def steps(*statuses: str) -> dict[str, object]:
    return {"steps": [{"title": f"Step {at}", "status": status} for at, status in enumerate(statuses)]}


async def test_each_call_shows_the_plan_as_it_is_now() -> None:
    calls = [
        Calls("write-plan", steps("in_progress", "pending")),
        Calls("write-plan", steps("complete", "in_progress")),
    ]
    events = await hear(assistant(Scripted(*calls, "Done.").model, Forgetful(), plan_tool()), run_input("go"))
    plans = [event for event in events if isinstance(event, PlanShown)]
    assert [[step.status for step in plan.steps] for plan in plans] == [
        [StepStatus.IN_PROGRESS, StepStatus.PENDING],
        [StepStatus.COMPLETE, StepStatus.IN_PROGRESS],
    ]
    assert plans[0].steps[1] == PlanStep(id="1", title="Step 1")


def test_a_plan_without_steps_or_with_a_status_of_its_own_is_refused() -> None:
    tool = plan_tool()
    assert checked(tool.parameters, steps("error")).is_fine
    wrong: list[dict[str, object]] = [
        {"steps": []},
        {"steps": [{"title": "", "status": "error"}]},
        steps("done"),
        steps(*["pending"] * 21),
    ]
    assert not any(checked(tool.parameters, one).is_fine for one in wrong)
    assert tool.is_read_only
