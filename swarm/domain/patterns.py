"""Work with a limit: how much the schemas, patterns and JSON of others may cost, and the matching of their patterns.

A step is about five microseconds. Everything that a foreign schema or pattern makes us do is paid in steps before it is
done, so that a check ends in any thread, transaction or event loop, whatever the schema says.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

MOST_STEPS: Final = 20_000

MOST_VALUES: Final = 10_000
"""The values that JSON of others may have. One takes up to fifty microseconds, if it is none that was expected."""

_NEVER: Final = 10**9
_UNICODE: Final = 20  # states of a class that may have thousands of characters, compared with one character
_PER_STEP: Final = 500  # states that the engine visits in the time of a step
_COMPILING: Final = 1000  # a state costs as much to make as to visit for this many characters
_TEXT: Final = re.compile(rb'"[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+"?')  # in JSON, where it ends with its line
_TOKEN: Final = re.compile(
    r"(?P<unknown>\(\?[a-zA-Z-]*x)|(?P<open>\()|(?P<close>\))|(?P<repeat>\{(\d+)(,(\d*))?\})"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<escape>\\(?:[pPxuU]\{[^}]*\}|[pP]?.))|(?P<loop>[?*+])|.",
    re.DOTALL,
)


class TooCostly(Exception):
    """A check would need more work than it may."""


class WorkLimit:
    """The work that is left for a check, or for several checks together."""

    def __init__(self, most: float = MOST_STEPS) -> None:
        self._left = most

    def spend(self, steps: float) -> None:
        """Pays for the next piece of work. Raises TooCostly if it, or an earlier one, was too much."""
        self._left -= steps
        if self._left < 0:
            raise TooCostly


def has_few_values(document: str | bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has at most that many values, before it is read. Takes up to thirty milliseconds per megabyte."""
    data = document if isinstance(document, bytes) else document.encode(errors="surrogatepass")
    return _values(data) <= most or _values(_TEXT.sub(b"", data, 2 * most)) <= most


def _values(data: bytes) -> int:
    return sum(map(data.count, (b",", b"[", b"{")))


def fits_pattern(pattern: str, text: str, steps: WorkLimit | None = None) -> bool:
    """Whether a part of a text matches a regular expression.

    An expression that the engine does not support, such as one that looks ahead, fits: only its author can check it.
    The engine needs time in proportion to the text, in bytes, and to the size of the expression. Raises TooCostly if
    that is more than what is left of ``steps``.
    """
    (steps or WorkLimit()).spend(1 + _states(pattern) * (_COMPILING + _bytes(text)) / _PER_STEP)
    kind = _compiled(pattern)
    return kind is None or is_valid(kind, text)


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def is_valid(kind: TypeAdapter[Any], value: object) -> bool:
    """Whether a value is of a kind."""
    try:
        kind.validate_python(value)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> TypeAdapter[Any] | None:
    """Returns a check for a regular expression; None for an expression that the engine does not support."""
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError:
        return None


@lru_cache(maxsize=256)
def _states(pattern: str) -> int:
    """Returns about how many states the engine makes of an expression. Repetitions count as often as they repeat.

    What this function cannot read (comments within an expression, sets within sets) counts as too much.
    """
    if len(pattern) > _COMPILING:
        return _NEVER
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["unknown"] or (token["set"] and "[" in token["set"][1:].replace("\\[", "")):
            return _NEVER
        if token["open"]:
            groups.append(0)
            continue
        if token["loop"]:  # what it repeats may be repeated again
            last += 1
            groups[-1] += 1
            continue
        if token["repeat"]:
            low, _, high = token["repeat"][1:-1].partition(",")
            last, before = min(last * max(int(low[:6]), int(high[:6] or 0), 1), _NEVER), last
            groups[-1] += last - before
            continue
        if token["close"]:
            last = groups.pop() if len(groups) > 1 else 0
        else:
            text = token[0]
            is_narrow = text.isascii() and "\\" not in text and not text.startswith("[^")
            last = _bytes(text) if len(text) == 1 and text != "." else 1 if token["set"] and is_narrow else _UNICODE
        groups[-1] += last
    return sum(groups)
