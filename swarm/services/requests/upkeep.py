"""What becomes of requests with time: they expire, lose their work, and their decisions reach the askers.

The sweep calls this once a second in the elected process. Each request has its own transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.requests import HumanRequest
from swarm.domain.policy.decision_rules import GroupMembers
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import UserGroups
from swarm.domain.requests.texts import card_text
from swarm.services.ground.guarded import attempt
from swarm.services.requests.asking import (
    cancel,
    deliver_text,
    eligible_now,
    lock_work,
    note_all_accepted,
    release,
    why_over,
)
from swarm.services.requests.deciding import expire
from swarm.store import deliveries, requests
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

BATCH: Final = 100

MAX_TOLD: Final = 20
"""The maximum number of people who get a card as a direct message."""

REMINDER_SECONDS: Final = 12 * 3600

WORK_IS_OVER: Final = "its work has ended"


async def tend_requests(database: Database, groups: UserGroups, operating_policy: OperatingPolicy) -> None:
    """Ends the requests whose time is over or whose work has ended, records which decisions were received, and tells
    who may decide.
    """
    for request in await database.read(requests.due, "to_tell", BATCH):
        await attempt(_tell(database, groups, request), "tend_requests", request=request.id)
    await _each(database, "expired", partial(expire, operating_policy=operating_policy))
    await _each(database, "without_work", _withdraw)
    after = ""
    while sent := await database.read(requests.due, "sent", BATCH, after):
        noted = (database.write(_note_accepted, one.id, operating_policy) for one in sent)
        await asyncio.gather(*(attempt(one, "tend_requests") for one in noted))
        after = sent[-1].id


def _note_accepted(tx: Transaction, request_id: str, operating_policy: OperatingPolicy) -> None:
    request = lock_work(tx, request_id)
    if request:
        note_all_accepted(tx, request.work_id, operating_policy)


async def _each(database: Database, what: requests.Due, act: Callable[[Transaction, str], None]) -> None:
    found = await database.read(requests.due, what, BATCH)
    await asyncio.gather(*(attempt(database.write(act, one.id), "tend_requests", request=one.id) for one in found))


async def _tell(database: Database, groups: UserGroups, request: HumanRequest) -> None:
    """Tells everybody who may decide. Members of a group that Slack does not show are left out."""
    found = await asyncio.gather(*(groups.group_members(group) for group in request.policy.groups))
    members = {group: people or frozenset() for group, people in zip(request.policy.groups, found, strict=True)}
    await database.write(_tell_people, request.id, members.get)


def _tell_people(tx: Transaction, request_id: str, members: GroupMembers) -> None:
    """Sends the card to everybody who may decide, as a direct message, and later reminds those who have not, once."""
    request = requests.locked(tx, request_id)
    if request is None or not request.is_open:
        return
    was_told = any(card["thread_ts"] is None for card in deliveries.of_request(tx, request_id))
    again_at = None if was_told else _reminder_at(tx.now, request.expires_at)
    if not requests.told(tx, request, again_at):
        return
    people = eligible_now(tx, request, members) or frozenset()
    key, sign = ("request-reminder", "⏰ ") if was_told else ("request-direct", "")
    wanted = (
        {"idempotency_key": f"{key}:{request_id}:{person}", "request_id": request_id, "to": person}
        for person in sorted(people - {answer.person for answer in request.answers})[:MAX_TOLD]
    )
    deliver_text(tx, DeliveryKind.POST, request, sign + card_text(request), wanted)


def _reminder_at(now: int, expires_at: int | None) -> int:
    """Returns the time of the only reminder: after half of the time, at the latest after half a day."""
    half = REMINDER_SECONDS * SECOND if expires_at is None else (expires_at - now) // 2
    return now + min(half, REMINDER_SECONDS * SECOND)


def _withdraw(tx: Transaction, request_id: str) -> None:
    request = lock_work(tx, request_id)
    # Read again under the lock: the work may have been taken up in the meantime.
    if request and requests.is_without_work(tx, request_id):
        cancel(tx, request, why_over(tx, request, WORK_IS_OVER))
        release(tx, request, "its request was withdrawn")  # other messages of the same run may still wait
