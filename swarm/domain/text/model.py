"""Text for models: the one function on the way to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.domain.text.characters import strip_invisible


def for_model(text: str) -> str:
    """Text as a model may have it: what a person sees of it, and nothing else. Otherwise it stays as it is."""
    return strip_invisible(text)


def data_for_model(value: Any) -> Any:
    """JSON-like data with every text in it as `for_model` gives it, names of fields included."""
    match value:
        case str():
            return for_model(value)
        case Mapping():
            return {data_for_model(name): data_for_model(part) for name, part in value.items()}
        case list() | tuple():
            return [data_for_model(part) for part in value]
        case _:
            return value
