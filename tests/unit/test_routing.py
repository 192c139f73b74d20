"""Who gets a message, and why: every row of the table, then what holds for all messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import MatchedBy
from swarm.domain.model.threads import STRANGERS, Author, AuthorKind, ChannelType, SlackMessage, Standing
from swarm.domain.policy.access import Me
from swarm.domain.policy.channels import BOT_MESSAGES_PER_HOUR, ChannelPolicy, External, Listen
from swarm.domain.policy.roster import Candidate, Roster, addressed
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


def reply(text: str = "hello", **more: Any) -> SlackMessage:
    return message(text, in_thread=True, **more)


def alert_reply(text: str = "disk full") -> SlackMessage:
    return alert(text, in_thread=True)


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
LISTENS_TO_BOTS = PAGER_ALLOWED.model_copy(update={"listen": Listen.BOTS})
LISTENS_TO_ALL = ChannelPolicy(listen=Listen.ALL)
ONLY_BOB = ChannelPolicy(allowed_users=frozenset({"U2"}))
REVS, GHOSTS = ChannelPolicy(agent="rev"), ChannelPolicy(agent="ghost")
MENTION = message(f"{BOT} hi")
ALERTS = PAGER_ALLOWED.model_copy(update={"listen": Listen.ALERTS, "agent": "rev"})


@dataclass(frozen=True)
class Row:
    """A message in a situation, and what becomes of it."""

    message: SlackMessage
    situation: Situation
    change: Change
    outcome: RoutingOutcome
    to: tuple[Candidate | None, ...]
    matches: set[MatchedBy]
    new_owner: Candidate | None
    because: str


def row(
    post: SlackMessage,
    outcome: str,
    because: str,
    *to: Candidate | None,
    keeps: bool = False,
    change: Change = Change.POSTED,
    matched_by: MatchedBy | None = None,
    **known: Any,
) -> Row:
    """``to`` names the agents, None one that is still to come; the first owns the thread from then on unless it
    ``keeps`` its owner. The rule that matches is called as the outcome unless ``matched_by`` says otherwise.
    """
    matches = {matched_by or MatchedBy(outcome)} if to else set()
    owner = to[0] if to and not keeps else None
    return Row(post, situation(**known), change, RoutingOutcome(outcome), to, matches, owner, because)


ROWS = {
    # 1. never work
    "our own post by user id": row(message(f"{BOT} hi", by="UBOT", kind=AuthorKind.BOT), "own", "our own post"),
    "our own post by bot id": row(
        message("swarm#all", by="U9", kind=AuthorKind.BOT, bot_id="BBOT"), "own", "our own post"
    ),
    "a delete": row(MENTION, "deleted", "was deleted", change=Change.DELETED),
    "a join": row(message(f"{BOT} has joined", subtype="channel_join"), "system", "channel_join"),
    "an edit of what was routed": row(MENTION, "edited", "routed before", routed=True, change=Change.EDITED),
    "an edit that adds a mention": row(MENTION, "mention", "mentions the bot", LEAD, change=Change.EDITED),
    "a channel that is switched off": row(MENTION, "not_allowed", "switched off", policy=ChannelPolicy(enabled=False)),
    "a person who is not on the list": row(
        message("swarm#lead hi"), "not_allowed", "list of allowed users", policy=ONLY_BOB
    ),
    "a guest": row(
        message("swarm#lead hi", standing=Standing.GUEST),
        "stranger",
        "guest of the workspace; strangers reach agents only in channels with external: allow",
    ),
    "somebody of another workspace, in a direct message": row(
        message(where=ChannelType.DM, standing=Standing.EXTERNAL), "stranger", "belongs to another workspace"
    ),
    "somebody whom Slack does not know, in an owned thread": row(
        reply(standing=Standing.UNVERIFIED), "stranger", "does not say who this person is", owner=SPARE
    ),
    "somebody of whom Slack has not said anything yet": row(
        message("swarm#lead hi", standing=None), "unverified", "has not said yet"
    ),
    "a stranger where they are allowed": row(
        message("swarm#spare hi", standing=Standing.EXTERNAL),
        "address",
        "names swarm#spare",
        SPARE,
        policy=ChannelPolicy(external=External.ALLOW),
    ),
    "a stranger who is allowed, but not on the list": row(
        message("swarm#lead hi", standing=Standing.GUEST),
        "not_allowed",
        "list of allowed users",
        policy=ChannelPolicy(external=External.ALLOW, allowed_users=frozenset({"U2"})),
    ),
    "a bot that nobody allowed": row(alert(f"{BOT} hi"), "not_allowed", "list of allowed bots"),
    "a bot that has had its turns": row(
        alert_reply(f"{BOT} hi"),
        "bot_capped",
        "10 messages per hour",
        policy=PAGER_ALLOWED,
        bot_turns=BOT_MESSAGES_PER_HOUR,
    ),
    "a bot that has had its turns by the channel's own limit": row(
        alert_reply(f"{BOT} hi"),
        "bot_capped",
        "2 messages per hour",
        policy=PAGER_ALLOWED.model_copy(update={"bot_messages_per_hour": 2}),
        bot_turns=2,
    ),
    "a bot's last turn": row(
        alert_reply(f"{BOT} hi"),
        "mention",
        "mentions the bot",
        LEAD,
        policy=PAGER_ALLOWED,
        bot_turns=BOT_MESSAGES_PER_HOUR - 1,
    ),
    "a person where bots have had their turns": row(
        reply(f"{BOT} hi"), "mention", "mentions the bot", LEAD, bot_turns=BOT_MESSAGES_PER_HOUR
    ),
    "a stop where something runs": row(reply("!stop"), "stop", "stops what runs here", owner=LEAD, can_stop=True),
    "a stop in capitals that mentions the bot": row(
        reply(f" {BOT} !STOP "), "stop", "stops what runs here", can_stop=True
    ),
    "a stop at the top of a direct message": row(
        message("!Stop", where=ChannelType.DM), "stop", "stops what runs here", can_stop=True
    ),
    "a stop where nothing runs": row(reply("!stop"), "stop", "nothing runs or waits here", owner=SPARE),
    "a stop that says more": row(
        reply("!stop it"), "thread_owner", "spare owns the thread", SPARE, keeps=True, owner=SPARE, can_stop=True
    ),
    "a stop for one agent": row(
        reply("swarm#spare !stop"), "address", "swarm#spare", SPARE, owner=SPARE, can_stop=True
    ),
    "a stop that is meant for somebody else": row(
        reply(f"{BOB} !stop"), "others_mentioned", "only somebody else", owner=SPARE, can_stop=True
    ),
    "a stop by who may not speak here": row(
        reply("!stop"), "not_allowed", "list of allowed users", can_stop=True, policy=ONLY_BOB
    ),
    "a stop by a bot": row(
        alert_reply("!stop"),
        "thread_owner",
        "spare owns the thread",
        SPARE,
        keeps=True,
        owner=SPARE,
        can_stop=True,
        policy=PAGER_ALLOWED,
    ),
    "a message that becomes a stop by an edit": row(
        reply("!stop"), "stop", "stops what runs here", owner=SPARE, can_stop=True, change=Change.EDITED
    ),
    # 3. an explicit address
    "one agent by name": row(message("swarm#spare hi"), "address", "swarm#spare", SPARE),
    **{
        f"one agent after a mention, {how}": row(message(f"{text} hi"), "address", "swarm#spare", SPARE)
        for how, text in {
            "as it is typed": "@swarm#spare",
            "as Slack sends it": "<@UBOT>#spare",
            "with a label": "<@UBOT|swarm>#spare",
            "as a channel's name": "<@UBOT><#C9|spare>",
        }.items()
    },
    "an unknown agent after a mention": row(
        message("<@UBOT>#helper hi"), "address", "swarm#helper names no agent", LEAD
    ),
    "a number after the mention of somebody else": row(
        message("<@U9>#spare and <@UBOT> #12"), "mention", "it mentions the bot", LEAD
    ),
    "one agent by id": row(message("swarm#id-spare hi"), "address", "swarm#spare", SPARE),
    "another agent than the owner": row(reply("swarm#spare take over"), "address", "swarm#spare", SPARE, owner=LEAD),
    "an agent that is offline, where the default lead is there": row(
        message("swarm#rev hi"),
        "address",
        "swarm#rev; rev is offline, so the default lead gets it",
        LEAD,
        roster=asleep(REV),
        matched_by=MatchedBy.READDRESSED,
    ),
    "an agent that is offline, in the thread of another": row(
        reply("swarm#rev hi"),
        "address",
        "rev is offline",
        LEAD,
        keeps=True,
        roster=asleep(REV),
        owner=REV2,
        matched_by=MatchedBy.READDRESSED,
    ),
    "an agent that is offline, and the lead beside it": row(
        message("swarm#rev or swarm#lead hi"), "address", "rev is offline", LEAD, roster=asleep(REV)
    ),
    "an agent that is offline like everybody": row(
        message("swarm#rev hi"), "address", "swarm#rev", REV, roster=asleep(*TEAM.agents)
    ),
    "two agents where nobody owns the thread": row(
        message("swarm#spare and swarm#rev, please"), "address", "swarm#spare and swarm#rev", SPARE, REV
    ),
    "two agents in an owned thread": row(
        reply("swarm#spare and swarm#rev, please"),
        "address",
        "swarm#spare and swarm#rev",
        SPARE,
        REV,
        keeps=True,
        owner=LEAD,
    ),
    "one agent twice": row(message("swarm#spare, yes swarm#spare"), "address", "swarm#spare", SPARE),
    "everybody": row(reply("swarm#all stand-up"), "broadcast", "every agent", *TEAM.agents, keeps=True, owner=LEAD),
    "everybody where nobody is registered": row(
        message("swarm#all stand-up"), "address", "no lead is registered", None, roster=NOBODY
    ),
    "a name that nobody has": row(message("swarm#ghost hi"), "address", "swarm#ghost names no agent", LEAD),
    # 4. the owner of the thread
    "a follow-up without a mention": row(
        reply(), "thread_owner", "spare owns the thread", SPARE, keeps=True, owner=SPARE
    ),
    "a follow-up that mentions the bot": row(
        reply(f"{BOT} and {BOB}"), "thread_owner", "spare owns the thread", SPARE, keeps=True, owner=SPARE
    ),
    "a follow-up that mentions only somebody else": row(
        reply(f"{BOB} look"), "others_mentioned", "only somebody else", owner=SPARE
    ),
    "a follow-up in a direct message that mentions somebody": row(
        reply(f"what did {BOB} say?", where=ChannelType.DM),
        "thread_owner",
        "spare owns the thread",
        SPARE,
        keeps=True,
        owner=SPARE,
    ),
    "an owner that is offline": row(
        reply(),
        "thread_owner_offline",
        "spare owns the thread but is offline",
        LEAD,
        keeps=True,
        owner=SPARE,
        roster=asleep(SPARE),
    ),
    "an owner that is offline like everybody": row(
        reply(), "thread_owner", "spare owns the thread", SPARE, keeps=True, owner=SPARE, roster=asleep(*TEAM.agents)
    ),
    "an owner that is gone": row(
        reply(), "thread_owner_offline", "the owner of the thread is gone", LEAD, owner=agent("former")
    ),
    "an owner that is gone like everybody": row(
        reply(), "thread_owner_offline", "the owner of the thread is gone", None, owner=agent("former"), roster=NOBODY
    ),
    # 5. the listening mode
    "a root message where the channel listens to all": row(
        message(), "channel_agent", "listens to every root message", LEAD, policy=LISTENS_TO_ALL
    ),
    "a reply where the channel listens to all": row(reply(), "context", "names nobody", policy=LISTENS_TO_ALL),
    "a root message for somebody else where the channel listens to all": row(
        message(f"{BOB} look"), "context", "names nobody", policy=LISTENS_TO_ALL
    ),
    "a mention where the channel listens to all": row(
        MENTION, "mention", "mentions the bot", LEAD, policy=LISTENS_TO_ALL
    ),
    "an alert where the channel listens to bots": row(
        alert(), "alert", "rev is the channel's agent", REV, policy=LISTENS_TO_BOTS.model_copy(update={"agent": "rev"})
    ),
    "a person's root message where the channel listens to bots": row(
        message(), "context", "names nobody", policy=LISTENS_TO_BOTS
    ),
    "a person's mention where the channel listens to bots": row(
        MENTION, "mention", "mentions the bot", LEAD, policy=LISTENS_TO_BOTS
    ),
    "a channel's agent that is offline": row(
        message(),
        "channel_agent",
        "rev, the channel's agent, is offline, so the default lead gets it",
        LEAD,
        policy=LISTENS_TO_ALL.model_copy(update={"agent": "rev"}),
        roster=asleep(REV),
    ),
    "a forwarded message that mentions the bot": row(
        replace(message(f"look\n> {BOT} swarm#spare"), quoted=f"> {BOT} swarm#spare"), "context", "names nobody"
    ),
    "an allowed bot where the channel listens to all": row(
        alert(),
        "channel_agent",
        "listens to every root message",
        LEAD,
        policy=PAGER_ALLOWED.model_copy(update={"listen": Listen.ALL}),
    ),
    "a bot that is not allowed where the channel listens to all": row(
        alert(), "not_allowed", "list of allowed bots", policy=LISTENS_TO_ALL
    ),
    "a bot's reply where the channel listens to bots": row(
        alert_reply(), "context", "names nobody", policy=LISTENS_TO_BOTS
    ),
    "a person's root message where the channel listens to alerts": row(
        message(), "context", "names nobody", policy=ALERTS
    ),
    "a person's mention where the channel listens to alerts": row(
        MENTION, "mention", "mentions the bot", REV, policy=ALERTS
    ),
    "a bot's reply where the channel listens to alerts": row(alert_reply(), "context", "names nobody", policy=ALERTS),
    "a bot's reply in an owned thread where the channel listens to alerts": row(
        alert_reply(), "thread_owner", "lead owns the thread", LEAD, keeps=True, policy=ALERTS, owner=LEAD
    ),
    "a bot that is not allowed where the channel listens to alerts": row(
        alert(), "not_allowed", "list of allowed bots", policy=ALERTS.model_copy(update={"allowed_bots": frozenset()})
    ),
    # 2. alerts
    "an alert": row(alert(), "alert", "listens to alerts of this bot; rev is the channel's agent", REV, policy=ALERTS),
    "an alert with hostile words": row(
        alert(f"{BOT} {BOB} swarm#all swarm#spare !stop"),
        "alert",
        "listens to alerts",
        REV,
        policy=ALERTS,
        can_stop=True,
    ),
    "an alert that came again": row(
        alert(), "alert_repeated", "repeats the alert C1:1700000001.000100", policy=ALERTS, repeats="1700000001.000100"
    ),
    # 6. mention and direct message
    "a mention": row(MENTION, "mention", "mentions the bot", LEAD),
    "a mention with a label": row(message("<@UBOT|swarm> hi"), "mention", "mentions the bot", LEAD),
    "a mention in a channel with an agent": row(MENTION, "mention", "rev is the channel's agent", REV, policy=REVS),
    "a direct message where an agent for these is configured": row(
        message(where=ChannelType.DM), "direct_message", "rev is the agent for direct messages", REV, policy=REVS
    ),
    "a direct message whose agent does not exist": row(
        message(where=ChannelType.DM),
        "direct_message",
        "'ghost', the agent for direct messages, does not exist",
        LEAD,
        policy=GHOSTS,
    ),
    "a mention in a channel whose agent does not exist": row(
        MENTION, "mention", "'ghost', the channel's agent, does not exist", LEAD, policy=GHOSTS
    ),
    "a mention while the oldest lead is offline": row(
        MENTION, "mention", "the default lead", SPARE, roster=asleep(LEAD)
    ),
    "a mention where a default is configured": row(
        MENTION, "mention", "the default lead", SPARE, roster=replace(TEAM, default_name="spare")
    ),
    "a mention where nobody is registered": row(MENTION, "mention", "no lead is registered", None, roster=NOBODY),
    "a direct message": row(message(where=ChannelType.DM), "direct_message", "direct message", LEAD),
    "a message in a group": row(message(where=ChannelType.GROUP), "context", "names nobody"),
    "a file without a word in a direct message": row(
        message("", where=ChannelType.DM, subtype="file_share"), "direct_message", "direct message", LEAD
    ),
    # 7. context
    "people among themselves": row(message(), "context", "names nobody"),
    "somebody else's mention": row(message(f"{BOB} hi"), "context", "names nobody"),
}


@every("row", ROWS.values(), ids=ROWS.keys())
def test_every_row_of_the_table(row: Row) -> None:
    decision = decide(row.message, row.situation, row.change)
    assert decision.outcome is row.outcome
    assert [target.agent_id for target in decision.targets] == [one.id if one else None for one in row.to]
    assert {target.matched_by for target in decision.targets} == row.matches
    assert decision.new_owner_id == (row.new_owner.id if row.new_owner else None)
    assert row.because in decision.reason


def test_the_table_has_every_outcome_and_every_way_to_match() -> None:
    # Who has said too much is told from the database, see `Ingest`.
    assert {row.outcome for row in ROWS.values()} == set(RoutingOutcome) - {RoutingOutcome.RATE_LIMITED}
    assert set.union(*(row.matches for row in ROWS.values())) == set(MatchedBy)


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
    known = replace(known, policy=known.policy.model_copy(update={"listen": Listen.MENTION}))
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
