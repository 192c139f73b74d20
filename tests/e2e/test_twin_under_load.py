"""The twin under load, in a process of its own: a short run of what ``python -m swarm.bench.twin`` measures."""

import pytest

from swarm.bench.twin import TwinPlan, measure

pytestmark = [pytest.mark.req("TWIN-03"), pytest.mark.long]


async def test_under_load_no_delivery_is_lost_repeated_or_reordered() -> None:
    plan = TwinPlan(seconds=5, messages_per_second=100)
    found = {figure.what: figure.value for figure in await measure(plan)}
    assert found["messages"] == plan.messages
    assert found["deliveries lost"] == found["deliveries repeated"] == found["channels heard out of order"] == 0
