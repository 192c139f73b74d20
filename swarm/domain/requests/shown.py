"""A request as people read it before they decide: the title, the call, and the asker's own words.

What is measured is what is shown: `fits_card` and the card use the same text. A text that is too long for a card, and
one with something hidden that could be more than a secret, is read page by page in a form, where only plain secrets
stay hidden; an approval counts from whoever has been shown all pages (`has_read`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final
from unicodedata import east_asian_width

from swarm.domain.model.requests import Asker, FileDiff, HumanRequest, ToolRequest
from swarm.domain.text.diffs import changed_lines, lines_of, unified
from swarm.domain.text.slack_text import with_targets
from swarm_base.characters import MAX_INDENTATION, has_one_line_ending, marked
from swarm_base.secrets import hidden_parts, is_hiding

MAX_CARD_CHARACTERS: Final = 2_500
MAX_CARD_LINES: Final = 40
"""The maximum size of a call, and of the asker's words, on a card that can be approved."""

MAX_PAGE_CHARACTERS: Final = 60_000
_MAX_PAGE_BYTES: Final = 190_000  # as JSON in ASCII
_MAX_LINE_CHARACTERS: Final = 80  # of a line before it is wrapped, and of what a title shows of a call
_MAX_BEGINNING: Final = 600
_MAX_BEGINNING_LINES: Final = 10
_SHORT: Final = 16  # characters of a text that is repeated, though a diff shows it

HIDDEN: Final = "••••••"
"""Stands for the value of a secret field."""

_READ: Final = ""
"""The key among a person's drafts for what they have been shown. No field has this name."""

_SECRET_NAME: Final = re.compile(
    r"(?:passw(?:or)?ds?|passwd|passphrase|passcode|pwd|secrets?|tokens?|credentials?|"
    r"(?:api|access|secret|private|auth|account|signing|encryption)[_ -]?keys?)"
    r"(?:[_ -]?(?:confirm(?:ation)?|repeat|\d+))?$",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"(?s).{1,2900}\Z|.{1450,2900}\n|.{1450,2899} |.{1,2900}")  # ends at a line, or at a word
_PLAIN_SECRET: Final = re.compile(r"[^\s;|&$<>]{1,2048}")
_SHELLS: Final = ("bash", "shell", "sh", "execute", "exec", "exec_command", "run", "run_command", "terminal")
_COMMANDS: Final = {**dict.fromkeys(_SHELLS, ("command", "cmd")), "git": ("subcommand",)}
"""The argument that holds the command, by the tool's name."""

_PUSH: Final = re.compile(r"git push ((?!-)[\w./-]+(?: (?!-)[\w./-]+)?)", re.ASCII)
_MCP_TOOL: Final = re.compile(r"mcp__([\w.-]+?)__([\w.-]+)", re.ASCII)
_VERBS: Final = {
    **dict.fromkeys(("edit", "multiedit", "notebookedit", "replace"), "edit"),
    **dict.fromkeys(("write", "file-write", "write_file"), "write"),
    **dict.fromkeys(("read", "file-read", "read_file"), "read"),
    **dict.fromkeys(("fetch", "webfetch", "web_fetch"), "fetch"),
    "delete": "delete",
}
_NAMED: Final = frozenset({"path", "file_path", "filepath", "notebook_path", "url"})  # one file or page


class PartKind(StrEnum):
    """Whose text a part of a request is."""

    CALL = "call"
    ASKED = "asked"  # the asker's own words


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownText:
    """A text as it is shown. ``is_whole``: nothing is hidden but plain secrets."""

    text: str = ""
    is_whole: bool = True

    @property
    def fits(self) -> bool:
        """Whether somebody who sees this text on a card sees everything."""
        return self.is_whole and self.on_card == self.text

    @property
    def on_card(self) -> str:
        """The text on a card: all of it, or its beginning with how much is left."""
        if len(self.text) <= MAX_CARD_CHARACTERS and sum(map(_lines, self.text.split("\n"))) <= MAX_CARD_LINES:
            return self.text
        shown = "\n".join(self.text[:_MAX_BEGINNING].split("\n")[:_MAX_BEGINNING_LINES])
        return f"{shown}\n⟨{len(self.text) - len(shown):,} more characters, read in the form⟩"


def _lines(line: str) -> int:
    """Returns how many lines a line takes where it is wrapped. Letters of East Asia are twice as wide."""
    width = sum(1 + (east_asian_width(one) in "WF") for one in line)
    return max(1, -(-width // _MAX_LINE_CHARACTERS))


class Reader:
    """Makes texts of others readable. ``reveals``: only plain secrets stay hidden, otherwise all."""

    def __init__(self, *, reveals: bool = False, hides: bool = True) -> None:
        self.is_whole = True
        self.has_hidden = False
        self._seen: dict[str, str] = {}
        self._reveals = reveals
        self._hides = hides and is_hiding()

    def text(self, text: str, name: str = "", *, is_line: bool = False, is_part: bool = False) -> str:
        """Returns a text without its secrets, with everything that cannot be seen named. ``name`` is that of its
        argument, or of what it is a part of, which may make it a secret as a whole.
        """
        if text and self._hides and _SECRET_NAME.search(name):
            is_plain = not is_part and bool(_PLAIN_SECRET.fullmatch(text))
            return self._hidden(text, is_plain=is_plain, is_line=is_line)
        shown, at = "", 0
        for begin, end, is_plain in hidden_parts(text) if self._hides else ():
            shown += marked(text[at:begin], is_line=is_line or at > 0)
            shown += self._hidden(text[begin:end], is_plain=is_plain, is_line=True)
            at = end
        return shown + marked(text[at:], is_line=is_line or at > 0)

    def line(self, text: str) -> str:
        """Like `text`, on one line."""
        return self.text(text, is_line=True).replace("\n", "⟨line break⟩")

    def diff(self, diff: FileDiff) -> Iterator[str]:
        """Yields the lines of a diff. A text of which it shows every line is not repeated by `json`."""
        old = diff.old or ""
        changes = unified(old, diff.new)
        lines = "\n".join(changes)
        if has_one_line_ending(old) and has_one_line_ending(diff.new):
            lines = lines.replace("\r\n", "\n")
        is_converted = bool(old) and ("\r\n" in old) != ("\r\n" in diff.new)
        is_empty = diff.old is None and not diff.new
        note = " (new, empty file)" if is_empty else " (new)" if diff.old is None else ""
        yield f"File: {self.line(diff.path)}{note or (' (other line endings)' if is_converted else '')}"
        if not is_empty and (changes or old == diff.new):
            yield self.text(lines) or "(no change)"
        if old and diff.new and old.endswith("\n") != diff.new.endswith("\n"):
            yield f"(now with{'out' if old.endswith(chr(10)) else ''} a line break at the end)"
        for text, signs, age in ((old, " -", "old"), (diff.new, " +", "new")):
            if len(text) > _SHORT and len(lines_of(text)) == sum(line[0] in signs for line in changes):
                self._seen.setdefault(text, f"⟨the {age} text of {self.line(diff.path)}, as above⟩")

    def json(self, value: object, name: str = "", depth: int = 1, *, is_part: bool = False) -> str:
        """Returns a value as JSON whose texts of several lines stand below their names, behind a bar.

        ``is_part``: the name is that of a list or an object which holds the value. Its parts may be a command's words.
        """
        pad = "  " * min(depth, MAX_INDENTATION // 2 - 1)
        is_secret = bool(_SECRET_NAME.search(name))
        match value:
            case str():
                return self._json_text(value, name, pad, is_part=is_part)
            case Mapping() if value:
                shown = (
                    (self._quoted(key), self.json(one, name if is_secret else str(key), depth + 1, is_part=is_secret))
                    for key, one in value.items()
                )
                parts = [f"{key}:{'' if text.startswith(chr(10)) else ' '}{text}" for key, text in shown]
                return f"{{\n{_listed(parts, pad)}\n{pad[2:]}}}"
            case list() | tuple() if value:
                parts = [self.json(one, name, depth + 1, is_part=True) for one in value]
                line = f"[{', '.join(parts)}]"
                if len(line) <= _MAX_LINE_CHARACTERS and "\n" not in line:
                    return line
                return f"[\n{_listed(parts, pad)}\n{pad[2:]}]"
            case int() if is_secret and not isinstance(value, bool) and "token" not in name.casefold():
                return self._quoted(str(value), name, is_part=is_part)
        return json.dumps(value, ensure_ascii=False, default=str)

    def _json_text(self, text: str, name: str, pad: str, *, is_part: bool) -> str:
        if text in self._seen:
            return self._seen[text]
        if "\n" not in text:
            return self._quoted(text, name, is_part=is_part)
        shown = self.text(text, name, is_part=is_part)
        if "\n" not in shown:
            return json.dumps(shown, ensure_ascii=False)
        return "".join(f"\n{pad}│ {line}" for line in shown.split("\n"))

    def _quoted(self, text: object, name: str = "", *, is_part: bool = False) -> str:
        return json.dumps(self.text(str(text), name, is_line=True, is_part=is_part), ensure_ascii=False)

    def _hidden(self, text: str, *, is_plain: bool, is_line: bool) -> str:
        self.has_hidden = True
        if is_plain:
            return f"⟨hidden: {_characters(text)}⟩"
        if self._reveals:
            return marked(text, is_line=is_line)
        self.is_whole = False
        return f"⟨hidden: {_characters(text)}, read in the form⟩"


def _listed(parts: Sequence[str], pad: str) -> str:
    """Returns the parts of an object or a list, with commas where they cannot be taken for a part of a text."""
    ends = ["" if "│" in part.rpartition("\n")[2] else "," for part in parts[:-1]]
    return "\n".join(f"{pad}{part}{end}" for part, end in zip(parts, [*ends, ""], strict=True))


def _characters(text: str) -> str:
    return f"{len(text):,} character{'s' if len(text) != 1 else ''}"


# --- What is decided


def waiting_call(request: HumanRequest) -> ToolRequest | None:
    """Returns the call that the next decision is about: with the arguments that somebody has changed before."""
    changed = next((answer.arguments for answer in request.answers if answer.arguments is not None), None)
    if request.tool is None or changed is None or not request.is_open:
        return request.tool
    return replace(request.tool, arguments=changed)


def shown_texts(request: HumanRequest, *, reveals: bool = False) -> list[tuple[PartKind, ShownText]]:
    """Returns everything that is decided: the call with the values that others are to approve, and the asker's own
    words. A text may be empty.
    """
    entered = ""
    if request.entered and request.is_open:
        titles = {field.name: field.title for field in request.fields}
        names = titles if len(set(titles.values())) == len(titles) else {}
        shown = without_secrets(request, request.entered)
        entered = json.dumps({names.get(name, name): one for name, one in shown.items()})
    call = _call_text(waiting_call(request), entered, reveals, is_hiding())
    return [(PartKind.CALL, call), (PartKind.ASKED, _asked_text(request, Reader(reveals=reveals)))]


def without_secrets(request: HumanRequest, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns entered values with a sign in place of those of secret fields."""
    return {name: HIDDEN if name in request.secrets else value for name, value in values.items()}


@lru_cache(maxsize=32)  # cards and pages need it often, and it can be long
def _call_text(call: ToolRequest | None, entered: str, reveals: bool, hides: bool) -> ShownText:
    reader = Reader(reveals=reveals, hides=hides)
    lines = [*_call_lines(call, reader)] if call else []
    if entered:
        lines.append(f"Entered: {reader.json(json.loads(entered))}")
    return ShownText(text="\n".join(lines), is_whole=reader.is_whole)


def operator_text(tool: ToolRequest) -> str:
    """Returns a whole call for the operator, from whom nothing is hidden."""
    return "\n".join(_call_lines(tool, Reader(hides=False)))


def _call_lines(tool: ToolRequest, reader: Reader) -> Iterator[str]:
    yield f"Tool: {reader.line(tool.name)}"
    for diff in tool.diffs:
        yield from reader.diff(diff)
    if tool.locations:
        yield f"Places: {', '.join(map(reader.line, tool.locations))}"
    if tool.arguments or not tool.diffs:
        yield reader.json(tool.arguments)


def _asked_text(request: HumanRequest, reader: Reader) -> ShownText:
    """Returns the asker's title, unless it only names the tool, and the prompt."""
    title = "" if _is_own_title(request) or request.title.strip() in request.prompt else request.title
    texts = [reader.text(text).strip("\n") for text in (title, request.question) if text.strip()]
    return ShownText(text="\n".join(texts), is_whole=reader.is_whole)


def _is_own_title(request: HumanRequest) -> bool:
    """Whether the title was not written by the asker."""
    generated = (may_i(request.tool), f"May I use {request.tool.name}?") if request.tool else ("A question",)
    return request.budget is not None or _tool_server(request) is not None or request.title in generated


def _tool_server(request: HumanRequest) -> str | None:
    """Returns the name of the tool server whose question a run's call has passed on."""
    is_passed_on = (
        request.asker is Asker.LIVE and request.run_id is not None and request.raw.keys() == {"server", "tool"}
    )
    return str(request.raw["server"]) if is_passed_on else None


def fits_card(request: HumanRequest) -> bool:
    """Whether a card shows everything that is decided, so that *Approve* may stand on it."""
    return all(shown.fits for _, shown in shown_texts(request))


# --- What is read in a form


ReadingPage = list[tuple[PartKind, str]]


def reading_pages(request: HumanRequest, *, reveals: bool = True) -> list[ReadingPage]:
    """Returns everything that is decided, in pages of parts; no pages if it stands on the card."""
    if fits_card(request):
        return []
    found: list[ReadingPage] = [[]]
    room = 1.0
    for kind, shown in shown_texts(request, reveals=reveals):
        for part in _PART.findall(shown.text):
            needed = max(len(part) / MAX_PAGE_CHARACTERS, len(json.dumps(part)) / _MAX_PAGE_BYTES)
            if needed > room:
                found.append([])
                room = 1.0
            found[-1].append((kind, part.removesuffix("\n")))
            room -= needed
    return found


def pages_read(request: HumanRequest, draft: Mapping[str, Any]) -> int:
    """Returns how many pages of the request, as it is now, a person has been shown one after the other."""
    seen, page = draft.get(_READ) or ("", 0)
    return int(page) if seen == version(request) else 0


def with_page_read(request: HumanRequest, draft: Mapping[str, Any], page: int) -> dict[str, Any]:
    """Returns a person's drafts with a page that they are shown now. It counts if they have seen those before it."""
    read = pages_read(request, draft)
    return {**draft, _READ: [version(request), max(read, page) if page <= read + 1 else read]}


def has_read(request: HumanRequest, draft: Mapping[str, Any]) -> bool:
    """Whether a person has been shown everything that they decide, on the card or in the form."""
    return pages_read(request, draft) >= len(reading_pages(request))


def version(request: HumanRequest) -> str:
    """Returns what changes with that which is shown: another person may have changed the arguments meanwhile."""
    call = waiting_call(request)
    remark = request.reason if request.is_open else ""
    shown = json.dumps([call.digest if call else "", request.prompt, request.entered, remark], default=str)
    return hashlib.sha256(shown.encode(errors="surrogatepass")).hexdigest()[:32]


# --- The title


def title_runs(request: HumanRequest) -> tuple[str, str]:
    """Returns the title, which is ours and follows from the call: words, and code that follows them."""
    name = Reader().line(request.agent) or "An agent"
    server = _tool_server(request)
    if request.budget is not None:
        return request.title, ""
    if server is not None:
        return f"{name} asks (for the tool server {Reader().line(server)})", ""
    before, code = _act(tool) if (tool := waiting_call(request)) else ("", "")
    return f"{name} wants to {before}" if before else f"{name} asks", code


def notified_title(request: HumanRequest) -> str:
    """Returns the title as plain text for notifications and lists: of a mere question, the asker's own."""
    if request.tool is None and _tool_server(request) is None:
        return with_targets(request.title)
    return _as_text(*title_runs(request))


def may_i(tool: ToolRequest) -> str:
    """Returns the question whether a call may be made, which is the title of askers that have none."""
    return f"May I {_as_text(*_act(tool))}?"


def _as_text(before: str, code: str) -> str:
    return f"{before}`{code}`" if code else before


def _act(tool: ToolRequest) -> tuple[str, str]:
    """Returns what a call does: words, and code that follows them."""
    if tool.diffs:
        return _edit(tool.diffs), ""
    name, command = tool.name.casefold(), _command(tool)
    if command is not None:
        if _fits_title(command) and (to := _PUSH.fullmatch(command)):
            return f"push to {to[1]}", ""
        return ("run ", command) if _fits_title(command) and "`" not in command else ("run a command", "")
    named = [str(value) for key, value in tool.arguments.items() if key.casefold() in _NAMED]
    if name in _VERBS and len(named) == 1:
        verb, what = _VERBS[name], "a web page" if _VERBS[name] == "fetch" else "a file"
        shown = PurePosixPath(named[0]).name if what == "a file" else named[0]
        return (f"{verb} ", shown) if _fits_title(shown) and "`" not in shown else (f"{verb} {what}", "")
    if _fits_title(tool.name) and (of := _MCP_TOOL.fullmatch(tool.name)):
        return f"use the tool {of[2]} of {of[1]}", ""
    return "use the tool ", Reader().line(tool.name)


def _fits_title(text: str) -> bool:
    return 0 < len(text) <= _MAX_LINE_CHARACTERS and Reader().line(text) == text


def _edit(diffs: Sequence[FileDiff]) -> str:
    changes = [changed_lines(unified(diff.old or "", diff.new)) for diff in diffs]
    paths = list(dict.fromkeys(diff.path for diff in diffs))
    name = PurePosixPath(paths[0]).name
    what = f"{len(paths)} files" if len(paths) > 1 else name if _fits_title(name) else "a file"
    verb = "create" if all(diff.old is None for diff in diffs) else "edit"
    return f"{verb} {what} (+{sum(added for added, _ in changes)} −{sum(removed for _, removed in changes)})"


def _command(tool: ToolRequest) -> str | None:
    """Returns the command of a call that runs one: in a shell, or a program with its arguments."""
    name, args = tool.name.casefold(), tool.arguments.get("args") or []
    found = [value for key, value in tool.arguments.items() if key.casefold() in _COMMANDS.get(name, ())]
    more = args if isinstance(args, str) else shlex.join(_words(args))
    if len(found) != 1 or (args and not more):
        return None
    words = _words(found[0])
    if len(words) == 3 and not more and PurePosixPath(words[0]).name in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    command = shlex.join(words) or (found[0] if isinstance(found[0], str) else "")
    return " ".join(filter(None, ("git" if name == "git" else "", command, more))) if command.strip() else None


def _words(value: object) -> list[str]:
    """Returns a list of texts; an empty one in place of anything else."""
    found = value if isinstance(value, list | tuple) else ()
    return [*found] if all(isinstance(one, str) for one in found) else []
