"""Slack's changes to an app's text, and its warnings about accepted requests."""

from typing import Any

import pytest
from slack_twin.text import from_app

from tests.world import World

pytestmark = pytest.mark.req("TWIN-02")

TEXTS = {
    "a < b && c > d": "a &lt; b &amp;&amp; c &gt; d",
    "&amp; &lt; &gt; &nbsp;": "&amp; &lt; &gt; &amp;nbsp;",
    "<@U1> <#C1|x> <!here> <!subteam^S1>": "<@U1> <#C1|x> <!here> <!subteam^S1>",
    "<https://a.test/?b=1&c=2|d & e> <mailto:a@b.test>": "<https://a.test/?b=1&amp;c=2|d &amp; e> <mailto:a@b.test>",
    "List<String> <b>bold</b>": "List&lt;String&gt; &lt;b&gt;bold&lt;/b&gt;",
}


@pytest.mark.parametrize(("sent", "stored"), TEXTS.items())
def test_the_text_of_an_app_is_escaped_but_for_its_marks(sent: str, stored: str) -> None:
    assert from_app(sent) == stored
    assert from_app(stored) == stored


async def test_the_escaped_text_is_in_the_answer_and_the_history(world: World) -> None:
    answer = await world.client().chat_postMessage(channel=world.general, text="1 < 2 <@U000ALICE>")
    (said,) = (await world.client().conversations_history(channel=world.general))["messages"]
    assert answer["message"]["text"] == said["text"] == "1 &lt; 2 <@U000ALICE>"
    assert (await world.seen())[0]["text"] == "1 < 2 @alice"


async def test_a_text_of_more_than_forty_thousand_characters_is_cut_with_a_warning(world: World) -> None:
    answer = await world.client().chat_postMessage(channel=world.general, text="x" * 40_001)
    assert len(answer["message"]["text"]) == 40_000
    assert answer["warning"] == "message_truncated"
    assert answer["response_metadata"] == {
        "warnings": ["message_truncated"],
        "messages": [
            "[WARN] Your message was truncated but still posted. The `text` field accepts up to 40,000 characters."
        ],
    }


@pytest.mark.parametrize("method", ["chat_postMessage", "chat_postEphemeral"])
async def test_blocks_without_a_text_get_a_warning(world: World, method: str) -> None:
    call: Any = getattr(world.client(), method)
    place = {"channel": world.general, "blocks": [{"type": "divider"}]}
    place |= {"user": "U000ALICE"} if method == "chat_postEphemeral" else {}
    with pytest.warns(UserWarning, match="text"):  # the SDK warns too
        answer = await call(**place)
    assert answer["warning"] == "missing_text_in_message"
    assert "warning" not in await call(**place, text="a divider")


@pytest.mark.parametrize(
    ("kind", "warning"),
    [
        ("application/json", "missing_charset"),
        ("application/json; charset=utf-8", None),
        ("application/x-www-form-urlencoded", None),
        ("application/x-www-form-urlencoded;charset=UTF-8", "superfluous_charset"),
    ],
)
async def test_a_content_type_with_the_wrong_charset_gets_a_warning(
    world: World, kind: str, warning: str | None
) -> None:
    _, answer = await world.raw("auth.test", data=b"", headers={"Content-Type": kind})
    assert (answer["ok"], answer.get("warning")) == (True, warning)
    assert answer.get("response_metadata") == ({"warnings": [warning]} if warning else None)


async def test_the_names_of_an_emoji_are_one_reaction(world: World) -> None:
    line = await world.line()
    ts = await world.say("alice", "hi")
    await line.next_acknowledged()
    await world.ask("POST", "reactions", {"user": "bob", "channel": "general", "ts": ts, "name": "thumbsup"})
    assert (await line.next_acknowledged())["payload"]["event"]["reaction"] == "+1"
    target = {"channel": world.general, "timestamp": ts}
    await world.client().reactions_add(**target, name=":+1:")
    assert await world.error("reactions.add", json=target | {"name": "thumbsup"}) == "already_reacted"
    await world.client().reactions_add(**target, name="raised_hand::skin-tone-3")
    message = (await world.client().reactions_get(channel=world.general, timestamp=ts))["message"]
    assert [(one["name"], one["count"]) for one in message["reactions"]] == [("+1", 2), ("hand::skin-tone-3", 1)]
