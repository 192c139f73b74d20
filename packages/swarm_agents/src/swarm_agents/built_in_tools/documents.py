"""``search`` and ``fetch_document``: the documents in the operator's folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
import structlog

from swarm.domain.documents import MOST_RESULTS, SEARCH_LIMIT, FoundDocument, Library
from swarm.domain.errors import SwarmError
from swarm_agents.toolbox.tool import CallTool, Tool, ToolAnswer, failed, object_schema

SEARCH_MAX_CALLS: Final = 5
FETCH_DOCUMENT_MAX_CALLS: Final = 10

_SEARCH: Final = (
    "Search the organisation's documents. Search before you answer questions about its products, processes, services "
    "or people, even if you think that you know. Give two to five keywords, as they would appear in the text, not a "
    "sentence; a product's own name and spelling work best. Each keyword also matches longer words that start with it; "
    "synonyms and other languages are not found, so search for them separately. For a question with several "
    "parts, make several searches at once, in one turn. Answers with the documents that fit best, best first, each "
    "with its id, its title and an excerpt. If an excerpt is not enough, read the document with fetch_document. Name "
    "the titles of the documents that your answer is based on; if none of them answers the question, say so."
)
_FETCH: Final = (
    "Read a complete document. Takes an id that search has given, exactly as it was given; ids cannot be guessed. "
    "Call it when the excerpt of a search is not enough; several documents may be read at once, in one turn."
)

_log = structlog.get_logger(__name__)


def document_tools(
    library: Library,
    *,
    search_max_calls: int | None = SEARCH_MAX_CALLS,
    fetch_max_calls: int | None = FETCH_DOCUMENT_MAX_CALLS,
) -> tuple[Tool, Tool]:
    """Returns ``search`` and ``fetch_document`` for a library. None as the number of calls in one run means no
    limit.
    """
    return (
        Tool(
            name="search",
            description=_SEARCH,
            parameters=object_schema(
                {
                    "query": {"type": "string", "description": "Keywords, for example: vpn access contractors"},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_RESULTS,
                        "default": SEARCH_LIMIT,
                        "description": "The maximum number of documents",
                    },
                },
                required=("query",),
            ),
            call=_answering(lambda arguments: _search(library, arguments)),
            most_calls=search_max_calls,
            limit_keys={"calls": "tools.search_max_calls"},
            is_read_only=True,
        ),
        Tool(
            name="fetch_document",
            description=_FETCH,
            parameters=object_schema(
                {"id": {"type": "string", "description": "A document's id from a search"}}, required=("id",)
            ),
            call=_answering(lambda arguments: _fetch(library, arguments)),
            most_calls=fetch_max_calls,
            limit_keys={"calls": "tools.fetch_document_max_calls"},
            is_read_only=True,
        ),
    )


async def _search(library: Library, arguments: Mapping[str, Any]) -> ToolAnswer:
    found = await library.search(arguments["query"], int(arguments.get("limit", SEARCH_LIMIT)))
    if not found:
        return ToolAnswer(text="No document has any of these words. Try other words for the same thing, or fewer.")
    return ToolAnswer(text=_json({"documents": [_shown(document) for document in found]}))


async def _fetch(library: Library, arguments: Mapping[str, Any]) -> ToolAnswer:
    document = await library.fetch(arguments["id"])
    if document is None:
        return failed("There is no document with this id. Take the id from a search, exactly as shown there.")
    return ToolAnswer(text=f"{_json({'id': document.id, 'title': document.title})}\n\n{document.text}")


def _shown(document: FoundDocument) -> Mapping[str, str]:
    """Returns the fields to show, without the score, because the order (best first) is sufficient."""
    return {"id": document.id, "title": document.title, "excerpt": document.excerpt}


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _answering(act: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await act(arguments)
        except SwarmError as error:
            _log.warning("the documents could not be searched", action="documents_tool", error=error.message)
        except Exception:  # noqa: BLE001 - a model goes on with the answer; the log has what went wrong
            _log.exception("the documents could not be searched", action="documents_tool")
        return failed("The documents cannot be searched or read right now; try again later.")

    return call
