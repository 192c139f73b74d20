"""The form in which an agent takes the answer to an interrupt, stored with the question until people have decided.

Most agents take the values that their question asks for, or an approval as AG-UI describes it; their questions are
stored as sent. Tool approvals of CAIPE and of LangChain, and the interrupts of LangGraph, are answered in other forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.agents.remote.translation.wire import id_of, is_object

ANSWER_FORM: Final = "answerForm"
"""The key of the form in `Asked.raw`."""


class AnswerShape(StrEnum):
    """What an agent takes as the answer."""

    VALUES = "values"  # the values of the question's fields
    TEXT = "text"  # the text of the only field
    APPROVAL = "approval"  # the values of an approval, although the question does not ask for them
    DECISION = "decision"  # LangChain: {"type": "approve"}, or another decision, about one tool call
    DECISIONS = "decisions"  # LangChain: {"decisions": […]}, one for each tool call of the interrupt
    RESPONSE = "response"  # LangChain: as DECISIONS, with a person's text in place of the tool's result
    TOOL_APPROVAL = "tool_approval"  # CAIPE: the decisions on the tool calls of the interrupt


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerForm:
    """The form of the answer to one question.

    An interrupt about several tool calls is asked as several questions, each about one call. The answer contains all.
    """

    interrupt_id: str
    shape: AnswerShape = AnswerShape.VALUES
    tool: str = ""
    place: int = 0  # of the tool call in its interrupt
    count: int = 1  # tool calls of the interrupt
    is_langgraph: bool = False
    by_command: bool = False  # LangGraph: as a command, because the agent knows no entries of AG-UI 1.0

    @property
    def question_id(self) -> str:
        """The id of the question, different for each tool call."""
        return self.interrupt_id if self.count == 1 else f"{self.interrupt_id}:{self.place + 1}"

    def stored(self) -> dict[str, object]:
        """Returns the form as JSON."""
        return {
            "interrupt": self.interrupt_id,
            "shape": self.shape.value,
            "tool": self.tool,
            "place": self.place,
            "count": self.count,
            "langgraph": self.is_langgraph,
            "command": self.by_command,
        }


def answer_form(raw: Mapping[str, object]) -> AnswerForm | None:
    """Returns the form that is stored with a question; None if the question is answered with its values."""
    stored = raw.get(ANSWER_FORM)
    if not is_object(stored):
        return None
    shape, place, count = stored.get("shape"), stored.get("place"), stored.get("count")
    return AnswerForm(
        interrupt_id=id_of(stored.get("interrupt")),
        shape=AnswerShape(shape) if isinstance(shape, str) and shape in set(AnswerShape) else AnswerShape.VALUES,
        tool=id_of(stored.get("tool")),
        place=place if isinstance(place, int) else 0,
        count=count if isinstance(count, int) else 1,
        is_langgraph=stored.get("langgraph") is True,
        by_command=stored.get("command") is True,
    )
