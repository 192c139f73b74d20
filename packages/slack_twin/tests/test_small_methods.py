"""Small methods: connection tests, profiles, members of groups, `/me`."""

import pytest
from slack_sdk.errors import SlackApiError

from tests.world import World

pytestmark = pytest.mark.req("TWIN-02")


async def test_the_api_is_tested_without_a_token(world: World) -> None:
    assert (await world.client(None).api_test(foo="bar"))["args"] == {"foo": "bar"}
    with pytest.raises(SlackApiError) as refused:
        await world.client(None).api_test(error="my_error")
    assert refused.value.response.data == {"ok": False, "error": "my_error", "args": {"error": "my_error"}}


async def test_the_profile_of_a_person_and_of_the_bot_itself(world: World) -> None:
    alice = (await world.client().users_profile_get(user="U000ALICE"))["profile"]
    assert (alice["real_name"], alice["email"]) == ("Alice Archer", "alice@twin.test")
    assert (await world.client().users_profile_get())["profile"]["api_app_id"] == "A000SWARM"
    assert await world.error("users.profile.get", json={"user": "U404"}) == "user_not_found"


async def test_the_members_of_a_user_group(world: World) -> None:
    await world.ask("POST", "seed", {"user_groups": [{"handle": "ops", "members": ["alice", "bob"]}]})
    assert (await world.client().usergroups_users_list(usergroup="S00000OPS"))["users"] == ["U000ALICE", "U00000BOB"]
    assert await world.error("usergroups.users.list", json={"usergroup": "S404"}) == "no_such_subteam"


async def test_a_bot_says_what_it_does(world: World) -> None:
    ts = (await world.client().chat_meMessage(channel=world.general, text="is <thinking>"))["ts"]
    (said,) = (await world.client().conversations_history(channel=world.general))["messages"]
    assert (said["ts"], said["subtype"], said["text"]) == (ts, "me_message", "is &lt;thinking&gt;")
    assert await world.error("chat.meMessage", json={"channel": world.general}) == "no_text"
