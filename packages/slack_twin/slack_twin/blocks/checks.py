"""Composable checks of JSON structures, which resemble a schema.

A check takes a value and its JSON pointer, and yields a message in Slack's wording for each error.
"""

import re
from collections.abc import Callable, Iterator, Mapping

Check = Callable[[object, str], Iterator[str]]

_URL = re.compile(r"https?://[^\s<>]+|slack-file://[^\s<>]+|mailto:\S+", re.IGNORECASE)


def wrong(message: str, pointer: str) -> str:
    return f"{message} [json-pointer:{pointer}]"


def string(*, most: int | None = None, least: int = 0) -> Check:
    """A string of `least` to `most` characters."""

    def check(value: object, pointer: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield wrong("must provide a string", pointer)
        elif most is not None and len(value) > most:
            yield wrong(f"must be less than {most + 1} characters", pointer)
        elif len(value) < least:
            yield wrong(f"must be more than {least - 1} characters", pointer)

    return check


def matching(pattern: str, wanted: str) -> Check:
    """Checks for a string that matches a pattern, such as a date; `wanted` names the format in the message."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: object, pointer: str) -> Iterator[str]:
        if not (isinstance(value, str) and compiled.fullmatch(value)):
            yield wrong(f"must be {wanted}", pointer)

    return check


def url(*, most: int = 3_000) -> Check:
    def check(value: object, pointer: str) -> Iterator[str]:
        problems = list(string(most=most, least=1)(value, pointer))
        yield from problems
        if not problems and not _URL.fullmatch(str(value)):
            yield wrong("must be a valid URL", pointer)

    return check


def flag(value: object, pointer: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield wrong("must provide a boolean", pointer)


def number(value: object, pointer: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield wrong("must provide a number", pointer)


def integer(*, least: int, most: int) -> Check:
    def check(value: object, pointer: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield wrong("must provide a number", pointer)
        elif not least <= value <= most:
            yield wrong(f"must be from {least} to {most}", pointer)

    return check


def one_of(*allowed: str) -> Check:
    def check(value: object, pointer: str) -> Iterator[str]:
        if not (isinstance(value, str) and value in allowed):
            yield wrong(f"must be one of: {', '.join(allowed)}", pointer)

    return check


def anything(value: object, pointer: str) -> Iterator[str]:
    """Accepts any value, for fields that Slack does not check or document."""
    yield from ()


def items(each: Check, *, most: int, least: int = 1) -> Check:
    """A list of `least` to `most` items."""

    def check(value: object, pointer: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield wrong("must provide an array", pointer)
            return
        if len(value) > most:
            yield wrong(f"no more than {most} items allowed", pointer)
        elif len(value) < least:
            yield wrong(f"must provide at least {least} items", pointer)
        for place, item in enumerate(value[:most]):
            yield from each(item, f"{pointer}/{place}")

    return check


def shape(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Checks for an object with exactly these fields. An optional field may also be null."""
    known = {**(optional or {}), **required}

    def check(value: object, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield wrong("must provide an object", pointer)
            return
        present = {name: held for name, held in value.items() if held is not None}
        for name in required:
            if name not in present:
                yield wrong(f"missing required field: {name}", pointer)
        for name, held in present.items():
            if name in known:
                yield from known[name](held, f"{pointer}/{escaped(name)}")
            else:
                yield wrong(f"invalid additional property: {name[:100]}", pointer)

    return check


def escaped(name: str) -> str:
    """Returns a name escaped for a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def typed(checks: Mapping[str, Check]) -> Check:
    """Checks an object with the check for its `type`."""

    def check(value: object, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield wrong("must provide an object", pointer)
            return
        kind = value.get("type")
        if kind is None:
            yield wrong("missing required field: type", pointer)
        elif not isinstance(kind, str) or kind not in checks:
            yield wrong(f"unsupported type: {str(kind)[:100]}", f"{pointer}/type")
        else:
            rest = {name: held for name, held in value.items() if name != "type"}
            yield from checks[kind](rest, pointer)

    return check


def also(first: Check, *further: Check) -> Check:
    """Runs all checks in order, but stops after the first check that finds an error."""

    def check(value: object, pointer: str) -> Iterator[str]:
        problems = list(first(value, pointer))
        yield from problems
        for following in () if problems else further:
            yield from following(value, pointer)

    return check


def one_field_of(*names: str) -> Check:
    """Checks that exactly one of these fields is present."""

    def check(value: object, pointer: str) -> Iterator[str]:
        given = [name for name in names if isinstance(value, dict) and value.get(name) is not None]
        if not given:
            yield wrong(f"missing required field: {names[0]}", pointer)
        elif len(given) > 1:
            yield wrong(f"only one of these fields is allowed: {', '.join(names)}", pointer)

    return check
