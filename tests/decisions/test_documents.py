"""The table in the docs says what the tests expect, and every cell of the matrix has a place in it."""

from __future__ import annotations

import pytest

from tests.decisions.expected import NOT_OFFERED, NOTHING_TO_RETRY, Act, Asker, Course, expected
from tests.decisions.table import PAGE, markdown, rows, written

pytestmark = pytest.mark.req("HITL-14")


def test_the_table_in_the_docs_is_as_generated() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert markdown() in page, "run: python -m tests.decisions --write"
    assert written(page) == page


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tables"):
        written("nothing")


def test_what_the_sentences_below_the_table_say_is_true_of_every_decision() -> None:
    """The table has the plain course. In the others cells differ only as its sentences say."""
    for asker in Asker:
        retried = {expected(asker, act, Course.RETRIED) is NOTHING_TO_RETRY for act in (Act.APPROVE, Act.REJECT)}
        assert len(retried) == 1
        for act in Act:
            plain, killed = expected(asker, act), expected(asker, act, Course.KILLED)
            is_lost = asker is Asker.TOOL_SERVER and plain is not NOT_OFFERED
            assert killed.cards.endswith(plain.cards)
            assert killed.cards.startswith("withdrawn: lost") is is_lost
    assert len(rows()) < 30
