"""Errors of models, each as one sentence for people.

No text of a provider is repeated: it may hold people's messages, addresses, or parts of a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    RunTimedOut,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)

from swarm.agents.failures import NO_ANSWER, unreached
from swarm.agents.models.codes import code_of
from swarm.agents.models.foreign import causes
from swarm.agents.models.served import SIGNED, Passed, spec_of
from swarm.domain.model.models import ModelSpec

_NOW: Final = "; try again in a moment"
_OPERATOR: Final = "; whoever runs this has to change that"
_SHORTER: Final = "; start a new conversation, or ask for less at once"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelTrouble:
    """Why a model did not answer."""

    message: str  # one sentence for people, or several where several models were asked
    code: str  # see `TROUBLES`
    is_lasting: bool = False  # repetition will not help, only another key, model or region
    is_limit: bool = False  # a limit of the operator has ended the run
    model: str = ""  # "provider:name"; empty: not known


TROUBLES: Final[Mapping[str, str]] = {
    "authentication": f"does not accept our credentials{_OPERATOR}",
    "credentials": f"needs credentials of AWS's, and none were found{_OPERATOR}",
    "region": f"cannot be reached: there is nothing in the region that is configured{_OPERATOR}",
    "not_found": f"is not known at its address, or not open to us{_OPERATOR}",
    "quota": f"refuses to answer, because our account with its provider is used up{_OPERATOR}",
    "rate_limit": f"is asked too often right now{_NOW}",
    "overloaded": f"is overloaded right now{_NOW}",
    "unavailable": f"is not available right now{_NOW}",
    "server": f"has a problem of its own right now{_NOW}",
    "timeout": f"did not answer in time{_NOW}",
    "connection": f"broke off its answer{_NOW}",  # or was never reached, see `_connection`
    "context_window": f"cannot take in as much as was said here{_SHORTER}",
    "refused": "declines to answer this; put it differently",
    "output_limit": f"did not get to the end of its answer, which became too long{_SHORTER}",
    "rejected": "does not accept this request; put it differently, or start a new conversation",
    "incomprehensible": f"answered in a way that could not be understood{_NOW}",
    "busy": f"has too many questions waiting{_NOW}",
    "cancelled": "was stopped",
    "internal": "could not be asked: something went wrong on our side",
}
"""The meaning of each code, as it goes on after "The model …". The code "limit" is worded by `_limit`."""

_LASTING: Final = frozenset({"authentication", "credentials", "region", "not_found"})

_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "request_limit": ("limits.requests", "{} calls of the model"),
    "total_tokens_limit": ("limits.tokens", "{} tokens"),
    "tool_calls_limit": ("limits.tool_calls", "{} calls of tools"),
    "cost_limit": ("limits.cost_dollars", "{} US dollars"),
}
_LIMIT: Final = re.compile(rf"({'|'.join(_LIMITS)})`? of ([\d.]+\d|\d)")

_SIGNATURE: Final = re.compile(rf'"{SIGNED}":\s*"([^"\\]+)"')


def trouble_of(error: BaseException, specs: Sequence[ModelSpec] = ()) -> ModelTrouble:
    """Explains an error of a run or of a request to a model.

    ``specs`` are the models that were asked; an error without a model's name is attributed to the only one.
    """
    if isinstance(error, FallbackExceptionGroup):
        return _of_several(error, specs)
    if isinstance(error, UsageLimitExceeded):
        return _limit(error)
    if isinstance(error, RunTimedOut):
        return ModelTrouble(
            message="This took longer than the limit allows (limits.seconds).", code="limit", is_limit=True
        )
    code = code_of(error)
    model = _model(error) or (specs[0].label if len(specs) == 1 else "")
    return ModelTrouble(message=_sentence(error, code, model), code=code, is_lasting=code in _LASTING, model=model)


def _model(error: BaseException) -> str:
    """Returns the name of the model noted in an error; empty if unknown."""
    for cause in causes(error):
        if spec := spec_of(cause):
            return spec.label
        if isinstance(cause, ModelAPIError):
            return cause.model_name
        # pydantic-ai repeats the model's answer in these errors.
        if isinstance(cause, UnexpectedModelBehavior) and (found := _SIGNATURE.search(cause.body or "")):
            return found[1]
    return ""


def _sentence(error: BaseException, code: str, model: str) -> str:
    words = TROUBLES[code]
    if code == "connection":
        words = _connection(error)
    elif code == "rate_limit" and isinstance(error, ModelAPIError) and error.retry_after:
        words = words.replace("in a moment", _soon(error.retry_after))
    return f"The model {model} {words}." if model else f"The model {words}."


def _connection(error: BaseException) -> str:
    reason = unreached(error) if isinstance(error, Exception) else NO_ANSWER
    if reason != NO_ANSWER and not isinstance(error, Passed):
        return f"cannot be reached: {reason}"
    if isinstance(error, Passed) or getattr(error, "phase", None) in ("connect", "pool") or _never_connected(error):
        return f"cannot be reached{_NOW}"
    return TROUBLES["connection"]


def _never_connected(error: BaseException) -> bool:
    return type(error).__name__ in ("EndpointConnectionError", "ConnectError", "ProxyConnectionError")


def _soon(seconds: float) -> str:
    if seconds < 90:
        return f"in {max(1, round(seconds))} s"
    return f"in {round(seconds / 60)} minutes" if seconds < 5400 else "later"


def _of_several(group: FallbackExceptionGroup, specs: Sequence[ModelSpec]) -> ModelTrouble:
    """Combines the troubles of the last attempt at each model."""
    by_model = {trouble.model: trouble for trouble in (trouble_of(leaf, specs) for leaf in _leaves(group))}
    *others, last = by_model.values()
    if not others:
        return last
    return ModelTrouble(
        message=" ".join(trouble.message for trouble in by_model.values()),
        code=last.code,
        is_lasting=all(trouble.is_lasting for trouble in by_model.values()),
        model=last.model,
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return leaves


def _limit(error: UsageLimitExceeded) -> ModelTrouble:
    """Explains the limit named by pydantic-ai, under the operator's name for it."""
    found = _LIMIT.search(error.message)
    if found is None:
        message = "This took more than a limit allows (limits)."
    else:
        setting, words = _LIMITS[found[1]]
        message = f"This took more than {words.format(found[2])}, which is the limit ({setting})."
    return ModelTrouble(message=message, code="limit", is_limit=True)
