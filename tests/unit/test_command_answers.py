"""Answers to the slash command, and the Home tab, as they are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from swarm.domain.commands import (
    AgentCard,
    AgentList,
    ChannelListening,
    CommandAnswer,
    CommandHelp,
    CommandRefused,
    DecisionWanted,
    Explanation,
    HomeContent,
    OpenWork,
    StopChoice,
    SwarmCondition,
    WorkList,
    WorkState,
    WorkStopped,
)
from swarm.domain.model.agents import IDLE, Load, Role
from swarm.domain.policy.channels import Listen
from swarm.slack.outgoing.command_answers import home_view, message_of

pytestmark = pytest.mark.req("CHAN-08")

NASTY: Final = "Pings <!channel>, @here and <@U000BOB>, \u202e*boldly*\nghp_abcdefghijklmnopqrstuvwxyz0123456789"
WORK: Final = OpenWork(
    thread_id="t1",
    channel="C1",
    thread_ts="1700000000.000100",
    link="https://team.slack.example/archives/C1/p1700000000000100",
    title=NASTY,
    state=WorkState.RUNNING,
    agent="counter",
    since=1_700_000_000_000_000,
    requester="U1",
    task_id="task1",
)
COUNTER: Final = AgentCard(
    name="counter", role=Role.WORKER, description=NASTY, online=True, load=Load(running=1, open_tasks=2)
)
LEAD: Final = AgentCard(name="lead", role=Role.LEAD, description="", online=True, load=IDLE)
HERE: Final = ChannelListening(agent="lead", online=True, listen=Listen.MENTION, is_direct=False)


@pytest.mark.parametrize(
    "answer",
    [
        CommandRefused(reason=NASTY),
        CommandHelp(command="/swarm", unknown=NASTY),
        CommandHelp(command=NASTY),
        AgentList(agents=(COUNTER,)),
        WorkList(own=(WORK,), others=(WORK,), channel="C1"),
        StopChoice(work=(WORK,)),
        Explanation(lines=(NASTY,)),
        HomeContent(refused=NASTY),
        HomeContent(
            work=(WORK,),
            decisions=(DecisionWanted(title=NASTY, agent="lead", link="", since=0),),
            mistakes=(NASTY,),
            agents=(COUNTER,),
        ),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_what_people_and_agents_wrote_is_shown_pings_nobody_and_tells_no_secret(
    answer: CommandAnswer | HomeContent,
) -> None:
    drawn = str(home_view(answer) if isinstance(answer, HomeContent) else message_of(answer))
    assert "channel" in drawn
    assert "<!channel>" not in drawn
    assert "@here" not in drawn
    assert "\u202e" not in drawn
    assert "qrstuvwxyz" not in drawn


def status(**more: Any) -> str:
    values: dict[str, Any] = {
        "agents": (LEAD, COUNTER),
        "inbox_unread": 0,
        "oldest_unread_seconds": 0,
        "tasks_open": 0,
        "here": HERE,
    }
    return str(message_of(SwarmCondition(**values | more))["text"])


def test_status_is_four_lines() -> None:
    assert status().splitlines() == [
        "*Everything is running.*",
        "Agents: 2 online (lead, counter), 0 offline.",
        "Nothing is waiting. Open tasks: 0.",
        "Here: *lead* answers mentions, and what is written in its threads.",
    ]


@pytest.mark.parametrize(
    ("agents", "heading"),
    [
        ((), "No agent is registered yet."),
        ((replace(LEAD, online=False),), "No agent is online, so messages wait."),
        ((COUNTER, replace(LEAD, online=False)), "No lead is online, so messages without an address wait."),
    ],
)
def test_status_says_first_what_is_wrong(agents: tuple[AgentCard, ...], heading: str) -> None:
    assert status(agents=agents).splitlines()[0] == f"*{heading}*"


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (7_300, "2 hours"), (86_400, "1 day")]
)
def test_status_says_how_long_the_oldest_message_waits(seconds: int, text: str) -> None:
    assert f"2 messages wait, the oldest for {text}." in status(inbox_unread=2, oldest_unread_seconds=seconds)


@pytest.mark.parametrize(
    ("here", "text"),
    [
        ({"listen": Listen.ALL}, "*lead* answers every new message."),
        (
            {"listen": Listen.ALERTS, "online": False},
            "*lead* explains alerts, and answers mentions, but is offline now.",
        ),
        ({"is_direct": True}, "*lead* answers every message."),
        ({"is_visible": False}, "I cannot see this conversation."),
        ({"agent": None}, "No lead is registered, so messages wait."),
    ],
)
def test_status_says_who_answers_here(here: dict[str, Any], text: str) -> None:
    assert status(here=replace(HERE, **here)).splitlines()[-1] == f"Here: {text}"


def test_an_agent_is_shown_with_what_it_does_and_its_address() -> None:
    text = message_of(AgentList(agents=(replace(COUNTER, description="Counts."),)))["text"]
    assert text == "*counter* · worker · online · 1 run · 2 open tasks · `swarm#counter`\nCounts."


def test_only_tasks_of_this_conversation_can_be_stopped_from_the_list() -> None:
    elsewhere = replace(WORK, channel="C2", task_id="task2")
    blocks = message_of(WorkList(own=(WORK, elsewhere), others=(), channel="C1"))["blocks"]
    assert [block["accessory"]["value"] for block in blocks if "accessory" in block] == ["task1"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (WorkStopped(stopped=1), "I am stopping it."),
        (WorkStopped(stopped=3), "I am stopping it."),  # a task, its run and its request are one thing to people
        (WorkStopped(stopped=0), "Nothing of yours is running or waiting here."),
        (WorkList(own=(), others=(), channel="C1"), "Nothing of yours is open, and there are no tasks here."),
        (AgentList(agents=()), "There is no agent that you may use here."),
    ],
)
def test_an_answer_without_a_list_is_one_sentence(answer: CommandAnswer, text: str) -> None:
    assert message_of(answer) == {"response_type": "ephemeral", "text": text}


@pytest.mark.req("RUN-08")
def test_an_agent_whose_account_has_reached_its_limit_is_online_and_says_for_how_long() -> None:
    text = message_of(AgentList(agents=(replace(LEAD, parked_seconds=7300),)))["text"]
    assert "online, its account's limit is reached for 2 hours" in text
