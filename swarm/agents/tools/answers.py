"""What tools here have in common: a refusal is an exception inside, and an answer outside."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from swarm.agents.toolbox.tool import CallTool, ToolAnswer

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_CREDENTIALS: Final = re.compile(r"(https?://)[^\s/@]+@")


class ToolRefused(Exception):
    """A tool does not do what it was asked to; the message says why in a sentence, for the model."""


def answering(act: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """Make of a function that may refuse, or fail at the system, one that answers with a sentence."""

    @functools.wraps(act)
    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await act(arguments)
        except ToolRefused as refusal:
            return ToolAnswer(text=str(refusal), failed=True)
        except OSError as error:
            return ToolAnswer(text=f"It failed: {_reason(error)}.", failed=True)

    return call


def readable(text: str) -> str:
    """What a program printed, without escape sequences, control characters and the credentials of addresses."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CREDENTIALS.sub(r"\1…@", _CONTROLS.sub("", lines)).strip("\n")


def plain(value: str, what: str) -> str:
    """The value, if a program or the file system can take it.

    Raises:
        Refused: It has a NUL character or half a surrogate pair.
    """
    if "\0" in value or not _encodable(value):
        raise ToolRefused(f"{what} has a character that no program can take (NUL, or half a surrogate pair).")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{error.strerror or error}{where}"
