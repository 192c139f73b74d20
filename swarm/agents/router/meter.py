"""The limits of a router's run; its calls of the model are single ones, so pydantic-ai does not count them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelResponse

from swarm.agents.builtin.run import BuiltinRun
from swarm.agents.models.troubles import label_of
from swarm.domain.model.models import ModelUsage, RunLimits

_MICRODOLLARS: Final = 1_000_000


class Meter:
    """Counts the usage of runs. Raises UsageLimitExceeded, in pydantic-ai's words, for a step beyond a limit."""

    def __init__(self, limits: RunLimits, usage_of: Callable[[ModelResponse], ModelUsage]) -> None:
        self._limits = limits
        self._usage_of = usage_of

    def before_request(self, run: BuiltinRun) -> None:
        """Raises UsageLimitExceeded if the run may not call a model again."""
        _check("request_limit", self._limits.requests, run.usage.requests + 1)

    def count(self, run: BuiltinRun, response: ModelResponse) -> None:
        """Counts the usage of a model's answer."""
        run.used(self._usage_of(response))
        run.model = label_of(response)

    def after_request(self, run: BuiltinRun) -> None:
        """Raises UsageLimitExceeded if the answers used too much, which is known only afterwards."""
        used = run.usage
        _check("total_tokens_limit", self._limits.tokens, used.input_tokens + used.output_tokens)
        if used.cost_microdollars is not None:
            _check("cost_limit", self._limits.cost_dollars, Decimal(used.cost_microdollars) / _MICRODOLLARS)

    def before_tools(self, run: BuiltinRun, calls: int) -> None:
        """Counts calls of tools before they are made. Raises UsageLimitExceeded for too many; then none may be made."""
        _check("tool_calls_limit", self._limits.tool_calls, run.usage.tool_calls + calls)
        run.used(ModelUsage(tool_calls=calls))


def _check(name: str, limit: int | Decimal | None, used: int | Decimal) -> None:
    if limit is not None and used > limit:
        raise UsageLimitExceeded(f"This would exceed the {name} of {limit}.")
