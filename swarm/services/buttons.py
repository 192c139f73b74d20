"""What happens when a person presses a button under one of our messages: once, and only if that person may."""

from __future__ import annotations

from typing import Final

from swarm.domain.access import denial
from swarm.domain.conduct import Conduct
from swarm.domain.presses import STOP_TASK_ACTION, ButtonPressed
from swarm.domain.transcript import Author, AuthorKind
from swarm.services.tasks import cancel_by_person
from swarm.store import receipts
from swarm.store.database import Database
from swarm.store.transaction import Transaction

NOT_ALLOWED_TEXT: Final = "You may not do that here: {reason}."
OVER_TEXT: Final = "This task is over, so there is nothing to stop."


class Buttons:
    """The buttons that the swarm posts. Returns after the commit; an error means that nothing was done."""

    def __init__(self, database: Database, conduct: Conduct) -> None:
        self._database = database
        self._conduct = conduct

    async def press(self, press: ButtonPressed) -> str | None:
        """Do what the button is for; what to tell this person alone, if anything."""
        if press.action_id != STOP_TASK_ACTION:
            return None
        return await self._database.write(self._stop_task, press)

    def _stop_task(self, tx: Transaction, press: ButtonPressed) -> str | None:
        if not receipts.add(tx, press.key):
            return None
        person = Author(id=press.user_id, kind=AuthorKind.USER)
        denied = denial(person, self._conduct.policy(press.channel))
        if denied:
            return NOT_ALLOWED_TEXT.format(reason=denied)
        stopped = cancel_by_person(tx, press.value, press.channel, press.user_id, self._conduct)
        return None if stopped else OVER_TEXT
