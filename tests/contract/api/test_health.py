"""Whether it lives, and whether it can work."""

from __future__ import annotations

import pytest

from tests.support.doors import Doors, Visitor
from tests.support.world import BOT


async def test_ready_says_so_with_the_backlog(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "checks": {"database": True, "slack": True},
        "backlog": {"inbox_unread": 1, "deliveries_open": 1},
    }


async def test_without_slack_it_is_not_ready_and_says_what_is_missing(doors: Doors) -> None:
    doors.ready["slack"] = False
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": True, "slack": False}
    assert answer.json()["error"]["code"] == "unavailable"
    assert "slack" in answer.json()["error"]["message"]


async def test_without_a_database_it_lives_is_not_ready_and_refuses_clearly(doors: Doors, lea: Visitor) -> None:
    await doors.world.database.close()
    assert (await doors.http.get(f"{doors.base}/healthz")).json() == {"status": "ok"}
    ready = await doors.http.get(f"{doors.base}/readyz")
    assert (ready.status_code, ready.json()["backlog"]) == (503, None)
    for method, path in [("GET", "/poll"), ("GET", "/tray"), ("POST", "/mcp")]:
        answer = await lea.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), path


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/poll", 405), ("PUT", "/agents", 405)]
)
async def test_what_is_no_route_is_refused_in_the_same_form(doors: Doors, method: str, path: str, status: int) -> None:
    answer = await doors.operator.ask(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert ("allow" in answer.headers) == (status == 405)
