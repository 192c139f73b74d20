"""Commands for stored data: ``swarm backup``, ``swarm restore`` and ``swarm forget``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from cyclopts import Parameter
from rich.console import Console

from swarm.app import home
from swarm.cli.client import CoordinatorClient, NoServer
from swarm.cli.terminal import Terminal
from swarm.config import Settings, load
from swarm.domain.errors import ConfigurationError, Invalid

if TYPE_CHECKING:
    from swarm.store.admin.backup import Progress

_out = Console(highlight=False)
_Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
_FORGET_SECONDS: Final = 600.0
"""The time limit for the coordinator, which is long because a person may have written a lot."""


def backup(file: Path, *, force: _Flag = False) -> None:
    """Write a backup of the database and of the edited base prompts; the coordinator may run meanwhile.

    PostgreSQL needs pg_dump on the PATH, as new as the server. Tokens are not in it; what people said is.

    Parameters
    ----------
    file
        Where to; the file is there only when it is whole.
    force
        Replace a file that is there.
    """
    from swarm.app import backup as backups

    settings = load()
    with _shown("Copying the database") as progress:
        made = backups.make(settings.database_url, home.prompts(settings), file, force=force, progress=progress)
    _out.print(f"{file}: {made.database}, {made.size} bytes, migration {made.revision}.", soft_wrap=True, markup=False)


def restore(file: Path, *, force: _Flag = False) -> None:
    """Put a backup back, and migrate it to this version. No coordinator may use the database meanwhile.

    What was to be posted when the backup was made is looked for in Slack before it is sent. What was deleted, or whom
    was forgotten, since then is there again: forget it once more.

    Parameters
    ----------
    file
        A file that `swarm backup` has written.
    force
        Replace what is in the database.
    """
    from swarm.app import backup as backups

    settings = load()
    home.prepare(settings)
    with _shown("Restoring the database") as progress:
        found = backups.restore(settings.database_url, home.prompts(settings), file, force=force, progress=progress)
    _out.print(f"Restored the backup of {found.created_at} (swarm {found.version}).", soft_wrap=True, markup=False)


@contextmanager
def _shown(what: str) -> Iterator[Progress]:
    """Yields a progress display, which is shown only on a terminal."""
    if not _out.is_terminal:
        yield lambda done: None
        return
    with _out.status(what) as status:
        yield lambda done: status.update(f"{what}: {done:.0%}")


def forget(
    person: str,
    *,
    dry_run: _Flag = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), show_default=False)] = False,
) -> int:
    """Remove what a person wrote and what names them, for good; their open work is withdrawn.

    What they wrote in Slack stays in Slack, and is not stored again when it is read there. Without a coordinator that
    runs, the database is changed directly. Backups keep what they have.

    Parameters
    ----------
    person
        A Slack user's id, U0123456789, or @name.
    dry_run
        Only count what there is.
    yes
        Do not ask.
    """
    settings, out = load(), Terminal()
    found = _forget(settings, person, dry_run=True)
    _print_found(out, found)
    if dry_run or not found["removed"]:
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Nobody is there to be asked.", hint="Say --yes.")
        from rich.prompt import Confirm

        if not Confirm.ask(f"Forget {found['person']}? It cannot be undone", console=out, default=False):
            return 1
    _print_found(out, _forget(settings, found["person"], dry_run=False))
    return 0


def _forget(settings: Settings, person: str, *, dry_run: bool) -> Mapping[str, Any]:
    """Forgets a person through the running coordinator or, if none runs, directly in the database."""
    try:
        token = home.operator_token(settings)
        with CoordinatorClient(settings.http.address, token, timeout_seconds=_FORGET_SECONDS) as coordinator:
            path = f"/people/{quote(person, safe='@')}/forget"
            found: Mapping[str, Any] = coordinator.call("POST", path, json={"dry_run": dry_run})
            return found
    except (NoServer, ConfigurationError):  # without a token, no coordinator has ever run in this home
        if settings.http.url:  # the settings name a coordinator elsewhere, not one that uses this database
            raise
        return asyncio.run(_forget_directly(settings, person, dry_run=dry_run))


async def _forget_directly(settings: Settings, person: str, *, dry_run: bool) -> Mapping[str, Any]:
    from swarm.app import settings_mapping
    from swarm.services.operate.people import PersonalData
    from swarm.store.admin import preparation
    from swarm.store.bridge.database import Database

    preparation.prepare(settings.database_url)
    async with Database(settings.database_url) as database:
        return asdict(
            await PersonalData(database, settings_mapping.operating_policy(settings)).forget(person, dry_run=dry_run)
        )


def _print_found(out: Terminal, found: Mapping[str, Any]) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in found["removed"].items())
    verb = "There are" if found["dry_run"] else "Removed:"
    sentence = f"{verb} {kinds} of {found['person']}." if kinds else f"There is nothing of {found['person']}."
    out.print(sentence, soft_wrap=True, markup=False)
