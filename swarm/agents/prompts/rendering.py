"""One rendering, from a template's text to its output or to what is wrong with it, and in which line.

A template's code carries the template's own line numbers. So every traceback names them: of an exception, and of the
watchdog that looks at an interpreter which is stuck.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Mapping
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.parser import Parser

from swarm.agents.prompts.limits import RenderLimits
from swarm.agents.prompts.sandbox import PromptEnvironment

FILE: Final = "<prompt>"
"""What a template is called in tracebacks."""

_STAND_IN: Final = "t_"
"""How functions are called that Jinja2 puts in place of a filter or test that is not there: they are in no line."""

_OTHER_FILES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_MOST_WORDS: Final = 300


class OutOfTime(BaseException):
    """It takes too long. No Exception, since Jinja2 catches those here and there."""


class TooMuchText(Exception):
    """It makes too much text."""


def compiled(environment: PromptEnvironment, text: str) -> CodeType:
    """The code of a template. Raises TemplateSyntaxError, or RecursionError if it is nested too deeply."""
    tree = Parser(environment, text).parse()
    for node in tree.find_all(_OTHER_FILES):
        raise TemplateSyntaxError("a prompt is one text, without include, import and extends", node.lineno)
    tree.set_environment(environment)
    generator = environment.code_generator_class(environment, None, None, optimized=False)
    generator.visit(tree)
    try:
        return _with_its_own_lines(generator.stream.getvalue(), generator.debug_info)  # type: ignore[attr-defined]
    except SyntaxError as error:  # Python has limits of its own
        raise TemplateSyntaxError(error.msg, error.lineno or 1) from error


def _with_its_own_lines(source: str, lines: list[tuple[int, int]]) -> CodeType:
    """Python code compiled as if it stood in the template. ``lines`` has pairs: line there, line in the source."""
    starts = [line for _, line in lines]

    def own(line: int) -> int:
        place = bisect_right(starts, line) - 1
        return lines[place][0] if place >= 0 else 1

    try:
        module = ast.parse(source)
    except SyntaxError as error:
        error.lineno = own(error.lineno or 1)
        raise
    for node in ast.walk(module):
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias | ast.excepthandler):
            node.lineno = node.end_lineno = own(node.lineno)
            node.col_offset = node.end_col_offset = 0
    return compile(module, FILE, "exec")


def rendered(environment: PromptEnvironment, code: CodeType, variables: Mapping[str, Any], most_bytes: int) -> str:
    """The template's output. Raises whatever goes wrong in it; TooMuchText at the line that makes too much."""
    template = Template.from_code(environment, code, environment.make_globals(None))
    running = template.root_render_func(template.new_context(dict(variables)))
    parts, left = [], most_bytes
    for part in running:
        left -= len(part) if len(part) > left else len(part.encode("utf-8", "replace"))
        if left < 0:
            running.throw(TooMuchText())  # type: ignore[attr-defined]  # the line is the generator's
        parts.append(part)
    return "".join(parts)


def line_of(error: BaseException) -> int | None:
    """The line of the template where it went wrong; None if it was not in any line."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    found, reading = None, None
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE and not frame.f_code.co_name.startswith(_STAND_IN):
            found = line
        else:
            reading = _line_read(frame) or reading
    return found or reading


def _line_read(frame: FrameType) -> int | None:
    """The line that Jinja2 is at while it reads a template."""
    mine, node = frame.f_locals.get("self"), frame.f_locals.get("node")
    if isinstance(mine, Parser):
        return mine.stream.current.lineno
    return node.lineno if isinstance(node, nodes.Node) else None


def words(error: BaseException, limits: RenderLimits) -> str:
    """What is wrong, as a clause. It holds names from the template and kinds of values, but no values."""
    match error:
        case OutOfTime():
            said = f"it takes longer than {limits.seconds:g} s"
        case TooMuchText():
            said = f"it makes more than {limits.output_bytes // 1024} KiB of text"
        case MemoryError():
            said = "it needs too much memory"
        case RecursionError():
            said = "it is nested too deeply, or calls itself without end"
        case TemplateError():
            said = error.message or type(error).__name__
        case ArithmeticError() | TypeError():
            said = str(error)
        case _:
            said = type(error).__name__
    return " ".join(said.split()).rstrip(".")[:_MOST_WORDS]
