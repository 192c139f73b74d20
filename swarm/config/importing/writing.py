"""Writes translated settings as a ``swarm.yaml`` whose comments name the source of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from swarm.config.importing.translation import Translation
from swarm.config.variables import PLACEHOLDER
from swarm_base.characters import line_for_terminal
from swarm_base.redaction import SECRET_NAME
from swarm_base.secrets import without_patterns

_WIDTH: Final = 120


class Reference(str):
    """A value that is meant to be read from a variable: ``${NAME}``."""

    __slots__ = ()

    def __new__(cls, name: str) -> Reference:
        return super().__new__(cls, f"${{{name}}}")


def without_secrets(done: Translation) -> None:
    """Replaces every secret with a reference to a variable, with a note.

    A text that contains ``${NAME}`` by itself would be read as a reference, so it is left out, with a note.
    """
    done.values = _mapping_without(done, done.values, ())


def _mapping_without(done: Translation, values: Mapping[str, Any], at: tuple[str, ...]) -> dict[str, Any]:
    kept = {}
    for key, value in values.items():
        path = (*at, key)
        checked = _without(done, value, path)
        if checked is not None or value is None:
            kept[key] = checked
    return kept


def _without(done: Translation, value: object, path: tuple[str, ...]) -> object:
    match value:
        case dict():
            return _mapping_without(done, value, path)
        case list():
            return [_without(done, one, (*path, str(index))) for index, one in enumerate(value)]
        case Reference():
            return value
        case str() if value and (SECRET_NAME.search(path[-1]) or is_secret(value)):
            return _reference(done, path)
        case str() if PLACEHOLDER.search(value):
            why = "it contains ${…}, which swarm.yaml reads as a variable; write the text into a file instead"
            source = done.sources.get(".".join(path), ".".join(path))
            done.notes = [note for note in done.notes if note.target != ".".join(path)]
            done.leave(source, why)
            return None
        case _:
            return value


def is_secret(value: str) -> bool:
    """Whether a text contains what looks like a secret."""
    return without_patterns(value) != value


def _reference(done: Translation, path: tuple[str, ...]) -> Reference:
    name = variable_name(path)
    source = done.sources.get(".".join(path), ".".join(path))
    done.note(source, ".".join(path), f"it is a secret, so set the variable {name} to it")
    return Reference(name)


def variable_name(path: tuple[str, ...]) -> str:
    """Returns the name of a variable for a setting, as ours where there is one: SLACK_BOT_TOKEN."""
    return re.sub(r"[^A-Z0-9]+", "_", "_".join(path).upper()).strip("_")


def as_yaml(done: Translation, heading: str) -> str:
    """Returns the text of a ``swarm.yaml``."""
    top = "\n".join(f"# {line_for_terminal(line)}" for line in heading.splitlines())
    return "\n".join([top, *_lines(done.comments(), done.values, ())]) + "\n"


def _lines(comments: Mapping[str, str], values: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    """Yields the lines of a mapping. Short comments stand beside a value, long ones above it."""
    indent = "  " * len(at)
    for key, value in values.items():
        path = (*at, key)
        dotted = ".".join(path)
        if not at:
            yield ""
        comment = line_for_terminal(comments[dotted]) if dotted in comments else ""
        is_section = bool(value) and isinstance(value, dict) and any(one.startswith(f"{dotted}.") for one in comments)
        lines = [f"{_key(key)}:"] if is_section else _entry(key, value).splitlines()
        if comment and len(lines) == 1 and len(indent + lines[0] + comment) + 4 <= _WIDTH:
            lines[0] += f"  # {comment}"
        elif comment:
            lines.insert(0, f"# {comment}")
        yield from (f"{indent}{line}" if line else "" for line in lines)
        if is_section:
            yield from _lines(comments, value, path)


def _entry(key: str, value: object) -> str:
    """Returns one key with its value, on one line if that is short."""
    if isinstance(value, list | dict):
        line = f"{_key(key)}: {_dumped(value, flow=True)}"
        if len(line) < _WIDTH - 20:
            return line
    return _dumped({key: value}, flow=False)


def _key(key: str) -> str:
    return _dumped({key: 0}, flow=False).removesuffix(": 0")


def _dumped(value: object, *, flow: bool) -> str:
    return yaml.dump(
        value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000, default_flow_style=flow
    ).rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """YAML with references as plain text, and texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Reference, lambda dumper, text: _text(dumper, str(text)))
