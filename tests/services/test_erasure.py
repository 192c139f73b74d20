"""What is deleted or changed in Slack is found nowhere afterwards: in no table, and in no file of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from swarm.domain.answers.calls import Closing
from swarm.domain.answers.events import Asked, Interrupted, TextDelta
from swarm.domain.model.runs import PageKind, RunOutcome, RunStep
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.model.threads import MessageDeleted
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from tests.support.live import Scripted, ends, hired, playing, says
from tests.support.runs import asked, begun
from tests.support.scan import files_with, places_of
from tests.support.tasks import hand, task_of, work_of
from tests.support.world import BOT, World, delete, edit, holding, said

pytestmark = pytest.mark.req("SEC-06")

SECRET = "the launch code is zebra-4711 & more"
AS_SLACK_HAS_IT = "the launch code is zebra-4711 &amp; more"
WORD = "zebra-4711"


async def summed_up(session_id: str, messages: Sequence[SessionMessage]) -> str:
    return " ".join(message.text for message in messages)


def memory(world: World, agent: str = "lead") -> DatabaseMemory:
    """One that summarises what is longer than two messages, and keeps one as it is."""
    return DatabaseMemory(world.database, agent, summed_up, compaction_threshold=2, keep_recent_messages=1)


def block(run: Run, text: str, answer: str = "noted") -> list[SessionMessage]:
    """What is remembered of a run: what it was asked, what it did, what it said."""
    return [
        *(
            SessionMessage(role=MessageRole.USER, text=text, source=inbox_message)
            for inbox_message in run.inbox_message_ids
        ),
        SessionMessage(role=MessageRole.TOOL_USE, call_id="1", tool="look", arguments={"for": text}),
        SessionMessage(role=MessageRole.TOOL_RESULT, call_id="1", tool="look", text=text),
        SessionMessage(role=MessageRole.ASSISTANT, text=answer),
    ]


async def remembered(world: World, session_id: str = "slack:C1:U1") -> list[str]:
    return [message.text for message in await memory(world).get_messages(session_id)]


async def files_of(world: World, database_url: str) -> list[str]:
    """After a round of the tidying."""
    await world.sweeper.tidy()
    return files_with(database_url, WORD) if database_url.startswith("sqlite") else []


async def test_a_deleted_message_is_found_nowhere(world: World, database_url: str) -> None:
    """Delegated, reported on, talked about between agents, remembered and summarised."""
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} {AS_SLACK_HAS_IT}")
    trigger = await work_of(world, lead)
    await world.ingest.handle(edited := edit(root, f"{BOT} {AS_SLACK_HAS_IT}!"))
    run = await begun(world, lead, trigger)
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, block(run, SECRET), run_id=run.id)
    assert await memory(world).compact_session("slack:C1:U1")
    task_id = await hand(world, lead, trigger, worker, what=f"Please do this: {SECRET}\nThank you.")
    work = await work_of(world, worker)
    await world.services.task_work.progress(holding(work, worker), task_id, f"half of {SECRET!r}")
    await world.services.messages.send(holding(work, worker), f"he said: {SECRET}", to="lead")
    await world.send()
    before = await places_of(world.database, WORD)
    assert before.keys() >= {
        "agent_messages.text", "deliveries.text", "notices.text", "session_messages.content", "sessions.summary",
        "tasks.description", "tasks.progress", "thread_messages.text",
    }, before  # fmt: skip
    await world.ingest.handle(delete(edited.message))
    assert await places_of(world.database, WORD) == {}
    assert await files_of(world, database_url) == []
    assert "Thank you." in (await task_of(world, task_id)).description, "the worker's own part of it stays"


@pytest.mark.both_engines
async def test_an_edited_message_leaves_nothing_of_what_it_said_before(world: World, database_url: str) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead, f"{BOT} {AS_SLACK_HAS_IT}")
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, block(run, SECRET), run_id=run.id)
    await memory(world).compact_session("slack:C1:U1")
    await world.ingest.handle(first := edit(root, f"{BOT} well, {AS_SLACK_HAS_IT}?"))
    await world.ingest.handle(edit(first.message, f"{BOT} never mind, ask later"))
    assert await places_of(world.database, WORD) == {}
    assert await files_of(world, database_url) == []
    assert (await remembered(world))[0] == "never mind, ask later"
    assert (await remembered(world))[-1] == "noted", "it is still known what was answered"


@pytest.mark.both_engines
async def test_what_else_a_run_read_and_what_other_runs_said_is_still_remembered(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} {SECRET}")
    other = await world.says(f"{BOT} and the weather?", thread=root)
    trigger = await world.only(lead, hold=True)
    run = await begun(world, lead, trigger)
    (first, second) = [inbox_message.id for inbox_message in trigger.inbox_messages]
    questions = [
        SessionMessage(role=MessageRole.USER, text=SECRET, source=first),
        SessionMessage(role=MessageRole.USER, text="and the weather?", source=second),
    ]
    answer = SessionMessage(role=MessageRole.ASSISTANT, text="four digits, and rain")
    earlier = [
        SessionMessage(role=MessageRole.USER, text="hello"),
        SessionMessage(role=MessageRole.ASSISTANT, text="hi"),
    ]
    await memory(world).add_run("slack:C1:U1", "earlier", earlier)
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, [*questions, answer], run_id=run.id)
    await memory(world).compact_session("slack:C1:U1")
    assert WORD in (await remembered(world))[0]
    await world.ingest.handle(delete(root))
    assert await remembered(world) == ["hello", "hi", "and the weather?"]
    assert await memory(world).compact_session("slack:C1:U1"), "and summarised anew, of what is left"
    await world.ingest.handle(delete(other))
    assert await remembered(world) == ["hello hi"]


@pytest.mark.parametrize("is_late", [True, False], ids=["after the delete", "at the same moment"])
async def test_a_run_that_read_a_message_while_it_was_deleted_remembers_nothing_of_it(
    world: World, is_late: bool
) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead, f"{BOT} {SECRET}")
    deleting = asyncio.ensure_future(world.ingest.handle(delete(root)))
    if is_late:
        await deleting
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, block(run, SECRET), run_id=run.id)
    await deleting
    assert await places_of(world.database, WORD) == {}


async def test_a_run_that_read_a_message_while_it_was_changed_remembers_what_it_says_now(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead, f"{BOT} {SECRET}")
    await world.ingest.handle(edit(root, f"{BOT} never mind"))
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, block(run, SECRET, f"So {SECRET}?"), run_id=run.id)
    assert (await remembered(world))[0] == "never mind"
    assert WORD not in "".join(await remembered(world))


async def test_a_deleted_answer_is_not_stored_any_more(world: World, database_url: str) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} what is it?")
    await world.answers(lead, await world.only(lead), SECRET)
    await world.send()
    (sent,) = await world.rows("SELECT sent_ts FROM deliveries WHERE kind = 'post'")
    await world.ingest.handle(MessageDeleted(channel="C1", ts=sent["sent_ts"], thread_ts=root.ts))
    assert await places_of(world.database, WORD) == {}
    assert await files_of(world, database_url) == []
    (kept,) = await world.rows("SELECT status FROM deliveries WHERE kind = 'post'")
    assert kept == {"status": "sent"}, "that there was an answer is known"


def show(tx: Transaction, run: Run, ts: str) -> None:
    """A page of an answer, as far as it is written."""
    run_pages.open_page(tx, run.id, 1, PageKind.STREAM)
    run_pages.page_opened(tx, run.id, 1, ts)
    run_pages.page_text(tx, run.id, 1, SECRET)


def over(tx: Transaction, run: Run) -> None:
    runs.closing(tx, run.id, text=SECRET, closing=Closing(), outcome=RunOutcome.ANSWERED, note=None)
    runs.end(tx, run.id, RunStep.ANSWER)


@pytest.mark.both_engines
@pytest.mark.parametrize("is_over", [True, False], ids=["afterwards", "while it is written"])
async def test_a_deleted_live_answer_goes_with_what_is_remembered_of_it(world: World, is_over: bool) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead, f"{BOT} tell me")
    post = said(SECRET, by="UBOT", thread_ts=root.ts)
    deleted = MessageDeleted(channel="C1", ts=post.ts, thread_ts=root.ts)
    await world.database.write(show, run, post.ts)
    if not is_over:
        await world.ingest.handle(deleted)
        await world.change(f"UPDATE thread_messages SET author_kind = 'agent' WHERE ts = '{post.ts}'")
    await world.database.write(over, run)
    await memory(world).add_run("slack:C1:U1", run.agui_run_id, block(run, "tell me", SECRET), run_id=run.id)
    if is_over:
        await world.change(
            "INSERT INTO thread_messages (team, channel, ts, thread_ts, author_id, author_kind, text, files, stored_at)"
            f" VALUES ('T1', 'C1', '{post.ts}', '{root.ts}', 'lead', 'agent', '{SECRET}', '[]', {run.started_at})"
        )
        await world.ingest.handle(deleted)
    else:
        assert await places_of(world.database, WORD)
        await world.sweeper.tidy()
    assert await places_of(world.database, WORD) == {}
    assert await remembered(world) == ["tell me"]


async def test_a_reply_that_was_deleted_before_its_thread_was_known_is_not_kept(world: World) -> None:
    await world.lead()
    root = said(f"{BOT} hello")
    reply = said(SECRET, thread_ts=root.ts)
    await world.hears(reply)
    assert await places_of(world.database, WORD) == {"early_messages.message": 1}
    await world.ingest.handle(delete(reply))
    assert await places_of(world.database, WORD) == {}


async def test_a_short_message_is_not_cut_out_of_longer_words(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count")
    task_id = await hand(world, lead, await work_of(world, lead), worker, what="Recount the counters.")
    await world.ingest.handle(delete(root))
    assert (await task_of(world, task_id)).description == "Recount the counters."


async def test_what_other_people_wrote_is_theirs_and_stays(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} {SECRET}")
    await world.answers(lead, await world.only(lead), "noted")
    await world.says(f"yes, {SECRET}", thread=root, by="U2")
    await world.ingest.handle(delete(root))
    assert await places_of(world.database, WORD) == {"thread_messages.text": 1}


async def test_what_a_worker_remembers_of_the_task_that_a_message_became_goes_with_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} {SECRET}")
    task_id = await hand(world, lead, await work_of(world, lead), worker, what="Look into that number of his.")
    question = SessionMessage(role=MessageRole.USER, text="Look into that number of his.", source=task_id)
    answer = SessionMessage(role=MessageRole.ASSISTANT, text="It is four digits long.")
    await memory(world, "worker").add_run("slack:C1:U1", "run", [question, answer])
    await world.ingest.handle(delete(root))
    assert await memory(world, "worker").get_messages("slack:C1:U1") == []
    late = [question, answer]
    await memory(world, "worker").add_run("slack:C1:U1", "late", late)
    assert await memory(world, "worker").get_messages("slack:C1:U1") == []


async def test_what_an_agent_repeated_before_its_question_goes_while_it_waits(world: World) -> None:
    question = Interrupted(asked=(Asked(id="i1", prompt=f"May I use {SECRET}?"),))
    ada = Scripted(says("Noted."))
    ada.scripts.append(says("Noted."))
    ada.scripts.append(ends(TextDelta(text=f"You said: {SECRET}.", message_id="1"), question))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} {AS_SLACK_HAS_IT}")
        await show.over(root)
        await show.over(await world.says(f"{BOT} deploy it", thread=root), 2)
        await world.ingest.handle(delete(root))
        await world.send()
        assert await places_of(world.database, WORD) == {}
