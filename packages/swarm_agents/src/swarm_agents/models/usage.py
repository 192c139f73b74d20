"""Usage, cost and limits of model calls.

Only costs that are known without a request are counted. Prices come from the installed version of genai-prices. The
operator's own Ollama is free, which counts as a known cost of 0; Ollama's cloud is not the operator's own. Another
server with OpenAI's protocol counts as a proxy: a model with one of OpenAI's names has OpenAI's price, and any other
model has no known price.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UsageLimitUnavailableWarning
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

from swarm.domain.model.language_models import ModelSpec, ModelUsage, Provider, RunLimits

_MICRODOLLARS: Final = 1_000_000
_UNPRICED: Final = "unpriced_requests"
"""The counter of unpriced answers in a usage. pydantic-ai also adds up counters that it does not know, so a run's usage
shows whether its cost covers all answers.
"""


def mark(response: ModelResponse, spec: ModelSpec) -> None:
    """Marks an answer's usage as free or as unpriced; otherwise pydantic-ai computes the cost."""
    if is_free(spec):
        mark_if_free(response.usage, spec)
    elif not is_priced(response):
        setattr(response.usage, _UNPRICED, 1)


def mark_if_free(usage: RequestUsage, spec: ModelSpec) -> None:
    """Like `mark`, for an incomplete answer."""
    if is_free(spec):
        usage.cost = Decimal(0)


def is_free(spec: ModelSpec) -> bool:
    """Returns whether the use of this model is free."""
    if spec.provider is not Provider.OLLAMA:
        return False
    host = urlsplit(spec.base_url or "").hostname or ""
    in_cloud = spec.name.endswith(("-cloud", ":cloud")) or host == "ollama.com" or host.endswith(".ollama.com")
    return not in_cloud


def is_priced(response: ModelResponse) -> bool:
    """Returns whether the cost of this answer is known."""
    if response.usage.cost is not None:
        return True
    try:
        response.cost()
    except (AssertionError, LookupError, ValueError):
        return False
    return True


def _cost_of(usage: RunUsage | RequestUsage) -> Decimal | None:
    """Returns the cost of a usage in US dollars; None if part of the cost is unknown."""
    if getattr(usage, _UNPRICED, 0) or usage.unmeasured_requests:
        return None
    if usage.cost is None and isinstance(usage, RunUsage) and not usage.requests and not usage.total_tokens:
        return Decimal(0)  # nothing was used
    return usage.cost


def usage_of(used: RunUsage | RequestUsage | ModelResponse) -> ModelUsage:
    """Returns the usage of a run, or of one answer.

    The cost is None if the price of an answer is unknown, or if a provider does not report tokens. Charges for an
    interrupted answer are not counted unless the provider reports them.
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
        cost_microdollars=_microdollars(_cost_of(used)),
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


class _QuietUsageLimits(UsageLimits):
    """pydantic-ai's limits, without its warnings about limits that cannot be enforced: `check` logs them once, at
    startup.
    """

    def check_tokens(self, usage: RunUsage) -> None:
        """Checks the tokens as pydantic-ai does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UsageLimitUnavailableWarning)
            super().check_tokens(usage)

    def check_cost(self, usage: RunUsage, *, warn_if_cost_unavailable: bool = False) -> None:
        """Checks the cost as pydantic-ai does."""
        super().check_cost(usage, warn_if_cost_unavailable=False)


def limits_of(limits: RunLimits) -> UsageLimits:
    """Returns the run's limits for pydantic-ai, without the time limit, which the caller enforces.

    Tokens and cost are known only after an answer, so the answer that exceeds a limit still has to be paid for; it ends
    the run. The cost covers the answers with a known price.
    """
    return _QuietUsageLimits(
        request_limit=limits.requests,
        total_tokens_limit=limits.tokens,
        tool_calls_limit=limits.tool_calls,
        cost_limit=limits.cost_dollars,
    )
