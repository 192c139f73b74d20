"""Why a backup does not replace a database, and what to do."""

from __future__ import annotations

from typing import Final

IN_USE: Final = "A coordinator, or another program, uses the database"
NOT_EMPTY: Final = "The database is not empty: its content would be lost."
STOP_FIRST: Final = "Stop every coordinator on this database first."
USE_FORCE: Final = "Make a backup of it first, and then restore with --force."

CONTENT: Final = ("agents", "threads", "tasks", "sessions", "agent_messages", "history")
"""A database with a row in any of these tables is not empty."""
