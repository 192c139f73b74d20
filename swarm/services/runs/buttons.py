"""What happens when a person presses a button under one of our messages: once, and only if that person may."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from swarm.domain.access import External, denial
from swarm.domain.button_actions import (
    FEEDBACK_ACTION,
    RETRY_RUN_ACTION,
    STOP_RUN_ACTION,
    STOP_TASK_ACTION,
    ButtonPressed,
    feedback_of,
)
from swarm.domain.model.runs import Opinion
from swarm.domain.model.transcript import Author
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules.standings import Standings
from swarm.services.rules.system_messages import why_refused
from swarm.services.runs.run_control import Retried, give_feedback, retry_run, stop_run
from swarm.services.tasks.tasks import cancel_by_person
from swarm.store import idempotency_keys
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import people

NOT_ALLOWED_TEXT: Final = "You may not do that here. {reason}"
UNVERIFIED_TEXT: Final = "Slack has not told me in time who you are. Press again in a moment."
LIMITED_TEXT: Final = "That was more than I take from one person within a minute. Press again in a minute."
OVER_TEXT: Final = "This task is over, so there is nothing to stop."
COMPLETE_TEXT: Final = "This answer is complete, so there is nothing to stop."
RETRIED_TEXT: Final = "It has been run again already."
NO_RETRY_TEXT: Final = "This cannot be run again. Ask anew in the thread."
THANKS_TEXT: Final = "Thank you, that helps."
FORGOTTEN_TEXT: Final = "This answer is too old to be rated."


class Buttons:
    """The buttons that the swarm posts. Returns after the commit; an error means that nothing was done."""

    def __init__(self, database: Database, conduct: OperatingPolicy, standings: Standings, team: str) -> None:
        self._database = database
        self._conduct = conduct
        self._standings = standings
        self._team = team

    async def press(self, press: ButtonPressed) -> str | None:
        """Do what the button is for; what to tell this person alone, if anything."""
        act = _ACTS.get(press.action_id)
        if act is None:
            return None
        person = await self._standings.presser(press.user_id, press.team)
        return await self._database.write(self._once, press, person, act)

    def _once(self, tx: Transaction, press: ButtonPressed, person: Author, act: Act) -> str | None:
        if not idempotency_keys.record(tx, press.key):
            return None
        policy = self._conduct.policy(press.channel)
        if person.standing is None and policy.external is not External.ALLOW:
            return UNVERIFIED_TEXT
        if denial(person, policy):
            return NOT_ALLOWED_TEXT.format(reason=why_refused(person))
        return act(tx, press, self._conduct) if self._has_room(tx, person) else LIMITED_TEXT

    def _has_room(self, tx: Transaction, person: Author) -> bool:
        """Whether this click is within what one person may do in a minute; then it counts."""
        limit = self._conduct.messages_per_minute
        if limit is None:
            return True
        if people.exhausted(tx, self._team, person.id, limit) is not None:
            return False
        people.count(tx, self._team, person.id)
        return True


def _stop_task(tx: Transaction, press: ButtonPressed, conduct: OperatingPolicy) -> str | None:
    stopped = cancel_by_person(tx, press.value, press.channel, press.user_id, conduct)
    return None if stopped else OVER_TEXT


def _stop_turn(tx: Transaction, press: ButtonPressed, _conduct: OperatingPolicy) -> str | None:
    return None if stop_run(tx, press.value, press.channel, press.user_id) else COMPLETE_TEXT


def _retry_turn(tx: Transaction, press: ButtonPressed, conduct: OperatingPolicy) -> str | None:
    return _ON_RETRY[retry_run(tx, press.value, press.channel, press.user_id, conduct, press.message_ts)]


def _give_feedback(tx: Transaction, press: ButtonPressed, _conduct: OperatingPolicy) -> str | None:
    said = feedback_of(press.value)
    if said is None:
        return None
    opinion = Opinion.UP if said.is_good else Opinion.DOWN
    return THANKS_TEXT if give_feedback(tx, said.turn_id, press.channel, press.user_id, opinion) else FORGOTTEN_TEXT


Act = Callable[[Transaction, ButtonPressed, OperatingPolicy], str | None]

_ACTS: Final[Mapping[str, Act]] = {
    STOP_TASK_ACTION: _stop_task,
    STOP_RUN_ACTION: _stop_turn,
    RETRY_RUN_ACTION: _retry_turn,
    FEEDBACK_ACTION: _give_feedback,
}
_ON_RETRY: Final = {Retried.DONE: None, Retried.BEFORE: RETRIED_TEXT, Retried.IMPOSSIBLE: NO_RETRY_TEXT}
