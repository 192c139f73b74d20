"""Access rules: who may use the swarm and where, and a person's standing. Every entry point uses these rules.

The rules fail closed: an author not known to be a member counts as a stranger. Slack's event itself marks people of
other workspaces, unless the app's workspace belongs to an Enterprise Grid organisation; then only ``users.info``
distinguishes colleagues in a sister workspace from strangers. Guests are always identified by ``users.info``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from swarm.domain.model.agents import Agent, Role, check_name
from swarm.domain.model.threads import Author, AuthorKind, Standing, permalink
from swarm.domain.policy.channels import EVERYONE, ChannelPolicy, External, PeopleLists

OPERATOR: Final = "operator"
"""The operator's name as a caller; no calling agent may have this name."""

ANY_BOT: Final = "*"
"""The entry in a list of allowed bots that allows all bots."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingFacts:
    """What Slack has to be asked about a person before it is decided what the person may use."""

    standing: bool = False
    groups: frozenset[str] = frozenset()  # ids of user groups
    domain: bool = False

    def __bool__(self) -> bool:
        return self.standing or self.domain or bool(self.groups)

    def __or__(self, other: MissingFacts) -> MissingFacts:
        return MissingFacts(
            standing=self.standing or other.standing,
            groups=self.groups | other.groups,
            domain=self.domain or other.domain,
        )


NOTHING_MISSING: Final = MissingFacts()
STANDING_MISSING: Final = MissingFacts(standing=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentAccess:
    """The operator's limits on the use of one agent."""

    name: str
    people: PeopleLists = EVERYONE
    channels: frozenset[str] | None = None  # channel ids; None: all channels and direct messages


class DeniedBy(StrEnum):
    """The rule behind a denial."""

    SWITCH = "switch"  # the channel is switched off
    BOTS = "bots"  # the channel's list of bots
    STANDING = "standing"
    CHANNEL = "channel"  # the channel's lists of people
    AGENT = "agent"  # the agent's lists of people
    PLACE = "place"  # the agent's list of channels


@dataclass(frozen=True, kw_only=True, slots=True)
class Denial:
    """Why an author may not use the swarm, or one of its agents. With ``missing``, this is not decided yet."""

    by: DeniedBy
    reason: str  # about the author, for ``swarm explain``
    agent: str = ""  # the agent's name
    missing: MissingFacts = NOTHING_MISSING

    def scope(self, channel: str) -> str:
        """Returns what the denial holds for: one person is told of one scope once a day."""
        place = channel if self.by in (DeniedBy.CHANNEL, DeniedBy.PLACE) else ""
        return ":".join(filter(None, (self.agent, place)))


def denial(author: Author, policy: ChannelPolicy) -> Denial | None:
    """Returns why this author may not use the swarm under this policy; None if allowed."""
    if not policy.enabled:
        return Denial(by=DeniedBy.SWITCH, reason="the channel is switched off")
    if author.kind is AuthorKind.BOT:
        if {author.id, author.bot_id, ANY_BOT} & policy.allowed_bots:
            return None
        return Denial(by=DeniedBy.BOTS, reason="this bot is not on the channel's list of allowed bots")
    missing = _off_the_lists(author, policy.people)
    if author.standing in _STRANGERS and policy.external is not External.ALLOW:
        reason = f"{_STRANGERS[author.standing]}; {_HOW_TO_ALLOW}"
        unknown = STANDING_MISSING | (missing or NOTHING_MISSING) if author.standing is None else NOTHING_MISSING
        return Denial(by=DeniedBy.STANDING, reason=reason, missing=unknown)
    if missing is None:
        return None
    return Denial(by=DeniedBy.CHANNEL, reason=_list_reason(author, policy.people, "the", missing), missing=missing)


def agent_denial(author: Author, agent: AgentAccess, channel: str) -> Denial | None:
    """Returns why this author may not use an agent in a channel that permits the author; None if allowed.

    For bots, only the agent's channels count.
    """
    if agent.channels is not None and channel not in agent.channels:
        reason = f"{agent.name} cannot be used in this channel (agents.access.{agent.name}.channels)"
        return Denial(by=DeniedBy.PLACE, reason=reason, agent=agent.name)
    missing = _off_the_lists(author, agent.people) if author.kind is AuthorKind.USER else None
    if missing is None:
        return None
    reason = _list_reason(author, agent.people, f"{agent.name}'s", missing)
    return Denial(by=DeniedBy.AGENT, reason=reason, agent=agent.name, missing=missing)


def may_use(agent: AgentAccess | None, author: Author, channel: str) -> bool:
    """Whether a person whom the channel permits may use an agent there. Without limits on the agent, everyone may."""
    return agent is None or agent_denial(author, agent, channel) is None


def first_denial(denials: Iterable[Denial | None]) -> Denial | None:
    """Returns the first denial that is decided, or else an undecided one with all that is missing; None: no denial."""
    found = [one for one in denials if one]
    decided = next((one for one in found if not one.missing), None)
    if decided or not found:
        return decided
    missing = NOTHING_MISSING
    for one in found:
        missing |= one.missing
    return replace(found[0], missing=missing)


def without(author: Author, missing: MissingFacts) -> Author:
    """Returns the author with the answer No to everything about lists that is missing."""
    facts = author.facts
    groups = {**facts.groups, **dict.fromkeys(missing.groups, False)}
    hidden = facts.hidden_groups | missing.groups
    domain = "" if missing.domain else facts.domain
    return replace(author, facts=replace(facts, groups=groups, hidden_groups=hidden, domain=domain))


def _off_the_lists(author: Author, lists: PeopleLists) -> MissingFacts | None:
    """Returns None if a person is on one of the lists, or if there are none; otherwise the facts that may still put
    the person on a list.
    """
    if lists is EVERYONE or not lists:
        return None
    facts, groups, domains = author.facts, lists.groups or frozenset(), lists.domains or frozenset()
    if author.id in (lists.users or ()) or facts.domain in domains:
        return None
    if any(facts.groups.get(group) for group in groups):
        return None
    return MissingFacts(groups=groups - facts.groups.keys(), domain=bool(domains) and facts.domain is None)


def _list_reason(author: Author, lists: PeopleLists, whose: str, missing: MissingFacts) -> str:
    kinds = {"users": lists.users, "user groups": lists.groups, "e-mail domains": lists.domains}
    names = " and ".join(kind for kind, entries in kinds.items() if entries is not None)
    if missing:
        return f"Slack has not said yet whether this person is on {whose} list of allowed {names}"
    reason = f"this person is not on {whose} list of allowed {names}"
    hidden = sorted((lists.groups or frozenset()) & author.facts.hidden_groups)
    if hidden:
        reason += f"; Slack does not show the members of {' and '.join(hidden)} (scope usergroups:read)"
    if lists.domains and author.facts.domain == "":
        reason += "; Slack shows no confirmed e-mail address of this person (scope users:read.email)"
    return reason


_REFUSED_STRANGERS: Final = {
    Standing.GUEST: "You are a guest of this workspace, and I only work for its members here",
    Standing.EXTERNAL: "You belong to another workspace, and I only work for members of this one here",
    Standing.UNVERIFIED: "Slack has not identified you, and I only work for members of this workspace here",
}
_REFUSED: Final = {
    DeniedBy.SWITCH: "I am switched off in this channel",
    DeniedBy.CHANNEL: "You cannot use me in this channel",
    DeniedBy.AGENT: "You cannot use {agent}",
    DeniedBy.PLACE: "{agent} cannot be used in this channel",
}
_ASK_OPERATOR: Final = "my operator can change that"
_ASK_ANYBODY: Final = f"ask a member of this channel to write to me; {_ASK_OPERATOR}"


def why_refused(denied: Denial, author: Author) -> str:
    """Returns the reason for a refusal and whom to ask, as one sentence addressed to the author."""
    stranger = _REFUSED_STRANGERS[Standing.UNVERIFIED]
    if author.standing:
        stranger = _REFUSED_STRANGERS.get(author.standing, stranger)
    reason = _REFUSED.get(denied.by, stranger).format(agent=denied.agent)
    ask = _ASK_ANYBODY if denied.by is DeniedBy.STANDING else _ASK_OPERATOR
    return f"{reason}; {ask}."


def why_press_refused(denied: Denial, person: Author) -> str:
    """Returns the reason why a person's press does nothing, as one sentence addressed to the person."""
    reason = why_refused(denied, person)
    return f"You may not do that here: {reason[0].lower()}{reason[1:]}"


def standing_in(author: Author, policy: ChannelPolicy) -> Standing:
    """Returns the standing that marks this author's messages in a channel with this policy."""
    if author.kind is AuthorKind.AGENT:
        return Standing.MEMBER
    if author.kind is AuthorKind.USER and author.standing is not Standing.MEMBER:
        return author.standing or Standing.UNVERIFIED
    denied = denial(author, policy) if policy.enabled else None
    if denied is None:
        return Standing.MEMBER
    return Standing.UNVERIFIED if denied.missing else Standing.NOT_ALLOWED


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
        """Returns the permalink of a message, or of a reply in a thread."""
        link = permalink(self.url, channel, ts)
        return link if not thread_ts or thread_ts == ts else f"{link}?thread_ts={thread_ts}&cid={channel}"

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
    is_confirmed: bool = True  # False: the person has not confirmed the e-mail address

    @property
    def domain(self) -> str:
        """The domain of the confirmed e-mail address, in lower case; empty if Slack shows none."""
        return self.email.rpartition("@")[2].lower() if self.email and self.is_confirmed else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """A user group as described by ``usergroups.users.list``."""

    members: frozenset[str] = frozenset()  # user ids
    is_shown: bool = True  # False: no such group, or hidden from the app, so nobody is known to belong to it


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
