"""The base class of policies that the operator writes as settings, and the values that they may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict

from swarm.domain.errors import Invalid
from swarm.domain.model.agents import check_name

T = TypeVar("T")

CHANNEL_ID: Final = re.compile(r"[CDG][A-Z0-9]{2,}")

_DOMAIN: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_EMOJI: Final = re.compile(r":?[\w+'-]+(::skin-tone-[2-6])?:?")
_USER: Final = re.compile(r"[UW][A-Z0-9]{2,}")
_GROUP: Final = re.compile(r"S[A-Z0-9]{2,}")


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


def _checked_domain(domain: str) -> str:
    lower = domain.removeprefix("@").lower()
    if not _DOMAIN.fullmatch(lower):
        raise ValueError(f"'{domain}' is not a domain; a domain such as example.org is expected")
    return lower


def _checked_group(group: str) -> str:
    if not _GROUP.fullmatch(group):
        raise ValueError(f"'{group}' is not a user group's id; an id such as S0123456789 is expected")
    return group


def _checked_user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise ValueError(f"'{user}' is not a user's id; an id such as U0123456789 is expected")
    return user


def _checked_emoji(name: str) -> str:
    if not _EMOJI.fullmatch(name):
        raise ValueError(f"'{name}' is not the name of an emoji; a name such as eyes is expected")
    return name.strip(":")


def named(agents: Mapping[str, T]) -> Mapping[str, T]:
    """Returns the agents if their names are valid. Otherwise raises ValueError."""
    for name in agents:
        try:
            check_name(name)
        except Invalid as error:
            raise ValueError(f"{error.message} {error.hint or ''}".strip()) from error
    return agents


HttpAddress = Annotated[str, AfterValidator(_is_address)]
Domain = Annotated[str, AfterValidator(_checked_domain)]
EmojiName = Annotated[str, AfterValidator(_checked_emoji)]
GroupId = Annotated[str, AfterValidator(_checked_group)]
UserId = Annotated[str, AfterValidator(_checked_user)]
