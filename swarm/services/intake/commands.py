"""The slash command: status, agents, tasks, stop, explain, feedback, help.

Who may act: a person whose standing and channel allow writing, as for a button. What is guaranteed: a command that is
delivered again counts once towards the person's limit, and stops nothing else. What happens on failure: nothing has
changed, and the person is told.
"""

from __future__ import annotations

from typing import Final

import structlog

from swarm.clock import SECOND
from swarm.domain.commands import (
    AgentList,
    CommandAnswer,
    CommandHelp,
    CommandRefused,
    Explanation,
    OpenWork,
    RemarkStored,
    RemarkSubmitted,
    RemarkWanted,
    SlashCommand,
    StopChoice,
    Subcommand,
    WorkList,
    WorkState,
    WorkStopped,
)
from swarm.domain.errors import Invalid, NotFound
from swarm.domain.model.feedback import remark_body
from swarm.domain.model.threads import Author
from swarm.domain.model.webhooks import WebhookKind, endpoint_of
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.services.operate.explain import Explanations, parse_reference, sentences
from swarm.services.operate.open_work import condition, own_messages, own_tasks, tasks_in_channel, team, usable
from swarm.services.runs.run_control import stop_own
from swarm.services.speaking.participants import Standings, why_not_now, why_refused_here
from swarm.store import idempotency_keys, webhooks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import remarks
from swarm.store.threads import open_work, threads
from swarm_base.characters import strip_invisible

RECENT_SECONDS: Final = 7 * 86_400
"""How old a person's latest message may be that is explained without a link."""

NO_LINK_TEXT: Final = "“{text}” is not a link to a message. Choose “Copy link” in the message's menu."
ELSEWHERE_TEXT: Final = "I explain only messages of this conversation, and of your direct messages with me."
UNKNOWN_MESSAGE_TEXT: Final = "I know nothing about this message: it never reached me, or its records were deleted."
NO_MESSAGE_TEXT: Final = "I know no message of yours here. Add the link of a message."

_log = structlog.get_logger(__name__)


class Commands:
    """The handler of slash commands. ``directory`` tells whether Slack shows a conversation to the app."""

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        me: Me,
        standings: Standings,
        directory: Directory,
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._me = me
        self._standings = standings
        self._directory = directory
        self._explanations = Explanations(database, me.team)

    async def answer(self, command: SlashCommand) -> CommandAnswer:
        """Does what a command says. Returns the answer for the person who typed it. Raises Unavailable."""
        limited = self._operating_policy.agent_access if command.subcommand is Subcommand.AGENTS else ()
        person = await self._standings.presser(command.user_id, None, command.channel, limited)
        answer = await self._database.write(self._answer, command, person) or await self._read(command, person)
        _log.info(
            "A command was answered.",
            action="command",
            subcommand=command.subcommand or "unknown",
            channel=command.channel,
            refused=isinstance(answer, CommandRefused),
        )
        return answer

    def _answer(self, tx: Transaction, command: SlashCommand, person: Author) -> CommandAnswer | None:
        """Refuses the command, or does what changes something. Returns None if the answer is only read."""
        is_new = idempotency_keys.record(tx, command.key)
        if is_new:
            refused = why_not_now(tx, self._me.team, person, command.channel, self._operating_policy)
        else:
            refused = why_refused_here(person, command.channel, self._operating_policy)
        if refused:
            return CommandRefused(reason=refused)
        match command.subcommand:
            case Subcommand.STOP:
                return self._stop(tx, command, is_new)
            case Subcommand.FEEDBACK if not command.argument:
                return RemarkWanted(channel=command.channel)
            case Subcommand.FEEDBACK:
                return self._remarked(tx, command.channel, command.user_id, command.argument, is_new)
            case _:
                return None

    async def remark(self, submitted: RemarkSubmitted) -> CommandRefused | RemarkStored:
        """Stores a remark from the form. Raises Unavailable."""
        person = await self._standings.presser(submitted.user_id, None, submitted.channel)
        return await self._database.write(self._remark, submitted, person)

    def _remark(self, tx: Transaction, submitted: RemarkSubmitted, person: Author) -> CommandRefused | RemarkStored:
        is_new = idempotency_keys.record(tx, submitted.key)
        refused = why_refused_here(person, submitted.channel, self._operating_policy)
        if refused:
            return CommandRefused(reason=refused)
        return self._remarked(tx, submitted.channel, person.id, submitted.text, is_new)

    def _remarked(self, tx: Transaction, channel: str, person: str, text: str, is_new: bool) -> RemarkStored:
        """Stores a new remark, with its call of the operator's own service."""
        if is_new:
            remark = remarks.add(tx, channel, person, strip_invisible(text).strip())
            if endpoint_of(self._operating_policy.book.current.webhooks, WebhookKind.FEEDBACK, ""):
                body = remark_body(remark, self._me.team)
                webhooks.add(tx, WebhookKind.FEEDBACK, body, idempotency_key=f"remark:{remark.id}", person=person)
        return RemarkStored()

    async def _read(self, command: SlashCommand, person: Author) -> CommandAnswer:
        match command.subcommand:
            case Subcommand.STATUS:
                is_visible = await self._directory.channel_name(command.channel) != command.channel
                return await self._database.read(condition, person, command.channel, is_visible, self._operating_policy)
            case Subcommand.AGENTS:
                found = await self._database.read(team, self._operating_policy)
                return AgentList(agents=usable(found, person, command.channel, self._operating_policy))
            case Subcommand.TASKS:
                return await self._database.read(self._tasks, command)
            case Subcommand.EXPLAIN:
                return await self._explain(command)
            case Subcommand.HELP:
                return CommandHelp(command=command.command)
            case _:
                return CommandHelp(command=command.command, unknown=command.word)

    def _tasks(self, tx: Transaction, command: SlashCommand) -> WorkList:
        own = [*own_tasks(tx, [command.user_id], self._me), *own_messages(tx, [command.user_id], self._me)]
        others = [work for work in tasks_in_channel(tx, command.channel, self._me) if work.requester != command.user_id]
        return WorkList(own=tuple(own), others=tuple(others), channel=command.channel)

    # --- stop

    def _stop(self, tx: Transaction, command: SlashCommand, is_new: bool) -> CommandAnswer:
        """Stops the person's work in the conversation if it runs in one thread; otherwise offers the threads."""
        stored = None if is_new else idempotency_keys.result(tx, command.key)
        if stored is not None:
            return WorkStopped(stopped=int(stored))
        found = open_work.stoppable_threads(tx, self._me.team, command.channel, command.user_id)
        if len(found) > 1 or (found and not is_new):
            return StopChoice(work=self._choices(tx, found, command.user_id))
        stopped = stop_own(tx, found[0], command.user_id, self._operating_policy) if found else 0
        idempotency_keys.complete(tx, command.key, str(stopped))
        return WorkStopped(stopped=stopped)

    def _choices(self, tx: Transaction, thread_ids: list[str], person: str) -> tuple[OpenWork, ...]:
        """Returns one piece of work for each thread, a task if there is one."""
        known: dict[str, OpenWork] = {}
        for work in (*own_tasks(tx, [person], self._me), *own_messages(tx, [person], self._me)):
            known.setdefault(work.thread_id, work)
        return tuple(known.get(thread_id) or self._unnamed(tx, thread_id, person) for thread_id in thread_ids)

    def _unnamed(self, tx: Transaction, thread_id: str, person: str) -> OpenWork:
        """Returns the work of a run whose messages are answered already."""
        thread = threads.get(tx, thread_id)
        assert thread is not None  # its work refers to it
        return OpenWork(
            thread_id=thread_id,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
            link=self._me.link(thread.channel, thread.thread_ts),
            title="An answer",
            state=WorkState.RUNNING,
            agent=None,
            since=tx.now,
            requester=person,
        )

    # --- tasks, explain

    async def _explain(self, command: SlashCommand) -> CommandAnswer:
        place = await self._place(command)
        if not isinstance(place, tuple):
            return place
        channel, ts = place
        try:
            explained = await self._explanations.explain(f"{channel}:{ts}")
            is_silent = await self._explanations.is_silent(channel, ts)
        except NotFound:
            return Explanation(lines=(UNKNOWN_MESSAGE_TEXT,))
        return Explanation(lines=sentences(explained, is_silent=is_silent), link=self._me.link(channel, ts))

    async def _place(self, command: SlashCommand) -> tuple[str, str] | Explanation:
        """Returns the message that a command names, if the person can see it; otherwise the answer."""
        if not command.argument:
            ts = await self._database.read(self._latest, command)
            return (command.channel, ts) if ts else Explanation(lines=(NO_MESSAGE_TEXT,))
        link = command.argument.strip("<>").partition("|")[0]
        try:
            channel, ts = parse_reference(link)
        except Invalid:
            return Explanation(lines=(NO_LINK_TEXT.format(text=command.argument[:100]),))
        if channel != command.channel and not await self._database.read(self._is_own_direct, channel, command.user_id):
            return Explanation(lines=(ELSEWHERE_TEXT,))
        return channel, ts

    def _latest(self, tx: Transaction, command: SlashCommand) -> str | None:
        oldest = f"{tx.now // SECOND - RECENT_SECONDS}.000000"
        return open_work.latest_message(tx, self._me.team, command.channel, command.user_id, oldest)

    def _is_own_direct(self, tx: Transaction, channel: str, person: str) -> bool:
        """Whether this is the person's direct conversation with the app, in which nobody else writes."""
        is_direct = channel.startswith("D")
        return is_direct and open_work.latest_message(tx, self._me.team, channel, person, "0") is not None
