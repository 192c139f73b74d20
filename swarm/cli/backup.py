"""``swarm backup`` and ``swarm restore``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from swarm.app import home
from swarm.config import load

if TYPE_CHECKING:
    from swarm.store.admin.backup import Progress

_out = Console(highlight=False)
_Force = Annotated[bool, Parameter(negative=(), show_default=False)]


def backup(file: Path, *, force: _Force = False) -> None:
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


def restore(file: Path, *, force: _Force = False) -> None:
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
    """A progress display, on a terminal."""
    if not _out.is_terminal:
        yield lambda done: None
        return
    with _out.status(what) as status:
        yield lambda done: status.update(f"{what}: {done:.0%}")
