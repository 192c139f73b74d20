"""Lists properties of the settings: all keys, the secret values, and differences between two settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from swarm.config.section import Section
from swarm.config.settings import Settings


def secrets(settings: object) -> list[str]:
    """Returns each secret value, so that it can be hidden in all output."""
    match settings:
        case SecretStr():
            return [settings.get_secret_value()]
        case BaseModel():
            return [secret for _, value in settings for secret in secrets(value)]
        case Mapping():
            return [secret for value in settings.values() for secret in secrets(value)]
        case list():
            return [secret for value in settings for secret in secrets(value)]
        case str() if "://" in settings and (password := _password(settings)):
            return [password]
        case _:
            return []


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def describe(settings: type[BaseModel] = Settings, prefix: str = "") -> list[tuple[str, FieldInfo]]:
    """Returns all settings by dotted key, for the documentation and its test; ``*`` stands for a name or an id."""
    found: list[tuple[str, FieldInfo]] = []
    for name, field in settings.model_fields.items():
        part, below = _section(field.annotation)
        found += describe(part, prefix + name + below) if part else [(prefix + name, field)]
    return found


def _section(annotation: Any) -> tuple[type[Section] | None, str]:
    """Returns the section class of a field and the separator of its keys. The field may be optional or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, "."
    is_mapping = get_origin(annotation) is Mapping
    for part in get_args(annotation):
        if isinstance(part, type) and issubclass(part, Section):
            return part, ".*." if is_mapping else "."
    return None, ""


def differences(before: object, after: object, key: str = "") -> Iterator[str]:
    """Yields the dotted keys at which two settings differ, in order: ``agents.remote.x`` if only one of them has an
    ``x``."""
    old, new = _parts(before), _parts(after)
    if old is None or new is None:
        if before != after:
            yield key
        return
    for name in dict.fromkeys([*old, *new]):
        below = f"{key}.{name}" if key else name
        if name in old and name in new:
            yield from differences(old[name], new[name], below)
        else:
            yield below


def _parts(value: object) -> Mapping[str, object] | None:
    match value:
        case BaseModel():
            return dict(value)
        case Mapping():
            return value
        case _:
            return None
