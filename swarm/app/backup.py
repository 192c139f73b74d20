"""Backups: one tar file with a copy of the database, the edited base prompts, and a manifest.

A backup holds no secrets: a missing operator token is created again, agents' tokens are stored as digests, and the
tokens for Slack and for models are settings. A backup does contain people's messages, so only its owner may read the
file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import orjson

from swarm.domain.errors import ConfigurationError, Conflict
from swarm.store.admin import backup as copies
from swarm.store.admin import revisions
from swarm.store.admin.backup import Progress

FORMAT: Final = 1
_MANIFEST: Final = "manifest.json"
_DATABASE: Final = "database"
_PROMPTS: Final = "prompts/"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The description of a backup."""

    format: int
    database: str  # sqlite or postgresql
    revision: str  # the database's latest migration
    version: str  # the version of swarm
    created_at: str  # ISO 8601, UTC
    sha256: str  # SHA-256 of the database copy
    size: int  # size of the database copy in bytes


def make(url: str, prompts: Path, target: Path, *, force: bool, progress: Progress) -> Manifest:
    """Writes a backup to ``target``. The file appears only once it is complete.

    Raises Conflict if the file exists and ``force`` is not set; also raises ConfigurationError and Unavailable.
    """
    if target.exists() and not force:
        raise Conflict(f"{target} already exists.", hint="Choose another name, or use --force to replace the file.")
    with _folder_beside(target) as folder:
        copy, archive = folder / _DATABASE, folder / "backup.tar"
        revision = copies.revision_of(url)
        copies.dump(url, copy, progress)
        manifest = Manifest(
            format=FORMAT,
            database=copies.kind_of(url),
            revision=revision,
            version=version("swarm"),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            sha256=_digest(copy),
            size=copy.stat().st_size,
        )
        (folder / _MANIFEST).write_bytes(orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2))
        with archive.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            with tarfile.open(fileobj=file, mode="w") as tar:
                for name in (_MANIFEST, _DATABASE):
                    tar.add(folder / name, name)
                for prompt in sorted(prompts.glob("*.md")):
                    tar.add(prompt, _PROMPTS + prompt.name)
            file.flush()
            os.fsync(file.fileno())
        archive.replace(target)
    return manifest


def restore(url: str, prompts: Path, source: Path, *, force: bool, progress: Progress) -> Manifest:
    """Restores a backup and migrates the database. Raises the errors of `swarm.store.admin.backup.put_back`, and
    ConfigurationError for a file that is not a backup, is damaged, comes from a newer version, or belongs to the other
    kind of database.
    """
    with tempfile.TemporaryDirectory(prefix=".swarm-restore-", dir=prompts.parent) as name:
        folder = Path(name)
        manifest = _unpacked(source, folder)
        if manifest.database != copies.kind_of(url):
            raise ConfigurationError(
                f"This is a backup of {manifest.database}, and the database is {copies.kind_of(url)}.",
                hint="Name a database of the same kind: database.url (SWARM_DATABASE_URL).",
            )
        if manifest.revision > revisions.newest():
            raise ConfigurationError(
                f"This backup was made by swarm {manifest.version}, whose database version is newer (migration "
                f"{manifest.revision}) than this version knows ({revisions.newest()}).",
                hint="Restore it with that version or a newer one.",
            )
        copies.put_back(url, folder / _DATABASE, manifest.revision, force=force, progress=progress)
        _put_back_prompts(folder / _PROMPTS, prompts)
    return manifest


def _put_back_prompts(saved: Path, prompts: Path) -> None:
    """Overwrites the prompts. The old database was empty or is being replaced, and its prompts with it."""
    for prompt in sorted(saved.glob("*.md")):
        prompts.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copyfile(prompt, prompts / prompt.name)


def _unpacked(source: Path, folder: Path) -> Manifest:
    """Unpacks a backup into ``folder``, checks its digest and returns the manifest. Raises ConfigurationError."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            for member in tar:
                if member.isfile() and _is_ours(member.name):
                    tar.extract(member, folder, filter="data")
        manifest = Manifest(**orjson.loads((folder / _MANIFEST).read_bytes()))
        is_whole = manifest.format == FORMAT and _digest(folder / _DATABASE) == manifest.sha256
    except OSError as error:
        if error.filename == str(source):
            raise ConfigurationError(f"{source} cannot be read: {error.strerror}.") from error
        is_whole = False
    except (tarfile.TarError, ValueError, TypeError):
        is_whole = False
    if not is_whole:
        raise ConfigurationError(f"{source} is not a backup of swarm, or is damaged.")
    return manifest


def _is_ours(name: str) -> bool:
    return name in (_MANIFEST, _DATABASE) or (name.startswith(_PROMPTS) and Path(name).parent == Path(_PROMPTS))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """Yields a temporary folder on the same disk. The folder is always removed afterwards. Raises
    ConfigurationError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".swarm-backup-", dir=target.absolute().parent))
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error.strerror}.") from error
    try:
        yield folder
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
