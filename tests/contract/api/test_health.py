"""Whether it lives, and whether it can work."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.doors import Doors, Visitor
from tests.support.world import BOT


@pytest.mark.req("OPS-06")
async def test_ready_says_so_with_the_backlog(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    doors.world.clock.advance(90)
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "checks": {"database": True, "slack": True},
        "problems": {},
        "backlog": {"inbox_unread": 1, "oldest_unread_seconds": 90, "tasks_open": 0, "deliveries_open": 1},
    }


@pytest.mark.req("OPS-06")
async def test_without_slack_it_is_not_ready_and_says_what_is_missing(doors: Doors) -> None:
    doors.ready["slack"] = False
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": True, "slack": False}
    assert answer.json()["error"]["code"] == "unavailable"
    assert "slack" in answer.json()["error"]["message"]
    assert "no connection to Slack" in answer.json()["problems"]["slack"]
    assert "database" not in answer.json()["problems"]


@pytest.mark.req("OPS-06")
async def test_without_a_database_it_lives_is_not_ready_and_refuses_clearly(doors: Doors, lea: Visitor) -> None:
    await doors.world.database.close()
    assert (await doors.http.get(f"{doors.base}/healthz")).json() == {"status": "ok"}
    ready = await doors.http.get(f"{doors.base}/readyz")
    assert (ready.status_code, ready.json()["backlog"]) == (503, None)
    assert "cannot be read" in ready.json()["problems"]["database"]
    for method, path in [("GET", "/poll"), ("GET", "/tray"), ("POST", "/mcp")]:
        answer = await lea.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), path


async def test_only_a_change_of_readiness_is_logged(doors: Doors) -> None:
    async def ask() -> None:
        await doors.http.get(f"{doors.base}/readyz")

    with capture_logs() as lines:
        await ask()
        doors.ready["slack"] = False
        await ask()
        await ask()
        doors.ready["slack"] = True
        await ask()
        await ask()
    assert [line["action"] for line in lines] == ["not_ready", "ready"]
    assert lines[0]["missing"] == ["slack"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/poll", 405), ("PUT", "/agents", 405)]
)
async def test_what_is_no_route_is_refused_in_the_same_form(doors: Doors, method: str, path: str, status: int) -> None:
    answer = await doors.operator.ask(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert ("allow" in answer.headers) == (status == 405)
