"""JSON answers: what a model must not see is removed, however the encoder writes it."""

from __future__ import annotations

from types import MappingProxyType

import orjson
import pytest

from swarm.domain.text.characters import data_for_model
from swarm.entrypoints.web.answers import json_for_model
from tests.support.naughty import STORABLE

pytestmark = pytest.mark.req("SEC-04")

CONTROLS = tuple(f"a{chr(code)}b" for code in (*range(0x20), *range(0x7F, 0xA0)))


@pytest.mark.parametrize("text", [*STORABLE, *CONTROLS, "half \ud83d", "\\u200b", "plain"], ids=ascii)
@pytest.mark.parametrize("is_key", [False, True], ids=["value", "key"])
def test_an_answer_is_the_json_of_its_data_as_a_model_may_see_it(text: str, is_key: bool) -> None:
    data = {"list": [{text: 1} if is_key else {"deep": text}], "count": 1, "none": None}
    assert json_for_model(data) == orjson.dumps(data_for_model(data))


def test_an_answer_of_other_mappings_and_of_tuples_is_json_too() -> None:
    assert json_for_model(MappingProxyType({"of": ("a", "b")})) == b'{"of":["a","b"]}'
