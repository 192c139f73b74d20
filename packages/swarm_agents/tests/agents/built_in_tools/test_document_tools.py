"""``search`` and ``fetch_document`` as a model sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import jsonschema
import pytest

from swarm.domain.documents import Document, FoundDocument
from swarm.domain.errors import Unavailable
from swarm_agents.built_in_tools.documents import document_tools

pytestmark = pytest.mark.req("TOOL-06")

GUIDE = FoundDocument(id="a/guide.md", title="The guide", excerpt="Turn it on.", score=2.0)


class Shelf:
    """A library of one document, or one that is broken."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, limit: int = 5) -> Sequence[FoundDocument]:
        self.asked.append((query, limit))
        if self.error:
            raise self.error
        return [GUIDE] if "guide" in query else []

    async def fetch(self, document_id: str) -> Document | None:
        if self.error:
            raise self.error
        return Document(id=GUIDE.id, title=GUIDE.title, text="All of it.") if document_id == GUIDE.id else None


def test_their_names_parameters_and_caps_are_as_configured() -> None:
    search, fetch = document_tools(Shelf(), search_max_calls=3, fetch_max_calls=None)
    assert (search.name, search.most_calls, fetch.name, fetch.most_calls) == ("search", 3, "fetch_document", None)
    for tool in (search, fetch):
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
    jsonschema.validate({"query": "vpn", "limit": 20}, search.parameters)
    for wrong in ({}, {"query": "vpn", "limit": 0}, {"query": "vpn", "limit": 21}, {"query": "vpn", "path": "/etc"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, search.parameters)


async def test_a_search_answers_with_ids_titles_and_excerpts() -> None:
    shelf = Shelf()
    search, _ = document_tools(shelf)
    answer = await search.call({"query": "guide"})
    assert not answer.failed
    assert json.loads(answer.text) == {
        "documents": [{"id": "a/guide.md", "title": "The guide", "excerpt": "Turn it on."}]
    }
    await search.call({"query": "guide", "limit": 2})
    assert shelf.asked == [("guide", 5), ("guide", 2)]


async def test_a_search_that_finds_nothing_says_what_to_do() -> None:
    answer = await document_tools(Shelf())[0].call({"query": "zebra"})
    assert not answer.failed
    assert "Try other words" in answer.text


async def test_a_document_is_fetched_whole_and_an_unknown_id_is_a_failure() -> None:
    _, fetch = document_tools(Shelf())
    answer = await fetch.call({"id": "a/guide.md"})
    assert answer.text.endswith("\n\nAll of it.")
    assert json.loads(answer.text.partition("\n")[0]) == {"id": "a/guide.md", "title": "The guide"}
    unknown = await fetch.call({"id": "../guide.md"})
    assert unknown.failed
    assert "Take the id from a search" in unknown.text


@pytest.mark.parametrize("error", [Unavailable("The database is closed."), RuntimeError("secret detail")])
async def test_what_goes_wrong_is_an_answer(error: Exception) -> None:
    for tool, arguments in zip(document_tools(Shelf(error)), ({"query": "guide"}, {"id": "x"}), strict=True):
        answer = await tool.call(arguments)
        assert answer.failed
        assert "try again later" in answer.text
        assert "secret" not in answer.text


async def test_a_call_can_be_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await document_tools(Shelf(asyncio.CancelledError()))[0].call({"query": "guide"})
