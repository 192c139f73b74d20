"""The errors that the coordinator and its runners have in common. A class's docstring is its default message."""

from __future__ import annotations

from swarm_base.characters import line_for_terminal


class SwarmError(Exception):
    """Something went wrong."""

    code = "internal"
    status = 500  # the HTTP status of the response

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.hint = hint
        super().__init__(self.message)


class ConfigurationError(SwarmError):
    """The configuration cannot be used."""

    code = "configuration"


class Unavailable(SwarmError):
    """The system cannot do this at the moment; nothing was changed."""

    code = "unavailable"
    status = 503


def on_one_line(message: str, hint: str) -> str:
    """Returns an error for a person at a terminal. Messages from drivers and parsers may have several lines."""
    return line_for_terminal(f"{message}{'' if not hint or message.endswith(('.', '?', '!')) else '.'} {hint}")
