"""The messages of Claude Code as events, and its questions as forms. What is not understood is left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from swarm_runner.doors.lines import MOST_COUNTED, count_of, object_of, text_of
from swarm_runner.endings import failed_of, is_no_answer
from swarm_runner.files import beginning_of
from swarm_runner.port import (
    CliEvent,
    FileDiff,
    LogLine,
    PermissionAsked,
    QuestionAsked,
    StepShown,
    TextAdded,
    ToolState,
    TurnEnded,
    TurnOutcome,
    UsageReported,
)

QUESTION_TOOL: Final = "AskUserQuestion"
_TITLE_CHARACTERS: Final = 500
_TELLING: Final = ("description", "command", "file_path", "path", "pattern", "url", "query", "prompt", "skill")
_TEXTS: Final = {"Write": ("content",), "Edit": ("old_string", "new_string")}
"""The texts of a call that its diffs show."""

_MAX_FILE_BYTES: Final = 1024 * 1024
_MOST_STEPS: Final = 500
_MOST_STREAMED: Final = 50
_INPUT_TOKENS: Final = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_NOTHING_SPENT: Final = UsageReported()
_REASONS: Final = {
    "error_max_turns": "the CLI's limit of model requests is reached",
    "error_max_budget_usd": "the CLI's limit of cost is reached",
    "error_during_execution": "the CLI failed while it worked",
}


class TurnMessages:
    """The text and the tool calls of a session. Text that was streamed is not repeated by its whole message.

    ``failure`` is what the CLI itself says in place of the model's last message, such as that a limit is reached.
    """

    def __init__(self, spent: UsageReported = _NOTHING_SPENT) -> None:
        self._before = spent  # by earlier processes of the session
        self.model: str | None = None
        self.failure = ""
        self.resets_at: float | None = None
        self.has_worked = False  # the model has said something in this turn, or called a tool
        self._used = UsageReported(input_tokens=0, output_tokens=0)  # as the last result says
        self._calls: dict[str, tuple[int, int]] = {}  # input and output since then, by the message's id
        self._current: dict[object, str] = {}  # the message that is streamed, by the call of its subagent
        self._streamed: dict[str, None] = {}
        self._titles: dict[str, str] = {}
        self._is_in_paragraph = False

    def begin(self) -> None:
        """Begins a turn."""
        self._is_in_paragraph = self.has_worked = False
        self.failure, self.resets_at = "", None
        self._streamed.clear()
        self._titles.clear()

    def events(self, message: Mapping[str, Any]) -> Iterator[CliEvent]:
        """Yields the events of a message. The text of subagents is no part of the answer."""
        inner, is_main = object_of(message.get("message")), message.get("parent_tool_use_id") is None
        content = inner.get("content")
        blocks = [object_of(block) for block in content] if isinstance(content, list) else []
        match message.get("type"):
            case "stream_event":
                event = object_of(message.get("event"))
                yield from self._spent(event, message.get("parent_tool_use_id"))
                yield from self._streaming(event) if is_main else ()
            case "assistant" if is_main and (message.get("error") or inner.get("model") == "<synthetic>"):
                said = " ".join(text_of(block.get("text")) for block in blocks).strip()
                self.failure = said or text_of(message.get("error")) or "the CLI said nothing"
            case "assistant":
                self.failure = "" if is_main else self.failure
                yield from self._counted(text_of(inner.get("id")), object_of(inner.get("usage")))
                has_streamed = text_of(inner.get("id")) in self._streamed
                for block in blocks:
                    yield from self._block(block, is_main=is_main, has_streamed=has_streamed)
            case "user":
                for block in blocks:
                    yield from self._finished(block)
            case "rate_limit_event":
                told = object_of(message.get("rate_limit_info"))
                self.resets_at = count_of(told.get("resetsAt")) or None if told.get("status") == "rejected" else None
            case "system":
                yield LogLine(text=f"({text_of(message.get('subtype'))} {text_of(message.get('status'))})")

    def settle(self, used: UsageReported) -> UsageReported:
        """Notes what the result says of the usage so far, which counts in place of what was counted meanwhile. Some
        versions (2.1.332) tell that of earlier processes, too, which is left out."""
        own = (self._used.input_tokens or 0) + sum(taken for taken, _ in self._calls.values())
        if (used.input_tokens or 0) - own > (self._before.input_tokens or 0) / 2 > 0:
            names = ("input_tokens", "output_tokens", "cost_dollars")
            less: dict[str, Any] = {n: max(0, (getattr(used, n) or 0) - (getattr(self._before, n) or 0)) for n in names}
            used = replace(used, **less)
        self._used, self._calls = used, {}
        return used

    def _spent(self, event: Mapping[str, Any], subagent: object) -> Iterator[CliEvent]:
        """Counts a request to the model once it has ended, so that a budget acts before the next one."""
        inner, id = object_of(event.get("message")), self._current.get(subagent, "")
        if event.get("type") == "message_start":
            self._current[subagent] = id = text_of(inner.get("id"))
            self._calls[id] = _tokens(object_of(inner.get("usage")))
        elif event.get("type") == "message_delta":
            yield from self._counted(id, object_of(event.get("usage")))

    def _counted(self, id: str, usage: Mapping[str, Any]) -> Iterator[CliEvent]:
        known, (taken, given) = self._calls.get(id, (0, 0)), _tokens(usage)
        counted = max(known[0], taken), max(known[1], given)
        if id and any(counted) and counted != known:
            self._calls[id], self.has_worked = counted, self.has_worked or counted[1] > 0
            taken, given = (sum(call[at] for call in self._calls.values()) for at in (0, 1))
            used = self._used
            yield replace(
                used,
                input_tokens=(used.input_tokens or 0) + taken,
                output_tokens=(used.output_tokens or 0) + given,
                model=self.model,
            )

    def _streaming(self, event: Mapping[str, Any]) -> Iterator[CliEvent]:
        part = object_of(event.get("delta")) or object_of(event.get("content_block"))
        match event.get("type"), part.get("type"):
            case "message_start", _:
                self._note(self._streamed, text_of(object_of(event.get("message")).get("id")), _MOST_STREAMED)
            case "content_block_start", "text":
                yield from self._end_paragraph()
            case "content_block_delta", "text_delta":
                if text := text_of(part.get("text")):
                    self._is_in_paragraph = True
                    yield TextAdded(text=text)
            case "content_block_delta", "thinking_delta":
                yield LogLine(text=f"(thinking) {text_of(part.get('thinking'))[:_TITLE_CHARACTERS]}")

    def _end_paragraph(self) -> Iterator[CliEvent]:
        """Ends the paragraph before a step, too: the closing fence of a code block counts only as a whole line."""
        if self._is_in_paragraph:
            self._is_in_paragraph = False
            yield TextAdded(text="\n\n")

    def _block(self, block: Mapping[str, Any], *, is_main: bool, has_streamed: bool) -> Iterator[CliEvent]:
        text, id = text_of(block.get("text")), text_of(block.get("id"))
        if block.get("type") == "text" and text and is_main and not has_streamed:
            yield from self._end_paragraph()
            self._is_in_paragraph = True
            yield TextAdded(text=text)
        elif block.get("type") == "tool_use" and id:
            if is_main:
                yield from self._end_paragraph()
            self.has_worked = True
            title = title_of(text_of(block.get("name")), object_of(block.get("input")))
            self._note(self._titles, id, _MOST_STEPS, title)
            yield StepShown(id=id, title=title, state=ToolState.IN_PROGRESS)

    def _finished(self, block: Mapping[str, Any]) -> Iterator[CliEvent]:
        id = text_of(block.get("tool_use_id"))
        if block.get("type") == "tool_result" and (title := self._titles.pop(id, None)):
            yield StepShown(id=id, title=title, state=ToolState.ERROR if block.get("is_error") else ToolState.COMPLETE)

    @staticmethod
    def _note(noted: dict[str, Any], id: str, most: int, value: str | None = None) -> None:
        noted[id] = value
        if len(noted) > most:
            del noted[next(iter(noted))]


def title_of(tool: str, given: Mapping[str, Any]) -> str:
    """Returns what a tool call does, in one line."""
    telling = next((text for name in _TELLING if (text := text_of(given.get(name)).strip())), "")
    return " ".join(f"{tool}: {telling}".split())[:_TITLE_CHARACTERS] if telling else tool


def permission_of(id: str, tool: str, given: Mapping[str, Any], cwd: Path, *, can_grant: bool) -> PermissionAsked:
    """Returns a request for a permission, with what the call does to a file as diffs in place of its texts."""
    diffs = tuple(_diffs(tool, given, cwd))
    left_out = _TEXTS.get(tool, ()) if diffs else ()
    arguments = {name: value for name, value in given.items() if name not in left_out}
    return PermissionAsked(id=id, tool=tool, title="", arguments=arguments, diffs=diffs, can_grant=can_grant)


def _diffs(tool: str, given: Mapping[str, Any], cwd: Path) -> Iterator[FileDiff]:
    path, edits = text_of(given.get("file_path")), given.get("edits")
    if tool == "Write" and isinstance(given.get("content"), str):
        yield from _written(cwd, path, given["content"])
        return
    found = edits if tool == "MultiEdit" and isinstance(edits, list) else [given] if tool == "Edit" else []
    if all(isinstance(object_of(one).get(name), str) for one in found for name in ("old_string", "new_string")):
        yield from (FileDiff(path=path, old=one["old_string"], new=one["new_string"]) for one in found)


def _written(cwd: Path, path: str, content: str) -> Iterator[FileDiff]:
    """Yields what a file's new content changes, for a new file, and for a text file in the run's folder. What other
    files contain is not shown to people.
    """
    if not os.path.lexists(cwd / path):
        yield FileDiff(path=path, new=content)
    elif (old := beginning_of(cwd / path, cwd, _MAX_FILE_BYTES + 1)) is not None and len(old) <= _MAX_FILE_BYTES:
        with suppress(UnicodeDecodeError):
            yield FileDiff(path=path, old=old.decode(), new=content)


def question_of(id: str, given: Mapping[str, Any]) -> QuestionAsked:
    """Returns the questions of one call as a form, with a field for each question."""
    asked = _questions(given)
    schema = {
        "type": "object",
        "properties": {name: _property(question) for name, question in asked.items()},
        "required": list(asked),
    }
    message = "\n".join(text_of(question.get("question")) for question in asked.values())
    return QuestionAsked(id=id, message=message, schema=schema)


def answers_of(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values of the form as the CLI wants them: the text of each question, and its answer."""
    found: dict[str, str] = {}
    for name, question in _questions(given).items():
        value = values.get(name)
        if value is not None:
            said = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            found[text_of(question.get("question"))] = said
    return found


def usage_of(result: Mapping[str, Any], model: str | None) -> UsageReported | None:
    """Returns the usage of the process so far: of all models, where the CLI tells it."""
    of_models = [object_of(one) for one in object_of(result.get("modelUsage")).values()]
    usage, cost = object_of(result.get("usage")), result.get("total_cost_usd")
    if of_models:
        taken = sum(count_of(one.get(name)) or 0 for one in of_models for name in _INPUT_TOKENS)
        given = sum(count_of(one.get("outputTokens")) or 0 for one in of_models)
    elif usage:
        taken, given = _tokens(usage)
    else:
        return None
    dollars = float(cost) if isinstance(cost, int | float) and 0 <= cost <= MOST_COUNTED else None
    return UsageReported(input_tokens=taken, output_tokens=given, cost_dollars=dollars, model=model)


def ended_of(
    result: Mapping[str, Any], messages: TurnMessages, *, is_cancelled: bool, refused: Iterable[str]
) -> TurnEnded:
    """Returns the end of a turn by its result. Tools count as refused also where the CLI itself has refused them.

    What the CLI says in place of the model is no answer: its own fields tell it, or its words if nothing was done.
    """
    denied = [text_of(object_of(one).get("tool_name")) for one in result.get("permission_denials") or ()]
    tools = tuple(dict.fromkeys(tool for tool in (*refused, *denied) if tool not in ("", QUESTION_TOOL)))
    subtype, text = text_of(result.get("subtype")), text_of(result.get("result"))
    if is_cancelled:
        return TurnEnded(outcome=TurnOutcome.CANCELLED, refused_tools=tools)
    has_failed = result.get("is_error") or subtype != "success" or messages.failure
    if has_failed or (not messages.has_worked and is_no_answer(text)):
        errors = " ".join(str(error) for error in result.get("errors") or ())
        reason = messages.failure or text or errors or _REASONS.get(subtype, f"the CLI reports an error: {subtype}")
        return failed_of(reason[:_TITLE_CHARACTERS], tools, resets_at=messages.resets_at)
    if result.get("stop_reason") == "refusal":
        return TurnEnded(outcome=TurnOutcome.REFUSED, text=text, reason="the model refused", refused_tools=tools)
    if result.get("stop_reason") in ("max_tokens", "model_context_window_exceeded"):
        reason = "the answer is cut short: the model's limit of tokens is reached"
        return TurnEnded(outcome=TurnOutcome.FAILED, text=text, reason=reason, refused_tools=tools)
    return TurnEnded(outcome=TurnOutcome.DONE, text=text, refused_tools=tools)


def _questions(given: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    asked = given.get("questions")
    return {f"question_{number}": object_of(one) for number, one in enumerate(asked or (), 1)}


def _property(question: Mapping[str, Any]) -> dict[str, Any]:
    labels = [text_of(object_of(one).get("label")) for one in question.get("options") or ()]
    choice: dict[str, Any] = {"type": "string", **({"enum": labels} if labels else {})}
    title = text_of(question.get("header")) or text_of(question.get("question"))
    named = {"title": title, "description": text_of(question.get("question"))}
    return {"type": "array", "items": choice, **named} if question.get("multiSelect") else {**choice, **named}


def _tokens(usage: Mapping[str, Any]) -> tuple[int, int]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(count_of(usage.get(name)) or 0 for name in names), count_of(usage.get("output_tokens")) or 0
