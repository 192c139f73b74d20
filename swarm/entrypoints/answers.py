"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.responses import Response


class Answer(Response):
    """A JSON answer."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(content), status_code=status, headers=headers)
