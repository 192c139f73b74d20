"""The look-up rules of the demo's model: search, read the best documents, and quote them with their source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarm.demo.rules.asked import Asked, Call, Calls, Reply, Text

PARAGRAPHS_OF_ONE: Final = 3
PARAGRAPHS_OF_SEVERAL: Final = 2
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A document that was read."""

    id: str
    title: str
    text: str


def look_up(asked: Asked) -> Reply | None:
    """Returns the searches for a question; None for other messages, and without a search tool."""
    if "search" not in asked.tools or not _QUESTION.search(asked.last):
        return None
    queries = _queries(asked.last)
    return Calls(calls=tuple(Call(tool="search", arguments={"query": query}) for query in queries)) if queries else None


def from_documents(asked: Asked) -> Reply:
    """Returns the step after searches: read the best document of each, and then quote them."""
    pages = [page for result in asked.answered if result.call.tool == "fetch_document" and (page := _page(result.text))]
    if pages:
        return Text(text=_told(pages))
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


def _page(answer: str) -> Page | None:
    head, _, text = answer.partition("\n\n")
    told = _parsed(head)
    return Page(id=str(told["id"]), title=str(told.get("title") or told["id"]), text=text) if "id" in told else None


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _has_fetched(asked: Asked) -> bool:
    return any(result.call.tool == "fetch_document" for result in asked.answered)


def _told(pages: Sequence[Page]) -> str:
    """Quotes the pages, each with its source."""
    most = PARAGRAPHS_OF_ONE if len(pages) == 1 else PARAGRAPHS_OF_SEVERAL
    parts = []
    for page in pages:
        said = "\n\n".join(_paragraphs(page.text, most))
        heading = f"**{page.title}**\n\n" if len(pages) > 1 else ""
        parts.append(f"{heading}{said}\n\n_From “{page.title}” (`{page.id}`)_")
    return "\n\n".join(parts)


def _paragraphs(text: str, most: int) -> Iterator[str]:
    """Yields the first paragraphs of a Markdown text in a line each, without headings and introductions of lists."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    lines = (block if block.startswith("-") else " ".join(block.split()) for block in blocks)
    told = (line for line in lines if line and not line.startswith("#") and not line.endswith(":"))
    for _, block in zip(range(most), told, strict=False):
        yield block
