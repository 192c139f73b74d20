"""Cleans text before it is sent to a model, and asks the models of a list until one answers.

Cleaning is the last step before the provider, for every built-in agent. These rules determine after which errors the
next model, or the same model again, is asked:

- The next model in the list is asked after every failure of a provider: unreachable, overloaded, key refused, model
  unknown, answer malformed. A refusal to answer is an answer, and is not passed to a less strict model. Swarm's own
  errors, and limits set by the operator, end the run.
- The last model in the list, often the only one, is asked again according to `RetryPolicy` if the failure is temporary
  and occurred quickly. A silent model is not asked again, because this would double the longest silence.
- If a provider requests a wait, all runs wait; a wait longer than the policy's limit is reported as an error.
- A model that could not be reached, or did not answer, is skipped for some time if another model can answer, because
  detecting this takes seconds to minutes.
- Once the first piece of an answer has been shown, nothing is repeated.
- A streamed answer whose end the provider has not reported, or that reached a limit of length, is a failure.

Every model marks its answers and its errors with its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import structlog
from pydantic_ai.exceptions import (
    ContentFilterError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ThinkingPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential

from swarm.domain.model.language_models import ModelSpec
from swarm_agents.models.troubles import SIGNED, Passed, is_refusal, is_transport_error, sign, spec_of, trouble_of
from swarm_agents.models.usage import mark, mark_if_free
from swarm_base.characters import data_for_model, for_model

_Part = TypeVar("_Part")

_READ: Final = ("content", "args")
"""The fields of a message part that a model reads. The others are Swarm's names and ids."""


def _messages_for_model(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Returns the messages with cleaned texts: instructions, texts of people and tools, and the model's texts and
    calls.
    """
    return [_message(message) for message in messages]


def _parameters_for_model(parameters: ModelRequestParameters) -> ModelRequestParameters:
    """Returns the instructions and the tools with cleaned texts. An MCP server may have written the tools'
    descriptions.
    """
    instructions = parameters.instruction_parts
    return replace(
        parameters,
        function_tools=[_tool(tool) for tool in parameters.function_tools],
        output_tools=[_tool(tool) for tool in parameters.output_tools],
        instruction_parts=[_part(part) for part in instructions] if instructions else instructions,
    )


def _message(message: ModelMessage) -> ModelMessage:
    if isinstance(message, ModelRequest):
        parts = [_part(part) for part in message.parts]
        instructions = for_model(message.instructions) if message.instructions else message.instructions
        return replace(message, parts=parts, instructions=instructions)
    return replace(message, parts=[_part(part) for part in message.parts])


def _part(part: _Part) -> _Part:
    """Returns the same part if it is already clean. Thinking is signed by the provider, so it is left unchanged."""
    if isinstance(part, ThinkingPart):
        return part
    changed = part
    for name in _READ:
        value = getattr(part, name, None)
        clean = data_for_model(value)
        if clean != value:
            changed = copy(part) if changed is part else changed
            setattr(changed, name, clean)
    return changed


def _tool(tool: ToolDefinition) -> ToolDefinition:
    return replace(
        tool,
        description=for_model(tool.description) if tool.description else tool.description,
        parameters_json_schema=data_for_model(tool.parameters_json_schema),
    )


_PASSING: Final = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and how soon models are asked again."""

    attempts: int = 3  # for the last model in a list; the others are asked once
    pause_seconds: float = 0.5  # before the second attempt; four times as long before the third
    longest_wait_seconds: float = 5.0  # the longest wait that a provider may request
    rest_seconds: float = 60.0  # how long a model that could not be reached is skipped

    def allows(self, error: BaseException) -> bool:
        """Returns whether the same model may succeed shortly."""
        if _kept_silent(error) or not isinstance(error, _PASSING):
            return False
        if isinstance(error, ModelHTTPError) and error.provider_retry_hint is False:
            return False
        return (error.retry_after or 0) <= self.longest_wait_seconds


DEFAULT_RETRIES: Final = RetryPolicy()


class _Prepared(WrapperModel):
    """A model whose messages are already prepared: if they were prepared twice, pydantic-ai's notes on texts would
    count as texts.
    """

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        return messages


class Served(WrapperModel):
    """A model with its name. Its input is cleaned here, for all agents and all providers (SEC-04)."""

    def __init__(self, wrapped: Model, spec: ModelSpec, *, retries: RetryPolicy, is_last: bool) -> None:
        super().__init__(wrapped)
        # Returns a stream only after its first event, because some providers report an error as the first event of a
        # stream.
        self._primed = FallbackModel(_Prepared(wrapped), fallback_on=_never)
        self.spec = spec
        self._retries = retries
        self._is_last = is_last
        self._rests_until = 0.0  # by the loop's clock
        self._waits_until = 0.0  # by the loop's clock

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Sends a request to the model, after any wait requested by the provider."""
        messages, parameters = _messages_for_model(messages), _parameters_for_model(model_request_parameters)
        async for attempt in self._attempts():
            with attempt, self._signing():
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
        """Streams an answer; otherwise like `request`. Only the beginning of the stream is retried."""
        messages, parameters = _messages_for_model(messages), _parameters_for_model(model_request_parameters)
        with self._signing():
            async with AsyncExitStack() as stack:
                async for attempt in self._attempts():
                    with attempt, self._signing():
                        await self._be_ready()
                        stream = self._primed.request_stream(messages, model_settings, parameters, run_context)
                        with _understanding():
                            response = await stack.enter_async_context(stream)
                response.metadata = self._signed(response.metadata)
                try:
                    yield response
                except BaseException:
                    mark_if_free(response.usage, self.spec)
                    raise
                answer = response.get()
                mark(answer, self.spec)  # the usage belongs to the stream and is read later
                if (
                    not (answer.provider_details or {}).get("finish_reason")
                    and answer.finish_reason != "content_filter"
                ):
                    raise ModelConnectionError(self.model_name, "The stream ended without a reason.", phase="read")
                not_cut(answer)

    def _attempts(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(self._retries.allows),
            stop=stop_after_attempt(self._retries.attempts if self._is_last else 1),
            wait=wait_exponential(multiplier=self._retries.pause_seconds, exp_base=4),
            before_sleep=self._log_retry,
            reraise=True,
        )

    def _log_retry(self, _: RetryCallState) -> None:
        _log.info("A model is asked again.", action="model_retry", model=self.spec.label)

    async def _be_ready(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._is_last and now < self._rests_until:
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
        if _kept_silent(error) or _was_out_of_reach(error):
            self._rests_until = now + self._retries.rest_seconds
        elif isinstance(error, ModelAPIError) and 0 < (error.retry_after or 0) <= self._retries.longest_wait_seconds:
            self._waits_until = max(self._waits_until, now + (error.retry_after or 0))

    def _signed(self, metadata: dict[str, Any] | None) -> dict[str, Any]:
        return {**(metadata or {}), SIGNED: self.spec.label}


def in_order(models: Sequence[Served]) -> Model:
    """Combines the models into one: the first is asked, and after a failure the next one."""
    last = models[-1]

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

    return FallbackModel(*models, fallback_on=goes_on) if len(models) > 1 else last


def is_for_another(error: Exception) -> bool:
    """Returns whether another model may succeed after this error."""
    if isinstance(error, ContentFilterError) or is_refusal(error):
        return False
    known = (ModelAPIError, UnexpectedModelBehavior, FallbackExceptionGroup)
    return isinstance(error, known) or is_transport_error(error)


def not_cut(response: ModelResponse) -> ModelResponse:
    """Returns the response. Raises OutputTokenLimitExceeded if it reached a limit of length, ContentFilterError if a
    filter ended it, and UnexpectedModelBehavior if an error of the provider did.
    """
    if response.finish_reason == "length":
        raise OutputTokenLimitExceeded("The answer reached the limit of tokens.")
    if response.finish_reason == "content_filter" and response.text:
        raise ContentFilterError("A filter ended the answer.")
    if response.finish_reason == "error" and response.text:
        raise UnexpectedModelBehavior("An error of the provider ended the answer.")
    return response


@contextmanager
def _understanding() -> Generator[None]:
    """Converts pydantic-ai's failed assertions about malformed answers into UnexpectedModelBehavior."""
    try:
        yield
    except AssertionError as error:
        raise UnexpectedModelBehavior("The answer does not follow the provider's protocol.") from error


def _kept_silent(error: BaseException) -> bool:
    """Returns whether nothing arrived within the time limit."""
    return isinstance(error, ModelTimeoutError | ModelRequestTimeout)


def _was_out_of_reach(error: Exception) -> bool:
    """Returns whether no connection could be made."""
    return isinstance(error, ModelConnectionError) and error.phase in ("connect", "pool")


def _never(_: Exception) -> bool:
    return False
