"""The log of a test's own: what a command configures for its whole process ends with the test."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import structlog

from swarm_base import log


@contextmanager
def own_log() -> Iterator[None]:
    """A block in which code may configure the log (`swarm_base.log`); afterwards everything is as it was.

    Loggers are not kept meanwhile: one that is first used here would write for ever to what was configured here, and no
    other test could capture what it writes.
    """
    root, configured, configure = logging.getLogger(), structlog.get_config(), structlog.configure
    level, handlers, redactors = root.level, list(root.handlers), list(log._redactors)
    levels = {name: logging.getLogger(name).level for name in log._QUIET}

    def without_keeping(**options: Any) -> None:
        configure(**options | {"cache_logger_on_first_use": False})

    hooks = mock.patch.object(sys, "excepthook"), mock.patch.object(threading, "excepthook")
    with hooks[0], hooks[1], mock.patch.object(structlog, "configure", without_keeping):
        try:
            yield
        finally:
            configure(**configured)
            root.setLevel(level)
            root.handlers[:], log._redactors[:] = handlers, redactors
            for name, before in levels.items():
                logging.getLogger(name).setLevel(before)
