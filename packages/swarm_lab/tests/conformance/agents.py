"""Agents to be examined: a good one, and for each of the 22 checks one that fails exactly it.

They are real HTTP servers. Where an agent has to go on only when people see what it said before, its script waits for
so many calls of Slack (`Seen`): that is what a slow model does, without its slowness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from ag_ui.core import (
    BaseEvent,
    EventType,
    TextMessageContentEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from swarm.domain.watchers import SlackCall, Watcher
from swarm_lab.conformance.scenarios import SCENARIOS, Check, Scenario
from tests.support.agui_server import FINISHED, STARTED, Drip, Step, said, sse

GROWING: Final = frozenset({"chat.startStream", "chat.appendStream"})


class Seen(Watcher):
    """An event for each call that let an answer grow: ``seen[2]`` is set when there were two of them."""

    def __init__(self) -> None:
        self._count = 0
        self._events: dict[int, asyncio.Event] = {}

    def __getitem__(self, count: int) -> asyncio.Event:
        event = self._events.setdefault(count, asyncio.Event())
        if self._count >= count:
            event.set()
        return event

    def slack_called(self, call: SlackCall) -> None:
        if call.method in GROWING and call.result == "ok":
            self._count += 1
            for count, event in self._events.items():
                if count <= self._count:
                    event.set()


Script = Callable[[Scenario, Seen], tuple[Step, ...]]

SHORT: Final = {
    "simple-chat": ("Why did the agent cross the road?\n", "To get to the other side\n", "of the firewall.\n"),
    "off-topic": ("I know nothing of the weather,\n", "only of documents;\n", "ask me about those.\n"),
}
LONG: Final = tuple(
    f"Point {number}: {words}.\n"
    for number, words in enumerate(
        (
            "agents of different makers need a common way to find each other and to exchange messages",
            "a directory describes what each of them can do, and under which conditions it may be asked",
            "an identity service says who is who, so that nobody has to trust an address alone",
            "the onboarding begins with a description of the agent, which is checked and then published",
            "a platform team gets started with a chart, a secret and one command, and sees a health page",
        ),
        start=1,
    )
)


def good(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Uses a tool where it should, and says its answer bit by bit."""
    return (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen), FINISHED)


def concluding(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Says the most of its answer bit by bit, and at the end the whole of it as its result."""
    parts = lines(scenario)
    steps = (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen, parts[:-1]))
    return (*steps, FINISHED.model_copy(update={"result": "".join(parts)}))


def summing_up(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Says its answer bit by bit, and all of it again as its result."""
    end = FINISHED.model_copy(update={"result": "".join(lines(scenario))})
    return (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen), end)


def too_short(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    return (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen, ("No\n", "idea,\n", "sorry\n")), FINISHED)


def late(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Thinks for a while before its first word."""
    return (STARTED, Drip(b":\n\n", 0.5), *tool_if_wanted(scenario, seen), *spoken(scenario, seen), FINISHED)


def all_at_once(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Has its answer complete before it sends a word of it; a long one takes several messages."""
    parts = lines(scenario)
    if Check.CHUNKS in scenario.checks:
        parts = tuple(f"Fact {number} is not like fact {number * 7 % 1_000}.\n" for number in range(700))
    first = at_first(scenario)
    return (STARTED, *tool_if_wanted(scenario, seen), together(*said("".join(parts))), seen[first], FINISHED)


def repeating(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Says everything once more in a message of its own."""
    again = said("".join(lines(scenario)), id="m2")
    return (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen), *again, FINISHED)


def hanging_up(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Forgets to say that it is done."""
    return (STARTED, *tool_if_wanted(scenario, seen), *spoken(scenario, seen))


def eager(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Uses a tool where none is needed."""
    return (STARTED, *used_tool(seen), *spoken(scenario, seen, before=1), FINISHED)


def lazy(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """Answers out of its head."""
    return (STARTED, *spoken(scenario, seen, before=0), FINISHED)


def in_two_pieces(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    """A first line, and then all the rest."""
    first, *rest = lines(scenario)
    end = together(content("".join(rest)), FINISHED)
    return (STARTED, *tool_if_wanted(scenario, seen), content(first), seen[at_first(scenario)], end)


BROKEN: Final[Mapping[Check, Script]] = {
    Check.CONTENT: too_short,
    Check.STREAM: late,
    Check.LIVE: all_at_once,
    Check.ONCE: repeating,
    Check.LATCHED: hanging_up,
    Check.NO_TOOLS: eager,
    Check.TOOLS: lazy,
    Check.CHUNKS: in_two_pieces,
}
"""For each check an agent that fails it, and nothing else."""

CASES: Final = [(scenario, check) for scenario in SCENARIOS for check in scenario.checks]


def lines(scenario: Scenario) -> tuple[str, ...]:
    """A good answer."""
    return SHORT.get(scenario.name, LONG)


def at_first(scenario: Scenario) -> int:
    """So many calls there are when the first line is seen: a tool is seen before it."""
    return 2 if Check.TOOLS in scenario.checks else 1


def spoken(
    scenario: Scenario, seen: Seen, parts: tuple[str, ...] | None = None, before: int | None = None
) -> tuple[Step, ...]:
    """Lines, each said when the one before is seen; there were ``before`` calls before the first."""
    count = at_first(scenario) - 1 if before is None else before
    steps: list[Step] = []
    for number, part in enumerate(parts or lines(scenario), start=1):
        steps += [content(part), seen[count + number]]
    return tuple(steps)


def tool_if_wanted(scenario: Scenario, seen: Seen) -> tuple[Step, ...]:
    return used_tool(seen) if Check.TOOLS in scenario.checks else ()


def used_tool(seen: Seen) -> tuple[Step, ...]:
    """A search that ends when it is seen; that it has ended is told together with what comes next."""
    return (
        ToolCallStartEvent(type=EventType.TOOL_CALL_START, tool_call_id="t1", tool_call_name="search"),
        seen[1],
        ToolCallEndEvent(type=EventType.TOOL_CALL_END, tool_call_id="t1"),
    )


def content(text: str) -> BaseEvent:
    return TextMessageContentEvent(type=EventType.TEXT_MESSAGE_CONTENT, message_id="m1", delta=text)


def result() -> BaseEvent:
    return ToolCallResultEvent(type=EventType.TOOL_CALL_RESULT, message_id="r1", tool_call_id="t1", content="found")


def together(*events: BaseEvent) -> bytes:
    """Events that arrive in one piece."""
    return b"".join(sse(event.model_dump_json(by_alias=True)) for event in events)
