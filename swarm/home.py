"""The home folder of the embedded set-up, and the operator's token in it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from swarm.config import Settings, secret_problem
from swarm.domain.errors import ConfigurationError


def prepare(settings: Settings) -> None:
    """Make the home folder, for nobody else's eyes. Raises ConfigurationError if that is not possible."""
    try:
        settings.home.expanduser().mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(f"home (SWARM_HOME) is {settings.home}: {error.strerror}") from error


def operator_token(settings: Settings) -> str:
    """The configured token, or the one that the coordinator keeps here.

    Raises ConfigurationError if there is none, or the kept one is too short.
    """
    if settings.operator_token:
        return settings.operator_token.get_secret_value()
    try:
        token = _token_file(settings).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"There is no operator token: SWARM_OPERATOR_TOKEN is not set, and {_token_file(settings)} cannot be read.",
            hint="Start the coordinator first (`swarm up`), or point SWARM_HOME at its home; the demo's is .demo.",
        ) from error
    if problem := secret_problem(token):
        raise ConfigurationError(
            f"The operator token in {_token_file(settings)} is not safe: {problem}.",
            hint="Delete the file, and `swarm up` makes a new one.",
        )
    return token


def check_kept_token(settings: Settings) -> None:
    """Raises ConfigurationError if the operator token that is kept here cannot be used."""
    if _token_file(settings).exists():
        operator_token(settings)


def make_operator_token(settings: Settings) -> str:
    """The same for the coordinator itself, which makes a token where there is none."""
    path = _token_file(settings)
    if not settings.operator_token and not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("swarm_operator_" + secrets.token_urlsafe(32) + "\n")
    return operator_token(settings)


def _token_file(settings: Settings) -> Path:
    return settings.home.expanduser() / "operator.token"
