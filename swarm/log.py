"""Logging: one line an event, with an ``action`` and its ids, and never a token."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

_TOKENS: Final = re.compile(r"(xox[a-z]-|xapp-|swarm_|Bearer\s+)[A-Za-z0-9._~+/-]{4,}")
_QUIET: Final = (
    "alembic",
    "aiohttp.access",
    "httpcore2",
    "httpx2",
    "mcp",
    "slack_bolt",
    "slack_sdk",
    "uvicorn",
    "uvicorn.access",
    "uvicorn.error",
)


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Send everything that anybody logs to standard error, in one format. Call it once, before anything logs."""
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
    # A traceback becomes text before it is redacted, and shows no local variables: those hold what people wrote.
    plainly = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _redact,
            structlog.processors.JSONRenderer() if as_json else plainly,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def redacted(text: str) -> str:
    """A text with every token in it made unrecognisable."""
    return _TOKENS.sub(lambda found: found.group(1) + "…", text)


def _redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redacted(value)
    return event
