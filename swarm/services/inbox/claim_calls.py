"""The calls that claim work, and whether they may: a valid token, and one program for each agent.

A program says who it is with an instance id. While it has been seen within the time of a lease, calls of another
instance are refused, and so are polls that name none: work would go to a program that the operator has forgotten.

Who may act: any call of the agent. Guarantee: the check is part of the claim's own transaction; of two instances that
begin at the same moment, one is refused (the row of the agent decides). A call writes only when its instance is new, or
was last seen a fifth of a lease ago, so that a poll normally costs no write. A new instance makes its agent online. An
instance begins with the first claim of a poll, not with a later one: a poll that still waits when its instance leaves
does not take the name again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.clock import SECOND, to_iso
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Instance
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.store import agents
from swarm.store.agents import AGENTS
from swarm.store.bridge.transaction import Transaction

_WRITES_PER_LEASE: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimCall:
    """One call that claims up to ``limit`` triggers of an agent."""

    agent_id: str
    limit: int
    token_hash: str | None = None  # of the caller's token; None: the coordinator itself
    instance_id: str | None = None  # of the calling program, if it has said so
    may_begin: bool = True  # whether the instance may begin to serve the agent with this call
    hold: bool = False
    lease_seconds: float = LEASE_SECONDS
    only_notices: bool = False


def admit(tx: Transaction, calls: Sequence[ClaimCall], *, wait: bool = True) -> list[bool | Conflict]:
    """Returns for each call whether its token is valid, or why its instance is refused.

    Records the instances that are new, or were not seen recently. Without ``wait``, none is recorded and no lock is
    waited for: a call of an instance that does not serve its agent yet is not admitted, nor is a token that is just
    being rotated.
    """
    valid = agents.valid_tokens(tx, {call.token_hash for call in calls if call.token_hash}, wait=wait)
    served = _serve(tx, calls, valid) if wait else {}
    return [_admit(tx, call, valid, served, wait) for call in calls]


_Valid = Mapping[tuple[str, str], Instance | None]
_Served = Mapping[tuple[str, str], Instance | None]


def _serve(tx: Transaction, calls: Sequence[ClaimCall], valid: _Valid) -> _Served:
    """Records instances. Returns those that were written, each with the other instance that stands in its way."""
    wanted = {
        (call.agent_id, call.instance_id): call
        for call in calls
        if call.instance_id and (key := (call.token_hash or "", call.agent_id)) in valid
        if not _is_fresh(valid[key], call, tx.now) and (call.may_begin or _is_holder(valid[key], call))
    }
    # In the order of the agents, so that two sets cannot deadlock.
    served = {
        key: agents.serve(tx, *key, wanted[key].lease_seconds, calls=wanted[key].may_begin) for key in sorted(wanted)
    }
    known = {(holder.instance_id, agent_id) for (_, agent_id), holder in valid.items() if holder}
    new = [
        agent_id for (agent_id, instance), other in served.items() if not other and (instance, agent_id) not in known
    ]
    if new:  # the agent may count as gone, because its last instance has left
        agents.record_seen(tx, new)
        tx.wake(AGENTS)
    return served


def _is_fresh(holder: Instance | None, call: ClaimCall, now: int) -> bool:
    """Whether nothing needs to be written: the same instance has called a moment ago, or was seen if it only waits."""
    if holder is None or not _is_holder(holder, call):
        return False
    at = holder.called_at if call.may_begin else holder.seen_at
    return at > now - int(call.lease_seconds / _WRITES_PER_LEASE * SECOND)


def _is_holder(holder: Instance | None, call: ClaimCall) -> bool:
    return holder is not None and holder.instance_id == call.instance_id


def _is_seen_within(holder: Instance | None, seconds: float, now: int) -> bool:
    return holder is not None and holder.seen_at > now - int(seconds * SECOND)


def _admit(tx: Transaction, call: ClaimCall, valid: _Valid, served: _Served, wait: bool) -> bool | Conflict:
    key = (call.token_hash or "", call.agent_id)
    if call.token_hash is None or key not in valid:
        return call.token_hash is None
    holder = valid[key]
    written = (call.agent_id, call.instance_id or "")
    if written in served:
        other = served[written]
        return _refusal(tx, call, other) if other else True
    if _is_holder(holder, call):
        return True
    if _is_seen_within(holder, call.lease_seconds, tx.now):
        assert holder is not None
        return _refusal(tx, call, holder)
    return call.instance_id is None or (wait and call.may_begin)


def _refusal(tx: Transaction, call: ClaimCall, other: Instance) -> Conflict:
    agent = agents.by_id(tx, call.agent_id)
    name, ago = agent.name if agent else call.agent_id, max(0, tx.now - other.seen_at) // SECOND
    return Conflict(
        f"The agent '{name}' is served by another instance, since {to_iso(other.began_at)} (last seen {ago} s ago).",
        hint="One agent is one program: stop the other one, which frees the name at once, or wait until it has been "
        f"silent for {call.lease_seconds:g} s; or register a second agent.",
    )
