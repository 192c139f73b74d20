"""Events that arrive at once are routed as a set, as if they had come one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.access import NOTHING_MISSING
from swarm.domain.policy.channels import ChannelPolicy
from swarm.services.intake.posted import Posted
from swarm.services.speaking.participants import read_roster
from swarm.store.bridge.transaction import Transaction
from tests.store.items import Gate
from tests.support.policies import governing
from tests.support.world import BOT, World, said, texts

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-01", "LOOP-10", "LOOP-13")]


async def as_posted(world: World, messages: Sequence[SlackMessage], *, unknown: str = "") -> list[Posted]:
    """These messages as members of a set. The standings of their authors are known, but for one."""
    roster = await world.database.read(read_roster, world.operating_policy)
    authors = [
        author if author.id == unknown else await world.standings.settled(author)
        for author in (message.author for message in messages)
    ]
    return [
        Posted(message=replace(message, author=author), roster=roster)
        for message, author in zip(messages, authors, strict=True)
    ]


async def at_once(world: World, messages: Sequence[SlackMessage], *, unknown: str = "") -> list[bool]:
    """These messages in one set, and which of them were routed."""
    posted = await as_posted(world, messages, unknown=unknown)
    return [not missing for missing in await world.database.write(world.ingest._posted.route, posted)]


async def test_the_messages_of_a_thread_keep_their_order_and_see_what_the_earlier_ones_did(world: World) -> None:
    lead, second = await world.lead(), await world.worker("second")
    root, other = said(f"{BOT} one"), said(f"{BOT} elsewhere")
    replies = [said(text, thread_ts=root.ts) for text in ("two", "swarm#second three", "four")]
    assert await at_once(world, [root, other, *replies]) == [True] * 5
    assert texts(await world.poll(second)) == [["@UBOT one", "two", "swarm#second three", "four"]]
    assert texts(await world.poll(lead)) == [["@UBOT elsewhere"]]


async def test_the_threads_of_a_set_are_handed_out_in_the_order_of_their_messages(world: World) -> None:
    lead = await world.lead()
    await at_once(world, [said(f"{BOT} {number}") for number in range(6)])
    handed_out = [texts(await world.poll(lead, limit=1)) for _ in range(6)]
    assert handed_out == [[[f"@UBOT {number}"]] for number in range(6)]


async def test_a_later_message_of_a_thread_does_not_overtake_the_other_threads_of_the_set(world: World) -> None:
    lead = await world.lead()
    roots = [said(f"{BOT} {number}") for number in range(4)]
    await at_once(world, [*roots, said("more", thread_ts=roots[3].ts)])
    handed_out = [texts(await world.poll(lead, limit=1)) for _ in range(4)]
    assert handed_out == [[["@UBOT 0"]], [["@UBOT 1"]], [["@UBOT 2"]], [["@UBOT 3", "more"]]]
    stored = await world.rows("SELECT order_key FROM inbox_messages ORDER BY ts")
    assert len({row["order_key"] for row in stored}) == 5


async def test_a_message_that_is_repeated_in_a_set_is_routed_once(world: World) -> None:
    await world.lead()
    message, other = said(f"{BOT} one"), said(f"{BOT} two")
    reply = said("three", thread_ts=message.ts)
    await at_once(world, [message, message, other, reply, message, reply])
    await at_once(world, [reply, other, message])
    for each in (message, other, reply):
        assert len(await world.inbox_messages(each)) == 1
    await world.send()
    assert sorted(world.slack.reactions) == sorted((each.ts, "eyes") for each in (message, other, reply))
    changes = [row["change"] for row in await world.rows("SELECT change FROM history ORDER BY seq")]
    assert [change for change in changes if change.startswith("route.")] == [
        "route.mention",
        "route.mention",
        "route.thread_owner",
    ]


async def test_a_reply_that_overtook_its_opening_message_in_a_set_is_routed_after_it(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} one")
    early, late = said("two", thread_ts=root.ts), said("three", thread_ts=root.ts)
    await at_once(world, [early, root, said("lunch?"), late])
    assert texts(await world.poll(lead)) == [["@UBOT one", "two", "three"]]
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_a_message_whose_author_is_unknown_has_no_effect_and_harms_no_other(world: World) -> None:
    await world.lead()
    messages = [said(f"{BOT} one"), said(f"{BOT} two", by="U2"), said(f"{BOT} three")]
    assert await at_once(world, messages, unknown="U2") == [True, False, True]
    assert [len(await world.inbox_messages(message)) for message in messages] == [1, 0, 1]
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_people_who_are_refused_twice_in_a_set_are_told_once(world: World) -> None:
    guarded = world.governed_by(governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U1"}))))
    await guarded.lead()
    await at_once(guarded, [said(f"{BOT} one", by="U2"), said(f"{BOT} two"), said(f"{BOT} three", by="U2")])
    assert len(await guarded.rows("SELECT * FROM threads")) == 2
    assert len(await guarded.rows("SELECT * FROM deliveries WHERE kind = 'post'")) == 1


async def test_the_messages_of_a_set_count_towards_the_limit_of_their_author(world: World) -> None:
    limited = world.governed_by(governing(messages_per_minute=2))
    await limited.lead()
    messages = [said(f"{BOT} {number}", ts=f"{world.clock.now_us() // 10**6}.{number:06}") for number in range(3)]
    by_bob = said(f"{BOT} hello", by="U2", ts=f"{world.clock.now_us() // 10**6}.000009")
    await at_once(limited, [*messages, by_bob])
    assert [len(await limited.inbox_messages(message)) for message in [*messages, by_bob]] == [1, 1, 0, 1]


async def test_a_message_that_cannot_be_routed_harms_no_neighbour(world: World) -> None:
    await world.lead()
    messages = [said(f"{BOT} {number}") for number in range(8)]
    posted = [*await as_posted(world, messages), cast(Posted, None)]
    gate = Gate()
    holding = asyncio.ensure_future(world.database.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait)  # on SQLite, the next calls gather behind it
    route = world.ingest._posted.route
    routing = [asyncio.ensure_future(world.database.write_together(route, new)) for new in posted]
    await asyncio.sleep(0)
    gate.open()
    results = await asyncio.gather(holding, *routing, return_exceptions=True)
    assert results[:-1] == [None, *[NOTHING_MISSING] * 8]
    assert isinstance(results[-1], AttributeError)
    assert [(await world.inbox_message(message)).status for message in messages] == [InboxStatus.UNREAD] * 8


async def test_a_set_reads_and_writes_with_the_same_statements_as_one_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    await world.standings.settled(said("").author)
    run: list[str] = []

    def count(name: str) -> None:
        old = getattr(Transaction, name)

        def counted(tx: Transaction, sql: str, params: object) -> object:
            run.append(sql)
            return old(tx, sql, params)

        monkeypatch.setattr(Transaction, name, counted)

    for name in ("fetch", "execute", "execute_many"):
        count(name)
    roots = [said(f"{BOT} {number}") for number in range(20)]
    replies = [said("more", thread_ts=root.ts) for root in roots]
    used = []
    for messages in (roots[:1], roots[1:], replies[:1], replies[1:]):
        run.clear()
        await at_once(world, messages)
        used.append(list(run))
    assert used[0] == used[1]
    assert used[2] == used[3]
