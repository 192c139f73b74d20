"""What a log line looks like, and what never stands in one."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import structlog
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import StatementError

from swarm.config import load, secrets
from swarm_base import log
from swarm_base.redaction import HIDDEN, Redactor
from tests.support.every import every
from tests.support.naughty import TEXT, hidden_in

OPERATOR = 'made-up by "somebody"\\ß'
PASSWORD = "p@ss/w?rd"
SECRETS = {
    "bot token": "xoxb-1234567890-abcdefghij",
    "user token": "xoxp-1234567890-abcdefghij",
    "rotated token": "xoxe.xoxb-1-Mi0yLTEyMzQ1Njc4OTA",
    "app token": "xapp-1-A0123-456-abcdef",
    "agent token": "swarm_Zm9vYmFyYmF6cXV4cXV1eA",
    "bearer token": "Bearer c2VjcmV0LW9wYXF1ZQ==",
    "model key": "sk-ant-api03-abcdefghijkl",
    "code host key": "ghp_abcdefghijklmnop",
    "database url": "postgresql://swarm:hunter2hunter2@db.example/swarm",
    "database url with a wild password": f"postgresql://swarm:{PASSWORD}@db.example/swarm",
    "webhook": "https://hooks.slack.com/services/T0123/B0123/abcdefghijkl",
    "socket ticket": "wss://wss-primary.slack.com/link/?ticket=c2VjcmV0LXRpY2tldA&app_id=1",
    "lease header": "(b'x-swarm-lease', b'Wm9vYmFyYmF6cXV4cQ')",
    "json field": '{"lease_token": "Wm9vYmFyYmF6cXV4cQ"}',
    "assignment": "SLACK_SIGNING_SECRET=8f742231b10e8888",
    "what the operator made up": OPERATOR,
}
TELLTALE = {  # the part of each that must not be seen
    **SECRETS,
    "bearer token": "c2VjcmV0LW9wYXF1ZQ",
    "database url": "hunter2",
    "database url with a wild password": "ss/w?rd",
    "webhook": "abcdefghijkl",
    "socket ticket": "c2VjcmV0LXRpY2tldA",
    "lease header": "Wm9vYmFyYmF6cXV4cQ",
    "json field": "Wm9vYmFyYmF6cXV4cQ",
    "assignment": "8f742231b10e8888",
    "what the operator made up": "somebody",
}
LIBRARIES = (
    "uvicorn.error", "uvicorn.access", "slack_sdk.web", "slack_bolt", "aiohttp.client", "mcp.server",
    "sqlalchemy.engine", "asyncio", "opentelemetry.sdk", "psycopg", "anybody.else",
)  # fmt: skip


class Log:
    """A log that is written into a string."""

    def __init__(self) -> None:
        self._stream = io.StringIO()

    def configure(self, level: str = "debug", *, as_json: bool | None = True) -> None:
        log.configure(level, as_json=as_json, secrets=[OPERATOR], stream=self._stream)

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log of the test's own; afterwards everything is as it was."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in log._QUIET}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    configured = structlog.get_config()
    try:
        yield Log()
    finally:
        structlog.configure(**configured)
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def own_logger(name: str) -> Any:
    """A logger that was not used before, so that it takes the configuration of this test."""
    return structlog.get_logger(name)


class Carrier:
    """An object that shows a secret when it is shown itself."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return f"<carrier of {self._secret}>"


def in_message(secret: str) -> None:
    own_logger("swarm.test").warning(f"It says {secret} here.", action="test")


def in_field(secret: str) -> None:
    own_logger("swarm.test").warning("See.", action="test", answer=secret)


def deep_in_a_field(secret: str) -> None:
    own_logger("swarm.test").warning("See.", action="test", answer={"list": [{"text": (secret,)}]})


def as_a_key(secret: str) -> None:
    own_logger("swarm.test").warning("See.", action="test", answer={secret: 1})


def in_an_object(secret: str) -> None:
    own_logger("swarm.test").warning("See.", action="test", answer=Carrier(secret))


def in_bytes(secret: str) -> None:
    own_logger("swarm.test").warning("See.", action="test", answer=repr(secret.encode()))


def in_context(secret: str) -> None:
    with structlog.contextvars.bound_contextvars(request=secret):
        own_logger("swarm.test").warning("See.", action="test")


def in_a_traceback(secret: str) -> None:
    try:
        try:
            raise ValueError(f"bad value {secret}")
        except ValueError as error:
            raise RuntimeError("it failed") from error
    except RuntimeError:
        own_logger("swarm.test").exception("It failed.", action="test")


def in_an_error_field(secret: str) -> None:
    own_logger("swarm.test").error("It failed.", action="test", error=ValueError(secret))


WAYS: list[Callable[[str], None]] = [
    in_message, in_field, deep_in_a_field, as_a_key, in_an_object, in_context, in_a_traceback, in_an_error_field,
]  # fmt: skip


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_gets_into_the_log_on_any_way(written: Log, name: str, as_json: bool) -> None:
    written.configure(as_json=as_json)
    for way in WAYS:
        before = len(written.text)
        way(SECRETS[name])
        line = written.text[before:]
        assert line, way.__name__
        assert HIDDEN in line, (way.__name__, line)
        for form in (TELLTALE[name], json.dumps(TELLTALE[name])[1:-1], repr(TELLTALE[name])[1:-1]):
            assert form not in line, (way.__name__, line)


@pytest.mark.req("OPS-06")
def test_a_library_that_set_up_its_own_log_writes_into_ours(written: Log) -> None:
    library, own = logging.getLogger("uvicorn.access"), io.StringIO()
    library.addHandler(logging.StreamHandler(own))
    library.propagate = False
    written.configure()
    library.error("Somebody came.")
    assert [line["event"] for line in written.lines] == ["Somebody came."]
    assert own.getvalue() == ""


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_log_no_secret_either(written: Log, library: str) -> None:
    written.configure()
    logger = logging.getLogger(library)
    for name, secret in SECRETS.items():
        logger.error("Request to %s failed: %s", secret, {"headers": [secret]})
        try:
            raise OSError(secret)
        except OSError:
            logger.exception("It failed with %r", secret)
        assert TELLTALE[name] not in written.text
        assert json.dumps(TELLTALE[name])[1:-1] not in written.text
    assert len(written.lines) == 2 * len(SECRETS)  # each of them is JSON still


def test_values_under_the_name_of_a_secret_are_hidden_whatever_they_are(written: Log) -> None:
    written.configure()
    own_logger("swarm.test").warning(
        "See.", action="test", lease_token="abcd", headers={"Authorization": "zyxw", "accept": "*/*"}, tokens=["abcd"]
    )
    (line,) = written.lines
    assert line["lease_token"] == HIDDEN
    assert line["headers"] == {"Authorization": HIDDEN, "accept": "*/*"}
    assert line["tokens"] == HIDDEN


@every(
    "harmless",
    [
        "Slack does not accept SLACK_BOT_TOKEN: invalid_auth.",
        "http://127.0.0.1:8400/api/ cannot be reached",
        "The coordinator is up.",
        "thread 019a-b of C0123:1700000000.000100",
        "the lease token is unknown",
        "swarm_runner.run: packages/swarm_base/src/swarm_base/log.py, swarm_agents.mcp, swarm_lab",
        "swarm_agents.models.served",
    ],
)
def test_what_is_no_secret_stays_as_it_is(harmless: str) -> None:
    assert Redactor([OPERATOR]).text(harmless) == harmless


class Said(BaseModel):
    count: int


def test_errors_that_repeat_what_people_wrote_are_logged_without_it(written: Log) -> None:
    written.configure("info")
    private = "the merger is off"

    class Refused(Exception):
        pass

    def by_pydantic() -> None:
        Said.model_validate({"count": private})

    def by_postgres() -> None:
        raise Refused(f'violates check "x"\nDETAIL:  Failing row contains (1, {private}\n\nand {private}, 2).')

    def by_sqlalchemy() -> None:
        raise StatementError("failed", "INSERT", {"text": private}, ValueError("no"))

    for fail in (by_pydantic, by_postgres, by_sqlalchemy):
        try:
            fail()
        except (ValidationError, Refused, StatementError):
            own_logger("swarm.test").exception("It failed.", action="test")
    assert len(written.lines) == 3
    assert "violates check" in written.text
    assert private not in written.text


def test_every_line_has_an_action_a_level_a_time_and_its_logger(written: Log) -> None:
    written.configure("info")
    own_logger("swarm.test").info("Up.", action="start", address="http://127.0.0.1:8080")
    logging.getLogger("uvicorn.error").error("Port in use")
    own, foreign = written.lines
    assert own["action"] == "start"
    assert own["address"] == "http://127.0.0.1:8080"
    assert foreign["action"] == "uvicorn.error"
    for line in (own, foreign):
        assert {"level", "timestamp", "logger", "event"} <= line.keys()
        assert line["timestamp"].endswith("Z")


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("as_json", [True, False])
def test_no_text_writes_a_line_of_its_own_or_hides_in_one(written: Log, as_json: bool) -> None:
    written.configure(as_json=as_json)
    hostile = f"{TEXT}\n2026-01-01 [error] forged\u2028\x85\x1b[2J"
    own_logger("swarm.test").warning(hostile, action="test", reason=hostile, others=[hostile])
    logging.getLogger("anybody.else").warning(hostile)
    assert hidden_in(written.text) == ""
    assert len(written.text.splitlines()) == 2
    assert not as_json or {line["action"] for line in written.lines} == {"test", "anybody.else"}


@pytest.mark.parametrize("logger", LIBRARIES[:6])
def test_libraries_say_nothing_below_warning(written: Log, logger: str) -> None:
    written.configure("debug")
    logging.getLogger(logger).info("somebody wrote: hello")
    logging.getLogger(logger).debug("somebody wrote: hello")
    assert written.text == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_json"), [(Terminal(), False), (io.StringIO(), True)])
def test_unless_told_otherwise_only_a_terminal_gets_text(written: Log, stream: io.StringIO, is_json: bool) -> None:
    log.configure("info", stream=stream)
    own_logger("swarm.test").info("Up.", action="start")
    assert stream.getvalue().startswith("{") is is_json


def test_what_nobody_caught_is_logged_without_secrets(written: Log) -> None:
    written.configure()

    def crash() -> None:
        raise RuntimeError(SECRETS["bot token"])

    thread = threading.Thread(target=crash, name="worker")
    thread.start()
    thread.join()
    try:
        crash()
    except RuntimeError:
        sys.excepthook(*sys.exc_info())
    of_thread, of_process = written.lines
    assert (of_thread["action"], of_thread["thread"]) == ("crash", "worker")
    assert of_process["action"] == "crash"
    assert "RuntimeError" in of_process["exception"]
    assert TELLTALE["bot token"] not in written.text


def test_all_secret_settings_are_hidden(tmp_path: Any) -> None:
    environment = {
        "SLACK_BOT_TOKEN": "bot-secret", "SLACK_APP_TOKEN": "app-secret", "SWARM_OPERATOR_TOKEN": "operators-secret",
        "SWARM_ENROLMENT_KEY": "enrolment-secret", "SWARM_METRICS_TOKEN": "metrics-s-secret",
        "SWARM_DATABASE_URL": "postgresql://swarm:database-secret@localhost/swarm",
    }  # fmt: skip
    settings = load(environment, folder=tmp_path, user_home=tmp_path)
    assert sorted(secrets(settings)) == [
        "app-secret", "bot-secret", "database-secret", "enrolment-secret", "metrics-s-secret", "operators-secret",
    ]  # fmt: skip


def test_a_line_stays_json_when_a_secret_is_cut_out_of_it() -> None:
    redactor = Redactor([OPERATOR])
    for secret in SECRETS.values():
        line = orjson.dumps({"event": f'"{secret}"', "n": [secret, 1]}).decode()
        assert isinstance(orjson.loads(redactor.line(line)), dict), line


def test_a_secret_that_is_learned_later_is_hidden_from_then_on() -> None:
    stream = io.StringIO()
    log.configure("info", as_json=True, stream=stream)
    logger = structlog.get_logger("late")
    logger.info("before", action="test", value="hush-hush")
    log.hide(["hush-hush"])
    logger.info("after", action="test", value="hush-hush")
    before, after = (json.loads(line)["value"] for line in stream.getvalue().splitlines())
    assert (before, after) == ("hush-hush", HIDDEN)


@pytest.mark.parametrize("piece", ["a", "a-", "a://b:", "token", "x=1 ", "password "])
def test_a_long_text_is_searched_for_secrets_in_no_time(piece: str) -> None:
    """Twice the text may take about twice as long: with a quadratic pattern it took half a minute."""
    redactor = Redactor()
    begun = time.process_time()
    redactor.text(piece * (100_000 // len(piece)))
    assert time.process_time() - begun < 3
