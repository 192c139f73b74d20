"""The beginning of a conversation with the app: a greeting, and prompts to choose from.

Who may act: a person who may use the swarm in the direct message; others see nothing until they ask. What is
guaranteed: an event counts once, and a pane or a direct message is greeted once, however often it is opened. Greeting
and prompts are deliveries, so they survive a restart. What happens on failure: a call that Slack refuses has no other
effect.

In the Messages tab of an app that is an agent, prompts belong to the tab; in the older assistant pane they belong to a
thread. A direct message with such panes gets no greeting outside of them, although Slack may report its Messages tab.
"""

from __future__ import annotations

from typing import Final

import orjson

from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.threads import FLAT, Author, ChannelType, Thread
from swarm.domain.policy.channels import SUGGESTED_PROMPTS, SuggestedPrompt
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Candidate, Roster
from swarm.domain.requests.button_actions import PaneOpened
from swarm.domain.routing import answering
from swarm.domain.text.slack_text import safe
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.speaking.system_messages import greeting_key
from swarm.store import deliveries, idempotency_keys
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads
from swarm.store.threads.threads import NewThread

GREETING: Final = "Hi, I am {agent}. Write to me here, and I will answer as soon as I can."
GREETING_OF_NOBODY: Final = "Hi. Write to me here, and an agent of the team will answer as soon as one is available."


class Panes:
    """The handler of opened panes. Methods return after the commit; an error means that nothing has changed."""

    def __init__(
        self, database: Database, operating_policy: OperatingPolicy, team: str, standings: Standings, rosters: Rosters
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._team = team
        self._standings = standings
        self._rosters = rosters

    async def opened(self, pane: PaneOpened) -> None:
        """Greets the person and suggests prompts, if the person may use the swarm."""
        person = await self._standings.presser(pane.user_id, None, pane.channel)
        await self._database.write(self._opened, pane, person, await self._rosters.current())

    def _opened(self, tx: Transaction, pane: PaneOpened, person: Author, roster: Roster) -> None:
        policy = self._operating_policy.policy(pane.channel)
        if self._operating_policy.denial(person, pane.channel) or not idempotency_keys.record(tx, pane.key):
            return
        panes_key = f"panes:{self._team}:{pane.channel}"
        has_panes = deliveries.is_wanted(tx, panes_key)
        if has_panes and pane.thread_ts == FLAT:
            return
        thread = self._thread(tx, pane)
        agent = roster.by_id(thread.owner_id) or answering(policy, roster)
        if not pane.is_change:
            greeting = policy.greeting or (GREETING.format(agent=agent.name) if agent else GREETING_OF_NOBODY)
            key = greeting_key(thread)
            deliveries.add(tx, DeliveryKind.POST, thread, text=safe(greeting), idempotency_key=key)
        prompts = [{"title": one.title, "message": one.message} for one in self._prompts(pane, agent)]
        is_first_pane = pane.thread_ts != FLAT and not has_panes
        deliveries.add(
            tx,
            DeliveryKind.PROMPTS,
            thread,
            text=orjson.dumps(prompts).decode(),
            idempotency_key=panes_key if is_first_pane else None,
        )

    def _thread(self, tx: Transaction, pane: PaneOpened) -> Thread:
        new = NewThread(
            channel=pane.channel,
            thread_ts=pane.thread_ts,
            channel_type=ChannelType.DM,
            watermark_ts=pane.event_ts,
            # In a new pane, nobody has written yet; outside of threads, only a flat conversation is read.
            known_whole=pane.thread_ts != FLAT or not self._operating_policy.is_flat(pane.channel),
        )
        place = (pane.channel, pane.thread_ts)
        opened = threads.open_all(tx, self._team, [new]).get(place)
        return opened or threads.all_at(tx, self._team, [place])[place]

    def _prompts(self, pane: PaneOpened, agent: Candidate | None) -> tuple[SuggestedPrompt, ...]:
        """Returns the prompts of the channel that the person views, of the direct message, or of the agent."""
        viewed = self._operating_policy.policy(pane.viewing).suggested_prompts if pane.viewing else ()
        own = self._operating_policy.policy(pane.channel).suggested_prompts
        agents = self._operating_policy.book.current.agent_prompts
        return viewed or own or agents.get(agent.name if agent else "", ()) or SUGGESTED_PROMPTS
