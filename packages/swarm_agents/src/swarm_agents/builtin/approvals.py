"""Tool calls of built-in agents that wait for people's approval.

Who may decide, and how people are asked, is the matter of whoever runs the agent. A run that has asked is over; its
waiting calls are in the session, and any later run of the conversation settles them, in this or another process:

- an approved call is made once. The session gets a note that the tool has begun before it begins, and its result
  afterwards. If the process ends in between, nobody knows whether the tool has run: the note stays as the result, so
  the model reads that the call may have run, and the tool is not called again.
- a rejected, expired or withdrawn call is not made, and the model reads why.
- a decision on a call that does not wait, or on other arguments than the stored ones, does nothing.
- a new message in place of a decision closes the waiting calls, so that a later decision does nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import orjson

from swarm.domain.answers.events import Asked, Decided
from swarm.domain.answers.questions import NOBODY_DECIDED, REASON, TOOL_CALL, tool_of_call
from swarm.domain.model.requests import (
    MAX_ARGUMENT_BYTES,
    MAX_OPEN_PER_WORK,
    HumanDecision,
    ToolRequest,
    tool_digest,
)
from swarm.domain.model.sessions import CallMemory, MessageRole, SessionMessage, WaitingTurn, plain
from swarm.domain.requests.shown import may_i
from swarm_agents.builtin.recording import recorded
from swarm_agents.builtin.run import BuiltinRun
from swarm_agents.toolbox.arguments import mended_and_checked
from swarm_agents.toolbox.tool import Tool, ToolAnswer, answered, failed, not_for_strangers
from swarm_base.processes.background import checked_in_turn

DECISIONS: Final = (
    HumanDecision.APPROVE,
    HumanDecision.EDIT,
    HumanDecision.REJECT,
    HumanDecision.APPROVE_THREAD,
    HumanDecision.APPROVE_ALWAYS,
)
TOOL_CALL_REASON: Final = "tool_call"
"""The reason of a question about a tool call, as in AG-UI."""

_MAY_HAVE_RUN: Final = (
    "People approved this call and the tool began, but it is not known how it ended: it may or may not have been "
    "carried out. Find that out before you call it again, or tell them."
)
_SOMETHING_ELSE: Final = "It was not called: people wrote something else instead of approving it."
_REJECTED: Final = "It was not called: a person has rejected this call."
_EXPIRED: Final = f"It was not called. {NOBODY_DECIDED} People may still want it: they did not reject it."
_WITHDRAWN: Final = "It was not called: nobody has decided about this call, and the question was withdrawn."
_OTHER_CALL: Final = "It was not called: the decision was about other arguments than those of this call."
_GONE: Final = "It was not called: the tool is not available any more."

_NOTHING_WAITS: Final = (
    "[People have decided about a tool call that does not wait for a decision any more. Nothing was called because of "
    "it. Tell them so in a sentence, and what they can do.]"
)

_APPROVALS: Final = frozenset(
    {HumanDecision.APPROVE, HumanDecision.APPROVE_THREAD, HumanDecision.APPROVE_ALWAYS, HumanDecision.EDIT}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What a run continues from: the messages of the run that asked, with the results of its calls."""

    messages: Sequence[SessionMessage] = ()  # empty if the run continues nothing
    note: str = ""  # for the model: a decision that did nothing
    is_waiting: bool = False  # calls are left on which nobody has decided; the run ends with questions about them

    def without(self, remembered: Sequence[SessionMessage]) -> list[SessionMessage]:
        """Returns the other messages of the session."""
        ours = {message.position for message in self.messages}
        return [message for message in remembered if message.position not in ours]


def ask(run: BuiltinRun, tool: Tool, arguments: Mapping[str, Any], call_id: str) -> ToolAnswer | None:
    """Adds a question about a call to a run, which ends with its questions. Returns a refusal if it cannot be asked."""
    stored = plain(arguments)
    if len(orjson.dumps(stored)) > MAX_ARGUMENT_BYTES:
        return failed(
            f"{tool.name} was not called: a person has to approve it, and its arguments are too long to be shown. "
            f"They may have {MAX_ARGUMENT_BYTES} bytes."
        )
    if len(run.waiting) >= MAX_OPEN_PER_WORK:
        return failed(f"{tool.name} was not called: {MAX_OPEN_PER_WORK} calls wait for approval already.")
    call = SessionMessage(
        role=MessageRole.TOOL_USE,
        call_id=call_id,
        tool=tool.name,
        arguments=stored,
        waits_in=run.input.conversation_id,
    )
    run.wait_for(call, question_of(call, tool))
    return None


def question_of(call: SessionMessage, tool: Tool | None = None) -> Asked:
    """Returns the question about a waiting call."""
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    wanted = ToolRequest(name=call.tool, arguments=call.arguments, schema=tool.parameters if tool else {})
    return Asked(
        id=call.call_id,
        prompt=may_i(wanted),
        reason=TOOL_CALL_REASON,
        tool=wanted,
        decisions=DECISIONS,
        raw={TOOL_CALL: {"id": call.call_id, "name": call.tool, "arguments": arguments}},
    )


async def settle(run: BuiltinRun, memory: CallMemory, tools: Sequence[Tool], *, most_characters: int) -> Settled:
    """Settles the waiting calls of the run's conversation: makes approved calls, and closes the others.

    Raises Unavailable without the database, before any tool has begun.
    """
    ids = [decided.interrupt_id for decided in run.input.decided]
    turn = await memory.waiting_turn(run.session_id, run.input.conversation_id, ids)
    if not ids:
        if turn and turn.open_calls:
            closed = [_result(call, failed(_SOMETHING_ELSE)) for call in turn.open_calls]
            await memory.settle_calls(run.session_id, turn.run, closed)
        return Settled()
    if turn is None:
        return Settled(note=_NOTHING_WAITS)
    run.continues = turn.run
    await _Settling(run, memory, turn, {tool.name: tool for tool in tools}, most_characters).all()
    known = await memory.waiting_turn(run.session_id, run.input.conversation_id, ids) or turn
    left = known.open_calls
    for call in left:
        run.ask_again(question_of(call, next((tool for tool in tools if tool.name == call.tool), None)))
    is_used = known.messages[-1].role is MessageRole.TOOL_RESULT and set(ids) <= _ids_of(known.messages)
    return Settled(messages=known.messages, note="" if is_used else _NOTHING_WAITS, is_waiting=bool(left))


@dataclass(frozen=True, slots=True)
class _Settling:
    """The settling of one run's calls."""

    run: BuiltinRun
    memory: CallMemory
    turn: WaitingTurn
    tools: Mapping[str, Tool]
    most_characters: int

    async def all(self) -> None:
        decisions = {decided.interrupt_id: decided for decided in self.run.input.decided}
        outcomes = [
            (call, await self._outcome(call, decisions[call.call_id]))
            for call in self.turn.open_calls
            if call.call_id in decisions
        ]
        results = [
            _result(call, found if isinstance(found, ToolAnswer) else failed(_MAY_HAVE_RUN)) for call, found in outcomes
        ]
        settled = await self.memory.settle_calls(self.run.session_id, self.turn.run, results)
        ours = [(call, found) for call, found in outcomes if call.call_id in settled]
        approved = [(call, found) for call, found in ours if not isinstance(found, ToolAnswer)]
        await asyncio.gather(*(self._make(call, arguments) for call, arguments in approved))

    async def _outcome(self, call: SessionMessage, decided: Decided) -> ToolAnswer | dict[str, Any]:
        """Returns the arguments of a call to make, or the reason why it is not made."""
        if decided.expired:
            return failed(_EXPIRED)
        if decided.decision is HumanDecision.REJECT:
            return failed(f"{_REJECTED}{_reason(decided)}")
        if decided.decision not in _APPROVALS:
            return failed(_WITHDRAWN)
        if _digest(decided) != tool_digest(call.tool, call.arguments):
            return failed(_OTHER_CALL)
        tool = self.tools.get(call.tool)
        if tool is None:
            return failed(_GONE)
        if refusal := not_for_strangers(tool, by_strangers=self.run.input.origin.by_strangers):
            return refusal
        is_edited = decided.decision is HumanDecision.EDIT and decided.arguments is not None
        given = dict((decided.arguments if is_edited else call.arguments) or {})
        arguments, found = await checked_in_turn(mended_and_checked, tool.parameters, given)
        if found.is_fine:
            return arguments
        problems = [*(f"{name} is missing" for name in found.missing), *found.problems]
        whose = "the arguments that a person gave instead" if is_edited else "its arguments"
        return failed(f"It was not called, because {whose} do not fit: {'; '.join(problems)}.")

    async def _make(self, call: SessionMessage, arguments: dict[str, Any]) -> None:
        tool = self.tools[call.tool]
        await self.run.begin_call(call.call_id, call.tool, arguments)
        answer = await answered(tool, arguments, self.most_characters)
        if arguments != call.arguments:
            given = json.dumps(arguments, ensure_ascii=False)
            answer = replace(answer, text=f"[A person changed the arguments to {given}]\n{answer.text}")
        result = _result(call, answer)
        storing = partial(self.memory.change_result, self.run.session_id, self.turn.run, result)
        await recorded(storing, "noted down", run_id=self.run.input.agui_run_id, tool=call.tool)
        await self.run.show_end(call.call_id, answer)


def _result(call: SessionMessage, answer: ToolAnswer) -> SessionMessage:
    return SessionMessage(
        role=MessageRole.TOOL_RESULT, call_id=call.call_id, tool=call.tool, text=answer.text, failed=answer.failed
    )


def _ids_of(messages: Iterable[SessionMessage]) -> set[str]:
    return {message.call_id for message in messages if message.waits_in}


def _reason(decided: Decided) -> str:
    reason = (decided.values or {}).get(REASON)
    return f" The reason: {reason}" if isinstance(reason, str) and reason.strip() else ""


def _digest(decided: Decided) -> str:
    """Returns the digest of the call on which people decided; empty if they were not shown any call."""
    call = tool_of_call(decided.raw)
    if call is None:
        return ""
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return ""
    return tool_digest(str(call.get("name")), arguments) if isinstance(arguments, Mapping) else ""
