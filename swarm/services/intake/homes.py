"""The Home tabs of people: published when opened, and again when the person's own work changes.

Who may act: every process, for the events it receives. What is guaranteed: a tab is published at most once in
`PACE_SECONDS` for each person, and only for `WATCHED_SECONDS` after it was opened; the work of all people is read
together, and only if anything has changed. What happens on failure: the tab stays as it was, and is published with the
next round; after a restart, when it is opened again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from swarm.domain.commands import HomeContent, HomeOpened
from swarm.domain.model.threads import Author
from swarm.domain.policy.access import Me
from swarm.domain.policy.decision_rules import GroupMembers, is_named
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import HomePublisher, UserGroups
from swarm.domain.slack_check import sentences
from swarm.services.operate.open_work import (
    decisions_wanted,
    open_requests,
    own_messages,
    own_tasks,
    team,
    usable,
)
from swarm.services.speaking.participants import Standings, why_refused_here
from swarm.store import history
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

WATCHED_SECONDS: Final = 600.0
PACE_SECONDS: Final = 3.0
RECHECK_SECONDS: Final = 30.0
"""How soon the tabs are read again although nothing was recorded: agents come and go, and Slack answers late."""

MOST_WATCHED: Final = 500

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True, slots=True)
class _Tab:
    """The Home tab of one person. Times are in seconds of the monotonic clock."""

    channel: str
    watched_until: float
    is_wanted: bool = True  # opened, and not published since
    published_at: float = float("-inf")
    shown: HomeContent | None = None

    def is_due(self, now: float) -> bool:
        return now - self.published_at >= PACE_SECONDS


class HomeTabs:
    """The Home tabs that were opened recently at this process."""

    def __init__(
        self,
        database: Database,
        slack: HomePublisher,
        me: Me,
        operating_policy: OperatingPolicy,
        standings: Standings,
        groups: UserGroups,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._operating_policy = operating_policy
        self._standings = standings
        self._groups = groups
        self._monotonic = monotonic
        self._tabs: dict[str, _Tab] = {}
        self._opened = asyncio.Event()
        self._seen = -1  # the last change that all tabs have been compared with
        self._recheck_at = float("-inf")

    def opened(self, opened: HomeOpened) -> None:
        """Publishes the tab soon, and watches the person's work for some time."""
        until = self._monotonic() + WATCHED_SECONDS
        tab = self._tabs.pop(opened.user_id, None) or _Tab(channel=opened.channel, watched_until=until)
        tab.channel, tab.watched_until, tab.is_wanted = opened.channel, until, True
        self._tabs[opened.user_id] = tab  # the last one, so that the first is the one opened longest ago
        if len(self._tabs) > MOST_WATCHED:
            del self._tabs[next(iter(self._tabs))]
        self._opened.set()

    async def run(self) -> None:
        """Publishes until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PACE_SECONDS if self._tabs else None):
                    await self._opened.wait()
            self._opened.clear()
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001  a tab that is not shown must not end the process
                _log.exception("Home tabs were not published.", action="home_failed")

    async def refresh(self) -> None:
        """Publishes the tabs that were opened or whose work has changed. Raises Unavailable without the database."""
        now = self._monotonic()
        self._tabs = {person: tab for person, tab in self._tabs.items() if tab.watched_until > now}
        latest = await self._database.read(history.latest) if self._tabs else self._seen
        is_changed = latest != self._seen or now >= self._recheck_at
        due = {one: tab for one, tab in self._tabs.items() if tab.is_due(now) and (tab.is_wanted or is_changed)}
        if not due:
            return
        contents = await self._contents(due)
        if is_changed and len(due) == len(self._tabs):
            self._seen, self._recheck_at = latest, now + RECHECK_SECONDS
        for person in sorted(due, key=lambda one: not due[one].is_wanted):  # people who wait come first
            await self._publish(person, due[person], contents[person])

    async def _publish(self, person: str, tab: _Tab, content: HomeContent) -> None:
        if not tab.is_wanted and tab.shown and _work_of(tab.shown) == _work_of(content):
            return
        was_wanted, tab.is_wanted = tab.is_wanted, False  # it may be opened again during the call
        tab.published_at = self._monotonic()
        if await self._slack.publish_home(person, content):
            tab.shown = content
        else:
            tab.is_wanted = tab.is_wanted or was_wanted

    async def _contents(self, due: Mapping[str, _Tab]) -> dict[str, HomeContent]:
        limited = self._operating_policy.agent_access
        asking = (self._standings.presser(person, None, tab.channel, limited) for person, tab in due.items())
        found = await asyncio.gather(*asking)
        asked = [one.policy for one in await self._database.read(open_requests)]
        operators = self._operating_policy.book.current.operators
        groups = sorted({group for policy in (*asked, operators) for group in policy.groups})
        members = await asyncio.gather(*(self._groups.group_members(group) for group in groups))
        people = dict(zip(due, found, strict=True))
        return await self._database.read(self._read, people, due, dict(zip(groups, members, strict=True)).get)

    def _read(
        self, tx: Transaction, people: Mapping[str, Author], due: Mapping[str, _Tab], members: GroupMembers
    ) -> dict[str, HomeContent]:
        refused = {
            one: reason
            for one, person in people.items()
            if (reason := why_refused_here(person, due[one].channel, self._operating_policy))
        }
        allowed = people.keys() - refused.keys()
        work = sorted(
            [*own_messages(tx, allowed, self._me), *own_tasks(tx, allowed, self._me)], key=lambda one: one.since
        )
        book = self._operating_policy.book
        asked, agents = open_requests(tx), team(tx, self._operating_policy)
        contents = {one: HomeContent(refused=reason) for one, reason in refused.items()}
        for one in allowed:
            contents[one] = HomeContent(
                work=tuple(piece for piece in work if piece.requester == one),
                decisions=tuple(decisions_wanted(tx, asked, one, members, self._me)),
                mistakes=sentences(book.findings) if is_named(book.current.operators, one, members) else (),
                agents=usable(agents, people[one], due[one].channel, self._operating_policy),
            )
        return contents


def _work_of(content: HomeContent) -> tuple[object, ...]:
    """Returns what a tab is published anew for. Presence and load of agents change all the time."""
    return replace(content, agents=()), tuple(agent.name for agent in content.agents)
