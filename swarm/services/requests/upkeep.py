"""What becomes of requests with time: they expire, lose their work, and their decisions reach the askers.

The sweep calls this once a second in the elected process. Each request has its own transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from swarm.domain.decision_rules import eligible_people
from swarm.domain.model.requests import HumanRequest
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.ports import UserGroups
from swarm.services.requests.asking import (
    cancel,
    lock_work,
    note_accepted,
    refresh_lane,
    release,
    tell_people,
    why_over,
)
from swarm.services.requests.deciding import expire
from swarm.services.rules.guarded import attempt
from swarm.store import requests
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

BATCH: Final = 100

WORK_IS_OVER: Final = "its work has ended"


async def tend_requests(database: Database, groups: UserGroups, operating_policy: OperatingPolicy) -> None:
    """Ends the requests whose time is over or whose work has ended, records which decisions were received, and tells
    who may decide.
    """
    for request in await database.read(requests.to_tell, BATCH):
        await attempt(_tell(database, groups, request), "tend_requests", request=request.id)
    await _each(database, requests.expired, partial(expire, operating_policy=operating_policy))
    await _each(database, requests.without_work, _withdraw)
    after = ""
    while sent := await database.read(requests.sent_after, after, BATCH):
        await asyncio.gather(*(attempt(database.write(_note_accepted, one.id), "tend_requests") for one in sent))
        after = sent[-1].id


async def _each(
    database: Database,
    find: Callable[[Transaction, int], Sequence[HumanRequest]],
    act: Callable[[Transaction, str], None],
) -> None:
    found = await database.read(find, BATCH)
    await asyncio.gather(*(attempt(database.write(act, one.id), "tend_requests", request=one.id) for one in found))


async def _tell(database: Database, groups: UserGroups, request: HumanRequest) -> None:
    """Tells everybody who may decide. Members of a group that Slack does not show are left out."""
    found = await asyncio.gather(*(groups.group_members(group) for group in request.policy.groups))
    members = dict(zip(request.policy.groups, [people or frozenset() for people in found], strict=True))
    people = eligible_people(request.policy, request.requesters, members) or frozenset()
    await database.write(tell_people, request.id, people)


def _withdraw(tx: Transaction, request_id: str) -> None:
    request = lock_work(tx, request_id)
    # Read again under the lock: the work may have been taken up in the meantime.
    if request and requests.is_without_work(tx, request_id):
        cancel(tx, request, why_over(tx, request, WORK_IS_OVER))
        release(tx, request, "its request was withdrawn")  # other messages of the same run may still wait


def _note_accepted(tx: Transaction, request_id: str) -> None:
    request = lock_work(tx, request_id)
    if request and note_accepted(tx, request):
        refresh_lane(tx, request)
