"""Common parts of the coordinator's tools: errors, answers and readable output."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from swarm.agents.toolbox.tool import CallTool, ToolAnswer
from swarm.processes.captured import Ran

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_CREDENTIALS: Final = re.compile(r"(https?://)[^\s/@]+@")


class ToolRefused(Exception):
    """A tool refuses its call; the message is the reason in a sentence, for the model."""


def answering(act: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """Turns a function's ToolRefused and OSError into failed answers with a sentence."""

    @functools.wraps(act)
    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await act(arguments)
        except ToolRefused as refusal:
            return ToolAnswer(text=str(refusal), failed=True)
        except OSError as error:
            return ToolAnswer(text=f"It failed: {_reason(error)}.", failed=True)

    return call


def program_answer(ran: Ran, what: str, timeout_seconds: float) -> ToolAnswer:
    """Returns a program's answer: the output, and the reason of a failure."""
    text = readable(ran.output)
    if ran.timed_out:
        ending = f"{what} was ended because it took longer than {timeout_seconds:g} seconds."
    elif ran.code is None:
        ending = f"{what} was ended from outside."
    elif ran.code < 0:
        ending = f"{what} was ended by signal {-ran.code}."
    elif ran.code:
        ending = f"{what} failed with exit code {ran.code}."
    else:
        return ToolAnswer(text=text or f"{what} succeeded and printed nothing.")
    return ToolAnswer(text=f"{text}\n{ending}" if text else ending, failed=True)


def readable(text: str) -> str:
    """Returns a program's output without escape sequences, control characters and the credentials of addresses."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CREDENTIALS.sub(r"\1…@", _CONTROLS.sub("", lines)).strip("\n")


def plain(value: str, what: str) -> str:
    """Returns the value, if a program or the file system can take it.

    Raises:
        ToolRefused: The value has a NUL character or half a surrogate pair.
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
