"""Secrets in the settings, and lists of their keys, secret values and differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from swarm.domain.policy.section import Section as Section  # extensions take it from here

_SHAPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list is expected"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a mapping is expected"),
}
"""What is expected in place of a value of the wrong shape. Pydantic's own texts name Python's types."""

SHORTEST_SECRET: Final = 16
"""The minimum length of a secret in characters. A shorter secret, or one repeated character, is easily guessed."""


def expectation(problem: ErrorDetails) -> str:
    """Returns what was expected in place of an invalid value."""
    return _SHAPES.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")


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


def describe(settings: type[BaseModel], prefix: str = "") -> list[tuple[str, FieldInfo]]:
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
