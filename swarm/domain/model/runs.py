"""Runs: a run is one execution of a streaming agent for one trigger.

A run is ``closing`` once its result is complete: the text, the outcome and the closing blocks. Only the display in
Slack remains, and any process can finish it. A process that crashes therefore loses the result of a ``running`` run,
but nothing of a ``closing`` run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from swarm.domain.model.states import step

MOST_LOG_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of one run's log, unless the operator sets another one."""

MAX_LOG_CHUNK_BYTES: Final = 64 * 1024
MAX_LOG_PIECES: Final = 50_000
"""The maximum number of calls for one log, so that small pieces do not fill the database."""


class RunStatus(StrEnum):
    """The life cycle of a run.

    ::

        running → closing                       close
        running | closing → answered            answer
        running | closing → failed              fail
        running | closing | waiting → stopped   stop
        running | closing → waiting             ask
        running | closing → abandoned           abandon
        waiting → answered                      resume
        waiting → superseded                    supersede
        answered → running                      stream
    """

    RUNNING = "running"
    CLOSING = "closing"  # the result is complete; its last message is being closed
    WAITING = "waiting"  # waits for people's decision on its requests
    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"  # by a person
    SUPERSEDED = "superseded"  # its questions were withdrawn, so it will not continue
    ABANDONED = "abandoned"  # its process died, and another run replaces it


class RunStep(StrEnum):
    """The steps of a run."""

    CLOSE = "close"
    ANSWER = "answer"
    FAIL = "fail"
    STOP = "stop"
    ASK = "ask"
    ABANDON = "abandon"
    RESUME = "resume"  # people have decided, and another run continues
    SUPERSEDE = "supersede"
    STREAM = "stream"  # a polling agent streams the answer of a run that was not shown so far


_T = RunStatus

UNFINISHED: Final = frozenset({_T.RUNNING, _T.CLOSING})
"""The statuses of a run that a process is working on, or was working on until it died. Each trigger and each lease has
at most one.
"""

RETRYABLE: Final = frozenset({_T.FAILED, _T.STOPPED})
"""People may start such a run again, once."""

RECEIVED: Final = frozenset({_T.ANSWERED, _T.WAITING, _T.SUPERSEDED})
"""In these statuses the agent has certainly received the run's input."""

RUN_TRANSITIONS: Final = {
    RunStep.CLOSE: step(_T.RUNNING, to=_T.CLOSING),
    RunStep.ANSWER: step(_T.RUNNING, _T.CLOSING, to=_T.ANSWERED),
    RunStep.FAIL: step(_T.RUNNING, _T.CLOSING, to=_T.FAILED),
    RunStep.STOP: step(_T.RUNNING, _T.CLOSING, _T.WAITING, to=_T.STOPPED),
    RunStep.ASK: step(_T.RUNNING, _T.CLOSING, to=_T.WAITING),
    RunStep.ABANDON: step(_T.RUNNING, _T.CLOSING, to=_T.ABANDONED),
    RunStep.RESUME: step(_T.WAITING, to=_T.ANSWERED),
    RunStep.SUPERSEDE: step(_T.WAITING, to=_T.SUPERSEDED),
    RunStep.STREAM: step(_T.ANSWERED, to=_T.RUNNING),
}


class RunOutcome(StrEnum):
    """The outcome of a run, known before its last message is closed."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"

    @property
    def step(self) -> RunStep:
        """The step of a closing run after its last message is closed."""
        return _LAST_STEPS[self]


_LAST_STEPS: Final = {
    RunOutcome.ANSWERED: RunStep.ANSWER,
    RunOutcome.FAILED: RunStep.FAIL,
    RunOutcome.STOPPED: RunStep.STOP,
    RunOutcome.WAITING: RunStep.ASK,
}


class SilentEnd(StrEnum):
    """The end of a silent run: a run for messages with which nobody has asked, in a channel with ``overthink``."""

    ANSWERED = "answered"  # the answer is shown
    DEFERRED = "deferred"  # the agent leaves the answer to others
    LOW_CONFIDENCE = "low_confidence"  # the agent is not sure of its answer
    FAILED = "failed"
    STOPPED = "stopped"  # by a person, or its messages were deleted


class PageKind(StrEnum):
    """How a message of an answer is shown."""

    STREAM = "stream"
    POST = "post"


class PagePhase(StrEnum):
    """The life of one message of an answer.

    ::

        opening → open            open
        opening | open → closed   close
        closed → open             reopen
    """

    OPENING = "opening"  # stored before the call to Slack: the message may exist with an unknown ts
    OPEN = "open"  # of a finished run: the message may still grow or does not yet show the outcome
    CLOSED = "closed"


class PageStep(StrEnum):
    """The steps of a message of an answer."""

    OPEN = "open"
    CLOSE = "close"
    REOPEN = "reopen"  # a closed message must show that its answer was abandoned or did reach Slack


PAGE_TRANSITIONS: Final = {
    PageStep.OPEN: step(PagePhase.OPENING, to=PagePhase.OPEN),
    PageStep.CLOSE: step(PagePhase.OPENING, PagePhase.OPEN, to=PagePhase.CLOSED),
    PageStep.REOPEN: step(PagePhase.CLOSED, to=PagePhase.OPEN),
}
