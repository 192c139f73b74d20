"""User-facing reasons why an agent cannot be used, for people who wait for an answer.

Every reason is a clause that follows "the agent could not answer: …". Reasons quote nothing that the agent sent: an
agent's own description of an error goes to the log.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import httpx2

from swarm.domain.errors import Unavailable

BROKE_OFF: Final = "it stopped in the middle of its answer"
NO_ANSWER: Final = "it broke off before it answered"
NOT_A_STREAM: Final = "it did not answer with a stream of events"
NOT_AN_ANSWER: Final = "its answer could not be understood"
COMPRESSED: Final = "it sent a compressed answer, which was not requested"
EVENT_TOO_LARGE: Final = "it sent an event that is too large"
OUR_FAULT: Final = "something went wrong on our side"

_UNCONNECTED: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)
_INVALID: Final = (httpx2.UnsupportedProtocol, httpx2.InvalidURL)

_STATUSES: Final = {
    400: "it does not understand our request",
    401: "it refused our credentials",
    403: "it refused our credentials",
    404: "there is no agent at its address",
    405: "there is no agent at its address",
    408: "it did not answer in time",
    413: "our request is too large for it",
    422: "it does not understand our request",
    429: "it is overloaded",
    503: "it is not available",
    504: "it did not answer in time",
}

_MAY_STILL_RUN: Final = frozenset({408, 502, 504})
"""Statuses of gateways between Swarm and the agent that have stopped waiting."""


class GaveUp(Unavailable):
    """An error that makes an agent unusable.

    ``reason`` is user-facing. ``may_still_run`` is true if the agent may still be working on the request; ``is_away``,
    if the request has not reached the agent, and a later one may.
    """

    def __init__(self, reason: str, *, may_still_run: bool = True, is_away: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_still_run = may_still_run
        self.is_away = is_away


class Unauthenticated(GaveUp):
    """The refusal of Swarm's credentials by an agent."""


def silent_for(seconds: float) -> str:
    """Returns the reason if an agent has sent nothing for this time."""
    return f"it was silent for {seconds:g} s"


def not_within(seconds: float) -> str:
    """Returns the reason for an answer that did not start in time."""
    return f"it did not answer within {seconds:g} s"


def not_finished_within(seconds: float) -> str:
    """Returns the reason for an answer that did not end in time."""
    return f"it did not finish within {seconds:g} s"


def more_than(max_bytes: int) -> str:
    """Returns the reason for an answer that is too large."""
    return f"it sent more than {max_bytes // (1024 * 1024)} MiB"


def refused(status: int) -> GaveUp:
    """Returns the error for an HTTP status that does not mean success."""
    kind = Unauthenticated if status == 401 else GaveUp
    return kind(
        _words(status), may_still_run=status in _MAY_STILL_RUN, is_away=status == HTTPStatus.SERVICE_UNAVAILABLE
    )


def _words(status: int) -> str:
    if 300 <= status < 400:
        return "it answered with a redirect, which is not followed"
    words = _STATUSES.get(status) or ("it had an internal error" if status >= 500 else "it rejected our request")
    return f"{words} (HTTP {status}){'; its operator must look' if status in (401, 403) else ''}"


def not_sent(error: Exception) -> GaveUp:
    """Returns the error for an exception that the HTTP client raised instead of an answer."""
    return GaveUp(unreached(error), may_still_run=not _never_arrived(error), is_away=may_arrive_later(error))


def unreached(error: Exception) -> str:
    """Explains, from the HTTP client's exception, why a request got no response."""
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return "its certificate is not trusted"
            case ssl.SSLError():
                return "no secure connection to it is possible"
            case socket.gaierror():
                return "its address is unknown"
            case httpx2.ProxyError():
                return "the proxy denies access to it"
    if isinstance(error, _UNCONNECTED):
        return "it cannot be reached"
    return "its address is not valid" if isinstance(error, _INVALID) else NO_ANSWER


def _never_arrived(error: Exception) -> bool:
    """Returns whether a request certainly had no effect, because no connection could be made."""
    return isinstance(error, (*_UNCONNECTED, *_INVALID, httpx2.ProxyError))


def may_arrive_later(error: Exception) -> bool:
    """Returns whether a request may be repeated: the first attempt had no effect, and a later one may succeed.

    A certificate that is not trusted now will not be trusted a second later either.
    """
    return isinstance(error, _UNCONNECTED) and not any(isinstance(cause, ssl.SSLError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
