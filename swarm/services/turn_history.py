"""What our agents have said in a thread later than the new messages of a run.

A trigger shows the thread up to its last new message. But somebody may have written that while an earlier run was just
about to answer: then the answer is the later one, and a run that did not know it would give it once more.
"""

from __future__ import annotations

from dataclasses import replace

from swarm.domain.ports import Directory
from swarm.domain.readable import mentioned_ids, readable
from swarm.domain.transcript import AuthorKind, Said
from swarm.domain.triggers import Trigger
from swarm.store import reading, threads
from swarm.store.database import Database
from swarm.store.transaction import Transaction

_LIMIT = 200


async def answered_since(database: Database, directory: Directory, trigger: Trigger) -> tuple[Said, ...]:
    """What agents of ours have said since the new messages of a trigger, oldest first; raises Unavailable."""
    if trigger.place is None or not trigger.inbox_messages:
        return ()
    last = max(entry.ts for entry in trigger.inbox_messages)
    said = await database.read(_said_since, trigger.place.id, last)
    ids = {user_id for message in said for user_id in mentioned_ids(message.text)}
    names = {user_id: await directory.author_name(user_id, AuthorKind.USER) for user_id in ids}
    return tuple(replace(message, text=readable(message.text, names)) for message in said)


def _said_since(tx: Transaction, thread_id: str, ts: str) -> list[Said]:
    thread = threads.get(tx, thread_id)
    found = reading.page(tx, thread, ts, _LIMIT) if thread else []
    return [message for message in found if message.kind is AuthorKind.AGENT]
