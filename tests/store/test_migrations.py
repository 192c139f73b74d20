"""Migrations: they make exactly the schema of `tables`, once, whoever else starts at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.services.builtin.conversation_locks import ConversationKey
from swarm.store import deliveries
from swarm.store.admin import migrations, preparation, revisions
from swarm.store.bridge.engine import parse_url
from swarm.store.tables.documents import is_described
from swarm.store.tables.schema import metadata

pytestmark = pytest.mark.req("OPS-03")

Schema = dict[str, list[str]]

# What autogenerate does not compare: the engine's own account of constraints and indexes.
POSTGRES_PARTS = """
SELECT conrelid::regclass::text, conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid <> 0 AND connamespace = 'public'::regnamespace
UNION ALL
SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT table_name, concat_ws(' ', column_name, data_type, is_nullable, column_default, is_identity)
FROM information_schema.columns WHERE table_schema = 'public'
"""
SQLITE_PARTS = "SELECT tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'sqlite_%'"


def schema(connection: Connection) -> Schema:
    """Each table's parts in a normal form and order."""
    on_sqlite = connection.dialect.name == "sqlite"
    found: Schema = {}
    for table, definition in connection.exec_driver_sql(SQLITE_PARTS if on_sqlite else POSTGRES_PARTS):
        if table != "alembic_version":
            found.setdefault(table, []).extend(parts(definition) if on_sqlite else [definition])
    return {table: sorted(definitions) for table, definitions in found.items()}


def parts(definition: str) -> Iterable[str]:
    """SQLite keeps the text of each CREATE: what it lists, one by one, without differences in white space or quotes."""
    flat = re.sub(r"\s+", " ", definition.replace('"', ""))
    head, _, body = flat.partition("(")
    if not head.startswith("CREATE TABLE"):
        yield flat
        return
    depth, part = 0, ""
    for character in body.rstrip()[:-1]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield f"{head.strip()} {part.strip()}"
            part = ""
        else:
            part += character
    yield f"{head.strip()} {part.strip()}"


def connected(url: str) -> Connection:
    return migrations._engine(parse_url(url)).connect()


@contextlib.contextmanager
def migrated_from(version: str, statements: Iterable[str], url: str) -> Iterator[Connection]:
    """A database of this version that one of an older ``version`` has become, with what it had."""
    with migrations._locked(url) as connection:
        command.upgrade(migrations._config(connection), version)
        for statement in statements:
            connection.exec_driver_sql(statement)
    migrations.upgrade(url)
    with migrations._locked(url) as connection:
        yield connection
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []


def test_models_and_migrations_are_equal(empty_database_url: str) -> None:
    with connected(empty_database_url) as connection:
        metadata.create_all(connection)
        expected = schema(connection)
        metadata.drop_all(connection)
        connection.commit()
    lacking = migrations.pending(empty_database_url)
    assert lacking
    assert migrations.upgrade(empty_database_url) == lacking
    assert migrations.pending(empty_database_url) == []
    assert migrations.upgrade(empty_database_url) == []
    with connected(empty_database_url) as connection, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* expression-based index")  # compared as text
        context = MigrationContext.configure(connection, opts={"include_name": is_described})
        assert compare_metadata(context, metadata) == []
        assert schema(connection) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "CREATE TABLE t (n INTEGER, CONSTRAINT c CHECK (n > 0))",
            "CREATE TABLE t (n INTEGER, CONSTRAINT c CHECK (n > 1))",
        ),
        ("CREATE TABLE t (n INTEGER)", "CREATE TABLE t (n INTEGER NOT NULL)"),
        ("CREATE TABLE t (n INTEGER)", "CREATE TABLE t (n INTEGER DEFAULT 1)"),
        (
            "CREATE TABLE t (n INTEGER); CREATE INDEX i ON t (n) WHERE n > 0",
            "CREATE TABLE t (n INTEGER); CREATE INDEX i ON t (n) WHERE n > 1",
        ),
    ],
)
def test_the_comparison_sees_every_difference(empty_database_url: str, one: str, other: str) -> None:
    schemas = []
    for statements in (one, other):
        with connected(empty_database_url) as connection:
            for statement in statements.split(";"):
                connection.exec_driver_sql(statement)
            schemas.append(schema(connection))
            connection.exec_driver_sql("DROP TABLE t")
    assert schemas[0] != schemas[1]
    assert schemas[0]["t"]


def test_the_first_migration_can_be_taken_back_and_later_ones_say_that_they_cannot(database_url: str) -> None:
    with migrations._locked(database_url) as connection, pytest.raises(NotImplementedError, match="backup"):
        command.downgrade(migrations._config(connection), "base")


def test_the_team_migration_keeps_what_is_there_and_finds_the_heads_of_the_queues(empty_database_url: str) -> None:
    with migrated_from("0001", BEFORE_THE_TEAM, empty_database_url) as connection:
        assert connection.exec_driver_sql("SELECT agent_id, lane_id, order_key FROM queue_heads").all() == [
            ("a1", "t1", 7)
        ]
        for table in ("inbox_messages", "leases", "lease_members", "notices", "deliveries"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 1, table
        kept = connection.exec_driver_sql("SELECT seq, text, thread_ts, task_id FROM deliveries").one()
        assert tuple(kept) == (5, "hello", "1.1", None)


BEFORE_THE_TEAM = (
    "INSERT INTO agents VALUES ('a1', 'lead', 'lead', '', '[]', 1, NULL, NULL)",
    "INSERT INTO threads VALUES ('t1', 'T1', 'C1', '1.1', 'channel', 'a1', 1, 'complete', NULL, 0, NULL, 1, 1)",
    "INSERT INTO inbox_messages VALUES ('i1', 't1', 'a1', 'T1', 'C1', '1.1', 'unread', 'mention', '', 0, 0, 7, NULL,"
    " NULL, NULL, 1, NULL)",
    "INSERT INTO leases VALUES ('l1', 'work', 'a1', 't1', 'i1', 1, false, 1, 2, NULL, NULL)",
    "INSERT INTO lease_members VALUES ('l1', 'i1')",
    "INSERT INTO notices VALUES ('n1', 'message_changed', 'a1', 't1', 'i1', NULL, NULL, 'unread', 0, 1)",
    "INSERT INTO deliveries (seq, id, kind, status, thread_id, channel, thread_ts, text, broadcast, attempts, due_at,"
    " created_at) VALUES (5, 'd1', 'post', 'queued', 't1', 'C1', '1.1', 'hello', false, 0, 1, 1)",
)


def test_the_migration_to_live_answers_keeps_what_is_there_and_every_agent_polls(empty_database_url: str) -> None:
    with migrated_from("0002", BEFORE_LIVE_ANSWERS, empty_database_url) as connection:
        agents = connection.exec_driver_sql("SELECT id, name, last_seen_at, revoked_at, reach FROM agents ORDER BY id")
        assert [tuple(row) for row in agents] == [
            ("a1", "lead", 7, None, "polling"),
            ("a2", "gone", None, 9, "polling"),
        ]
        enrolled = connection.exec_driver_sql("SELECT name FROM agents WHERE enrolled")
        assert enrolled.scalars().all() == ["gone"], "nobody knows who registered a worker"
        kept = connection.exec_driver_sql("SELECT seq, text, stops_task_id, stops_run_id, closing FROM deliveries")
        assert tuple(kept.one()) == (5, "hello", "k1", None, None)
        for table in ("agent_tokens", "threads", "inbox_messages", "tasks", "leases", "lease_members"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 1, table
        with pytest.raises(IntegrityError), connection.begin_nested():  # the name is still taken
            connection.exec_driver_sql(
                "INSERT INTO agents (id, name, role, description, capabilities, created_at)"
                " VALUES ('a3', 'lead', 'lead', '', '[]', 1)"
            )
        with pytest.raises(IntegrityError), connection.begin_nested():
            connection.exec_driver_sql("UPDATE agents SET reach = 'pigeon'")


BEFORE_LIVE_ANSWERS = (
    "INSERT INTO agents VALUES ('a1', 'lead', 'lead', '', '[]', 1, 7, NULL)",
    "INSERT INTO agents VALUES ('a2', 'gone', 'worker', '', '[]', 1, NULL, 9)",
    "INSERT INTO agent_tokens VALUES ('hash', 'a1', 1, NULL)",
    "INSERT INTO threads VALUES ('t1', 'T1', 'C1', '1.1', 'channel', 'a1', 1, 'complete', NULL, 0, NULL, 1, 1)",
    "INSERT INTO tasks (id, thread_id, lane_id, title, description, status, priority, agent_id, depth, attempts,"
    " claims, order_key, created_at) VALUES ('k1', 't1', 't1', 'Count', '', 'pending', 50, 'a1', 1, 0, 0, 7, 1)",
    "INSERT INTO inbox_messages VALUES ('i1', 't1', 'a1', 'T1', 'C1', '1.1', 'unread', 'mention', '', 0, 0, 7, NULL,"
    " NULL, NULL, 1, NULL, 'k1')",
    "INSERT INTO leases VALUES ('l1', 'work', 'a1', 't1', 'i1', 1, false, 1, 2, NULL, NULL, NULL)",
    "INSERT INTO lease_members VALUES ('l1', 'i1')",
    "INSERT INTO deliveries (seq, id, kind, status, thread_id, channel, thread_ts, text, broadcast, attempts, due_at,"
    " created_at, stops_task_id) VALUES (5, 'd1', 'post', 'queued', 't1', 'C1', '1.1', 'hello', false, 0, 1, 1, 'k1')",
)


@pytest.mark.req("AGENT-05", "AGENT-07")
def test_the_migration_to_attempts_keeps_what_is_there_and_every_run_was_an_answer(empty_database_url: str) -> None:
    with migrated_from("0005", BEFORE_ATTEMPTS, empty_database_url) as connection:
        kept = connection.exec_driver_sql(
            "SELECT role, content, agui_run_id, created_at, replaced_at FROM session_messages"
        )
        assert tuple(kept.one()) == ("user", "{}", "r1", 1, None)
        assert tuple(connection.exec_driver_sql("SELECT id, purpose FROM model_usage").one()) == ("r1", "answer")
        with pytest.raises(IntegrityError), connection.begin_nested():
            connection.exec_driver_sql("UPDATE model_usage SET purpose = 'fun'")
        connection.exec_driver_sql("UPDATE model_usage SET purpose = 'summary'")


BEFORE_ATTEMPTS = (
    "INSERT INTO sessions VALUES ('helper', 's1', '{}', 0, NULL, 0, NULL, 1, 1)",
    "INSERT INTO session_messages VALUES ('helper', 's1', 1, 'user', '{}', 'r1', 1)",
    "INSERT INTO model_runs VALUES ('r1', 'helper', 'slack', 's1', '', '', '', 'answered', '', 1, 1, 1, 0, 0, 0, NULL,"
    " 1, 1)",
)


@pytest.mark.req("AGENT-05")
def test_the_migration_of_the_words_keeps_what_is_below_a_text_readable(empty_database_url: str) -> None:
    with migrated_from("0014", BEFORE_THE_WORDS, empty_database_url) as connection:
        below = deliveries.below_of(connection.exec_driver_sql("SELECT closing FROM deliveries").scalar_one())
    assert below is not None
    assert (below.place.run_id, below.closing.note) == ("r1", 'It said "turn_id":.')


BEFORE_THE_WORDS = (
    "INSERT INTO threads (id, team, channel, thread_ts, channel_type, epoch, context, context_failures, active_at,"
    " created_at) VALUES ('t1', 'T1', 'C1', '1.1', 'channel', 1, 'complete', 0, 1, 1)",
    # As version 0014 wrote it.
    "INSERT INTO deliveries (seq, id, kind, status, thread_id, channel, thread_ts, text, broadcast, attempts, due_at,"
    " created_at, closing) VALUES (5, 'd1', 'post', 'queued', 't1', 'C1', '1.1', 'hello', false, 0, 1, 1,"
    r""" '{"closing":{"note":"It said \"turn_id\":.","retry":true,"feedback":false,"footer":false},"""
    r""""place":{"team":"T1","channel":"C1","thread_ts":"1.1","is_direct":false,"requester":"U1","agent_name":"a","""
    r""""turn_id":"r1","display":"plan","footer":""}}')""",
)


@pytest.mark.req("TOOL-06")
def test_the_migration_to_whole_documents_keeps_what_is_found_and_has_it_read_again(empty_database_url: str) -> None:
    with migrations._locked(empty_database_url) as connection:
        command.upgrade(migrations._config(connection), "0014")
        for name, status in (("a", "current"), ("b", "outdated")):
            connection.exec_driver_sql(
                f"INSERT INTO documents VALUES ('{name}', 'a.md', 'A', 1, 1, 'x', '{status}', 1)"
            )
            connection.exec_driver_sql(
                f"INSERT INTO document_pieces (document_id, position, text) VALUES ('{name}', 0, '{name}')"
            )
        words = "text" if connection.dialect.name == "sqlite" else "to_tsvector('simple', text)"
        connection.exec_driver_sql(f"INSERT INTO document_words (rowid, words) SELECT id, {words} FROM document_pieces")
    migrations.upgrade(empty_database_url)
    with migrations._locked(empty_database_url) as connection:
        kept = connection.exec_driver_sql("SELECT * FROM documents")
        assert tuple(kept.one()) == ("a", "a.md", "A", 1, 0, "")
        pieces = "SELECT text FROM document_pieces JOIN document_words ON document_words.rowid = document_pieces.id"
        assert connection.exec_driver_sql(pieces).scalars().all() == ["a"]


@pytest.mark.req("AGENT-09")
def test_the_migration_to_locks_keeps_every_holder_and_goes_on_counting_terms(empty_database_url: str) -> None:
    with migrations._locked(empty_database_url) as connection:
        config = migrations._config(connection)
        command.upgrade(config, "0017")
        for statement in BEFORE_LOCKS:
            connection.exec_driver_sql(statement)
        old = schema(connection)
        command.upgrade(config, "0018")
        command.downgrade(config, "0017")
        assert schema(connection) == old
        kept = connection.exec_driver_sql("SELECT * FROM conversation_locks")
        assert tuple(kept.one()) == ("wim", "router", 'é "c1"', "r1", 8)
    migrations.upgrade(empty_database_url)
    with migrations._locked(empty_database_url) as connection:
        rows = connection.exec_driver_sql("SELECT kind, key, holder, term, expires_at FROM locks ORDER BY kind, key")
        assert [tuple(row) for row in rows] == [
            ("conversation", ConversationKey(client="wim", agent="router", id='é "c1"').lock_key, "r1", 1, 8),
            ("office", "resigned", None, 3, 6),
            ("office", "upkeep", "ann", 7, 9),
        ]


BEFORE_LOCKS = (
    "INSERT INTO elections VALUES ('upkeep', 'ann', 7, 1, 9)",
    "INSERT INTO elections VALUES ('resigned', NULL, 3, 1, 6)",
    """INSERT INTO conversation_locks VALUES ('wim', 'router', 'é "c1"', 'r1', 8)""",
)


@pytest.mark.req("AGENT-12")
def test_the_migration_to_owners_gives_each_session_to_the_agent_that_has_or_had_its_name(
    empty_database_url: str,
) -> None:
    with migrations._locked(empty_database_url) as connection:
        config = migrations._config(connection)
        command.upgrade(config, "0029")
        for statement in BEFORE_OWNERS:
            connection.exec_driver_sql(statement)
        command.upgrade(config, "0030")
        owners = {row[0]: row[1] for row in connection.exec_driver_sql("SELECT id, agent FROM sessions")}
        registered = connection.exec_driver_sql(
            "SELECT id, name, revoked_at FROM agents WHERE id NOT IN ('a1', 'a2', 'a3', 'a4') ORDER BY name"
        ).all()
        (chatty, no_chatty), (wim, no_wim) = ((row[0], row[2]) for row in registered)
        assert [row[1] for row in registered] == ["chatty", "wim"]
        assert owners == {"s1": "a2", "s2": "a3", "s3": chatty, "s4": wim}
        assert no_chatty is None
        assert no_wim is not None, "the name is somebody else's"
        messages = connection.exec_driver_sql("SELECT agent, session_id, content FROM session_messages ORDER BY 2")
        assert [tuple(row) for row in messages] == [
            ("a2", "s1", '{"text":"one"}'),
            ("a3", "s2", '{"text":"two"}'),
            (chatty, "s3", '{"text":"three"}'),
            (wim, "s4", '{"text":"four"}'),
        ]
        command.downgrade(config, "0029")
        back = connection.exec_driver_sql("SELECT id, agent FROM sessions ORDER BY id").all()
        assert [tuple(row) for row in back] == [("s1", "helper"), ("s2", "gone"), ("s3", "chatty"), ("s4", "wim")]


_AGENT = "INSERT INTO agents (id, name, role, description, capabilities, created_at, revoked_at, reach) VALUES "
_SESSION = "INSERT INTO sessions (agent, id, metadata, edition, summarised_to, created_at, updated_at) VALUES "
_MESSAGE = "INSERT INTO session_messages (agent, session_id, position, role, content, created_at) VALUES "
BEFORE_OWNERS = (
    f"{_AGENT} ('a1', 'helper', 'lead', '', '[]', 1, 2, 'builtin'), ('a2', 'helper', 'lead', '', '[]', 3, NULL,"
    " 'builtin'), ('a3', 'gone', 'lead', '', '[]', 1, 9, 'builtin'), ('a4', 'wim', 'worker', '', '[]', 1, NULL,"
    " 'polling')",
    f"{_SESSION} ('helper', 's1', '{{}}', 0, 0, 1, 1), ('gone', 's2', '{{}}', 0, 0, 1, 1),"
    " ('chatty', 's3', '{}', 0, 0, 1, 1), ('wim', 's4', '{}', 0, 0, 1, 1)",
    f"""{_MESSAGE} ('helper', 's1', 1, 'user', '{{"text":"one"}}', 1),"""
    """ ('gone', 's2', 1, 'user', '{"text":"two"}', 1),"""
    """ ('chatty', 's3', 1, 'user', '{"text":"three"}', 1), ('wim', 's4', 1, 'user', '{"text":"four"}', 1)""",
)


@pytest.mark.req("HITL-09")
def test_the_migration_to_requesters_keeps_the_requester_and_narrows_the_grants_of_members(
    empty_database_url: str,
) -> None:
    with migrated_from("0030", BEFORE_REQUESTERS, empty_database_url) as connection:
        found = connection.exec_driver_sql("SELECT requesters FROM requests ORDER BY id").scalars().all()
        covers = connection.exec_driver_sql("SELECT covers FROM grants ORDER BY id").scalars().all()
        assert (found, covers) == (['["U1"]', "[]"], ["everybody", "giver"])


_REQUEST = (
    "INSERT INTO requests (id, key, requester, agent_id, work_id, inbox_message_ids, lease_token, asker, status,"
    " resume, agent_request_id, payload, created_at) VALUES "
)
_ASKED_BEFORE = "'a1', 'w', '[]', 'l', 'durable', 'open', 'none', '', '{}', 1"
_GRANT = "INSERT INTO grants (id, agent_id, tool, scope, request_id, given_by, created_at, uses) VALUES "
BEFORE_REQUESTERS = (
    f"{_AGENT} ('a1', 'helper', 'lead', '', '[]', 1, NULL, 'builtin')",
    *(f"{_REQUEST} ('q{n}', 'q{n}', {person}, {_ASKED_BEFORE})" for n, person in ((1, "'U1'"), (2, "NULL"))),
    *(f"{_GRANT} ('g{n}', 'a1', 't', 'always', 'q1', '{by}', 1, 0)" for n, by in ((1, "operator"), (2, "U1"))),
)


@pytest.mark.req("HITL-03")
def test_the_migration_to_requests_asks_what_is_open_also_of_runs_that_were_ending(empty_database_url: str) -> None:
    with migrated_from("0018", BEFORE_REQUESTS, empty_database_url) as connection:
        rows = connection.exec_driver_sql(
            "SELECT run_id, work_id, task_id, inbox_message_ids FROM requests ORDER BY run_id"
        )
        assert [tuple(row) for row in rows] == [
            ("r1", "i1", None, '["i1"]'),
            ("r2", "i2", None, '["i2"]'),
            ("r3", "k1", "k1", "[]"),
            ("r4", "i4", None, '["i4"]'),
        ]
        cards = connection.exec_driver_sql("SELECT count(*) FROM deliveries WHERE request_id IS NOT NULL")
        assert cards.scalar() == 3


_RUN = (
    "INSERT INTO runs (id, agent_id, lease_token, trigger_id, inbox_message_ids, conversation_id, agui_run_id, status,"
    " attempt, started_at, thread_id, task_id, outcome, ended_at) VALUES ("
)
_ASKED = (
    "INSERT INTO interrupts (id, run_id, agent_interrupt_id, prompt, payload, status, created_at)"
    """ VALUES ('q{0}', 'r{0}', 'x', 'Why?', '{{"id": "x", "prompt": "Why?"}}', 'open', 1)"""
)
BEFORE_REQUESTS = (
    "INSERT INTO agents (id, name, role, description, capabilities, created_at, reach, enrolled)"
    " VALUES ('a1', 'lead', 'lead', '', '[]', 1, 'agui', false)",
    "INSERT INTO threads (id, team, channel, thread_ts, channel_type, epoch, context, context_failures, active_at,"
    " created_at, watermark_ts) VALUES ('t1', 'T1', 'C1', '1.1', 'channel', 1, 'complete', 0, 1, 1, '1.1')",
    "INSERT INTO tasks (id, lane_id, title, description, status, priority, agent_id, depth, attempts, claims,"
    " order_key, created_at, by_strangers) VALUES ('k1', 'k1', 'Count', '', 'waiting', 50, 'a1', 1, 0, 0, 7, 1, false)",
    _RUN + "'r1', 'a1', 'l1', 'i1', '[\"i1\"]', 'c', 'u1', 'waiting', 1, 1, 't1', NULL, 'waiting', NULL)",
    _RUN + "'r2', 'a1', 'l2', 'i2', '[\"i2\"]', 'c', 'u2', 'closing', 1, 1, 't1', NULL, 'waiting', NULL)",
    _RUN + "'r3', 'a1', 'l3', 'k1', '[]', 'c', 'u3', 'waiting', 1, 1, NULL, 'k1', 'waiting', NULL)",
    _RUN + "'r4', 'a1', 'l4', 'i4', '[]', 'c', 'u4', 'waiting', 1, 1, 't1', NULL, 'waiting', NULL)",
    *(_ASKED.format(number) for number in range(1, 5)),
    _ASKED.format(1).replace("'q1'", "'q5'"),  # the same question again
)


def test_asking_what_is_pending_does_not_make_a_file(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert migrations.pending(f"sqlite:///{path}")
    assert not path.exists()


def test_preparing_migrates_sqlite_and_stops_a_start_on_a_postgresql_that_is_behind(empty_database_url: str) -> None:
    if empty_database_url.startswith("sqlite"):
        preparation.prepare(empty_database_url)
        assert migrations.pending(empty_database_url) == []
    else:
        with pytest.raises(ConfigurationError, match="pending migration") as raised:
            preparation.prepare(empty_database_url)
        assert "swarm db upgrade" in str(raised.value.hint)


def test_a_start_on_a_current_database_needs_no_alembic(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert preparation.is_current(database_url)
    monkeypatch.setitem(sys.modules, "swarm.store.admin.migrations", None)  # from now on it cannot be imported
    preparation.prepare(database_url)


def test_a_database_that_is_one_migration_behind_is_not_current(empty_database_url: str) -> None:
    with migrations._locked(empty_database_url) as connection:
        command.upgrade(migrations._config(connection), "0002")
    assert not preparation.is_current(empty_database_url)


def test_the_newest_migration_is_the_one_that_alembic_would_run_last() -> None:
    assert revisions.newest() == ScriptDirectory.from_config(migrations._config()).get_current_head()


async def test_of_those_that_start_together_one_migrates(empty_database_url: str) -> None:
    starts = [asyncio.to_thread(migrations.upgrade, empty_database_url) for _ in range(4)]
    done = await asyncio.gather(*starts)
    assert sorted(map(bool, done)) == [False, False, False, True]
    assert migrations.pending(empty_database_url) == []


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: Connection) -> None:
        raise RuntimeError("after all tables were made")

    monkeypatch.setattr(migrations, "_check_references", broken)
    with pytest.raises(RuntimeError, match="after all tables"):
        migrations.upgrade(empty_database_url)
    with connected(empty_database_url) as connection:
        assert schema(connection) == {}


def test_a_database_from_a_newer_version_is_refused(database_url: str) -> None:
    with connected(database_url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    for ask in (migrations.pending, migrations.upgrade, preparation.prepare):
        with pytest.raises(ConfigurationError, match="9999"):
            ask(database_url)


@pytest.mark.parametrize("url", ["sqlite:///{folder}/missing/swarm.db", "postgresql://ada:secret@/name?host={folder}"])
def test_a_database_out_of_reach_is_unavailable(url: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached") as raised:
        migrations.upgrade(url.format(folder=tmp_path))
    assert "secret" not in str(raised.value)


@pytest.mark.req("SEC-06")
def test_the_migration_of_erasure_finds_what_the_messages_of_sessions_say(empty_database_url: str) -> None:
    with migrated_from("0007", BEFORE_ERASURE, empty_database_url) as connection:
        found = connection.exec_driver_sql("SELECT position, source FROM session_messages ORDER BY position")
        assert [tuple(row) for row in found] == [(1, "i1"), (2, "i2"), (3, None), (4, None), (5, "k1"), (6, None)]


_TURN = (
    "INSERT INTO turns (id, agent_id, lease_token, trigger_id, entry_ids, task_id, conversation_id, run_id, status,"
    " attempt, started_at, ended_at) VALUES "
)
_SAID = "INSERT INTO session_messages (agent, session_id, position, role, content, run, created_at) VALUES ('a', 's', "
BEFORE_ERASURE = (
    "INSERT INTO agents VALUES ('a1', 'lead', 'lead', '', '[]', 1, 7, NULL, 'builtin')",
    "INSERT INTO tasks (id, lane_id, title, description, status, priority, agent_id, depth, attempts, claims,"
    " order_key, created_at) VALUES ('k1', 'k1', 'Count', '', 'pending', 50, 'a1', 1, 0, 0, 7, 1)",
    _TURN + """('t1', 'a1', 'l', 'i1', '["i1","i2"]', NULL, 'c', 'r1', 'answered', 1, 1, 2)""",
    _TURN + "('t2', 'a1', 'l', 'k1', '[]', 'k1', 'c', 'r2', 'answered', 1, 1, 2)",
    "INSERT INTO sessions VALUES ('a', 's', '{}', 0, NULL, 0, NULL, 1, 1)",
    *(f"{_SAID}{at}, 'user', '{{}}', 'r1', 1)" for at in (1, 2)),
    f"{_SAID}3, 'assistant', '{{}}', 'r1', 1)",
    *(f"{_SAID}{at}, 'user', '{{}}', 'r2', 1)" for at in (4, 5)),
    f"{_SAID}6, 'user', '{{}}', 'of no turn', 1)",
)


def test_a_server_that_is_starting_is_waited_for(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = psycopg.connect
    refusals = ["starting up", "in recovery mode", "shutting down"]

    def connect(conninfo: str) -> psycopg.Connection[tuple[object, ...]]:
        if refusals:
            raise psycopg.OperationalError(f"connection failed: FATAL:  the database system is {refusals.pop()}")
        return real(conninfo)

    monkeypatch.setattr(psycopg, "connect", connect)
    assert preparation.is_current(postgres_url)
    monkeypatch.setattr(psycopg, "connect", real)
    assert revisions.revision("postgresql://127.0.0.1:9/nobody") is None  # one that is not there is told at once
