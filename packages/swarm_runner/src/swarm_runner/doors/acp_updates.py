"""The updates of the Agent Client Protocol as events. What is not understood is left out."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from swarm_runner.doors.lines import MOST_COUNTED, count_of, object_of, text_of
from swarm_runner.port import (
    CliEvent,
    FileDiff,
    LogLine,
    PermissionAsked,
    StepShown,
    TextAdded,
    ToolState,
    UsageReported,
)

_STATES: Final = {
    "pending": ToolState.PENDING,
    "in_progress": ToolState.IN_PROGRESS,
    "completed": ToolState.COMPLETE,
    "failed": ToolState.ERROR,
}
_LEAST_DOLLARS: Final = 1e-6  # less is an error of rounding
_MOST_CALLS: Final = 500
_MOST_CHARACTERS: Final = 1 << 20  # of one call; people decide about far less
_MOST_KEPT: Final = 16 << 20  # characters of all calls
_MOST_CUT: Final = 10_000
_TITLE_CHARACTERS: Final = 500
_KEPT_CHARACTERS: Final = 1_000  # of a turn's text
_WARNING: Final = re.compile(r"(?:Config warning|Warning): .+\n\n", re.DOTALL)
"""What codex's adapter says itself: a chunk of its own, without the id of a message."""

_NOTHING_SPENT: Final = UsageReported()


class _Counter:
    """Counts what a growing figure grows by, from the figure ``last`` on. A figure that falls has begun anew at 0."""

    def __init__(self, last: float | None = None) -> None:
        self.total: float | None = None
        self._last = last or 0

    def count(self, figure: float, *, is_growing: bool = True) -> None:
        """Counts the next figure. One that is not growing is for the last turn only, and is added."""
        has_begun_anew = not is_growing or figure < self._last - _LEAST_DOLLARS
        self.total = (self.total or 0) + max(0, figure if has_begun_anew else figure - self._last)
        self._last = figure


class SessionUsage:
    """The usage of a session since it was opened or resumed.

    The cost that ACP reports is that of the whole session, also of its earlier processes, or of the process (older
    versions of claude's adapter). The tokens at the end of a turn are those of the turn; the protocol can also be read
    in such a way that they are those of the session, and Copilot reports these.
    """

    def __init__(self, spent: UsageReported, agent: str) -> None:
        """``spent`` is what earlier runs of the session have used; ``agent`` is the agent's name or program."""
        self._grows = "copilot" in agent.lower()
        self._input = _Counter(spent.input_tokens)
        self._output = _Counter(spent.output_tokens)
        self._cost = _Counter(spent.cost_dollars)
        self._context = self._certain = 0  # of the last request, and the least input of this turn

    def request(self, context: int) -> UsageReported:
        """Counts a request by the tokens of its context. Returns the least input since the session was opened: how many
        tokens of a context are output is not told, but they all are input of the next request."""
        self._certain += self._context if context > self._context else 0
        self._context = context
        return UsageReported(input_tokens=int(self._input.total or 0) + self._certain)

    def cost(self, dollars: float) -> UsageReported:
        """Counts a cost of the session so far. Returns the cost since it was opened."""
        self._cost.count(dollars)
        return UsageReported(cost_dollars=self._cost.total)

    def turn(self, input_tokens: int | None, output_tokens: int | None) -> UsageReported:
        """Counts the tokens at the end of a turn. Returns the usage since the session was opened."""
        self._certain = 0
        for counter, tokens in ((self._input, input_tokens), (self._output, output_tokens)):
            if tokens is not None:
                counter.count(tokens, is_growing=self._grows)
        taken, given = (None if one.total is None else int(one.total) for one in (self._input, self._output))
        return UsageReported(input_tokens=taken, output_tokens=given, cost_dollars=self._cost.total)


class TurnUpdates:
    """The tool calls and the usage of a session, and the text of a turn: its beginning, its last message, and whether a
    paragraph is open."""

    def __init__(self, spent: UsageReported = _NOTHING_SPENT, agent: str = "") -> None:
        self.used = SessionUsage(spent, agent)
        self.text, self.has_worked = "", False
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._sizes: dict[str, int] = {}  # of the calls, in characters
        self._cut: OrderedDict[str, int | None] = OrderedDict()  # calls of which not everything is kept
        self._is_in_paragraph = False
        self._message_id: object = None
        self._is_codex = "codex" in agent

    def begin(self) -> None:
        """Begins a turn."""
        self._is_in_paragraph = self.has_worked = False
        self._message_id, self.text = None, ""

    def events(self, update: Mapping[str, Any]) -> Iterator[CliEvent]:
        """Yields the events of an update."""
        text = text_of(object_of(update.get("content")).get("text"))
        match update.get("sessionUpdate"):
            case "agent_message_chunk" if self._is_codex and not update.get("messageId") and _WARNING.fullmatch(text):
                yield LogLine(text=text.strip())
            case "agent_message_chunk" if text:
                yield from self._said(text, update.get("messageId"))
            case "notice":
                words = (text_of(update.get(name)) for name in ("severity", "title", "description"))
                yield LogLine(text=f"({' '.join(filter(None, words))})")
            case "agent_thought_chunk" if text.strip():
                yield LogLine(text=f"(thinking) {text[:_TITLE_CHARACTERS]}")
            case "tool_call" | "tool_call_update":
                self.has_worked = True
                yield from self._below_text(self._step(update))
            case "plan":
                yield from self._below_text(_plan(update.get("entries")))
            case "usage_update":
                if self._is_codex and (context := count_of(update.get("used"))):
                    yield self.used.request(context)
                yield from self._usage(object_of(update.get("cost")))

    def _said(self, text: str, message_id: object) -> Iterator[CliEvent]:
        """Adds text. Another message is another paragraph, for agents that tell which message they write."""
        if self._is_in_paragraph and message_id != self._message_id:
            yield TextAdded(text="\n\n")
        self._is_in_paragraph, self._message_id = True, message_id
        self.text += text[: _KEPT_CHARACTERS - len(self.text)]
        yield TextAdded(text=text)

    def call(self, update: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what is known of a tool call, with this update; only its title and state if it is too long."""
        id = _id_of(update)
        known = self._calls.setdefault(id, {})
        kept = ("title", "kind", "status", "rawInput", "content", "locations", "_meta")
        known.update({name: update[name] for name in kept if update.get(name) is not None})
        self._calls.move_to_end(id)
        self._sizes[id] = _size(known)
        if self._sizes[id] > _MOST_CHARACTERS:
            short = {name: text_of(known.get(name))[:_TITLE_CHARACTERS] for name in ("title", "kind", "status")}
            known.clear()
            known.update(short)
            self._cut[id], self._sizes[id] = None, _size(short)
        while len(self._calls) > _MOST_CALLS or sum(self._sizes.values()) > _MOST_KEPT:
            oldest, _ = self._calls.popitem(last=False)
            self._cut[oldest] = self._sizes.pop(oldest, None)
        while len(self._cut) > _MOST_CUT:
            self._cut.popitem(last=False)
        return known

    def is_whole(self, update: Mapping[str, Any]) -> bool:
        """Whether everything is known of a call, so that people can be asked about it."""
        return _id_of(update) not in self._cut

    def total(self, usage: Mapping[str, Any]) -> UsageReported | None:
        """Returns the usage at the end of a turn, since the session was opened; None if the agent tells none."""
        cached = [count_of(usage.get(name)) or 0 for name in ("cachedReadTokens", "cachedWriteTokens")]
        taken, given = count_of(usage.get("inputTokens")), count_of(usage.get("outputTokens"))
        if taken is None and given is None:
            return None
        total = None if taken is None else taken + sum(cached)
        return self.used.turn(total, given)

    def _below_text(self, steps: Iterator[CliEvent]) -> Iterator[CliEvent]:
        """Ends the paragraph before a step: the closing fence of a code block counts only as a whole line."""
        for step in steps:
            if self._is_in_paragraph:
                self._is_in_paragraph = False
                yield TextAdded(text="\n\n")
            yield step

    def _step(self, update: Mapping[str, Any]) -> Iterator[CliEvent]:
        id = _id_of(update)
        before = dict(self._calls.get(id, {}))
        call = self.call(update)
        if id and any(before.get(name) != call.get(name) for name in ("title", "status")):
            state = _STATES.get(text_of(call.get("status")), ToolState.PENDING)
            yield StepShown(id=id, title=_title(call), state=state)

    def _usage(self, cost: Mapping[str, Any]) -> Iterator[CliEvent]:
        amount = cost.get("amount")
        if isinstance(amount, int | float) and 0 <= amount <= MOST_COUNTED and cost.get("currency") == "USD":
            yield self.used.cost(float(amount))


def permission_of(id: str, params: Mapping[str, Any], updates: TurnUpdates) -> tuple[PermissionAsked, dict[str, str]]:
    """Returns a request for a permission, and its options by kind."""
    call = updates.call(object_of(params.get("toolCall")))
    options: dict[str, str] = {}
    for option in params.get("options") or ():
        kind, option_id = text_of(object_of(option).get("kind")), text_of(object_of(option).get("optionId"))
        if kind and option_id:
            options.setdefault(kind, option_id)
    given = call.get("rawInput")
    asked = PermissionAsked(
        id=id,
        tool=_mcp_tool(params, given) or _tool(call),
        title=text_of(call.get("title")),
        arguments=_arguments(call, given),
        diffs=tuple(_diffs(call.get("content"))),
        locations=tuple(_locations(call.get("locations"))),
        can_grant="allow_always" in options,
        is_whole=updates.is_whole(object_of(params.get("toolCall"))),
    )
    return asked, options


def _id_of(update: Mapping[str, Any]) -> str:
    return text_of(update.get("toolCallId"))[:_TITLE_CHARACTERS]


def _size(value: object) -> int:
    """Returns how many characters a value has, roughly, and as far as they count."""
    todo, size = [value], 0
    while todo and size <= _MOST_CHARACTERS:
        one = todo.pop()
        size += len(one) if isinstance(one, str) else 16
        todo += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else ()
    return size


def _arguments(call: Mapping[str, Any], given: object) -> dict[str, Any]:
    """Returns the call's input, and what else than diffs the call contains: both are a part of what is permitted."""
    arguments = dict(given) if isinstance(given, dict) else {} if given is None else {"input": given}
    contained = [one for one in _objects(call.get("content")) if one.get("type") != "diff"]
    texts = [text_of(object_of(one.get("content")).get("text")) or dict(one) for one in contained]
    known = [*arguments.values(), call.get("title")]
    name = "content" if "content" not in arguments else "shown"
    while name in arguments:
        name = f"also_{name}"
    unknown = [one for one in texts if one not in known]
    return arguments | ({name: unknown} if unknown else {})


def _diffs(content: object) -> Iterator[FileDiff]:
    for one in _objects(content):
        if one.get("type") == "diff":
            old = one.get("oldText")
            new = text_of(one.get("newText"))
            yield FileDiff(path=text_of(one.get("path")), old=old if isinstance(old, str) else None, new=new)


def _locations(locations: object) -> Iterator[str]:
    for one in _objects(locations):
        if path := text_of(one.get("path")):
            yield path if one.get("line") is None else f"{path}:{one['line']}"


def _objects(values: object) -> Iterator[Mapping[str, Any]]:
    return (object_of(one) for one in values if one) if isinstance(values, list) else iter(())


def _plan(entries: object) -> Iterator[CliEvent]:
    for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
        title, status = text_of(object_of(entry).get("content")), text_of(object_of(entry).get("status"))
        if title:
            state = _STATES.get(status, ToolState.PENDING)
            yield StepShown(id=f"plan-{number}", title=title[:_TITLE_CHARACTERS], state=state)


def _tool(call: Mapping[str, Any]) -> str:
    """Returns the tool's name. The protocol has only the kind of tool; claude's adapter adds the name."""
    named = object_of(object_of(call.get("_meta")).get("claudeCode")).get("toolName")
    return text_of(named) or text_of(call.get("kind")) or "tool"


def _mcp_tool(params: Mapping[str, Any], given: object) -> str:
    """Returns the name of an MCP server's tool, as claude names it, if codex's adapter says that it is one.

    Otherwise it would count as a command, and so would a grant.
    """
    server, tool = (text_of(object_of(given).get(name)) for name in ("server", "tool"))
    is_mcp = object_of(params.get("_meta")).get("is_mcp_tool_approval") is True
    return f"mcp__{server}__{tool}" if is_mcp and server and tool else ""


def _title(call: Mapping[str, Any]) -> str:
    return (text_of(call.get("title")) or _tool(call))[:_TITLE_CHARACTERS]
