"""What a run of the router may use; its calls of the model are single ones, so nobody else counts them."""

from __future__ import annotations

from decimal import Decimal

from pydantic_ai.exceptions import UsageLimitExceeded

from swarm.domain.model_runs import ModelUsage
from swarm.domain.models import RunLimits

_MICRODOLLARS = 1_000_000


def check_request(limits: RunLimits, usage: ModelUsage) -> None:
    """Raises UsageLimitExceeded, in pydantic-ai's words, if a run that has used this may not call a model again."""
    _check("request_limit", limits.requests, usage.requests + 1)
    _check("total_tokens_limit", limits.tokens, usage.input_tokens + usage.output_tokens)
    if usage.cost_microdollars is not None:
        _check("cost_limit", limits.cost_dollars, Decimal(usage.cost_microdollars) / _MICRODOLLARS)


def check_tool_calls(limits: RunLimits, usage: ModelUsage) -> None:
    """Raises UsageLimitExceeded if a run has more calls of tools than it may."""
    _check("tool_calls_limit", limits.tool_calls, usage.tool_calls)


def _check(name: str, limit: int | Decimal | None, used: int | Decimal) -> None:
    if limit is not None and used > limit:
        raise UsageLimitExceeded(f"This would exceed the {name} of {limit}.")
