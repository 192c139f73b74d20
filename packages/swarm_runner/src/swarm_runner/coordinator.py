"""The coordinator as a runner sees it: polls, leases and files over HTTP, everything else as MCP tools.

Every call has the agent's token, and the instance's id, by which the coordinator refuses a second runner of a name. An
`Unreachable` coordinator may be asked again; a `Refused` call would be refused again.

A tool call is one HTTP request, since the coordinator's MCP server is stateless: there is no session that the end of a
coordinator could take along, and any coordinator process may answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from swarm_base.errors import SwarmError, Unavailable
from swarm_runner.port import McpAccess

INSTANCE_HEADER: Final = "X-Swarm-Instance"
_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")
LEASE_HEADER: Final = "X-Swarm-Lease"
_LOG_OFFSET_HEADER: Final = "X-Swarm-Log-Offset"
_MCP_HEADERS: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}

POLL_SECONDS: Final = 25
_CALL_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.8
_MOST_PAUSE_SECONDS: Final = 60.0

Trigger = dict[str, Any]


class Unreachable(Unavailable):
    """The coordinator did not answer, or could not do it now."""

    retry_after_seconds: float | None = None  # if the coordinator has said it

    @property
    def pause_seconds(self) -> float:
        """How long to wait before another try. It is short however long the coordinator has been away: it may be there
        for moments only, and a look costs nothing.
        """
        least = min(self.retry_after_seconds or _AGAIN_SECONDS, _MOST_PAUSE_SECONDS)
        return least * random.uniform(1.0, 1.25)  # noqa: S311 -- so that many runners do not come at once


class Refused(SwarmError):
    """The coordinator refused a call. ``code`` is the error's code, such as ``lease_lost``."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class CoordinatorConnection:
    """The HTTP connection of one agent. Used as a context manager."""

    def __init__(self, base_url: str, token: str, instance: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}", INSTANCE_HEADER: instance},
            timeout=_CALL_SECONDS,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            verify=base_url.startswith("https:"),  # loading certificates takes a tenth of a second
            mounts=dict.fromkeys(_LOOPBACK),  # a proxy cannot reach this machine
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def call(self, tool: str, lease_token: str | None = None, /, **arguments: object) -> dict[str, Any]:
        """Calls a tool, under a lease if it needs one. Returns its result. Raises Refused and Unreachable."""
        headers = _MCP_HEADERS | ({LEASE_HEADER: lease_token} if lease_token else {})
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self._json("POST", "/mcp", json=body, headers=headers)
        result = answer.get("result")
        if not isinstance(result, dict):
            raise Refused("refused", str((answer.get("error") or {}).get("message", "no result")))
        if result.get("isError"):
            told = (result.get("_meta") or {}).get("swarm/error") or {}
            raise _error(str(told.get("code", "refused")), str(told.get("message", tool)), told.get("hint"))
        return dict(result.get("structuredContent") or {})

    async def me(self) -> dict[str, Any]:
        """Returns the agent: id, name, role."""
        return await self._json("GET", "/me")

    async def poll(self, limit: int, wait_seconds: int = POLL_SECONDS) -> list[Trigger]:
        """Waits for work. Returns the triggers, each under a lease that is held until it is finished."""
        query = {"wait_seconds": wait_seconds, "limit": limit, "hold": "true"}
        answer = await self._json("GET", "/poll", params=query, timeout=wait_seconds + _CALL_SECONDS)
        return list(answer["triggers"])

    async def renew(self, tokens: list[str], parked_seconds: float | None = None) -> dict[str, Any]:
        """Renews leases, and tells how long no work is taken. Returns ``renewed``, ``lost`` and ``notices``."""
        parked = {} if parked_seconds is None else {"parked_seconds": parked_seconds}
        return await self._json("POST", "/leases/renew", json={"tokens": tokens, **parked})

    async def release(self, tokens: list[str], delay_seconds: float = 0) -> None:
        """Gives work back; this counts as no attempt."""
        await self._json("POST", "/leases/release", json={"tokens": tokens, "delay_seconds": delay_seconds})

    async def finish(self, token: str, outcome: str = "done", reason: str = "") -> dict[str, Any]:
        """Ends a lease: ``done``, ``dismissed`` or ``failed``."""
        body = {"tokens": [token], "outcome": outcome, "reason": reason}
        return await self._json("POST", "/leases/finish", json=body)

    async def ask_budget(self, run_id: str, scope: str, unit: str) -> str | None:
        """Asks people for more of a budget. Returns the request's id, or None if the budget is not used up any more."""
        answer = await self._json("POST", f"/runs/{run_id}/budget", json={"scope": scope, "unit": unit})
        return answer.get("request_id")

    async def usage(self, run_id: str, usage: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Reports the usage of a run so far. Returns the budgets that are used up."""
        answer = await self._json("POST", f"/runs/{run_id}/usage", json=dict(usage))
        return list(answer.get("exceeded", []))

    async def start(self, lease_token: str, about: Mapping[str, str]) -> tuple[str, int]:
        """Returns the id of the run under a lease, and how often the agent has answered under it without a stream."""
        started = await self._json("POST", "/runs", json=dict(about), headers={LEASE_HEADER: lease_token})
        return str(started["id"]), int(started.get("answers", 0))

    async def log(self, run_id: str, chunk: bytes, offset: int) -> int | None:
        """Appends a chunk to the log of a run; ``offset`` is the number of bytes sent before. Returns the most bytes
        that the log may have, if the coordinator tells."""
        headers = {"Content-Type": "text/plain; charset=utf-8", _LOG_OFFSET_HEADER: str(offset)}
        answer = await self._json("POST", f"/runs/{run_id}/log", content=chunk, headers=headers)
        return answer.get("limit")

    async def request(self, request_id: str, wait_seconds: int = POLL_SECONDS) -> dict[str, Any]:
        """Returns a request to people, once it is decided or the time is over."""
        query = {"wait_seconds": wait_seconds}
        return await self._json("GET", f"/requests/{request_id}", params=query, timeout=wait_seconds + _CALL_SECONDS)

    async def leave(self) -> None:
        """Lets another instance take the agent's name at once."""
        with suppress(SwarmError):  # an older coordinator, or none: the instance counts as gone after a lease
            await self._json("DELETE", "/me/instance")

    def mcp(self, lease: Mapping[str, str]) -> McpAccess:
        """Returns how a CLI reaches the MCP server under a lease: with its key, not with the agent's token."""
        headers = {"Authorization": f"Bearer {lease['key']}", LEASE_HEADER: lease["token"]}
        return McpAccess(url=f"{self.base_url}/mcp", headers=headers)

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise Unreachable(
                f"The coordinator at {self.base_url} does not answer: {str(error) or type(error).__name__}.",
                hint="Start it with `swarm up`, or name its address with --url or SWARM_URL.",
            ) from error
        if answer.is_success:
            found = answer.json() if answer.content else {}
            return found if isinstance(found, dict) else {}
        raise _refusal(answer)


async def register(base_url: str, key: str, agent: Mapping[str, Any]) -> dict[str, Any]:
    """Registers an agent with an enrolment key or the operator's token. Returns it with its ``token``."""
    async with CoordinatorConnection(base_url, key, "") as connection:
        return await connection._json("POST", "/agents", json=dict(agent))


def _refusal(answer: httpx2.Response) -> SwarmError:
    try:
        told = answer.json()["error"]
        code, message, hint = str(told["code"]), str(told["message"]), told.get("hint")
    except (ValueError, KeyError, TypeError):
        code, message, hint = "unavailable", f"HTTP {answer.status_code} without an explanation", None
    is_away = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    error = Unreachable(message, hint=hint) if is_away else _error(code, message, hint)
    if isinstance(error, Unreachable) and (after := answer.headers.get("Retry-After", "")).isdecimal():
        error.retry_after_seconds = float(after)
    return error


def _error(code: str, message: str, hint: str | None) -> SwarmError:
    if code in ("unavailable", "rate_limited", "internal"):
        return Unreachable(message, hint=hint)
    return Refused(code, message, hint)
