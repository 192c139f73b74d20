"""Turns Slack events into inbox messages, acknowledged only after the commit.

Concurrent messages share a transaction (`posted`); each edit and each deletion has its own. A message that would become
work, or that belongs to a tracked thread, requires the standing of its author, and whatever lists of people need. If
the process does not know this, the message has no effect, Slack is asked, and the event is handled again. If Slack does
not answer in time, the message waits in the database (`verify`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.threads import (
    FLAT,
    Author,
    AuthorKind,
    MessageDeleted,
    MessageEdited,
    SlackEvent,
    SlackMessage,
    Thread,
)
from swarm.domain.policy.access import NOTHING_MISSING, STANDING_MISSING, Me, MissingFacts
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Roster
from swarm.domain.ports import UserGroups
from swarm.domain.routing import Change, RoutingOutcome, asks_to_stop, names_swarm
from swarm.domain.text.fingerprints import turned_resolved
from swarm.domain.text.slack_text import without_quotations
from swarm.services.intake.decisions import Routing
from swarm.services.intake.posted import Posted, PostedMessages
from swarm.services.requests.asking import DELETED, EDITED
from swarm.services.requests.held import lock_asking, withdraw_changed
from swarm.services.runs.run_control import stop_own
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.work.erase import erase_deleted, erase_edited, withdraw
from swarm.services.work.task_threads import concerned
from swarm.store import forgotten, history
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.threads import alerts, early, threads, transcript

_RESOLVED: Final = "its bot has edited it to a resolved state, so the next equal alert is a new one"


class Ingest:
    """The processing of Slack events. Methods return after the commit; an error means that nothing was stored."""

    def __init__(
        self,
        database: Database,
        rosters: Rosters,
        me: Me,
        operating_policy: OperatingPolicy,
        standings: Standings,
        groups: UserGroups,
    ) -> None:
        self._database = database
        self._rosters = rosters
        self._me = me
        self._standings = standings
        self._operating_policy = operating_policy
        self._limits_people = operating_policy.messages_per_minute is not None
        self._posted = PostedMessages(me, operating_policy, standings, groups)

    async def handle(self, event: SlackEvent) -> None:
        """Stores and routes one event. A repeated event changes nothing."""
        roster = await self._rosters.current()
        match event:
            case SlackMessage(author=author, channel=channel):
                known = replace(event, author=self._standings.known(author, channel))
                missing = await self._route(Posted(message=known, roster=roster))
                if missing:
                    settled = replace(event, author=await self._standings.settled(known.author, missing))
                    await self._route(Posted(message=settled, roster=roster, is_final=True))
            case MessageEdited(message=SlackMessage(author=author, channel=channel)):
                known_edit = _edited_by(event, self._standings.known(author, channel))
                missing = await self._database.write(self._edited, known_edit, roster)
                if missing:
                    settled_edit = _edited_by(event, await self._standings.settled(known_edit.message.author, missing))
                    await self._database.write(self._edited, settled_edit, roster, is_final=True)
            case MessageDeleted():
                await self._database.write(self._deleted, event)

    def _deleted(self, tx: Transaction, event: MessageDeleted) -> None:
        """Withdraws the inbox messages of a deleted message, notifies the agents working on them, and erases stored
        copies.
        """
        team = self._me.team
        was = transcript.find(tx, team, event.channel, event.ts)
        root_ts = event.thread_ts or self._conversation_of(tx, event)
        thread = threads.at(tx, team, event.channel, root_ts)
        if thread is None and event.thread_ts:
            early.lock(tx, team, [(event.channel, root_ts)])
        early.drop(tx, team, event.channel, root_ts, event.ts)  # the message may wait for its thread or its author
        alerts.end(tx, team, event.channel, event.ts)
        if thread:
            lock_asking(tx, thread)
        if not transcript.mark_deleted(tx, team, event.channel, event.ts, root_ts):
            return
        inbox_messages = inbox.of_message_locked(tx, team, event.channel, event.ts)
        if was:
            erase_deleted(tx, thread, was, inbox_messages)
        withdraw(tx, inbox_messages, "deleted in Slack")
        if thread:
            withdraw_changed(tx, thread, inbox_messages, DELETED)

    async def _route(self, posted: Posted) -> MissingFacts:
        """Returns what must be known about the author first.

        With a limit of messages per person, each message has a transaction of its own: the rows of people and of
        threads would be locked in another order by each process.
        """
        if self._limits_people:
            (result,) = await self._database.write(self._posted.route, [posted])
            return result
        return await self._database.write_together(self._posted.route, posted)

    async def resume(self, message: SlackMessage) -> MissingFacts:
        """Routes a message that has waited for facts about its author. Returns the facts that are still missing; then
        the message goes on waiting.
        """
        return await self._database.write(self._resume, message, await self._rosters.current())

    def _resume(self, tx: Transaction, message: SlackMessage, roster: Roster) -> MissingFacts:
        team = self._me.team
        if not early.hold(tx, team, message):
            return NOTHING_MISSING  # deleted, or routed by another process
        (missing,) = self._posted.route(tx, [Posted(message=message, roster=roster)])
        if missing:
            return missing
        early.unpark(tx, team, message)
        if message.edited_ts:  # the edit may have added the mention
            self._edited(tx, MessageEdited(message=message, previous_text=None), roster, is_final=True)
        return NOTHING_MISSING

    async def postpone(self, message: SlackMessage, seconds: float) -> None:
        """Extends the wait of a message for the verification of its author."""
        await self._database.write(early.postpone, self._me.team, message, seconds)

    def _edited(self, tx: Transaction, event: MessageEdited, roster: Roster, *, is_final: bool = False) -> MissingFacts:
        """Applies an edit to unread messages, and notifies agents that are already working on them. Returns what must
        be known about the author before a mention that the edit has added is routed; with ``is_final``, the message
        then waits for it.
        """
        team = self._me.team
        (message,) = self._posted.placed(tx, [event.message])
        self._end_if_resolved(tx, message, event.previous_text)
        if message.edited_ts is None or self._me.wrote(message.author):
            return NOTHING_MISSING  # Slack unfurled a link, or the post is the swarm's own
        if forgotten.is_forgotten(tx, message.author.id, message.ts):
            return NOTHING_MISSING
        previous = without_quotations(event.previous_text or "")
        adds_mention = names_swarm(message.own_text, self._me) and not names_swarm(previous, self._me)
        if adds_mention and message.author.standing is None and not is_final:
            return STANDING_MISSING
        thread = threads.at(tx, team, message.channel, message.root_ts)
        if thread is None and not message.is_root:
            thread = self._changed_early(tx, message)
        else:
            early.change(tx, team, message)  # the message may be waiting for its author
        stored = transcript.find(tx, team, message.channel, message.ts)
        if stored and (stored["deleted_at"] or (stored["edited_ts"] or "") > message.edited_ts):
            return NOTHING_MISSING  # a late event with an outdated text
        if thread and message.author.kind is AuthorKind.USER and asks_to_stop(message.own_text):
            stop_own(tx, thread.id, message.author.id, self._operating_policy)
        elif thread:
            lock_asking(tx, thread)
        inbox_messages = inbox.of_message_locked(tx, team, message.channel, message.ts)
        if thread or stored or names_swarm(message.own_text, self._me):
            transcript.keep(tx, team, [self._posted.marked(message)])
        routing = Routing(
            message=message, roster=roster, thread=thread, change=Change.EDITED, was_routed=bool(inbox_messages)
        )
        self._posted.decisions.decide_all(tx, [routing])
        inbox_messages = inbox.reword(tx, inbox_messages, self._posted.decisions.text_for_agent(message))
        if stored and stored["text"] != message.text:
            erase_edited(tx, thread, stored, message.text, inbox_messages)
        is_changed = stored is None or stored["text"] != message.text
        if is_changed and thread and withdraw_changed(tx, thread, inbox_messages, EDITED):
            inbox_messages = inbox.of_message_locked(tx, team, message.channel, message.ts)
        if is_changed and routing.decision.outcome is RoutingOutcome.EDITED:
            self._tell_of_edit(tx, message, inbox_messages)
        return self._add_mention(tx, routing, inbox_messages, is_final=is_final) if adds_mention else NOTHING_MISSING

    def _add_mention(
        self, tx: Transaction, routing: Routing, inbox_messages: list[inbox.InboxMessage], *, is_final: bool
    ) -> MissingFacts:
        """Acts on a mention that an edit has added. Returns what must be known about the author first."""
        missing = self._posted.decisions.missing(routing)
        if missing and not is_final:
            return missing
        if routing.decision.outcome is RoutingOutcome.EDITED:
            if not missing:
                self._posted.ask_after_all(tx, routing, inbox_messages)
        elif missing:
            early.park(tx, self._me.team, routing.message)
        else:
            self._route_edit(tx, routing)
        return NOTHING_MISSING

    def _end_if_resolved(self, tx: Transaction, message: SlackMessage, previous_text: str | None) -> None:
        """Ends the group of an alert that its bot has edited to a resolved state. No agent is told of the edit itself.

        Slack marks no edit by a bot that changes blocks or attachments only, so the mark of an edit is not needed.
        """
        team, channel = self._me.team, message.channel
        group = alerts.group_of(tx, team, channel, message.ts) if message.author.kind is AuthorKind.BOT else None
        if group is None or self._posted.decisions.digest(message) == group[1]:
            return
        first_ts, digest = group
        if not turned_resolved(previous_text, message.text, message.attachments):
            return
        alerts.lock(tx, team, [(channel, digest)])  # a repeat that is being stored belongs to the group
        thread = threads.find(tx, team, channel, first_ts)
        if thread and alerts.end(tx, team, channel, first_ts):
            history.record(tx, "alert.end", f"{channel}:{message.ts}", thread_id=thread.id, reason=_RESOLVED)

    def _changed_early(self, tx: Transaction, message: SlackMessage) -> Thread | None:
        """Changes a reply that is kept in case its thread is opened later. Returns the thread if it has been opened."""
        early.lock(tx, self._me.team, [(message.channel, message.root_ts)])
        thread = threads.at(tx, self._me.team, message.channel, message.root_ts)
        if thread is None:
            early.change(tx, self._me.team, message)
        return thread

    def _tell_of_edit(self, tx: Transaction, message: SlackMessage, inbox_messages: list[inbox.InboxMessage]) -> None:
        """Notifies the agents whose runs have the old text. Unread messages are read from the transcript anyway."""
        for inbox_message in inbox_messages:
            agent_id, task_id = concerned(tx, inbox_message)
            if agent_id:
                notices.add(
                    tx,
                    NoticeKind.MESSAGE_CHANGED,
                    agent_id,
                    thread_id=inbox_message.thread_id,
                    inbox_message_id=inbox_message.id,
                    actor=message.author.id,
                    text=message.text,
                    task_id=task_id,
                )

    def _route_edit(self, tx: Transaction, routing: Routing) -> None:
        """Routes a message without recipients after an edit has added a mention."""
        is_stop = routing.decision.outcome is RoutingOutcome.STOP and routing.thread is not None
        if routing.decision.targets or is_stop or self._posted.decisions.is_to_be_told(tx, routing):
            if routing.thread is None:
                self._posted.open(tx, [routing])
            transcript.route(tx, self._me.team, [self._posted.marked(routing.message, routing.decision)])
            self._posted.act(tx, [routing])

    def _conversation_of(self, tx: Transaction, event: MessageDeleted) -> str:
        place = (event.channel, event.ts)
        return FLAT if self._posted.flat_among(tx, [place]) else event.ts


def _edited_by(event: MessageEdited, author: Author) -> MessageEdited:
    return replace(event, message=replace(event.message, author=author))
