"""What is deleted in Slack is found nowhere afterwards, also where an agent has asked people about it."""

from __future__ import annotations

import pytest

from tests.support.doors import Doors, Visitor
from tests.support.scan import places_of
from tests.support.world import delete

pytestmark = pytest.mark.req("SEC-06")

WORD = "zebra-4711"
SECRET = f"the launch code is {WORD}"


@pytest.mark.parametrize("begins", ["swarm#lea ", "<@UBOT> swarm#LEA: ", "<@UBOT> ", "SWARM#lea, "])
@pytest.mark.parametrize("decision", ["approve", "reject", ""])
async def test_a_deleted_message_is_in_no_request_and_no_audit(
    doors: Doors, lea: Visitor, begins: str, decision: str
) -> None:
    root = await doors.world.says(f"{begins}{SECRET}")
    trigger = await lea.only(hold="true")
    asked = await lea.uses(
        "request-human-input",
        trigger["lease"]["token"],
        inbox_message_id=trigger["inbox_messages"][0]["id"],
        title=f"May I use “{SECRET}”?",
        prompt=f"You said: {SECRET}.",
        tool={"name": "run", "arguments": {"what": f"echo {SECRET}"}},
        decisions=["approve", "reject"],
    )
    if decision:
        await doors.operator.post(f"/requests/{asked['id']}/decide", {"decision": decision})
    await doors.world.send()
    await doors.world.ingest.handle(delete(root))
    await doors.world.send()
    assert await places_of(doors.world.database, WORD) == {}
