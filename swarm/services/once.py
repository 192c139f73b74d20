"""A tool call that is repeated returns its first result and does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from swarm.store import receipts
from swarm.store.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """What makes a call the same as another.

    With a ``request_id``: the same tool, about the same thing, with the same id, whatever else it says. Models choose
    ids such as "1" again and again, so an id counts only within the thing that the call is about.
    """

    agent_id: str
    tool: str
    about: str  # the id of the inbox message
    lease_token: str | None
    arguments: Mapping[str, object]
    request_id: str | None

    @property
    def key(self) -> str:
        """The call's name in the receipts."""
        return f"call:{self.agent_id}:{self.tool}:{self.about}:{self.request_id or self._said()}"

    def _said(self) -> str:
        whole = orjson.dumps([self.lease_token, dict(self.arguments)], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(whole).hexdigest()


def once(tx: Transaction, call: ToolCall, act: Callable[[], Mapping[str, object]]) -> dict[str, Any]:
    """The result of ``act``, or of the same call before. A call that failed may be repeated."""
    if not receipts.add(tx, call.key):  # first of all, so that of two calls at once one waits for the other
        return dict(orjson.loads(receipts.result(tx, call.key) or "{}"))
    result = dict(act())
    receipts.complete(tx, call.key, orjson.dumps(result).decode())
    return result
