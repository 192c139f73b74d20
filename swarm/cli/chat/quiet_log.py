"""The log during a chat: a file, so that log lines do not disturb the screen."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO, cast

from swarm.app import home
from swarm.config import Settings, secrets
from swarm.domain.errors import ConfigurationError
from swarm.telemetry import log

FILE: Final = "chat.log"
MOST_BYTES: Final = 1_000_000
"""A longer file is begun anew."""


@contextmanager
def quiet(settings: Settings, *, verbose: bool) -> Iterator[str]:
    """Send warnings to a file in the home folder; with ``verbose`` all lines to standard error. Yields the place."""
    if verbose:
        log.configure(settings.log.level, as_json=False, secrets=secrets(settings), stream=cast(TextIO, _Now()))
        yield "standard error"
        return
    home.prepare(settings)
    path = settings.home.expanduser() / FILE
    try:
        fresh = os.O_TRUNC if path.exists() and path.stat().st_size > MOST_BYTES else 0
        file = os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | fresh, 0o600), "a")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.", hint="Set SWARM_HOME.") from error
    with file:
        log.configure("warning", as_json=False, secrets=secrets(settings), stream=file)
        try:
            yield str(path)
        finally:
            log.configure("warning", secrets=secrets(settings))  # later lines are not lost


class _Now(io.TextIOBase):
    """The current standard error, which is replaced while an answer is painted or a line is read."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()
