"""Calls of other services: stored with their cause, signed, repeated until accepted; no secret is stored."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select
from standardwebhooks import Webhook as Receiver

from swarm.agents.webhooks import HttpWebhookClient
from swarm.clock import ManualClock
from swarm.domain.model.webhooks import Webhook, WebhookEndpoint, WebhookEndpoints, WebhookKind
from swarm.services.outbox.webhooks import GIVE_UP_SECONDS, WebhookSender
from swarm.store import webhooks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import webhooks as webhooks_table
from tests.support.services import OtherService, other_service

SECRET = "a-secret-of-the-operator"


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


@pytest.fixture
async def service() -> AsyncIterator[OtherService]:
    async with other_service() as one:
        yield one


def sender(database: Database, url: str, *, fields: dict[str, str] | None = None) -> WebhookSender:
    endpoint = WebhookEndpoint(url=f"{url}/hook", headers={"X-Team": "1"}, fields=fields or {}, secret=SECRET)
    endpoints: WebhookEndpoints = {(WebhookKind.FEEDBACK, ""): endpoint, (WebhookKind.ESCALATION, "C1"): endpoint}
    return WebhookSender(database, HttpWebhookClient(), lambda: endpoints)


async def add(database: Database, key: str = "1", kind: WebhookKind = WebhookKind.FEEDBACK, target: str = "") -> None:
    await database.write(_add, key, kind, target)


def _add(tx: Transaction, key: str, kind: WebhookKind, target: str) -> None:
    webhooks.add(tx, kind, {"says": key}, idempotency_key=key, target=target, person="U1")


_ALL = Statement(select(webhooks_table).order_by(webhooks_table.c.id))


async def rows(database: Database) -> list[Webhook]:
    return await database.read(lambda tx: [row_mapper(Webhook)(row) for row in _ALL.all(tx)])


@pytest.mark.req("CHAN-05", "CHAN-07")
@pytest.mark.both_engines
async def test_a_call_is_made_once_signed_so_that_any_library_can_check_it(
    database: Database, service: OtherService
) -> None:
    await add(database)
    await add(database)  # the same cause again
    await sender(database, service.base).send_due()
    await sender(database, service.base).send_due()
    (call,) = service.calls
    key = base64.b64encode(SECRET.encode()).decode()
    assert Receiver(key).verify(call.raw, dict(call.headers)) == {"says": "1"}
    assert (call.path, call.headers["x-team"], call.headers["content-type"]) == ("/hook", "1", "application/json")
    (row,) = await rows(database)
    assert (row.status, row.body, row.attempts) == ("sent", "", 1)
    assert call.headers["webhook-id"] == row.id


@pytest.mark.req("CHAN-05", "CHAN-07")
async def test_a_service_that_fails_is_called_again_with_the_same_id(
    database: Database, service: OtherService, clock: ManualClock
) -> None:
    service.answers = [(503, {}), (429, {"Retry-After": "120"})]
    await add(database)
    post = sender(database, service.base)
    await post.send_due()
    await post.send_due()
    assert len(service.calls) == 1  # it waits first
    clock.advance(6)
    await post.send_due()
    clock.advance(60)
    await post.send_due()
    assert len(service.calls) == 2  # as long as the service asks for
    clock.advance(61)
    await post.send_due()
    assert len({call.headers["webhook-id"] for call in service.calls}) == 1
    assert [row.status for row in await rows(database)] == ["sent"]


async def test_calls_behind_a_service_that_asks_for_a_pause_wait_as_long(
    database: Database, service: OtherService, clock: ManualClock
) -> None:
    service.answers = [(429, {"Retry-After": "120"})]
    for key in "12":
        await add(database, key)
    post = sender(database, service.base)
    await post.send_due()
    assert len(service.calls) == 1
    clock.advance(121)
    await post.send_due()
    assert [call.body["says"] for call in service.calls] == ["1", "1", "2"]


async def test_a_slow_service_does_not_delay_another(database: Database, service: OtherService) -> None:
    async with other_service() as other:
        other.answers = [(500, {})]
        slow = WebhookEndpoint(url=other.base)
        quick = WebhookEndpoint(url=service.base)
        endpoints: WebhookEndpoints = {(WebhookKind.CAIPE, ""): slow, (WebhookKind.FEEDBACK, ""): quick}
        await add(database, "1", WebhookKind.CAIPE)
        await add(database, "2")
        await WebhookSender(database, HttpWebhookClient(), lambda: endpoints).send_due()
    assert sorted(row.status for row in await rows(database)) == ["open", "sent"]


@pytest.mark.parametrize("status", [301, 400, 401, 404])
async def test_a_refusal_is_final_and_told_in_the_same_transaction(
    database: Database, service: OtherService, status: int
) -> None:
    service.answers = [(status, {"Location": f"{service.base}/elsewhere"})]
    told: list[tuple[str, str]] = []
    post = sender(database, service.base)
    post._on_failure = lambda tx, webhook, reason: told.append((webhook.id, reason))
    await add(database)
    await post.send_due()
    await post.send_due()
    (row,) = await rows(database)
    assert (row.status, row.error) == ("failed", f"it answered with HTTP {status}")
    assert told == [(row.id, f"it answered with HTTP {status}")]
    assert len(service.calls) == 1


async def test_a_service_that_is_down_for_a_day_is_given_up(database: Database, clock: ManualClock) -> None:
    post = sender(database, "http://127.0.0.1:1")
    await add(database)
    await post.send_due()
    clock.advance(GIVE_UP_SECONDS)
    await post.send_due()
    (row,) = await rows(database)
    assert (row.status, row.attempts) == ("failed", 2)
    assert row.error == "it could not be reached (ConnectError), for 24 hours"


async def test_secrets_are_added_when_it_is_sent_and_a_missing_address_ends_the_call(
    database: Database, service: OtherService
) -> None:
    await add(database, "1", WebhookKind.ESCALATION, "C1")
    await add(database, "2", WebhookKind.ESCALATION, "C2")
    await sender(database, service.base, fields={"routing_key": "hush"}).send_due()
    assert [call.body for call in service.calls] == [{"says": "1", "routing_key": "hush"}]
    assert [(row.status, row.error) for row in await rows(database)] == [
        ("sent", None),
        ("failed", "the settings have no address for it any more"),
    ]


async def test_a_process_that_dies_during_a_call_leaves_it_to_the_next(
    database: Database, service: OtherService, clock: ManualClock
) -> None:
    await add(database)
    (row,) = await rows(database)
    assert await database.write(webhooks.take, row.id, 30.0)
    assert not await database.write(webhooks.take, row.id, 30.0)  # nobody else takes it meanwhile
    post = sender(database, service.base)
    await post.send_due()
    assert service.calls == []
    clock.advance(31)
    await post.send_due()
    assert len(service.calls) == 1
