"""The watcher that logs changes: failures as warnings, the ordinary course at debug.

Lines hold ids and never people's texts, not even as a reason: `swarm explain` shows reasons to their rightful readers.
"""

from __future__ import annotations

import logging
from typing import Final

import structlog

from swarm.domain.watchers import Changed, DatabaseCall, ToolCall, Watcher

GRAVE: Final = {
    "delivery.fail": "A delivery to Slack has failed for good.",
    "inbox.bury": "A message is given up; redrive it once the cause is gone.",
    "inbox.lose": "A run lost its message, which is due again.",
    "notice.drop": "News for an agent is dropped.",
    "task.bury": "A task is given up; redrive it once the cause is gone.",
    "task.lose": "A run lost its task, which is due again.",
}
"""Changes for an operator's attention."""

NOTEWORTHY: Final = {
    "agent.register": "An agent is registered.",
    "agent.revoke": "An agent is removed.",
    "agent.rotate": "An agent has a new token.",
}
"""Rare changes, made by people."""

_ALWAYS: Final = frozenset({*GRAVE, *NOTEWORTHY})

_names = logging.getLogger(__name__)
_log = structlog.get_logger(__name__)


class Journal(Watcher):
    """Logs changes after their commit."""

    def database_called(self, call: DatabaseCall) -> None:
        everything = _names.isEnabledFor(logging.DEBUG)
        for fact in call.facts:
            if isinstance(fact, Changed) and (everything or fact.change in _ALWAYS):
                self._write(fact)

    def tool_called(self, call: ToolCall) -> None:
        if _names.isEnabledFor(logging.DEBUG):
            _log.debug(
                "A tool was called.",
                action="tool_call", tool=call.tool, agent=call.agent, about=call.about, result=call.result,
            )  # fmt: skip

    def _write(self, fact: Changed) -> None:
        ids = {"subject": fact.subject, "thread": fact.thread_id, "agent": fact.agent_id}
        if fact.change in GRAVE:
            _log.warning(GRAVE[fact.change], action=fact.change, **ids)
        elif fact.change in NOTEWORTHY:
            _log.info(NOTEWORTHY[fact.change], action=fact.change, **ids)
        else:
            _log.debug("Something changed.", action=fact.change, **ids)
