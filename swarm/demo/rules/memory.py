"""The knowledge of the demo's model about a person, taken only from the messages sent to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from swarm.demo.rules.asked import Asked, Reply, Text

_FACT: Final = re.compile(r"\bmy (?P<what>[\w ]{2,40}?) (?:is|are) (?P<value>[^.!?,;\n“”]+)", re.IGNORECASE)
_NOTE: Final = re.compile(r"\bremember(?: that| this)?:? (?P<note>[^.!?\n“”]+)", re.IGNORECASE)
_ASKED: Final = re.compile(
    r"\b(?:what(?:'s|’s| is| are| was)|do you (?:know|remember)) my (?P<what>[\w ]+)", re.IGNORECASE
)
_ALL: Final = re.compile(r"\bwhat (?:do you|did you) (?:know|remember)\b|\bwho am i\b", re.IGNORECASE)

_AUTHOR: Final = re.compile(r"^(?P<author>[^:\n]{1,60}): (?P<text>.*)", re.DOTALL)


def remembered(asked: Asked) -> Reply | None:
    """Answers a question about the person, or a statement of the person; None for other messages."""
    if _ALL.search(asked.last):
        return Text(text=_listed(_facts_in(asked.facts)))
    if question := _ASKED.search(asked.last):
        return _recalled(asked, " ".join(question["what"].split()).lower())
    return told_now(asked)


def told_now(asked: Asked) -> Reply | None:
    """Replies to a person's new statement; None without one."""
    new = _facts_in(asked.last)
    if not new:
        return None
    name = next((fact["value"] for fact in _FACT.finditer(asked.last) if fact["what"].lower() == "name"), "")
    greeting = f"Nice to meet you, **{name.strip()}**. " if name else ""
    return Text(text=f"{greeting}I will remember: {'; '.join(new)}.")


def known(asked: Asked, what: str) -> str:
    """Returns the latest statement about a subject; empty without one."""
    values = [found["value"].strip() for found in _FACT.finditer(asked.facts) if found["what"].strip().lower() == what]
    return values[-1] if values else ""


def _facts_in(text: str) -> Sequence[str]:
    """Returns a text's statements of a person, each once, in the order of their last mention."""
    notes = [found["note"].strip() for found in _NOTE.finditer(text) if not _FACT.search(found["note"])]
    latest = {found["what"].strip().lower(): found["value"].strip() for found in _FACT.finditer(text)}
    return [*(f"my {what} is {value}" for what, value in latest.items()), *dict.fromkeys(notes)]


def summary(conversation: str) -> str:
    """Summarises a conversation, given as a paragraph for each message: the facts, and the last question."""
    facts = _facts_in(conversation)
    asked = [found for part in conversation.split("\n\n") if (found := _question(part))]
    listed = "\n".join(f"- remember: {fact}" if not fact.startswith("my ") else f"- {fact}" for fact in facts)
    return (
        f"## Facts\nWhat people have told about themselves, in their own words:\n{listed or '- nothing'}\n\n"
        f"## Open\n{f'- asked last: {asked[-1]}' if asked else '- nothing'}"
    )


def _recalled(asked: Asked, what: str) -> Reply:
    value = known(asked, what)
    if value:
        return Text(text=f"Your {what} is **{value}**, as you have told me.")
    return Text(text=f"You have not told me what your {what} is. Tell me, and I will remember it.")


def _listed(facts: Sequence[str]) -> str:
    if not facts:
        return "You have told me nothing about yourself yet. `my name is Ada`, for example, is something I would keep."
    return "This is what you have told me:\n\n" + "\n".join(f"- {fact}" for fact in facts)


def _question(paragraph: str) -> str:
    """Returns the question in a paragraph of a conversation; empty without one."""
    found = _AUTHOR.match(paragraph.strip())
    if found is None or found["author"] in ("assistant", "system") or not found["text"].rstrip().endswith("?"):
        return ""
    return " ".join(found["text"].split())
