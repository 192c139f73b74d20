"""Errors of a model for which the next model is asked, and errors for which the same one is asked again.

- The next model of the list is asked after every failure of a provider: unreachable, overloaded, key refused, model
  unknown, answer incomprehensible. A refusal to answer is an answer, and is not taken to a less strict model. Our own
  errors, and limits of the operator, end the run.
- The last model of the list, often the only one, is asked again, twice, if the failure is temporary and came quickly.
  A silent model is not asked again: this would double the longest silence. A provider's request to wait is obeyed for
  up to `PATIENCE_SECONDS`; a longer wait is reported as an error.
- Once the first piece of an answer has been shown, nothing is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from pydantic_ai.exceptions import (
    ContentFilterError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from swarm.agents.models.codes import is_refusal
from swarm.agents.models.foreign import is_transport_error
from swarm.agents.models.served import PATIENCE_SECONDS, Passed, Served, kept_silent, spec_of
from swarm.agents.models.troubles import trouble_of

PAUSES_SECONDS: Final = (0.5, 2.0)
"""Before the second and the third attempt."""

_PASSING: Final = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)

_log = structlog.get_logger(__name__)


class _RetryingModel(WrapperModel):
    """A model that is asked after a pause."""

    def __init__(self, wrapped: Served, pause_seconds: float) -> None:
        super().__init__(wrapped)
        self._label = wrapped.spec.label
        self._pause_seconds = pause_seconds

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Sends a request to the model after the pause."""
        await self._pause()
        return await self.wrapped.request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Streams an answer of the model after the pause."""
        await self._pause()
        stream = self.wrapped.request_stream(messages, model_settings, model_request_parameters, run_context)
        async with stream as response:
            yield response

    async def _pause(self) -> None:
        _log.info("A model is asked again.", action="model_retry", model=self._label)
        await asyncio.sleep(self._pause_seconds)


def in_order(models: Sequence[Served], *, pauses_seconds: Sequence[float]) -> Model:
    """Combines the models into one: the first is asked, after a failure the next, and the last more than once."""
    *before, last = models
    for model in before:
        model.may_rest = True
    patient = FallbackModel(last, *(_RetryingModel(last, pause) for pause in pauses_seconds), fallback_on=_again)
    return FallbackModel(*before, patient, fallback_on=_next_after(last)) if before else patient


def _next_after(last: Served) -> Callable[[Exception], bool]:
    def goes_on(error: Exception) -> bool:
        if not is_for_another(error):
            return False
        if spec_of(error) not in (None, last.spec) and not isinstance(error, Passed):
            trouble = trouble_of(error)
            _log.warning(
                "A model cannot answer, so the next is asked.",
                action="model_fallback",
                model=trouble.model,
                code=trouble.code,
            )
        return True

    return goes_on


def is_for_another(error: Exception) -> bool:
    """Whether another model may succeed after this error."""
    if isinstance(error, ContentFilterError) or is_refusal(error):
        return False
    known = (ModelAPIError, UnexpectedModelBehavior, FallbackExceptionGroup)
    return isinstance(error, known) or is_transport_error(error)


def _again(error: Exception) -> bool:
    """Whether the same model may succeed in a moment."""
    if kept_silent(error) or not isinstance(error, _PASSING):
        return False
    if isinstance(error, ModelHTTPError) and error.provider_retry_hint is False:
        return False
    return (error.retry_after or 0) <= PATIENCE_SECONDS
