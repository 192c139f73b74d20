"""The rules of the demo's model for a tool router, which decides on tool calls and puts their results into words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from swarm_lab.demo.rules.asked import Asked, Call, Calls, Reply, Text
from swarm_lab.demo.rules.sums import Sum, continued, sums_in, told

ASK: Final = "swarm_ask"
REFUSE: Final = "swarm_refuse"
STOP: Final = "swarm_stop"

RESULTS: Final = "What the tools said"
"""The title of results that are to be put into words."""

_STOP: Final = re.compile(
    r"\b(never ?mind|forget (it|about it|that)|cancel|stop|leave it)\b",
    re.IGNORECASE,
)
_HOW: Final = r"`(?P<tool>[^`\n]+)`(?: with (?P<arguments>\{[^\n]*\}))? (?P<how>answered|did not work):"
_RESULT: Final = re.compile(rf"^{_HOW}\s*(?P<text>.*?)(?=\n\n{re.sub('[?]P<[a-z]+>', '?:', _HOW)}|\Z)", re.M | re.S)


def decide(asked: Asked) -> Reply:
    """Returns one decision: to call tools, to ask for a missing argument, to stop, or to refuse."""
    if _STOP.search(asked.last):
        return _only(STOP)
    step = calculation(asked)
    return _only(ASK, question=step) if isinstance(step, str) else step or _only(REFUSE)


def word(asked: Asked) -> Reply:
    """Puts the results of a request into words, with one sentence for each result."""
    lines = [_worded(found) for found in _RESULT.finditer(asked.data[RESULTS])]
    return Text(text="\n".join(lines) or "The tools returned nothing.")


def calculation(asked: Asked) -> Calls | str | None:
    """Returns the calls for the requested sums, or the question for what is missing. Returns None for other messages,
    and if there is no tool."""
    sums = _wanted(asked)
    calls = [call for each in sums if (call := each.call(asked.tools))]
    if calls and len(calls) == len(sums):
        return Calls(calls=tuple(calls))
    return next((each.question for each in sums if each.tool_in(asked.tools) and not each.is_complete), None)


def _wanted(asked: Asked) -> Sequence[Sum]:
    """Returns all sums in a message, or one sum that the message completes after the model's question."""
    found = sums_in(asked.last)
    if found and (len(found) > 1 or found[0].is_complete):
        return found
    if asked.said_before.rstrip().endswith("?") and len(asked.heard) > 1:
        return continued(asked.last, asked.heard[-2]) or found
    return found


def _worded(found: re.Match[str]) -> str:
    text = found["text"].strip()
    if found["how"] != "answered":
        return f"`{found['tool']}` did not work: {text}"
    if "\n" in text:
        return f"`{found['tool']}` gave:\n\n```\n{text}\n```"
    return told(found["tool"], json.loads(found["arguments"] or "{}"), text)


def _only(tool: str, **arguments: str) -> Calls:
    return Calls(calls=(Call(tool=tool, arguments=arguments),))
