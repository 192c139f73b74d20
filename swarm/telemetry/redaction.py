"""Secrets out of text: what must never stand in a log, in whatever form it got there.

Known by their look are keys and tokens of Slack, of our agents and of many services
(`swarm.domain.text.secret_patterns`, the same as in what agents post), bearer tokens, passwords in addresses and
tickets in queries. Known by name are values that stand behind words such as ``token`` or ``password``. What has
neither, a token that an operator made up, is told to a `Redactor` when it starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from swarm.domain.text.secrets import MIN_SECRET_CHARACTERS, without_patterns

HIDDEN: Final = "…"

_WORDS: Final = (
    r"(?:token|secret|password|passwd|pwd|(?:api|access|account|private)[_-]?key|authorization|cookie|ticket|"
    r"enrolment[_-]?key|x-swarm-lease)"
)
_VALUE: Final = r"[^\s\"'\\,;&}\])…]{4,}"

_SECRET_NAME: Final = re.compile(_WORDS + r"s?$", re.IGNORECASE)
"""The name of a field whose value is secret: ``lease_token``, ``SLACK_BOT_TOKEN``, ``Authorization``."""

# Everything before a secret has a longest length: without, a text of 50,000 letters took half a minute.
_BY_LOOK: Final = (
    # Slack's, ours, and those of model and code services
    re.compile(r"\b(xox[a-z](?:\.xox[a-z])?-|xapp-|swarm_|sk-|gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9._~+/=-]{4,}"),
    re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE),
    # scheme://user:password@host; the password may hold anything but what ends an address
    re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s:/?#@'\"]{0,200}:)[^\s'\"]{1,500}(?=@)"),
    # whoever has such an address may post
    re.compile(r"(hooks\.slack\.com/(?:services|actions|commands|workflows)/)[^\s'\"\\]+"),
    # name=value; "name": "value" and ('name', b'value'); and two headers as they are sent
    re.compile(r"((?<![\w-])[\w-]{0,200}" + _WORDS + r"s?\s*=\s*\\?[\"']?)" + _VALUE, re.IGNORECASE),
    re.compile(r"((?<![\w-])[\w-]{0,200}" + _WORDS + r"s?\\?[\"']\s*[:,]\s*b?\\?[\"'])" + _VALUE, re.IGNORECASE),
    re.compile(r"(\b(?:authorization|cookie|x-swarm-lease):\s*)" + _VALUE, re.IGNORECASE),
)

_REPEATED: Final = (
    re.compile(r"(DETAIL:).*?(?=\n\nThe above exception|\n\nDuring handling|\Z)", re.DOTALL),
    re.compile(r"(input_value=).*?(?=, input_type=)", re.DOTALL),
    re.compile(r"(\[parameters: ).*?(?=\]\n|\]\Z)", re.DOTALL),
)
"""What people wrote, repeated in errors: the row that PostgreSQL refused, the values of pydantic and SQLAlchemy."""


class Redactor:
    """Makes secrets unrecognisable, those that it knows by look and the ``secrets`` that it was told."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._told: re.Pattern[str] | None = None
        self._forms: set[str] = set()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these as well from now on."""
        self._forms |= {form for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS for form in _forms(secret)}
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._told = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """The text without any secret, and without what people wrote where an error repeats it."""
        for pattern in _REPEATED:
            text = pattern.sub(_keep_beginning, text)
        return self.line(text)

    def line(self, line: str) -> str:
        """The same for a line of a log whose fields have been treated: it stays the JSON that it is."""
        if self._told:
            line = self._told.sub(HIDDEN, line)
        for pattern in _BY_LOOK:
            line = pattern.sub(_keep_beginning, line)
        return without_patterns(line, HIDDEN)

    def value(self, value: object, name: str = "") -> object:
        """A value of a log line's field, to whatever depth: what stands under a secret's name is hidden as a whole."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if _SECRET_NAME.search(name):
            return HIDDEN
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.line(str(key)): self.value(part, str(key)) for key, part in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.value(part, name) for part in value]
            case BaseException():
                return self.text(f"{type(value).__name__}: {value}")
            case _:
                return self.text(repr(value))


def _keep_beginning(found: re.Match[str]) -> str:
    return found.group(1) + HIDDEN


def _forms(secret: str) -> tuple[str, ...]:
    """How a secret may be written: as it is, within JSON, within a repr, within an address."""
    return (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    )
