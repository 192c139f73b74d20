"""Reads request bodies: at most 1 MiB, valid UTF-8, valid JSON of a limited number of values, and only text that every
database can store.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from swarm.domain.errors import BadRequest, Invalid, TooLarge
from swarm.domain.patterns import MOST_VALUES, has_few_values
from swarm.domain.text.unique_keys import KeyTwice, read_json
from swarm.entrypoints.web.errors import RequestTimeout, invalid

MAX_BODY_BYTES: Final = 1024 * 1024

MAX_BODY_SECONDS: Final = 30.0
"""The time limit for reading a complete body. `swarm.entrypoints.web.server` limits how slowly a body may arrive."""

_MAX_SHOWN_PATH: Final = 80

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """Returns the complete body.

    Raises TooLarge as soon as the limit is exceeded, RequestTimeout, and BadRequest if the client disconnects
    meanwhile.
    """
    declared = next((value for name, value in request.scope["headers"] if name == b"content-length"), b"")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            is_complete = False
            while not is_complete:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise BadRequest("The body is incomplete.")
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    raise _too_large()
                is_complete = not message.get("more_body", False)
    except TimeoutError as error:
        raise RequestTimeout(hint=f"Send it within {MAX_BODY_SECONDS:g} seconds.") from error
    return bytes(body)


async def read_model(request: Request, model: type[M]) -> M:
    """Returns the body as a model. Raises TooLarge, BadRequest for invalid JSON, and Invalid for JSON that does not
    match the model."""
    return parse_model(await read_body(request), model)


def parse_model(body: bytes, model: type[M]) -> M:
    """Returns a body as a model. Raises BadRequest for invalid JSON, and Invalid for JSON that does not match it."""
    try:
        return model.model_validate(_parse_json(body))
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from error


def _parse_json(body: bytes) -> Any:
    """Parses JSON without NUL characters. Raises BadRequest and Invalid."""
    content = load_json(body)
    if b"\\u" in body:  # the only spelling of such characters that is valid JSON
        refuse_unstorable(content)
    return content


def load_json(body: bytes) -> Any:
    """Parses JSON. Raises TooLarge, Invalid for a key that stands twice, and BadRequest, including for lone surrogates,
    which are invalid Unicode.
    """
    if not has_few_values(body):
        raise TooLarge(f"The body has more than {MOST_VALUES:,} values.", hint="Send less at once.")
    try:
        return read_json(body.decode())
    except KeyTwice as error:
        place = str(error).partition(" stands twice")[0][:_MAX_SHOWN_PATH]
        raise Invalid(f"{place} stands twice.", fields={place: "a key that stands once"}) from error
    except ValueError as error:
        raise BadRequest("The body is not valid JSON.", hint=str(error)) from error


def refuse_unstorable(content: object) -> None:
    """Raises Invalid for text that not every database can store: NUL, and halves of surrogate pairs."""
    for place, text in _texts(content, ""):
        if not _storable(text):
            field = place[:_MAX_SHOWN_PATH] or "body"
            raise Invalid(
                "The text contains characters that cannot be stored.",
                fields={field if _storable(field) else "body": "text without NUL and without lone surrogates"},
            )


def _storable(text: str) -> bool:
    """Whether every database can store a text."""
    return not _UNSTORABLE.search(text)


def _texts(content: object, place: str) -> Iterator[tuple[str, str]]:
    """Yields each string in a parsed JSON document, including keys, with its location."""
    waiting = [(place, content)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, str):
            yield at, value
        elif isinstance(value, dict):
            yield from ((at, key) for key in value)
            waiting.extend((f"{at}.{key}".lstrip("."), inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting.extend((f"{at}.{index}".lstrip("."), inner) for index, inner in enumerate(value))


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")
