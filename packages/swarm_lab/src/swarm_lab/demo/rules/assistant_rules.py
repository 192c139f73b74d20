"""The rules of the demo's model for an assistant, which remembers, calculates, looks things up and introduces
itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarm_lab.demo.rules.asked import Asked, Call, Calls, Reply, Text
from swarm_lab.demo.rules.router_rules import calculation
from swarm_lab.demo.rules.sums import sums_in, told

_FACT: Final = re.compile(r"\bmy (?P<what>[\w ]{2,40}?) (?:is|are) (?P<value>[^.!?,;\n“”]+)", re.IGNORECASE)
_NOTE: Final = re.compile(r"\bremember(?: that| this)?:? (?P<note>[^.!?\n“”]+)", re.IGNORECASE)
_ASKED: Final = re.compile(
    r"\b(?:what(?:'s|’s| is| are| was)|do you (?:know|remember)) my (?P<what>[\w ]+)", re.IGNORECASE
)
_ALL: Final = re.compile(r"\bwhat (?:do you|did you) (?:know|remember)\b|\bwho am i\b", re.IGNORECASE)

_AUTHOR: Final = re.compile(r"^(?P<author>[^:\n]{1,60}): (?P<text>.*)", re.DOTALL)


def _remembered(asked: Asked) -> Reply | None:
    """Replies to a question about the person or to a statement by the person. Returns None for other messages."""
    if _ALL.search(asked.last):
        return Text(text=_listed(_facts_in(asked.facts)))
    if question := _ASKED.search(asked.last):
        return _recalled(asked, " ".join(question["what"].split()).lower())
    return _told_now(asked)


def _told_now(asked: Asked) -> Reply | None:
    """Replies to a person's new statement. Returns None if there is none."""
    new = _facts_in(asked.last)
    if not new:
        return None
    name = next((fact["value"] for fact in _FACT.finditer(asked.last) if fact["what"].lower() == "name"), "")
    greeting = f"Nice to meet you, **{name.strip()}**. " if name else ""
    return Text(text=f"{greeting}I will remember: {'; '.join(new)}.")


def _known(asked: Asked, what: str) -> str:
    """Returns the latest statement about a subject, or an empty string if there is none."""
    told = [found["value"].strip() for found in _FACT.finditer(asked.facts) if found["what"].strip().lower() == what]
    return told[-1] if told else ""


def _facts_in(text: str) -> Sequence[str]:
    """Returns the statements that a person makes in a text, each once, in the order of their last mention."""
    notes = [found["note"].strip() for found in _NOTE.finditer(text) if not _FACT.search(found["note"])]
    latest = {found["what"].strip().lower(): found["value"].strip() for found in _FACT.finditer(text)}
    return [*(f"my {what} is {value}" for what, value in latest.items()), *dict.fromkeys(notes)]


def summary(conversation: str) -> str:
    """Summarises a conversation in which each message is a paragraph. The summary has the facts and the last
    question."""
    facts = _facts_in(conversation)
    asked = [found for part in conversation.split("\n\n") if (found := _question(part))]
    listed = "\n".join(f"- remember: {fact}" if not fact.startswith("my ") else f"- {fact}" for fact in facts)
    return (
        f"## Facts\nWhat people have told about themselves, in their own words:\n{listed or '- nothing'}\n\n"
        f"## Open\n{f'- asked last: {asked[-1]}' if asked else '- nothing'}"
    )


def _recalled(asked: Asked, what: str) -> Reply:
    value = _known(asked, what)
    if value:
        return Text(text=f"Your {what} is **{value}**, as you told me.")
    return Text(text=f"You have not told me what your {what} is. Tell me, and I will remember it.")


def _listed(facts: Sequence[str]) -> str:
    if not facts:
        return "You have told me nothing about yourself yet. For example, I would remember `my name is Ada`."
    return "You have told me this:\n\n" + "\n".join(f"- {fact}" for fact in facts)


def _question(paragraph: str) -> str:
    """Returns the question in a paragraph of a conversation, or an empty string if there is none."""
    found = _AUTHOR.match(paragraph.strip())
    if found is None or found["author"] in ("assistant", "system") or not found["text"].rstrip().endswith("?"):
        return ""
    return " ".join(found["text"].split())


PARAGRAPHS_OF_ONE: Final = 3
PARAGRAPHS_OF_SEVERAL: Final = 2
"""The number of paragraphs quoted from each document when several are quoted."""

_QUESTION: Final = re.compile(
    r"^\W*(?:what|who|how|where|when|which|why|tell me|explain|describe|compare|show me|find|search|look up)\b",
    re.IGNORECASE,
)
_COMPARED: Final = re.compile(
    r"\bcompare (?P<one>[\w-]+) (?:and|with|to) (?P<other>[\w-]+)(?P<about>[\w -]*)", re.IGNORECASE
)
_FILLING: Final = re.compile(
    r"(?:a|about|an|and|are|can|compare|describe|do|does|explain|find|for|how|i|in|is|it|look|me|my|of|on|please|search"
    r"|show|tell|the|there|this|to|up|we|what|when|where|which|who|why|with|you|your)"
)


_PLAN: Final = "write-plan"
_STEPS: Final = ("Search for both sides", "Read the best documents", "Compare them")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Page:
    """A document that has been read."""

    id: str
    title: str
    text: str


def _look_up(asked: Asked) -> Reply | None:
    """Returns the searches for a question. Returns None for other messages, or if there is no search tool."""
    if "search" not in asked.tools or not _QUESTION.search(asked.last):
        return None
    queries = _queries(asked.last)
    searches = [Call(tool="search", arguments={"query": query}) for query in queries]
    return Calls(calls=(*_planned(asked, 0), *searches)) if queries else None


def _planned(asked: Asked, done: int) -> Sequence[Call]:
    """Returns the call that shows the plan of a comparison with ``done`` finished steps; none for other questions."""
    if _PLAN not in asked.tools or not _COMPARED.search(asked.last):
        return ()
    status = ["complete" if at < done else "in_progress" if at == done else "pending" for at in range(len(_STEPS))]
    steps = [{"title": title, "status": how} for title, how in zip(_STEPS, status, strict=True)]
    return (Call(tool=_PLAN, arguments={"steps": steps}),)


def _from_documents(asked: Asked) -> Reply:
    """Returns the next step after searches: to read the best document of each, and then to quote the documents."""
    pages = [page for result in asked.answered if result.call.tool == "fetch_document" and (page := _page(result.text))]
    if pages and asked.answered[-1].call.tool != _PLAN and (plan := _planned(asked, 2)):
        return Calls(calls=tuple(plan))
    if pages:
        return Text(text=_quoted(pages))
    found = dict.fromkeys(_best(result.text) for result in asked.answered if result.call.tool == "search")
    wanted = [document for document in found if document]
    if wanted and "fetch_document" in asked.tools and not _has_fetched(asked):
        reading = [Call(tool="fetch_document", arguments={"id": each}) for each in wanted]
        return Calls(calls=(*_planned(asked, 1), *reading))
    return Text(
        text="I have searched the documents and found nothing about that. I only quote the documents: I follow "
        "rules, and know nothing myself."
    )


def _queries(question: str) -> Sequence[str]:
    """Returns search keywords. For a comparison, returns the keywords of each side."""
    if compared := _COMPARED.search(question):
        about = _keywords(compared["about"])
        return [" ".join([compared[name].lower(), *about]) for name in ("one", "other")]
    keywords = _keywords(question)
    return [" ".join(keywords)] if keywords else []


def _keywords(text: str) -> Sequence[str]:
    return [word for word in re.findall(r"[\w-]+", text.lower()) if not _FILLING.fullmatch(word)]


def _best(answer: str) -> str:
    """Returns the id of the first document found by a search, or an empty string if there are no results."""
    documents = _parsed(answer).get("documents") or [{}]
    return str(documents[0].get("id") or "")


def _page(answer: str) -> _Page | None:
    head, _, text = answer.partition("\n\n")
    told = _parsed(head)
    return _Page(id=str(told["id"]), title=str(told.get("title") or told["id"]), text=text) if "id" in told else None


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _has_fetched(asked: Asked) -> bool:
    return any(result.call.tool == "fetch_document" for result in asked.answered)


def _quoted(pages: Sequence[_Page]) -> str:
    most = PARAGRAPHS_OF_ONE if len(pages) == 1 else PARAGRAPHS_OF_SEVERAL
    parts = []
    for page in pages:
        said = "\n\n".join(_paragraphs(page.text, most))
        heading = f"**{page.title}**\n\n" if len(pages) > 1 else ""
        parts.append(f"{heading}{said}\n\n_From “{page.title}” (`{page.id}`)_")
    return "\n\n".join(parts)


def _paragraphs(text: str, most: int) -> Iterator[str]:
    """Yields the first paragraphs of a Markdown text, each as one line, without headings and lead-ins to lists."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    lines = (block if block.startswith("-") else " ".join(block.split()) for block in blocks)
    told = (line for line in lines if line and not line.startswith("#") and not line.endswith(":"))
    for _, block in zip(range(most), told, strict=False):
        yield block


WHAT_I_AM: Final = (
    "I am not a language model, although I take the place of one. I am a small program that follows a few rules and "
    "uses a model's protocol, so that this demo needs neither a key nor a network. Everything around me is real: "
    "the memory, the tools, the search. Set `LLM_MODEL` and a key, and a real model answers instead of me."
)

_JOKES: Final = (
    "Why do programmers prefer dark mode?\nBecause light attracts bugs, and they have enough of those already.\n"
    "I would tell you one about UDP as well, but you might not get it.",
    "A queue walks into a bar and waits.\nWhoever came first is served first, and nobody finds that funny.\n"
    "Except the stack, which has been waiting since yesterday.",
    "How many schedulers does it take to change a light bulb?\nNone: the job is in the queue, with the right "
    "priority.\nIt will be dark until somebody renews the lease.",
)

_GREETING: Final = r"^(hello|hi|hey|good (morning|afternoon|evening))\b"
_THANKS: Final = r"\b(thanks|thank you|thx)\b"
_WHO: Final = (
    r"\b(who|what) (exactly )?are you\b|\bare you (an?|real|really)\b|\b(what|which) (language )?model\b|real model"
)
_WEATHER: Final = r"\bweather\b|\bforecast\b|\bwill it rain\b"
_TO_WRITE: Final = re.compile(r"\bwrite (?:it |this )?down:?\s+(?P<text>[^\n]{1,500})", re.IGNORECASE)
NOTES: Final = "notes.md"
"""The file in the work tree into which the assistant writes."""

_ENDLESS: Final = r"\b(search|look) (for ever|forever|endlessly|without end)\b"


def answer(asked: Asked) -> Reply:
    """Returns the next step: text, or tool calls."""
    if re.search(_ENDLESS, asked.last, re.IGNORECASE) and "search" in asked.tools:
        return Calls(calls=(Call(tool="search", arguments={"query": f"attempt {len(asked.answered) + 1}"}),))
    if asked.answered:
        return _with_results(asked)
    for pattern, act in _RULES:
        if re.search(pattern, asked.last, re.IGNORECASE):
            return act(asked)
    return (
        _write_down(asked)
        or _remembered(asked)
        or _calculated(asked)
        or _git(asked)
        or _look_up(asked)
        or Text(text=_abilities(asked))
    )


def _abilities(asked: Asked) -> str:
    """Lists the requests that the assistant understands, which depend on the tools."""
    can = [
        "tell you a **joke**",
        "**remember** what you tell me about yourself: `my name is Ada`, later `what is my name?`",
    ]
    if sums_in("1 plus 1")[0].tool_in(asked.tools):
        can.append("**calculate**: `what is 6 times 7?`")
    if "search" in asked.tools:
        can.append("**look things up** in the documents: `what is agntcy`, `compare agntcy and caipe onboarding`")
    if "file-write" in asked.tools:
        can.append("**write** into a file, after you have approved it: `write down: buy milk`")
    if "git" in asked.tools:
        can.append("show the **`git status`** of the work tree that I was given")
    listed = "\n".join(f"- {one}" for one in can)
    return f"I follow rules and am not a language model, so I do not understand much. I can\n\n{listed}"


def _with_results(asked: Asked) -> Reply:
    """Returns the next step after tools have answered."""
    results = asked.answered
    tools = {result.call.tool for result in results}
    if tools <= {"search", "fetch_document", _PLAN}:
        return _from_documents(asked)
    if tools == {"file-write"}:
        return Text(text=f"This is what became of it: {results[-1].text.strip()}")
    if tools == {"git"}:
        return Text(text=f"This is what git says:\n\n```\n{results[-1].text.strip()}\n```")
    return Text(text="\n".join(told(one.call.tool, one.call.arguments, one.text.strip()) for one in results))


def _calculated(asked: Asked) -> Reply | None:
    step = calculation(asked)
    return Text(text=step) if isinstance(step, str) else step


def _write_down(asked: Asked) -> Reply | None:
    found = _TO_WRITE.search(asked.last)
    if found is None or "file-write" not in asked.tools:
        return None
    line = " ".join(found["text"].split())
    return Calls(calls=(Call(tool="file-write", arguments={"path": NOTES, "content": f"- {line}\n", "append": True}),))


def _git(asked: Asked) -> Reply | None:
    if "git" not in asked.tools or not re.search(r"\bgit\b", asked.last, re.IGNORECASE):
        return None
    return Calls(calls=(Call(tool="git", arguments={"subcommand": "status"}),))


def _joke(asked: Asked) -> Reply:
    """Tells a different joke each time."""
    told = sum("joke" in heard.lower() for heard in asked.heard)
    return Text(text=_JOKES[(told - 1) % len(_JOKES)])


def _greet(asked: Asked) -> Reply:
    name = _known(asked, "name")
    return _told_now(asked) or Text(text=f"Hello{f' {name}' if name else ''}! {_abilities(asked)}")


def _weather(asked: Asked) -> Reply:
    return Text(
        text="I cannot tell you that: none of my tools knows anything about the weather, and I do not guess.\n"
        "Ask me about what is in the documents, or for a sum, and I can help."
    )


_RULES: Final[Sequence[tuple[str, Callable[[Asked], Reply]]]] = (
    (_WHO, lambda asked: Text(text=WHAT_I_AM)),
    (r"\bjoke\b", _joke),
    (_WEATHER, _weather),
    (_GREETING, _greet),
    (_THANKS, lambda asked: Text(text="You are welcome.")),
    (r"^\W*(help|what can you do)\b", lambda asked: Text(text=_abilities(asked))),
)
