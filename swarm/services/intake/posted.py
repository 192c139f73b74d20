"""Stores and routes posted messages. Concurrent messages form a set, which is routed by the same statements.

A thread's messages depend on each other: the nth message of each thread forms the nth wave of a set. A message that is
refused, or that stops runs, is routed alone after the others of its wave.

Storing is separate from routing: a history read may have stored a message before its event arrived. The transaction
that sets ``routed_at`` routes the message, so a message is routed once, however often and in whichever form Slack
reports it.

Lock order: the groups of alerts, the threads of all messages, the places of new threads, then tasks, messages and queue
heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.threads import (
    CONTEXT_WAIT_SECONDS,
    FLAT,
    AuthorKind,
    ChannelType,
    ContextState,
    Silence,
    SlackMessage,
    Standing,
)
from swarm.domain.policy.access import Me, MissingFacts, standing_in
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Roster
from swarm.domain.ports import UserGroups
from swarm.domain.routing import Change, Decision, RoutingOutcome
from swarm.services.intake.decisions import Decisions, Routing, counts
from swarm.services.outbox.alert_repeats import show_repeats
from swarm.services.requests.words import answer_in_words
from swarm.services.runs.run_control import stop_latest, stop_thread
from swarm.services.speaking.participants import Standings
from swarm.services.speaking.system_messages import give_title, show_answered, show_stored, tell_refused, tell_routed
from swarm.services.work.task_threads import answer, hand_over_all, stored
from swarm.store import history, requests, task_queries
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage, NewInboxMessage
from swarm.store.inbox.queues import Lane
from swarm.store.tasks import Task
from swarm.store.threads import alerts, early, people, threads, transcript, watermarks
from swarm.store.threads.threads import NewThread, Place

EARLY_SECONDS: Final = 600
"""A reply written this long after its thread's first message cannot have overtaken it."""

_ASKED: Final = "its author has mentioned the swarm after all"
_ANSWERABLE: Final = frozenset({InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.DISMISSED, InboxStatus.DEAD})

_CONTEXT: Final = frozenset({RoutingOutcome.CONTEXT, RoutingOutcome.STRANGER})


@dataclass(frozen=True, kw_only=True, slots=True)
class Posted:
    """A posted message. With ``is_final``, it is parked if needed facts about its author are missing."""

    message: SlackMessage
    roster: Roster
    is_final: bool = False


class PostedMessages:
    """The routing of posted messages in one workspace."""

    def __init__(self, me: Me, operating_policy: OperatingPolicy, standings: Standings, groups: UserGroups) -> None:
        self._groups = groups
        self.decisions = Decisions(me, operating_policy)
        self._me = me
        self._operating_policy = operating_policy
        self._standings = standings

    def route(self, tx: Transaction, posted: Sequence[Posted]) -> list[MissingFacts]:
        """Routes messages in order. Returns, for each message, what must be known about its author first; then routing
        had no effect.
        """
        messages = self.placed(tx, [new.message for new in posted])
        routings = [
            Routing(message=message, roster=new.roster, is_final=new.is_final, digest=self.decisions.digest(message))
            for message, new in zip(messages, posted, strict=True)
        ]
        if grouped := [(routing.message.channel, routing.digest) for routing in routings if routing.digest]:
            alerts.lock(tx, self._me.team, grouped)
        # Own posts are added to the transcript when they are sent.
        self._route_in_waves(tx, [found for found in routings if not self._me.wrote(found.message.author)])
        return [routing.missing for routing in routings]

    def placed(self, tx: Transaction, messages: Sequence[SlackMessage]) -> list[SlackMessage]:
        """Returns the messages with their conversation: direct messages outside threads may be flat.

        A message stays where it was stored first, even if the setting has changed.
        """
        outside = [one for one in messages if one.channel_type is ChannelType.DM and one.thread_ts is None]
        flat = self.flat_among(tx, [(one.channel, one.ts) for one in outside])
        return [replace(one, thread_ts=FLAT) if (one.channel, one.ts) in flat else one for one in messages]

    def flat_among(self, tx: Transaction, outside: Sequence[Place]) -> set[Place]:
        """Returns which messages outside threads, by channel and timestamp, belong to flat direct messages."""
        known = transcript.where(tx, self._me.team, outside)
        return {
            place
            for place in outside
            if (known[place] == FLAT if place in known else self._operating_policy.is_flat(place[0]))
        }

    def _route_in_waves(self, tx: Transaction, routings: Iterable[Routing]) -> None:
        waves: list[list[Routing]] = []
        next_wave: dict[tuple[str, str], int] = {}
        for routing in routings:
            keys = {routing.place, (routing.message.channel, routing.message.ts)}
            if self._operating_policy.messages_per_minute is not None:
                keys.add(("", routing.message.author.id))
            if routing.digest:
                keys.add((routing.message.channel, routing.digest))
            number = max(next_wave.get(key, 0) for key in keys)
            next_wave |= dict.fromkeys(keys, number + 1)
            waves += [[]] if number == len(waves) else []
            waves[number].append(routing)
        for wave in waves:
            self._route_wave(tx, wave)

    def _route_wave(self, tx: Transaction, wave: Sequence[Routing]) -> None:
        found = threads.all_at(tx, self._me.team, [routing.place for routing in wave])
        for routing in wave:
            routing.thread = found.get(routing.place)
        self.decisions.decide_all(tx, wave)
        self._keep_early(tx, wave)
        settled = self._settled(tx, wave)
        alone = [routing for routing in settled if routing.is_rare] if len(wave) > 1 else []
        self._route_together(tx, [routing for routing in settled if routing not in alone])
        for routing in alone:
            self._route_wave(tx, [routing])

    def _keep_early(self, tx: Transaction, wave: Sequence[Routing]) -> None:
        """Keeps replies that concern nobody yet, in case their thread is opened later."""
        replies = [
            routing
            for routing in wave
            if routing.thread is None
            and routing.decision.outcome in _CONTEXT
            and not routing.decision.is_work
            and not routing.message.is_root
        ]
        # While events are missing, the first message of a thread may arrive long after its replies.
        in_gap = not all(map(_may_have_overtaken, replies)) and watermarks.gap(tx, self._me.team) is not None
        unsure = [routing for routing in replies if in_gap or _may_have_overtaken(routing)]
        if not unsure:
            return
        places = [routing.place for routing in unsure]
        early.lock(tx, self._me.team, places)
        found = threads.all_at(tx, self._me.team, places)
        for routing in unsure:
            routing.thread = found.get(routing.place)
        early.keep(tx, self._me.team, [routing.message for routing in unsure if routing.thread is None])
        self.decisions.decide_all(tx, [routing for routing in unsure if routing.thread])

    def _settled(self, tx: Transaction, wave: Sequence[Routing]) -> list[Routing]:
        """Returns the messages that can be routed. The others need facts about their author first."""
        unsettled = [(routing, missing) for routing in wave if (missing := self.decisions.missing(routing))]
        for routing, missing in unsettled:
            if routing.is_final:
                self._park(tx, routing)
            else:
                routing.missing = missing
        waiting = [routing for routing, _ in unsettled]
        return [routing for routing in wave if routing not in waiting]

    def _park(self, tx: Transaction, routing: Routing) -> None:
        """Parks a message until Slack reports what is missing about its author. Until then the message is only
        context.
        """
        if routing.thread:
            transcript.keep(tx, self._me.team, [self.marked(routing.message)])
        early.park(tx, self._me.team, routing.message)
        reason = "it waits until Slack identifies its author"
        if routing.message.author.standing:
            reason = "it waits until Slack says whether its author is on a list of allowed people"
        routing.decision = Decision(outcome=RoutingOutcome.UNVERIFIED, reason=reason)
        _note(tx, [routing])

    def _route_together(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        team = self._me.team
        routings = self._without_known_repeats(tx, routings)
        self._open_new(
            tx,
            [
                routing
                for routing in routings
                if routing.thread is None and (routing.decision.targets or self.decisions.is_to_be_told(tx, routing))
            ],
        )
        tracked = [routing for routing in routings if routing.thread]
        untracked = [routing for routing in routings if routing.thread is None]
        for routing in untracked:
            if routing.decision.outcome is RoutingOutcome.STOP and not routing.decision.is_refusal:
                self._stop_latest(tx, routing)
        _note(tx, [routing for routing in untracked if routing.decision.outcome is not RoutingOutcome.STOP])
        first = transcript.route(tx, team, [self.marked(routing.message, routing.decision) for routing in tracked])
        routed = [routing for routing in tracked if (routing.message.channel, routing.message.ts) in first]
        threads.touch(tx, [routing.opened.id for routing in routed if not routing.is_new])
        self.act(tx, routed)
        self._route_early(tx, [routing for routing in routed if routing.is_new])

    def _without_known_repeats(self, tx: Transaction, routings: Sequence[Routing]) -> Sequence[Routing]:
        """Counts repeated alerts, and shows the count in the thread of the first one. Returns the messages without
        repeats that were counted before.
        """
        known: list[Routing] = []
        for routing in routings:
            if routing.decision.outcome is not RoutingOutcome.ALERT_REPEATED or not routing.repeats:
                continue
            place = (self._me.team, routing.message.channel)
            if alerts.add(tx, *place, routing.message.ts, routing.digest or "", routing.repeats):
                show_repeats(tx, *place, routing.repeats)
            else:
                known.append(routing)
        return [routing for routing in routings if routing not in known]

    def _open_new(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        if routings:
            early.lock(tx, self._me.team, [routing.place for routing in routings])
            self.open(tx, routings)
            # Another process has opened these threads in the meantime.
            self.decisions.decide_all(tx, [routing for routing in routings if not routing.is_new])

    def open(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        """Opens the threads of messages, or finds the threads that others have opened."""
        new = threads.open_all(tx, self._me.team, map(_new_thread, routings))
        there = threads.all_at(tx, self._me.team, [found.place for found in routings if found.place not in new])
        for routing in routings:
            routing.is_new = routing.place in new
            routing.thread = (new if routing.is_new else there)[routing.place]

    def _stop_latest(self, tx: Transaction, routing: Routing) -> None:
        """Stops the latest run without opening a thread."""
        routing.thread = stop_latest(tx, self._me.team, routing.message, self._operating_policy)
        if routing.thread:
            _note(tx, [routing])

    def _route_early(self, tx: Transaction, openings: Sequence[Routing]) -> None:
        """Routes replies that arrived before the messages that open their threads, as follow-ups."""
        opening = {routing.place: routing for routing in openings}
        replies = [
            Routing(
                message=replace(reply, author=self._standings.known(reply.author, reply.channel)),
                roster=opening[reply.channel, reply.root_ts].roster,
                is_final=True,
            )
            for reply in early.take(tx, self._me.team, opening)
            if reply.ts > opening[reply.channel, reply.root_ts].message.ts
        ]
        self._route_in_waves(tx, replies)

    def marked(self, message: SlackMessage, decision: Decision | None = None) -> SlackMessage:
        """Returns the message in its stored form, with the author's standing in this channel. A message that its agent
        refuses is marked as not allowed as well.
        """
        standing = standing_in(message.author, self._operating_policy.policy(message.channel))
        if standing is Standing.MEMBER and decision and decision.denial and not decision.targets:
            standing = Standing.NOT_ALLOWED
        return replace(message, author=replace(message.author, standing=standing))

    def act(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        """Carries out decisions in open threads: inbox messages, owners, 👀, and posts for people."""
        _note(tx, routings)
        addressed: list[Routing] = []
        for routing in routings:
            if routing.decision.outcome is RoutingOutcome.STOP:
                stop_thread(tx, routing.opened, routing.message, self._operating_policy)
            elif routing.decision.is_refusal:
                key = self.decisions.told_key(tx, routing)
                tell_refused(tx, routing.opened, routing.message, routing.decision, key)
            else:
                addressed.append(routing)
        addressed = self._without_answers(tx, addressed)
        # First, because messages are locked before queue heads.
        owners = ((found.opened, found.decision.new_owner_id, found.decision.reason) for found in addressed)
        changed = [(thread, owner_id, reason) for thread, owner_id, reason in owners if owner_id]
        hand_over_all(tx, changed, self._operating_policy)
        self._ask(tx, addressed)
        made = self._address(tx, addressed)
        if self._operating_policy.messages_per_minute is not None:
            authors = [routing.message.author.id for routing in made if counts(tx, routing.message)]
            people.count(tx, self._me.team, authors)
        loud = [routing for routing in made if not routing.decision.silent]
        messages = [(routing.opened, routing.message.ts) for routing in loud]
        show_stored(tx, messages, self._operating_policy.reactions)
        for routing in addressed:
            if routing.digest and routing.decision.outcome is RoutingOutcome.ALERT:
                ts = routing.message.ts
                alerts.add(tx, self._me.team, routing.message.channel, ts, routing.digest, ts)
        for routing in loud:
            if routing.message.author.kind is AuthorKind.USER:
                give_title(tx, routing.opened, routing.message, is_first=routing.is_new)
            tell_routed(tx, routing.opened, routing.message, routing.decision, routing.roster)
            if routing.decision.denial:  # by one of several named agents
                key = self.decisions.told_key(tx, routing)
                tell_refused(tx, routing.opened, routing.message, routing.decision, key)

    def _ask(self, tx: Transaction, routings: Sequence[Routing]) -> None:
        """Ends the silence of threads in which somebody asks."""
        asked = [routing for routing in routings if routing.decision.asks and routing.opened.is_silent]
        threads.ask(tx, [routing.opened.id for routing in asked])
        for routing in asked:
            routing.thread = replace(routing.opened, silence=Silence.ASKED)

    def ask_after_all(self, tx: Transaction, routing: Routing, inbox_messages: Sequence[InboxMessage]) -> None:
        """Acts on a mention that an edit has added to a silent message: it is handed out again if it has ended."""
        silent = [message for message in inbox_messages if message.silent and message.status in _ANSWERABLE]
        if not silent or routing.message.author.standing is None:
            return
        threads.ask(tx, [routing.opened.id])
        thread = threads.locked(tx, routing.opened.id)
        if thread.owner_id is None and silent[0].agent_id:
            hand_over_all(tx, [(thread, silent[0].agent_id, _ASKED)], self._operating_policy)
        inbox.ask(tx, silent)
        for message in silent:
            inbox.move(tx, InboxStep.RETRY, message, reason=_ASKED)
        show_stored(tx, [(thread, routing.message.ts)], self._operating_policy.reactions)

    def _without_answers(self, tx: Transaction, routings: Sequence[Routing]) -> list[Routing]:
        """Returns the messages that do not answer an open request; the others get ✅ and go to no agent."""
        by_people = [found for found in routings if not found.is_new and found.message.author.kind is AuthorKind.USER]
        asked = requests.threads_with_open(tx, {found.opened.id for found in by_people})
        answers: list[Routing] = []
        for routing in (found for found in by_people if found.opened.id in asked):
            thread = threads.locked(tx, routing.opened.id)
            agent_ids = {target.agent_id for target in routing.decision.targets if target.agent_id}
            members, policy = self._groups.known_members, self._operating_policy
            request = answer_in_words(tx, thread, routing.message, agent_ids, members, policy)
            if request:
                reason = "it answers an open request"
                history.record(
                    tx, "route.answer", f"{routing.message.channel}:{routing.message.ts}", thread_id=thread.id,
                    agent_id=request.agent_id, reason=reason,
                )  # fmt: skip
                show_answered(tx, thread, routing.message.ts, policy.reactions)
                answers.append(routing)
        return [routing for routing in routings if routing not in answers]

    def _address(self, tx: Transaction, routings: Sequence[Routing]) -> list[Routing]:
        """Adds the messages for their agents, each together with the agent's task in the thread, if any.

        Returns the messages that are new to an agent. In a new thread nothing is waiting.
        """
        lanes = [
            (target.agent_id, routing.opened.id)
            for routing in routings
            for target in routing.decision.targets
            if target.agent_id and not routing.is_new
        ]
        working = task_queries.active_in_lanes(tx, lanes)
        wanted = {new.id: (routing, new) for routing in routings for new in self._inbox_messages(routing, working)}
        incomplete = {new.thread_id for _, new in wanted.values() if new.wait_for_context_seconds is not None}
        threads.want_whole(tx, sorted(incomplete))
        asked = {thread_id for _, thread_id in lanes}
        by_people = {found.opened.id for found in routings if found.message.author.kind is AuthorKind.USER}
        answer(tx, sorted(asked & by_people))  # before the messages and queue heads are created, in lock order
        added = inbox.add(tx, [new for _, new in wanted.values()])
        for new in added:
            stored(tx, new.id, working.get((new.agent_id or "", new.thread_id)))
        return list(dict.fromkeys(wanted[new.id][0] for new in added))

    def _inbox_messages(self, routing: Routing, working: Mapping[Lane, Task]) -> Iterator[NewInboxMessage]:
        thread, message = routing.opened, routing.message
        is_whole = thread.context is ContextState.COMPLETE
        is_alert = routing.decision.outcome is RoutingOutcome.ALERT
        text = self.decisions.text_for_agent(message) if is_alert else None
        for target in sorted(routing.decision.targets, key=lambda target: target.agent_id or ""):
            task = working.get((target.agent_id or "", thread.id))
            yield NewInboxMessage(
                thread_id=thread.id,
                agent_id=target.agent_id,
                team=thread.team,
                channel=message.channel,
                ts=message.ts,
                matched_by=target.matched_by,
                reason=routing.decision.reason,
                wait_for_context_seconds=None if is_whole else CONTEXT_WAIT_SECONDS,
                task_id=task.id if task else None,
                message=text,
                silent=routing.decision.silent,
            )


def _new_thread(routing: Routing) -> NewThread:
    message, is_edit = routing.message, routing.change is Change.EDITED
    return NewThread(
        channel=message.channel,
        thread_ts=message.root_ts,
        channel_type=message.channel_type,
        watermark_ts=(is_edit and message.edited_ts) or message.ts,
        known_whole=not is_edit and message.thread_ts is None and not message.has_replies,
        silence=Silence.SILENT if routing.decision.silent else None,
    )


def _note(tx: Transaction, routings: Iterable[Routing]) -> None:
    """Records the reasons for ``explain``. If a message does not concern the swarm, nothing else is stored."""
    changes = (
        history.HistoryChange(
            f"route.{routing.decision.outcome}",
            f"{routing.message.channel}:{routing.message.ts}",
            routing.thread.id if routing.thread else None,
            reason=routing.decision.reason,
        )
        for routing in routings
        if routing.decision.outcome is not RoutingOutcome.OWN
    )
    history.record_all(tx, list(changes))


def _may_have_overtaken(routing: Routing) -> bool:
    """Whether this reply may have arrived before its thread's first message.

    Slack repeats an unacknowledged event for a little over six minutes.
    """
    return float(routing.message.ts) - float(routing.message.root_ts) < EARLY_SECONDS
