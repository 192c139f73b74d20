"""Which alerts are the same, on pairs of ten sources that were labelled by judgement (`pairs.yaml`)."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from swarm.domain.text.fingerprints import fingerprint
from tests.unit.test_message_text import BOT, read

pytestmark = pytest.mark.req("CHAN-12")

_BOTH = re.compile(r"«([^»]*)»«([^»]*)»")
_DATA = yaml.safe_load(Path(__file__).with_name("pairs.yaml").read_text(encoding="utf-8"))
PAIRS = [(source, pair) for source, pairs in _DATA["pairs"].items() for pair in pairs]


def payload(pair: dict[str, Any], side: int) -> dict[str, Any]:
    """One alert of a pair as Slack sends it."""
    shape = dict(_DATA["shapes"][pair["shape"]])
    slots = shape.pop("defaults") | pair
    filled = _filled(shape, {name: _BOTH.sub(lambda both: both[side], str(slots[name])) for name in slots})
    assert isinstance(filled, dict)
    return filled


def _filled(value: Any, slots: dict[str, str]) -> Any:
    match value:
        case str():
            return Template(value).substitute(slots)
        case list():
            return [_filled(one, slots) for one in value]
        case dict():
            return {key: _filled(one, slots) for key, one in value.items()}
        case _:
            return value


def are_same(pair: dict[str, Any]) -> bool:
    messages = [read(BOT, **payload(pair, side)) for side in (1, 2)]
    first, second = (fingerprint("B1", message.text, message.attachments) for message in messages)
    return first == second is not None


def named(source: str, pair: dict[str, Any]) -> str:
    return f"{source}: {next(str(value) for value in pair.values() if '«' in str(value))}"


def report() -> str:
    """What each kind of pair is taken for, for the note of measurements."""
    counted = Counter((pair["is"], are_same(pair)) for _, pair in PAIRS)
    lines = [
        f"{is_:6} taken as one {counted[is_, True]:4}   as two {counted[is_, False]:4}"
        for is_ in ("same", "alike", "other")
    ]
    return "\n".join([f"{len(PAIRS)} pairs of {len(_DATA['pairs'])} sources", *lines])


def test_no_two_different_alerts_are_taken_for_one() -> None:
    assert [named(source, pair) for source, pair in PAIRS if pair["is"] == "other" and are_same(pair)] == []


def test_an_alert_that_differs_only_as_the_rules_say_is_a_repeat() -> None:
    assert [named(source, pair) for source, pair in PAIRS if pair["is"] == "same" and not are_same(pair)] == []


def test_figures_are_told_from_names() -> None:
    taken = {
        is_: [
            pair for pair in pairs if (fingerprint("B1", pair[0]) == fingerprint("B1", pair[1])) is not (is_ == "same")
        ]
        for is_, pairs in _DATA["neighbours"].items()
    }
    assert taken == {"same": [], "other": []}


def test_there_are_enough_pairs_of_ten_sources() -> None:
    assert len(PAIRS) >= 150
    assert len(_DATA["pairs"]) == 10
    assert all("«" in str(pair) for _, pair in PAIRS)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
