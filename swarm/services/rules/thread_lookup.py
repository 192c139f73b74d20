"""Which thread a call is about: named by an inbox message, a task or itself, if the caller takes part in it."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.errors import Invalid, NotFound
from swarm.domain.model.agents import Agent
from swarm.domain.model.threads import Thread
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads, transcript

_HINT = "Use an id from your own poll or tray."


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadReference:
    """Exactly one of the three."""

    inbox_message_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in self.named.items() if value is not None]
        if len(given) != 1:
            raise Invalid(
                f"Say which thread is meant: {', '.join(given) or 'nothing'} was given, one id is expected.",
                fields=dict.fromkeys(self.named, "exactly one of these"),
            )

    @property
    def named(self) -> dict[str, str | None]:
        """The three by name."""
        return {"inbox_message_id": self.inbox_message_id, "task_id": self.task_id, "thread_id": self.thread_id}

    @property
    def query(self) -> str:
        """The same as part of an address."""
        return "&".join(f"{name}={value}" for name, value in self.named.items() if value is not None)


def thread_of(tx: Transaction, agent: Agent, about: ThreadReference) -> Thread:
    """The thread, not locked. Raises NotFound for what does not exist and for what is not the agent's alike."""
    thread_id = _thread_id(tx, agent, about)
    thread = threads.get(tx, thread_id) if thread_id else None
    if thread is None or not transcript.takes_part(tx, agent.id, thread.id):
        raise NotFound("You have no such thread.", hint=_HINT)
    return thread


def _thread_id(tx: Transaction, agent: Agent, about: ThreadReference) -> str | None:
    if about.inbox_message_id is not None:
        entry = inbox.get(tx, about.inbox_message_id)
        return entry.thread_id if entry else None
    if about.task_id is not None:
        return transcript.thread_of_task(tx, agent.id, about.task_id)
    return about.thread_id
