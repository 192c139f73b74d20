"""Logging: one line per event, with an ``action`` and its ids, and without secrets (`swarm_base.redaction`).

All lines go to standard error in one format: our own lines, those of libraries, and uncaught errors. A terminal shows
text; otherwise each line is a JSON object.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, MutableMapping
from types import TracebackType
from typing import Any, Final, TextIO

import structlog

from swarm_base.characters import strip_invisible
from swarm_base.redaction import Redactor

_QUIET: Final = (
    "alembic",
    "aiohttp",
    "aiohttp.access",
    "anthropic",
    "asyncio",
    "bedrock_agentcore",
    "boto3",
    "botocore",
    "httpcore2",
    "httpx2",
    "mcp",
    "opentelemetry",
    "slack_bolt",
    "slack_sdk",
    "sqlalchemy",
    "urllib3",
    "uvicorn",
    "uvicorn.access",
    "uvicorn.error",
)
"""Libraries whose info lines repeat ours, and whose debug lines contain people's texts."""

Event = MutableMapping[str, Any]

_log = structlog.get_logger(__name__)


def configure(
    level: str = "info",
    *,
    as_json: bool | None = None,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Sends all log lines to standard error in one format. Must be called before the first line is logged.

    ``as_json`` chooses the format; the default is JSON unless standard error is a terminal. ``secrets`` are values to
    hide in addition to those recognised by their form. ``stream`` replaces standard error.
    """
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    _redactors[:] = [Redactor(secrets)]
    handler.setFormatter(_formatter(shared, _redactors[0], not stream.isatty() if as_json is None else as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        library = logging.getLogger(name)
        library.setLevel(max(logging.WARNING, root.level))
        library.handlers.clear()  # a library's own handler would bypass the redaction
        library.propagate = True
    sys.excepthook = _on_crash
    threading.excepthook = _on_thread_crash


def hide(secrets: Iterable[str]) -> None:
    """Hides additional secrets, such as those in other files, from now on. Has no effect before `configure`."""
    for redactor in _redactors:
        redactor.learn(secrets)


_redactors: list[Redactor] = []
"""The current redactor; empty before `configure`."""


def _formatter(shared: list[Any], redactor: Redactor, as_json: bool) -> logging.Formatter:
    # A traceback is formatted before redaction, without local variables, which contain people's texts.
    plainly = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.StackInfoRenderer(),
            _name_action,
            _hide(redactor),
            *([] if as_json else [_on_one_line]),
            structlog.processors.JSONRenderer(ensure_ascii=False) if as_json else plainly,
            _hide_in_line(redactor),
        ],
    )


def _hide(redactor: Redactor) -> Callable[[object, str, Event], Event]:
    def hide(_logger: object, _method: str, event: Event) -> Event:
        return {name: redactor.value(value, name) for name, value in event.items()}

    return hide


def _hide_in_line(redactor: Redactor) -> Callable[[object, str, Any], str]:
    """Redacts the complete line again, to catch field names and secrets split across fields. Removes invisible
    characters, and line breaks that only some programs recognise.
    """

    def hide(_logger: object, _method: str, line: Any) -> str:
        return redactor.line(strip_invisible(str(line).translate(_BREAKS)))

    return hide


_BREAKS: Final = {ord(character): "\\n" for character in "\r\v\f\x85\u2028\u2029"}


def _on_one_line(_logger: object, _method: str, event: Event) -> Event:
    """Keeps each event on one line for terminals. Only a traceback has several lines, so no text can look like another
    event."""
    several = ("exception", "stack")
    return {
        name: value.replace("\n", "\\n") if isinstance(value, str) and name not in several else value
        for name, value in event.items()
    }


def _name_action(_logger: object, _method: str, event: Event) -> Event:
    """Uses the logger's name as the action of a library's line."""
    event.setdefault("action", event.get("logger", "unknown"))
    return event


def _on_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Logs an uncaught error, which ends the process, with a redacted traceback."""
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical("The process ends because of an uncaught error.", action="crash", exc_info=(kind, error, trace))


def _on_thread_crash(crash: threading.ExceptHookArgs) -> None:
    if crash.exc_value is None or issubclass(crash.exc_type, SystemExit):
        return
    _log.critical(
        "A thread ended because of an uncaught error.",
        action="crash",
        thread=crash.thread.name if crash.thread else None,
        exc_info=(crash.exc_type, crash.exc_value, crash.exc_traceback),
    )
