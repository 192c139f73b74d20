"""How a program ended, in words."""

from __future__ import annotations

from swarm.agents.toolbox.tool import ToolAnswer
from swarm.agents.tools.answers import readable
from swarm.processes.captured import Ran


def said(ran: Ran, what: str, timeout_seconds: float) -> ToolAnswer:
    """How a program ended and what it printed, as an answer."""
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
