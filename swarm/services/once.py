"""A tool call that is repeated returns its first result and does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from swarm.store import receipts
from swarm.store.transaction import Transaction


def call_key(
    agent_id: str, tool: str, lease_token: str | None, arguments: Mapping[str, object], request_id: str | None
) -> str:
    """What identifies a call: the caller's own ``request_id``, or else everything that it says."""
    if request_id:
        return f"call:{agent_id}:{tool}:{request_id}"
    said = orjson.dumps([lease_token, tool, dict(arguments)], option=orjson.OPT_SORT_KEYS)
    return f"call:{agent_id}:{hashlib.sha256(said).hexdigest()}"


def once(tx: Transaction, key: str, act: Callable[[], Mapping[str, object]]) -> dict[str, Any]:
    """The result of ``act``, or of the first call with this key. A call that failed may be repeated."""
    if not receipts.add(tx, key):  # first of all, so that of two calls at once one waits for the other
        return dict(orjson.loads(receipts.result(tx, key) or "{}"))
    result = dict(act())
    receipts.complete(tx, key, orjson.dumps(result).decode())
    return result
