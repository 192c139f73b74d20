"""Problems of settings, for people: the key, its value unless secret, and the expectation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from swarm.config.variables import VARIABLES
from swarm.domain.errors import ConfigurationError
from swarm.telemetry.redaction import Redactor

_SECRET = re.compile(r"(token|secret|key)$")
_REDACTOR: Final = Redactor()


class BadSettings(ConfigurationError):
    """Some settings cannot be used. ``problems`` has each bad key, with its problem."""

    def __init__(self, error: ValidationError) -> None:
        found = [_problem(part) for part in error.errors(include_url=False)]
        self.problems: Mapping[str, str] = dict(found)
        super().__init__(
            "; ".join(f"{key} {wrong}" if wrong.startswith("is ") else f"{key}: {wrong}" for key, wrong in found)
        )


def _problem(part: ErrorDetails) -> tuple[str, str]:
    """The key with its variable, and the problem."""
    path = tuple(str(step) for step in part["loc"])
    variable = next((name for name, known in VARIABLES.items() if known == path), None)
    key = ".".join(path) + (f" ({variable})" if variable else "")
    if part["type"] == "extra_forbidden":
        return key, "there is no such setting"
    expected = part["msg"].removeprefix("Value error, ")
    value = part.get("input")
    if isinstance(value, dict | list) or (path and _SECRET.search(path[-1])) or part["type"] == "missing":
        return key, expected
    return key, f"is {_REDACTOR.line(repr(value))}: {expected}"
