"""What all parts of the settings have in common."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the settings: frozen, and without a key that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def inheriting(self, defaults: Self) -> Self:
        """The same, with every key that was not given taken from ``defaults``."""
        return defaults.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


def _is_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        is_usable = False
    if not is_usable or any(letter.isspace() for letter in url):
        raise ValueError("an http or https URL is expected, for example https://agents.example.org/api")
    return url


HttpAddress = Annotated[str, AfterValidator(_is_address)]
