"""A small storm over a team, and that its judge sees what it must see. `swarm bench storm` is the same at full size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from swarm_lab.bench.figures import Figure
from swarm_lab.bench.plans import StormPlan
from swarm_lab.bench.storm import Asked, Log, Seen, judge, measure

SMALL = StormPlan(
    messages=160,
    threads=20,
    agents=6,
    leads=2,
    channels=2,
    in_flight=24,
    kill_every_seconds=1.0,
    kill_coordinator_every_seconds=4.0,
    lease_seconds=2,
    delegated=0.5,
    work_seconds=0.5,  # so that who is killed is mostly at work
    patience_seconds=60,
)
CHANNEL, ROOT, FOLLOW_UP, STRAY = "C1", "1.1", "1.2", "2.1"
ASKED = [
    Asked(name="m0", channel=CHANNEL, ts=ROOT, thread_ts=ROOT),
    Asked(name="m1", channel=CHANNEL, ts=FOLLOW_UP, thread_ts=ROOT),
]
FAILED = "I could not answer this (last error: tried 5 times)."

Calls = list[dict[str, Any]]


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.req("LOOP-01", "LOOP-06", "LOOP-08", "LOOP-09")
async def test_in_a_storm_over_a_team_every_message_ends_once_and_visibly() -> None:
    figures = {figure.what: figure for figure in await measure(SMALL, print)}

    assert [figure for figure in figures.values() if figure.met is False] == []
    assert figures["messages said"].value == SMALL.messages
    assert figures["events told twice"].value >= 0.2 * SMALL.messages
    assert figures["agents killed"].value >= 2
    assert figures["leases that expired"].value >= 1


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.req("OPS-03")
async def test_a_storm_over_two_coordinators_ends_no_message_twice(postgres_server_url: str) -> None:
    plan = replace(SMALL, database=postgres_server_url, processes=2, messages=80, threads=10)

    figures = await measure(plan, print)

    assert [figure for figure in figures if figure.met is False] == []


def test_what_ended_once_is_fine() -> None:
    assert _broken(_good_calls()) == set()


def test_a_message_that_failed_and_of_which_the_thread_was_told_is_fine() -> None:
    calls = [*_good_calls()[:2], _post(FAILED), _react(FOLLOW_UP, "x")]

    assert _broken(calls) == set()


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (lambda calls: calls[:2], {"messages without an end"}),
        (
            lambda calls: [*calls, _post("answer m1 in other words")],
            {"messages with two ends", "answers that people do not see exactly once"},
        ),
        (
            lambda calls: [*calls, _post("answer m1")],
            {"messages with two ends", "answers that people do not see exactly once", "texts posted twice"},
        ),
        (lambda calls: [*calls, _post("I am at it"), _post("I am at it")], {"texts posted twice"}),
        (
            lambda calls: [*calls[:2], _post("answer m1", thread=STRAY)],
            {"messages without an end", "answers outside their own thread"},
        ),
        (lambda calls: calls[:-1], {"answered messages without exactly one ✅"}),
        (lambda calls: [*calls, calls[-1]], {"answered messages without exactly one ✅"}),
        (lambda calls: [*calls[:2], _react(FOLLOW_UP, "x")], {"failures not reported exactly once in their thread"}),
        (
            lambda calls: [*calls, _post(FAILED), _react(FOLLOW_UP, "x")],
            {"messages with two ends"},
        ),
    ],
    ids=["lost", "twice", "repeated", "any text twice", "elsewhere", "no mark", "two marks", "silent", "both"],
)
def test_whatever_is_lost_or_doubled_is_found(spoil: Callable[[Calls], Calls], broken: set[str]) -> None:
    assert _broken(spoil(_good_calls())) == broken


def test_a_post_that_slack_refused_counts_for_nothing() -> None:
    refused = {**_post("answer m1"), "ok": False, "error": "ratelimited"}

    assert _broken([*_good_calls(), refused]) == set()


def _good_calls() -> Calls:
    return [_post("answer m0"), _react(ROOT), _post("answer m1"), _react(FOLLOW_UP)]


def _post(text: str, thread: str = ROOT) -> dict[str, Any]:
    return _call("chat.postMessage", channel=CHANNEL, thread_ts=thread, text=text)


def _react(ts: str, name: str = "white_check_mark") -> dict[str, Any]:
    return _call("reactions.add", channel=CHANNEL, timestamp=ts, name=name)


def _call(method: str, **args: str) -> dict[str, Any]:
    return {"method": method, "args": args, "ok": True, "error": None}


def _broken(calls: Calls) -> set[str]:
    """What the judge finds wrong after these calls, all of which people see."""
    log = Log()
    log.read([{**call, "seq": number} for number, call in enumerate(calls, 1)])
    return {figure.what for figure in judge(ASKED, log, _seen(calls)) if _is_wrong(figure)}


def _is_wrong(figure: Figure) -> bool:
    return figure.met is False


def _seen(calls: Calls) -> dict[tuple[str, str], Seen]:
    done = [call for call in calls if call["ok"]]
    reactions = {(call["args"]["timestamp"], call["args"]["name"]) for call in done if "timestamp" in call["args"]}
    people = {
        (CHANNEL, asked.ts): Seen(
            text=f"please look at {asked.name}",
            kind="user",
            reactions=tuple(name for ts, name in reactions if ts == asked.ts),
        )
        for asked in ASKED
    }
    bots = {
        (CHANNEL, f"9.{number}"): Seen(text=call["args"]["text"], kind="bot", reactions=())
        for number, call in enumerate(done)
        if call["method"] == "chat.postMessage"
    }
    return people | bots
