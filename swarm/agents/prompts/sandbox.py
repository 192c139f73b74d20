"""What a template may do: Jinja2's immutable sandbox, narrowed to texts.

Beside Jinja2's own rules: what is forbidden is an error instead of nothing, data comes before methods of mappings (a
context may have a key ``items``), nothing is computed while a template is compiled, and a template is one text.
"""

from __future__ import annotations

import json
from typing import Any, Final

from jinja2 import ChainableUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

_READING: Final = frozenset({"get", "items", "keys", "values"})
"""Methods of mappings that a template may call."""


class _Method(ChainableUndefined):
    """A method of a mapping: it can be called, and is otherwise a key that is missing."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._undefined_obj, str(self._undefined_name))(*args, **kwargs)


class _NothingComputed(CodeGenerator):
    """Compiles without computing expressions that are constant: that would be outside of any template's line."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return super()._output_child_to_const(node, frame, finalize)
        raise nodes.Impossible


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """Missing keys are falsy at any depth and render as nothing; the last newline stays."""

    code_generator_class = _NothingComputed

    def __init__(self) -> None:
        super().__init__(undefined=ChainableUndefined, keep_trailing_newline=True, optimized=False)
        self.globals = {"range": safe_range, "namespace": Namespace}
        self.filters["tojson"] = _as_json

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``obj.attribute``."""
        return self._key(obj, attribute) if isinstance(obj, dict) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """``obj[argument]``; the filters that take an attribute come here too."""
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
        """Refuse. Raises SecurityError: with a chainable undefined it would be passed over in silence."""
        raise SecurityError(f"'{attribute}' of a {type(obj).__name__} is out of bounds for templates")


def _as_json(value: Any, indent: int | None = None) -> str:
    """The filter ``tojson``. Jinja2's own writes for web pages: there ``'`` and ``<`` become numbers."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_nothing)


def _nothing(value: object) -> None:
    """What is missing is ``null`` in JSON. Raises TypeError for what JSON has no words for."""
    if not isinstance(value, ChainableUndefined):
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
