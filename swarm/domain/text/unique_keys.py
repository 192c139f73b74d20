"""Reads YAML and JSON in which no key stands twice, since all but the last would be lost."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import islice
from typing import Any, Final

import orjson
import yaml

_MOST_LINES: Final = 10
_MERGE: Final = "tag:yaml.org,2002:merge"


class UniqueKeys(yaml.SafeLoader):
    """YAML without objects and without repeated keys. Raises YAMLError, which names both lines."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: dict[int, yaml.MappingNode] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Checks each mapping once, before the keys that it merges (``<<``) are added to its own."""
        if id(node) not in self._checked:
            self._checked[id(node)] = node
            seen: dict[str, yaml.Mark] = {}
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    if first := seen.get(key.value):
                        raise yaml.MarkedYAMLError(
                            problem=f"the key {key.value} stands twice, first in line {first.line + 1}",
                            problem_mark=key.start_mark,
                        )
                    seen[key.value] = key.start_mark
        super().flatten_mapping(node)


class KeyTwice(ValueError):
    """A key of JSON stands twice: its path, and the lines if there are several."""


def read_json(text: str) -> Any:
    """Reads JSON. Raises KeyTwice, and ValueError, also for what others do not read: NaN, halves of surrogate pairs,
    deep nesting.
    """
    found: list[tuple[dict[str, Any], str]] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            found.append((read, Counter(key for key, _ in pairs).most_common(1)[0][0]))
        return read

    try:
        content = json.loads(text, object_pairs_hook=once)
    except RecursionError as error:
        raise ValueError("It is nested too deeply.") from error
    orjson.loads(text)
    for twice, key in found[-1:]:
        places = re.finditer(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:", text) if "\n" in text else ()
        lines = [str(text.count("\n", 0, at.start()) + 1) for at in islice(places, _MOST_LINES)]
        place = ".".join((*_path(content, twice), key))
        raise KeyTwice(f"{place} stands twice" + (f" (lines {', '.join(lines)})" if len(lines) > 1 else ""))
    return content


def _path(content: Any, wanted: dict[str, Any]) -> tuple[str, ...]:
    waiting: list[tuple[tuple[str, ...], Any]] = [((), content)]
    while waiting:
        path, value = waiting.pop()
        if value is wanted:
            return path
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, str(key)), one) for key, one in inner]
    return ()
