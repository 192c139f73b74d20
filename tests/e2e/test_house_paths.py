"""The paths of the house, measured on the real programs: moved modules must not blind the profiler."""

from __future__ import annotations

import pytest

from tests import house, house_paths


@pytest.mark.long
def test_a_payload_a_poll_and_a_reply_are_followed_from_the_door_to_the_database() -> None:
    found = house_paths.measure(house.ROOT)
    files = {request: {where for where, _ in places} for request, places in found.items()}
    for entered in files.values():
        assert any(where.startswith("swarm/entrypoints/") for where in entered)
        assert any(where.startswith("swarm/store/bridge/sqlite") for where in entered)
    assert "tools/slack_reply.py" in files["reply"]
    assert not any(where.startswith("tools/") for where in files["payload"] | files["poll"])
