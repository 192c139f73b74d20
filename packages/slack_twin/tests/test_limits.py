"""Rate limits: tiers and one post per second and channel."""

import pytest
from slack_sdk.errors import SlackApiError

from tests.world import World

pytestmark = pytest.mark.req("TWIN-03")


async def wait_told(world: World, method: str, **arguments: str) -> int:
    """Returns the Retry-After of a refused call."""
    with pytest.raises(SlackApiError, match="ratelimited") as refused:
        await getattr(world.client(), method)(**arguments)
    assert refused.value.response.status_code == 429
    return int(refused.value.response.headers["Retry-After"])


async def test_a_channel_takes_a_short_burst_and_then_one_post_a_second(world: World) -> None:
    for _ in range(5):
        await world.client().chat_postMessage(channel=world.general, text="x")
    assert await wait_told(world, "chat_postMessage", channel=world.general, text="x") == 1
    await world.client().chat_postMessage(channel="C00RANDOM", text="another channel")
    await world.advance(1)
    await world.client().chat_postMessage(channel=world.general, text="x")
    assert len(await world.seen()) == 6


async def test_a_tier_is_counted_by_method_over_a_minute(world: World) -> None:
    for _ in range(20):
        await world.client().users_list()
    wait = await wait_told(world, "users_list")
    assert 50 < wait <= 60
    await world.client().users_info(user="U000ALICE")
    await world.advance(wait)
    await world.client().users_list()


async def test_limits_can_be_switched_off(world: World) -> None:
    world.twin.limits.enabled = False
    for _ in range(30):
        await world.client().chat_postMessage(channel=world.general, text="x")
        await world.client().users_list()
    assert len(await world.seen()) == 30
