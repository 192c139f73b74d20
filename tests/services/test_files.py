"""Attachments and transcripts: what an agent may read, and what it gets."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from swarm.domain.errors import Invalid, NotFound, TooLarge
from swarm.domain.model.agents import Agent
from swarm.domain.model.files import TEXT_BYTES
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.model.threads import File, SlackMessage
from swarm.services.files.files import ThreadFiles
from swarm.services.tasks.tasks import brief
from swarm.services.work.fencing import ThreadReference
from tests.support.world import BOT, World, delete, holding, said

pytestmark = pytest.mark.req("LOOP-20")

REPORT = File(id="F1", name="F1.txt", mimetype="text/plain", size_bytes=5)


async def shares_a_file(world: World, text: str = f"{BOT} look", file: File = REPORT) -> SlackMessage:
    """Somebody writes to the bot and attaches a file."""
    return await world.hears(replace(said(text), files=(file,)))


def about(message_id: str) -> ThreadReference:
    return ThreadReference(inbox_message_id=message_id)


async def test_an_attachment_is_listed_in_the_inbox_message_and_its_text_can_be_had(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"hello")
    await shares_a_file(world)
    (inbox_message,) = (await world.only(lead)).inbox_messages
    assert inbox_message.files == (REPORT,)
    shown = await world.services.files.show(lead, about(inbox_message.id), "F1")
    assert (shown.info.name, shown.text) == ("F1.txt", "hello")
    assert shown.sha256 == hashlib.sha256(b"hello").hexdigest()
    assert [opened.closed for opened in world.files.opened] == [True]


async def test_a_file_can_be_had_by_the_thread_and_from_earlier_messages_of_it(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"hello")
    root = await shares_a_file(world)
    first = await world.only(lead)
    await world.answers(lead, first, "thanks")
    await world.says("and now?", thread=root)
    later = await world.only(lead)
    assert later.thread is not None
    for place in (about(later.id), ThreadReference(thread_id=later.thread.id)):
        assert (await world.services.files.show(lead, place, "F1")).text == "hello"


@pytest.mark.parametrize(
    ("mimetype", "content"),
    [
        ("application/octet-stream", b"\xff\xfe\x00binary"),
        ("text/plain", b"nul \x00 in it"),
        ("image/png", b"pretends to be text"),
        ("text/plain", b"x" * (TEXT_BYTES + 1)),
    ],
    ids=["not UTF-8", "NUL", "an image", "too long"],
)
async def test_what_is_no_small_text_is_described_without_its_content(
    world: World, mimetype: str, content: bytes
) -> None:
    lead = await world.lead()
    world.files.keep("F1", content, mimetype)
    await shares_a_file(world)
    shown = await world.services.files.show(lead, about((await world.only(lead)).id), "F1")
    assert (shown.text, shown.info.size_bytes) == (None, len(content))


async def test_a_text_that_turns_out_longer_than_slack_said_is_refused(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"x" * (TEXT_BYTES + 1), size=5)
    await shares_a_file(world)
    trigger = await world.only(lead)
    with pytest.raises(TooLarge):
        await world.services.files.show(lead, about(trigger.id), "F1")
    assert [opened.closed for opened in world.files.opened] == [True]


async def test_a_file_over_the_cap_is_refused_before_it_is_opened(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"hello")
    await shares_a_file(world)
    trigger = await world.only(lead)
    small = ThreadFiles(world.database, world.files, cap_bytes=4)
    with pytest.raises(TooLarge, match="5 bytes; at most 4"):
        await small.show(lead, about(trigger.id), "F1")
    with pytest.raises(TooLarge):
        await small.open(lead, about(trigger.id), "F1")
    assert world.files.opened == []


async def test_another_agents_thread_and_its_files_look_as_if_they_did_not_exist(world: World) -> None:
    lead, other = await world.lead(), await world.worker()
    world.files.keep("F1", b"hello")
    await shares_a_file(world)
    trigger = await world.only(lead)
    assert trigger.thread is not None
    for place in (
        about(trigger.id),
        ThreadReference(thread_id=trigger.thread.id),
        ThreadReference(thread_id="none"),
        about("none"),
    ):
        with pytest.raises(NotFound, match="no such thread"):
            await world.services.files.show(other, place, "F1")
        with pytest.raises(NotFound, match="no such thread"):
            await world.services.conversations.read(other, place)


async def test_a_file_of_another_thread_is_not_found_though_slack_has_it(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"hello")
    world.files.keep("F2", b"secret")
    await shares_a_file(world)
    trigger = await world.only(lead)
    for file_id in ("F2", "F", "f1", "%", ""):
        with pytest.raises(NotFound, match="no file"):
            await world.services.files.show(lead, about(trigger.id), file_id)


async def test_a_deleted_message_is_gone_and_its_file_with_it(world: World) -> None:
    lead = await world.lead()
    world.files.keep("F1", b"hello")
    message = await shares_a_file(world)
    trigger = await world.only(lead)
    await world.ingest.handle(delete(message))
    with pytest.raises(NotFound, match="no file"):
        await world.services.files.show(lead, about(trigger.id), "F1")
    assert (await world.services.conversations.read(lead, about(trigger.id))).messages == ()


async def test_an_agent_keeps_the_sight_of_a_thread_that_has_gone_to_another(world: World) -> None:
    """It was leased a message there, which was handed to another agent since."""
    lead, other = await world.lead(), await world.lead("second")
    world.files.keep("F1", b"hello")
    await shares_a_file(world)
    trigger = await world.only(lead)
    assert trigger.thread is not None
    await world.later(LEASE_SECONDS)
    await gives_away(world, lead, other)
    shown = await world.services.files.show(lead, ThreadReference(thread_id=trigger.thread.id), "F1")
    assert shown.text == "hello"


async def test_exactly_one_id_says_which_thread_is_meant(world: World) -> None:
    for ids in ({}, {"task_id": "1", "thread_id": "2"}):
        with pytest.raises(Invalid) as caught:
            ThreadReference(**ids)
        assert set(caught.value.fields) == {"inbox_message_id", "task_id", "thread_id"}


# A thread, page by page


async def test_a_thread_is_read_page_by_page_with_names_and_files(world: World) -> None:
    lead = await world.lead()
    root = await shares_a_file(world)
    trigger = await world.only(lead)
    for number in range(4):
        await world.says(f"more {number} <@U2>", thread=root, by="U2")
    texts: list[str] = []
    after: str | None = None
    for _ in range(3):
        page = await world.services.conversations.read(lead, about(trigger.id), after_ts=after, limit=2)
        texts += [message.text for message in page.messages]
        after = page.next_after_ts
    assert texts == ["@UBOT look", "more 0 @bob", "more 1 @bob", "more 2 @bob", "more 3 @bob"]
    assert after is None
    first = await world.services.conversations.read(lead, about(trigger.id), limit=1)
    assert first.messages[0].files == (REPORT,)
    assert first.messages[0].author == "alice"
    assert first.thread.channel_name == "#general"
    assert not first.context_incomplete


async def test_a_page_that_ends_with_the_thread_has_no_next(world: World) -> None:
    lead = await world.lead()
    root = await shares_a_file(world)
    trigger = await world.only(lead)
    await world.says("two", thread=root)
    page = await world.services.conversations.read(lead, about(trigger.id), limit=2)
    assert (len(page.messages), page.next_after_ts) == (2, None)


@pytest.mark.parametrize("after_ts", ["", "yesterday", "1700000000", "1.2.3", "～"])
async def test_a_malformed_timestamp_is_refused(world: World, after_ts: str) -> None:
    lead = await world.lead()
    await shares_a_file(world)
    trigger = await world.only(lead)
    with pytest.raises(Invalid) as caught:
        await world.services.conversations.read(lead, about(trigger.id), after_ts=after_ts)
    assert list(caught.value.fields) == ["after_ts"]


async def test_a_thread_that_is_not_known_as_a_whole_says_so(world: World) -> None:
    lead = await world.lead()
    await world.hears(said(f"{BOT} hello", thread_ts="1600000000.000100"))  # its beginning was never heard
    await world.sweep()
    await world.later(11)
    trigger = await world.only(lead)
    page = await world.services.conversations.read(lead, about(trigger.id))
    assert page.context_incomplete


async def gives_away(world: World, agent: Agent, other: Agent) -> None:
    """What waits for one agent goes to another, with its threads."""
    await world.change(f"UPDATE inbox_messages SET agent_id = '{other.id}' WHERE agent_id = '{agent.id}'")
    await world.change(f"UPDATE threads SET owner_id = '{other.id}' WHERE owner_id = '{agent.id}'")


# By a task


@pytest.mark.both_engines
async def test_worker_and_lead_read_the_thread_of_their_task_and_its_files(world: World) -> None:
    lead, worker, other = await world.lead(), await world.worker(), await world.worker("other")
    world.files.keep("F1", b"hello")
    await shares_a_file(world)
    task_id = await delegates(world, lead, worker)
    for agent in (lead, worker):
        page = await world.services.conversations.read(agent, ThreadReference(task_id=task_id))
        assert [message.text for message in page.messages] == ["@UBOT look"]
        assert (await world.services.files.show(agent, ThreadReference(task_id=task_id), "F1")).text == "hello"
    for place in (ThreadReference(task_id=task_id), ThreadReference(task_id="none")):
        with pytest.raises(NotFound):
            await world.services.files.show(other, place, "F1")


async def delegates(world: World, lead: Agent, worker: Agent) -> str:
    """The lead gives the message that it gets to a worker."""
    trigger = await world.only(lead)
    delegated = await world.services.delegations.delegate(
        holding(trigger, lead), trigger.id, worker.name, brief("Look at the file")
    )
    return delegated["task_id"]
