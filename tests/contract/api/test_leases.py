"""POST /leases/… as an agent sees it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.doors import Doors, Visitor
from tests.support.world import BOT, delete, edit


@pytest.mark.req("LOOP-06")
async def test_a_renewal_gives_the_new_expiry_and_names_what_is_lost(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    doors.world.clock.advance(20)
    assert await lea.post("/leases/renew", {"tokens": [token, "unknown"]}) == {
        "renewed": [{"token": token, "expires_at": "2023-11-14T22:14:40.000000Z"}],
        "lost": ["unknown"],
        "notices": [],
    }


@pytest.mark.req("LOOP-06")
async def test_a_lease_that_expired_cannot_be_renewed_released_or_finished(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    doors.world.clock.advance(61)
    assert (await lea.post("/leases/renew", {"tokens": [token]}))["lost"] == []  # the sweep has not come yet
    await doors.world.later(61)
    assert (await lea.post("/leases/renew", {"tokens": [token]}))["lost"] == [token]
    assert await lea.post("/leases/release", {"tokens": [token]}) == {"released": [], "lost": [token]}
    answer = await lea.post("/leases/finish", {"tokens": [token], "outcome": "failed"})
    assert answer == {"finished": [], "lost": [token]}


@pytest.mark.req("LOOP-06", "OPS-04")
async def test_another_agents_lease_is_as_unknown_as_one_that_never_was(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    other = await doors.lead("leo")
    before = await doors.world.rows("SELECT * FROM leases")
    assert (await other.post("/leases/renew", {"tokens": [token]}))["lost"] == [token]
    assert (await other.post("/leases/release", {"tokens": [token]}))["lost"] == [token]
    body = {"tokens": [token], "outcome": "dismissed", "reason": "mine now"}
    assert (await other.post("/leases/finish", body))["lost"] == [token]
    assert await doors.world.rows("SELECT * FROM leases") == before


@pytest.mark.req("LOOP-06")
async def test_released_work_comes_again_at_once_with_the_same_attempt(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    assert await lea.post("/leases/release", {"tokens": [token]}) == {"released": [token], "lost": []}
    assert (await lea.only())["attempt"] == 1


@pytest.mark.req("LOOP-06")
async def test_work_released_with_a_delay_comes_again_after_it(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    await lea.post("/leases/release", {"tokens": [token], "delay_seconds": 30})
    assert await lea.poll() == []
    await doors.world.later(31)
    assert (await lea.only())["attempt"] == 1


@pytest.mark.req("LOOP-06")
async def test_done_without_an_answer_is_unresolved_names_the_messages_and_changes_nothing(
    doors: Doors, lea: Visitor
) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    before = await doors.everything()
    answer = await lea.ask("POST", "/leases/finish", json={"tokens": [trigger["lease"]["token"]], "outcome": "done"})
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "unresolved"
    assert trigger["inbox_messages"][0]["id"] in error["message"]
    assert await doors.everything() == before


@pytest.mark.req("LOOP-06")
async def test_dismissed_with_a_reason_ends_the_work_and_shows_a_tick_only(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} thanks")
    token = (await lea.only())["lease"]["token"]
    body = {"tokens": [token], "outcome": "dismissed", "reason": "only thanks"}
    assert await lea.post("/leases/finish", body) == {"finished": [token], "lost": []}
    assert (await doors.world.inbox_message(message)).status == "dismissed"
    await doors.world.send()
    assert doors.world.slack.posts == []
    assert (message.ts, "white_check_mark") in doors.world.slack.reactions


@pytest.mark.req("LOOP-06", "LOOP-04")
async def test_the_end_of_work_and_the_next_work_are_one_request(doors: Doors, lea: Visitor) -> None:
    for text in ("one", "two", "three"):
        await doors.world.says(f"{BOT} {text}")
    (first,) = await lea.poll(limit=1)
    body = {"tokens": [first["lease"]["token"]], "outcome": "dismissed", "reason": "only thanks", "next": 1}
    answer = await lea.post("/leases/finish", body)
    (second,) = answer.pop("triggers")
    assert answer == {"finished": [first["lease"]["token"]], "lost": []}
    assert "two" in second["inbox_messages"][0]["text"]
    refused = await lea.ask(
        "POST", "/leases/finish", json=body | {"tokens": [second["lease"]["token"]], "outcome": "done"}
    )
    assert refused.json()["error"]["code"] == "unresolved"
    third = await lea.only()  # the refused call has claimed nothing
    renewed = await lea.post("/leases/renew", {"tokens": [trigger["lease"]["token"] for trigger in (second, third)]})
    assert renewed["lost"] == []


@pytest.mark.req("LOOP-06")
async def test_failed_counts_as_an_attempt(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    await lea.post("/leases/finish", {"tokens": [token], "outcome": "failed", "reason": "no tools"})
    doors.world.clock.advance(2)  # a failed attempt is followed by a pause
    await doors.world.sweep()
    assert (await lea.only())["attempt"] == 2


@pytest.mark.req("LOOP-05", "LOOP-15")
async def test_a_renewal_hands_a_notice_to_one_call_only(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    await doors.world.ingest.handle(edit(message, f"{BOT} good morning"))
    beats = await asyncio.gather(*(lea.post("/leases/renew", {"tokens": [token]}) for _ in range(4)))
    (notice,) = [notice for beat in beats for notice in beat["notices"]]
    assert notice["kind"] == "message_changed"
    ended = await lea.post("/leases/finish", {"tokens": [notice["lease"]["token"]], "outcome": "done"})
    assert ended["finished"] == [notice["lease"]["token"]]
    assert await lea.poll() == []


@pytest.mark.req("LOOP-05", "LOOP-15")
async def test_a_delete_is_told_by_a_notice_while_the_work_is_in_hand(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    await doors.world.ingest.handle(delete(message))
    beat = await lea.post("/leases/renew", {"tokens": [trigger["lease"]["token"]]})
    (notice,) = beat["notices"]
    assert notice["kind"] == "message_deleted"
    assert notice["notice"]["inbox_message_id"] == trigger["inbox_messages"][0]["id"]


@pytest.mark.req("LOOP-06")
async def test_a_renewal_without_tokens_is_a_sign_of_life(lea: Visitor) -> None:
    assert await lea.post("/leases/renew", {"tokens": []}) == {"renewed": [], "lost": [], "notices": []}


@pytest.mark.req("LOOP-06")
async def test_hold_keeps_the_thread_until_finish_also_when_all_is_answered(doors: Doors, lea: Visitor) -> None:
    root = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only(hold="true")
    token, inbox_message_id = trigger["lease"]["token"], trigger["inbox_messages"][0]["id"]
    await lea.uses("slack-reply", inbox_message_id=inbox_message_id, message="hi", lease_token=token)
    await doors.world.says("and?", thread=root)
    assert await lea.poll() == []
    await lea.post("/leases/finish", {"tokens": [token], "outcome": "done"})
    assert len(await lea.poll()) == 1
