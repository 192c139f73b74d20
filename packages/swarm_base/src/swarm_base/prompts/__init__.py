"""The base prompts of leads and workers, which a model gets before any trigger."""

from __future__ import annotations

from pathlib import Path

from swarm_base.errors import ConfigurationError


def base_prompt(role: str, own: Path) -> str:
    """Returns the operator's own prompt, or else the built-in one. Raises ConfigurationError for an unreadable file."""
    if not own.exists():
        return Path(__file__).with_name(f"{role}.md").read_text(encoding="utf-8")
    try:
        return own.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The base prompt {own} cannot be read: {error}") from error
