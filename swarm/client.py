"""The coordinator's HTTP API as a command on the same machine uses it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx2

from swarm.domain.errors import SwarmError


class NoServer(Exception):
    """No coordinator answers at this address."""


class Refused(SwarmError):
    """The coordinator said no."""

    code = "refused"


class OperatorClient:
    """Calls a running coordinator with the operator's token."""

    def __init__(self, base_url: str, token: str) -> None:
        self._http = httpx2.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
            trust_env=False,  # a proxy does not reach this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        """One call; the decoded answer. Raises NoServer, or Refused with the coordinator's own words."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.ConnectError as error:
            raise NoServer(f"No coordinator answers at {self._http.base_url}.") from error
        except httpx2.HTTPError as error:
            raise Refused(f"The coordinator did not answer properly: {error}") from error
        if answer.is_success:
            return answer.json()
        said = answer.json().get("error", {}) if answer.headers.get("content-type", "").endswith("json") else {}
        raise Refused(said.get("message") or f"HTTP {answer.status_code}", hint=said.get("hint"))
