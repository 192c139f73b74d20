"""What is deleted in Slack is found nowhere afterwards, also where an agent has asked people about it."""

from __future__ import annotations

import pytest

from swarm.domain.model.threads import ChannelType
from tests.support.doors import Doors, Visitor
from tests.support.scan import places_of
from tests.support.world import BOT, delete, said

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


@pytest.mark.parametrize("more", ["", ", and whoever reads this must not tell it to anybody else"])
async def test_it_is_in_no_title_form_or_answer_and_a_retry_asks_anew(doors: Doors, lea: Visitor, more: str) -> None:
    world, text = doors.world, f"{SECRET}{more}"
    root = await world.hears(said(text, channel="D1", channel_type=ChannelType.DM))
    await world.backfill.read_due()
    first = await lea.only()
    await lea.uses("slack-reply", first["lease"]["token"], inbox_message_id=first["id"], message="Noted.")
    await world.hears(said("use it", channel="D1", channel_type=ChannelType.DM, thread_ts=root.ts))
    trigger = await lea.only()
    form = {"label": "Which?", "type": "select", "options": [{"value": text, "label": SECRET}], "description": text}
    question = {
        "inbox_message_id": trigger["id"], "title": "Which?", "decisions": ["answer"], "request_id": "r1",
        "fields": [{"name": "which", **form}, {"name": "why", "label": "Why?", "type": "text", "placeholder": SECRET}],
    }  # fmt: skip
    asked = await lea.uses("request-human-input", trigger["lease"]["token"], **question)
    answer = {"decision": "answer", "values": {"which": text, "why": f"because {text}"}}
    await doors.operator.post(f"/requests/{asked['id']}/decide", answer)
    await world.send()
    await world.ingest.handle(delete(root))
    await world.send()
    assert await places_of(world.database, WORD) == {}
    again = next(one for one in await lea.poll() if one["notice"] is None)
    anew = await lea.uses("request-human-input", again["lease"]["token"], **question)
    assert anew["id"] != asked["id"]


async def test_a_secret_value_goes_when_its_asker_has_finished_with_it(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} deploy")
    trigger = await lea.only()
    fields = [{"name": name, "label": name, "type": "text", "secret": name == "key"} for name in ("key", "place")]
    asked = await lea.uses(
        "request-human-input", trigger["lease"]["token"],
        inbox_message_id=trigger["id"], title="Which key?", fields=fields, decisions=["answer"],
    )  # fmt: skip
    values = {"key": WORD, "place": "north-4711"}
    await doors.operator.post(f"/requests/{asked['id']}/decide", {"decision": "answer", "values": values})
    again = next(one for one in await lea.poll() if one["notice"] is None)
    await doors.world.sweep()
    (mine,) = again["requests"]
    assert mine["answers"][0]["values"] == values, "the agent has not finished, and may fetch it again"
    assert (await lea.get(f"/requests/{asked['id']}"))["answers"][0]["values"] == values
    await lea.uses("slack-reply", again["lease"]["token"], inbox_message_id=again["id"], message="Deployed.")
    await doors.world.sweep()
    assert await places_of(doors.world.database, WORD) == {}
    assert await places_of(doors.world.database, "north-4711") == {"request_answers.payload": 1}
