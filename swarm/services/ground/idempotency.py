"""Idempotent tool calls: a repeated call of a run returns its first result and changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import orjson

from swarm.domain.model.agents import Agent
from swarm.store import idempotency_keys
from swarm.store.bridge.transaction import Transaction

_Result = TypeVar("_Result", bound=Mapping[str, object])


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The run that calls a tool."""

    agent: Agent
    lease_token: str | None = None
    request_id: str | None = None
    bound_to: str | None = None  # the lease whose key the caller has; None: it has the agent's own token
    work: str | None = None  # for a run of the coordinator: request ids count under all leases of this work


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotentCall:
    """The identity of a call.

    With a ``request_id``: the tool, the subject and the id, whatever the arguments. Models reuse ids such as "1", so an
    id counts only within its subject. Without an id: the lease and the arguments.
    """

    agent_id: str
    tool: str
    about: str  # the id of the inbox message, task or other subject
    lease_token: str | None
    arguments: Mapping[str, object]
    request_id: str | None

    @classmethod
    def of(
        cls, caller: Caller, tool: str, about: str, said: Mapping[str, object], lease_token: str | None = None
    ) -> IdempotentCall:
        """Returns the call of a run, under the given lease or, by default, the lease of ``lease_token``."""
        return cls(
            agent_id=caller.agent.id,
            tool=tool,
            about=about,
            lease_token=caller.lease_token if caller.lease_token is not None else lease_token,
            arguments=said,
            request_id=caller.request_id,
        )

    @property
    def key(self) -> str:
        """The idempotency key of the call."""
        return f"call:{self.agent_id}:{self.tool}:{self.about}:{self.request_id or self._said()}"

    def _said(self) -> str:
        return digest([self.lease_token, dict(self.arguments)])


def idempotent(
    tx: Transaction,
    call: IdempotentCall,
    act: Callable[[], _Result],
    *,
    stands: Callable[[], bool] = lambda: True,
) -> _Result:
    """Returns the result of ``act``, or the stored result of an equal earlier call while ``stands`` confirms its
    effect.

    A failed call may be repeated.
    """
    first = idempotency_keys.record(tx, call.key)  # recorded first: a concurrent equal call waits
    if not first and stands():
        return cast("_Result", orjson.loads(idempotency_keys.result(tx, call.key) or "{}"))
    result = act()
    idempotency_keys.complete(tx, call.key, orjson.dumps(result).decode())
    return result


def digest(said: object) -> str:
    """Returns a short digest that is equal only for equal arguments."""
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
