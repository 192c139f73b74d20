"""Messages between agents: stored once, told to those whom they are meant for, read by nobody else."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from swarm.domain.errors import Conflict, Invalid, NotFound, RateLimited, SwarmError
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.services.ground.idempotency import Caller
from swarm.services.operate import messages as message_pages
from swarm.services.operate import sweep as retention
from swarm.services.operate.messages import AgentMessagesPage, PageRequest, Sent
from swarm.store import agent_messages
from tests.support.world import World

DAY = 24 * 3600

pytestmark = pytest.mark.req("LOOP-17")


async def send(
    world: World,
    sender: Agent,
    text: str,
    *,
    to: str | None = None,
    channel: str | None = None,
    request_id: str | None = None,
    lease: str | None = None,
) -> Sent:
    caller = Caller(agent=sender, lease_token=lease, request_id=request_id)
    return await world.services.messages.send(caller, text, to=to, channel=channel)


async def read(world: World, reader: Agent, **request: object) -> AgentMessagesPage:
    return await world.services.messages.read(reader, PageRequest(**request))  # type: ignore[arg-type]


async def texts(world: World, reader: Agent, **request: object) -> list[str]:
    return [message.text for message in (await read(world, reader, **request)).messages]


async def told(world: World) -> dict[str, list[str]]:
    """Who has been told what, by name."""
    rows = await world.rows(
        "SELECT agents.name, notices.text FROM notices JOIN agents ON agents.id = notices.agent_id "
        "WHERE kind = 'agent_message' ORDER BY notices.id"
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row["text"])
    return found


def names(sent: Sent) -> list[str]:
    return [one.name for one in sent.addressees]


async def test_a_direct_message_reaches_the_recipient_as_a_notice(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    sent = await send(world, lea, "can you look?", to="wim")
    assert names(sent) == ["wim"]
    trigger = await world.only(wim)
    assert (trigger.kind, trigger.notice and trigger.notice.text) == ("agent_message", "can you look?")
    assert "can you look?" in trigger.prompt
    assert await world.poll(lea) == []


async def test_a_message_arrives_as_it_was_written_also_where_slack_would_read_something_else(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    text = "use List<T> if a < b && c > d, not &lt; &amp;lt;, and ask <@U1>"
    await send(world, lea, text, to="wim")
    trigger = await world.only(wim)
    assert trigger.notice
    assert trigger.notice.text == text
    assert await texts(world, wim) == [text]


async def test_a_message_waits_for_a_recipient_who_is_offline(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim", online=False)
    (addressee,) = (await send(world, lea, "good morning", to="wim")).addressees
    assert addressee.status == "offline"
    await world.later(DAY)
    assert (await world.only(wim)).kind == "agent_message"


async def test_a_recipient_is_named_by_name_or_by_id_with_or_without_an_at(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for number, to in enumerate(["wim", "@wim", "swarm#wim", wim.id]):
        assert names(await send(world, lea, f"{number}", to=to)) == ["wim"]


async def test_an_unknown_recipient_is_refused_with_the_names_there_are(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    await world.worker("ada")
    with pytest.raises(NotFound) as refused:
        await send(world, lea, "hello", to="wimm")
    assert refused.value.hint == "There are: wim, ada."
    assert await told(world) == {}


async def test_an_agent_that_was_removed_is_unknown(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    await world.services.agents.revoke(wim.id)
    for to in ("wim", wim.id):
        with pytest.raises(NotFound):
            await send(world, lea, "hello", to=to)


async def test_what_cannot_be_sent_is_refused_and_the_field_is_named(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    refused: list[tuple[dict[str, str], set[str]]] = [
        ({"text": "hello"}, {"to", "channel"}),
        ({"text": "hello", "to": "wim", "channel": "all"}, {"to", "channel"}),
        ({"text": "hello", "to": "lea"}, {"to"}),
        ({"text": " \n\u200b", "to": "wim"}, {"text"}),
        ({"text": "x" * 40_001, "to": "wim"}, {"text"}),
        *(
            ({"text": "hello", "channel": channel}, {"channel"})
            for channel in ("", "#", "##a", "Reviews", "a b", "x" * 33)
        ),
    ]
    for said, fields in refused:
        with pytest.raises(Invalid) as error:
            await send(world, lea, **said)
        assert set(error.value.fields) == fields, said
    assert await world.rows("SELECT id FROM agent_messages") == []


async def test_the_longest_message_arrives_whole_and_without_invisible_characters(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    await send(world, lea, "x\u200b" * 40_000, to="wim")
    assert await texts(world, wim) == ["x" * 40_000]


async def test_everybody_reads_a_channel_and_only_those_mentioned_are_told(world: World) -> None:
    lea, wim, ada = await world.lead("lea"), await world.worker("wim"), await world.worker("ada")
    assert names(await send(world, lea, "@wim please look", channel="#reviews")) == ["wim"]
    assert names(await send(world, wim, "nobody in particular", channel="reviews")) == []
    assert await told(world) == {"wim": ["@wim please look"]}
    for reader in (lea, wim, ada):
        page = await read(world, reader, channel="reviews")
        assert [(message.sender.name, message.channel) for message in page.messages] == [
            ("lea", "#reviews"),
            ("wim", "#reviews"),
        ]


@pytest.mark.parametrize(
    ("text", "meant", "unknown"),
    [
        ("@wim and swarm#ada", ["wim", "ada"], ()),
        ("@WIM, look! @wim.", ["wim"], ()),
        ("thanks @wim--", ["wim"], ()),
        ("@wim-two knows", ["wim-two"], ()),
        ("@wim-three knows", [], ("wim-three",)),
        ("@lea knows herself", [], ()),
        ("wim@example.org, <@U1>, a.@wim, @wim_x", [], ()),
        ("@all come", ["wim", "ada"], ()),
        ("swarm#all, and @wim-two above all", ["wim", "wim-two", "ada"], ()),
        ("@nobody @all-", ["wim", "ada"], ("nobody",)),
    ],
)
async def test_whom_a_text_mentions(world: World, text: str, meant: list[str], unknown: tuple[str, ...]) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    await world.worker("wim-two", online=False)
    await world.worker("ada")
    sent = await send(world, lea, text, channel="talk")
    assert (names(sent), sent.unknown_mentions) == (meant, unknown)
    assert set(await told(world)) == set(meant)


async def test_a_mention_in_a_direct_message_tells_nobody_else(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    await world.worker("ada")
    sent = await send(world, lea, "@ada must not know, @nobody, @all", to="wim")
    assert (names(sent), sent.unknown_mentions) == (["wim"], ())
    assert set(await told(world)) == {"wim"}


@pytest.mark.both_engines
async def test_nobody_but_sender_and_recipient_sees_a_direct_message(world: World) -> None:
    lea, wim, ada = await world.lead("lea"), await world.worker("wim"), await world.worker("ada")
    await send(world, lea, "between us", to="wim")
    await send(world, wim, "of course", to="lea")
    for reader, partner in ((lea, "wim"), (wim, "lea")):
        assert await texts(world, reader, partner=partner) == ["between us", "of course"]
    for partner in ("lea", "wim"):
        assert await texts(world, ada, partner=partner) == []
    assert await texts(world, ada) == []


@pytest.mark.both_engines
async def test_reading_goes_on_where_it_ended(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for number in range(7):
        await send(world, lea, f"{number}", channel="talk")
    latest = await read(world, wim, channel="talk", limit=3)
    assert ([message.text for message in latest.messages], latest.more) == (["4", "5", "6"], True)
    first, last = latest.messages[0].id, latest.messages[-1].id
    assert await texts(world, wim, channel="talk", limit=3, before=first) == ["1", "2", "3"]
    assert await texts(world, wim, channel="talk", after=last) == []
    await send(world, lea, "7", channel="talk")
    assert await texts(world, wim, channel="talk", after=last) == ["7"]
    middle = await read(world, wim, channel="talk", limit=2, after=first)
    assert ([message.text for message in middle.messages], middle.more) == (["5", "6"], True)
    whole = await read(world, wim, channel="talk", limit=8)
    assert (len(whole.messages), whole.more) == (8, False)


async def test_a_page_ends_before_it_is_too_much_to_read_and_the_rest_follows(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for letter in "abcde":
        await send(world, lea, letter * 40_000, channel="talk")
    latest = await read(world, wim, channel="talk")
    assert ([message.text[0] for message in latest.messages], latest.more) == (["d", "e"], True)
    first = await read(world, wim, channel="talk", after=str(UUID(int=0)))
    assert ([message.text[0] for message in first.messages], first.more) == (["a", "b"], True)
    assert message_pages.MAX_PAGE_CHARACTERS == 100_000


async def test_what_cannot_be_read_is_refused(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    refused: list[tuple[dict[str, str], type[SwarmError]]] = [
        ({"channel": "talk"}, NotFound),
        ({"channel": "A B"}, Invalid),
        ({"partner": "nobody"}, NotFound),
        ({"partner": "wim", "channel": "talk"}, Invalid),
        ({"after": "yesterday"}, Invalid),
        ({"before": "{00000000-0000-0000-0000-000000000000}"}, Invalid),
        ({"before": str(UUID(int=2**128 - 1)).upper()}, Invalid),
    ]
    for request, kind in refused:
        with pytest.raises(kind):
            await read(world, lea, **request)


@pytest.mark.both_engines
async def test_an_unknown_channel_is_refused_with_the_channels_there_are(world: World) -> None:
    lea = await world.lead("lea")
    for channel in ("talk", "reviews"):
        await send(world, lea, "first", channel=channel)
    with pytest.raises(NotFound) as refused:
        await read(world, lea, channel="review")
    assert refused.value.hint == "There are: #reviews, #talk."


@pytest.mark.both_engines
async def test_reading_marks_what_is_meant_for_the_reader_and_nothing_else(world: World) -> None:
    lea, wim, ada = await world.lead("lea"), await world.worker("wim"), await world.worker("ada")
    await send(world, lea, "@wim @ada first", channel="talk")
    await send(world, lea, "second", channel="talk")
    await send(world, lea, "third", to="wim")
    assert await texts(world, wim, channel="talk", unread_only=True) == ["@wim @ada first"]
    assert await texts(world, wim, channel="talk", unread_only=True) == []
    assert await texts(world, wim) == ["third"]
    assert await texts(world, wim) == []
    (message,) = (await read(world, ada)).messages
    assert (message.unread, message.for_reader) == (True, True)
    (first, second) = (await read(world, ada, channel="talk")).messages
    assert (first.unread, first.for_reader) == (False, True)
    assert (second.unread, second.for_reader) == (False, False)


async def test_only_what_a_page_shows_is_marked_read(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for number in range(3):
        await send(world, lea, f"{number}", to="wim")
    pages = [await texts(world, wim, limit=2) for _ in range(3)]
    assert pages == [["0", "1"], ["2"], []]


async def test_a_finished_notice_marks_its_message_read_for_its_agent_alone(world: World) -> None:
    lea, wim, ada = await world.lead("lea"), await world.worker("wim"), await world.worker("ada")
    await send(world, lea, "@wim @ada look", channel="talk")
    await send(world, lea, "and this", to="wim")
    first, _ = await world.poll(wim)
    await world.services.work.finish(wim, [first.lease_token], FinishOutcome.DONE)
    assert await texts(world, wim) == ["and this"]
    assert await texts(world, ada) == ["@wim @ada look"]


async def test_the_same_words_to_the_same_place_are_sent_once_within_a_minute(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    first = await send(world, lea, "any news?", to="wim")
    world.clock.advance(59)
    assert (await send(world, lea, "any news?", to="wim")).message_id == first.message_id
    assert await told(world) == {"wim": ["any news?"]}
    others = [
        await send(world, lea, "any news", to="wim"),
        await send(world, lea, "any news?", channel="talk"),
        await send(world, wim, "any news?", channel="talk"),
    ]
    world.clock.advance(1)
    others.append(await send(world, lea, "any news?", to="wim"))
    assert len({sent.message_id for sent in (first, *others)}) == 5


async def test_a_request_id_makes_a_message_go_out_once_and_another_one_again(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    first = await send(world, lea, "any news?", to="wim", request_id="1")
    world.clock.advance(DAY)
    again = await send(world, lea, "any news?", to="wim", request_id="1")
    other = await send(world, lea, "any news?", to="wim", request_id="2")
    assert again.message_id == first.message_id != other.message_id
    await send(world, lea, "any news?", channel="talk", request_id="1")
    await send(world, wim, "any news?", channel="talk", request_id="1")
    assert await told(world) == {"wim": ["any news?", "any news?"]}
    assert len(await texts(world, lea, channel="talk")) == 2


async def test_other_words_with_a_used_request_id_are_refused_rather_than_lost(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    await send(world, lea, "first", to="wim", request_id="1")
    with pytest.raises(Conflict):
        await send(world, lea, "second", to="wim", request_id="1")
    assert await texts(world, wim) == ["first"]


async def test_a_run_says_the_same_thing_once_and_the_next_run_may_say_it_again(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    first = await send(world, lea, "on it", to="wim", lease="one")
    world.clock.advance(DAY)
    assert (await send(world, lea, "on it", to="wim", lease="one")).message_id == first.message_id
    await send(world, lea, "on it", to="wim", lease="two")
    assert await told(world) == {"wim": ["on it", "on it"]}


@pytest.mark.both_engines
async def test_the_same_call_at_the_same_moment_sends_once(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for request_id in (None, "1"):
        sent = await asyncio.gather(
            *(send(world, lea, f"hello {request_id}", to="wim", request_id=request_id) for _ in range(6))
        )
        assert len({one.message_id for one in sent}) == 1
    assert await texts(world, wim) == ["hello None", "hello 1"]


async def test_thirty_messages_a_minute_are_the_limit_of_one_sender(world: World) -> None:
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for number in range(30):
        await send(world, lea, f"{number}", to="wim")
        world.clock.advance(1)
    with pytest.raises(RateLimited) as limited:
        await send(world, lea, "30", channel="talk", request_id="30")
    assert limited.value.retry_after_seconds == 30
    assert (await send(world, lea, "29", to="wim")).message_id  # repeated, so not counted
    await send(world, wim, "stop", to="lea")
    world.clock.advance(30)
    await send(world, lea, "30", channel="talk", request_id="30")
    assert await texts(world, lea, channel="talk") == ["30"]


@pytest.mark.both_engines
async def test_senders_at_the_same_moment_stay_within_the_limit(world: World) -> None:
    lea = await world.lead("lea")
    await world.worker("wim")
    outcomes = await asyncio.gather(
        *(send(world, lea, f"{number}", to="wim") for number in range(40)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes].count(RateLimited) == 10
    assert len(await world.rows("SELECT id FROM agent_messages")) == 30


async def test_ids_grow_also_when_the_clock_of_the_machine_goes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lea = await world.lead("lea")
    await send(world, lea, "first", channel="talk")
    monkeypatch.setattr(agent_messages, "new_id", lambda: str(UUID(int=5)))
    for text in ("second", "third"):
        await send(world, lea, text, channel="talk")
    assert await texts(world, lea, channel="talk") == ["first", "second", "third"]


@pytest.mark.both_engines
async def test_talking_to_agents_is_no_sign_of_life(world: World) -> None:
    lea = await world.lead("lea")
    wim = await world.worker("wim")
    world.clock.advance(121)
    await send(world, wim, "I am here", channel="talk")
    await read(world, wim, channel="talk")
    await world.services.trays.of(wim)
    await world.is_here(lea)
    sent = await send(world, lea, "@all?", channel="talk")
    assert names(sent) == []
    members = await world.services.team.members()
    assert [(member.name, member.status) for member in members] == [("lea", "online"), ("wim", "offline")]


@pytest.mark.both_engines
@pytest.mark.parametrize("at_once", [2, 1000])
async def test_messages_are_forgotten_after_ninety_days_and_what_still_waits_keeps_its_text(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", at_once)
    lea, wim = await world.lead("lea"), await world.worker("wim")
    for number in range(5):
        await send(world, lea, f"old {number}", to="wim")
    world.clock.advance(1)
    await send(world, lea, "@wim younger", channel="talk")
    world.clock.advance(90 * DAY - 1)
    await world.sweeper.tidy()
    assert len(await world.rows("SELECT id FROM agent_messages")) == 6
    world.clock.advance(1)
    await world.sweeper.tidy()
    assert await world.rows("SELECT text FROM agent_messages") == [{"text": "@wim younger"}]
    assert len(await world.rows("SELECT message_id FROM agent_message_addressees")) == 1
    waiting = [trigger.notice.text for trigger in await world.poll(wim) if trigger.notice]
    assert waiting == [*(f"old {number}" for number in range(5)), "@wim younger"]
