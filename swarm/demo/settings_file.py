"""The coordinator's settings file in the demo: whatever the folder's own says, and the writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

WRITER: Final = "writer"

OWN_FILE: Final = "swarm.yaml"


class Unusable(Exception):
    """A settings file that nothing can be added to; the message is for people."""


def write(path: Path, *, own: Path, writer_url: str) -> None:
    """Write ``path``, which is what ``own`` says (if it exists) with the writer added. Raises Unusable."""
    settings = _read(own)
    agents = settings.setdefault("agents", {})
    remote = agents.setdefault("remote", {}) if isinstance(agents, dict) else None
    if not isinstance(remote, dict):
        raise Unusable(f"{own}: agents.remote is expected to be a mapping.")
    remote[WRITER] = {
        "url": writer_url,
        "role": "worker",
        "description": "Writes about the repository, and streams what it writes.",
        "footer": "a rule-driven program, no model",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _read(own: Path) -> dict[str, Any]:
    if not own.exists():
        return {}
    try:
        settings = yaml.safe_load(own.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise Unusable(f"{own} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise Unusable(f"{own}: a mapping of settings is expected.")
    return settings
