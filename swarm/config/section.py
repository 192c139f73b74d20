"""The common base class of all parts of the settings."""

from __future__ import annotations

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr

SHORTEST_SECRET: Final = 16
"""The minimum length of a secret in characters. A shorter secret, or one repeated character, is easily guessed."""


class Section(BaseModel):
    """A part of the settings: frozen, and with known keys only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def inheriting(self, defaults: Self) -> Self:
        """Returns these settings, with every missing key taken from ``defaults``."""
        return defaults.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


def _is_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, half an IPv6 address
        is_usable = False
    if not is_usable or any(letter.isspace() for letter in url):
        raise ValueError("an http or https URL is expected, for example https://agents.example.org/api")
    return url


HttpAddress = Annotated[str, AfterValidator(_is_address)]


def secret_problem(secret: str) -> str | None:
    """Returns the weakness of an operator's secret, with advice on choosing a good one. Returns None for a good
    secret."""
    if len(secret.strip()) >= SHORTEST_SECRET and len(set(secret.strip())) > 1:
        return None
    return (
        f"at least {SHORTEST_SECRET} characters are expected, and not one over and over; make one with "
        'python -c "import secrets; print(secrets.token_urlsafe(32))"'
    )


def _is_strong(secret: SecretStr) -> SecretStr:
    if problem := secret_problem(secret.get_secret_value()):
        raise ValueError(problem)
    return secret


def _is_given(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().strip():
        raise ValueError("the value is empty; set a value, or remove the setting")
    return secret


OwnSecret = Annotated[SecretStr, AfterValidator(_is_strong)]
"""A secret chosen by the operator, who is responsible for its length."""

GivenSecret = Annotated[SecretStr, AfterValidator(_is_given)]
"""A secret issued by another party."""
