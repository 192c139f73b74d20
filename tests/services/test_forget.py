"""Forgetting a person: nothing that they wrote or that names them is left, and nothing of it comes back."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Invalid, NotFound
from swarm.domain.model.feedback import Opinion, Reason
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.language_models import Door, ModelUsage, ModelUsageRecord, UsageOutcome
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.model.tasks import TaskStatus
from swarm.services.operate.people import PersonalData
from swarm.services.runs.feedback import answer_of
from swarm.store import forgotten
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import model_usage
from swarm.store.runs import feedback
from tests.services.test_erasure import block, memory
from tests.support.runs import begun
from tests.support.scan import files_with, places_of
from tests.support.slack import PEOPLE
from tests.support.tasks import hand, status_of, work_of
from tests.support.world import BOT, World, edit, said

pytestmark = pytest.mark.req("SEC-06")

ANN, WORD = "UANN0042", "zebra-4711"
SECRET = f"my number is {WORD}"


def used(run: str, world: World) -> ModelUsageRecord:
    """What a run of hers has used."""
    now = world.clock.now_us()
    return ModelUsageRecord(
        id=run, agent="lead", door=Door.SLACK, session_id=f"slack:C1:{ANN}", run_id="t", requester=ANN, model="m",
        outcome=UsageOutcome.ANSWERED, note="", usage=ModelUsage(), started_at=now, ended_at=now,
    )  # fmt: skip


def _rate(tx: Transaction, run_id: str) -> None:
    answer = answer_of(tx, run_id, "C1")
    assert answer is not None
    reason, comment = Reason.OTHER, f"it is {SECRET}"
    feedback.give(tx, answer, ANN, Opinion.DOWN, message_ts="1.000100", reason=reason, comment=comment)


async def test_nothing_of_a_person_is_left_and_the_second_time_there_is_nothing(
    world: World, database_url: str
) -> None:
    """With an open task of hers, a message that nobody has read, memories, an opinion, and others who mention her."""
    world.clock.advance(10**9)  # later than all that is said
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} {SECRET}", by=ANN)
    trigger = await work_of(world, lead)
    run = await begun(world, lead, trigger)
    await memory(world).add_run(f"slack:C1:{ANN}", run.agui_run_id, block(run, SECRET), run_id=run.id)
    await memory(world).add_run("slack:C1:1.0", "other", block(run, SECRET), run_id=run.id)
    await world.database.write(_rate, run.id)
    await world.database.write(model_usage.note, used("before", world))
    await world.change(f"UPDATE runs SET requester = '{ANN}', stop_requested_by = '{ANN}'")
    task_id = await hand(world, lead, trigger, worker, what=f"Note: {SECRET}")
    await world.says(f"and <@{ANN}> is right", thread=root, by="U2")
    unread = await world.says(f"{BOT} also {WORD}", by=ANN)
    early = said(f"too early {WORD}", by=ANN, thread_ts=said("?").ts)
    await world.hears(early)
    counted = await world.services.people.forget(ANN, dry_run=True)
    assert counted.removed["messages"] == 2
    assert await places_of(world.database, WORD, ANN), "a dry run changes nothing"
    done = await world.services.people.forget(ANN)
    assert done.removed.keys() >= {
        "messages", "copies", "cancelled tasks", "sessions", "opinions", "runs", "mentions", "early messages",
    }, done  # fmt: skip
    assert await places_of(world.database, WORD, ANN) == {}
    assert files_with(database_url, WORD, ANN) == []
    assert await status_of(world, task_id) is TaskStatus.CANCELLED
    assert (await world.inbox_message(unread)).status is InboxStatus.WITHDRAWN
    assert (await world.services.people.forget(ANN)).removed == {}
    assert await world.poll(lead) is not None, "the others go on"


async def test_what_they_wrote_does_not_come_back_from_slacks_history_nor_by_a_late_edit(world: World) -> None:
    lead = await world.lead()
    world.clock.advance(10**9)
    root, reply = said(f"{BOT} {SECRET}", by=ANN), said("hi", by="U2")
    await world.hears(root)
    await world.answers(lead, await world.only(lead), "noted")
    await world.services.people.forget(ANN)
    await world.ingest.handle(edit(root, f"{BOT} {SECRET}!"))
    other = said(SECRET, by=ANN, thread_ts=root.ts)
    again = said(f"{BOT} go on", by="U2", thread_ts=root.ts)
    world.slack.threads["C1", root.ts] = [root, other, again]
    await world.change("UPDATE threads SET context = 'stale'")
    await world.change("DELETE FROM thread_messages")
    await world.hears(again)
    assert await world.backfill.read_due() == 1
    trigger = await world.only(lead)
    assert [one.text for one in trigger.thread_context] == ["[deleted]", "@UBOT go on"]
    assert await places_of(world.database, WORD, ANN) == {}
    await world.answers(lead, trigger, "still possible, though the thread began with what is forgotten")
    assert reply.ts


async def test_what_they_write_later_is_heard_as_ever(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} {SECRET}", by=ANN)
    await world.services.people.forget(ANN)
    await world.says(f"{BOT} hello again", by=ANN)
    assert [each.text for trigger in await world.poll(lead) for each in trigger.inbox_messages] == ["@UBOT hello again"]


async def test_a_run_that_ends_after_its_person_is_forgotten_leaves_no_trace(world: World) -> None:
    lead = await world.lead()
    world.clock.advance(10**9)
    await world.says(f"{BOT} {SECRET}", by=ANN)
    run = await begun(world, lead, await world.only(lead, hold=True))
    late = used("late", world)
    await world.services.people.forget(ANN)
    await memory(world).add_run(f"slack:C1:{ANN}", run.agui_run_id, block(run, SECRET), run_id=run.id)
    await world.database.write(model_usage.note, late)
    assert await places_of(world.database, WORD, ANN) == {}


@pytest.mark.both_engines
async def test_people_are_found_by_the_name_they_go_by(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.lead()
    for person, name in ((ANN, "Ann"), ("UBOB0001", "bob"), ("UBOB0002", "bob")):
        monkeypatch.setitem(PEOPLE, person, name)
        await world.says(f"{BOT} hello", by=person)
    assert (await world.services.people.forget("@ann", dry_run=True)).person == ANN
    with pytest.raises(Conflict, match="UBOB0001, UBOB0002"):
        await world.services.people.forget("@bob")
    with pytest.raises(NotFound, match="@zoe"):
        await world.services.people.forget("@zoe")
    with pytest.raises(Invalid):
        await world.services.people.forget("ann")


def test_only_a_digest_tells_who_is_forgotten() -> None:
    assert ANN not in forgotten.digest(ANN)
    assert forgotten.digest(ANN) != forgotten.digest("UANN0043")


@pytest.mark.both_engines
async def test_other_people_and_their_sessions_stay(world: World) -> None:
    await world.lead()
    hers = [SessionMessage(role=MessageRole.USER, text="one"), SessionMessage(role=MessageRole.ASSISTANT, text="two")]
    for person in (ANN, f"{ANN}7"):
        await memory(world).add_run(f"slack:C1:{person}", "run" + person, hers)
        await world.says(f"{BOT} from {person}", by=person)
    unnamed: list[str] = []
    await PersonalData(world.database, world.operating_policy, forget_name=unnamed.append).forget(ANN)
    assert unnamed == [ANN], "what is known of her beside the database goes as well"
    assert len(await memory(world).get_messages(f"slack:C1:{ANN}7")) == 2
    assert (await places_of(world.database, f"{ANN}7"))["thread_messages.author_id"] == 1
