"""What the demo's services share: they serve on a port from the environment, and write texts word by word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

WORD_SECONDS: Final = 0.04
STOP_SECONDS: Final = 2
"""The time that answers have to end when the demo is stopped."""

_WORDS: Final = re.compile(r"\s*\S+\s*")


def pieces(text: str, word_seconds: float, longest_seconds: float) -> Iterator[str]:
    """Yields single words, or several words at once if the text would take too long with a pause after each word. The
    pieces joined together are the text."""
    split = _WORDS.findall(text)
    at_once = max(1, round(len(split) * word_seconds / longest_seconds))
    for start in range(0, len(split), at_once):
        yield "".join(split[start : start + at_once])


def serve(application: Starlette, variable: str) -> None:
    """Serves on this machine, on the port in a variable of the environment."""
    port = int(os.environ[variable])
    uvicorn.run(application, host="127.0.0.1", port=port, access_log=False, timeout_graceful_shutdown=STOP_SECONDS)
