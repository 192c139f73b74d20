"""GET /poll as an agent sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Scope

from swarm.domain.policy.access import Person
from swarm.entrypoints.http.polling_api import PollRoute
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.server import CLIENT, ClientConnection
from swarm.services.inbox.polls import MOST_WAITING
from swarm.store.bridge.database import Database
from tests.support.doors import OPERATOR_TOKEN, Doors, Visitor, WatchedWakeups, open_doors
from tests.support.slack import FakeSlack
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World, edit


def poll_bytes(visitor: Visitor, query: str = "wait_seconds=30") -> bytes:
    return f"GET /poll?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {visitor.token}\r\n\r\n".encode()


async def leave(doors: Doors, request: bytes, when: Any) -> None:
    """Send a request, and go away as soon as ``when`` is done."""
    _, writer = await asyncio.open_connection(*doors.address)
    writer.write(request)
    await when
    writer.close()
    await writer.wait_closed()


@pytest.mark.req("LOOP-04")
async def test_a_waiting_poll_answers_as_soon_as_a_message_is_stored(doors: Doors, lea: Visitor) -> None:
    waiting = asyncio.create_task(lea.poll(wait_seconds=30))
    await doors.wakeups.until(1)
    await doors.world.says(f"{BOT} hello")
    (trigger,) = await waiting
    assert trigger["inbox_messages"][0]["text"].endswith("hello")


@pytest.mark.req("LOOP-04")
async def test_a_poll_that_gets_nothing_answers_an_empty_list_in_its_time(lea: Visitor) -> None:
    assert await lea.poll(wait_seconds=0.05) == []


@pytest.mark.req("LOOP-04")
async def test_two_polls_at_once_never_get_the_same_trigger(doors: Doors, lea: Visitor) -> None:
    for number in range(6):
        await doors.world.says(f"{BOT} question {number}")
    polls = await asyncio.gather(*(lea.poll(limit=2) for _ in range(4)))
    ids = [trigger["id"] for triggers in polls for trigger in triggers]
    assert len(ids) == len(set(ids)) == 6


@pytest.mark.req("LOOP-04")
async def test_a_poll_never_gets_more_than_its_limit(doors: Doors, lea: Visitor) -> None:
    for number in range(4):
        await doors.world.says(f"{BOT} question {number}")
    assert len(await lea.poll(limit=3)) == 3


@pytest.mark.req("LOOP-04")
async def test_a_client_that_leaves_while_it_waits_gets_nothing_claimed(doors: Doors, lea: Visitor) -> None:
    await leave(doors, poll_bytes(lea), doors.wakeups.until(1))
    await doors.wakeups.until(0)
    message = await doors.world.says(f"{BOT} hello")
    inbox_message = await doors.world.inbox_message(message)
    assert (inbox_message.status, inbox_message.claims) == ("unread", 0)
    assert (await lea.only())["attempt"] == 1


class SlowDirectory(FakeSlack):
    """Takes its time to look a name up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def channel_name(self, channel_id: str) -> str:
        self.asked.set()
        await self.answers.wait()
        return await super().channel_name(channel_id)


@pytest.mark.req("LOOP-04")
async def test_a_client_that_leaves_while_its_answer_is_made_gets_nothing_claimed(doors: Doors, lea: Visitor) -> None:
    slow = SlowDirectory()
    world = World(doors.world.database, doors.world.clock, slack=slow)
    message = await doors.world.says(f"{BOT} hello")

    async def is_claimed() -> None:
        await slow.asked.wait()
        assert (await world.inbox_message(message)).claims == 1  # so there is something to give back

    async with open_doors(world, WatchedWakeups()) as others:
        await leave(others, poll_bytes(lea), is_claimed())
        await until_unread(world)
        slow.answers.set()
    trigger = await lea.only()
    assert trigger["attempt"] == 1


async def until_unread(world: World) -> None:
    """Returns when nothing is claimed any more; every look lets the server go on."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await world.rows("SELECT 1 FROM inbox_messages WHERE status = 'claimed'"):
            pass


@pytest.mark.req("LOOP-04")
async def test_a_client_that_left_just_before_the_answer_is_sent_gets_nothing_claimed(
    doors: Doors, lea: Visitor
) -> None:
    message = await doors.world.says(f"{BOT} hello")
    route = PollRoute(doors.world.services, Identities(doors.world.services.agents, OPERATOR_TOKEN))
    client = ClientConnection()
    describe = doors.world.services.polls.describe

    async def described(*args: Any) -> Any:
        triggers = await describe(*args)
        client.has_gone = True
        return triggers

    doors.world.services.polls.describe = described  # type: ignore[method-assign, assignment]
    await route(poll_scope(lea, client), no_message, no_answer)
    inbox_message = await doors.world.inbox_message(message)
    assert (inbox_message.status, inbox_message.attempts, inbox_message.claims) == ("unread", 0, 0)


@pytest.mark.req("LOOP-04")
async def test_a_client_that_left_before_its_poll_began_claims_nothing(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    route = PollRoute(doors.world.services, Identities(doors.world.services.agents, OPERATOR_TOKEN))
    client = ClientConnection()
    client.leave()
    await route(poll_scope(lea, client, "wait_seconds=30"), no_message, no_answer)
    assert (await doors.world.inbox_message(message)).claims == 0


@pytest.mark.req("LOOP-04")
async def test_a_poll_whose_task_is_cancelled_from_outside_stays_cancelled(doors: Doors, lea: Visitor) -> None:
    route = PollRoute(doors.world.services, Identities(doors.world.services.agents, OPERATOR_TOKEN))
    scope = poll_scope(lea, ClientConnection(), "wait_seconds=30")
    task = asyncio.create_task(route(scope, no_message, no_answer))
    await doors.wakeups.until(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.req("LOOP-04")
async def test_a_poll_that_is_cancelled_while_its_client_leaves_stays_cancelled(doors: Doors, lea: Visitor) -> None:
    route = PollRoute(doors.world.services, Identities(doors.world.services.agents, OPERATOR_TOKEN))
    client = ClientConnection()
    task = asyncio.create_task(route(poll_scope(lea, client, "wait_seconds=30"), no_message, no_answer))
    await doors.wakeups.until(1)
    client.leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def poll_scope(visitor: Visitor, client: ClientConnection, query: str = "wait_seconds=0") -> Scope:
    authorization = (b"authorization", f"Bearer {visitor.token}".encode())
    return {
        "type": "http", "method": "GET", "query_string": query.encode(), "headers": [authorization], CLIENT: client,
    }  # fmt: skip


async def no_message() -> Message:
    raise AssertionError("a poll has no body")


async def no_answer(message: Message) -> None:
    raise AssertionError("an answer was sent")


@pytest.mark.req("OPS-12")
async def test_at_shutdown_the_polls_that_wait_are_answered_with_nothing(doors: Doors, lea: Visitor) -> None:
    waiting = asyncio.create_task(lea.poll(wait_seconds=60))
    await doors.wakeups.until(1)
    doors.wakeups.close()
    assert await waiting == []


@pytest.mark.req("LOOP-05")
async def test_a_trigger_has_its_thread_and_its_messages(doors: Doors, lea: Visitor) -> None:
    root = await doors.world.says(f"{BOT} hello")
    await doors.world.says("and one more thing", thread=root)
    trigger = await lea.only()
    assert trigger["kind"] == "slack_inbox_message"
    assert trigger["lease"]["expires_at"] == "2023-11-14T22:14:20.000000Z"
    assert trigger["thread"] == trigger["thread"] | {"team": "T1", "channel": "C1", "thread_ts": root.ts}
    assert trigger["thread"]["channel_name"] == "#general"
    assert [message["author"] for message in trigger["thread_context"]] == ["alice", "alice"]
    first, second = trigger["inbox_messages"]
    assert first["user"] == {"id": "U1", "name": "alice"}
    assert (first["matched_by"], second["matched_by"]) == ("mention", "thread_owner")
    assert trigger["id"] == first["id"]
    assert trigger["task"] is None
    assert trigger["notice"] is None


@pytest.mark.req("CHAN-11")
async def test_over_http_a_message_shows_its_authors_standing_and_a_trigger_who_started_it(
    doors: Doors, lea: Visitor
) -> None:
    root = await doors.world.says(f"{BOT} hello")
    doors.world.slack.persons["U2"] = Person(id="U2", name="bob", teams=("T1",), is_guest=True)
    await doors.world.says("let me in", thread=root, by="U2")
    await doors.world.says("go on", thread=root)
    trigger = await lea.only()
    assert trigger["started_by"] == "members"
    assert [message["standing"] for message in trigger["thread_context"]] == ["member", "guest", "member"]
    assert [message["standing"] for message in trigger["inbox_messages"]] == ["member", "member"]
    inbox_message = await lea.uses("read-inbox-message", inbox_message_id=trigger["inbox_messages"][1]["id"])
    page = await lea.uses("slack-read-thread", inbox_message_id=trigger["inbox_messages"][1]["id"])
    for messages in (inbox_message["thread_context"], page["messages"]):
        assert [message["standing"] for message in messages] == ["member", "guest", "member"]


@pytest.mark.req("LOOP-05")
async def test_a_notice_says_what_happened_who_did_it_and_what_it_is_about(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    work = await lea.only()
    await doors.world.ingest.handle(edit(message, f"{BOT} good morning"))
    notice = await lea.only()
    assert notice["kind"] == "message_changed"
    assert notice["notice"] == {
        "kind": "message_changed",
        "inbox_message_id": work["inbox_messages"][0]["id"],
        "task_id": None,
        "agent_message_id": None,
        "channel": None,
        "actor": {"id": "U1", "name": "alice"},
        "text": notice["notice"]["text"],
    }
    assert notice["notice"]["text"].endswith("good morning")


@pytest.mark.req("LOOP-04", "LOOP-06")
async def test_an_id_stays_the_same_over_attempts_and_the_attempt_counts(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    first = await lea.only()
    await doors.world.later(61)
    second = await lea.only()
    assert second["id"] == first["id"]
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert second["lease"]["token"] != first["lease"]["token"]


@pytest.mark.req("LOOP-04")
async def test_many_polls_of_one_connection_leave_no_task_behind(doors: Doors, lea: Visitor) -> None:
    async def tasks() -> int:
        return len(asyncio.all_tasks())

    await lea.poll()
    before = await tasks()
    for _ in range(5):
        await lea.poll(wait_seconds=0.01)
    await wait_until(tasks, lambda count: count <= before + 1)  # that of the last one may be about to end


async def test_databases_are_shared_between_processes(doors: Doors, lea: Visitor) -> None:
    """A message that another process stores reaches a poll that waits here."""
    waiting = asyncio.create_task(lea.poll(wait_seconds=30))
    await doors.wakeups.until(1)
    url = f"sqlite:///{(await doors.world.rows('PRAGMA database_list'))[0]['file']}"
    async with Database(url, clock=doors.world.clock) as elsewhere:
        await World(elsewhere, doors.world.clock).says(f"{BOT} hello")
    assert len(await waiting) == 1


@pytest.mark.req("SEC-05")
async def test_so_many_polls_of_an_agent_wait_and_no_more(doors: Doors, lea: Visitor) -> None:
    other = await doors.worker()
    waiting = [asyncio.create_task(lea.poll(wait_seconds=30)) for _ in range(MOST_WAITING)]
    await doors.wakeups.until(MOST_WAITING)
    refused = await lea.ask("GET", "/poll?wait_seconds=30")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    assert refused.json()["error"]["code"] == "rate_limited"
    assert "20 polls of the agent 'lea' are already waiting" in refused.json()["error"]["message"]
    assert await lea.poll(wait_seconds=0) == []  # who does not wait takes no place
    assert await other.poll(wait_seconds=0.01) == []
    for poll in waiting[1:]:
        poll.cancel()
    await doors.wakeups.until(1)
    assert await lea.poll(wait_seconds=0.01) == []
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


A, B = "0190a0c4-7d3e-7000-8000-00000000000a", "0190A0C4-7D3E-7000-8000-00000000000B"


def by(instance: str) -> dict[str, Any]:
    return {"headers": {"X-Swarm-Instance": instance}}


@pytest.mark.req("RUN-01")
async def test_the_header_names_the_instance_on_the_three_routes_and_its_end_frees_the_name(
    doors: Doors, lea: Visitor
) -> None:
    finish = {"tokens": ["unknown"], "outcome": "done"}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/poll?wait_seconds=0", {}),
        ("POST", "/leases/renew", {"json": {"tokens": []}}),
        ("POST", "/leases/finish", {"json": finish}),
    ]
    for method, path, said in calls:
        assert (await lea.ask(method, path, **said, **by(A))).is_success
        for other_method, other_path, other in calls:
            answer = await lea.ask(other_method, other_path, **other, **by(B))
            assert answer.status_code == 409, answer.text
            assert answer.json()["error"]["code"] == "conflict"
            assert "'lea' is served by another instance" in answer.json()["error"]["message"]
        assert (await lea.ask("GET", "/poll?wait_seconds=0")).status_code == 409
        await lea.uses("tray")  # a CLI's own calls name no instance
        for _ in range(2):
            assert (await lea.ask("DELETE", "/me/instance", **by(A))).status_code == 204
    assert (await lea.ask("GET", "/poll?wait_seconds=0", **by(B))).is_success
    assert (await lea.ask("GET", "/poll?wait_seconds=0", **by(B.lower()))).is_success


@pytest.mark.req("RUN-01")
async def test_an_instance_is_one_uuid(lea: Visitor) -> None:
    for wrong in ("", "x", f"{{{A}}}", A + "0"):
        for method, path in (("GET", "/poll?wait_seconds=0"), ("DELETE", "/me/instance")):
            answer = await lea.ask(method, path, **by(wrong))
            assert answer.status_code == 422, (wrong, answer.text)
            assert answer.json()["error"]["fields"].keys() == {"X-Swarm-Instance"}
    assert (await lea.ask("DELETE", "/me/instance")).status_code == 422
