"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.responses import Response

from swarm.domain.text.characters import data_for_model


class Answer(Response):
    """A JSON answer. Agents pass it to their models, so all its texts are made safe for models."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(data_for_model(content)), status_code=status, headers=headers)
