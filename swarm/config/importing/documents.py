"""Reads documents of other systems: YAML or JSON, with errors that name the line and the column."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from swarm.domain.errors import ConfigurationError
from swarm.domain.text.unique_keys import UniqueKeys, read_json


def text_of(path: Path) -> str:
    """Returns a file's text. Raises ConfigurationError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} cannot be read: it is not a text in UTF-8") from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error


def parsed(text: str, name: str) -> object:
    """Returns the content of a document, which is JSON if its name ends in ``.json`` and YAML otherwise.

    Raises ConfigurationError with the position, without an excerpt, which might contain a secret.
    """
    try:
        return read_json(text) if name.endswith(".json") else yaml.load(text, UniqueKeys)  # noqa: S506 - a SafeLoader
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{name}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{name}: {yaml_problem(error)}") from None
    except (ValueError, RecursionError) as error:  # a date that does not exist, endless nesting
        raise ConfigurationError(f"{name} cannot be read: {error}") from None


def yaml_problem(error: Exception) -> str:
    """Returns the problem with a YAML document and its position."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)
