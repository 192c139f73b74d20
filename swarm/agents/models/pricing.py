"""The cost of models' answers, as far as known without a request.

Prices come from the installed version of genai-prices. The operator's own Ollama is free, which counts as a known cost
of 0; Ollama's cloud is not the operator's own. Another server with OpenAI's protocol counts as a proxy: a model with a
name of OpenAI's has OpenAI's price, and any other has no known price.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage

from swarm.domain.model.models import ModelSpec, Provider

_UNPRICED: Final = "unpriced_requests"
"""The counter of answers without a known price in a usage. pydantic-ai also adds up counters unknown to it, so a run's
usage shows whether its cost covers all answers.
"""


def mark(response: ModelResponse, spec: ModelSpec) -> None:
    """Marks an answer's usage as free or as unpriced; otherwise pydantic-ai computes the cost."""
    if is_free(spec):
        mark_if_free(response.usage, spec)
    elif not is_priced(response):
        setattr(response.usage, _UNPRICED, 1)


def mark_if_free(usage: RequestUsage, spec: ModelSpec) -> None:
    """As `mark`, for an answer without an end."""
    if is_free(spec):
        usage.cost = Decimal(0)


def is_free(spec: ModelSpec) -> bool:
    """Whether use of this model is free."""
    if spec.provider is not Provider.OLLAMA:
        return False
    host = urlsplit(spec.base_url or "").hostname or ""
    in_cloud = spec.name.endswith(("-cloud", ":cloud")) or host == "ollama.com" or host.endswith(".ollama.com")
    return not in_cloud


def is_priced(response: ModelResponse) -> bool:
    """Whether the cost of this answer is known."""
    if response.usage.cost is not None:
        return True
    try:
        response.cost()
    except (AssertionError, LookupError, ValueError):
        return False
    return True


def cost_of(usage: RunUsage | RequestUsage) -> Decimal | None:
    """Returns the cost of a usage in US dollars; None if the cost of a part is unknown."""
    if getattr(usage, _UNPRICED, 0) or usage.unmeasured_requests:
        return None
    if usage.cost is None and isinstance(usage, RunUsage) and not usage.requests and not usage.total_tokens:
        return Decimal(0)  # no usage
    return usage.cost
