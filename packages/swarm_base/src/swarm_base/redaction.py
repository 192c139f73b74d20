"""Redacts secrets in logs, in every form that a secret may take.

Some secrets are recognised by their form: keys and tokens of Slack, of our agents and of many services
(`swarm_base.secrets`, the same rules as for agents' posts), bearer tokens, passwords in addresses, and tickets
in queries. Others are recognised by name: values that follow words such as ``token`` or ``password``. All other
secrets, such as a token chosen by an operator, are passed to a `Redactor` when it is created.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from swarm_base.secrets import MIN_SECRET_CHARACTERS, without_patterns

HIDDEN: Final = "…"

_WORDS: Final = (
    r"(?:token|secret|password|passwd|pwd|(?:api|access|account|private)[_-]?key|authorization|cookie|ticket|"
    r"enrolment[_-]?key|x-swarm-lease)"
)
_VALUE: Final = r"[^\s\"'\\,;&}\])…]{4,}"

SECRET_NAME: Final = re.compile(_WORDS + r"s?$", re.IGNORECASE)
"""The name of a field whose value is secret: ``lease_token``, ``SLACK_BOT_TOKEN``, ``Authorization``."""

# Each pattern before a secret has a maximum length; without it, a text of 50,000 letters took half a minute.
_BY_LOOK: Final = (
    # keys and tokens of Slack, ours (not the names of our packages), and of model and code services
    re.compile(
        r"\b(xox[a-z](?:\.xox[a-z])?-|xapp-|swarm_(?!(?:agents|base|lab|runner)(?![\w~+/=-]))|sk-|gh[pousr]_|"
        r"github_pat_|glpat-)[A-Za-z0-9._~+/=-]{4,}"
    ),
    re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE),
    # scheme://user:password@host; the password may hold any character that does not end an address
    re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s:/?#@'\"]{0,200}:)[^\s'\"]{1,500}(?=@)"),
    # anyone who knows such an address may post
    re.compile(r"(hooks\.slack\.com/(?:services|actions|commands|workflows)/)[^\s'\"\\]+"),
    # name=value; "name": "value" and ('name', b'value'); and two headers in their wire format
    # but not the next name, if there is no value
    re.compile(
        r"((?<![\w-])[\w-]{0,200}" + _WORDS + r"s?\s*=(?!\s+[\w.-]{1,200}=[^=\s])\s*\\?[\"']?)" + _VALUE, re.IGNORECASE
    ),
    re.compile(
        r"((?<![\w-])[\w-]{0,200}"
        + _WORDS
        + r"s?\\?[\"']\s*(?::|,(?!\s*\\?[\"'][^\"'\\]{0,200}\\?[\"']\s*:))\s*b?\\?[\"'])"
        + _VALUE,
        re.IGNORECASE,
    ),
    re.compile(r"(\b(?:authorization|cookie|x-swarm-lease):(?!\s+[\w-]{1,200}:\s)\s*)" + _VALUE, re.IGNORECASE),
)

_REPEATED: Final = (
    re.compile(r"(DETAIL:).*?(?=\n\nThe above exception|\n\nDuring handling|\Z)", re.DOTALL),
    re.compile(r"(input_value=).*?(?=, input_type=)", re.DOTALL),
    re.compile(r"(\[parameters: ).*?(?=\]\n|\]\Z)", re.DOTALL),
)
"""People's texts in errors: the row that PostgreSQL rejected, and values quoted by pydantic and SQLAlchemy."""


class Redactor:
    """A filter that hides secrets that are recognised by their form or are among ``secrets``."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._told: re.Pattern[str] | None = None
        self._forms: set[str] = set()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hides additional secrets from now on."""
        self._forms |= {form for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS for form in _forms(secret)}
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._told = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Returns the text without secrets, and without people's texts that an error quotes."""
        for pattern in _REPEATED:
            text = pattern.sub(_keep_beginning, text)
        return self.line(text)

    def line(self, line: str) -> str:
        """Returns a log line without secrets. The line's fields must already be redacted. The line remains valid
        JSON."""
        if self._told:
            line = self._told.sub(HIDDEN, line)
        for pattern in _BY_LOOK:
            line = pattern.sub(_keep_beginning, line)
        return without_patterns(line, HIDDEN)

    def value(self, value: object, name: str = "") -> object:
        """Returns a log field's value, redacted at every level. If the name is that of a secret, the complete value is
        hidden."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if SECRET_NAME.search(name):
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
    """Returns the forms in which a secret may be written: plain, in JSON, in a repr, in an address."""
    return (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    )
