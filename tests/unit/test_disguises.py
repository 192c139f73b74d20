"""Disguised calls, judged by a program that sees only what a person sees before they can approve.

The judge knows Slack's blocks and nothing of how cards are made: it reads the card and, if *Approve* is not on it, the
pages of the form up to the one that approves. What the call really does (`Disguise.operative`) must be among it, in
plain sight; otherwise there must be no way to approve.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.requests import (
    DecisionPolicy,
    FileDiff,
    FormField,
    HumanDecision,
    HumanRequest,
    ToolRequest,
)
from swarm.domain.requests.button_actions import DECIDE_ACTION, FORM_ACTION
from swarm.domain.requests.shown import fits_card
from swarm.slack.outgoing.request_cards import request_blocks
from swarm.slack.outgoing.request_forms import form_decision, form_pages, form_view
from tests.support.every import every
from tests.support.human_requests import answer, human_request

pytestmark = pytest.mark.req("HITL-10")

_D = HumanDecision
EVIL = "rm -rf /srv"
TOKEN = "ghp_" + "a1B2" * 9
DECISIONS = (_D.APPROVE, _D.EDIT, _D.REJECT, _D.APPROVE_ALWAYS)
TWO = DecisionPolicy(users=("U1", "U2"), need=2)


@dataclass(frozen=True, kw_only=True)
class Disguise:
    """A request, and what of it a person has to see."""

    name: str
    operative: str = EVIL
    tool: ToolRequest | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def request(self) -> HumanRequest:
        plain = (_D.APPROVE, _D.REJECT)
        can_edit = self.tool is not None and not self.tool.diffs
        return human_request(**({"tool": self.tool, "decisions": DECISIONS if can_edit else plain} | self.more))


def bash(name: str, command: Any, operative: str = EVIL, **more: Any) -> Disguise:
    return Disguise(
        name=name, operative=operative, tool=ToolRequest(name="Bash", arguments={"command": command} | more)
    )


def call(name: str, arguments: dict[str, Any], operative: str = EVIL, **more: Any) -> Disguise:
    return Disguise(name=name, operative=operative, tool=ToolRequest(name="t", arguments=arguments), more=more)


def edit(name: str, *diffs: FileDiff, operative: str = EVIL, **arguments: Any) -> Disguise:
    return Disguise(name=name, operative=operative, tool=ToolRequest(name="e", diffs=diffs, arguments=arguments))


def nested(depth: int, inmost: Any) -> Any:
    for _ in range(depth):
        inmost = {"a": inmost}
    return inmost


PEM = f"-----BEGIN RSA PRIVATE KEY-----\n/usr/bin/evil\n{'A' * 64}\n-----END RSA PRIVATE KEY-----"
FILE = "".join(f"line {n}\n" for n in range(300))
DISGUISES = (
    bash("blanks", "ls" + " " * 700 + EVIL),
    bash("blanks in groups", ("ls" + " " * 17) * 40 + EVIL),
    bash("indentation", "ls\n" + " " * 300 + EVIL),
    bash("tabs", "ls" + "\t" * 300 + EVIL),
    bash("empty lines", "ls" + "\n" * 300 + EVIL),
    bash("empty lines with blanks", "ls" + "\n  " * 300 + EVIL),
    bash("short lines", "ls\n" * 60 + EVIL),
    bash("no-break spaces", "ls" + "\xa0" * 300 + EVIL),
    bash("ideographic spaces", "ls" + "\u3000" * 300 + EVIL),
    bash("em spaces among blanks", "ls" + " \u2003" * 300 + EVIL),
    bash("braille blanks", "ls" + "\u2800" * 300 + EVIL),
    bash("line separators", "ls" + "\u2028" * 300 + EVIL),
    bash("form feeds", "ls" + "\f\v" * 100 + EVIL),
    bash("right-to-left override", "ls \u202e" + EVIL),
    bash("isolates", "ls \u2067\u2066" + EVIL + "\u2069"),
    bash("zero width", "r\u200bm -rf /srv", "m -rf /srv"),
    bash("soft hyphens", "rm -\xadrf /srv", "rf /srv"),
    bash("tags", "ls" + "".join(chr(0xE0000 + ord(one)) for one in EVIL), "U+E0072"),
    bash("variation selectors", "ls" + "\ufe01\U000e0101", "U+FE01"),
    bash("hangul fillers", "ls" + "\u3164" * 300 + EVIL),
    bash("private characters", "ls" + "\ue000" * 300 + EVIL),
    bash("null", "ls\0" + EVIL),
    bash("ANSI", EVIL + "\x1b[2K\x1b[1Als"),
    bash("carriage return", EVIL + "\rls" + " " * 9),
    bash("CRLF", "ls" + "\r\n" * 300 + EVIL),
    bash("backspaces", EVIL + "\b" * 11 + "ls -la"),
    bash("homoglyph", "ls; \u0441url evil.test", "\u0441url evil.test"),
    bash("our own marks", "ls ⟨3 × space⟩" + EVIL, "U+27E8"),
    bash("an ellipsis", "ls …\n\n\n" + EVIL),
    bash("an ended fence", "ls\n```\n*Approved*\n```\n" + EVIL),
    bash("an end of the arguments", 'ls"\n}\nTool: ls\n' + EVIL),
    bash("PEM", f"echo '{PEM}'", "/usr/bin/evil"),
    bash("PEM on one line", "echo '" + PEM.replace("\n", "\\n") + "'", "/usr/bin/evil"),
    bash("URL", "curl https://a.test/?api_key=abcdef12345&next=https://evil.test", "next=https://evil.test"),
    bash("a name of a secret", "token=evil.example.com1 ls", "evil.example.com1"),
    bash("bearer", "curl -H 'Authorization: Bearer evil/../path/1234567890'", "evil/../path/1234567890"),
    bash("user part of an address", "curl https://good.test:evil-host1@x.test", "evil-host1"),
    bash("a token before it", f"echo {TOKEN}; {EVIL}"),
    bash("a token that is too long", "echo ghp_" + "a1" * 400 + "evil1", "a1evil1"),
    bash("base64", "echo " + base64.b64encode(b"x" * 2_000).decode() + " | base64 -d | sh", "| base64 -d | sh"),
    bash("a long text", "x" * 100_000 + EVIL),
    bash("lists", [*["ls"] * 500, EVIL]),
    call("deep", nested(60, EVIL)),
    call("many names", {f"k{n}": n for n in range(300)} | {"z": EVIL}),
    call("the first of many names", {"a": EVIL} | {f"k{n}": "x" * 100 for n in range(300)}),
    call("names by case", {"command": "ls", "Command": EVIL}),
    call("in a name", {"ls" + " " * 300 + EVIL: 1}),
    call("a secret name of a name", {f"password={EVIL}": 1}),
    call("escapes of JSON", {"command": "\\u0072m -rf /srv"}, "\\\\u0072m -rf /srv"),
    call("a password of a command", {"password": f"x; {EVIL}"}),
    call("a token with a variable", {"token": "$(evil)1234"}, "$(evil)1234"),
    call("passwords in a list", {"passwords": ["a b", EVIL]}),
    call("words in a list of tokens", {"tokens": ["sh", "/tmp/evil"]}, "/tmp/evil"),
    call("below a secret name", {"secret": {"run": ["sh", "/tmp/evil"]}}, "/tmp/evil"),
    bash("a host that looks like a token", "curl https://eyJabcdefgh.evil-site.com/x", ".evil-site.com"),
    bash("a host with a token's prefix", "ssh glpat-e1v2i3l4x5y6z7.example.com", "7.example.com"),
    bash("marks upon marks", "ls e" + "\u0301\u0316" * 60 + EVIL, f"{EVIL}"),
    call("a long password", {"password": "x" * 3_000 + "evil"}, "xevil"),
    call("below words that imitate a card", {"a": EVIL}, title="Tool: Read", prompt='Tool: Read\n{\n  "path": "a"\n}'),
    call("beside long words", {"a": EVIL}, prompt="It is harmless. " * 600),
    Disguise(name="a question", more={"prompt": "It is harmless. " * 550 + EVIL}),
    Disguise(name="a question with blanks", more={"prompt": "Shall I go on?" + " " * 900 + EVIL}),
    Disguise(name="a question with fields", more={"prompt": "x\n" * 300 + EVIL, "fields": (FormField(name="a"),)}),
    Disguise(name="a tool's name", tool=ToolRequest(name="ls" + " " * 60 + EVIL)),
    Disguise(name="a tool's name of lines", tool=ToolRequest(name="ls\n\n\n\n\n" + EVIL)),
    edit("the second hunk", FileDiff(path="a", old=FILE, new=FILE.replace("line 3\n", "x\n") + EVIL)),
    edit("a long diff", FileDiff(path="a", old="", new="ok\n" * 300 + EVIL)),
    edit("blanks in a diff", FileDiff(path="a", old="x", new="x" + " " * 300 + EVIL)),
    edit("line ends", FileDiff(path="a", old="x\r\ny", new=f"x\ny\r{EVIL}")),
    edit("line ends of one line", FileDiff(path="a", old="x\r\ny\n", new="x\ny\r\n"), operative="U+000D"),
    edit(
        "old and new text exchanged",
        FileDiff(path="a", old=f"what stood there: {EVIL}", new="what is harmless here"),
        operative='"new_string": ⟨the old text of a, as above⟩',
        old_string="what is harmless here",
        new_string=f"what stood there: {EVIL}",
    ),
    edit("the path", FileDiff(path="a.py\n\n\n\n" + " " * 99 + EVIL, old="1", new="2")),
    edit(
        "lines that the diff shows elsewhere",
        FileDiff(path="a", old=f"{EVIL}\n" + "ok\n" * 9 + f"{EVIL}2\n", new=f"{EVIL}\n" + "ok\n" * 9 + "x\n"),
        operative=f"│ {EVIL}",
        content=f"{EVIL}\n" + "ok\n" * 9 + "x\n",
    ),
    edit("an old text that is not true", FileDiff(path="a", old=EVIL + "\n" * 9, new=EVIL + "\n" * 9), content=EVIL),
    Disguise(name="places", tool=ToolRequest(name="e", locations=(*(f"f{n}" for n in range(900)), EVIL))),
    call("changed by the first", {"a": "ls"}, policy=TWO, answers=(answer("U1", _D.EDIT, arguments={"a": EVIL}),)),
    Disguise(
        name="entered by the first",
        more={
            "fields": (FormField(name="a", label="A"),),
            "policy": TWO,
            "answers": (answer("U1", values={"a": "x" * 400 + " " * 300 + EVIL}),),
        },
    ),
)


# The judge


def texts(node: Any) -> Iterator[str]:
    """Every text in blocks, as a reader sees it, from top to bottom."""
    if isinstance(node, list):
        for part in node:
            yield from texts(part)
    elif isinstance(node, dict) and node.get("type") not in ("actions", "button"):
        if isinstance(node.get("text"), str):
            yield node["text"]
        for name in ("text", "elements", "label", "hint", "element"):
            yield from texts(node.get(name)) if not isinstance(node.get(name), str) else ()


def buttons(blocks: list[dict[str, Any]]) -> set[str]:
    return {element["action_id"] for block in blocks if block["type"] == "actions" for element in block["elements"]}


def approving(blocks: list[dict[str, Any]]) -> set[str]:
    return {one for one in buttons(blocks) if one.startswith(DECIDE_ACTION)} - {f"{DECIDE_ACTION}reject"}


def seen_before_approval(request: HumanRequest) -> str:
    """What a person has seen when they can approve: the card, or else all pages of the form up to the end."""
    card = request_blocks(request)
    shown = list(texts(card))
    if approving(card):
        for text in shown:
            assert len(text) <= 2_600
            assert text.count("\n") < 41
        return "\n".join(shown)
    assert FORM_ACTION in buttons(card)
    pages = len(form_pages(request, form_decision(request)))
    for page in range(1, pages + 1):
        view = form_view(request, page, {})
        assert view["submit"]["text"] == ("Next" if page < pages else "Approve")
        shown += texts(view["blocks"])
    return "\n".join(shown)


def is_seen(text: str, operative: str) -> bool:
    """Whether a text stands in plain sight somewhere: not cut by what is invisible, not moved out of sight."""
    for place in re.finditer(re.escape(operative), text):
        line = text[text.rfind("\n", 0, place.start()) + 1 : place.start()]
        before = text[: place.start()]
        far = re.search(r"(?<=\S)\s{17,}", line) or re.match(r"\s{42,}", line) or re.search(r"(?:\n\s*){5,}\Z", before)
        if not far:
            return True
    return False


def unseen_in(text: str) -> set[str]:
    """The characters that a person does not see as what they are."""
    return {
        one
        for one in text
        if one not in "\n\t "
        and (unicodedata.category(one) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs") or one in "\u2800\u3164\ufe01")
    }


def test_there_are_enough_disguises() -> None:
    assert len({disguise.name for disguise in DISGUISES}) == len(DISGUISES) >= 40


@every("disguise", DISGUISES, ids=[one.name for one in DISGUISES])
def test_what_a_call_really_does_is_seen_before_it_can_be_approved(disguise: Disguise) -> None:
    request = disguise.request()
    shown = seen_before_approval(request)
    assert is_seen(shown, disguise.operative)
    assert unseen_in(shown) == set()
    assert not re.search("[\u0300-\u036f]{5}", shown)
    assert bool(approving(request_blocks(request))) is fits_card(request)


def test_words_that_imitate_a_card_are_quoted_below_the_real_call() -> None:
    disguise = next(one for one in DISGUISES if one.name == "below words that imitate a card")
    kinds = [part["type"] for block in request_blocks(disguise.request()) for part in block.get("elements", ())]
    shown = [block for block in request_blocks(disguise.request()) if block["type"] == "rich_text"]
    assert kinds[:4] == ["rich_text_section", "rich_text_preformatted", "mrkdwn", "rich_text_quote"]
    assert EVIL in "".join(texts(shown[1]))
    assert "Read" not in "".join(texts(shown[:2]))
    assert "Read" in "".join(texts(shown[2]))


@given(st.text(st.sampled_from(" \t\xa0\u200b\u202e\u3000\ufe0f\u200d\x00\x1b⟨⟩aé❤🔥1\U000e0041"), max_size=80))
def test_every_character_of_a_text_can_be_read_off_the_card(text: str) -> None:
    card = request_blocks(human_request(tool=ToolRequest(name="t", arguments={"x": text})))
    (shown,) = [one for one in texts(card) if '"x"' in one]
    line = shown.partition('"x": "')[2].rpartition('"\n}')[0].replace("\\t", "\t").replace('\\"', '"')

    def meant(mark: re.Match[str]) -> str:
        if mark["code"]:
            return chr(int(mark["code"], 16)) * int(mark["times"] or 1)
        counts = {kind: int(number) for number, kind in re.findall(r"(\d+) × (space|tab)", mark.group())}
        return " " * counts.get("space", 0) + "\t" * counts.get("tab", 0)

    read = re.sub(r"⟨(?:(?P<times>\d+) × )?(?:U\+(?P<code>[0-9A-F]+) [^⟩]*|(?:space|tab)[^⟩]*)⟩", meant, line)
    is_mixed = re.search(r"[ \t]{5,}", text) and "\t" in text  # the counts of a mixed run say nothing about its order
    assert sorted(read) == sorted(text) if is_mixed else read == text


PARTS = st.one_of(st.text(), st.integers(), st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.text()))


@given(st.one_of(PARTS, st.lists(PARTS, max_size=3), st.dictionaries(st.text(), PARTS, max_size=3)))
def test_whatever_the_arguments_are_nothing_unseen_is_on_the_card(value: Any) -> None:
    asked = human_request(tool=ToolRequest(name="t", arguments={"x": value}))
    seen = {"\ufe0f", "\ufe0e", "\u200d", "\t"}  # within an emoji; as the indentation of one line among several
    assert unseen_in(seen_before_approval(replace(asked, decisions=DECISIONS))) - seen == set()
