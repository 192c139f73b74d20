"""Whole answers: results of CAIPE's ``invoke``, and streams collected into one text."""

from __future__ import annotations

from collections.abc import AsyncIterable

from swarm.agents.failures import NOT_AN_ANSWER
from swarm.agents.remote.translation.endings import failed, text_in
from swarm.agents.remote.translation.translator import BROKE_OFF
from swarm.agents.remote.translation.values import first, is_object, parsed
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    SourceChanged,
    TextDelta,
)


def answer_in(body: bytes) -> RunEnd:
    """Reads ``{"success": true, "content": "…"}`` or ``{"success": false, "error": "…"}``."""
    answer = parsed(body.decode(errors="replace"))
    if not is_object(answer):
        return Broken(reason=NOT_AN_ANSWER)
    error = first(answer, "error", "detail")
    if answer.get("success") is False or (error and not answer.get("success")):
        return failed(first(error, "message", "detail") if is_object(error) else error)
    text = text_in(answer)
    return Finished(result=text) if text else Broken(reason=NOT_AN_ANSWER)


async def collected(events: AsyncIterable[AgentEvent]) -> RunEnd:
    """Returns the end of a run; a successful one has the text of all messages as its result."""
    said: list[str] = []
    message_id, is_own = "", True
    async for event in events:
        match event:
            case SourceChanged(sub_agent=sub_agent):
                is_own = sub_agent is None
            case TextDelta() if is_own:
                said.append("\n\n" if said and event.message_id != message_id else "")
                said.append(event.text)
                message_id = event.message_id
            case Finished(result=result):
                return Finished(result=_joined("".join(said), result) or None)
            case Interrupted() | Cancelled() | Failed() | Broken():
                return event
    return BROKE_OFF


def _joined(said: str, result: str | None) -> str:
    """Joins the texts and the result, without repeating a result that was written before."""
    if not result or result.strip() in said:
        return said
    return f"{said}\n\n{result}" if said else result
