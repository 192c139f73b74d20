"""Installation of an app by OAuth, and its webhook."""

import asyncio
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.webhook.async_client import AsyncWebhookClient

from tests.world import World

pytestmark = pytest.mark.req("TWIN-02")


async def installed(world: World, **more: str) -> dict[str, str]:
    """Returns an app with a webhook, and its arguments for the token exchange."""
    scopes = ["chat:write", "incoming-webhook"]
    await world.ask("POST", "seed", {"apps": [{"name": "hook", "scopes": scopes, "webhooks": ["random"]}]})
    return dict(await world.ask("POST", "installs", {"app": "hook", "user": "alice", **more}))


async def exchanged(world: World, **args: str) -> Any:
    """Calls the synchronous SDK, because the asynchronous one causes a warning of aiohttp."""
    return await asyncio.to_thread(lambda: world.sync_client(None).oauth_v2_access(**args))


async def test_a_code_is_exchanged_for_the_token_of_the_app(world: World) -> None:
    answer = await exchanged(world, **await installed(world))
    assert (answer["access_token"], answer["token_type"]) == ("xoxb-twin-hook", "bot")
    assert (answer["scope"], answer["app_id"]) == ("chat:write,incoming-webhook", "A0000HOOK")
    assert answer["team"] == {"id": "T0TWIN", "name": "Twin"}
    assert answer["authed_user"] == {"id": "U000ALICE"}
    me = await world.client(answer["access_token"]).auth_test()
    assert me["user_id"] == answer["bot_user_id"]
    assert answer["incoming_webhook"]["channel"] == "#random"
    calls = (await world.ask("GET", "calls"))["calls"]
    assert "client_secret" not in calls[0]["args"]


WRONG = [
    ({"client_id": "x"}, "invalid_client_id"),
    ({"client_secret": "x"}, "bad_client_secret"),
    ({"code": "x"}, "invalid_code"),
    ({"redirect_uri": "http://b.test/"}, "bad_redirect_uri"),
]


@pytest.mark.parametrize(("changed", "error"), WRONG)
async def test_what_does_not_belong_together_gets_no_token(world: World, changed: dict[str, str], error: str) -> None:
    redirect_uri = "http://a.test/"
    good = await installed(world, redirect_uri=redirect_uri) | {"redirect_uri": redirect_uri}
    with pytest.raises(SlackApiError, match=error):
        await exchanged(world, **(good | changed))
    await exchanged(world, **good)
    with pytest.raises(SlackApiError, match="code_already_used"):
        await exchanged(world, **good)


async def test_a_code_is_good_for_ten_minutes(world: World) -> None:
    good = await installed(world)
    await world.advance(600)
    with pytest.raises(SlackApiError, match="invalid_code"):
        await exchanged(world, **good)


async def url_of(world: World) -> str:
    return str((await exchanged(world, **await installed(world)))["incoming_webhook"]["url"])


async def test_the_sdk_posts_by_webhook(world: World) -> None:
    url, line = await url_of(world), await world.line()
    answer = await AsyncWebhookClient(url).send(text="it is <done>", blocks=[{"type": "divider"}])
    assert (answer.status_code, answer.body) == (200, "ok")
    (said,) = await world.seen("random")
    assert (said["author"], said["text"], said["subtype"]) == ("hook", "it is <done>", "bot_message")
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["subtype"], event["bot_id"], "user" in event) == ("bot_message", "B0000HOOK", False)
    seeded = await world.ask("POST", "seed", {})
    assert seeded["webhooks"]["hook"] == [url]


REFUSED: list[tuple[Any, tuple[int, str]]] = [
    ({}, (400, "no_text")),
    ({"text": ["x"]}, (400, "invalid_payload")),
    ([], (400, "invalid_payload")),
    ({"blocks": [{"type": "nonsense"}]}, (400, "invalid_blocks")),
]


@pytest.mark.parametrize(("body", "refusal"), REFUSED)
async def test_a_webhook_says_in_plain_text_what_is_wrong(world: World, body: Any, refusal: tuple[int, str]) -> None:
    async with world.http.post(await url_of(world), json=body) as answer:
        assert (answer.status, await answer.text()) == refusal
    (call,) = [call for call in (await world.ask("GET", "calls"))["calls"] if call["method"] == "incoming-webhook"]
    assert (call["app"], call["error"]) == ("hook", refusal[1])


async def test_a_webhook_that_is_unknown_archived_or_used_too_often(world: World) -> None:
    url = await url_of(world)

    async def told(address: str) -> tuple[int, str]:
        async with world.http.post(address, data={"payload": '{"text": "as a form"}'}) as answer:
            return answer.status, await answer.text()

    assert await told(url + "x") == (404, "no_service")
    assert [await told(url) for _ in range(6)] == [(200, "ok")] * 5 + [(429, "rate_limited")]
    await world.advance(10)
    await world.client().conversations_archive(channel="C00RANDOM")
    assert await told(url) == (410, "channel_is_archived")
