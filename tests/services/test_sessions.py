"""What built-in agents remember: whole, in order, for each agent apart, and over every restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from structlog.testing import capture_logs

from swarm.clock import ManualClock
from swarm.domain.errors import Invalid, NotFound, RateLimited, Unavailable
from swarm.domain.model.agents import Reach
from swarm.domain.model.sessions import MOST_BYTES, Memory, MessageRole, SessionMessage
from swarm.services.builtin.sessions import BuiltInOwner, DatabaseMemory
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.builtin import session_lists, sessions
from tests.support.locks import held, somebody_waits
from tests.support.memories import registered
from tests.support.world import look

pytestmark = pytest.mark.req("AGENT-05")

HERE = "slack:C1:U1"
PATIENCE_SECONDS = 20.0
SECOND_US = 1_000_000


def said(text: str, role: MessageRole = MessageRole.USER) -> SessionMessage:
    return SessionMessage(role=role, text=text)


def block(name: str, size: int = 3) -> list[SessionMessage]:
    """What a run adds."""
    return [said(f"{name}{number}") for number in range(size)]


def calling(*call_ids: str) -> list[SessionMessage]:
    """Calls of a tool side by side, and their results."""
    return [
        *(SessionMessage(role=MessageRole.TOOL_USE, call_id=each, tool="search") for each in call_ids),
        *(SessionMessage(role=MessageRole.TOOL_RESULT, call_id=each, tool="search", text="x") for each in call_ids),
    ]


def texts(messages: Sequence[SessionMessage]) -> list[str]:
    return [message.text for message in messages]


class Summariser:
    """Says what it was given, once it may."""

    def __init__(self, *, waits: bool = False) -> None:
        self.given: list[list[str]] = []
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        if not waits:
            self.may_answer.set()

    async def __call__(self, session_id: str, messages: Sequence[SessionMessage]) -> str:
        self.given.append(texts(messages))
        self.asked.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.may_answer.wait()
        return f"sum({' '.join(texts(messages))})"


def short(database: Database, summarise: Summariser | None = None, agent: str = "assistant") -> DatabaseMemory:
    """A memory that is long with more than four messages, and keeps two as they are."""
    return DatabaseMemory(database, agent, summarise, compaction_threshold=4, keep_recent_messages=2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


@pytest.fixture
async def another(database: Database, database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    """The same database, as another process has it open."""
    async with Database(database_url, clock=clock) as opened:
        yield opened


# Sessions and messages


@pytest.mark.both_engines
async def test_a_session_is_made_once_and_keeps_its_metadata_but_for_the_keys_given(
    database: Database, clock: ManualClock
) -> None:
    memory: Memory = DatabaseMemory(database, "assistant", None)
    made = await memory.get_or_create_session(HERE, {"channel": "C1", "n": {"deep": [1, None]}})
    assert (made.id, made.agent, made.messages, made.created_at) == (HERE, "assistant", 0, clock.now_us())
    assert made.metadata == {"channel": "C1", "n": {"deep": [1, None]}}
    await memory.add_message(HERE, "user", "hello")
    clock.advance(5)
    again = await memory.get_or_create_session(HERE, {"channel": "C2", "nul": "\0"})
    assert again.metadata == {"channel": "C2", "n": {"deep": [1, None]}, "nul": "\ufffd"}
    assert (again.messages, again.created_at) == (1, made.created_at)
    assert again.updated_at == made.updated_at + 5 * SECOND_US
    assert (await memory.get_or_create_session(HERE)).metadata == again.metadata


async def test_messages_of_all_roles_come_back_as_they_were_in_order(database: Database, clock: ManualClock) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    await memory.add_message(HERE, "system", "Be kind. \N{SNOWMAN}")
    await memory.add_message(HERE, MessageRole.USER, "hello")
    arguments = {"query": "\N{SNOWMAN}", "deep": [1, {"a": None}], "large": 2**70, "half": 0.5}
    await memory.add_message(HERE, "tool_use", {"id": "c1", "name": "search", "arguments": arguments})
    answer = {"id": "c1", "name": "search", "content": "none", "failed": True}
    last = await memory.add_message(HERE, "tool_result", answer)
    await memory.add_run(HERE, "r1", [SessionMessage(role=MessageRole.ASSISTANT, text="hi", author="Ann")])
    told = await memory.get_messages(HERE)
    moment = clock.now_us()
    assert told == [
        SessionMessage(role=MessageRole.SYSTEM, text="Be kind. \N{SNOWMAN}", position=1, created_at=moment),
        SessionMessage(role=MessageRole.USER, text="hello", position=2, created_at=moment),
        SessionMessage(
            role=MessageRole.TOOL_USE, call_id="c1", tool="search", arguments=arguments, position=3, created_at=moment
        ),
        last,
        SessionMessage(role=MessageRole.ASSISTANT, text="hi", author="Ann", position=5, created_at=moment),
    ]
    assert last == SessionMessage(
        role=MessageRole.TOOL_RESULT,
        call_id="c1",
        tool="search",
        text="none",
        failed=True,
        position=4,
        created_at=moment,
    )
    assert await memory.get_originals(HERE) == told


async def test_agents_and_sessions_remember_apart(database: Database) -> None:
    ann, bob = DatabaseMemory(database, "ann", None), DatabaseMemory(database, "bob", None)
    await ann.add_run(HERE, "r1", block("a"))
    await bob.add_run(HERE, "r1", block("b"))
    await ann.add_message("cli:1", "user", "elsewhere")
    assert texts(await ann.get_messages(HERE)) == ["a0", "a1", "a2"]
    assert texts(await bob.get_messages(HERE)) == ["b0", "b1", "b2"]
    assert texts(await ann.get_messages("cli:1")) == ["elsewhere"]
    assert await bob.get_messages("cli:1") == []


async def test_the_last_messages_are_given_with_the_calls_of_their_results(database: Database) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    await memory.add_run(HERE, "r1", [*block("a"), *calling("c1", "c2"), said("end")])
    assert [len(await memory.get_messages(HERE, limit)) for limit in range(10)] == [0, 1, 5, 5, 5, 5, 6, 7, 8, 8]
    assert await memory.get_messages("cli:nobody", 3) == []


async def test_halves_are_kept_and_not_told(database: Database) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    await memory.add_run(HERE, "r1", [said("q"), *calling("c1")[1:], *calling("c2")[:1]])
    assert texts(await memory.get_messages(HERE)) == ["q"]
    assert len(await memory.get_originals(HERE)) == 3


async def test_ids_limits_roles_and_content_that_cannot_be_are_refused_and_change_nothing(database: Database) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    for bad in ("", "a\0b", "\udfff", "x" * 501):
        with pytest.raises(Invalid):
            await memory.get_or_create_session(bad)
        with pytest.raises(Invalid):
            await memory.get_messages(bad)
        with pytest.raises(Invalid):
            await memory.get_originals(bad)
        with pytest.raises(Invalid):
            await memory.add_message(bad, "user", "hello")
        with pytest.raises(Invalid):
            await memory.add_run(HERE, bad, block("a"))
        with pytest.raises(Invalid):
            await short(database, Summariser()).compact_session(bad)
    with pytest.raises(Invalid):
        await memory.get_messages(HERE, -1)
    with pytest.raises(Invalid):
        await memory.add_message(HERE, "king", "hello")
    assert await database.read(look, "SELECT id FROM sessions", {}) == []


async def test_what_is_too_long_or_cannot_be_stored_is_kept_as_far_as_it_can(database: Database) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    await memory.add_message(HERE, "user", "a\0b\ud800")
    added = await memory.add_message(HERE, "user", "x" * (MOST_BYTES + 1))
    assert texts(await memory.get_messages(HERE)) == ["a\ufffdb\ufffd", added.text]
    assert added.text == "x" * MOST_BYTES + f"\n[Cut: there were {MOST_BYTES + 1} bytes.]"


async def test_a_new_process_remembers_everything(database_url: str) -> None:
    async with Database(database_url) as before:
        memory = short(before, Summariser())
        await memory.get_or_create_session(HERE, {"channel": "C1"})
        await memory.add_run(HERE, "r1", block("a", 6))
        assert await memory.compact_session(HERE)
        await memory.add_message(HERE, "user", "late")
        told, originals = await memory.get_messages(HERE), await memory.get_originals(HERE)
    async with Database(database_url) as after:
        memory = short(after)
        assert (await memory.get_or_create_session(HERE)).metadata == {"channel": "C1"}
        assert await memory.get_messages(HERE) == told
        assert await memory.get_originals(HERE) == originals
        assert len(originals) == 7


async def test_a_database_that_is_away_is_unavailable(database_url: str) -> None:
    database = Database(database_url)
    memory = short(database, Summariser())
    for ask in (
        memory.get_or_create_session(HERE),
        memory.get_messages(HERE),
        memory.get_originals(HERE),
        memory.add_message(HERE, "user", "hello"),
        memory.add_run(HERE, "r1", block("a")),
        memory.compact_session(HERE),
    ):
        with pytest.raises(Unavailable):
            await ask


# Runs


async def test_a_run_that_is_repeated_stays_as_it_is(database: Database) -> None:
    memory = DatabaseMemory(database, "assistant", None)
    for run in "abca":
        await memory.add_run(HERE, run, block(run, 2))
    told = await memory.get_messages(HERE)
    assert texts(told) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert [message.position for message in told] == [1, 2, 3, 4, 5, 6]
    assert await memory.get_originals(HERE) == told


async def test_a_run_that_is_summarised_already_is_not_added_once_more_when_it_is_repeated(database: Database) -> None:
    memory = short(database, Summariser())
    await memory.add_run(HERE, "a", block("a", 2))
    await memory.add_run(HERE, "b", block("b", 3))
    assert await memory.compact_session(HERE)
    await memory.add_run(HERE, "a", block("a", 2))
    assert texts(await memory.get_messages(HERE)) == ["sum(a0 a1 b0)", "b1", "b2"]


async def test_many_runs_that_end_at_once_keep_their_messages_together(database: Database, another: Database) -> None:
    memories = [DatabaseMemory(each, "assistant", None) for each in (database, another)]
    names = [f"r{number}-" for number in range(16)]
    await asyncio.gather(
        *(memories[index % 2].add_run(HERE, name, block(name, 1 + index % 4)) for index, name in enumerate(names))
    )
    told = await memories[0].get_messages(HERE)
    assert [message.position for message in told] == list(range(1, len(told) + 1))
    heads = [text[:-1] for text in texts(told) if text.endswith("-0")]
    assert sorted(heads) == sorted(names)
    assert texts(told) == [text for head in heads for text in texts(block(head, 1 + names.index(head) % 4))]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer: nothing ever waits
async def test_a_run_that_ends_while_another_is_being_added_waits_for_it(database: Database, another: Database) -> None:
    async with held(database, sessions.add_run, "assistant", HERE, "a", block("a")):
        second = asyncio.ensure_future(DatabaseMemory(another, "assistant", None).add_run(HERE, "b", block("b")))
        await somebody_waits(database)
    await second
    assert texts(await DatabaseMemory(database, "assistant", None).get_messages(HERE)) == [
        "a0",
        "a1",
        "a2",
        "b0",
        "b1",
        "b2",
    ]


# Summaries


@pytest.mark.req("AGENT-06")
async def test_a_long_session_is_told_as_a_summary_and_the_last_messages(
    database: Database, clock: ManualClock
) -> None:
    summarise = Summariser()
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", block("a", 4))
    assert not await memory.compact_session(HERE)
    await memory.add_message(HERE, "user", "b")
    clock.advance(60)
    with capture_logs() as logs:
        assert await memory.compact_session(HERE)
    (line,) = logs
    assert line == {**line, "action": "session_compact", "agent": "assistant", "session": HERE, "messages": 3}
    summary, *kept = await memory.get_messages(HERE)
    assert summary == SessionMessage(
        role=MessageRole.SYSTEM, text="sum(a0 a1 a2)", position=3, created_at=clock.now_us()
    )
    assert texts(kept) == ["a3", "b"]
    assert texts(await memory.get_originals(HERE)) == ["a0", "a1", "a2", "a3", "b"]
    assert (await memory.get_or_create_session(HERE)).messages == 3
    assert not await memory.compact_session(HERE)
    assert summarise.given == [["a0", "a1", "a2"]]


@pytest.mark.req("AGENT-06")
async def test_a_second_summary_is_of_the_first_and_what_came_since(database: Database) -> None:
    memory = short(database, Summariser())
    await memory.add_run(HERE, "a", block("a", 5))
    assert await memory.compact_session(HERE)
    await memory.add_run(HERE, "b", block("b", 2))
    assert await memory.compact_session(HERE)
    assert texts(await memory.get_messages(HERE)) == ["sum(sum(a0 a1 a2) a3 a4)", "b0", "b1"]
    assert texts(await memory.get_originals(HERE)) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1"]


@pytest.mark.req("AGENT-06")
async def test_calls_side_by_side_are_kept_with_their_results(database: Database) -> None:
    summarise = Summariser()
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", [*block("a"), *calling("c1", "c2"), said("end")])
    assert await memory.compact_session(HERE)
    _, *kept = await memory.get_messages(HERE)
    assert summarise.given == [["a0", "a1", "a2"]]
    assert [message.role.value for message in kept] == ["tool_use", "tool_use", "tool_result", "tool_result", "user"]


@pytest.mark.req("AGENT-06")
async def test_the_model_that_summarises_is_told_no_halves(database: Database) -> None:
    summarise = Summariser()
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", [said("q"), *calling("c1")[:1], *calling("c2")[1:], *block("a", 4)])
    assert await memory.compact_session(HERE)
    assert summarise.given == [["q", "a0", "a1"]]
    assert texts(await memory.get_messages(HERE)) == ["sum(q a0 a1)", "a2", "a3"]


class Failing:
    def __init__(self, outcome: str | Exception) -> None:
        self._outcome = outcome

    async def __call__(self, session_id: str, messages: Sequence[SessionMessage]) -> str:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.mark.req("AGENT-06")
@pytest.mark.parametrize(
    ("outcome", "reported"),
    [
        (ValueError("what was said"), "ValueError"),
        (RateLimited("The model is busy.", retry_after_seconds=1), "The model is busy."),
        (TimeoutError(), "TimeoutError"),
        ("", "the model said nothing"),
        (" \n", "the model said nothing"),
    ],
)
async def test_a_summary_that_fails_leaves_the_session_as_it_was_and_is_logged_without_what_was_said(
    database: Database, outcome: str | Exception, reported: str
) -> None:
    memory = DatabaseMemory(database, "assistant", Failing(outcome), compaction_threshold=4, keep_recent_messages=2)
    await memory.add_run(HERE, "a", block("a", 6))
    before = await memory.get_or_create_session(HERE), await memory.get_messages(HERE)
    with capture_logs() as logs:
        assert not await memory.compact_session(HERE)
    assert [(line["action"], line["log_level"], line["error"]) for line in logs] == [
        ("session_compact", "warning", reported)
    ]
    assert "what was said" not in str(logs)
    assert (await memory.get_or_create_session(HERE), await memory.get_messages(HERE)) == before
    assert await short(database, Summariser()).compact_session(HERE)


@pytest.mark.req("AGENT-06")
async def test_who_is_cancelled_while_a_model_summarises_leaves_the_session_as_it_was(database: Database) -> None:
    summarise = Summariser(waits=True)
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", block("a", 6))
    compacting = asyncio.ensure_future(memory.compact_session(HERE))
    await summarise.asked.wait()
    compacting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compacting
    assert len(await memory.get_messages(HERE)) == 6
    summarise.may_answer.set()
    assert await memory.compact_session(HERE)


@pytest.mark.req("AGENT-06")
async def test_without_a_model_nothing_is_summarised(database: Database) -> None:
    memory = short(database, None)
    await memory.add_run(HERE, "a", block("a", 6))
    assert not await memory.compact_session(HERE)
    assert not await short(database, Summariser()).compact_session("cli:nobody")


@pytest.mark.req("AGENT-06")
async def test_what_is_said_while_a_model_summarises_is_kept_behind_the_summary(
    database: Database, another: Database
) -> None:
    summarise = Summariser(waits=True)
    memory, elsewhere = short(database, summarise), DatabaseMemory(another, "assistant", None)
    await memory.add_run(HERE, "a", block("a", 5))
    compacting = asyncio.ensure_future(memory.compact_session(HERE))
    await summarise.asked.wait()
    await elsewhere.add_run(HERE, "b", block("b", 2))
    await memory.add_message(HERE, "user", "c")
    assert texts(await memory.get_messages(HERE)) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "c"]
    assert not compacting.done()
    summarise.may_answer.set()
    assert await compacting
    assert texts(await elsewhere.get_messages(HERE)) == ["sum(a0 a1 a2)", "a3", "a4", "b0", "b1", "c"]


@pytest.mark.req("AGENT-06")
async def test_of_two_processes_that_summarise_at_once_one_does_it_and_nothing_is_lost(
    database: Database, another: Database
) -> None:
    summarisers = [Summariser(waits=True), Summariser(waits=True)]
    one, two = short(database, summarisers[0]), short(another, summarisers[1])
    await one.add_run(HERE, "a", block("a", 5))
    first = asyncio.ensure_future(one.compact_session(HERE))
    await summarisers[0].asked.wait()
    await two.add_run(HERE, "b", block("b", 2))  # so that the second reads more than the first
    second = asyncio.ensure_future(two.compact_session(HERE))
    await summarisers[1].asked.wait()
    assert not first.done()
    for summarise in summarisers:
        summarise.may_answer.set()
    assert sorted([await first, await second]) == [False, True]
    won = ["sum(a0 a1 a2)", "a3", "a4", "b0", "b1"] if await first else ["sum(a0 a1 a2 a3 a4)", "b0", "b1"]
    assert texts(await one.get_messages(HERE)) == won
    assert texts(await two.get_originals(HERE)) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1"]


@pytest.mark.req("AGENT-06")
async def test_one_process_asks_the_model_once_at_a_time(database: Database) -> None:
    summarise = Summariser(waits=True)
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", block("a", 5))
    compacting = asyncio.ensure_future(memory.compact_session(HERE))
    await summarise.asked.wait()
    assert not await memory.compact_session(HERE)
    summarise.may_answer.set()
    assert await compacting
    assert len(summarise.given) == 1


@pytest.mark.req("AGENT-06")
async def test_a_summary_of_a_session_that_was_forgotten_meanwhile_is_not_told_in_the_new_one(
    database: Database, clock: ManualClock
) -> None:
    summarise = Summariser(waits=True)
    memory = short(database, summarise)
    await memory.add_run(HERE, "a", block("a", 5))
    compacting = asyncio.ensure_future(memory.compact_session(HERE))
    await summarise.asked.wait()
    clock.advance(1)
    assert await database.write(sessions.forget, clock.now_us(), 10) == 1
    await memory.add_run(HERE, "b", block("b", 1))
    summarise.may_answer.set()
    assert not await compacting
    assert texts(await memory.get_messages(HERE)) == ["b0"]


@pytest.mark.both_engines
@pytest.mark.req("AGENT-12")
async def test_a_new_agent_with_an_old_name_remembers_nothing_and_a_renamed_one_everything(database: Database) -> None:
    first = await registered(database, "helper")
    memory = DatabaseMemory(database, BuiltInOwner("helper"), None)
    assert await memory.owner() == first
    await memory.add_run(HERE, "a", block("a", 2))
    assert await registered(database, "wizard", formerly="helper") == first
    wizard = DatabaseMemory(database, BuiltInOwner("wizard"), None)
    assert texts(await wizard.get_messages(HERE)) == ["a0", "a1"]
    with pytest.raises(NotFound, match="'helper' is not registered"):
        await memory.get_messages(HERE)
    other = await registered(database, "helper")
    assert await registered(database, "wizard", formerly="helper") == first, "both are there"
    assert await memory.get_messages(HERE) == []

    await database.write(agents.revoke, first)
    assert await registered(database, "wizard") not in (first, other)
    assert await wizard.get_messages(HERE) == []
    listed = await database.read(session_lists.newest, "slack:", None, 9)
    assert listed == [], "sessions of removed agents are in no list"


@pytest.mark.both_engines
@pytest.mark.req("AGENT-12")
async def test_what_an_agent_did_that_was_removed_meanwhile_is_not_remembered_by_its_successor(
    database: Database,
) -> None:
    memory = DatabaseMemory(database, BuiltInOwner("helper"), None)
    owner = await registered(database, "helper")
    await database.write(agents.revoke, owner)
    with pytest.raises(NotFound):
        await memory.owner()
    await registered(database, "helper")
    await memory.add_run(HERE, "late", block("a", 2), owner=owner)
    assert await memory.get_originals(HERE) == []
    await memory.add_run(HERE, "new", block("b", 1), owner=await memory.owner())
    assert texts(await memory.get_originals(HERE)) == ["b0"]


@pytest.mark.req("AGENT-12")
async def test_an_agent_of_another_kind_has_no_memory_of_a_built_in_one(database: Database) -> None:
    await registered(database, "helper", reach=Reach.AGUI)
    with pytest.raises(NotFound):
        await DatabaseMemory(database, BuiltInOwner("helper"), None).get_messages(HERE)
    assert not await database.write(agents.rename, "helper", "wizard", Reach.BUILTIN)
