"""What a CLI asks people, without a CLI and a coordinator."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from swarm_runner.asks import HumanAsks
from swarm_runner.coordinator import CoordinatorConnection
from swarm_runner.port import CliSession, PermissionAsked


class Coordinator:
    """Needs more time for the first question than for the others, and approves everything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, _tool: str, _token: str, /, **asked: Any) -> dict[str, Any]:
        name = asked["tool"]["name"]
        for _ in range(100 if name == "first" else 1):
            await asyncio.sleep(0)
        self.asked.append(name)
        return {"id": name}

    async def request(self, request_id: str) -> dict[str, Any]:
        return {"id": request_id, "status": "approved"}


class Session:
    async def permit(self, _id: str, *, allowed: bool, reason: str) -> None:
        assert allowed


@pytest.mark.req("HITL-05", "RUN-05")
async def test_what_a_cli_asks_at_once_is_asked_in_its_order() -> None:
    coordinator, about = Coordinator(), {"inbox_message_id": "m1"}
    asks = HumanAsks(cast("CoordinatorConnection", coordinator), "token", about, "run", lambda _line: None)
    names = ["first", "second", "third"]
    asked = [PermissionAsked(id=name, tool=name, title="", arguments={}) for name in names]
    await asyncio.gather(*(asks.permission(cast("CliSession", Session()), one) for one in asked))
    assert coordinator.asked == names
