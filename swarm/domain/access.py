"""Access rules: who may use the swarm and where, and a person's standing. Every entry point uses these rules.

The rules fail closed: an author not known to be a member counts as a stranger. Slack's event itself marks people of
other workspaces, unless the app's workspace belongs to an Enterprise Grid organisation; then only ``users.info``
distinguishes colleagues in a sister workspace from strangers. Guests are always identified by ``users.info``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.channel_policy import ChannelPolicy, External
from swarm.domain.model.agents import Agent, Role, check_name
from swarm.domain.model.threads import Author, AuthorKind, Standing

OPERATOR: Final = "operator"
"""The operator's name as a caller; no calling agent may have this name."""

GROUPS: Final = {"leads": Role.LEAD, "workers": Role.WORKER}
"""Words in a list of callers that stand for all agents of a role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerPolicy:
    """The callers that a built-in agent permits over AG-UI."""

    callers: frozenset[str] = frozenset({OPERATOR})  # groups and agents' names
    reaches_host: bool = True  # its tools reach the host, the operator's documents or MCP servers
    tool_details: bool = False  # callers see the arguments and results of its tool calls

    def allows(self, caller: Agent | None) -> bool:
        """Whether this agent may call. For the operator, who always may, ``caller`` is None.

        Enrolled workers never reach the host, even if listed, because the owner of an enrolment key chooses their
        names.
        """
        if caller is None:
            return True
        if caller.enrolled and self.reaches_host:
            return False
        by_role = any(caller.role is role for group, role in GROUPS.items() if group in self.callers)
        return by_role or caller.name in self.callers - GROUPS.keys()


def check_callers(callers: Collection[str]) -> None:
    """Raises Invalid for a word that is neither a group nor a valid agent name."""
    for caller in callers:
        if caller != OPERATOR and caller not in GROUPS:
            check_name(caller)


_STRANGERS: Final[Mapping[Standing | None, str]] = {
    Standing.GUEST: "this person is a guest of the workspace",
    Standing.EXTERNAL: "this person belongs to another workspace",
    Standing.UNVERIFIED: "Slack does not say who this person is, or the account is deactivated",
    None: "Slack has not said yet who this person is",
}
_HOW_TO_ALLOW: Final = "strangers reach agents only in channels with external: allow"


def denial(author: Author, policy: ChannelPolicy) -> str | None:
    """Returns the reason why this author may not use the swarm under this policy; None if allowed."""
    if not policy.enabled:
        return "the channel is switched off"
    if author.kind is AuthorKind.BOT:
        known_as = {author.id, author.bot_id}
        return None if known_as & policy.allowed_bots else "this bot is not on the channel's list of allowed bots"
    if author.standing in _STRANGERS and policy.external is not External.ALLOW:
        return f"{_STRANGERS[author.standing]}; {_HOW_TO_ALLOW}"
    if policy.allowed_users is not None and author.id not in policy.allowed_users:
        return "this person is not on the list of allowed users"
    return None


def standing_in(author: Author, policy: ChannelPolicy) -> Standing:
    """Returns the standing that marks this author's messages in a channel with this policy."""
    if author.kind is AuthorKind.AGENT:
        return Standing.MEMBER
    if author.kind is AuthorKind.USER and author.standing is not Standing.MEMBER:
        return author.standing or Standing.UNVERIFIED
    return Standing.NOT_ALLOWED if policy.enabled and denial(author, policy) else Standing.MEMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class Me:
    """The app's own identity in Slack, from ``auth.test``."""

    team: str
    user_id: str
    bot_id: str
    url: str = ""  # the workspace's URL, for permalinks
    enterprise: str = ""  # the Enterprise Grid organisation's id; empty: the workspace belongs to none

    @property
    def homes(self) -> frozenset[str]:
        """The ids of the workspace and organisation of colleagues. In an organisation-wide installation, ``team`` is
        the organisation's id.
        """
        return frozenset(filter(None, (self.team, self.enterprise)))

    def link(self, channel: str, ts: str, thread_ts: str | None = None) -> str:
        """Returns the permalink of a message; with ``thread_ts``, of a reply."""
        reply = f"?thread_ts={thread_ts}&cid={channel}" if thread_ts and thread_ts != ts else ""
        return f"{self.url.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}{reply}"

    def wrote(self, author: Author) -> bool:
        return author.id in (self.user_id, self.bot_id) or author.bot_id == self.bot_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A user as described by ``users.info``."""

    id: str
    name: str  # the display name, or the id if there is none
    email: str | None = None  # needs the scope users:read.email
    teams: tuple[str, ...] = ()  # the user's workspaces and organisation
    is_guest: bool = False
    is_stranger: bool = False  # known only through a shared channel, according to Slack
    is_known: bool = True  # False: no such user, hidden from the app, or a deactivated account


def standing_by_event(author: Author, me: Me) -> Standing | None:
    """Returns the standing that follows from the event alone; None if Slack must be asked.

    Bots are judged only by the channels' lists.
    """
    if author.kind is not AuthorKind.USER:
        return Standing.MEMBER
    is_foreign = bool(set(author.teams) - me.homes)
    return Standing.EXTERNAL if is_foreign and not me.enterprise else None


def standing_of(person: Person, me: Me) -> Standing:
    """Returns a person's standing according to Slack's response."""
    if not person.is_known or not person.teams:
        return Standing.UNVERIFIED
    if person.is_stranger or not me.homes & set(person.teams):
        return Standing.EXTERNAL
    return Standing.GUEST if person.is_guest else Standing.MEMBER
