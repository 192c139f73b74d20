"""Turns Slack events into inbox messages: one transaction per event, acknowledged only after the commit.

A message that would become work, or that belongs to a tracked thread, requires the standing of its author. If the
process does not know the standing, the transaction ends without an effect, Slack is asked, and the event is handled
again. If Slack does not answer in time, the message waits in the database (`verify`).

Storing is separate from routing: a history read may have stored a message before its event arrived. The transaction
that sets ``routed_at`` routes the message, so a message is routed once, however often and in whichever form Slack
reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from swarm.clock import SECOND, slack_ts_to_us
from swarm.domain.access import Me, standing_in
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.threads import (
    CONTEXT_WAIT_SECONDS,
    Author,
    AuthorKind,
    ContextState,
    MessageDeleted,
    MessageEdited,
    SlackEvent,
    SlackMessage,
    Thread,
)
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.roster import Roster
from swarm.domain.routing import Change, Decision, RoutingOutcome, Situation, Target, asks_to_stop, decide, names_swarm
from swarm.services.rules.erase import erase_deleted, erase_edited, withdraw
from swarm.services.rules.participants import Rosters, Standings
from swarm.services.rules.system_messages import show_stored, tell_refused, tell_routed
from swarm.services.rules.task_threads import answer, concerned, hand_over, stored
from swarm.services.runs.run_control import can_stop, stop_latest, stop_thread
from swarm.store import deliveries, forgotten, history, task_queries
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.threads import early, people, threads, transcript, watermarks

EARLY_SECONDS: Final = 600
"""A reply written this long after its thread's first message cannot have overtaken it."""

_CONTEXT: Final = frozenset({RoutingOutcome.CONTEXT, RoutingOutcome.STRANGER})


LATE_SECONDS: Final = 120
"""A message that is processed this long after it was written was missed before; such messages usually arrive in large
numbers.
"""


class Ingest:
    """The processing of Slack events. Methods return after the commit; an error means that nothing was stored."""

    def __init__(
        self, database: Database, rosters: Rosters, me: Me, operating_policy: OperatingPolicy, standings: Standings
    ) -> None:
        self._database = database
        self._rosters = rosters
        self._me = me
        self._operating_policy = operating_policy
        self._standings = standings

    async def handle(self, event: SlackEvent) -> None:
        """Stores and routes one event. A repeated event changes nothing."""
        roster = await self._rosters.current()
        match event:
            case SlackMessage(author=author):
                known = replace(event, author=self._standings.known(author))
                if not await self._database.write(self._posted, known, roster):
                    settled = replace(event, author=await self._standings.settled(author))
                    await self._database.write(self._posted, settled, roster, is_final=True)
            case MessageEdited(message=SlackMessage(author=author)):
                known_edit = _edited_by(event, self._standings.known(author))
                if not await self._database.write(self._edited, known_edit, roster):
                    settled_edit = _edited_by(event, await self._standings.settled(author))
                    await self._database.write(self._edited, settled_edit, roster, is_final=True)
            case MessageDeleted():
                await self._database.write(self._deleted, event)

    async def resume(self, message: SlackMessage) -> None:
        """Routes a message after its author is verified."""
        await self._database.write(self._resumed, message, await self._rosters.current())

    async def postpone(self, message: SlackMessage, seconds: float) -> None:
        """Extends the wait of a message for the verification of its author."""
        await self._database.write(early.postpone, self._me.team, message, seconds)

    def _resumed(self, tx: Transaction, message: SlackMessage, roster: Roster) -> None:
        if early.unpark(tx, self._me.team, message):
            self._posted(tx, message, roster, is_final=True)
            if message.edited_ts:  # the edit may have added the mention
                self._edited(tx, MessageEdited(message=message, previous_text=None), roster, is_final=True)

    def _posted(self, tx: Transaction, message: SlackMessage, roster: Roster, *, is_final: bool = False) -> bool:
        """Processes a new message. Returns False without an effect if the author's standing is needed first. With
        ``is_final``, the message is parked instead.
        """
        if self._me.wrote(message.author):
            return True  # own posts are added to the transcript when they are sent
        team = self._me.team
        thread = threads.at(tx, team, message.channel, message.root_ts)
        decision = self._decide(tx, message, thread, roster)
        concerns_nobody = thread is None and decision.outcome in _CONTEXT and not decision.is_work
        if concerns_nobody and not message.is_root and (_may_have_overtaken(message) or self._in_gap(tx)):
            thread = self._if_unopened(tx, message, early.keep)
            if thread:
                decision = self._decide(tx, message, thread, roster)
        if message.author.standing is None and (thread or decision.is_work):
            if is_final:
                self._park(tx, message, thread)
            return is_final
        is_new = False
        if thread is None and (decision.targets or self._is_to_be_told(tx, message, decision)):
            early.lock(tx, team, message.channel, message.root_ts)
            thread, is_new = self._open(
                tx, message, message.ts, known_whole=message.is_root and not message.has_replies
            )
            if not is_new:  # another process has opened the thread in the meantime
                decision = self._decide(tx, message, thread, roster)
        if thread is None and decision.outcome is RoutingOutcome.STOP:
            self._stop_latest(tx, message, decision)
        elif thread is None:
            self._note(tx, message, decision, None)
        elif transcript.route(tx, team, self._marked(message)):
            if not is_new:
                threads.touch(tx, thread.id)
            self._act(tx, message, thread, decision, roster, is_new=is_new)
            if is_new:
                self._route_early(tx, message, roster)
        return True

    def _decide(
        self,
        tx: Transaction,
        message: SlackMessage,
        thread: Thread | None,
        roster: Roster,
        change: Change = Change.POSTED,
        *,
        routed: bool = False,
    ) -> Decision:
        """Returns the routing decision, or a refusal if the person has exceeded the limit per minute."""
        decision = decide(message, self._situation(tx, message, thread, roster, routed=routed), change)
        if decision.targets and self._limited_since(tx, message) is not None:
            return Decision(outcome=RoutingOutcome.RATE_LIMITED, reason=self._limit_reason(), is_refusal=True)
        return decision

    def _limited_since(self, tx: Transaction, message: SlackMessage) -> int | None:
        limit = self._operating_policy.messages_per_minute
        if limit is None or not _counts(tx, message):
            return None
        return people.exhausted(tx, self._me.team, message.author.id, limit)

    def _limit_reason(self) -> str:
        limit = self._operating_policy.messages_per_minute
        return f"this person has reached the limit of {limit} messages per minute (limits.messages_per_minute_per_user)"

    def _is_to_be_told(self, tx: Transaction, message: SlackMessage, decision: Decision) -> bool:
        return decision.is_refusal and not deliveries.is_wanted(tx, self._told_key(tx, message, decision))

    def _told_key(self, tx: Transaction, message: SlackMessage, decision: Decision) -> str:
        """Returns the key under which a refusal is posted once.

        A refusal is posted once per day and person, a rate limit once a minute, and the limit for bots once per day and
        thread.
        """
        who, day = f"{self._me.team}:{message.author.id}", tx.now // (24 * 3600 * SECOND)
        if decision.outcome is RoutingOutcome.BOT_CAPPED:
            return f"bot_capped:{self._me.team}:{message.channel}:{message.root_ts}:{day}"
        if decision.outcome is RoutingOutcome.RATE_LIMITED:
            return f"limited:{who}:{self._limited_since(tx, message)}"
        return f"refused:{who}:{day}"

    def _park(self, tx: Transaction, message: SlackMessage, thread: Thread | None) -> None:
        """Parks a message until Slack reports its author's standing. Until then the message is only context."""
        if thread:
            transcript.keep(tx, self._me.team, [message])
        early.park(tx, self._me.team, message)
        waits = Decision(outcome=RoutingOutcome.UNVERIFIED, reason="it waits until Slack identifies its author")
        self._note(tx, message, waits, thread)

    def _marked(self, message: SlackMessage) -> SlackMessage:
        """Returns the message in its stored form, with the author's standing in this channel."""
        standing = standing_in(message.author, self._operating_policy.policy(message.channel))
        return replace(message, author=replace(message.author, standing=standing))

    def _stop_latest(self, tx: Transaction, message: SlackMessage, decision: Decision) -> None:
        """Stops the latest run without opening a thread."""
        stopped = stop_latest(tx, self._me.team, message, self._operating_policy)
        if stopped:
            self._note(tx, message, decision, stopped)

    def _in_gap(self, tx: Transaction) -> bool:
        """Whether events were missed, so that the first message of a thread may arrive after its replies."""
        return watermarks.gap(tx, self._me.team) is not None

    def _if_unopened(
        self, tx: Transaction, message: SlackMessage, act: Callable[[Transaction, str, SlackMessage], None]
    ) -> Thread | None:
        """Stores or changes a reply in case its thread is opened later. Returns the thread if it has been opened."""
        early.lock(tx, self._me.team, message.channel, message.root_ts)
        thread = threads.at(tx, self._me.team, message.channel, message.root_ts)
        if thread is None:
            act(tx, self._me.team, message)
        return thread

    def _route_early(self, tx: Transaction, opening: SlackMessage, roster: Roster) -> None:
        """Routes replies that arrived before the message that opens the thread, as follow-ups."""
        for reply in early.take(tx, self._me.team, opening.channel, opening.root_ts):
            if reply.ts > opening.ts:
                known = replace(reply, author=self._standings.known(reply.author))
                self._posted(tx, known, roster, is_final=True)

    def _edited(self, tx: Transaction, event: MessageEdited, roster: Roster, *, is_final: bool = False) -> bool:
        """Applies an edit to unread messages, and notifies agents that are already working on them. Returns False as
        `_posted` does.
        """
        message, team = event.message, self._me.team
        if message.edited_ts is None or self._me.wrote(message.author):
            return True  # Slack unfurled a link, or the post is the swarm's own
        if forgotten.is_forgotten(tx, message.author.id, message.ts):
            return True
        adds_mention = names_swarm(message.own_text, self._me) and not names_swarm(event.previous_text or "", self._me)
        is_unsure = adds_mention and message.author.standing is None
        if is_unsure and not is_final:
            return False
        thread = threads.at(tx, team, message.channel, message.root_ts)
        if thread is None and not message.is_root:
            thread = self._if_unopened(tx, message, early.change)
        else:
            early.change(tx, team, message)  # the message may be waiting for its author
        stored = transcript.find(tx, team, message.channel, message.ts)
        if stored and (stored["deleted_at"] or (stored["edited_ts"] or "") > message.edited_ts):
            return True  # a late event with an outdated text
        inbox_messages = inbox.of_message_locked(tx, team, message.channel, message.ts)
        if thread or stored or names_swarm(message.own_text, self._me):
            transcript.keep(tx, team, [self._marked(message)])
        decision = self._decide(tx, message, thread, roster, Change.EDITED, routed=bool(inbox_messages))
        if stored and stored["text"] != message.text:
            erase_edited(tx, thread, stored, message.text, inbox_messages)
        if decision.outcome is RoutingOutcome.EDITED:
            if stored is None or stored["text"] != message.text:
                self._tell_of_edit(tx, message, inbox_messages)
        elif is_unsure:
            early.park(tx, team, message)
        elif adds_mention:
            self._route_edit(tx, message, thread, decision, roster)
        return True

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

    def _route_edit(
        self, tx: Transaction, message: SlackMessage, thread: Thread | None, decision: Decision, roster: Roster
    ) -> None:
        """Routes a message without recipients after an edit has added a mention."""
        if decision.targets or self._is_to_be_told(tx, message, decision):
            if thread is None:
                thread, _ = self._open(tx, message, message.edited_ts or message.ts, known_whole=False)
            transcript.route(tx, self._me.team, self._marked(message))
            self._act(tx, message, thread, decision, roster)

    def _deleted(self, tx: Transaction, event: MessageDeleted) -> None:
        """Withdraws the inbox messages of a deleted message, notifies the agents working on them, and erases stored
        copies.
        """
        team, root_ts = self._me.team, event.thread_ts or event.ts
        thread = threads.at(tx, team, event.channel, root_ts)
        if thread is None and event.thread_ts:
            early.lock(tx, team, event.channel, root_ts)
        early.drop(tx, team, event.channel, root_ts, event.ts)  # the message may wait for its thread or its author
        was = transcript.find(tx, team, event.channel, event.ts)
        if not transcript.mark_deleted(tx, team, event.channel, event.ts, event.thread_ts):
            return
        inbox_messages = inbox.of_message_locked(tx, team, event.channel, event.ts)
        if was:
            erase_deleted(tx, thread, was, inbox_messages)
        withdraw(tx, inbox_messages, "deleted in Slack")

    def _situation(
        self,
        tx: Transaction,
        message: SlackMessage,
        thread: Thread | None,
        roster: Roster,
        *,
        routed: bool = False,
    ) -> Situation:
        turns = 0
        if thread and message.author.kind == "bot":
            hour_ago = tx.now - 3600 * SECOND
            turns = transcript.bot_turns(tx, thread.team, thread.channel, thread.thread_ts, hour_ago)
        return Situation(
            me=self._me,
            policy=self._operating_policy.policy(message.channel),
            roster=roster,
            owner_id=thread.owner_id if thread else None,
            awaits_lead=thread is not None and thread.owner_id is None and inbox.awaits_lead(tx, thread.id),
            bot_turns=turns,
            routed=routed,
            can_stop=asks_to_stop(message.own_text) and can_stop(tx, self._me.team, message, thread),
        )

    def _open(
        self, tx: Transaction, message: SlackMessage, watermark_ts: str, *, known_whole: bool
    ) -> tuple[Thread, bool]:
        return threads.opened(
            tx,
            self._me.team,
            message.channel,
            message.root_ts,
            message.channel_type,
            watermark_ts=watermark_ts,
            known_whole=known_whole,
        )

    def _act(
        self,
        tx: Transaction,
        message: SlackMessage,
        thread: Thread,
        decision: Decision,
        roster: Roster,
        *,
        is_new: bool = False,
    ) -> None:
        """Carries out a decision: inbox messages, owner, 👀, and posts for people. In a new thread nothing is
        waiting.
        """
        self._note(tx, message, decision, thread)
        if decision.outcome is RoutingOutcome.STOP:
            stop_thread(tx, thread, message, self._operating_policy)
            return
        if decision.is_refusal:
            tell_refused(tx, thread, message, decision, self._told_key(tx, message, decision))
            return
        in_order = sorted(decision.targets, key=lambda target: target.agent_id or "")  # the lock order of queue heads
        if decision.new_owner_id:  # first, because messages are locked before queue heads
            hand_over(tx, thread, decision.new_owner_id, decision.reason)
        made = [self._address(tx, message, thread, target, decision.reason, is_new=is_new) for target in in_order]
        if not any(made):
            return
        if self._operating_policy.messages_per_minute is not None and _counts(tx, message):
            people.count(tx, self._me.team, message.author.id)
        show_stored(tx, thread, message.ts, self._operating_policy.reactions)
        tell_routed(tx, thread, message, decision, roster)

    def _address(
        self, tx: Transaction, message: SlackMessage, thread: Thread, target: Target, reason: str, *, is_new: bool
    ) -> bool:
        """Adds the message for one agent, together with the agent's task in this thread, if any.

        Returns whether the message is new to the agent.
        """
        asks = target.agent_id is not None and not is_new
        task = task_queries.active_in_thread(tx, target.agent_id or "", thread.id) if asks else None
        whole = thread.context is ContextState.COMPLETE
        if not whole:
            threads.want_whole(tx, thread)
        if asks and message.author.kind is AuthorKind.USER:
            answer(tx, thread)  # before the message and its queue head are created, in lock order
        inbox_message_id = inbox.add(
            tx,
            thread_id=thread.id,
            agent_id=target.agent_id,
            team=thread.team,
            channel=message.channel,
            ts=message.ts,
            matched_by=target.matched_by,
            reason=reason,
            wait_for_context_seconds=None if whole else CONTEXT_WAIT_SECONDS,
            task_id=task.id if task else None,
        )
        if inbox_message_id and asks:
            stored(tx, inbox_message_id, task)
        return inbox_message_id is not None

    def _note(self, tx: Transaction, message: SlackMessage, decision: Decision, thread: Thread | None) -> None:
        """Records the reason for ``explain``. If a message does not concern the swarm, nothing else is stored."""
        if decision.outcome is not RoutingOutcome.OWN:
            history.record(
                tx,
                f"route.{decision.outcome}",
                f"{message.channel}:{message.ts}",
                thread_id=thread.id if thread else None,
                reason=decision.reason,
            )


def _counts(tx: Transaction, message: SlackMessage) -> bool:
    """Whether a message counts towards its author's limit. A missed message was written earlier and does not count."""
    is_late = tx.now - slack_ts_to_us(message.ts) > LATE_SECONDS * SECOND
    return message.author.kind is AuthorKind.USER and not is_late


def _may_have_overtaken(message: SlackMessage) -> bool:
    """Whether this reply may have arrived before its thread's first message.

    Slack repeats an unacknowledged event for a little over six minutes.
    """
    return float(message.ts) - float(message.root_ts) < EARLY_SECONDS


def _edited_by(event: MessageEdited, author: Author) -> MessageEdited:
    return replace(event, message=replace(event.message, author=author))
