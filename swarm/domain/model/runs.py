"""Turns: each is one run of a streaming agent for one trigger. And interrupts: what a run asks people.

A turn that runs is ``closing`` from the moment at which everything is known: what the agent said, how it ended, and
what stands below it. What is left is to show that in Slack, which whoever finds the turn can do as well. So a process
that goes away loses the run of a ``running`` turn, and nothing of a ``closing`` one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from swarm.domain.model.states import step


class RunStatus(StrEnum):
    """The life of a turn.

    ::

        running → closing                       close
        running | closing → answered            answer
        running | closing → failed              fail
        running | closing | waiting → stopped   stop
        running | closing → waiting             ask
        running | closing → abandoned           abandon
        waiting → answered                      resume
        waiting → superseded                    supersede
        waiting → failed                        expire
    """

    RUNNING = "running"
    CLOSING = "closing"  # the run is over; its last message is being closed
    WAITING = "waiting"  # for people: it has asked them something
    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"  # by a person
    SUPERSEDED = "superseded"  # people said something else instead of answering
    ABANDONED = "abandoned"  # its process went away, and another turn runs in its place


class RunStep(StrEnum):
    """What can happen to a turn."""

    CLOSE = "close"
    ANSWER = "answer"
    FAIL = "fail"
    STOP = "stop"
    ASK = "ask"
    ABANDON = "abandon"
    RESUME = "resume"  # people have decided, and another turn goes on from there
    SUPERSEDE = "supersede"
    EXPIRE = "expire"  # nobody answered in time


_T = RunStatus

UNFINISHED: Final = frozenset({_T.RUNNING, _T.CLOSING})
"""Some process has it in hand, or had: at most one such turn exists for each trigger and each lease."""

RETRYABLE: Final = frozenset({_T.FAILED, _T.STOPPED})
"""People may have it run again, once."""

HEARD: Final = frozenset({_T.ANSWERED, _T.WAITING, _T.SUPERSEDED})
"""The agent has certainly got what the run was about."""

RUN_TRANSITIONS: Final = {
    RunStep.CLOSE: step(_T.RUNNING, to=_T.CLOSING),
    RunStep.ANSWER: step(_T.RUNNING, _T.CLOSING, to=_T.ANSWERED),
    RunStep.FAIL: step(_T.RUNNING, _T.CLOSING, to=_T.FAILED),
    RunStep.STOP: step(_T.RUNNING, _T.CLOSING, _T.WAITING, to=_T.STOPPED),
    RunStep.ASK: step(_T.RUNNING, _T.CLOSING, to=_T.WAITING),
    RunStep.ABANDON: step(_T.RUNNING, _T.CLOSING, to=_T.ABANDONED),
    RunStep.RESUME: step(_T.WAITING, to=_T.ANSWERED),
    RunStep.SUPERSEDE: step(_T.WAITING, to=_T.SUPERSEDED),
    RunStep.EXPIRE: step(_T.WAITING, to=_T.FAILED),
}


class RunOutcome(StrEnum):
    """How a run ended, known before its last message is closed."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"

    @property
    def step(self) -> RunStep:
        """The step that a closing turn takes once its last message is closed."""
        return _LAST_STEPS[self]


_LAST_STEPS: Final = {
    RunOutcome.ANSWERED: RunStep.ANSWER,
    RunOutcome.FAILED: RunStep.FAIL,
    RunOutcome.STOPPED: RunStep.STOP,
    RunOutcome.WAITING: RunStep.ASK,
}


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

    OPENING = "opening"  # stored before Slack is asked: the message may exist, and its ts is not known
    OPEN = "open"  # of a turn that is over: the message may still grow, or does not say yet how its answer ended
    CLOSED = "closed"


class PageStep(StrEnum):
    """What can happen to a message of an answer."""

    OPEN = "open"
    CLOSE = "close"
    REOPEN = "reopen"  # a closed one is to say that its answer was abandoned, or has come to Slack after all


PAGE_TRANSITIONS: Final = {
    PageStep.OPEN: step(PagePhase.OPENING, to=PagePhase.OPEN),
    PageStep.CLOSE: step(PagePhase.OPENING, PagePhase.OPEN, to=PagePhase.CLOSED),
    PageStep.REOPEN: step(PagePhase.CLOSED, to=PagePhase.OPEN),
}


class InterruptStatus(StrEnum):
    """The life of an interrupt.

    ::

        open → resolved     resolve
        open → dismissed    dismiss
        open → expired      expire
        open → superseded   supersede
    """

    OPEN = "open"
    RESOLVED = "resolved"
    DISMISSED = "dismissed"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"  # people said something else, or stopped the turn


class InterruptStep(StrEnum):
    """What can happen to an interrupt."""

    RESOLVE = "resolve"
    DISMISS = "dismiss"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"


INTERRUPT_TRANSITIONS: Final = {
    InterruptStep.RESOLVE: step(InterruptStatus.OPEN, to=InterruptStatus.RESOLVED),
    InterruptStep.DISMISS: step(InterruptStatus.OPEN, to=InterruptStatus.DISMISSED),
    InterruptStep.EXPIRE: step(InterruptStatus.OPEN, to=InterruptStatus.EXPIRED),
    InterruptStep.SUPERSEDE: step(InterruptStatus.OPEN, to=InterruptStatus.SUPERSEDED),
}


class Opinion(StrEnum):
    """What a person thinks of an answer."""

    UP = "up"
    DOWN = "down"
