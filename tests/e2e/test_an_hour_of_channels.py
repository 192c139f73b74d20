"""An hour of forty people in five channels and in direct messages, judged by Slack's calls and what people see.

The hour passes on the clocks of the twin, with Slack's rate limits, and of the coordinator (``SWARM_TEST_CLOCK``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swarm.domain.model.feedback import Reason
from swarm.domain.requests.button_actions import ESCALATE_ACTION, FEEDBACK_ACTION, REASON_ACTION
from swarm.services.ground.locks import TERM_SECONDS
from swarm.services.speaking.system_messages import LIMITED_TEXT
from tests.support.agui_server import answering, sse
from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.caipe import Start as Asked
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.services import OtherService, other_service
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("CHAN-01", "CHAN-02", "CHAN-04", "CHAN-05", "CHAN-08", "CHAN-09")

MARKER: Final = re.compile(r"q\d{4}z")
HOST: Final = re.compile(r"host\d")
GROUP: Final = "S00000OPS"
DAY: Final = 86_400
LIMIT: Final = 8  # messages of one person a minute
BURST: Final = 11
WINDOW_SECONDS: Final = 570.0
"""An alert comes at the beginning of a minute, so no gap between two is near this."""

SETTLED_SECONDS: Final = 60.0
STEP_SECONDS: Final = 2.0
CALM_SECONDS: Final = 0.2

PEOPLE: Final = ("alice", "bob", "carol", *(f"person{number}" for number in range(10, 47)))
CHATTY, *OTHERS = PEOPLE
MEMBERS, OUTSIDERS = OTHERS[:5], OTHERS[5:10]
ASKERS = OTHERS[10:]

POSTS: Final = ("chat.postMessage", "chat.startStream")
ANSWERS: Final = (*POSTS, "chat.appendStream", "chat.stopStream", "chat.update")
READS: Final = ("auth.", "apps.", "users.", "bots.", "usergroups.", "conversations.", "team.")


def answer_to(text: str) -> str:
    """What every agent says: the marker of the newest message, or the host of an alert."""
    if "unsure" in text:
        return "[DEFER]"
    found = MARKER.findall(text) or HOST.findall(text)
    return f"About {found[-1]}."


class Service(Caipe):
    """An agent of a CAIPE service, and one that speaks AG-UI."""

    def _answer(self, said: Asked) -> str:
        return answer_to(said.message)

    def routes(self) -> Any:
        app = self.app()
        app.router.routes.append(Route("/agui", self._agui, methods=["POST"]))
        return app

    async def _agui(self, request: Request) -> Response:
        newest = (await request.json())["messages"][-1]["content"]
        frames = [sse(event.model_dump_json(by_alias=True)) for event in answering(answer_to(newest))]
        return Response(b"".join(frames), media_type="text/event-stream")


@dataclass(frozen=True, kw_only=True)
class Said:
    """A message of a person."""

    ts: str
    channel: str  # its name
    user: str
    marker: str
    root: str
    is_answered: bool
    refusal: str = ""  # "list" or "limit"


@dataclass
class Alert:
    """The first of a group, and its repeats."""

    ts: str
    last_ts: str
    repeats: int = 0


@dataclass
class Town:
    """Everything that runs, and what was done."""

    stage: Stage
    http: httpx2.AsyncClient
    twin: TwinClient
    clock: Path
    ids: dict[str, str] = field(default_factory=dict)  # of the channels, by name
    directs: dict[str, str] = field(default_factory=dict)  # ids of the direct messages, by person
    users: dict[str, str] = field(default_factory=dict)
    hook: OtherService = field(default_factory=OtherService)
    lea: Visitor = field(init=False)
    pager: AsyncWebClient = field(init=False)
    ahead_seconds: float = 0.0
    polls: int = 0
    seen: int = 0  # the newest call that was looked at
    calls: list[dict[str, Any]] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)  # markers and hosts
    said: list[Said] = field(default_factory=list)
    alerts: dict[str, list[Alert]] = field(default_factory=lambda: defaultdict(list))
    bursts: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  # /swarm status, by person
    rated: int = 0
    escalated: list[str] = field(default_factory=list)  # the roots of threads
    numbers: count[int] = field(default_factory=count)

    async def passes(self, seconds: float) -> None:
        """The twin's clock is never behind, so that nobody is too early for its limits."""
        await self.twin.advance(seconds)
        self.ahead_seconds += seconds
        written = self.clock.with_suffix(".new")
        written.write_text(f"{self.ahead_seconds}")
        written.replace(self.clock)

    async def now(self) -> float:
        return float((await self.twin.ask("POST", "clock", json={}))["now"])

    # What people do

    async def says(
        self,
        text: str,
        user: str,
        channel: str,
        *,
        root: str | None = None,
        is_answered: bool = True,
        refusal: str = "",
    ) -> Said:
        marker = f"q{next(self.numbers):04}z"
        words = {"user": user, "channel": channel, "text": f"{text} {marker}", "thread_ts": root}
        posted = await self.twin.ask("POST", "messages", json=words)
        ts = str(posted["ts"])
        if channel == "@swarm":
            self.directs[user] = str(posted["channel"])
        said = Said(
            ts=ts, channel=channel, user=user, marker=marker, root=root or ts, is_answered=is_answered, refusal=refusal
        )
        self.said.append(said)
        return said

    async def alert(self, host: str) -> None:
        ts = str(
            (await self.pager.chat_postMessage(channel=self.ids["alerts"], text=f"[FIRING:1] {host} is full"))["ts"]
        )
        groups = self.alerts[host]
        if groups and float(ts) - float(groups[-1].last_ts) < WINDOW_SECONDS:
            groups[-1].repeats += 1
            groups[-1].last_ts = ts
        else:
            groups.append(Alert(ts, ts))

    async def burst(self) -> None:
        """One person says more than a person may. Which of it is refused depends on who is routed first."""
        self.bursts += 1
        for _ in range(BURST):
            await self.says("@swarm now!", CHATTY, "general", is_answered=False, refusal="limit")

    async def status(self, user: str) -> None:
        self.statuses[user] += 1
        body = {"user": user, "channel": "general", "command": "/swarm", "text": "status", "wait_seconds": 0}
        assert await self.twin.ask("POST", "commands", json=body) == {"ok": True}

    async def thumbs_down(self, about: Said, user: str) -> dict[str, Any]:
        """Press 👎 under an answer; the choice of reasons."""
        messages = await self.twin.messages(channel=about.channel, thread_ts=about.root)
        (answer,) = [one for one in messages if one["kind"] == "bot" and about.marker in one["text"]]
        (block,) = [block for block in answer["blocks"] if block["type"] == "context_actions"]
        value = block["elements"][0]["negative_button"]["value"]
        before = len(await self.twin.private(user, about.channel))
        await self.press(user, about.channel, answer["ts"], FEEDBACK_ACTION, value=value)
        choices = await wait_until(
            lambda: self.twin.private(user, about.channel),
            lambda seen: len(seen) > before,
            what="the choice of reasons",
        )
        self.rated += 1
        return choices[-1]

    async def rates(self, about: Said, user: str) -> None:
        choice = await self.thumbs_down(about, user)
        await self.press(user, about.channel, choice["ts"], REASON_ACTION + Reason.WRONG_ANSWER)

    async def escalates(self, about: Said, users: tuple[str, str]) -> None:
        """Two people press "Get help" at once."""
        choices = [await self.thumbs_down(about, user) for user in users]
        self.escalated.append(about.root)
        async with asyncio.TaskGroup() as group:
            for user, choice in zip(users, choices, strict=True):
                group.create_task(self.press(user, about.channel, choice["ts"], ESCALATE_ACTION))

    async def press(self, user: str, channel: str, ts: str, action_id: str, **more: str) -> None:
        pressed = {"user": user, "channel": channel, "ts": ts, "action_id": action_id, "wait_seconds": 0, **more}
        assert (await self.twin.ask("POST", "actions", json=pressed))["ok"]

    # What the agents and the clock do

    async def answers_polls(self) -> None:
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                for trigger in await self.lea.poll(wait_seconds=0):
                    message, lease = trigger["inbox_messages"][-1], trigger["lease"]["token"]
                    reply = {"inbox_message_id": message["id"], "message": answer_to(message["text"])}
                    await self.lea.uses("slack-reply", lease, **reply)
                self.polls += 1
            await asyncio.sleep(0.05)

    async def look(self) -> int:
        """Read the calls that are new; how many there were."""
        fresh = await self.twin.calls(since=self.seen)
        self.calls += fresh
        if fresh:
            self.seen = int(fresh[-1]["seq"])
        for call in fresh:
            if call["app"] != "pager" and call["method"] in ANSWERS and call["ok"]:
                words = json.dumps(call["args"])
                self.answered |= {*MARKER.findall(words), *HOST.findall(words)}
        return len(fresh)

    async def missing(self) -> list[object]:
        """What is still to be done."""
        await self.look()
        wanted = [one.marker for one in self.said if one.is_answered and one.marker not in self.answered]
        wanted += [host for host in self.alerts if host not in self.answered]
        deliveries = (await self.twin.ask("GET", "deliveries"))["deliveries"][-400:]
        under_way = [one["ts"] for one in deliveries if not one["acked"] and one["error"] is None]
        backlog = await self.stage.backlog(self.http)
        return [*wanted, *under_way, *([f"backlog {backlog}"] if backlog else [])]

    async def settles(self) -> None:
        """Wait until all is done. While all is calm, the clock goes on, for what waits because of Slack's limits."""
        deadline, calm_since = time.monotonic() + SETTLED_SECONDS, time.monotonic()
        while missing := await self.missing():
            assert time.monotonic() < deadline, f"not settled: {missing}"
            before = len(self.calls)
            await asyncio.sleep(0.02)
            await self.look()
            if len(self.calls) > before:
                calm_since = time.monotonic()
            elif time.monotonic() - calm_since > CALM_SECONDS:
                await self.passes(STEP_SECONDS)
                calm_since = time.monotonic()

    async def leaps(self, seconds: float) -> None:
        """The clock leaps, as if the machine had slept: the coordinator is elected anew."""
        terms = self.terms()
        await self.passes(seconds)

        async def look() -> int:
            return self.terms()

        if seconds > TERM_SECONDS:
            await wait_until(look, lambda now: now > terms, what="the coordinator is elected anew")

    def terms(self) -> int:
        return self.stage.coordinator.output.count('"elected"')

    async def everybody_is_there(self) -> None:
        before = self.polls

        async def look() -> list[str]:
            agents = (await self.stage.visitor(self.http).get("/agents"))["agents"]
            return [agent["name"] for agent in agents if agent["status"] != "online"]

        await wait_until(look, lambda away: not away and self.polls > before + 1, what="the agents are online")

    async def shows_all_repeats(self) -> None:
        wanted = {group.ts: group.repeats for groups in self.alerts.values() for group in groups if group.repeats > 1}

        async def look() -> list[str]:
            shown = {ts: (await self.twin.conversation(ts, channel="alerts")).answers for ts in wanted}
            return [ts for ts, texts in shown.items() if not any(f"again {wanted[ts]} times" in one for one in texts)]

        await wait_until(look, lambda missing: not missing, what="the repeats are counted")

    async def minute(self, number: int, rng: random.Random) -> None:
        began = await self.now()
        await self.act(number, rng)
        await self.settles()
        await self.leaps(max(0.0, began + 60 - await self.now()))

    async def act(self, number: int, rng: random.Random) -> None:
        """What happens at the beginning of a minute."""
        before = [one for one in self.said if one.is_answered and one.channel in ("general", "support", "qanda")]
        people = rng.sample(ASKERS, 13)
        one = iter(people)
        if number % 5 == 1:
            await self.burst()
        for _ in range(rng.randint(1, 3)):
            await self.says("@swarm what is", next(one), "general")
        await self.says("the train is late", next(one), "general", is_answered=False)
        await self.says("how does one build", next(one), "qanda")
        await self.says("I am unsure about", next(one), "qanda", is_answered=False)
        await self.says("@swarm please help with", next(one), "support")
        await self.says("hello", next(one), "@swarm")
        if before:
            root = rng.choice(before)
            await self.says("and then", next(one), root.channel, root=root.root)
        await self.says("@swarm deploy", rng.choice(MEMBERS), "ops")
        for user in rng.sample(OUTSIDERS, 2):
            await self.says("@swarm let me in", user, "ops", is_answered=False, refusal="list")
        if number % 4 != 3:
            await self.alert(f"host{rng.randrange(4)}")
        if number % 6 == 1:
            await self.status(next(one))
        supported = [one for one in before if one.channel == "support" and one.root not in self.escalated]
        if number % 7 == 2:
            await self.rates(rng.choice([one for one in before if one.channel == "general"]), next(one))
        if number % 10 == 1:
            await self.escalates(supported[-1], (next(one), next(one)))


def settings(service: str, there: Town, bot: str) -> dict[str, Any]:
    ids = there.ids
    return {
        "agents": {
            "offline_after_seconds": 2 * 3600,  # signs of life follow the machine's clock
            "remote": {
                "docs": {"url": f"{service}/agui"},
                "caipe": {"url": service, "dialect": "caipe", "agent_id": AGENT},
            },
        },
        "leases": {"seconds": 600},
        "limits": {"messages_per_minute_per_user": LIMIT},
        "channel_defaults": {"agent": "docs", "dm_replies": "flat"},
        "channels": {
            ids["general"]: {"agent": "docs"},
            ids["qanda"]: {"agent": "caipe", "listen": "all", "overthink": True},
            ids["alerts"]: {
                "agent": "caipe",
                "listen": "alerts",
                "allowed_bots": [bot],
                "alerts": {"window_seconds": WINDOW_SECONDS},
            },
            ids["support"]: {
                "agent": "lea",
                "escalation": {"users": [there.users["bob"]], "webhook": {"url": f"{there.hook.base}/page"}},
            },
            ids["ops"]: {"agent": "docs", "allowed_groups": [GROUP]},
        },
    }


@contextlib.asynccontextmanager
async def town(folder: Path, migrated: Path) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(processes_in(folder))
        http = await stack.enter_async_context(http_client(timeout=30))
        hook = await stack.enter_async_context(other_service())
        service = await stack.enter_async_context(serving(Service(Shape.PRESENT).routes()))
        clock = folder / "ahead"
        clock.write_text("0")
        stage = Stage(processes, settings={"SWARM_TEST_CLOCK": str(clock), "SWARM_SLACK_TIMEOUT_SECONDS": "20"})
        stage.settings["SWARM_MESSAGES_PER_MINUTE"] = str(LIMIT)
        stage.use_sqlite(migrated)
        await stage.start_twin(rates=True)
        there = Town(stage, http, stage.person(http), clock, hook=hook)
        left = DAY - await there.now() % DAY
        await there.passes(left if left < 2 * 3600 else 0.0)  # refusals are said once a day
        seeded = await there.twin.ask(
            "POST",
            "seed",
            json={
                "users": list(PEOPLE[3:]),
                "apps": ["pager"],
                "channels": ["qanda", "alerts", "support", "ops"],
                "user_groups": [{"handle": "ops", "members": MEMBERS}],
            },
        )
        there.pager = AsyncWebClient("xoxb-twin-pager", base_url=f"{stage.twin_url}/api/")
        there.ids, there.users = seeded["channels"], seeded["users"]
        bot = str((await there.pager.auth_test())["bot_id"])
        written = settings(service, there, bot)
        (folder / "swarm.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        await stage.start_coordinator()
        there.lea = stage.visitor(http, await stage.register(http, "lea"))
        polling = asyncio.create_task(there.answers_polls())
        try:
            await there.everybody_is_there()
            yield there
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)


class Judgement:
    """What Slack was asked to do, and what people see of it."""

    def __init__(self, there: Town) -> None:
        self.there = there
        self.own = [call for call in there.calls if call["app"] == "swarm"]
        self.writing = [call for call in self.own if not call["method"].startswith(READS)]
        self.texts: Counter[str] = Counter()  # messages of the app, by the marker in them
        self.posts = Counter(
            (call["args"]["channel"], call["args"].get("thread_ts"))
            for call in self.own
            if call["method"] in POSTS and call["ok"]
        )

    async def everything(self) -> None:
        await self.read_all()
        self.each_is_answered_once()
        self.others_are_left_alone()
        self.refusals_are_said_once()
        await self.alerts_are_answered_once()
        await self.help_is_called_once()
        await self.commands_are_answered_once()
        self.nothing_was_too_fast()
        await self.nothing_is_lost()

    async def read_all(self) -> None:
        there = self.there
        for channel in there.ids:
            await self.read(channel, PEOPLE[0])
        for user in sorted({said.user for said in there.said if said.channel == "@swarm"}):
            await self.read("@swarm", user)

    def each_is_answered_once(self) -> None:
        there, expected = self.there, Counter[tuple[str, str | None]]()
        for said in there.said:
            expected[self.place(said)] += said.is_answered
        limited = [said for said in there.said if said.refusal == "limit"]
        for said in limited:
            expected[self.place(said)] += self.texts[said.marker]
        for groups in there.alerts.values():
            for group in groups:
                expected[there.ids["alerts"], group.ts] += 1 + (group.repeats > 0)
        for root in there.escalated:
            expected[there.ids["support"], root] += 1
        assert +self.posts == +expected
        wrong = {said.marker: n for said in there.said if said.is_answered and (n := self.texts[said.marker]) != 1}
        assert wrong == {}
        answered = [said for said in limited if self.texts[said.marker] == 1]
        assert len(answered) == LIMIT * there.bursts
        assert {self.texts[said.marker] for said in limited} == {0, 1}

    def place(self, said: Said) -> tuple[str, str | None]:
        if said.channel != "@swarm":
            return self.there.ids[said.channel], said.root
        return self.there.directs[said.user], None

    async def read(self, channel: str, user: str) -> None:
        for message in await self.there.twin.messages(channel=channel, user=user):
            if message["kind"] == "bot" and message["subtype"] != "ephemeral" and not message["streaming"]:
                self.texts.update(set(MARKER.findall(message["text"])))

    def others_are_left_alone(self) -> None:
        """Small talk, refused messages and answers that are not sure: no call concerns them."""
        silent = {said.ts: said for said in self.there.said if not said.is_answered}
        silent = {ts: said for ts, said in silent.items() if said.refusal != "limit"}
        for call in self.writing:
            words = json.dumps(call["args"])
            assert not [said for ts, said in silent.items() if ts in words or said.marker in words], call

    def refusals_are_said_once(self) -> None:
        there = self.there
        private = [call for call in self.own if call["method"] == "chat.postEphemeral" and call["ok"]]
        refused = {there.users[said.user] for said in there.said if said.refusal == "list"}
        told = Counter(call["args"]["user"] for call in private if call["args"]["channel"] == there.ids["ops"])
        assert told == Counter(refused)
        limited = [call["args"] for call in private if call["args"]["text"] == LIMITED_TEXT]
        assert len(limited) == there.bursts
        assert {args["user"] for args in limited} == {there.users[CHATTY]}

    async def alerts_are_answered_once(self) -> None:
        for host, groups in self.there.alerts.items():
            for group in groups:
                answers = (await self.there.twin.conversation(group.ts, channel="alerts")).answers
                assert len([text for text in answers if f"About {host}." in text]) == 1
                again = [text for text in answers if "came again" in text]
                assert len(again) == (group.repeats > 0)
                if group.repeats > 1:
                    assert f"came again {group.repeats} times" in again[0]

    async def help_is_called_once(self) -> None:
        there = self.there
        for root in there.escalated:
            answers = (await there.twin.conversation(root, channel="support")).answers
            assert len([text for text in answers if "needs a human here" in text]) == 1
        called = [json.dumps(call.body) for call in there.hook.calls]
        assert len(called) == len(there.escalated)
        assert all(len([body for body in called if root in body]) == 1 for root in there.escalated)
        feedback = await there.stage.visitor(there.http).get("/feedback")
        assert sum(one["count"] for one in feedback["counts"]) == there.rated

    async def commands_are_answered_once(self) -> None:
        for user, times in self.there.statuses.items():
            shown = [message["text"] for message in await self.there.twin.private(user, "general")]
            assert len([text for text in shown if "Here: " in text]) == times, shown

    def nothing_was_too_fast(self) -> None:
        assert [call for call in self.there.calls if call["status"] == 429 or call["error"] == "ratelimited"] == []
        # A leap of the clock can depose the coordinator just then; it ends again what it has ended, without effect.
        ended = {one["args"].get("ts") for one in self.writing if one["method"] == "chat.stopStream" and one["ok"]}
        refused = [one for one in self.writing if not one["ok"]]
        harmless = [one for one in refused if one["method"] == "chat.stopStream" and one["args"].get("ts") in ended]
        assert [(one["method"], one["error"], one["args"]) for one in refused if one not in harmless] == []

    async def nothing_is_lost(self) -> None:
        there, operator = self.there, self.there.stage.visitor(self.there.http)
        for status in ("unread", "claimed", "waiting", "dead"):
            assert (await operator.get(f"/inbox?status={status}"))["inbox_messages"] == []
        for said in there.said:
            place = there.ids.get(said.channel) or there.directs[said.user]
            explained = await operator.get(f"/explain?message={place}:{said.ts}")
            assert explained["routing"], said
            statuses = [entry["status"] for entry in explained["entries"]]
            is_unsure = said.channel == "qanda" and not said.is_answered
            is_served = self.texts[said.marker] == 1
            assert statuses == (["dismissed"] if is_unsure else ["responded"] if is_served else []), (said, explained)
        attempts = (await there.twin.ask("GET", "deliveries"))["deliveries"]
        assert [attempt for attempt in attempts if attempt["dropped"] and attempt["app"] == "swarm"] == []


async def passes_and_is_judged(there: Town, minutes: int) -> None:
    rng, began = random.Random(7), time.monotonic()
    for number in range(minutes):
        await there.minute(number, rng)
    for _ in range(2):  # the count of repeats is shown once a minute
        await there.leaps(60)
        await there.settles()
    await there.shows_all_repeats()
    await Judgement(there).everything()
    posts = len([call for call in there.calls if call["method"] in POSTS])
    print(  # noqa: T201
        f"{minutes} minutes: {len(there.said)} messages of people, {sum(map(len, there.alerts.values()))} groups of "
        f"alerts, {posts} posts and streams, {len(there.calls)} calls, {time.monotonic() - began:.0f} s"
    )


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("minutes", [3, 60])
async def test_forty_people_in_five_channels_are_each_answered_once(
    tmp_path: Path, migrated_sqlite: Path, minutes: int
) -> None:
    async with town(tmp_path, migrated_sqlite) as there:
        await passes_and_is_judged(there, minutes)
