"""Sends a test request to each model at startup, so that a wrong key is not first discovered by people in Slack."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

import structlog
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.settings import ModelSettings

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import (
    ADDRESS_VARIABLES,
    KEY_VARIABLES,
    ModelSpec,
    Provider,
    RunLimits,
)
from swarm_agents.models.building import Models
from swarm_agents.models.served import RetryPolicy
from swarm_agents.models.troubles import ModelTrouble, trouble_of
from swarm_agents.models.usage import is_priced

CHECK_SECONDS: Final = 10.0
"""The time limit for a model to answer. A model that is still starting, such as Ollama's after a restart, is not an
error.
"""

QUESTION: Final = "Answer with the single word OK."

ANSWER_TOKENS: Final = 256
"""Enough for a model that thinks before it answers, because some treat reaching the token limit as an error."""

_log = structlog.get_logger(__name__)


async def check(
    specs: Sequence[ModelSpec],
    *,
    limits: RunLimits | None = None,
    within_seconds: float = CHECK_SECONDS,
    waits: bool = True,
) -> Sequence[ModelTrouble]:
    """Asks all models for one word, concurrently.

    Raises ConfigurationError, with a hint for the operator, if no model answers and waiting will not help, or if none
    can be reached and the caller does not wait for one (``waits``). Returns the troubles of the others, and logs a
    warning for a model that does not answer now, and for limits that cannot be enforced because the provider reports no
    usage or the price is unknown.
    """
    async with AsyncExitStack() as opened:
        # All clients are built before the first request, because a missing key is detected without a request.
        models = [await opened.enter_async_context(Models([spec], retries=RetryPolicy(attempts=1))) for spec in specs]
        found = await asyncio.gather(*(_checked(each, limits or RunLimits(), within_seconds) for each in models))
    troubles = [(spec, trouble) for spec, trouble in zip(specs, found, strict=True) if trouble]
    lasting = [
        (spec, trouble)
        for spec, trouble in troubles
        if trouble.is_lasting or (not waits and trouble.code == "connection")
    ]
    if lasting and len(troubles) == len(specs):
        spec, trouble = lasting[0]
        raise ConfigurationError(trouble.message, hint=_hint_of(spec, trouble))
    for spec, trouble in troubles:
        _log.warning(
            "A model does not answer.",
            action="model_check",
            model=spec.label,
            code=trouble.code,
            trouble=trouble.message,
            hint=_hint_of(spec, trouble),
        )
    return [trouble for _, trouble in troubles]


def _hint_of(spec: ModelSpec, trouble: ModelTrouble) -> str:
    """Returns a hint for the operator that solves this problem; empty if Swarm's settings are not the cause."""
    hint = _hint(spec, trouble)
    return f"{hint} {spec.guess}".strip() if hint else ""


def _hint(spec: ModelSpec, trouble: ModelTrouble) -> str:
    match trouble.code:
        case "authentication" | "credentials" if spec.provider is Provider.BEDROCK:
            return (
                "Check the AWS credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID or the machine's role), and that they may "
                f"use the model {spec.name} in {ADDRESS_VARIABLES[spec.provider]}."
            )
        case "authentication" if spec.key_from:
            return "Put a valid key there."
        case "authentication":
            variable = KEY_VARIABLES.get(spec.provider)
            key = f"providers.{spec.provider}.api_key"
            return f"Check {variable} ({key})." if variable else f"Check {key}."
        case "not_found":
            pull = f' or run "ollama pull {spec.name}"' if spec.provider is Provider.OLLAMA else ""
            return f"Check LLM_MODEL (model.name, model.fallbacks) and {ADDRESS_VARIABLES[spec.provider]}{pull}."
        case "region" | "connection" | "timeout":
            return f"Check {ADDRESS_VARIABLES[spec.provider]}."
        case "quota":
            return "Check the account's billing page."
    return ""


async def _checked(models: Models, limits: RunLimits, within_seconds: float) -> ModelTrouble | None:
    (spec,) = models.specs
    most = min(ANSWER_TOKENS, spec.max_tokens or ANSWER_TOKENS)
    try:
        async with asyncio.timeout(within_seconds):
            response = await model_request(
                models.model,
                [ModelRequest.user_text_prompt(QUESTION)],
                model_settings=ModelSettings(max_tokens=most),
            )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is put into words, and the caller decides
        trouble = trouble_of(error, models.specs)
        if trouble.code == "authentication" and spec.key_from:
            trouble = replace(trouble, message=f"The model {spec.label} refuses the key from {spec.key_from}.")
        if trouble.code == "internal":
            _log.error("A model could not be asked.", action="model_check", model=spec.label, exc_info=error)
        return trouble
    _warn_of_limits(spec, response, limits)
    return None


def _warn_of_limits(spec: ModelSpec, response: ModelResponse, limits: RunLimits) -> None:
    without_hold = []
    if response.usage.unmeasured_requests and limits.tokens is not None:
        without_hold.append(limits.key("tokens"))
    if limits.cost_dollars is not None and not is_priced(response):
        without_hold.append(limits.key("cost_dollars"))
    if without_hold:
        _log.warning(
            "A limit cannot be enforced: the usage or cost of this model is not known.",
            action="model_limits",
            model=spec.label,
            limits=without_hold,
        )
