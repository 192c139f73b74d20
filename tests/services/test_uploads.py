"""A file is put into a thread once, whatever is repeated, lost or killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.domain.errors import (
    BadRequest,
    Conflict,
    Invalid,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    SwarmError,
    TooLarge,
    Unavailable,
    Withdrawn,
)
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.files import INLINE_BYTES, SHARE_DOUBT_SECONDS, Shared
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.threads import ContextState, SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.services.files import uploads
from swarm.services.files.uploads import Uploads
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.tasks import brief
from swarm.services.work.fencing import ThreadReference
from tests.support.slack import Killed
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, World, delete, holding

pytestmark = pytest.mark.req("LOOP-20")

LOST = InDoubt(reason="the connection broke")


async def asked(world: World) -> tuple[Agent, Trigger, SlackMessage]:
    """A lead that holds a message."""
    lead = await world.lead()
    message = await world.says(f"{BOT} a report, please")
    return lead, await world.only(lead, hold=True), message


async def upload(
    world: World,
    lead: Agent,
    trigger: Trigger,
    content: bytes = b"a,b\n",
    *,
    name: str = "report.csv",
    comment: str | None = None,
    request_id: str | None = None,
) -> Shared:
    return await world.services.uploads.upload_content(
        holding(trigger, lead, request_id), ThreadReference(inbox_message_id=trigger.id), name, content, comment=comment
    )


async def stream(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def changes(world: World) -> list[str]:
    rows = await world.rows("SELECT change FROM history WHERE change >= 'file.' AND change < 'file~' ORDER BY seq")
    return [row["change"] for row in rows]


async def test_a_file_lands_in_the_thread_and_in_its_transcript(world: World) -> None:
    lead, trigger, message = await asked(world)
    shared = await upload(world, lead, trigger, comment="<!channel> here *it* is")
    (share,) = world.files.shared
    assert (share.channel, share.thread_ts, share.title) == ("C1", message.ts, "report.csv")
    assert share.comment is not None
    assert "<!channel>" not in share.comment
    assert world.files.placed[share.file_id] == b"a,b\n"
    page = await world.services.conversations.read(lead, ThreadReference(inbox_message_id=trigger.id))
    told = page.messages[-1]
    assert (told.ts, told.author, told.kind) == (shared.ts, "lead", "agent")
    assert [file.name for file in told.files] == ["report.csv"]
    assert (await world.inbox_message(message)).status is InboxStatus.CLAIMED  # a file alone is no answer
    assert await changes(world) == ["file.share", "file.confirm"]


async def test_the_same_call_again_returns_the_first_result_and_moves_nothing(world: World) -> None:
    lead, trigger, _ = await asked(world)
    results = [await upload(world, lead, trigger) for _ in range(3)]
    assert results[0] == results[1] == results[2]
    assert len(world.files.placed) == len(world.files.shared) == 1


async def test_the_result_can_still_be_asked_for_when_the_lease_is_over(world: World) -> None:
    lead, trigger, _ = await asked(world)
    first = await upload(world, lead, trigger)
    await world.later(LEASE_SECONDS)
    assert await upload(world, lead, trigger) == first
    with pytest.raises(LeaseLost):
        await upload(world, lead, trigger, name="another.csv")


async def test_another_content_name_or_request_is_another_file(world: World) -> None:
    lead, trigger, _ = await asked(world)
    await upload(world, lead, trigger)
    await upload(world, lead, trigger, b"c,d\n")
    await upload(world, lead, trigger, name="other.csv")
    await upload(world, lead, trigger, request_id="1")
    await upload(world, lead, trigger, b"whatever", request_id="1")
    assert len(world.files.shared) == 4


async def test_a_streamed_file_is_known_again_by_its_content(world: World) -> None:
    lead, trigger, _ = await asked(world)

    async def call(*pieces: bytes) -> Shared:
        size = sum(map(len, pieces))
        place = ThreadReference(inbox_message_id=trigger.id)
        return await world.services.uploads.upload(holding(trigger, lead), place, "x.bin", size, stream(*pieces))

    first = await call(b"ab", b"", b"cd")
    assert await call(b"abcd") == first
    assert (await call(b"abce")).file_id != first.file_id
    assert len(world.files.shared) == 2


AWS = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.mark.req("SEC-08")
@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("prices.env", b"a\n" * 11 + b"KEY=" + AWS.encode(), "Line 12 of prices.env holds what looks like an AWS key"),
        ("a.txt", AWS.encode() + b"\r\nb", "Line 1 of a.txt holds what looks like an AWS key"),
        ("a.txt", f"\N{SNOWMAN}\n{AWS}".encode("utf-16"), "Line 2 of a.txt holds what looks like an AWS key"),
        ("a.bin", b"\x80\x81\n" + AWS.encode(), "Line 2 of a.bin"),
        ("a.pem", b"\n-----BEGIN PRIVATE KEY-----\n" + b"MIIEpAIBAAKCAQEA7cV3nZ8kR4f9aQ2mX7bL0w" * 2, "a private key"),
        ("a.yml", b"url: https://ann:s3cr3tly@host/x", "Line 1 of a.yml holds what looks like a password"),
        ("x.txt", b"ghp_4f9aQ2mX7bL0cV3nZ8kR4f9aQ2mX7bL0", "a GitHub token"),
        ("x.json", b'{"api_key": "4f9aQ2mX7bL0cV3nZ8kR"}', "Line 1 of x.json holds what looks like a key"),
        (f"{AWS}.txt", b"a", "The file's name holds what looks like an AWS key"),
    ],
)
async def test_a_file_with_a_secret_is_refused_by_its_place_and_nothing_is_shared(
    world: World, name: str, content: bytes, place: str
) -> None:
    lead, trigger, _ = await asked(world)
    with pytest.raises(Invalid, match=place):
        await upload(world, lead, trigger, content, name=name)
    pieces = [content[at : at + 7] for at in range(0, len(content), 7)]  # the secret comes in pieces
    about = ThreadReference(inbox_message_id=trigger.id)
    with pytest.raises(Invalid, match=place):
        await world.services.uploads.upload(holding(trigger, lead), about, name, len(content), stream(*pieces))
    assert world.files.shared == []


@pytest.mark.both_engines
async def test_two_equal_calls_at_once_put_one_file_there(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.go_on = asyncio.Event()
    first = asyncio.create_task(upload(world, lead, trigger, request_id="1"))
    await asyncio.wait_for(world.files.under_way.wait(), PATIENCE_SECONDS)
    second = asyncio.create_task(upload(world, lead, trigger, request_id="1"))  # the first is in the middle of it
    found = await asyncio.wait_for(second, PATIENCE_SECONDS)
    world.files.go_on.set()
    assert await asyncio.wait_for(first, PATIENCE_SECONDS) == found
    assert len(world.files.calls) == 1


async def test_a_lost_answer_is_looked_up_and_the_file_found(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.answers.append((LOST, True))
    shared = await upload(world, lead, trigger)
    assert shared.ts == world.files.timestamps[0]
    assert len(world.files.calls) == 1


async def test_while_nobody_knows_the_file_is_not_shared_again(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.answers.append((LOST, False))
    for _ in range(3):
        with pytest.raises(OutcomeUnknown) as caught:
            await upload(world, lead, trigger)
        assert str(SHARE_DOUBT_SECONDS) in (caught.value.hint or "")
    assert len(world.files.calls) == 1
    world.files.land(world.files.calls[0])  # it was on its way all the time
    assert (await upload(world, lead, trigger)).ts == world.files.timestamps[0]
    assert len(world.files.calls) == len(world.files.shared) == 1


async def test_what_certainly_did_not_land_is_shared_again_without_another_upload(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.answers.append((LOST, False))
    with pytest.raises(OutcomeUnknown):
        await upload(world, lead, trigger)
    await stays_busy(world, lead, trigger, SHARE_DOUBT_SECONDS)
    await upload(world, lead, trigger)
    assert len(world.files.placed) == len(world.files.shared) == 1
    assert len(world.files.calls) == 2
    assert await changes(world) == ["file.share", "file.confirm"]


async def test_a_second_try_is_refused_because_the_first_had_landed_late(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.answers.extend([(LOST, False), (DeliveryRefused(error="file_not_found"), True)])
    with pytest.raises(OutcomeUnknown):
        await upload(world, lead, trigger)
    await stays_busy(world, lead, trigger, SHARE_DOUBT_SECONDS)
    await upload(world, lead, trigger)
    assert len(world.files.shared) == 1


@pytest.mark.both_engines
@pytest.mark.parametrize("lands", [True, False], ids=["Slack had it", "Slack never got it"])
async def test_after_a_kill_in_the_middle_the_repeated_call_shares_it_once(
    world: World, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    lead, trigger, _ = await asked(world)

    async def dies(share: object) -> DeliveryAccepted:
        if lands:
            world.files.land(share)  # type: ignore[arg-type]
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.files, "share", dies)
        with pytest.raises(Killed):
            await upload(world, lead, trigger)
    if not lands:
        with pytest.raises(OutcomeUnknown):
            await upload(world, lead, trigger)
        await stays_busy(world, lead, trigger, SHARE_DOUBT_SECONDS)
    await upload(world, lead, trigger)
    assert len(world.files.shared) == 1
    assert len(world.files.calls) == (0 if lands else 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (DeliveryRefused(error="not_in_channel"), Conflict),
        (NotSent(reason="ratelimited", retry_after_seconds=7), RateLimited),
    ],
    ids=["refused", "not sent"],
)
async def test_what_slack_did_not_do_can_be_tried_again(
    world: World, answer: DeliveryRefused | NotSent, error: type[SwarmError]
) -> None:
    lead, trigger, _ = await asked(world)
    world.files.answers.append((answer, False))
    with pytest.raises(error):
        await upload(world, lead, trigger)
    assert await changes(world) == ["file.share", "file.fail"]
    await upload(world, lead, trigger)
    assert len(world.files.shared) == 1


async def test_a_file_that_slack_does_not_show_yet_makes_the_thread_doubtful(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LOOKS_SECONDS", (0, 0, 0))
    lead, trigger, _ = await asked(world)
    world.files.hides = True
    shared = await upload(world, lead, trigger)
    assert (shared.ts, world.files.looks) == (None, 3)
    page = await world.services.conversations.read(lead, ThreadReference(inbox_message_id=trigger.id))
    assert page.context_incomplete
    assert [row["context"] for row in await world.rows("SELECT context FROM threads")] == [ContextState.STALE]
    assert await upload(world, lead, trigger) == shared  # and it is not shared again


async def test_a_look_that_fails_after_slack_has_accepted_is_no_failure(world: World) -> None:
    lead, trigger, _ = await asked(world)
    world.files.looks_fail.append(Unavailable("Slack cannot be asked."))
    assert (await upload(world, lead, trigger)).ts is None
    assert len(world.files.shared) == 1


# Who may, and what


async def test_a_late_run_puts_no_file_there(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    late = await world.only(lead)
    await world.later(LEASE_SECONDS)
    await world.only(lead)
    for caller in (holding(late, lead), Caller(agent=lead), Caller(agent=lead, lease_token="made-up")):
        with pytest.raises(LeaseLost):
            await world.services.uploads.upload_content(
                caller, ThreadReference(inbox_message_id=late.id), "x.txt", b"x"
            )
    assert world.files.placed == {}


async def test_a_lease_that_is_lost_while_the_content_is_brought_stops_it_before_anybody_sees_it(world: World) -> None:
    lead, trigger, _ = await asked(world)

    async def slow() -> AsyncIterator[bytes]:
        yield b"ab"
        await world.later(LEASE_SECONDS)
        yield b"cd"

    with pytest.raises(LeaseLost):
        await world.services.uploads.upload(
            holding(trigger, lead), ThreadReference(inbox_message_id=trigger.id), "x.bin", 4, slow()
        )
    assert len(world.files.placed) == 1
    assert world.files.calls == []


async def test_another_agent_puts_no_file_into_the_thread(world: World) -> None:
    _, trigger, _ = await asked(world)
    other = await world.worker()
    with pytest.raises(NotFound):
        await upload(world, other, trigger)


async def test_nothing_is_put_below_a_deleted_message(world: World) -> None:
    lead, trigger, message = await asked(world)
    await world.ingest.handle(delete(message))
    with pytest.raises(Withdrawn):
        await upload(world, lead, trigger)


async def test_nothing_is_put_into_a_thread_whose_root_is_gone(world: World) -> None:
    lead, trigger, message = await asked(world)
    await world.answers(lead, trigger, "hello")
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DONE)
    await world.says("and a file?", thread=message)
    second = await world.only(lead)
    await world.ingest.handle(delete(message))
    with pytest.raises(Conflict, match="first message was deleted in Slack"):
        await upload(world, lead, second)
    assert world.files.placed == {}


async def test_a_thread_alone_does_not_say_on_whose_account(world: World) -> None:
    lead, trigger, _ = await asked(world)
    assert trigger.thread is not None
    with pytest.raises(Invalid):
        await world.services.uploads.upload_content(
            holding(trigger, lead), ThreadReference(thread_id=trigger.thread.id), "x.txt", b"x"
        )


async def test_a_file_over_a_cap_is_refused_before_anything_is_sent(world: World) -> None:
    lead, trigger, _ = await asked(world)
    with pytest.raises(TooLarge, match="a tool call carries"):
        await upload(world, lead, trigger, b"x" * (INLINE_BYTES + 1))
    small = Uploads(world.database, world.files, cap_bytes=3)
    with pytest.raises(TooLarge, match="at most 3"):
        await small.upload(
            holding(trigger, lead), ThreadReference(inbox_message_id=trigger.id), "x", 4, stream(b"abcd")
        )
    assert world.files.placed == {}


@pytest.mark.parametrize("pieces", [(b"abc",), (b"abcd", b"e"), ()], ids=["too few", "too many", "none"])
async def test_another_number_of_bytes_than_announced_is_refused(world: World, pieces: tuple[bytes, ...]) -> None:
    lead, trigger, _ = await asked(world)
    with pytest.raises(BadRequest):
        await world.services.uploads.upload(
            holding(trigger, lead), ThreadReference(inbox_message_id=trigger.id), "x", 4, stream(*pieces)
        )
    assert world.files.calls == []


async def stays_busy(world: World, lead: Agent, trigger: Trigger, seconds: int) -> None:
    """Time goes by, and the run keeps its lease."""
    for _ in range(0, seconds, 30):
        world.clock.advance(30)
        await world.services.work.renew(lead, [trigger.lease_token])


# By a task


async def test_a_worker_puts_a_file_into_the_thread_of_its_task_once(world: World) -> None:
    lead, trigger, message = await asked(world)
    worker = await world.worker()
    await world.services.delegations.delegate(holding(trigger, lead), trigger.id, "worker", brief("Write it"))
    task = await world.only(worker)
    place = ThreadReference(task_id=task.id)
    calls = [
        await world.services.uploads.upload_content(holding(task, worker), place, "report.csv", b"a,b")
        for _ in range(2)
    ]
    assert calls[0] == calls[1]
    (share,) = world.files.shared
    assert (share.channel, share.thread_ts) == ("C1", message.ts)
    with pytest.raises(Conflict, match="not yours to work on"):
        await world.services.uploads.upload_content(holding(trigger, lead), place, "report.csv", b"a,b")
    await world.later(LEASE_SECONDS)
    with pytest.raises(LeaseLost):
        await world.services.uploads.upload_content(holding(task, worker), place, "other.csv", b"a,b")


async def test_a_task_without_a_thread_has_no_place_for_a_file(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.services.tasks.create(Caller(agent=lead), brief("Think"), agent="worker")
    task = await world.only(worker)
    with pytest.raises(Invalid, match="no thread"):
        await world.services.uploads.upload_content(
            holding(task, worker), ThreadReference(task_id=task.id), "x.txt", b"x"
        )
