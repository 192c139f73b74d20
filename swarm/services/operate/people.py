"""Permanently removes a person's messages and names.

Who may act: the operator. What is guaranteed: the request is stored first, so that a later read of Slack's history
restores nothing; then each message is removed in its own transaction, as if deleted in Slack, and finally the person's
names. What happens on failure: part of the data is removed; repeating the request removes the rest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.domain.errors import Conflict, Invalid, NotFound
from swarm.domain.model.threads import AuthorKind
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.services.work import task_ends
from swarm.services.work.erase import erase_deleted, withdraw
from swarm.services.work.fencing import lock_task
from swarm.store import forgotten
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads

AT_ONCE: Final = 50

MOST_AUTHORS: Final = 1_000
"""The maximum number of authors whose names are compared."""

_USER_ID: Final = re.compile(r"[UW][A-Z0-9]{1,30}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """The number of removed rows about a person, by kind and without zeros; with a dry run, the rows that would be
    removed.
    """

    person: str  # the Slack user's id
    dry_run: bool
    removed: dict[str, int]


class PersonalData:
    """The stored data about people.

    ``directory`` resolves the names of users; without a directory only ids are accepted. ``forget_name`` drops cached
    data about a user outside the database.
    """

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        directory: Directory | None = None,
        forget_name: Callable[[str], None] = lambda person: None,
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._directory = directory
        self._forget_name = forget_name

    async def forget(self, who: str, *, dry_run: bool = False) -> Forgotten:
        """Removes the data of a Slack user, given by id or by ``@name`` as Slack shows the author of a stored message.

        With ``dry_run`` nothing changes. Copies of the person's texts in agents' texts are not counted then, because
        they are found only by removing them. Raises Invalid, NotFound for an unknown name, and Conflict for an
        ambiguous name.
        """
        person = await self._person(who)
        if dry_run:
            found = await self._database.read(forgotten.count, person)
            return Forgotten(person=person, dry_run=True, removed=_some(found))
        await self._database.write(forgotten.record, person)
        messages = copies = 0
        while batch := await self._database.read(forgotten.messages_of, person, AT_ONCE):
            copies += sum(await asyncio.gather(*(self._database.write(self._forget_message, row) for row in batch)))
            messages += len(batch)
        cancelled = 0
        for task_id in await self._database.read(forgotten.requested_by, person):
            cancelled += await self._database.write(self._cancel, task_id)
        done = await self._database.write(forgotten.forget, person)
        self._forget_name(person)
        await self._database.scrub(rewrite=True)
        removed = _some({"messages": messages, "copies": copies, "cancelled tasks": cancelled, **done})
        _log.info(
            "A person was forgotten.", action="forget", **{key.replace(" ", "_"): n for key, n in removed.items()}
        )
        return Forgotten(person=person, dry_run=False, removed=removed)

    @staticmethod
    def _forget_message(tx: Transaction, message: Row) -> int:
        """Erases a message as if it had been deleted in Slack. Returns the number of rows that contained part of it."""
        thread = threads.at(tx, message["team"], message["channel"], message["thread_ts"])
        inbox_messages = inbox.of_message_locked(tx, message["team"], message["channel"], message["ts"])
        forgotten.blank(tx, message)
        erased = erase_deleted(tx, thread, message, inbox_messages)
        withdraw(tx, inbox_messages, "its author's data was deleted")
        return erased

    def _cancel(self, tx: Transaction, task_id: str) -> bool:
        task = lock_task(tx, task_id)
        return task is not None and task_ends.cancel(
            tx, task, "because its requester's data was deleted", self._operating_policy
        )

    async def _person(self, who: str) -> str:
        if _USER_ID.fullmatch(who):
            return who
        if not who.startswith("@") or len(who) < 2:
            raise Invalid(
                f"'{who}' is no Slack user.",
                fields={"person": "a user's id such as U0123456789, or a name such as @ada"},
            )
        if self._directory is None:
            raise Invalid(
                f"The name {who} can only be resolved while a coordinator is running.", hint="Use the Slack user's id."
            )
        found = await self._named(self._directory, who[1:])
        if not found:
            raise NotFound(f"Nobody called {who} has written anything that is kept.", hint="Use the Slack user's id.")
        if len(found) > 1:
            raise Conflict(f"{who} is the name of several people: {', '.join(found)}.", hint="Use one of these ids.")
        return found[0]

    async def _named(self, directory: Directory, name: str) -> list[str]:
        authors = await self._database.read(forgotten.authors, MOST_AUTHORS)
        names = await asyncio.gather(*(directory.author_name(author, AuthorKind.USER) for author in authors))
        return [author for author, known in zip(authors, names, strict=True) if known.casefold() == name.casefold()]


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in counts.items() if count}
