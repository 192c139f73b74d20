"""The coordinator's HTTP API for commands."""

from __future__ import annotations

from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import httpx2

from swarm.domain.errors import SwarmError
from swarm.domain.text.characters import line_for_terminal


class NoServer(Exception):
    """No coordinator answers at this address."""


class CoordinatorRefused(SwarmError):
    """The coordinator said no."""

    code = "refused"


class CoordinatorClient:
    """A running coordinator, called with the operator's token or an agent's."""

    def __init__(self, base_url: str, token: str, *, timeout_seconds: float = 10) -> None:
        self._http = httpx2.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_seconds,
            trust_env=False,  # a proxy does not reach this machine
            verify=base_url.startswith("https:"),  # certificates take a tenth of a second to load
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Make one call. Returns the decoded answer, None for HTTP 204. Raises NoServer or CoordinatorRefused."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.ConnectError as error:
            address = str(self._http.base_url).rstrip("/")
            raise NoServer(
                f"No coordinator answers at {address}. SWARM_URL, or PORT on this machine, says where it is; "
                "`swarm up` starts one."
            ) from error
        except httpx2.HTTPError as error:
            raise CoordinatorRefused(f"The coordinator did not answer properly: {error}") from error
        if answer.status_code == HTTPStatus.NO_CONTENT:
            return None
        content = _content(answer)
        if answer.is_success and content is not None:
            return content
        match content:
            case {"error": {"message": str(message), "hint": hint}}:
                raise CoordinatorRefused(message, hint=hint)
            case _:
                raise CoordinatorRefused(
                    f"What answers at {self._http.base_url} is no coordinator: HTTP {answer.status_code}."
                )


def in_one_line(error: Exception) -> str:
    """An error's message with its hint, in one line; errors of drivers or parsers may have several."""
    return line_for_terminal(f"{error} {getattr(error, 'hint', None) or ''}")


def _content(answer: httpx2.Response) -> Any:
    """The decoded JSON; None for other content."""
    try:
        return answer.json()
    except ValueError:
        return None
