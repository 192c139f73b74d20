"""The tray: what lies before an agent, in brief."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """One unread message in a tray: the beginning of the new message, not of the thread."""

    inbox_message_id: str
    sender: str
    channel: str
    preview: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tray:
    """What lies before an agent."""

    unread: int
    previews: tuple[Preview, ...]
    threads_owned: int
