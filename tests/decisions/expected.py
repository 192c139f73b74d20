"""What has to come of each decision, for each asker: the one table that the tests and the docs read.

A cell says what the asker gets, what runs and how often, what the card or the cards say, and what its agent hears
afterwards. `PLAIN` is the ordinary course; `KILLED` and `RETRIED` say only where another course differs:

- *killed*: the coordinator is killed between the question and the decision.
- *retried*: the asker fails when it gets the decision, before it acts, and a person presses Retry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Asker(StrEnum):
    """Who asks, by the name of the agent in the tests."""

    AGUI = "agui"
    AGUI_OLD = "agui-old"
    CAIPE_FORM = "caipe-form"
    CAIPE_DATA = "caipe-data"
    BUILT_IN = "built-in"
    POLLING = "polling"
    POLLING_LIVE = "polling-live"
    TOOL_SERVER = "tool-server"
    ACP = "acp"
    CLAUDE = "claude"


class Act(StrEnum):
    """What people do while the question is open."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    ANSWER = "answer"
    EXPIRY = "expiry"
    STOP = "stop"
    DELETE = "delete"
    DROP = "drop"
    GRANT = "grant"
    BYSTANDER = "bystander"
    SECOND = "second"
    BUNDLE = "bundle"


class Course(StrEnum):
    """What happens to the machines meanwhile."""

    PLAIN = "plain"
    KILLED = "killed"
    RETRIED = "retried"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What comes of a decision."""

    gets: str = ""  # the words of each decision that reaches the asker, in order
    runs: str = "never"
    cards: str = ""  # of each card, in order
    hears: str = ""  # the commands of people that the agent gets as messages, after the question's own
    told: str = ""  # who got private answers, and for what
    order: str = ""  # what stands in the thread, from top to bottom
    retry: bool = False  # whether a Retry button is left
    session: str = "active"


NOT_OFFERED: Final = Cell(cards="not offered")
"""There is no button for it, and nothing else does it."""

NOTHING_TO_RETRY: Final = Cell(cards="nothing is resumed")
"""No decision is on its way to the asker, so that the card never says that one failed, and nothing sends it again."""

A = Asker
RUNS: Final = (A.AGUI, A.AGUI_OLD, A.CAIPE_FORM, A.CAIPE_DATA, A.BUILT_IN)
"""Their runs end with the question, and the coordinator resumes them."""

LIVE: Final = (A.POLLING_LIVE, A.TOOL_SERVER, A.ACP, A.CLAUDE)
"""A call waits in a process. Nothing is resumed, so nothing can fail to be."""

ROUTED: Final = (A.POLLING, A.POLLING_LIVE, A.ACP, A.CLAUDE)
"""Messages reach them while a question is open, so that there is nothing to drop."""

CLIS: Final = (A.ACP, A.CLAUDE)
"""What they leave undone can be tried again, which asks anew."""

SEQUENTIAL: Final = (A.AGUI_OLD, A.CAIPE_FORM)
"""They ask one question in a run, and a second one when they are resumed."""

SAYING: Final = (A.BUILT_IN, A.TOOL_SERVER, A.ACP, A.CLAUDE)
"""They say something before they ask, and when they are done."""

CAIPE: Final = (A.CAIPE_FORM, A.CAIPE_DATA)

NAMES: Final = {
    A.AGUI: "AG-UI",
    A.AGUI_OLD: "older AG-UI",
    A.CAIPE_FORM: "`caipe`",
    A.CAIPE_DATA: "`caipe` with data",
    A.BUILT_IN: "built in",
    A.POLLING: "polling",
    A.POLLING_LIVE: "polling live",
    A.TOOL_SERVER: "MCP server",
    A.ACP: "ACP",
    A.CLAUDE: "claude",
}


def _approve(asker: Asker) -> Cell:
    order = "asks, card, done" if asker in SAYING else ""
    return Cell(gets="approved", runs="once", cards="approved by alice", order=order)


def _reject(asker: Asker) -> Cell:
    """The older form of AG-UI has no other word for it."""
    return Cell(gets="cancelled" if asker is A.AGUI_OLD else "rejected", cards="rejected by alice")


def _edit(asker: Asker) -> Cell:
    """A decision that cannot be delivered is not offered."""
    if asker in (A.AGUI_OLD, A.CAIPE_FORM, A.TOOL_SERVER, A.ACP, A.CLAUDE):
        return NOT_OFFERED
    return Cell(gets="edited", runs="once, as edited", cards="approved with changed arguments by alice")


def _answer(asker: Asker) -> Cell:
    return NOT_OFFERED if asker is A.BUILT_IN else Cell(gets="answered blue", cards="answered by alice")


def _expiry(asker: Asker) -> Cell:
    """ACP has no third answer to a permission, and MCP's third one is to cancel."""
    gets = {A.ACP: "rejected", A.TOOL_SERVER: "cancelled"}.get(asker, "expired")
    return Cell(gets=gets, cards="expired")


def _ended(asker: Asker, why: str) -> Cell:
    """The work has ended: nobody resumes it, and a call that waits is told. A tool server's call is given up."""
    is_told = asker in LIVE and asker is not A.TOOL_SERVER
    return Cell(gets="cancelled" if is_told else "", cards=f"withdrawn: {why}")


def _stop(asker: Asker) -> Cell:
    return _ended(asker, "stopped by alice")


def _delete(asker: Asker) -> Cell:
    return _ended(asker, "deleted")


def _drop(asker: Asker) -> Cell:
    """The drop comes first, then what people have written. CAIPE knows only the text of a dismissal; the requester's
    next message drops the question of a built-in agent.
    """
    if asker not in RUNS:
        return NOT_OFFERED
    gets = "rejected" if asker in CAIPE else "cancelled"
    why = "something else" if asker is A.BUILT_IN else "dropped by alice"
    return Cell(gets=gets, cards=f"withdrawn: {why}", hears="interesting")


def _grant(asker: Asker) -> Cell:
    if asker is A.TOOL_SERVER:
        return NOT_OFFERED
    return Cell(gets="approved, approved", runs="twice", cards="approved by alice", hears="again")


def _bystander(asker: Asker) -> Cell:
    """The author is told once what is waited for, and is refused as everybody who may not decide."""
    told = "bob: told, refused" if asker in RUNS else "bob: refused"
    return replace(_approve(asker), order="", hears="interesting", told=told)


def _second(asker: Asker) -> Cell:
    gets = f"approved, {_reject(asker).gets}"
    return Cell(gets=gets, runs="once", cards="approved by alice, rejected by alice")


def _bundle(asker: Asker) -> Cell:
    """The run answers both, so neither may decide."""
    return Cell(gets="approved", runs="once", cards="approved by carol", told="alice: refused, bob: refused")


_OF: Final = {
    Act.APPROVE: _approve,
    Act.REJECT: _reject,
    Act.EDIT: _edit,
    Act.ANSWER: _answer,
    Act.EXPIRY: _expiry,
    Act.STOP: _stop,
    Act.DELETE: _delete,
    Act.DROP: _drop,
    Act.GRANT: _grant,
    Act.BYSTANDER: _bystander,
    Act.SECOND: _second,
    Act.BUNDLE: _bundle,
}


def expected(asker: Asker, act: Act, course: Course = Course.PLAIN) -> Cell:
    """Returns what has to come of a decision."""
    plain = _OF[act](asker)
    if plain is NOT_OFFERED:
        return NOT_OFFERED
    if course is Course.KILLED:
        return _killed(asker, act, plain)
    if course is Course.RETRIED:
        return _retried(asker, act, plain)
    return plain


def _killed(asker: Asker, act: Act, plain: Cell) -> Cell:
    """The coordinator's own call dies with it, and the run that is done again asks anew; all others notice nothing."""
    if asker in CLIS and plain.order:  # the answer that was cut off is shown again, below the card
        return replace(plain, order="asks, card, asks done")
    if asker is not A.TOOL_SERVER:
        return plain
    first = "withdrawn: lost, withdrawn: lost" if act is Act.SECOND else "withdrawn: lost"
    order = f"asks, card, {plain.order}" if plain.order else ""
    return replace(plain, cards=f"{first}, {plain.cards}", order=order)


def _retried(asker: Asker, act: Act, plain: Cell) -> Cell:
    """The same decision is sent again, and the card says so meanwhile. Where nothing is resumed, nothing fails: a
    built-in agent reads of a dropped question with the message that dropped it.
    """
    if asker in LIVE or act in (Act.STOP, Act.DELETE) or (asker is A.BUILT_IN and act is Act.DROP):
        return NOTHING_TO_RETRY
    first = plain.gets if act is Act.SECOND and asker not in SEQUENTIAL else plain.gets.split(", ")[0]
    return replace(plain, gets=f"{first}, {plain.gets}")


def cells() -> Iterator[tuple[Asker, Act, Course, Cell]]:
    """Yields the whole matrix."""
    for asker in Asker:
        for act in Act:
            for course in Course:
                yield asker, act, course, expected(asker, act, course)
