"""The rules of the demo's model for an assistant: remembers, calculates, looks things up, and introduces itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarm.demo.rules.asked import Answered, Asked, Call, Calls, Reply, Text
from swarm.demo.rules.memory import known, remembered, told_now
from swarm.demo.rules.router_rules import wanted
from swarm.demo.rules.sums import Language, is_number, language_of, sum_of, sums_in

_PARAGRAPHS_OF_ONE: Final = 3

_PARAGRAPHS_OF_SEVERAL: Final = 2
"""The quoted part of each document."""

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

WHAT_I_AM: Final = (
    "I am no language model, although I sit in the place of one: a small program that follows a few rules and speaks "
    "the protocol of a model, so that this demo needs neither a key nor a network. What is around me is real: the "
    "memory, the tools, the search. Set `LLM_MODEL` and a key, and a real model answers in my place."
)

_JOKES: Final = (
    "Why do programmers prefer dark mode?\nBecause light attracts bugs, and they have enough of those already.\n"
    "I would tell you one about UDP as well, but you might not get it.",
    "A queue walks into a bar and waits.\nWhoever came first is served first, and nobody finds that funny.\n"
    "Except the stack, which has been waiting since yesterday.",
    "How many schedulers does it take to change a light bulb?\nNone: the job is in the queue, with the right "
    "priority.\nIt will be dark until somebody renews the lease.",
)

_GREETING: Final = r"^(hello|hi|hey|good (morning|afternoon|evening)|hallo|bonjour|hola)\b"
_THANKS: Final = r"\b(thanks|thank you|thx|danke|merci|gracias)\b"

_WHO: Final = (
    r"\b(who|what) (exactly )?are you\b|\bare you (an?|real|really)\b|\b(what|which) (language )?model\b|real model"
)

_WEATHER: Final = r"\bweather\b|\bforecast\b|\bwill it rain\b|\bwetter\b"
_ENDLESS: Final = r"\b(search|look) (for ever|forever|endlessly|without end)\b"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Page:
    """A document that was read."""

    id: str
    title: str
    text: str


def _look_up(asked: Asked) -> Reply | None:
    """Returns the searches for a question; None for other messages, and without a search tool."""
    if "search" not in asked.tools or not _QUESTION.search(asked.last):
        return None
    queries = _queries(asked.last)
    return Calls(calls=tuple(Call(tool="search", arguments={"query": query}) for query in queries)) if queries else None


def _from_documents(asked: Asked) -> Reply:
    """Returns the step after searches: read the best document of each, and then quote them."""
    pages = [page for result in asked.answered if result.call.tool == "fetch_document" and (page := _page(result.text))]
    if pages:
        return Text(text=_told_of_documents(pages))
    found = dict.fromkeys(_best(result.text) for result in asked.answered if result.call.tool == "search")
    wanted = [document for document in found if document]
    if wanted and "fetch_document" in asked.tools and not _has_fetched(asked):
        return Calls(calls=tuple(Call(tool="fetch_document", arguments={"id": each}) for each in wanted))
    return Text(
        text="I have searched the documents and found nothing about that. I only tell what stands in them: "
        "I follow rules, and know nothing by myself."
    )


def _queries(question: str) -> Sequence[str]:
    """Returns keywords; for a comparison, those of each side."""
    if compared := _COMPARED.search(question):
        about = _keywords(compared["about"])
        return [" ".join([compared[name].lower(), *about]) for name in ("one", "other")]
    keywords = _keywords(question)
    return [" ".join(keywords)] if keywords else []


def _keywords(text: str) -> Sequence[str]:
    return [word for word in re.findall(r"[\w-]+", text.lower()) if not _FILLING.fullmatch(word)]


def _best(answer: str) -> str:
    """Returns the id of the first document of a search; empty without results."""
    documents = _parsed(answer).get("documents") or [{}]
    return str(documents[0].get("id") or "")


def _page(answer: str) -> _Page | None:
    head, _, text = answer.partition("\n\n")
    page = _parsed(head)
    return _Page(id=str(page["id"]), title=str(page.get("title") or page["id"]), text=text) if "id" in page else None


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _has_fetched(asked: Asked) -> bool:
    return any(result.call.tool == "fetch_document" for result in asked.answered)


def _told_of_documents(pages: Sequence[_Page]) -> str:
    """Quotes the pages, each with its source."""
    most = _PARAGRAPHS_OF_ONE if len(pages) == 1 else _PARAGRAPHS_OF_SEVERAL
    parts = []
    for page in pages:
        text = "\n\n".join(_paragraphs(page.text, most))
        heading = f"**{page.title}**\n\n" if len(pages) > 1 else ""
        parts.append(f"{heading}{text}\n\n_From “{page.title}” (`{page.id}`)_")
    return "\n\n".join(parts)


def _paragraphs(text: str, most: int) -> Iterator[str]:
    """Yields the first paragraphs of a Markdown text in a line each, without headings and introductions of lists."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    lines = (block if block.startswith("-") else " ".join(block.split()) for block in blocks)
    content = (line for line in lines if line and not line.startswith("#") and not line.endswith(":"))
    for _, block in zip(range(most), content, strict=False):
        yield block


def answer(asked: Asked) -> Reply:
    """Returns the next step: words, or calls of tools."""
    if re.search(_ENDLESS, asked.last, re.IGNORECASE) and "search" in asked.tools:
        return Calls(calls=(Call(tool="search", arguments={"query": f"attempt {len(asked.answered) + 1}"}),))
    if asked.answered:
        return _with_results(asked)
    for pattern, act in _RULES:
        if re.search(pattern, asked.last, re.IGNORECASE):
            return act(asked)
    return remembered(asked) or _calculated(asked) or _git(asked) or _look_up(asked) or Text(text=_abilities(asked))


def _abilities(asked: Asked) -> str:
    """Lists the possible requests, which depend on the tools."""
    can = [
        "tell you a **joke**",
        "**remember** what you tell me about yourself: `my name is Ada`, later `what is my name?`",
    ]
    if sums_in("1 plus 1")[0].tool_in(asked.tools):
        can.append("**calculate**: `what is 6 times 7?`")
    if "search" in asked.tools:
        can.append("**look things up** in the documents: `what is agntcy`, `compare agntcy and caipe onboarding`")
    if "git" in asked.tools:
        can.append("show the **`git status`** of the work tree that I was given")
    listed = "\n".join(f"- {one}" for one in can)
    return f"I follow rules, and am no language model, so I understand little. I can\n\n{listed}"


def _with_results(asked: Asked) -> Reply:
    """Returns the step after tools have answered."""
    results = asked.answered
    tools = {result.call.tool for result in results}
    if tools <= {"search", "fetch_document"}:
        return _from_documents(asked)
    if tools == {"git"}:
        return Text(text=f"This is what git says:\n\n```\n{results[-1].text.strip()}\n```")
    return Text(text="\n".join(_told(result, language_of(asked.last)) for result in results))


def _told(result: Answered, language: Language) -> str:
    of = sum_of(result.call.tool, result.call.arguments, language)
    text = result.text.strip()
    return of.told(text) if of and is_number(text) else language.result.format(result=text)


def _calculated(asked: Asked) -> Reply | None:
    sums = wanted(asked)
    calls = [call for each in sums if (call := each.call(asked.tools))]
    if calls and len(calls) == len(sums):
        return Calls(calls=tuple(calls))
    open_ones = [each for each in sums if each.tool_in(asked.tools) and not each.is_complete]
    return Text(text=open_ones[0].question) if open_ones else None


def _git(asked: Asked) -> Reply | None:
    if "git" not in asked.tools or not re.search(r"\bgit\b", asked.last, re.IGNORECASE):
        return None
    return Calls(calls=(Call(tool="git", arguments={"subcommand": "status"}),))


def _joke(asked: Asked) -> Reply:
    """Tells a different joke each time."""
    asked_before = sum("joke" in heard.lower() for heard in asked.heard)
    return Text(text=_JOKES[(asked_before - 1) % len(_JOKES)])


def _greet(asked: Asked) -> Reply:
    name = known(asked, "name")
    return told_now(asked) or Text(text=f"Hello{f' {name}' if name else ''}! {_abilities(asked)}")


def _weather(asked: Asked) -> Reply:
    return Text(
        text="I cannot tell you that: none of my tools knows anything about the weather, and I do not guess.\n"
        "Ask me about what is in the documents, or for a sum, and I can help."
    )


_RULES: Final[Sequence[tuple[str, Callable[[Asked], Reply]]]] = (
    (_WHO, lambda asked: Text(text=WHAT_I_AM)),
    (r"\bjoke\b|\bwitz\b", _joke),
    (_WEATHER, _weather),
    (_GREETING, _greet),
    (_THANKS, lambda asked: Text(text="You are welcome.")),
    (r"^\W*(help|what can you do)\b", lambda asked: Text(text=_abilities(asked))),
)
