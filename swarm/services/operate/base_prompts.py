"""The base prompts: the instructions that a model-driven agent gets once, before any trigger."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role


class BasePrompts:
    """The base prompt of each role. A file ``lead.md`` or ``worker.md`` in ``overrides`` replaces the built-in text."""

    def __init__(self, overrides: Path | None = None) -> None:
        self._overrides = overrides

    def text(self, role: Role) -> str:
        """Returns the current prompt. Changes to a file take effect immediately.

        Raises ConfigurationError for an unreadable file.
        """
        own = self._overrides / f"{role}.md" if self._overrides else None
        if own is None or not own.exists():
            return (files("swarm.domain.prompts") / f"{role}.md").read_text(encoding="utf-8")
        try:
            return own.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"The base prompt {own} cannot be read: {error}") from error
