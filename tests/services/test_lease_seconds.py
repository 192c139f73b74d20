"""How long a lease lasts is the operator's to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from swarm.config import load
from swarm.domain.errors import ConfigurationError
from swarm.domain.policy.operating import OperatingPolicy
from tests.support.world import BOT, World, edit

LEASE_SECONDS = 5


@pytest.fixture
def hasty(world: World) -> World:
    """A coordinator whose leases last five seconds."""
    return world.governed_by(replace(OperatingPolicy(), lease_seconds=LEASE_SECONDS))


@pytest.mark.req("LOOP-06")
async def test_a_lease_and_its_renewal_last_as_long_as_the_operator_says(hasty: World) -> None:
    lead = await hasty.lead()
    await hasty.says(f"{BOT} hello")
    first = await hasty.only(lead)
    await hasty.later(LEASE_SECONDS - 1)
    heartbeat = await hasty.services.work.renew(lead, [first.lease_token])
    expires_at = hasty.clock.now_us() + LEASE_SECONDS * 1_000_000
    assert heartbeat.renewed.expiries == ((first.lease_token, expires_at),)
    await hasty.later(LEASE_SECONDS - 1)
    assert await hasty.poll(lead) == []
    await hasty.later(1)
    second = await hasty.only(lead)
    assert (second.id, second.attempt) == (first.id, 2)


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("way", ["poll", "renewal"])
async def test_a_notice_is_leased_for_as_long(hasty: World, way: str) -> None:
    lead = await hasty.lead()
    message = await hasty.says(f"{BOT} one")
    work = await hasty.only(lead)
    await hasty.ingest.handle(edit(message, f"{BOT} two"))
    if way == "poll":
        notice = await hasty.only(lead)
    else:
        (notice,) = (await hasty.services.work.renew(lead, [work.lease_token])).notices
    assert notice.lease.expires_at == hasty.clock.now_us() + LEASE_SECONDS * 1_000_000


def test_a_lease_too_short_to_be_renewed_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"SWARM_LEASE_SECONDS.*greater than or equal to 2"):
        load({"SWARM_LEASE_SECONDS": "1"}, folder=tmp_path, user_home=tmp_path)
