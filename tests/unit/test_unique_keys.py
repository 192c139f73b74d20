"""JSON in which a key stands twice: what is said of it, and what that may cost."""

from __future__ import annotations

import pytest

from swarm.domain.text.unique_keys import KeyTwice, read_json

pytestmark = pytest.mark.req("SEC-05")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"é": 1,\n"é": 2}', "é stands twice (lines 1, 2)"),
        ('{"a": 1,\n"\\u0061": 2}', "a stands twice"),  # its other line is not found
        ('{"a": 1, "a": 2}', "a stands twice"),
        (
            "[" + ",\n".join(['{"a": 1, "a": 2}'] * 99) + "]",
            "98.a stands twice (lines 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)",  # enough to begin with
        ),
    ],
)
def test_the_place_is_named_in_few_words(text: str, said: str) -> None:
    with pytest.raises(KeyTwice) as refused:
        read_json(text)
    assert str(refused.value) == said
