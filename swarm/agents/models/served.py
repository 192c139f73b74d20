"""One model of a list, which signs its answers and its errors with its name.

It also remembers two things of its provider's, for all runs at once: that it asked us to wait, which is done, and that
it could not be reached or kept silent. The latter takes seconds to minutes to find out. Where another model can answer,
it is not found out anew by each request of each run, but once a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from swarm.agents.models.pricing import mark, mark_if_free
from swarm.agents.models.reading import messages_for_model, parameters_for_model
from swarm.domain.model.models import ModelSpec

REST_SECONDS: Final = 60.0
"""So long a model that could not be reached is passed over, if there is another."""

PATIENCE_SECONDS: Final = 5.0
"""The longest time that a provider may tell us to wait, so that we do."""

SIGNED: Final = "swarm_model"
"""Where an answer's metadata names the model that it is of."""

_SPEC: Final = "_swarm_spec"


class Passed(ModelAPIError):
    """This model was not asked, because it could not be reached a moment ago."""


class Served(WrapperModel):
    """A model under its name. What it reads is cleaned here, for all agents and all providers (SEC-04)."""

    def __init__(self, wrapped: Model, spec: ModelSpec) -> None:
        super().__init__(wrapped)
        self.spec = spec
        self.may_rest = False  # there is another that can answer
        self._rests_until = 0.0  # by the loop's clock
        self._waits_until = 0.0  # likewise

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """As that of the model; a provider that asked us to wait is not asked before."""
        messages, parameters = messages_for_model(messages), parameters_for_model(model_request_parameters)
        with self._signing():
            await self._be_ready()
            with _understanding():
                response = await self.wrapped.request(messages, model_settings, parameters)
        response.metadata = self._signed(response.metadata)
        mark(response, self.spec)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """As `request`, piece by piece."""
        messages, parameters = messages_for_model(messages), parameters_for_model(model_request_parameters)
        with self._signing():
            await self._be_ready()
            stream = self.wrapped.request_stream(messages, model_settings, parameters, run_context)
            async with AsyncExitStack() as stack:
                with _understanding():
                    response = await stack.enter_async_context(stream)
                response.metadata = self._signed(response.metadata)
                try:
                    yield response
                except BaseException:
                    mark_if_free(response.usage, self.spec)
                    raise
                mark(response.get(), self.spec)  # its usage is the stream's own, and is read after this

    async def _be_ready(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.may_rest and now < self._rests_until:
            raise Passed(self.model_name, "It could not be reached a moment ago.")
        if now < self._waits_until:
            await asyncio.sleep(self._waits_until - now)

    @contextmanager
    def _signing(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            self._remember(error)
            sign(error, self.spec)
            raise

    def _remember(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if kept_silent(error) or was_out_of_reach(error):
            self._rests_until = now + REST_SECONDS
        elif isinstance(error, ModelAPIError) and 0 < (error.retry_after or 0) <= PATIENCE_SECONDS:
            self._waits_until = max(self._waits_until, now + (error.retry_after or 0))

    def _signed(self, metadata: dict[str, Any] | None) -> dict[str, Any]:
        return {**(metadata or {}), SIGNED: self.spec.label}


@contextmanager
def _understanding() -> Generator[None]:
    """pydantic-ai is so sure of how some answers begin that it merely asserts it."""
    try:
        yield
    except AssertionError as error:
        raise UnexpectedModelBehavior("The answer does not follow the provider's protocol.") from error


def kept_silent(error: Exception) -> bool:
    """Whether nothing came for as long as we wait."""
    return isinstance(error, ModelTimeoutError | ModelRequestTimeout)


def was_out_of_reach(error: Exception) -> bool:
    """Whether there was no connection to ask over."""
    return isinstance(error, ModelConnectionError) and error.phase in ("connect", "pool")


def sign(error: Exception, spec: ModelSpec) -> None:
    """Note of an error which model it comes from; one that is signed stays as it is."""
    if not hasattr(error, _SPEC):
        setattr(error, _SPEC, spec)


def spec_of(error: BaseException) -> ModelSpec | None:
    """The model that an error comes from, if that is known."""
    spec = getattr(error, _SPEC, None)
    return spec if isinstance(spec, ModelSpec) else None


def label_of(response: ModelResponse) -> str:
    """The model that has answered, "provider:name" as it is configured; of other answers, as the provider says."""
    signed = (response.metadata or {}).get(SIGNED)
    return str(signed) if signed else ":".join(filter(None, (response.provider_name, response.model_name)))
