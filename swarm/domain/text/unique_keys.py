"""Reads YAML in which no key stands twice, since all but the last would be lost."""

from __future__ import annotations

from typing import Final

import yaml

_MERGE: Final = "tag:yaml.org,2002:merge"


class UniqueKeys(yaml.SafeLoader):
    """YAML without objects and without repeated keys. Raises YAMLError, which names both lines."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: list[yaml.MappingNode] = []

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Checks each mapping once, before the keys that it merges (``<<``) are added to its own."""
        if not any(node is one for one in self._checked):
            self._checked.append(node)
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
