"""One model of a list, which signs its answers and its errors with its name.

The model keeps two facts about its provider for all runs: a request to wait, which is obeyed, and a failure to connect
or to answer. The latter takes seconds to minutes to find out. Where another model can answer, it is tested once a
minute instead of once a request.
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

from swarm.agents.models.reading import messages_for_model, parameters_for_model
from swarm.agents.models.usage import mark, mark_if_free
from swarm.domain.model.models import ModelSpec

REST_SECONDS: Final = 60.0
"""A model that could not be reached is skipped for this time, if there is another."""

PATIENCE_SECONDS: Final = 5.0
"""The longest wait that a provider may request."""

SIGNED: Final = "swarm_model"
"""The key of the model's name in an answer's metadata."""

_SPEC: Final = "_swarm_spec"


class Passed(ModelAPIError):
    """This model was not asked, because it could not be reached a moment ago."""


class Served(WrapperModel):
    """A model under its name. Its input is cleaned here, for all agents and all providers (SEC-04)."""

    def __init__(self, wrapped: Model, spec: ModelSpec) -> None:
        super().__init__(wrapped)
        self.spec = spec
        self.may_rest = False  # another model can answer
        self._rests_until = 0.0  # by the loop's clock
        self._waits_until = 0.0  # by the loop's clock

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Sends a request to the model, once a wait requested by the provider is over."""
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
        """Streams an answer, otherwise as `request`."""
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
                mark(response.get(), self.spec)  # the usage is the stream's own, and is read after this

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
            _sign(error, self.spec)
            raise

    def _remember(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if kept_silent(error) or _was_out_of_reach(error):
            self._rests_until = now + REST_SECONDS
        elif isinstance(error, ModelAPIError) and 0 < (error.retry_after or 0) <= PATIENCE_SECONDS:
            self._waits_until = max(self._waits_until, now + (error.retry_after or 0))

    def _signed(self, metadata: dict[str, Any] | None) -> dict[str, Any]:
        return {**(metadata or {}), SIGNED: self.spec.label}


@contextmanager
def _understanding() -> Generator[None]:
    """Converts failed assertions of pydantic-ai about malformed answers into UnexpectedModelBehavior."""
    try:
        yield
    except AssertionError as error:
        raise UnexpectedModelBehavior("The answer does not follow the provider's protocol.") from error


def kept_silent(error: Exception) -> bool:
    """Whether nothing arrived within the time limit."""
    return isinstance(error, ModelTimeoutError | ModelRequestTimeout)


def _was_out_of_reach(error: Exception) -> bool:
    """Whether no connection could be made."""
    return isinstance(error, ModelConnectionError) and error.phase in ("connect", "pool")


def _sign(error: Exception, spec: ModelSpec) -> None:
    """Notes the model in an error; a signed error stays unchanged."""
    if not hasattr(error, _SPEC):
        setattr(error, _SPEC, spec)


def spec_of(error: BaseException) -> ModelSpec | None:
    """Returns the model noted in an error; None if unknown."""
    spec = getattr(error, _SPEC, None)
    return spec if isinstance(spec, ModelSpec) else None


def label_of(response: ModelResponse) -> str:
    """Returns the answering model's label: "provider:name" as configured, or as the provider names it if unsigned."""
    signed = (response.metadata or {}).get(SIGNED)
    return str(signed) if signed else ":".join(filter(None, (response.provider_name, response.model_name)))
