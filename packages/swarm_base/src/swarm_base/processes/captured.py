"""Runs a program to its end, with a time limit and bounded output, leaving no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Final

from swarm_base.processes.child import Child, to_the_end

_GRACE_SECONDS: Final = 2.0
"""The time between SIGTERM, on which a program removes its locks, and SIGKILL."""

_KEPT: Final = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """The result of a program's run."""

    code: int | None  # the exit code, or the negative signal number; None after a time limit or a kill from outside
    output: str  # standard output, including standard error unless captured separately; invalid UTF-8 becomes U+FFFD
    errors: str = ""  # standard error, if captured separately
    timed_out: bool = False
    cut: bool = False  # whether the middle of the output is missing; a line in the output says how much


async def run_program(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout_seconds: float,
    most_bytes: int,
    errors_apart: bool = False,
    grace_seconds: float = _GRACE_SECONDS,
) -> Ran:
    """Runs a program to its end, or for ``timeout_seconds``, and always ends all its descendants.

    The arguments and errors are those of `Child.start`. ``stdin`` is the program's input; None means no input. After
    the time limit or a cancellation, ending may take another ``grace_seconds``, plus the time for killing.
    """
    child: Child | None = None
    limit = asyncio.timeout(timeout_seconds)
    try:
        async with limit:  # covers the start too, since the program may stop the supervisor before it reports the start
            with contextlib.ExitStack() as open_things:
                child = await Child.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=DEVNULL if stdin is None else open_things.enter_context(_file(stdin)),
                    captured=2 if errors_apart else 1,
                    most_bytes=most_bytes,
                    grace_seconds=grace_seconds,
                )
            await child.ended.wait()
    except TimeoutError:
        if not limit.expired():
            raise  # the system's error if the program cannot be started
    finally:
        if child:
            await to_the_end(child.end())
    if child is None:
        return Ran(code=None, output="", timed_out=True)
    timed_out = limit.expired()
    output, errors = (kept.decode(errors="replace") for kept in child.outputs)
    return Ran(
        code=None if timed_out else child.code, output=output, errors=errors, timed_out=timed_out, cut=child.is_cut
    )


def clean_environment(given: Mapping[str, str], *, passed: Iterable[str] = ()) -> dict[str, str]:
    """Returns the variables that a program needs to run and to find its own files, and the variables named in
    ``passed``.

    All other variables are omitted, since the coordinator's environment contains tokens and keys.
    """
    names = {name for name in given if name in _KEPT or name.startswith("LC_")}
    return {name: given[name] for name in sorted(names | (set(passed) & set(given)))}


def _file(content: bytes) -> IO[bytes]:
    """Returns an unnamed file with this content, positioned at its beginning."""
    on_linux = hasattr(os, "memfd_create")
    file = os.fdopen(os.memfd_create("swarm"), "w+b") if on_linux else tempfile.TemporaryFile()  # noqa: SIM115 -- the caller closes it
    file.write(content)
    file.seek(0)
    return file
