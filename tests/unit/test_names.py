"""Names are asked for once, shared by all who want them, and never hold anybody up for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.domain.model.threads import AuthorKind, ChannelType
from swarm.domain.policy.access import Person, UserGroup
from swarm.domain.prompts.input import NOTHING_KNOWN, ChannelFacts
from swarm.slack.outgoing import names
from swarm.slack.outgoing.gateway import ChannelInfo
from swarm.slack.outgoing.names import FACTS_FRESH_SECONDS, FRESH_SECONDS, MEMBERS_FRESH_SECONDS, RETRY_SECONDS, Names

pytestmark = pytest.mark.req("LOOP-03")


class FakeSource:
    """Tells names, counts the questions, and can be slow or out of reach."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.names = {"U1": "Alice", "B1": "Alerts"}
        self.topic = "everything"
        self.fails = False
        self.refuses = ""
        self.answering = asyncio.Event()
        self.answering.set()

    async def user(self, user_id: str) -> Person:
        return Person(id=user_id, name=await self._tell(user_id), email="alice@example.org", teams=("T1",))

    async def bot_name(self, bot_id: str) -> str:
        return await self._tell(bot_id)

    async def channel(self, channel_id: str) -> ChannelInfo:
        user = "U1" if channel_id.startswith("D") else None
        name = await self._tell(channel_id, "" if user else "general")
        kind = ChannelType.DM if user else ChannelType.CHANNEL
        return ChannelInfo(id=channel_id, name=name, type=kind, topic=self.topic, purpose="talk", user_id=user)

    async def group_members(self, group_id: str) -> frozenset[str]:
        return frozenset({await self._tell(group_id, "U1")})

    async def _tell(self, id: str, default: str = "") -> str:
        self.asked.append(id)
        await self.answering.wait()
        if self.fails:
            raise Unavailable
        if self.refuses:
            raise RefusedBySlack(self.refuses)
        return self.names.get(id, default)


class Setting:
    """Names over a fake source, at a moment that the test chooses."""

    def __init__(self, wait_seconds: float) -> None:
        self.now = 0.0
        self.source = FakeSource()
        self.names = Names(self.source, monotonic=lambda: self.now, wait_seconds=wait_seconds)

    async def alice(self) -> str:
        return await self.names.author_name("U1", AuthorKind.USER)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    """In which nobody gives up before Slack has told."""
    setting = Setting(wait_seconds=60)
    yield setting
    await setting.names.close()


@pytest.fixture
async def hasty() -> AsyncIterator[Setting]:
    """In which nobody waits for Slack."""
    setting = Setting(wait_seconds=0.01)
    yield setting
    await setting.names.close()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_name_is_asked_for_once(setting: Setting) -> None:
    assert [await setting.alice() for _ in range(3)] == ["Alice"] * 3
    assert setting.source.asked == ["U1"]


async def test_those_who_want_a_name_together_share_one_question(setting: Setting) -> None:
    assert await asyncio.gather(*(setting.alice() for _ in range(5))) == ["Alice"] * 5
    assert setting.source.asked == ["U1"]


async def test_who_gives_up_does_not_spoil_it_for_the_others(setting: Setting) -> None:
    setting.source.answering.clear()
    first, second = asyncio.create_task(setting.alice()), asyncio.create_task(setting.alice())
    await settle()
    first.cancel()
    await settle()
    setting.source.answering.set()
    assert await second == "Alice"


async def test_an_old_name_is_given_at_once_while_a_new_one_is_fetched(setting: Setting) -> None:
    await setting.alice()
    setting.source.names["U1"] = "Alicia"
    setting.now += FRESH_SECONDS
    assert await setting.alice() == "Alice"
    await settle()
    assert await setting.alice() == "Alicia"
    assert setting.source.asked == ["U1", "U1"]


async def test_a_slow_slack_holds_nobody_up_and_its_answer_is_kept(hasty: Setting) -> None:
    hasty.source.answering.clear()
    assert await hasty.alice() == "U1"
    hasty.source.answering.set()
    await settle()
    assert await hasty.alice() == "Alice"
    assert hasty.source.asked == ["U1"]


async def test_what_slack_does_not_tell_goes_by_its_id_and_is_asked_again_later(setting: Setting) -> None:
    setting.source.fails = True
    assert [await setting.alice() for _ in range(2)] == ["U1", "U1"]
    assert setting.source.asked == ["U1"]
    setting.source.fails = False
    setting.now += RETRY_SECONDS
    await setting.alice()
    await settle()
    assert await setting.alice() == "Alice"


async def test_a_known_name_outlives_a_slack_that_is_out_of_reach(setting: Setting) -> None:
    await setting.alice()
    setting.source.fails = True
    setting.now += FRESH_SECONDS
    await setting.alice()
    await settle()
    assert await setting.alice() == "Alice"


async def test_a_bare_bot_is_asked_for_as_a_bot(setting: Setting) -> None:
    assert await setting.names.author_name("B1", AuthorKind.BOT) == "Alerts"


async def test_the_fresh_names_among_those_wanted_are_known_without_a_question(setting: Setting) -> None:
    wanted = {"U1": AuthorKind.USER, "B1": AuthorKind.BOT, "U2": AuthorKind.USER}
    assert setting.names.known_names(wanted) == {}
    await setting.alice()
    await setting.names.author_name("B1", AuthorKind.BOT)
    assert setting.names.known_names(wanted) == {"U1": "Alice", "B1": "Alerts"}
    assert setting.source.asked == ["U1", "B1"]
    setting.now += FRESH_SECONDS
    assert setting.names.known_names(wanted) == {}


async def test_a_channel_has_its_name_and_a_direct_message_the_other_persons(setting: Setting) -> None:
    assert await setting.names.channel_name("C1") == "general"
    assert await setting.names.channel_name("D1") == "Alice"


async def test_a_forgotten_name_is_asked_for_anew(setting: Setting) -> None:
    await setting.alice()
    setting.names.forget("U1")
    await setting.alice()
    assert setting.source.asked == ["U1", "U1"]


@pytest.mark.req("CHAN-03")
async def test_what_a_channel_is_about_is_asked_for_once(setting: Setting) -> None:
    facts = await asyncio.gather(*(setting.names.channel_facts("C1") for _ in range(3)))
    assert facts == [ChannelFacts(name="general", topic="everything", purpose="talk")] * 3
    assert setting.source.asked == ["C1"]


@pytest.mark.req("CHAN-03")
async def test_a_new_topic_shows_within_five_minutes_however_long_nobody_asked(setting: Setting) -> None:
    await setting.names.channel_facts("C1")
    setting.source.topic = "something else"
    assert (await setting.names.channel_facts("C1")).topic == "everything"
    setting.now += FACTS_FRESH_SECONDS
    assert (await setting.names.channel_facts("C1")).topic == "something else"
    assert FACTS_FRESH_SECONDS <= 5 * 60


@pytest.mark.req("CHAN-03")
async def test_a_slow_slack_delays_a_topic_and_not_the_run(hasty: Setting) -> None:
    await hasty.names.channel_facts("C1")
    await settle()  # it is known by now, whoever has waited for it
    hasty.source.topic = "something else"
    hasty.source.answering.clear()
    hasty.now += FACTS_FRESH_SECONDS
    assert (await hasty.names.channel_facts("C1")).topic == "everything"
    assert await hasty.names.channel_facts("C2") == NOTHING_KNOWN


@pytest.mark.req("CHAN-03")
async def test_what_cannot_be_looked_up_is_left_out(setting: Setting) -> None:
    setting.source.fails = True
    assert await setting.names.channel_facts("C1") == NOTHING_KNOWN
    assert await setting.names.user_email("U1") is None


@pytest.mark.req("CHAN-03")
async def test_one_question_tells_who_somebody_is_and_their_name_and_e_mail_address(setting: Setting) -> None:
    assert [await setting.names.user_email("U1") for _ in range(2)] == ["alice@example.org"] * 2
    assert await setting.alice() == "Alice"
    assert await setting.names.person("U1", 1) == Person(
        id="U1", name="Alice", email="alice@example.org", teams=("T1",)
    )
    assert setting.source.asked == ["U1"]


@pytest.mark.req("CHAN-11")
async def test_who_somebody_is_is_never_an_old_answer_and_is_asked_again_at_once_after_a_failure(
    setting: Setting,
) -> None:
    assert await setting.names.person("U1", 1)
    setting.source.fails = True
    setting.now += FRESH_SECONDS
    assert await setting.names.person("U1", 1) is None
    assert await setting.alice() == "Alice"  # a name may be old
    setting.source.fails = False
    assert await setting.names.person("U1", 1)


@pytest.mark.req("CHAN-11")
async def test_nobody_waits_longer_for_who_somebody_is_than_they_said(setting: Setting) -> None:
    setting.source.answering.clear()
    assert await setting.names.person("U1", 0.01) is None
    setting.source.answering.set()
    await settle()
    assert await setting.names.person("U1", 0)
    assert setting.source.asked == ["U1"]


@pytest.mark.req("CHAN-09", "HITL-03")
async def test_the_members_of_a_group_are_never_older_than_a_minute_nor_from_before_a_failure(setting: Setting) -> None:
    assert setting.names.known_group("S1") is None
    for _ in range(2):
        assert await setting.names.user_group("S1", 1) == UserGroup(members=frozenset({"U1"}))
    assert setting.names.known_group("S1") == UserGroup(members=frozenset({"U1"}))
    assert setting.source.asked == ["S1"]
    setting.now += MEMBERS_FRESH_SECONDS
    setting.source.fails = True
    assert setting.names.known_group("S1") is None
    assert await setting.names.user_group("S1", 1) is None
    assert setting.names.known_group("S1") is None
    setting.source.fails = False
    assert await setting.names.group_members("S1") == frozenset({"U1"})
    assert setting.source.asked == ["S1"] * 3


@pytest.mark.req("CHAN-09")
@pytest.mark.parametrize(
    ("code", "is_an_answer"), [("missing_scope", True), ("no_such_subteam", True), ("invalid_auth", False)]
)
async def test_a_group_that_slack_hides_is_an_answer_and_an_error_about_us_is_none(
    setting: Setting, code: str, is_an_answer: bool
) -> None:
    setting.source.refuses = code
    group = await setting.names.user_group("S1", 1)
    assert group == (UserGroup(is_shown=False) if is_an_answer else None)
    assert await setting.names.group_members("S1") is None


@pytest.mark.req("HITL-03")
async def test_members_that_are_not_known_are_looked_up_for_later_from_any_thread(setting: Setting) -> None:
    assert await asyncio.to_thread(setting.names.known_members, "S1") is None
    await settle()
    assert await asyncio.to_thread(setting.names.known_members, "S1") == frozenset({"U1"})
    assert setting.source.asked == ["S1"]


@pytest.mark.req("CHAN-09")
async def test_a_person_who_is_known_is_known_without_a_question(setting: Setting) -> None:
    assert setting.names.known_person("U1") is None
    assert setting.source.asked == []
    person = await setting.names.person("U1", 1)
    assert setting.names.known_person("U1") == person
    setting.now += FRESH_SECONDS
    assert setting.names.known_person("U1") is None


async def test_no_more_is_remembered_than_has_room(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "REMEMBERED", 2)
    for channel in ("C1", "C2", "C3", "C3", "C1"):
        await setting.names.channel_facts(channel)
    assert setting.source.asked == ["C1", "C2", "C3", "C1"]
