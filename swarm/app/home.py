"""The home folder of the embedded setup, which contains the operator's token."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from dataclasses import asdict
from pathlib import Path
from typing import Final

import structlog

from swarm.config import Settings, load_part, secret_problem
from swarm.domain.errors import ConfigurationError
from swarm.domain.policy.access import Me
from swarm_base.place import Place

FILES: Final = (
    *("*.db", "*.db-wal", "*.db-shm", "*.db-journal", "*.token", "*.log", "chat_history", "logs", "logs/*.log"),
    *("prompts", ".env", "swarm.yaml", "servers_config.json", "*.db-lock", "slack-identity.json"),
)
"""The home folder's files: those written by the system, its demo and its terminal, and those read as settings."""

_log = structlog.get_logger(__name__)


def prepare(settings: Settings) -> None:
    """Creates the home folder, accessible only to its owner, or restricts access to an existing one. Raises
    ConfigurationError on failure, or if the folder belongs to another user and is open to others.
    """
    folder = settings.home.expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _tighten(folder)
    except PermissionError as error:
        raise ConfigurationError(
            f"home (SWARM_HOME) is {settings.home}: {error.strerror or error}.",
            hint="The home folder contains people's messages, so it must be your own folder, readable only by you.",
        ) from error
    except OSError as error:
        raise ConfigurationError(f"home (SWARM_HOME) is {settings.home}: {error.strerror}") from error


def _tighten(folder: Path) -> None:
    """Removes the group's and others' permissions from a folder and from the system's files in it.

    Other files and the targets of links are not changed, since the operator may have chosen a folder that is also used
    for something else. Raises PermissionError if we may not change the permissions.
    """
    if folder.stat().st_mode & stat.S_ISVTX or folder.resolve() == Path("/"):
        raise PermissionError("a folder that everyone shares")
    if _tightened(folder):
        _log.warning(
            "The home folder was open to others; access is now restricted.", action="home_tightened", path=str(folder)
        )
    ours = [path for pattern in FILES for path in folder.glob(pattern) if not path.is_symlink()]
    closed = [path.name for path in sorted(ours) if _tightened(path)]
    if closed:
        _log.warning(
            "Files in the home folder were open to others; access is now restricted.",
            action="home_tightened",
            files=closed,
        )


def _tightened(path: Path) -> bool:
    """Makes a path private. Returns whether the path was open to others. Raises PermissionError."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            path.chmod(mode & 0o700)
    except FileNotFoundError:  # SQLite's -wal and -shm vanish when the last other process closes the database
        return False
    return bool(mode & 0o077)


def operator_token(settings: Settings) -> str:
    """Returns the configured operator token, or else the token in the home folder.

    Raises ConfigurationError if there is no token, or if the stored token is too short.
    """
    if settings.operator_token:
        return settings.operator_token.get_secret_value()
    try:
        token = _token_file(settings).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"There is no operator token: SWARM_OPERATOR_TOKEN is not set, and {_token_file(settings)} cannot be read.",
            hint="Start the coordinator first (`swarm up`), or set SWARM_HOME to its home folder, which is .demo for "
            "the demo.",
        ) from error
    if problem := secret_problem(token):
        raise ConfigurationError(
            f"The operator token in {_token_file(settings)} is not safe: {problem}.",
            hint="Delete the file; `swarm up` then creates a new token.",
        )
    return token


def check_kept_token(settings: Settings) -> None:
    """Raises ConfigurationError for an unusable operator token in the home folder."""
    if _token_file(settings).exists():
        operator_token(settings)


def make_operator_token(settings: Settings) -> str:
    """Returns the operator token for the coordinator itself, and creates a missing token."""
    path = _token_file(settings)
    if not settings.operator_token and not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("swarm_operator_" + secrets.token_urlsafe(32) + "\n")
    return operator_token(settings)


def prompts(settings: Settings) -> Path:
    """Returns the folder of the operator's own base prompts."""
    return settings.home.expanduser() / "prompts"


def place() -> Place:
    """Returns where the coordinator is, for a runner. No other settings are read: it may start in a folder whose
    settings are for something else, or not finished.
    """
    settings, problem = load_part((("home",), ("http", "host"), ("http", "port"), ("http", "url"), ("log", "level")))
    home, url = settings.home.expanduser(), settings.http.address
    return Place(home=home, url=url, log_level=settings.log.level, problem=problem)


def _token_file(settings: Settings) -> Path:
    return settings.home.expanduser() / "operator.token"


def keep_identity(settings: Settings, me: Me) -> None:
    """Keeps our identity in Slack for a start without Slack. It belongs to the bot token."""
    text = json.dumps({"token": _digest_of_token(settings), **asdict(me)})
    path = _identity_file(settings)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def kept_identity(settings: Settings) -> Me | None:
    """Returns the identity of the last start with this bot token, if there was one."""
    try:
        kept = json.loads(_identity_file(settings).read_text())
        return Me(**kept) if kept.pop("token") == _digest_of_token(settings) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or damaged: Slack will tell
        return None


def _digest_of_token(settings: Settings) -> str:
    token = settings.slack.bot_token
    return hashlib.sha256(token.get_secret_value().encode() if token else b"").hexdigest()


def _identity_file(settings: Settings) -> Path:
    return settings.home.expanduser() / "slack-identity.json"
