"""What answers of models cost, as far as that is known without asking anybody.

Prices are those that genai-prices carries, of the version that is installed. What runs on the operator's own Ollama
costs nothing that somebody would send a bill for: that is known, and it is 0. Ollama's cloud is not the operator's own.
A server that merely speaks OpenAI's protocol is taken for a proxy: a model that is called as one of OpenAI's costs what
OpenAI charges for it, and what any other costs is not known.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage

from swarm.domain.model.models import ModelSpec, Provider

_UNPRICED: Final = "unpriced_requests"
"""Where a usage counts answers whose price is not known. pydantic-ai adds up counters that it does not know as well,
so a run's usage tells whether its cost is that of all of its answers."""


def mark(response: ModelResponse, spec: ModelSpec) -> None:
    """Note in an answer's usage that it was free, or that its price is not known; else pydantic-ai works it out."""
    if is_free(spec):
        mark_if_free(response.usage, spec)
    elif not is_priced(response):
        setattr(response.usage, _UNPRICED, 1)


def mark_if_free(usage: RequestUsage, spec: ModelSpec) -> None:
    """As `mark`, of an answer that has no end."""
    if is_free(spec):
        usage.cost = Decimal(0)


def is_free(spec: ModelSpec) -> bool:
    """Whether nobody sends a bill for this model."""
    if spec.provider is not Provider.OLLAMA:
        return False
    host = urlsplit(spec.base_url or "").hostname or ""
    in_cloud = spec.name.endswith(("-cloud", ":cloud")) or host == "ollama.com" or host.endswith(".ollama.com")
    return not in_cloud


def is_priced(response: ModelResponse) -> bool:
    """Whether it is known what this answer costs."""
    if response.usage.cost is not None:
        return True
    try:
        response.cost()
    except (AssertionError, LookupError, ValueError):
        return False
    return True


def cost_of(usage: RunUsage | RequestUsage) -> Decimal | None:
    """What was used costs, in US dollars; None if that is not known of all of it."""
    if getattr(usage, _UNPRICED, 0) or usage.unmeasured_requests:
        return None
    if usage.cost is None and isinstance(usage, RunUsage) and not usage.requests and not usage.total_tokens:
        return Decimal(0)  # nothing was used
    return usage.cost
