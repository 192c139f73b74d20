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
from swarm.cli import NoServer
from swarm.cli.operator_commands import CoordinatorClient
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
    """Write a backup of the database and of the edited base prompts. The coordinator may be running.

    PostgreSQL requires pg_dump on the PATH, of at least the server's version. A backup contains people's messages, but
    no tokens.

    Parameters
    ----------
    file
        The path of the backup; the file appears only once it is complete.
    force
        Replace an existing file.
    """
    from swarm.app import backup as backups

    settings = load()
    with _shown("Copying the database") as progress:
        made = backups.make(settings.database_url, home.prompts(settings), file, force=force, progress=progress)
    _out.print(f"{file}: {made.database}, {made.size} bytes, migration {made.revision}.", soft_wrap=True, markup=False)


def restore(file: Path, *, force: _Flag = False) -> None:
    """Restore a backup, and migrate it to this version. No coordinator may use the database meanwhile.

    Messages that were waiting to be posted when the backup was made are looked up in Slack before they are sent. Data
    that was deleted or forgotten since the backup is restored too, and must be forgotten again.

    Parameters
    ----------
    file
        A file that `swarm backup` has written.
    force
        Replace the contents of the database.
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
    """Permanently remove a person's texts and all mentions of their name. Their open work is withdrawn.

    Their messages in Slack remain in Slack, and are not stored again when they are read there. If no coordinator is
    running, the database is changed directly. Backups are not changed.

    Parameters
    ----------
    person
        A Slack user's id, U0123456789, or @name.
    dry_run
        Only count the data that would be removed.
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
            raise Invalid("Cannot ask for confirmation.", hint="Add --yes to confirm.")
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


_KINDS: Final = {
    "standings": "profiles",
    "opinions": "ratings",
    "copies": "quotes",
    "posts for them": "private posts",
}
"""What people call what the API counts."""


def _print_found(out: Terminal, found: Mapping[str, Any]) -> None:
    named = [(n, _KINDS.get(kind, kind)) for kind, n in found["removed"].items()]
    kinds = ", ".join(f"{n} {kind.removesuffix('s') if n == 1 else kind}" for n, kind in named)
    verb = "Stored about" if found["dry_run"] else "Removed of"
    sentence = f"{verb} {found['person']}: {kinds}." if kinds else f"No data of {found['person']} was found."
    out.print(sentence, soft_wrap=True, markup=False)
