"""One run: a trigger under a lease, from the CLI's start to the end of its work.

**Who may act.** Only the run, while it has its lease and the lock of its thread's session.

**What is guaranteed.** The work ends in a state that people see: an answer, or the reason why there is none. Nothing is
said after the lease is lost or a person has stopped the work. When `execute` returns, no process of the CLI is left.

**On failure.** If the runner dies, the lease expires, and the work is handed out again with the same session.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from swarm_base.characters import strip_invisible
from swarm_base.errors import SwarmError
from swarm_base.processes.background import BackgroundTasks
from swarm_base.processes.child import to_the_end
from swarm_base.secrets import without_secrets
from swarm_base.times import span
from swarm_runner.asks import HumanAsks
from swarm_runner.conversation import CANCEL_SECONDS, Conversation, RunContext
from swarm_runner.coordinator import Refused, Trigger
from swarm_runner.endings import NOTHING, Answered, NotDone, Over, ending_of, missing_text
from swarm_runner.output import MAX_FILE_CHARACTERS, RunOutput, repeated
from swarm_runner.port import StartFailed, StepShown, ToolState, TurnEnded, TurnOutcome
from swarm_runner.sessions import thread_key
from swarm_runner.settings import kind_of, program_of
from swarm_runner.setup import SetupFailed, set_up
from swarm_runner.workdirs import GitFailed, Workdir

_GO_ON: Final = "People have approved more budget. Continue where you stopped."
_TAKEN_OVER: Final = (
    "Another account has begun this work, and its limit is reached. What it has changed is in the work directory, and "
    "what it has said in the thread. Go on from there, and do nothing twice.\n\n"
)
_REST_SECONDS: Final = 3600.0  # for an account whose limit ends at an unknown time, if another one takes over
_WORKER_TASK: Final = "task_assigned"
_FOLLOW_UP: Final = "task_follow_up"
_MESSAGES: Final = "slack_inbox_message"
_BRANCH: Final = "swarm-branch"
_DAY_SECONDS: Final = 86_400
_STOPPED_SECONDS: Final = 10.0  # until the coordinator has ended a stopped answer: before that, its work counts as open
_AGAIN_SECONDS: Final = 0.2
_REPLY_CHARACTERS: Final = 50_000
_OPEN: Final = frozenset({"unread", "claimed", "in_progress"})

NEWS: Final = frozenset({"task_finished", "task_returned"})
"""Notices about tasks that a lead has given. Each is a turn in the session of its thread."""

_log = structlog.get_logger(__name__)


class Stop(Enum):
    """Why a run is stopped."""

    LOST = auto()  # the lease is lost: end everything, and say nothing
    STOPPED = auto()  # people stopped the work, or took it back
    SHUTDOWN = auto()  # the runner stops: the work is given back


class _OverBudget(Exception):
    """Raised when a budget is used up and people do not approve more. The message is a clause for people."""


class Run:
    """One run. `execute` is called once; `notice` and `stop` at any time."""

    def __init__(self, trigger: Trigger, contexts: Sequence[RunContext]) -> None:
        """``contexts`` are those of the runner's accounts."""
        self.token: str = trigger["lease"]["token"]
        self.has_lease = True
        self.has_failed = False  # the CLI failed, not its work
        self.key = thread_key(trigger)
        self.task_id: str | None = (trigger.get("task") or {}).get("id") if trigger["kind"] == _WORKER_TASK else None
        self.inbox_message_ids = [message["id"] for message in trigger["inbox_messages"]]
        self._trigger = trigger
        self._contexts, self._has_passed_on = contexts, False
        self._coordinator = contexts[0].coordinator
        self._use(contexts[contexts[0].accounts.first.account])
        self._is_news = trigger["kind"] in NEWS
        about = self._about() if trigger.get("thread") else {}
        self._output = RunOutput(
            self._coordinator,
            self.token,
            self._about(),
            self._on_refused,
            self._on_exceeded,
            is_plain=kind_of(self._settings.provider) == "command",
        )
        self._asks = HumanAsks(self._coordinator, self.token, about, self.token[-12:], self._output.log)
        self._background = BackgroundTasks()
        self.pending: deque[Trigger] = deque()  # notices to be handed into the session
        self._replies: list[str] = []  # what was answered to follow-ups
        self._cutting_off: asyncio.Task[None] | None = None  # ends the turn in which a budget was used up
        self._conversation: Conversation | None = None
        self._stop: Stop | None = None
        self._task: asyncio.Task[None] | None = None

    async def execute(self) -> None:
        """Does the work. Raises nothing but a cancellation from outside."""
        self._task = asyncio.current_task()
        ids = {"trigger": self._trigger["id"], "kind": self._trigger["kind"], "attempt": self._trigger["attempt"]}
        _log.info("A run begins.", action="runner_run_started", **ids)
        try:
            async with self._context.sessions.lock(self.key), self._context.slots:
                await self._work()
        except asyncio.CancelledError:
            if self._stop is None:
                raise
        except Refused as error:
            _log.info("The coordinator refused a call.", action="runner_refused", code=error.code, **ids)
            await self._settle_lease("failed" if error.code not in ("conflict", "withdrawn") else "done", error.message)
        except Exception as error:  # noqa: BLE001 -- reported to people and in the log
            self.has_failed = True
            _log.exception("A run failed.", action="runner_run_failed", **ids)
            await self._settle_lease("failed", f"the runner failed: {type(error).__name__}")
        finally:
            await to_the_end(self._after_stop())
        _log.info("A run has ended.", action="runner_run_ended", stop=self._stop and self._stop.name.lower(), **ids)

    def notice(self, trigger: Trigger) -> None:
        """Hands a notice about this work into its session, or stops the work if the notice says so."""
        kind, about = trigger["kind"], (trigger.get("notice") or {}).get("inbox_message_id")
        if kind == "message_deleted" and about in self.inbox_message_ids:
            self.inbox_message_ids.remove(about)
        if kind == "task_cancelled" or (self.task_id is None and not self.inbox_message_ids):
            self.stop(Stop.STOPPED)
        elif kind != "human_input":  # this run waits for its own requests itself
            self.pending.append(trigger)

    def _use(self, context: RunContext) -> None:
        self._context, self._settings = context, context.settings

    def stop(self, why: Stop) -> None:
        """Stops the run; the first reason counts."""
        if self._stop is None and self._task and not self._task.done():
            self._stop = why
            if self._conversation:
                self._conversation.is_lost = why is Stop.LOST
            self._task.cancel()

    async def _work(self) -> None:
        is_streamed = self._trigger.get("thread") and not self._is_news
        await (self._output.open() if is_streamed else self._output.report())
        pump = asyncio.create_task(self._output.pump(), name="runner output")
        kept = ""
        try:
            await self._within_budget()
            self._output.status(f"starting {kind_of(self._settings.provider)}")
            workdir = await self._context.workdirs.of(self.key, self._subject())
            kept = self._kept(workdir, None)
            if workdir.branch and workdir.base and self.task_id:
                title = f"branch {workdir.branch}, which begins at {workdir.base[:7]}"
                title += f" ({self._settings.base})" if self._settings.base else ""
                self._output.step(StepShown(id=_BRANCH, title=title, state=ToolState.COMPLETE))
            await set_up(self._context, workdir, self._output)
            while await self._is_passed_on(workdir):
                self._output.begin_session()
        except (StartFailed, GitFailed, SetupFailed, OSError) as error:
            self.has_failed = True
            await self._not_done(_clause(error))
        except _OverBudget as error:
            await self._not_done(f"{error}{kept}")
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await self._background.end()

    async def _is_passed_on(self, workdir: Workdir) -> bool:
        """Has the conversation with the CLI. Returns False if that has ended the run, or True if the account's limit is
        reached, and another one goes on with the work."""
        key = self._context.session_key(self.key)
        talk = self._conversation = Conversation(
            self._context, key, self._trigger["lease"], workdir, self._output, self._asks
        )
        begins_at = len(self._output.shown)
        async with talk.opened():
            ended = await self._converse(talk)
            context = self._context
            if not (ended.is_limited and self._has_next(ended.resets_at)) or await self._is_settled():
                await self._end(talk, ended, workdir, begins_at)
                return False
        program, old = (Path(program_of(one.settings.provider)).name for one in (self._context, context))
        who = f"Another account of {program}" if program == old else program
        self._output.end_of_text()
        self._output.note(
            f"The account of {self._settings.name} has reached its limit. {who} goes on with the work.\n\n"
        )
        return True

    async def _converse(self, talk: Conversation) -> TurnEnded:
        """Has the turns of this run: the trigger's, and one for each notice meanwhile. Returns the last of the work.

        A turn that was cut off by a budget is continued when people approve more. Raises _OverBudget if they do not.
        """
        ended = await talk.turn((_TAKEN_OVER if self._has_passed_on else "") + self._trigger["prompt"])
        while True:
            is_cut_off = self._cutting_off is not None and ended.outcome is TurnOutcome.CANCELLED
            if is_cut_off and await self._is_settled():
                return ended
            if is_cut_off:
                await self._within_budget()
                ended = await talk.turn(_GO_ON)
            elif self.pending and ended.outcome is TurnOutcome.DONE:
                await self._within_budget()
                self._output.text(missing_text(self._output.shown, ended.text))
                ended = await self._follow(talk, notice := self.pending.popleft(), ended)
                if ended.is_limited:  # for the account that goes on
                    self.pending.appendleft(notice)
            else:
                return ended

    async def _follow(self, talk: Conversation, notice: Trigger, before: TurnEnded) -> TurnEnded:
        """Hands a notice into the session. A person's message in the thread of a task gets an answer of its own."""
        about = (notice.get("notice") or {}).get("inbox_message_id")
        if notice["kind"] != _FOLLOW_UP or about is None:
            self._output.text("\n\n" if self._output.shown.strip() else "")
            return await talk.turn(notice["prompt"])
        parts: list[str] = []
        ended = await talk.turn(notice["prompt"], parts.append)
        text = "".join(parts)[:_REPLY_CHARACTERS].strip() or ended.text[:_REPLY_CHARACTERS].strip()
        if text and not await self._is_settled(about):
            reply = self._coordinator.call
            await repeated(
                lambda: reply("slack-reply", self.token, inbox_message_id=about, message=text, request_id=about)
            )
            self._replies.append(text)
        return replace(ended, text="") if ended.outcome is not TurnOutcome.DONE else replace(before, text="")

    async def _within_budget(self) -> None:
        """Waits until no budget is used up: people are asked about each. Raises _OverBudget if they approve no more."""
        if self._cutting_off:
            await asyncio.wait({self._cutting_off})
            self._cutting_off = None
        while exceeded := await self._output.budgets_used_up():
            first, run_id = exceeded[0], self._output.run_id or ""
            self._output.status("waiting for a decision about the budget")
            await self._output.catch_up()
            if refused := await self._asks.budget(run_id, first):
                raise _OverBudget(f"{_stopped_by(first)}, and {refused}")

    async def _end(self, talk: Conversation, ended: TurnEnded, workdir: Workdir, begins_at: int) -> None:
        """Settles the work by what the last turn means. ``begins_at`` is where its CLI has begun to write."""
        self._output.end_of_text()
        await self._hand_in_rest()
        await self._output.flush(is_last=True)
        shown = self._output.shown[begins_at + len(talk.preface) :]
        ended = replace(ended, refused_tools=tuple(sorted(talk.refused_tools)))
        settled = await self._is_settled()
        match ending_of(ended, shown=shown, is_settled=settled, replies=self._replies, not_asked=self._asks.not_asked):
            case Over():
                await self._settle_lease("done")
            case Answered(rest=rest, result=result):
                changed = await self._changes(workdir)
                await self._done(rest + changed, result + changed)
            case NotDone() if ended.resets_at:
                await self._wait()
            case NotDone(reason=reason, rest=rest):
                self.has_failed = ended.outcome is TurnOutcome.FAILED
                published = None
                with suppress(GitFailed, OSError):  # the reason counts; the folder is kept in any case
                    published = await self._context.workdirs.publish(workdir)
                await self._not_done(reason + self._kept(workdir, published), rest)

    async def _done(self, text: str, result: str) -> None:
        if self._output.is_streamed:
            try:
                await self._output.close(text, result=result if self.task_id else None)
            except Refused as error:
                if error.code != "invalid":
                    raise
                await self._output.close(failed=NOTHING)  # nothing of the text can be shown
        elif self.task_id:
            await self._tool("task-complete", task_id=self.task_id, result=result)
        elif self._is_news and self._trigger.get("thread") and not _is_withheld(text := self._output.shown + text):
            await self._tool("slack-reply", **self._about(), message=text, request_id=self._trigger["id"])
        await self._settle_lease("done")

    def _has_next(self, resets_at: float | None) -> bool:
        """Notes that the account's limit is reached. Returns whether there is another, which is then used."""
        accounts, own = self._context.accounts, self._settings.account
        if has_other := accounts.has_other(own):
            resets_at = resets_at or time.time() + _REST_SECONDS
        if resets_at:
            accounts.park(own, resets_at)
            _log.warning("The account's limit is reached.", action="runner_parked", account=own, until=resets_at)
        if has_other:
            self._use(self._contexts[accounts.first.account])
            self._has_passed_on = True
        return has_other

    async def _wait(self) -> None:
        """Gives the work back until the first limit ends, which counts as no attempt, and says so."""
        self.has_lease, seconds = False, self._context.accounts.left_seconds
        words = f"The account of {self._settings.name} has reached its limit."
        self._output.note(f"{words} The work waits, and goes on by itself in about {span(max(seconds, 60))}.")
        await self._output.flush(is_last=True)
        await self._output.end_reports()
        with suppress(Refused):  # it has ended already
            await repeated(lambda: self._coordinator.release([self.token], min(seconds, _DAY_SECONDS)))

    async def _not_done(self, reason: str, rest: str = "") -> None:
        """Tells people why there is no answer, or no complete one."""
        _log.warning("A run has not done its work.", action="runner_not_done", reason=reason)
        await self._output.flush(is_last=True)
        if self._output.is_streamed:
            await self._output.close(rest, failed=reason)
        elif self.task_id:
            await self._tool("task-fail", task_id=self.task_id, error=reason)
        await self._settle_lease("failed" if self._is_news else "done", reason)

    async def _hand_in_rest(self) -> None:
        """Shows what is too long for an answer as a file, and says where it is."""
        if not (rest := self._output.rest):
            return
        is_whole, where = len(rest) < MAX_FILE_CHARACTERS, f"`swarm logs {self.task_id or self._output.run_id}`"
        try:
            await self._tool("slack-upload-file", **self._about(), name="output.txt", text=rest, redact=True)
        except Refused:  # where people must not see a file, or the work is over
            self._output.note(f"(The rest is in the log: {where}.)")
        else:
            more = "" if is_whole else f", as far as it fits; more of it is in the log: {where}"
            self._output.note(f"(The rest is in `output.txt`{more}.)")

    async def _changes(self, workdir: Workdir) -> str:
        """Returns a sentence about the branch, and shows its diff in the thread if the operator wants that."""
        message = f"Work of {self._settings.name} on {self._subject()}"
        try:
            changes = await self._context.workdirs.changes(workdir, message)
        except (GitFailed, OSError) as error:
            return f"\n\nIts changes are kept, but are not in a branch yet: {_clause(error)}."
        if changes is None or not changes.summary:
            return ""
        line = f"\n\nBranch `{changes.branch}`: {changes.summary}."
        told = hashlib.sha256(f"{line}{changes.diff}".encode(errors="replace")).hexdigest()
        workdirs = self._context.workdirs
        before = workdirs.prepared(workdir)
        if before.told == told:  # nothing is new since the last answer, whichever account or session gave it
            return ""
        if self._settings.show_diff and self._output.is_streamed:
            name = f"{changes.branch.rpartition('/')[2]}.diff"
            with suppress(Refused):  # where people must not see a file, or the work is over
                text = without_secrets(changes.diff[:MAX_FILE_CHARACTERS])
                await self._tool("slack-upload-file", **self._about(), name=name, text=text, redact=True)
        with suppress(OSError):
            workdirs.note(workdir, replace(before, told=told))
        return line

    async def _is_settled(self, inbox_message_id: str | None = None) -> bool:
        """Whether the CLI has settled the work itself, or asked people and lets the work wait."""
        if inbox_message_id is None and self.task_id:
            return (await self._tool("get-task", task_id=self.task_id))["status"] not in _OPEN
        ids = [inbox_message_id] if inbox_message_id else self.inbox_message_ids
        if inbox_message_id is None and self._trigger["kind"] != _MESSAGES:
            return self._is_news and await self._output.has_answered()
        found = [await self._tool("read-inbox-message", inbox_message_id=one) for one in ids]
        return all(one["status"] not in _OPEN for one in found)

    async def _tool(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        return await repeated(lambda: self._coordinator.call(tool, self.token, **arguments))

    async def _settle_lease(self, outcome: str, reason: str = "") -> None:
        if self.has_lease:
            self.has_lease = False
            await self._output.end_reports()
            finish = self._coordinator.finish
            with suppress(Refused):  # it has ended already
                try:
                    await repeated(lambda: finish(self.token, outcome, reason))
                except Refused as error:
                    if error.code != "unresolved":
                        raise
                    await repeated(partial(finish, self.token, "failed", error.message))

    async def _after_stop(self) -> None:
        """Ends the lease of a stopped run: the work of a runner that stops is given back."""
        had_lease, self.has_lease = self.has_lease, False
        if not had_lease or self._stop is None:
            return
        with suppress(SwarmError, TimeoutError):
            async with asyncio.timeout(_STOPPED_SECONDS if self._stop is Stop.STOPPED else CANCEL_SECONDS):
                if self._stop is Stop.SHUTDOWN:
                    await self._output.flush(is_last=True)
                    await self._coordinator.release([self.token])
                    return
                await self._output.end_reports()
                while self._stop is Stop.STOPPED:
                    try:
                        await self._coordinator.finish(self.token, "done")
                        return
                    except Refused as error:
                        if error.code != "unresolved":
                            raise
                    await asyncio.sleep(_AGAIN_SECONDS)

    def _on_refused(self, error: Refused) -> None:
        """The coordinator takes no more output: the work was stopped, lost, or is too large."""
        if error.code == "too_large":
            return
        self.stop(Stop.LOST if error.code == "lease_lost" else Stop.STOPPED)

    def _on_exceeded(self, exceeded: list[dict[str, Any]]) -> None:
        if self._conversation and self._cutting_off is None:
            reason = _stopped_by(exceeded[0])
            self._cutting_off = self._background.start(self._conversation.cut_off(reason), "runner budget")

    def _kept(self, workdir: Workdir, published: str | None) -> str:
        """Returns where the work of a run that is not done is kept, to be appended to the reason. What the sandbox's
        clone has not committed is in no branch of the repository."""
        if not workdir.branch:
            return ""
        if not self._settings.sandbox:
            return f"; its work is kept in branch {workdir.branch}"
        committed = f"what it has committed in branch {published}, and the rest" if published else "it"
        return f"; its work is kept: {committed} for the next run in this thread"

    def _about(self) -> dict[str, str]:
        if self.task_id:
            return {"task_id": self.task_id}
        if self._is_news:
            return {"task_id": self._trigger["task"]["id"]}
        return {"inbox_message_id": self.inbox_message_ids[-1]} if self._trigger["kind"] == _MESSAGES else {}

    def _subject(self) -> str:
        """Returns the name of the work, for its branch."""
        if self.task_id:
            return str(self._trigger["task"]["title"])
        thread = self._trigger.get("thread")
        return f"{thread['channel_name']} {thread['thread_ts']}" if thread else self.key


def _is_withheld(text: str) -> bool:
    """Whether the CLI has marked its answer as one for nobody who has not asked."""
    return bool(re.search(r"\[(?:DEFER|LOW_CONFIDENCE)\]", strip_invisible(text), re.IGNORECASE))


def _stopped_by(exceeded: Mapping[str, Any]) -> str:
    """Returns a budget that is used up as a clause for people."""
    text = str(exceeded.get("text") or f"The budget of the {exceeded['scope']} is used up").rstrip(".")
    return f"it was stopped, because {text[:1].lower()}{text[1:]}"


def _clause(error: Exception) -> str:
    """Returns an error as a clause for people."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"the runner cannot use {error.filename}: {error.strerror}"
    text = error.message if isinstance(error, SwarmError) else f"{getattr(error, 'strerror', None) or error}"
    return text.rstrip(".")
