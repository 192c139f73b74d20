"""Silent work: answers for which nobody has asked, in channels with ``overthink``.

A message is silent if nobody has asked with it; a run is silent if all its messages are, and a task while its thread
is. Guarantee: a silent thread gets no delivery at all (`deliveries.add` and `reactions.react` see to it) before an
answer that its agent is sure of. That answer ends the silence of the thread and of all its messages, in the
transaction that settles the work. Any other end leaves the thread silent and without an owner, so that people's
messages there start nothing until somebody asks.

The thread must be locked by all callers. Each end is recorded once, as ``silence.*`` in the history of a message or
task.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from swarm.domain.answers.events import NeedsInput, Withheld
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.answers.text import withheld_by
from swarm.domain.errors import Conflict
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.threads import Silence, Thread
from swarm.store import history
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

WHY_WITHHELD: Final = {
    SilentEnd.DEFERRED: "deferred: the agent leaves the answer to others",
    SilentEnd.LOW_CONFIDENCE: "low confidence: the agent is not sure of its answer",
}

_WOULD_ASK: Final = "deferred: it needs the decision of people, and nobody has asked"
_SHOWN: Final = "nobody had asked, but the agent is sure of its answer"


def all_silent(messages: Collection[InboxMessage]) -> bool:
    """Whether nobody has asked with any of these messages."""
    return bool(messages) and all(message.silent for message in messages)


def is_silent(tx: Transaction, run: Run, thread: Thread | None) -> bool:
    """Whether nothing of a run may be shown before its answer is judged."""
    if run.task_id or thread is None or not run.inbox_message_ids:
        return thread is not None and thread.is_silent
    found = [inbox.get(tx, inbox_message_id) for inbox_message_id in run.inbox_message_ids]
    return all_silent([message for message in found if message])


def judged(ending: AnswerShown) -> AnswerShown:
    """Returns the end of a silent run. Marked answers and questions to people are withheld."""
    if isinstance(ending.outcome, NeedsInput):
        return replace(ending, outcome=Withheld(end=SilentEnd.DEFERRED, reason=_WOULD_ASK))
    end = ending.withheld
    return replace(ending, outcome=Withheld(end=end, reason=WHY_WITHHELD[end])) if end else ending


def check_may_show(thread: Thread | None, what: str) -> None:
    """Raises Conflict if ``what`` would be the first thing to appear in a silent thread."""
    if thread and thread.is_silent:
        raise Conflict(
            f"Nobody has asked in this thread, so {what}.",
            hint="Answer first, if you are sure of the answer; otherwise dismiss the message.",
        )


def place_for(
    tx: Transaction, thread: Thread, text: str, *, is_silent: bool, agent_id: str, subject: str
) -> tuple[Thread, SilentEnd | None]:
    """Decides whether an agent's text is shown. Returns the thread as it is now, and the end that withholds the text.

    ``is_silent``: nobody has asked with the messages that it answers. ``subject`` is the id of the message or task.
    """
    if not (is_silent or thread.is_silent):
        return end_humility(tx, thread), None
    end = withheld_by(text)
    if end is None:
        return break_silence(tx, thread, agent_id, subject), None
    return stay_silent(tx, thread, end, agent_id, subject, WHY_WITHHELD[end]), end


def break_silence(tx: Transaction, thread: Thread, agent_id: str, subject: str) -> Thread:
    """Makes a thread an ordinary one for an answer that will be shown. Its agent owns a thread without an owner."""
    _forget(tx, thread)
    if thread.owner_id is None:  # so there are no messages to bring along
        threads.hand_over(tx, thread, agent_id, "its answer is shown")
    history.record(tx, f"silence.{SilentEnd.ANSWERED}", subject, thread_id=thread.id, agent_id=agent_id, reason=_SHOWN)
    return threads.locked(tx, thread.id)


def stay_silent(
    tx: Transaction, thread: Thread, end: SilentEnd, agent_id: str | None, subject: str, reason: str
) -> Thread:
    """Records a silent end. The thread loses its owner, unless somebody has asked in it meanwhile."""
    now = threads.locked(tx, thread.id)
    if now.silence is not Silence.ASKED:
        threads.hand_over(tx, now, None, f"its agent stays silent; {reason}")
    history.record(tx, f"silence.{end}", subject, thread_id=thread.id, agent_id=agent_id, reason=reason)
    return threads.locked(tx, thread.id)


def end_humility(tx: Transaction, thread: Thread) -> Thread:
    """Makes a thread an ordinary one once somebody who has asked there gets an answer."""
    if thread.silence is not Silence.ASKED:
        return thread
    _forget(tx, thread)
    return replace(thread, silence=None)


def _forget(tx: Transaction, thread: Thread) -> None:
    threads.break_silence(tx, thread.id)
    inbox.break_silence(tx, thread.id)
