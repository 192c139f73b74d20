"""Configurations of CAIPE's Slack bot, as teams have them: sixteen channels until 0.3, fourteen since 0.4."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent

OLDER = (_HERE / "older.yaml").read_text(encoding="utf-8")
NEWER = (_HERE / "newer.yaml").read_text(encoding="utf-8")
THIRTY = OLDER + NEWER
