"""The questions for an agent, the 22 checks of its answers, and those beyond."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Check(StrEnum):
    """A possible fault of an answer."""

    CONTENT = "content delivered"
    STREAM = "stream opened"
    LIVE = "live streamed"
    ONCE = "no duplicate"
    LATCHED = "final answer latched"
    NO_TOOLS = "no tools used"
    TOOLS = "tools used"
    CHUNKS = "several chunks"


class Beyond(StrEnum):
    """A possible fault beyond the 22 checks, which is reported apart from them."""

    PLAN = "plan shown and changing"
    PARALLEL = "parallel searches"
    CAPS = "caps isolated"
    QUESTION = "question asked"
    APPROVAL = "approval asked"
    RESUMED = "answered after resume"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A question and the expected kind of answer."""

    name: str
    prompt: str
    longer_than_characters: int  # minimum length of the shown text
    checks: tuple[Check, ...]
    beyond: tuple[Beyond, ...] = ()


SCENARIOS: Final = (
    Scenario(
        name="simple-chat",
        prompt="tell me a joke",
        longer_than_characters=20,
        checks=(Check.CONTENT, Check.STREAM, Check.LIVE, Check.ONCE, Check.LATCHED, Check.NO_TOOLS),
    ),
    Scenario(
        name="off-topic",
        prompt="how is the weather in San Francisco?",
        longer_than_characters=20,
        checks=(Check.CONTENT, Check.STREAM, Check.ONCE, Check.NO_TOOLS),
    ),
    Scenario(
        name="rag-simple",
        prompt="what is agntcy",
        longer_than_characters=200,
        checks=(
            Check.CONTENT,
            Check.STREAM,
            Check.LIVE,
            Check.ONCE,
            Check.LATCHED,
            Check.TOOLS,
            Check.CHUNKS,
        ),
    ),
    Scenario(
        name="rag-complex",
        prompt="compare agntcy and caipe onboarding",
        longer_than_characters=300,
        checks=(Check.CONTENT, Check.LIVE, Check.ONCE, Check.LATCHED, Check.TOOLS),
        beyond=(Beyond.PLAN, Beyond.PARALLEL, Beyond.CAPS),
    ),
)
"""The scenarios of the 22 checks."""

HUMAN_INPUT: Final = Scenario(
    name="human-input",
    prompt="write down a note for the team: ask me what it should say, and ask for my approval before you write it",
    longer_than_characters=20,
    checks=(),
    beyond=(Beyond.QUESTION, Beyond.APPROVAL, Beyond.RESUMED),
)
"""A scenario beyond the 22 checks: the agent asks, and goes on when it is answered."""

ANSWER: Final = "Lunch is at noon."
"""What people answer in a text field of a question."""

ALL_SCENARIOS: Final = (*SCENARIOS, HUMAN_INPUT)
