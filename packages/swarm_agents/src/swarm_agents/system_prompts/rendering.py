"""Renders a template in a sandbox and within limits.

A rendering turns a template's text into its output, or into a problem and its line. A template's compiled code contains
the template's own line numbers, so every traceback names them: an exception's, and the watchdog's if the interpreter is
stuck.

The sandbox is Jinja2's immutable sandbox, restricted to text: forbidden access is an error instead of an empty value,
data takes precedence over methods of mappings (a context may have a key ``items``), constant expressions are not
evaluated at compile time, and a template is a single text.
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final

from jinja2 import ChainableUndefined, Template, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

from swarm_agents.system_prompts.limits import RenderLimits

_READING: Final = frozenset({"get", "items", "keys", "values"})
"""Methods of mappings that a template may call."""

VARIABLES: Final = {"client_context": (), "user": ("name", "id", "email"), "agent": (), "today": (), "tools": ()}
"""The variables of a template, and their keys where only these exist."""

_FILE: Final = "<prompt>"
"""The file name of a template in tracebacks."""

_STAND_IN: Final = "t_"
"""The prefix of functions that Jinja2 substitutes for missing filters and tests; they belong to no line of the
template.
"""

_OTHER_FILES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_MOST_WORDS: Final = 300


class _Method(ChainableUndefined):
    """A method of a mapping, which can be called and otherwise behaves like a missing key."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._undefined_obj, str(self._undefined_name))(*args, **kwargs)


class _NothingComputed(CodeGenerator):
    """A compiler that does not evaluate constant expressions, because their errors would belong to no line of the
    template.
    """

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return super()._output_child_to_const(node, frame, finalize)
        raise nodes.Impossible


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """An environment in which missing keys are falsy at any depth and render as empty text. The final newline
    is kept.
    """

    code_generator_class = _NothingComputed

    def __init__(self) -> None:
        super().__init__(undefined=ChainableUndefined, keep_trailing_newline=True, optimized=False)
        self.globals = {"range": safe_range, "namespace": Namespace}
        self.filters["tojson"] = _as_json

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Returns ``obj.attribute``."""
        return self._key(obj, attribute) if isinstance(obj, dict) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Returns ``obj[argument]``. Filters that take an attribute also call this."""
        if isinstance(obj, dict) and isinstance(argument, str):
            return self._key(obj, argument)
        return super().getitem(obj, argument)

    def _key(self, obj: dict[Any, Any], key: str) -> Any:
        if key in obj:
            return obj[key]
        if key.startswith("__"):
            return self.unsafe_undefined(obj, key)
        return (_Method if key in _READING else self.undefined)(obj=obj, name=key)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        """Raises SecurityError, because a chainable undefined would be ignored silently."""
        raise SecurityError(f"'{attribute}' of a {type(obj).__name__} is not allowed in templates")


def _as_json(value: Any, indent: int | None = None) -> str:
    """The filter ``tojson``. Jinja2's own filter is for web pages: it escapes ``'`` and ``<``."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_nothing)


def _nothing(value: object) -> None:
    """Returns ``null`` for a missing value. Raises TypeError for values that JSON cannot express."""
    if not isinstance(value, ChainableUndefined):
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


class OutOfTime(BaseException):
    """The time limit of a rendering is exceeded. Not an Exception, because Jinja2 catches exceptions in some places."""


class _TooMuchText(Exception):
    """The size limit for the text of a rendering is exceeded."""


def check_names(environment: PromptEnvironment, text: str) -> None:
    """Raises TemplateSyntaxError for a variable, filter or test that no rendering has; keys of ``client_context`` may
    be missing.
    """
    tree = Parser(environment, text).parse()
    unknown = find_undeclared_variables(tree) - VARIABLES.keys()
    for name in tree.find_all(nodes.Name):
        if name.name in unknown:
            raise TemplateSyntaxError(_no_such(name.name, [*VARIABLES]), name.lineno)
    for used in tree.find_all((nodes.Filter, nodes.Test)):
        kind, names = ("filter", environment.filters) if isinstance(used, nodes.Filter) else ("test", environment.tests)
        if used.name not in names:
            raise TemplateSyntaxError(f"there is no {kind} {used.name}", used.lineno)
    keys: list[nodes.Getattr | nodes.Getitem] = [*tree.find_all(nodes.Getattr), *tree.find_all(nodes.Getitem)]
    for key in keys:
        known = VARIABLES.get(key.node.name, ()) if isinstance(key.node, nodes.Name) else ()
        attr = key.attr if isinstance(key, nodes.Getattr) else getattr(key.arg, "value", None)
        if known and isinstance(attr, str) and attr not in (*known, *_READING):
            raise TemplateSyntaxError(_no_such(f"user.{attr}", [f"user.{one}" for one in known]), key.lineno)


def _no_such(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"there is no variable {name}" + (f"; did you mean {close[0]}?" if close else f": {', '.join(known)}")


def compiled(environment: PromptEnvironment, text: str) -> CodeType:
    """Compiles a template. Raises TemplateSyntaxError, or RecursionError if the nesting is too deep."""
    tree = Parser(environment, text).parse()
    for node in tree.find_all(_OTHER_FILES):
        raise TemplateSyntaxError("a prompt is one text, without include, import and extends", node.lineno)
    tree.set_environment(environment)
    generator = environment.code_generator_class(environment, None, None, optimized=False)
    generator.visit(tree)
    try:
        return _with_its_own_lines(generator.stream.getvalue(), generator.debug_info)  # type: ignore[attr-defined]
    except SyntaxError as error:  # Python's own limits were exceeded
        raise TemplateSyntaxError(error.msg, error.lineno or 1) from error


def _with_its_own_lines(source: str, lines: list[tuple[int, int]]) -> CodeType:
    """Compiles Python code with the template's line numbers. ``lines`` contains pairs: template line, source line."""
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
    return compile(module, _FILE, "exec")


def rendered(environment: PromptEnvironment, code: CodeType, variables: Mapping[str, Any], most_bytes: int) -> str:
    """Returns the template's output. Raises any error of the template, and TooMuchText at the line that exceeds the
    limit.
    """
    template = Template.from_code(environment, code, environment.make_globals(None))
    running = template.root_render_func(template.new_context(dict(variables)))
    parts, left = [], most_bytes
    for part in running:
        left -= len(part) if len(part) > left else len(part.encode("utf-8", "replace"))
        if left < 0:
            running.throw(_TooMuchText())  # type: ignore[attr-defined]  # the line is the generator's
        parts.append(part)
    return "".join(parts)


def line_of(error: BaseException) -> int | None:
    """Returns the template line of an error; None if the error belongs to no line."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    found, reading = None, None
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == _FILE and not frame.f_code.co_name.startswith(_STAND_IN):
            found = line
        else:
            reading = _line_read(frame) or reading
    return found or reading


def _line_read(frame: FrameType) -> int | None:
    """Returns the line that Jinja2 is parsing or compiling."""
    mine, node = frame.f_locals.get("self"), frame.f_locals.get("node")
    if isinstance(mine, Parser):
        return mine.stream.current.lineno
    return node.lineno if isinstance(node, nodes.Node) else None


def words(error: BaseException, limits: RenderLimits) -> str:
    """Describes an error as a clause, with names from the template and types of values, but no values."""
    match error:
        case OutOfTime():
            reason = f"it takes longer than {limits.seconds:g} s"
        case _TooMuchText():
            reason = f"it produces more than {limits.output_bytes // 1024} KiB of text"
        case MemoryError():
            reason = "it needs too much memory"
        case RecursionError():
            reason = "it is nested too deeply, or recurses endlessly"
        case TemplateError():
            reason = error.message or type(error).__name__
        case ArithmeticError() | TypeError():
            reason = str(error)
        case _:
            reason = type(error).__name__
    return " ".join(reason.split()).rstrip(".")[:_MOST_WORDS]
