"""Usage and limits of models' calls."""

from __future__ import annotations

import warnings
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from pydantic_ai.exceptions import UsageLimitUnavailableWarning
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

from swarm.agents.models.pricing import cost_of, is_priced
from swarm.domain.model.models import ModelUsage, RunLimits

_MICRODOLLARS: Final = 1_000_000


def usage_of(used: RunUsage | RequestUsage | ModelResponse) -> ModelUsage:
    """Returns the usage of a run, or of one answer.

    The cost is None if the price of an answer is unknown, or if a provider does not report tokens. Charges for an
    answer that broke off are not counted unless the provider reports them.
    """
    if isinstance(used, ModelResponse):
        return _of_answer(used)
    counts = used if isinstance(used, RunUsage) else None
    return ModelUsage(
        requests=counts.requests if counts else 1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        tool_calls=counts.tool_calls if counts else 0,
        cost_microdollars=_microdollars(cost_of(used)),
    )


def _of_answer(response: ModelResponse) -> ModelUsage:
    usage = usage_of(response.usage)
    if usage.cost_microdollars is not None or response.usage.unmeasured_requests or not is_priced(response):
        return usage
    return replace(usage, cost_microdollars=_microdollars(response.cost().total_price))


def _microdollars(dollars: Decimal | None) -> int | None:
    if dollars is None:
        return None
    return int((dollars * _MICRODOLLARS).to_integral_value(ROUND_HALF_UP))


class QuietUsageLimits(UsageLimits):
    """pydantic-ai's limits, without warnings where they cannot hold: `check` logs this once, at the start."""

    def check_tokens(self, usage: RunUsage) -> None:
        """As pydantic-ai's."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UsageLimitUnavailableWarning)
            super().check_tokens(usage)

    def check_cost(self, usage: RunUsage, *, warn_if_cost_unavailable: bool = False) -> None:
        """As pydantic-ai's."""
        super().check_cost(usage, warn_if_cost_unavailable=False)


def limits_of(limits: RunLimits) -> UsageLimits:
    """Returns the run's limits for pydantic-ai, without the time, which the caller limits.

    Tokens and cost are known after an answer, so the answer that exceeds a limit is still paid for; it ends the run.
    The cost covers the answers with a known price.
    """
    return QuietUsageLimits(
        request_limit=limits.requests,
        total_tokens_limit=limits.tokens,
        tool_calls_limit=limits.tool_calls,
        cost_limit=limits.cost_dollars,
    )
