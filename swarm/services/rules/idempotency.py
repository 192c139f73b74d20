"""Tool calls: whose run makes them, and that one which is repeated returns its first result and does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from swarm.domain.model.agents import Agent
from swarm.store import idempotency_keys
from swarm.store.bridge.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The run that calls a tool."""

    agent: Agent
    lease_token: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotentCall:
    """What makes a call the same as another.

    With a ``request_id``: the same tool, about the same thing, with the same id, whatever else it says. Models choose
    ids such as "1" again and again, so an id counts only within the thing that the call is about. Without one: the same
    lease and the same arguments.
    """

    agent_id: str
    tool: str
    about: str  # the id of the inbox message, of the task, of what else it is about
    lease_token: str | None
    arguments: Mapping[str, object]
    request_id: str | None

    @classmethod
    def of(
        cls, caller: Caller, tool: str, about: str, said: Mapping[str, object], lease_token: str | None = None
    ) -> IdempotentCall:
        """The call of a run, under the lease that it names; where it names none, under ``lease_token``."""
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
        """The call's name in the receipts."""
        return f"call:{self.agent_id}:{self.tool}:{self.about}:{self.request_id or self._said()}"

    def _said(self) -> str:
        return digest([self.lease_token, dict(self.arguments)])


def idempotent(
    tx: Transaction,
    call: IdempotentCall,
    act: Callable[[], Mapping[str, object]],
    *,
    stands: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """The result of ``act``, or of the same call before, as long as what that has done ``stands``. A call that failed
    may be repeated.
    """
    first = idempotency_keys.record(tx, call.key)  # first of all, so that of two calls at once one waits for the other
    if not first and stands():
        return dict(orjson.loads(idempotency_keys.result(tx, call.key) or "{}"))
    result = dict(act())
    idempotency_keys.complete(tx, call.key, orjson.dumps(result).decode())
    return result


def digest(said: object) -> str:
    """A short name for arguments: the same for the same ones only."""
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
