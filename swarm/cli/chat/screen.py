"""An answer on a terminal: finished parts are printed once, the growing Markdown below is repainted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from swarm.domain.answers.events import PlanShown, StepStatus
from swarm.domain.text.characters import Visible, for_terminal


def split(text: str) -> tuple[str, str]:
    """The finished part, and the last block, which may grow: a paragraph, a list, a table, a piece of code."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    if len(starts) < 2:
        return "", text
    lines = text.split("\n")
    return "\n".join(lines[: starts[-1]]), "\n".join(lines[starts[-1] :])


class Written:
    """Markdown to be printed; text whose layout fails, which may be of any kind, is printed plain.

    Addresses are written out: not every terminal knows links, and nobody should have to trust one.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            lines = console.render_lines(Markdown(self._text, hyperlinks=False), options, pad=False)
        except Exception:  # noqa: BLE001 - an answer whose layout fails is still the answer
            lines = console.render_lines(Text(self._text), options, pad=False)
        for line in lines:
            yield from line
            yield Segment.line()


PAINTS_PER_SECOND: Final = 10
THINKING: Final = "thinking"
_TOO_LONG: Final = 8_000
"""A longer block is shown as plain text while it grows: its layout ten times a second would take too long."""

_MARKS: Final = {
    StepStatus.PENDING: "○",
    StepStatus.IN_PROGRESS: "◔",
    StepStatus.COMPLETE: "✓",
    StepStatus.ERROR: "✗",
}


class Screen:
    """A `swarm.cli.chat.answering.AnswerDisplay` for one answer, which is printed whole in the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._visible = Visible()
        self._rest = ""
        self._tools: dict[str, str] = {}
        self._steps: tuple[Text, ...] = ()
        self._waits = Spinner("dots", _waiting(THINKING), style="cyan")
        self._last_was = ""  # the kind of the last print: "text" or "tool"
        self._live = Live(
            _AsItIs(self._growing),
            console=console,
            refresh_per_second=PAINTS_PER_SECOND,
            transient=True,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Print the rest; unanswered tools are dropped."""
        self.end_text()
        self._tools.clear()
        self._live.stop()

    def write(self, text: str) -> None:
        """Add to a text."""
        self._visible, text = self._visible.feed(text)
        rest = self._rest + text
        whole, rest = split(rest) if "\n" in text else ("", rest)
        self._rest = rest
        self._print_text(whole)

    def end_text(self) -> None:
        """Print the end of a text."""
        self._visible, text = self._visible.end()
        rest, self._rest = self._rest + text, ""
        self._print_text(rest)

    def tool_began(self, id: str, name: str) -> None:
        """Show a running tool."""
        self._tools[id] = for_terminal(name)

    def tool_ended(self, id: str, *, failed: bool) -> None:
        """Print a tool's end."""
        name = self._tools.pop(id, None)
        if name is None:
            return
        mark, style = ("✗", "red") if failed else ("✓", "green")
        if self._last_was == "text":
            self._console.print()
        self._console.print(Text.assemble((f"{mark} ", style), (name, "dim")))
        self._last_was = "tool"

    def plan(self, plan: PlanShown) -> None:
        """Show the current plan."""
        self._steps = tuple(Text(f"{_MARKS[step.status]} {for_terminal(step.title)}", "dim") for step in plan.steps)

    def step(self, name: str) -> None:
        """Show the agent's current activity."""
        self._waits.update(text=_waiting(for_terminal(name) or THINKING))

    def _print_text(self, text: str) -> None:
        if not text.strip():
            return
        if self._last_was:
            self._console.print()
        self._console.print(Written(text))
        self._last_was = "text"

    def _growing(self) -> RenderableType:
        shown: list[RenderableType] = []
        if self._rest.strip():
            text = self._rest if len(self._rest) < _TOO_LONG else None
            shown += [Text(), _Tail(Written(text) if text else Text(self._rest[-_TOO_LONG:]))]
        shown += self._steps
        shown += [Text.assemble(("⚙ ", "cyan"), (f"{name} …", "dim")) for name in list(self._tools.values())]
        if not self._rest.strip() and not self._tools:
            shown.append(self._waits)
        return Group(*shown)


class _AsItIs:
    """A part that is made when painted: the text printed above may change its content."""

    def __init__(self, make: Callable[[], RenderableType]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._make()


class _Tail:
    """The end of a part, as far as the screen has room."""

    def __init__(self, whole: RenderableType) -> None:
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._whole, options.update(height=None), pad=False)
        yield from _joined(lines[-max(3, console.height - 6) :])


def _joined(lines: Iterable[list[Segment]]) -> RenderResult:
    for line in lines:
        yield from line
        yield Segment.line()


def _waiting(for_what: str) -> Text:
    return Text(f"{for_what} … (Ctrl-C stops)", "dim")
