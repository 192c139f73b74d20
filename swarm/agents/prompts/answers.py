"""What comes back from a rendering: its text, what is wrong with the template, or the dump of a watchdog."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from swarm.agents.prompts.limits import RenderLimits
from swarm.agents.prompts.template import PromptError, Template

_IN_TEMPLATE: Final = re.compile(rb'File "<prompt>", line (\d+)')
_STUCK: Final = b"Stack ("  # how the dump begins that is asked for; others are of crashes


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """A rendering that went well."""

    text: str
    code: str  # of the template, for the next time; opaque; empty if it is not worth keeping or known already


def understood(answer: bytes, template: Template, limits: RenderLimits) -> Rendered:
    """What a rendering has answered, which is not nothing. Raises PromptError if it is not the text."""
    if not answer.startswith(b"{"):
        raise _dumped(answer, template, limits)
    try:
        said = json.loads(answer)
    except ValueError as error:  # it was killed while it wrote
        raise PromptError(template.name, "it was ended before it was done") from error
    if "problem" in said:
        raise PromptError(template.name, said["problem"], line=said["line"])
    text = said["text"].encode("utf-8", "replace").decode()  # halves of characters, which no model can be sent
    return Rendered(text=text, code=said.get("code", ""))


def _dumped(answer: bytes, template: Template, limits: RenderLimits) -> PromptError:
    """The innermost line of the template that the dump of a traceback names, most recent call first."""
    found = _IN_TEMPLATE.search(answer)
    late = answer.startswith(_STUCK)
    problem = f"it takes longer than {limits.seconds:g} s" if late else "it makes the interpreter crash"
    return PromptError(template.name, problem, line=int(found[1]) if found else None)
