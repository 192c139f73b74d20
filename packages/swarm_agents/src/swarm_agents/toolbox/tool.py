"""A tool of any kind (from an MCP server, from a program, or in the coordinator), and its calls in a run.

The number of calls, the length of answers and their time are limited; a failing tool does not fail the run. A tool that
has reached its limit reports this, its name and the setting, and all other tools continue to work. If a step of the
model contains only such calls, the model is asked to conclude.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final

import structlog

from swarm.domain.answers.events import PlanStep
from swarm.domain.model.sessions import storable
from swarm_agents.toolbox.people import CALLER, PausableTimeout

CONCLUDE: Final = (
    "The tools that you keep calling have been called often enough for this question. Call no more tools: answer now, "
    "with what you have found out, and say what is missing."
)

_NOTE_CHARACTERS: Final = 60
"""The maximum length of the note about omitted text."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """A tool's answer. A failure is also an answer, which the model and people may read."""

    text: str  # without secrets
    failed: bool = False
    plan: tuple[PlanStep, ...] = ()  # the plan that people see from now on; empty: as before


def failed(text: str) -> ToolAnswer:
    """Returns a failure with its reason."""
    return ToolAnswer(text=text, failed=True)


CallTool = Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]
"""Calls a tool with arguments that fit its parameters. Raises only CancelledError, which ends the call.

A cancelled call leaves no process and no connection behind.
"""

RefuseCall = Callable[[Mapping[str, Any]], Awaitable[ToolAnswer | None]]
"""Returns why a tool would refuse a call, so that nobody is asked to approve it; None if it would not. Does nothing
else. The call itself checks again.
"""


async def refuse_nothing(arguments: Mapping[str, Any]) -> ToolAnswer | None:
    """Returns None: only the call itself can tell."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool: its description for a model, and its function."""

    name: str  # 1 to 64 of A-Z, a-z, 0-9, '_' and '-', unique among the tools of an agent
    description: str  # purpose and use, for the model
    parameters: Mapping[str, Any]  # a JSON Schema whose type is "object"
    call: CallTool
    refuse: RefuseCall = refuse_nothing
    server: str = ""  # the MCP server that provides the tool; empty: none
    server_name: str = ""  # the tool's name at its MCP server, which may differ from the name for models
    most_calls: int | None = None  # in one run; None for no limit
    most_characters: int | None = None  # of one answer; None: as for all tools
    most_seconds: float | None = None  # of one call, without the time in which people are asked; None for no limit
    limit_keys: Mapping[str, str] = field(default_factory=dict)  # the settings of "calls", "characters", "seconds"
    is_read_only: bool = False  # changes nothing and sends nothing anywhere
    is_destructive: bool = False  # may destroy something, according to its MCP server
    operation: str = ""  # the parameter that says what a call does, such as git's "subcommand"; empty if there is none
    risks: tuple[str, ...] = ()  # operations that discard work, such as git's "stash drop"
    risk: Callable[[Mapping[str, Any]], str] = lambda _: ""  # which of them a call is; empty: none
    carries_standing: bool = False  # who does the work that it passes on is told that strangers asked for it
    hands_over: bool = False  # ends the run's own part of its work


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolLimits:
    """The operator's limits for the tools that a pattern matches, for each tool by itself; None: says nothing."""

    pattern: str  # with * for anything: a tool's name, or "server/tool" with the tool's name at its MCP server
    key: str  # of the settings
    calls: int | None = None  # in one run
    characters: int | None = None  # of one answer
    seconds: float | None = None  # of one call

    def match(self, tool: Tool) -> bool:
        """Returns whether the limits are for this tool."""
        names = (tool.name, f"{tool.server}/{tool.server_name}") if tool.server else (tool.name,)
        return any(fnmatchcase(name, self.pattern) for name in names)


def is_given(server: str, tool: str, agent: str, servers: Mapping[str, Sequence[str] | None]) -> bool:
    """Returns whether an agent has a tool of an MCP server, by the tool's name there.

    ``servers`` has the patterns of each agent: of servers, or "server/tool". What one agent names belongs only to those
    that name it; an agent without a list (None) has what nobody names.
    """

    def is_among(patterns: Sequence[str]) -> bool:
        names = (server, f"{server}/{tool}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    own = servers.get(agent)
    return is_among(own) if own is not None else not any(is_among(named) for named in servers.values() if named)


def limited(tool: Tool, limits: Sequence[ToolLimits]) -> Tool:
    """Returns the tool with its limits. Of several, the first that sets a limit applies."""
    changes: dict[str, Any] = {}
    keys = dict(tool.limit_keys)
    for each in reversed([one for one in limits if one.match(tool)]):
        for name in ("calls", "characters", "seconds"):
            if (value := getattr(each, name)) is not None:
                changes[f"most_{name}"], keys[name] = value, f"{each.key}.{name}"
    return replace(tool, **changes, limit_keys=keys) if changes else tool


def not_for_strangers(tool: Tool, *, by_strangers: bool) -> ToolAnswer | None:
    """Returns a refusal for a run that strangers' messages started; None if the call may be made."""
    if not by_strangers or tool.is_read_only or tool.carries_standing:
        return None
    return ToolAnswer(
        text=(
            f"{tool.name} was not called: it may change something, and not only members of this workspace asked "
            f"for it. Continue without {tool.name}; tools that only read still work. Tell them that a member has to "
            "ask for it in a message of its own."
        )
    )


def object_schema(properties: Mapping[str, object], *, required: Sequence[str]) -> Mapping[str, Any]:
    """Returns a JSON Schema for a tool's parameters that allows no other parameters."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass(slots=True)
class CallCaps:
    """The call counts and limits of one run."""

    _calls: Counter[str] = field(default_factory=Counter)
    _refused: Counter[int] = field(default_factory=Counter)  # refused calls, by the model's step

    def refusal(self, tool: Tool, step: int) -> ToolAnswer | None:
        """Counts a call in the model's step ``step``. Returns an answer to use instead of the call if the limit is
        exceeded.
        """
        is_capped = tool.most_calls is not None and self._calls[tool.name] >= tool.most_calls
        if not is_capped:
            self._calls[tool.name] += 1
            return None
        self._refused[step] += 1
        times = "once" if tool.most_calls == 1 else f"{tool.most_calls} times"
        limit = (
            f"{times}, which is the limit for one question" if tool.most_calls else "as often as one question allows"
        )
        setting = f" ({tool.limit_keys['calls']})" if "calls" in tool.limit_keys else ""
        return ToolAnswer(
            text=f"{tool.name} has been called {limit}{setting}. Go on without {tool.name}; other tools still work."
        )

    def must_conclude(self, step: int, calls: int) -> bool:
        """Returns whether all ``calls`` in the model's step ``step`` were refused."""
        return 0 < calls <= self._refused[step]


async def answered(tool: Tool, arguments: Mapping[str, Any], most_characters: int) -> ToolAnswer:
    """Returns the tool's answer, shortened to the tool's limit or ``most_characters``. Raises only CancelledError.

    A tool should not raise either; an unexpected error is logged and returned as a failure.
    """
    key = tool.limit_keys.get("characters", "tools.output_characters")
    most = most_characters if tool.most_characters is None else tool.most_characters
    limit = _time_limit(tool)
    try:
        async with limit:
            return capped(await _called(tool, arguments, limit), most, key)
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        _log.warning("A tool call was interrupted.", action="tool_broken", tool=tool.name, server=tool.server)
        return failed(f"{tool.name} broke off before it answered.")
    except Exception as error:  # noqa: BLE001 - the run goes on: the model reads that the tool has failed
        if limit.expired():
            setting = tool.limit_keys.get("seconds", "")
            return failed(
                f"{tool.name} was stopped: it took longer than {tool.most_seconds:g} s, which is the limit ({setting})."
            )
        _log.error(
            "A tool failed with an unexpected error.",
            action="tool_failed",
            tool=tool.name,
            server=tool.server,
            exc_info=error,
        )
        return failed(f"{tool.name} failed: something went wrong on our side.")


def _time_limit(tool: Tool) -> PausableTimeout:
    """Returns the time limit of a call. While people are asked, neither this limit nor the run's goes on."""
    caller = CALLER.get()
    return PausableTimeout(tool.most_seconds, outer=caller.limit if caller else None)


async def _called(tool: Tool, arguments: Mapping[str, Any], limit: PausableTimeout) -> ToolAnswer:
    caller = CALLER.get()
    if caller is None or tool.most_seconds is None:
        return await tool.call(arguments)
    token = CALLER.set(replace(caller, limit=limit))
    try:
        return await tool.call(arguments)
    finally:
        CALLER.reset(token)


def _is_cancelled() -> bool:
    """Returns whether this task itself is cancelled. A cancelled connection in a library raises the same error."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def capped(answer: ToolAnswer, most_characters: int, key: str = "") -> ToolAnswer:
    """Limits an answer to ``most_characters``, with a note if the limit leaves room for text. ``key``: its setting.

    A long answer has its middle removed, because the beginning and end of a program's output are most useful. Unpaired
    surrogates, which no provider accepts, are replaced.
    """
    return replace(answer, text=shortened(storable(answer.text), most_characters, key))


def shortened(text: str, most_characters: int, key: str = "") -> str:
    """Returns the text, without its middle if it is too long. ``key`` is the setting of the limit."""
    if len(text) <= most_characters:
        return text
    limit = f"; the limit is {most_characters:,} ({key})" if key else ""
    kept = max(most_characters - _NOTE_CHARACTERS - len(limit), most_characters // 2)
    head = kept * 2 // 3
    note = f"\n\n[… {len(text) - kept:,} characters left out{limit} …]\n\n"
    return text[:head] + note + text[len(text) - (kept - head) :]
