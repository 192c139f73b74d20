"""What an operator sees and sets right."""

from __future__ import annotations

import pytest

from tests.support.doors import Doors, Visitor
from tests.support.scan import places_of
from tests.support.world import BOT


@pytest.mark.req("LOOP-06")
async def test_a_message_that_died_of_its_attempts_is_handed_out_anew_by_a_redrive(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    for _ in range(5):
        token = (await lea.only())["lease"]["token"]
        await lea.post("/leases/finish", {"tokens": [token], "outcome": "failed", "reason": "it crashed"})
        await doors.world.later(60)
    assert await lea.poll() == []
    (dead,) = (await doors.operator.get("/inbox?status=dead"))["inbox_messages"]
    assert dead == dead | {"agent": "lea", "channel": "C1", "ts": message.ts, "matched_by": "mention"}
    driven = await doors.operator.post(f"/inbox/{dead['id']}/redrive")
    assert (driven["status"], driven["attempts"]) == ("unread", 0)
    assert (await lea.only())["attempt"] == 1


@pytest.mark.req("LOOP-06")
async def test_what_is_not_dead_cannot_be_redriven(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    inbox_message = await doors.world.inbox_message(message)
    before = await doors.everything()
    answer = await doors.operator.ask("POST", f"/inbox/{inbox_message.id}/redrive")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert "unread" in answer.json()["error"]["message"]
    assert await doors.everything() == before


async def test_the_inbox_shows_the_newest_first_and_by_status(doors: Doors, lea: Visitor) -> None:
    for number in range(3):
        await doors.world.says(f"{BOT} question {number}")
        doors.world.clock.advance(1)
    await lea.poll(limit=1)
    everything = (await doors.operator.get("/inbox"))["inbox_messages"]
    assert [inbox_message["status"] for inbox_message in everything] == ["unread", "unread", "claimed"]
    assert len((await doors.operator.get("/inbox?status=unread&limit=1"))["inbox_messages"]) == 1


@pytest.mark.req("LOOP-11")
async def test_explain_tells_why_a_message_went_where_it_went_and_what_became_of_it(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    inbox_message_id = trigger["inbox_messages"][0]["id"]
    await lea.uses(
        "slack-reply", inbox_message_id=inbox_message_id, message="hi", lease_token=trigger["lease"]["token"]
    )
    explained = await doors.operator.get(f"/explain?message=C1:{message.ts}")
    assert explained["owner"] == "lea"
    assert "mentions the bot" in explained["routing"][0]["reason"]
    (inbox_message,) = explained["entries"]
    assert inbox_message == inbox_message | {"agent": "lea", "status": "responded", "matched_by": "mention"}
    assert [step["change"] for step in inbox_message["timeline"]] == ["inbox.store", "inbox.claim", "inbox.respond"]
    assert inbox_message["deliveries"]
    link = f"https://team.slack.example/archives/C1/p{message.ts.replace('.', '')}"
    assert await doors.operator.get(f"/explain?message={link}") == explained


@pytest.mark.req("LOOP-11")
async def test_explain_tells_why_nobody_got_a_message(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says("just chatting")
    explained = await doors.operator.get(f"/explain?message=C1:{message.ts}")
    assert explained["entries"] == []
    assert explained["routing"][0]["change"] == "route.context"
    unknown = await doors.operator.ask("GET", "/explain?message=C1:1.000001")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


async def test_a_thread_shows_its_owner_and_its_timeline(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    shown = await doors.operator.get(f"/threads/{trigger['thread']['id']}")
    assert (shown["owner"], shown["epoch"], shown["context"]) == ("lea", 1, "complete")
    assert {"inbox.store", "inbox.claim", "thread.owner"} <= {step["change"] for step in shown["timeline"]}
    assert (await doors.operator.ask("GET", "/threads/unknown")).status_code == 404


async def test_deliveries_are_shown_by_status(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    (queued,) = (await doors.operator.get("/deliveries?status=queued"))["deliveries"]
    assert (queued["kind"], queued["text"]) == ("reaction", "eyes")
    await doors.world.send()
    assert (await doors.operator.get("/deliveries?status=queued"))["deliveries"] == []
    assert len((await doors.operator.get("/deliveries?status=sent"))["deliveries"]) == 1


@pytest.mark.req("SEC-06")
async def test_a_person_is_forgotten_by_the_operator_alone(doors: Doors, lea: Visitor) -> None:
    doors.world.clock.advance(10**9)
    await doors.world.says(f"{BOT} call me at zebra-4711", by="UANN0042")
    before = await doors.everything()
    assert (await lea.ask("POST", "/people/UANN0042/forget", json={})).status_code == 403
    counted = await doors.operator.post("/people/UANN0042/forget", {"dry_run": True})
    assert counted == {"person": "UANN0042", "dry_run": True, "removed": {"messages": 1, "standings": 1}}
    assert await doors.everything() == before
    assert (await doors.operator.post("/people/UANN0042/forget", {}))["removed"]["messages"] == 1
    assert await places_of(doors.world.database, "zebra-4711", "UANN0042") == {}
    assert (await doors.operator.post("/people/UANN0042/forget", {}))["removed"] == {}


@pytest.mark.req("SEC-06")
async def test_whom_nobody_knows_cannot_be_forgotten(doors: Doors) -> None:
    for person, status, code in (("@zoe", 404, "not_found"), ("zoe", 422, "invalid")):
        answer = await doors.operator.ask("POST", f"/people/{person}/forget", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
