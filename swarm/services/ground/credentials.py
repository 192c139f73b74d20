"""Identifies agents by their tokens, and ends the work of an agent when its token ends.

A token ends when its agent gets a new token or is removed. What is guaranteed: no claim is made with an ended token,
because the claim's own transaction checks the token's row; other work for a token ends within a second. Each process
looks for ended tokens after every notification about agents, and every `LOOK_SECONDS` while it knows or works for a
token, because a notification can be lost. One look confirms all known tokens, so a known token costs no query of its
own. What happens on failure: a token is believed for at most `BELIEVED_SECONDS` without a look; without the database no
lookup is possible, and no work is handed out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.clock import SECOND
from swarm.domain.errors import Unauthorized
from swarm.domain.model.agents import Agent, token_hash
from swarm.services.ground import lease_keys
from swarm.services.ground.guarded import watch
from swarm.store import agents
from swarm.store.agents import AGENTS
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

BELIEVED_SECONDS: Final = 1.0
"""How long a token is believed after its lookup, or after the last look for ended tokens."""

READ_AGAIN_SECONDS: Final = 10.0
"""How long a lookup is cached at most, because looks find only the ends of tokens, and not other changes of agents."""

LOOK_SECONDS: Final = 0.5

_OVERLAP_SECONDS: Final = 60
"""The overlap with the previous lookup, because the timestamp of a transaction is the time of its start."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """An agent found by its token; times are monotonic."""

    agent: Agent
    read_at: float
    generation: int


class Watched:
    """Work done for a token. ``end`` is called once if the token ends before `close`."""

    def __init__(self, agent: Agent, end: Callable[[], object], forget: Callable[[Watched], None]) -> None:
        self.agent = agent
        self.end = end
        self.has_ended = False
        self._forget = forget

    def close(self) -> None:
        """Stops watching the token after the work is done."""
        self._forget(self)


class AgentTokenCache:
    """The agent tokens known to this process."""

    def __init__(
        self,
        database: Database,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}  # by token hash
        self._watched: dict[str, set[Watched]] = {}  # by token hash
        self._ended: frozenset[str] = frozenset()  # hashes found by the last lookup
        self._looked_at: int | None = None  # in the database's clock
        self._seen_at = 0.0  # the monotonic time of the same look

    async def identify(self, token: str) -> Agent:
        """Returns the agent with this token. Raises Unauthorized."""
        return await self._find(token_hash(token))

    async def holder(self, key: str) -> tuple[Agent, str]:
        """Returns the agent and the lease token of a lease's key. Raises Unauthorized."""
        return await self._database.read(lease_keys.holder, token_hash(key))

    async def check_reach(self, lease_token: str, ids: Mapping[str, Iterable[str]]) -> None:
        """Raises LeaseLost and Forbidden: see `lease_keys.check_reach`."""
        await self._database.read(lease_keys.check_reach, lease_token, ids)

    async def check(self, agent: Agent) -> None:
        """Raises Unauthorized if this process knows that the agent's token has ended."""
        if agent.token_hash:
            await self._find(agent.token_hash)

    def mark(self) -> tuple[float, int]:
        """Returns the current time, for `confirm`."""
        return self._monotonic(), self._database.wakeups.generation(AGENTS)

    def confirm(self, agent: Agent, mark: tuple[float, int]) -> None:
        """Caches the agent's token as valid, as found by a transaction that started after ``mark``."""
        if agent.token_hash and agent.token_hash not in self._ended:
            self._remember(agent.token_hash, agent, mark)

    def watch(self, agent: Agent, end: Callable[[], object]) -> Watched:
        """Calls ``end`` when the agent's token ends, unless the result is closed first."""
        watched = Watched(agent, end, self._forget)
        self._watched.setdefault(agent.token_hash or "", set()).add(watched)
        return watched

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks for ended tokens while the context is open."""
        looking = asyncio.create_task(self._run(), name="credentials")
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    async def look(self) -> None:
        """Ends the work for ended tokens, and confirms all other known tokens."""
        seen_at = self._monotonic()
        self._looked_at, self._ended = await self._database.read(self._look, self._looked_at)
        self._seen_at = seen_at
        oldest = seen_at - READ_AGAIN_SECONDS
        self._known = {
            key: known for key, known in self._known.items() if known.read_at > oldest and key not in self._ended
        }
        for hashed in self._ended & self._watched.keys():
            ending = self._watched.pop(hashed)
            for watched in ending:
                watched.has_ended = True
                watched.end()
            ids = {watched.agent.id for watched in ending}
            _log.info("A token has ended.", action="token_end", agent_id=min(ids), requests=len(ending))

    @staticmethod
    def _look(tx: Transaction, looked_at: int | None) -> tuple[int, frozenset[str]]:
        """Returns the time of this lookup, and the hashes of all tokens that have ended since shortly before the last
        lookup.
        """
        since = min(tx.now, looked_at or tx.now) - _OVERLAP_SECONDS * SECOND
        return tx.now, frozenset(agents.ended_tokens(tx, since))

    async def _run(self) -> None:
        await watch(
            self._database.wakeups,
            AGENTS,
            self._look_if_needed,
            "token_look",
            seconds=LOOK_SECONDS,
            after_shutdown=True,
        )

    async def _look_if_needed(self) -> None:
        if self._watched or self._known:
            await self.look()

    async def _find(self, hashed: str) -> Agent:
        mark = at, generation = self.mark()
        known = self._known.get(hashed) if hashed not in self._ended else None
        if known and known.generation == generation and self._is_believed(known, at):
            return known.agent
        agent = await self._database.read(agents.by_token, hashed)
        if agent is None or hashed in self._ended:  # another lookup may have found its end in the meantime
            self._known.pop(hashed, None)
            raise Unauthorized("This bearer token is not known, or was revoked.", hint="Ask the operator for a token.")
        self._remember(hashed, agent, mark)
        return agent

    def _is_believed(self, known: _Known, now: float) -> bool:
        confirmed_at = max(known.read_at, self._seen_at)
        return now - known.read_at < READ_AGAIN_SECONDS and now - confirmed_at < BELIEVED_SECONDS

    def _remember(self, hashed: str, agent: Agent, mark: tuple[float, int]) -> None:
        read_at, generation = mark
        self._known[hashed] = _Known(agent=agent, read_at=read_at, generation=generation)

    def _forget(self, watched: Watched) -> None:
        hashed = watched.agent.token_hash or ""
        others = self._watched.get(hashed)
        if others is not None:
            others.discard(watched)
            if not others:
                del self._watched[hashed]
