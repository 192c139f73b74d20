"""Runs an agent once and displays its answer as it is written.

`PlainText` is for pipes and files, and prints only the visible text as it is written. `Screen` is for terminals:
finished parts are printed once, and the unfinished Markdown below them is repainted.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Final, Self, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from swarm.clock import new_id, new_trace_id
from swarm.domain.answers.agents import AgentClient, RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Decided,
    Failed,
    Finished,
    InputMessage,
    Interrupted,
    Origin,
    PlanShown,
    RunInput,
    SourceChanged,
    Speaker,
    StepNamed,
    StepStatus,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.model.language_models import Door
from swarm.domain.model.requests import ToolRequest
from swarm.domain.model.sessions import storable
from swarm.domain.policy.access import OPERATOR
from swarm_base.characters import Visible, for_terminal

_NO_END: Final = Broken(reason="it stopped in the middle of its answer")

_PAINTS_PER_SECOND: Final = 10
_THINKING: Final = "thinking"
_TOO_LONG: Final = 8_000
"""A longer unfinished block is shown as plain text, since laying it out ten times a second would take too long."""

_MARKS: Final = {
    StepStatus.PENDING: "○",
    StepStatus.IN_PROGRESS: "◔",
    StepStatus.COMPLETE: "✓",
    StepStatus.ERROR: "✗",
}


class _Display(ABC):
    """The display of one answer. Texts of sub-agents are omitted, since they are not part of the answer."""

    def __init__(self) -> None:
        self._visible = Visible()
        self._tools: dict[str, str] = {}  # the names of running tools, by call id
        self._message_id: str | None = None
        self._is_inside = False  # a sub-agent
        self._has_text = False

    def show(self, event: AgentEvent) -> None:
        """Shows an event other than the end. Warnings are not shown; the agent's log has them for the operator."""
        match event:
            case TextDelta() if not self._is_inside:
                self._show_text(event)
            case TextEnded() if not self._is_inside:
                self.end_text()
            case SourceChanged(sub_agent=sub_agent):
                self._is_inside = sub_agent is not None
            case ToolStarted(id=id, name=name):
                self.end_text()
                self._tools[id] = for_terminal(name)
            case ToolEnded(id=id, failed=failed):
                if name := self._tools.pop(id, ""):
                    self._tool_ended("✗" if failed else "✓", name)
            case PlanShown() | StepNamed():
                self._progress(event)

    def finish(self, end: RunEnd) -> RunEnd:
        """Shows the end of a run. Returns the end, or a failure for a finished run without an answer."""
        if isinstance(end, Finished) and end.result and not self._has_text:
            self.write(end.result)
            self._has_text = True
        self.end_text()
        if isinstance(end, Finished) and not self._has_text and not end.elsewhere:
            return Failed(message="The agent finished without an answer.", code="empty")
        return end

    def write(self, text: str) -> None:
        """Adds text to the answer."""
        self._visible, text = self._visible.feed(text)
        self._add(text)

    def end_text(self) -> None:
        """Ends the current text, if any. The next text is separated from it."""
        self._visible, text = self._visible.end()
        self._add_last(text)

    def _show_text(self, delta: TextDelta) -> None:
        if delta.message_id != self._message_id:
            self.end_text()
            self._message_id = delta.message_id
        self._has_text = self._has_text or bool(delta.text.strip())
        self.write(delta.text)

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @abstractmethod
    def _add(self, text: str) -> None: ...

    @abstractmethod
    def _add_last(self, text: str) -> None: ...

    @abstractmethod
    def _tool_ended(self, mark: str, name: str) -> None: ...

    @abstractmethod
    def _progress(self, event: PlanShown | StepNamed) -> None: ...


class PlainText(_Display):
    """A display that prints only the text, followed by a line break. If ``notes`` is given, one line for each tool is
    written to it."""

    def __init__(self, out: TextIO, notes: TextIO | None = None) -> None:
        super().__init__()
        self._out = out
        self._notes = notes
        self._written = ""  # the end of the text written so far
        self._is_between = False

    def __exit__(self, *_: object) -> None:
        self.end_text()
        if self._written and not self._written.endswith("\n"):
            self._put("\n")

    def _add(self, text: str) -> None:
        if self._is_between and text:
            self._put("\n" if self._written.endswith("\n") else "\n\n")
            self._is_between = False
        self._put(text)

    def _add_last(self, text: str) -> None:
        self._put(text)
        self._is_between = bool(self._written)

    def _tool_ended(self, mark: str, name: str) -> None:
        if self._notes:
            self._notes.write(f"{mark} {name}\n")
            self._notes.flush()

    def _progress(self, event: PlanShown | StepNamed) -> None:
        """Shows nothing, since plans are only useful on a screen."""

    def _put(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._written = text[-1]


class Screen(_Display):
    """A display that shows the answer on a terminal. At the end, the complete answer has been printed."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._rest = ""
        self._steps: tuple[Text, ...] = ()
        self._waits = Spinner("dots", _waiting(_THINKING), style="cyan")
        self._last_was = ""  # the kind of the last printed part: "text" or "tool"
        self._live = Live(
            _Current(self._growing),
            console=console,
            refresh_per_second=_PAINTS_PER_SECOND,
            transient=True,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Prints the rest, without tools that have not answered."""
        self.end_text()
        self._tools.clear()
        self._live.stop()

    def _add(self, text: str) -> None:
        rest = self._rest + text
        whole, self._rest = split(rest) if "\n" in text else ("", rest)
        self._print_text(whole)

    def _add_last(self, text: str) -> None:
        rest, self._rest = self._rest + text, ""
        self._print_text(rest)

    def _tool_ended(self, mark: str, name: str) -> None:
        if self._last_was == "text":
            self._console.print()
        self._console.print(tool_line(mark, name))
        self._last_was = "tool"

    def _progress(self, event: PlanShown | StepNamed) -> None:
        if isinstance(event, PlanShown):
            self._steps = tuple(
                Text(f"{_MARKS[step.status]} {for_terminal(step.title)}", "dim") for step in event.steps
            )
        else:
            self._waits.update(text=_waiting(for_terminal(event.name) or _THINKING))

    def _print_text(self, text: str) -> None:
        if not text.strip():
            return
        if self._last_was:
            self._console.print()
        self._console.print(MarkdownText(text))
        self._last_was = "text"

    def _growing(self) -> RenderableType:
        shown: list[RenderableType] = []
        if self._rest.strip():
            text = self._rest if len(self._rest) < _TOO_LONG else None
            shown += [Text(), _Tail(MarkdownText(text) if text else Text(self._rest[-_TOO_LONG:]))]
        shown += self._steps
        shown += [Text.assemble(("⚙ ", "cyan"), (f"{name} …", "dim")) for name in list(self._tools.values())]
        if not self._rest.strip() and not self._tools:
            shown.append(self._waits)
        return Group(*shown)


class MarkdownText:
    """Markdown to be printed. Text whose layout fails for any reason is printed as plain text.

    Addresses are written out, since not every terminal supports links, and a link text can hide its target.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            lines = console.render_lines(Markdown(self._text, hyperlinks=False), options, pad=False)
        except Exception:  # noqa: BLE001 - the answer must be shown even if its layout fails
            lines = console.render_lines(Text(self._text), options, pad=False)
        yield from _joined(lines)


class _Current:
    """A part that is rendered when displayed, since the text printed above may change its content."""

    def __init__(self, make: Callable[[], RenderableType]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._make()


class _Tail:
    """The end of a part, limited to the height of the screen."""

    def __init__(self, whole: RenderableType) -> None:
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._whole, options.update(height=None), pad=False)
        yield from _joined(lines[-max(3, console.height - 6) :])


def _joined(lines: Iterable[list[Segment]]) -> RenderResult:
    for line in lines:
        yield from line
        yield Segment.line()


def _waiting(activity: str) -> Text:
    return Text(f"{activity} … (Ctrl-C stops)", "dim")


def split(text: str) -> tuple[str, str]:
    """Returns the finished part, and the last block, which may still grow: a paragraph, a list, a table or a code
    block."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    if len(starts) < 2:
        return "", text
    lines = text.split("\n")
    return "\n".join(lines[: starts[-1]]), "\n".join(lines[starts[-1] :])


def tool_line(mark: str, name: str) -> Text:
    """Returns the line that shows the end of a tool. ``mark`` is ✓ or ✗."""
    return Text.assemble((f"{mark} ", "green" if mark == "✓" else "red"), (name, "dim"))


def display_for(console: Console, plain: PlainText) -> _Display:
    """Returns a display for the screen, or ``plain`` if the console cannot be repainted."""
    return Screen(console) if console.is_terminal and not console.is_dumb_terminal else plain


async def answered(client: AgentClient, text: str, session_id: str, display: _Display) -> RunEnd:
    """Asks an agent and shows its complete answer on ``display``. Returns the run's end. Cancellation ends the run."""
    question = InputMessage(id=new_id(), speaker=Speaker.USER, text=storable(text))
    return await _shown(client, _run_input(session_id, messages=(question,)), display)


async def went_on(client: AgentClient, decided: tuple[Decided, ...], session_id: str, display: _Display) -> RunEnd:
    """Continues a run that waited for decisions, and shows it like `answered`."""
    return await _shown(client, _run_input(session_id, decided=decided), display)


def _run_input(
    session_id: str, *, messages: tuple[InputMessage, ...] = (), decided: tuple[Decided, ...] = ()
) -> RunInput:
    return RunInput(
        run_id="",
        agui_run_id=new_id(),
        trace_id=new_trace_id(),
        conversation_id=session_id,
        messages=messages,
        decided=decided,
        client_context={"source": "cli"},
        origin=Origin(door=Door.CLI, client=OPERATOR),
    )


async def _shown(client: AgentClient, run_input: RunInput, display: _Display) -> RunEnd:
    with display:
        async with aclosing(client.run(run_input)) as events:
            async for event in events:
                if isinstance(event, RunEnd):
                    return display.finish(event)
                display.show(event)
    return _NO_END


def complaint(end: RunEnd, agent: str) -> str:
    """Returns a message of one or more sentences about a run without an answer, or an empty string for an answered
    run."""
    match end:
        case Finished():
            return ""
        case Interrupted(asked=asked):
            said = [one.prompt for one in asked if one.prompt]
            calls = [f"It wants to call {one.tool.name} with {_arguments(one.tool)}." for one in asked if one.tool]
            return " ".join([*said, *calls]) or f"{agent} waits for an answer."
        case Cancelled():
            return "The answer was stopped."
        case Failed(message=message):
            return message or f"{agent} could not answer."
        case Broken(reason=reason):
            return f"{agent} could not answer: {reason}."


def _arguments(tool: ToolRequest) -> str:
    return json.dumps(dict(tool.arguments), ensure_ascii=False)
