"""Who gets a message, and why: every row of the table, then what holds for all messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.access import Me
from swarm.domain.channel_policy import BOT_MESSAGES_PER_HOUR, ChannelPolicy, External, Listen
from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import MatchedBy
from swarm.domain.model.threads import STRANGERS, Author, AuthorKind, ChannelType, SlackMessage, Standing
from swarm.domain.roster import Candidate, Roster, addressed
from swarm.domain.routing import Change, Decision, RoutingOutcome, Situation, decide, names_swarm
from tests.support.every import every

pytestmark = pytest.mark.req("LOOP-11")

ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")
BOT = "<@UBOT>"
BOB = "<@U2>"


def agent(name: str, role: Role = Role.LEAD, *, online: bool = True) -> Candidate:
    return Candidate(id=f"id-{name}", name=name, role=role, online=online)


LEAD = agent("lead")
SPARE = agent("spare")
REV = agent("rev", Role.WORKER)
REV2 = agent("rev-2", Role.WORKER)
TEAM = Roster(agents=(LEAD, SPARE, REV, REV2))
NOBODY = Roster(agents=())


def asleep(*sleepers: Candidate) -> Roster:
    return Roster(agents=tuple(replace(one, online=one not in sleepers) for one in TEAM.agents))


def message(
    text: str = "hello",
    *,
    by: str = "U1",
    kind: AuthorKind = AuthorKind.USER,
    bot_id: str | None = None,
    standing: Standing | None = Standing.MEMBER,
    in_thread: bool = False,
    where: ChannelType = ChannelType.CHANNEL,
    subtype: str | None = None,
) -> SlackMessage:
    return SlackMessage(
        channel="C1",
        ts="1700000002.000100",
        thread_ts="1700000001.000100" if in_thread else None,
        author=Author(id=by, kind=kind, bot_id=bot_id, standing=standing),
        text=text,
        subtype=subtype,
        channel_type=where,
    )


def alert(text: str = "disk full", *, in_thread: bool = False) -> SlackMessage:
    return message(text, by="B1", kind=AuthorKind.BOT, bot_id="B1", in_thread=in_thread)


def situation(
    *,
    roster: Roster = TEAM,
    owner: Candidate | None = None,
    bot_turns: int = 0,
    routed: bool = False,
    can_stop: bool = False,
    policy: ChannelPolicy | None = None,
    repeats: str | None = None,
) -> Situation:
    return Situation(
        me=ME,
        policy=policy or ChannelPolicy(),
        roster=roster,
        owner_id=owner.id if owner else None,
        bot_turns=bot_turns,
        routed=routed,
        can_stop=can_stop,
        repeats=repeats,
    )


PAGER_ALLOWED = ChannelPolicy(allowed_bots=frozenset({"B1"}))
LISTENS_TO_BOTS = replace(PAGER_ALLOWED, listen=Listen.BOTS)
LISTENS_TO_ALL = ChannelPolicy(listen=Listen.ALL)
ALERTS = replace(PAGER_ALLOWED, listen=Listen.ALERTS, agent="rev")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A message in a situation, and what becomes of it. ``to`` names the agents, None one that is still to come."""

    message: SlackMessage
    outcome: RoutingOutcome
    situation: Situation = situation()  # noqa: RUF009 - frozen
    change: Change = Change.POSTED
    to: tuple[Candidate | None, ...] = ()
    matched_by: MatchedBy | None = None
    new_owner: Candidate | None = None
    because: str


ROWS = {
    # 1. never work
    "our own post by user id": Row(
        message=message(f"{BOT} hi", by="UBOT", kind=AuthorKind.BOT), outcome=RoutingOutcome.OWN, because="our own post"
    ),
    "our own post by bot id": Row(
        message=message("swarm#all", by="U9", kind=AuthorKind.BOT, bot_id="BBOT"),
        outcome=RoutingOutcome.OWN,
        because="our own post",
    ),
    "a delete": Row(
        message=message(f"{BOT} hi"), change=Change.DELETED, outcome=RoutingOutcome.DELETED, because="was deleted"
    ),
    "a join": Row(
        message=message(f"{BOT} has joined", subtype="channel_join"),
        outcome=RoutingOutcome.SYSTEM,
        because="channel_join",
    ),
    "an edit of what was routed": Row(
        message=message(f"{BOT} hi"),
        situation=situation(routed=True),
        change=Change.EDITED,
        outcome=RoutingOutcome.EDITED,
        because="routed before",
    ),
    "an edit that adds a mention": Row(
        message=message(f"{BOT} hi"),
        change=Change.EDITED,
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a channel that is switched off": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=ChannelPolicy(enabled=False)),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="switched off",
    ),
    "a person who is not on the list": Row(
        message=message("swarm#lead hi"),
        situation=situation(policy=ChannelPolicy(allowed_users=frozenset({"U2"}))),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the list of allowed users",
    ),
    "a guest": Row(
        message=message("swarm#lead hi", standing=Standing.GUEST),
        outcome=RoutingOutcome.STRANGER,
        because="guest of the workspace; strangers reach agents only in channels with external: allow",
    ),
    "somebody of another workspace, in a direct message": Row(
        message=message(where=ChannelType.DM, standing=Standing.EXTERNAL),
        outcome=RoutingOutcome.STRANGER,
        because="belongs to another workspace",
    ),
    "somebody whom Slack does not know, in an owned thread": Row(
        message=message(in_thread=True, standing=Standing.UNVERIFIED),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.STRANGER,
        because="does not say who this person is",
    ),
    "somebody of whom Slack has not said anything yet": Row(
        message=message("swarm#lead hi", standing=None), outcome=RoutingOutcome.UNVERIFIED, because="has not said yet"
    ),
    "a stranger where they are allowed": Row(
        message=message("swarm#spare hi", standing=Standing.EXTERNAL),
        situation=situation(policy=ChannelPolicy(external=External.ALLOW)),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="names swarm#spare",
    ),
    "a stranger who is allowed, but not on the list": Row(
        message=message("swarm#lead hi", standing=Standing.GUEST),
        situation=situation(policy=ChannelPolicy(external=External.ALLOW, allowed_users=frozenset({"U2"}))),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the list of allowed users",
    ),
    "a bot that nobody allowed": Row(
        message=alert(f"{BOT} hi"),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the channel's list of allowed bots",
    ),
    "a bot that has had its turns": Row(
        message=alert(f"{BOT} hi", in_thread=True),
        situation=situation(policy=PAGER_ALLOWED, bot_turns=BOT_MESSAGES_PER_HOUR),
        outcome=RoutingOutcome.BOT_CAPPED,
        because="10 messages per hour",
    ),
    "a bot that has had its turns by the channel's own limit": Row(
        message=alert(f"{BOT} hi", in_thread=True),
        situation=situation(policy=replace(PAGER_ALLOWED, bot_messages_per_hour=2), bot_turns=2),
        outcome=RoutingOutcome.BOT_CAPPED,
        because="2 messages per hour",
    ),
    "a bot's last turn": Row(
        message=alert(f"{BOT} hi", in_thread=True),
        situation=situation(policy=PAGER_ALLOWED, bot_turns=BOT_MESSAGES_PER_HOUR - 1),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a person where bots have had their turns": Row(
        message=message(f"{BOT} hi", in_thread=True),
        situation=situation(bot_turns=BOT_MESSAGES_PER_HOUR),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a stop where something runs": Row(
        message=message("!stop", in_thread=True),
        situation=situation(owner=LEAD, can_stop=True),
        outcome=RoutingOutcome.STOP,
        because="stops what runs here",
    ),
    "a stop in capitals that mentions the bot": Row(
        message=message(f" {BOT} !STOP ", in_thread=True),
        situation=situation(can_stop=True),
        outcome=RoutingOutcome.STOP,
        because="stops what runs here",
    ),
    "a stop at the top of a direct message": Row(
        message=message("!Stop", where=ChannelType.DM),
        situation=situation(can_stop=True),
        outcome=RoutingOutcome.STOP,
        because="stops what runs here",
    ),
    "a stop where nothing runs": Row(
        message=message("!stop", in_thread=True),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.STOP,
        because="nothing runs or waits here",
    ),
    "a stop that says more": Row(
        message=message("!stop it", in_thread=True),
        situation=situation(owner=SPARE, can_stop=True),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "a stop for one agent": Row(
        message=message("swarm#spare !stop", in_thread=True),
        situation=situation(owner=SPARE, can_stop=True),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare",
    ),
    "a stop that is meant for somebody else": Row(
        message=message(f"{BOB} !stop", in_thread=True),
        situation=situation(owner=SPARE, can_stop=True),
        outcome=RoutingOutcome.OTHERS_MENTIONED,
        because="mentions only somebody else",
    ),
    "a stop by who may not speak here": Row(
        message=message("!stop", in_thread=True),
        situation=situation(can_stop=True, policy=ChannelPolicy(allowed_users=frozenset({"U2"}))),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the list of allowed users",
    ),
    "a stop by a bot": Row(
        message=alert("!stop", in_thread=True),
        situation=situation(owner=SPARE, can_stop=True, policy=PAGER_ALLOWED),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "a message that becomes a stop by an edit": Row(
        message=message("!stop", in_thread=True),
        situation=situation(owner=SPARE, can_stop=True),
        change=Change.EDITED,
        outcome=RoutingOutcome.STOP,
        because="stops what runs here",
    ),
    # 3. an explicit address
    "one agent by name": Row(
        message=message("swarm#spare hi"),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare",
    ),
    **{
        f"one agent after a mention, {how}": Row(
            message=message(f"{text} hi"),
            outcome=RoutingOutcome.ADDRESS,
            to=(SPARE,),
            matched_by=MatchedBy.ADDRESS,
            new_owner=SPARE,
            because="swarm#spare",
        )
        for how, text in {
            "as it is typed": "@swarm#spare",
            "as Slack sends it": "<@UBOT>#spare",
            "with a label": "<@UBOT|swarm>#spare",
            "as a channel's name": "<@UBOT><#C9|spare>",
        }.items()
    },
    "an unknown agent after a mention": Row(
        message=message("<@UBOT>#helper hi"),
        outcome=RoutingOutcome.ADDRESS,
        to=(LEAD,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=LEAD,
        because="swarm#helper names no agent",
    ),
    "a number after the mention of somebody else": Row(
        message=message("<@U9>#spare and <@UBOT> #12"),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="it mentions the bot",
    ),
    "one agent by id": Row(
        message=message("swarm#id-spare hi"),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare",
    ),
    "another agent than the owner": Row(
        message=message("swarm#spare take over", in_thread=True),
        situation=situation(owner=LEAD),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare",
    ),
    "an agent that is offline, where the default lead is there": Row(
        message=message("swarm#rev hi"),
        situation=situation(roster=asleep(REV)),
        outcome=RoutingOutcome.ADDRESS,
        to=(LEAD,),
        matched_by=MatchedBy.READDRESSED,
        new_owner=LEAD,
        because="swarm#rev; rev is offline, so the default lead gets it",
    ),
    "an agent that is offline, in the thread of another": Row(
        message=message("swarm#rev hi", in_thread=True),
        situation=situation(roster=asleep(REV), owner=REV2),
        outcome=RoutingOutcome.ADDRESS,
        to=(LEAD,),
        matched_by=MatchedBy.READDRESSED,
        because="rev is offline",
    ),
    "an agent that is offline, and the lead beside it": Row(
        message=message("swarm#rev or swarm#lead hi"),
        situation=situation(roster=asleep(REV)),
        outcome=RoutingOutcome.ADDRESS,
        to=(LEAD,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=LEAD,
        because="rev is offline",
    ),
    "an agent that is offline like everybody": Row(
        message=message("swarm#rev hi"),
        situation=situation(roster=asleep(*TEAM.agents)),
        outcome=RoutingOutcome.ADDRESS,
        to=(REV,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=REV,
        because="swarm#rev",
    ),
    "two agents where nobody owns the thread": Row(
        message=message("swarm#spare and swarm#rev, please"),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE, REV),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare and swarm#rev",
    ),
    "two agents in an owned thread": Row(
        message=message("swarm#spare and swarm#rev, please", in_thread=True),
        situation=situation(owner=LEAD),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE, REV),
        matched_by=MatchedBy.ADDRESS,
        because="swarm#spare and swarm#rev",
    ),
    "one agent twice": Row(
        message=message("swarm#spare, yes swarm#spare"),
        outcome=RoutingOutcome.ADDRESS,
        to=(SPARE,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=SPARE,
        because="swarm#spare",
    ),
    "everybody": Row(
        message=message("swarm#all stand-up", in_thread=True),
        situation=situation(owner=LEAD),
        outcome=RoutingOutcome.BROADCAST,
        to=TEAM.agents,
        matched_by=MatchedBy.BROADCAST,
        because="every agent",
    ),
    "everybody where nobody is registered": Row(
        message=message("swarm#all stand-up"),
        situation=situation(roster=NOBODY),
        outcome=RoutingOutcome.ADDRESS,
        to=(None,),
        matched_by=MatchedBy.ADDRESS,
        because="no lead is registered",
    ),
    "a name that nobody has": Row(
        message=message("swarm#ghost hi"),
        outcome=RoutingOutcome.ADDRESS,
        to=(LEAD,),
        matched_by=MatchedBy.ADDRESS,
        new_owner=LEAD,
        because="swarm#ghost names no agent",
    ),
    # 4. the owner of the thread
    "a follow-up without a mention": Row(
        message=message(in_thread=True),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "a follow-up that mentions the bot": Row(
        message=message(f"{BOT} and {BOB}", in_thread=True),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "a follow-up that mentions only somebody else": Row(
        message=message(f"{BOB} look", in_thread=True),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.OTHERS_MENTIONED,
        because="mentions only somebody else",
    ),
    "a follow-up in a direct message that mentions somebody": Row(
        message=message(f"what did {BOB} say?", in_thread=True, where=ChannelType.DM),
        situation=situation(owner=SPARE),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "an owner that is offline": Row(
        message=message(in_thread=True),
        situation=situation(owner=SPARE, roster=asleep(SPARE)),
        outcome=RoutingOutcome.THREAD_OWNER_OFFLINE,
        to=(LEAD,),
        matched_by=MatchedBy.THREAD_OWNER_OFFLINE,
        because="spare owns the thread but is offline",
    ),
    "an owner that is offline like everybody": Row(
        message=message(in_thread=True),
        situation=situation(owner=SPARE, roster=asleep(*TEAM.agents)),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(SPARE,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="spare owns the thread",
    ),
    "an owner that is gone": Row(
        message=message(in_thread=True),
        situation=situation(owner=agent("former")),
        outcome=RoutingOutcome.THREAD_OWNER_OFFLINE,
        to=(LEAD,),
        matched_by=MatchedBy.THREAD_OWNER_OFFLINE,
        new_owner=LEAD,
        because="the owner of the thread is gone",
    ),
    "an owner that is gone like everybody": Row(
        message=message(in_thread=True),
        situation=situation(owner=agent("former"), roster=NOBODY),
        outcome=RoutingOutcome.THREAD_OWNER_OFFLINE,
        to=(None,),
        matched_by=MatchedBy.THREAD_OWNER_OFFLINE,
        because="the owner of the thread is gone",
    ),
    # 5. the listening mode
    "a root message where the channel listens to all": Row(
        message=message(),
        situation=situation(policy=LISTENS_TO_ALL),
        outcome=RoutingOutcome.CHANNEL_AGENT,
        to=(LEAD,),
        matched_by=MatchedBy.CHANNEL_AGENT,
        new_owner=LEAD,
        because="listens to every root message",
    ),
    "a reply where the channel listens to all": Row(
        message=message(in_thread=True),
        situation=situation(policy=LISTENS_TO_ALL),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a root message for somebody else where the channel listens to all": Row(
        message=message(f"{BOB} look"),
        situation=situation(policy=LISTENS_TO_ALL),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a mention where the channel listens to all": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=LISTENS_TO_ALL),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "an alert where the channel listens to bots": Row(
        message=alert(),
        situation=situation(policy=replace(LISTENS_TO_BOTS, agent="rev")),
        outcome=RoutingOutcome.ALERT,
        to=(REV,),
        matched_by=MatchedBy.ALERT,
        new_owner=REV,
        because="rev is the channel's agent",
    ),
    "a person's root message where the channel listens to bots": Row(
        message=message(),
        situation=situation(policy=LISTENS_TO_BOTS),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a person's mention where the channel listens to bots": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=LISTENS_TO_BOTS),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a channel's agent that is offline": Row(
        message=message(),
        situation=situation(policy=replace(LISTENS_TO_ALL, agent="rev"), roster=asleep(REV)),
        outcome=RoutingOutcome.CHANNEL_AGENT,
        to=(LEAD,),
        matched_by=MatchedBy.CHANNEL_AGENT,
        new_owner=LEAD,
        because="rev, the channel's agent, is offline, so the default lead gets it",
    ),
    "a forwarded message that mentions the bot": Row(
        message=replace(message(f"look\n> {BOT} swarm#spare"), quoted=f"> {BOT} swarm#spare"),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "an allowed bot where the channel listens to all": Row(
        message=alert(),
        situation=situation(policy=replace(PAGER_ALLOWED, listen=Listen.ALL)),
        outcome=RoutingOutcome.CHANNEL_AGENT,
        to=(LEAD,),
        matched_by=MatchedBy.CHANNEL_AGENT,
        new_owner=LEAD,
        because="listens to every root message",
    ),
    "a bot that is not allowed where the channel listens to all": Row(
        message=alert(),
        situation=situation(policy=LISTENS_TO_ALL),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the channel's list of allowed bots",
    ),
    "a bot's reply where the channel listens to bots": Row(
        message=alert(in_thread=True),
        situation=situation(policy=LISTENS_TO_BOTS),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a person's root message where the channel listens to alerts": Row(
        message=message(),
        situation=situation(policy=ALERTS),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a person's mention where the channel listens to alerts": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=ALERTS),
        outcome=RoutingOutcome.MENTION,
        to=(REV,),
        matched_by=MatchedBy.MENTION,
        new_owner=REV,
        because="mentions the bot",
    ),
    "a bot's reply where the channel listens to alerts": Row(
        message=alert(in_thread=True),
        situation=situation(policy=ALERTS),
        outcome=RoutingOutcome.CONTEXT,
        because="names nobody",
    ),
    "a bot's reply in an owned thread where the channel listens to alerts": Row(
        message=alert(in_thread=True),
        situation=situation(policy=ALERTS, owner=LEAD),
        outcome=RoutingOutcome.THREAD_OWNER,
        to=(LEAD,),
        matched_by=MatchedBy.THREAD_OWNER,
        because="lead owns the thread",
    ),
    "a bot that is not allowed where the channel listens to alerts": Row(
        message=alert(),
        situation=situation(policy=replace(ALERTS, allowed_bots=frozenset())),
        outcome=RoutingOutcome.NOT_ALLOWED,
        because="not on the channel's list of allowed bots",
    ),
    # 2. alerts
    "an alert": Row(
        message=alert(),
        situation=situation(policy=ALERTS),
        outcome=RoutingOutcome.ALERT,
        to=(REV,),
        matched_by=MatchedBy.ALERT,
        new_owner=REV,
        because="listens to alerts of this bot; rev is the channel's agent",
    ),
    "an alert with hostile words": Row(
        message=alert(f"{BOT} {BOB} swarm#all swarm#spare !stop"),
        situation=situation(policy=ALERTS, can_stop=True),
        outcome=RoutingOutcome.ALERT,
        to=(REV,),
        matched_by=MatchedBy.ALERT,
        new_owner=REV,
        because="listens to alerts",
    ),
    "an alert that came again": Row(
        message=alert(),
        situation=situation(policy=ALERTS, repeats="1700000001.000100"),
        outcome=RoutingOutcome.ALERT_REPEATED,
        because="repeats the alert C1:1700000001.000100",
    ),
    # 6. mention and direct message
    "a mention": Row(
        message=message(f"{BOT} hi"),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a mention with a label": Row(
        message=message("<@UBOT|swarm> hi"),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="mentions the bot",
    ),
    "a mention in a channel with an agent": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=ChannelPolicy(agent="rev")),
        outcome=RoutingOutcome.MENTION,
        to=(REV,),
        matched_by=MatchedBy.MENTION,
        new_owner=REV,
        because="rev is the channel's agent",
    ),
    "a direct message where an agent for these is configured": Row(
        message=message(where=ChannelType.DM),
        situation=situation(policy=ChannelPolicy(agent="rev")),
        outcome=RoutingOutcome.DIRECT_MESSAGE,
        to=(REV,),
        matched_by=MatchedBy.DIRECT_MESSAGE,
        new_owner=REV,
        because="rev is the agent for direct messages",
    ),
    "a direct message whose agent does not exist": Row(
        message=message(where=ChannelType.DM),
        situation=situation(policy=ChannelPolicy(agent="ghost")),
        outcome=RoutingOutcome.DIRECT_MESSAGE,
        to=(LEAD,),
        matched_by=MatchedBy.DIRECT_MESSAGE,
        new_owner=LEAD,
        because="'ghost', the agent for direct messages, does not exist",
    ),
    "a mention in a channel whose agent does not exist": Row(
        message=message(f"{BOT} hi"),
        situation=situation(policy=ChannelPolicy(agent="ghost")),
        outcome=RoutingOutcome.MENTION,
        to=(LEAD,),
        matched_by=MatchedBy.MENTION,
        new_owner=LEAD,
        because="'ghost', the channel's agent, does not exist",
    ),
    "a mention while the oldest lead is offline": Row(
        message=message(f"{BOT} hi"),
        situation=situation(roster=asleep(LEAD)),
        outcome=RoutingOutcome.MENTION,
        to=(SPARE,),
        matched_by=MatchedBy.MENTION,
        new_owner=SPARE,
        because="the default lead",
    ),
    "a mention where a default is configured": Row(
        message=message(f"{BOT} hi"),
        situation=situation(roster=replace(TEAM, default_name="spare")),
        outcome=RoutingOutcome.MENTION,
        to=(SPARE,),
        matched_by=MatchedBy.MENTION,
        new_owner=SPARE,
        because="the default lead",
    ),
    "a mention where nobody is registered": Row(
        message=message(f"{BOT} hi"),
        situation=situation(roster=NOBODY),
        outcome=RoutingOutcome.MENTION,
        to=(None,),
        matched_by=MatchedBy.MENTION,
        because="no lead is registered",
    ),
    "a direct message": Row(
        message=message(where=ChannelType.DM),
        outcome=RoutingOutcome.DIRECT_MESSAGE,
        to=(LEAD,),
        matched_by=MatchedBy.DIRECT_MESSAGE,
        new_owner=LEAD,
        because="direct message",
    ),
    "a message in a group": Row(
        message=message(where=ChannelType.GROUP), outcome=RoutingOutcome.CONTEXT, because="names nobody"
    ),
    "a file without a word in a direct message": Row(
        message=message("", where=ChannelType.DM, subtype="file_share"),
        outcome=RoutingOutcome.DIRECT_MESSAGE,
        to=(LEAD,),
        matched_by=MatchedBy.DIRECT_MESSAGE,
        new_owner=LEAD,
        because="direct message",
    ),
    # 7. context
    "people among themselves": Row(message=message(), outcome=RoutingOutcome.CONTEXT, because="names nobody"),
    "somebody else's mention": Row(
        message=message(f"{BOB} hi"), outcome=RoutingOutcome.CONTEXT, because="names nobody"
    ),
}


@every("row", ROWS.values(), ids=ROWS.keys())
def test_every_row_of_the_table(row: Row) -> None:
    decision = decide(row.message, row.situation, row.change)
    assert decision.outcome is row.outcome
    assert [target.agent_id for target in decision.targets] == [one.id if one else None for one in row.to]
    assert {target.matched_by for target in decision.targets} == ({row.matched_by} if row.matched_by else set())
    assert decision.new_owner_id == (row.new_owner.id if row.new_owner else None)
    assert row.because in decision.reason


def test_the_table_has_every_outcome_and_every_way_to_match() -> None:
    # Who has said too much is told from the database, see `Ingest`.
    assert {row.outcome for row in ROWS.values()} == set(RoutingOutcome) - {RoutingOutcome.RATE_LIMITED}
    assert {row.matched_by for row in ROWS.values()} == {None, *MatchedBy}


@every(
    ("text", "names"),
    [
        ("swarm#rev hi", ["rev"]),
        ("swarm#rev-2 hi", ["rev-2"]),
        ("swarm#rev-2.", ["rev-2"]),
        ("swarm#rev-2, and then?", ["rev-2"]),
        ("swarm#rev- hi", ["rev"]),
        ("swarm#rev-2-- hi", ["rev-2"]),
        ("(swarm#rev)", ["rev"]),
        ("swarm#rev: hi", ["rev"]),
        ("swarm#rev's turn", ["rev"]),
        ("SWARM#Rev-2!", ["rev-2"]),
        ("swarm#rev swarm#rev-2", ["rev", "rev-2"]),
        ("swarm#rev-3", []),
        ("swarm#revue", []),
        ("myswarm#rev", []),
        ("##swarm#rev", []),
        ("swarm #rev", []),
    ],
)
def test_an_address_is_the_longest_name_and_not_its_punctuation(text: str, names: list[str]) -> None:
    found, everybody, _ = addressed(text, TEAM)
    assert [one.name for one in found] == names
    assert not everybody


@pytest.mark.parametrize("text", ["swarm#all", "SWARM#ALL!", "hi swarm#all, all", "swarm#all-"])
def test_all_is_everybody(text: str) -> None:
    assert addressed(text, TEAM)[1]


def test_a_name_that_nobody_has_is_reported() -> None:
    assert addressed("swarm#ghost and swarm#rev", TEAM)[2] == ("ghost",)


# What holds for all messages

WORDS = st.sampled_from(
    [
        "hello",
        BOT,
        "<@UBOT|swarm>",
        BOB,
        "<@W3>",
        "swarm#lead",
        "swarm#rev-2",
        "swarm#ghost",
        "swarm#all",
        "swarm#",
        "é\n",
    ]
)
TEXTS = st.one_of(st.lists(WORDS, max_size=4).map(" ".join), st.text(max_size=30))
AUTHORS = st.sampled_from(
    [
        Author(id="U1", kind=AuthorKind.USER, standing=Standing.MEMBER),
        Author(id="U2", kind=AuthorKind.USER, standing=Standing.MEMBER),
        Author(id="U3", kind=AuthorKind.USER),
        Author(id="B1", kind=AuthorKind.BOT, bot_id="B1"),
        Author(id="B2", kind=AuthorKind.BOT, bot_id="B2"),
        Author(id="UBOT", kind=AuthorKind.BOT, bot_id="BBOT"),
        Author(id="BBOT", kind=AuthorKind.BOT),
    ]
)
MESSAGES = st.builds(
    lambda text, author, in_thread, where, subtype: replace(
        message(text, in_thread=in_thread, where=where, subtype=subtype), author=author
    ),
    TEXTS,
    AUTHORS,
    st.booleans(),
    st.sampled_from(ChannelType),
    st.sampled_from([None, None, "file_share", "thread_broadcast", "me_message", "bot_message", "channel_join"]),
)
POLICIES = st.builds(
    ChannelPolicy,
    agent=st.sampled_from([None, "rev", "ghost"]),
    enabled=st.sampled_from([True, True, True, False]),
    listen=st.sampled_from(Listen),
    allowed_users=st.sampled_from([None, frozenset({"U1"})]),
    allowed_bots=st.sampled_from([frozenset(), frozenset({"B1"})]),
)
ROSTERS = st.builds(
    lambda agents, default: Roster(agents=tuple(agents), default_name=default),
    st.lists(
        st.builds(replace, st.sampled_from(TEAM.agents), online=st.booleans()), unique_by=lambda one: one.id, max_size=4
    ),
    st.sampled_from([None, "lead", "ghost"]),
)
SITUATIONS = st.builds(
    Situation,
    me=st.just(ME),
    policy=POLICIES,
    roster=ROSTERS,
    owner_id=st.sampled_from([None, LEAD.id, REV.id, "id-former"]),
    bot_turns=st.integers(0, 12),
    routed=st.booleans(),
)


def is_heard(post: SlackMessage, known: Situation) -> bool:
    """The author may speak here, and speaks."""
    if ME.wrote(post.author) or post.subtype == "channel_join" or not known.policy.enabled:
        return False
    if post.author.kind is AuthorKind.BOT:
        return post.author.id in known.policy.allowed_bots and known.bot_turns < BOT_MESSAGES_PER_HOUR
    is_listed = known.policy.allowed_users is None or post.author.id in known.policy.allowed_users
    return is_listed and post.author.standing is Standing.MEMBER


def concerns_us(post: SlackMessage, known: Situation) -> bool:
    """It must reach an agent: it names the swarm, is a direct message, or continues an owned thread."""
    to_others = BOB in post.text or "<@W3>" in post.text
    return (
        names_swarm(post.text, ME)
        or post.channel_type is ChannelType.DM
        or (known.owner_id is not None and not to_others)
    )


@given(MESSAGES, SITUATIONS, st.sampled_from(Change))
def test_every_message_has_an_outcome_with_a_reason(post: SlackMessage, known: Situation, change: Change) -> None:
    decision = decide(post, known, change)
    assert decision.outcome in RoutingOutcome
    assert decision.reason.strip()
    assert len({target.agent_id for target in decision.targets}) == len(decision.targets)


@given(MESSAGES, SITUATIONS, st.sampled_from(Change), st.sampled_from([None, *STRANGERS]))
@pytest.mark.req("CHAN-11")
def test_a_stranger_reaches_no_agent_whatever_they_write_and_wherever(
    post: SlackMessage, known: Situation, change: Change, standing: Standing | None
) -> None:
    theirs = replace(post, author=Author(id="U1", kind=AuthorKind.USER, standing=standing))
    decision = decide(theirs, replace(known, can_stop=True), change)
    assert not decision.targets
    assert decision.outcome is not RoutingOutcome.STOP


@given(MESSAGES, SITUATIONS)
def test_what_concerns_the_swarm_is_never_dropped(post: SlackMessage, known: Situation) -> None:
    if is_heard(post, known) and concerns_us(post, known):
        assert decide(post, known).targets


@given(MESSAGES, SITUATIONS)
def test_where_nobody_listens_nothing_else_is_taken(post: SlackMessage, known: Situation) -> None:
    known = replace(known, policy=replace(known.policy, listen=Listen.MENTION))
    if not is_heard(post, known) or not concerns_us(post, known):
        assert not decide(post, known).targets


@given(MESSAGES, SITUATIONS, st.sampled_from(Change))
def test_own_posts_never_trigger(post: SlackMessage, known: Situation, change: Change) -> None:
    own = replace(post, author=Author(id="UBOT", kind=AuthorKind.BOT, bot_id="BBOT"))
    assert decide(own, known, change) == Decision(outcome=RoutingOutcome.OWN, reason="our own post")


@given(MESSAGES, SITUATIONS)
def test_naming_all_never_changes_the_owner_of_a_thread(post: SlackMessage, known: Situation) -> None:
    known = replace(known, owner_id=LEAD.id)
    assert decide(replace(post, text=f"{post.text} swarm#all"), known).new_owner_id is None


@given(MESSAGES, SITUATIONS)
def test_a_new_owner_is_one_of_those_who_get_the_message(post: SlackMessage, known: Situation) -> None:
    decision = decide(post, known)
    if decision.new_owner_id is not None:
        assert decision.new_owner_id in {target.agent_id for target in decision.targets}


# Channels with ``overthink``


QA = ChannelPolicy(listen=Listen.ALL, overthink=True)


@pytest.mark.req("CHAN-02")
@pytest.mark.parametrize(
    ("text", "situation", "silent", "asks"),
    [
        ("how?", {"policy": QA}, True, False),
        ("how?", {"policy": ChannelPolicy(listen=Listen.ALL)}, False, False),
        (f"{BOT} how?", {"policy": QA}, False, False),
        ("swarm#rev how?", {"policy": QA}, False, False),
        ("how?", {"policy": QA, "owner_id": LEAD.id}, False, False),  # somebody was answered there
        ("how?", {"policy": QA, "owner_id": LEAD.id, "is_silent": True}, True, False),
        ("how?", {"policy": ChannelPolicy(), "owner_id": LEAD.id, "is_silent": True}, True, False),
        (f"{BOT} how?", {"policy": QA, "owner_id": LEAD.id, "is_silent": True}, False, True),
        ("swarm#rev how?", {"policy": QA, "owner_id": LEAD.id, "is_silent": True}, False, True),
        ("swarm#all how?", {"policy": QA, "is_silent": True}, False, True),
    ],
)
def test_only_what_nobody_has_asked_is_silent(text: str, situation: dict[str, Any], silent: bool, asks: bool) -> None:
    found = decide(message(text), Situation(me=ME, roster=TEAM, **situation))
    assert (bool(found.targets), found.silent, found.asks) == (True, silent, asks)
    assert found.reason.endswith("(overthink)") is silent


@pytest.mark.req("CHAN-02", "CHAN-11")
def test_who_is_refused_is_told_so_only_if_they_have_asked() -> None:
    situation = Situation(me=ME, policy=QA, roster=TEAM)
    by_guest = [message(text, standing=Standing.GUEST) for text in ("how?", f"{BOT} how?")]
    assert [decide(one, situation).is_refusal for one in by_guest] == [False, True]
    by_bots = [message(text, by="B9", kind=AuthorKind.BOT, bot_id="B9") for text in ("disk full", f"{BOT} disk full")]
    loud = ChannelPolicy(listen=Listen.BOTS, overthink=True, allowed_bots=frozenset({"B9"}))
    capped = Situation(me=ME, policy=loud, roster=TEAM, bot_turns=BOT_MESSAGES_PER_HOUR)
    assert [decide(one, capped).is_refusal for one in by_bots] == [False, True]
    unknown = decide(message("how?", standing=None), situation)
    assert (unknown.outcome, unknown.is_work) == (RoutingOutcome.UNVERIFIED, True)  # so Slack is asked who it is
