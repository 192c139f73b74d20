"""The tool code-execute: runs code at AWS, not locally."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.sessions import AgentCoreSessions, Clients, bounded
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed, object_schema

if TYPE_CHECKING:
    from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter

_LANGUAGES: Final = ("python", "javascript", "typescript")

_DESCRIPTION: Final = (
    "Run a piece of code in a sandbox and get what it prints. Use it to calculate, to convert and to analyse. Print "
    "what you want to see. Every call starts from nothing: no variables of earlier calls, no files of this machine."
)
_PARAMETERS: Final = object_schema(
    {
        "code": {"type": "string", "minLength": 1, "description": "the complete program"},
        "language": {"type": "string", "enum": list(_LANGUAGES), "default": "python"},
    },
    required=("code",),
)


@dataclass(kw_only=True, slots=True)
class _Text:
    """The text of one output, up to the limit."""

    most: int
    text: str = ""
    left_out: int = 0

    def add(self, more: object) -> None:
        more = str(more or "")
        kept = more[: self.most - len(self.text)]
        self.text += kept
        self.left_out += len(more) - len(kept)

    def __str__(self) -> str:
        note = f"\n[… {self.left_out:,} characters more]" if self.left_out else ""
        return self.text.rstrip() + note


@dataclass(kw_only=True, slots=True)
class _Outcome:
    """The result of a piece of code."""

    printed: _Text
    errors: _Text
    exit_code: int | None = None
    is_error: bool = False
    others: list[str] = field(default_factory=list)  # outputs other than text
    has_come: bool = False

    def answer(self) -> ToolAnswer:
        if not self.has_come:
            return failed("The interpreter ended without a result.")
        is_failed = self.is_error or self.exit_code not in (None, 0)
        why = f"The code failed with exit code {self.exit_code}." if self.exit_code else "The code failed."
        outputs = [str(self.printed), f"Errors:\n{self.errors}" if str(self.errors) else "", *self.others]
        parts = [why if is_failed else "", *outputs]
        return ToolAnswer(text="\n\n".join(filter(None, parts)) or "It ran and printed nothing.", failed=is_failed)


def code_tool(clients: Clients, sessions: AgentCoreSessions, options: AgentCoreOptions) -> Tool:
    """Returns the tool code-execute. Every call has its own interpreter."""

    async def execute(arguments: Mapping[str, Any]) -> ToolAnswer:
        code, language = str(arguments["code"]), str(arguments.get("language") or "python").lower()
        if language not in _LANGUAGES:
            return failed(f"There is no interpreter for '{language}'; there is one for {', '.join(_LANGUAGES)}.")

        def run(interpreter: CodeInterpreter) -> ToolAnswer:
            return _read(clients.execute(interpreter, code, language), options.most_characters)

        async with sessions.open(clients.start_interpreter, lambda interpreter: interpreter.stop()) as session:
            return await session.call(run)

    call = bounded("code-execute", options.code_seconds, execute)
    return Tool(name="code-execute", description=_DESCRIPTION, parameters=_PARAMETERS, call=call)


def _read(stream: Any, most_characters: int) -> ToolAnswer:
    """Reads a stream of results into an answer. An exception in the stream is raised as botocore's EventStreamError."""
    outcome = _Outcome(printed=_Text(most=most_characters), errors=_Text(most=most_characters))
    try:
        for event in stream:
            if result := event.get("result"):
                _take(outcome, result)
    finally:
        stream.close()
    return outcome.answer()


def _take(outcome: _Outcome, result: Mapping[str, Any]) -> None:
    outcome.has_come = True
    outcome.is_error |= bool(result.get("isError"))
    content: Iterable[Mapping[str, Any]] = result.get("content") or ()
    if structured := result.get("structuredContent"):
        outcome.printed.add(structured.get("stdout"))
        outcome.errors.add(structured.get("stderr"))
        outcome.exit_code = structured.get("exitCode", outcome.exit_code)
    has_text = structured is not None and ("stdout" in structured or "stderr" in structured)
    for item in content:
        if item.get("type") == "text":
            outcome.printed.add("" if has_text else item.get("text"))  # this item repeats the printed text
        else:
            outcome.others.append(
                f"[{item.get('type')} {item.get('mimeType') or item.get('name') or ''}".rstrip() + "]"
            )
