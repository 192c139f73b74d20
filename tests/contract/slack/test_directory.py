"""What Slack tells about channels and people, through the gateway and the names that it is asked by."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swarm.domain.errors import RefusedBySlack
from swarm.domain.prompts.input import NOTHING_KNOWN, ChannelFacts
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.names import Names
from tests.contract.slack.workspace import Workspace

pytestmark = pytest.mark.req("CHAN-03")


@pytest.fixture
async def names(gateway: Gateway) -> AsyncIterator[Names]:
    names = Names(gateway)
    yield names
    await names.close()


async def test_a_channel_tells_its_name_and_topic(names: Names) -> None:
    facts = await names.channel_facts("C0GENERAL")
    assert facts == ChannelFacts(name="general", topic="Company-wide announcements", purpose=facts.purpose)
    assert await names.channel_facts("C0NOWHERE") == NOTHING_KNOWN


async def test_an_e_mail_address_is_asked_for_only_when_it_is_wanted(names: Names, workspace: Workspace) -> None:
    await names.channel_facts("C0GENERAL")
    assert await workspace.calls("users.info") == []
    assert await names.user_email("U000ALICE") == "alice@twin.test"
    assert await names.user_email("U0NOBODY") is None
    assert len(await workspace.calls("users.info")) == 2


@pytest.mark.req("CHAN-07")
async def test_a_person_is_found_by_an_e_mail_address(gateway: Gateway, workspace: Workspace) -> None:
    found = await gateway.user_by_email("bob@twin.test")
    assert found is not None
    assert (found.id, found.is_known) == ("U00000BOB", True)
    assert await gateway.user_by_email("nobody@twin.test") is None
    await workspace.fault("error", method="users.lookupByEmail", error="missing_scope")
    with pytest.raises(RefusedBySlack, match="missing_scope"):
        await gateway.user_by_email("bob@twin.test")
