"""The JSON of the contract, as it is written down in ``snapshots.json``: every object's keys, and whole answers.

``SNAPSHOTS=write`` writes the file anew; its diff is what clients would see.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm.domain.model.threads import File
from swarm.entrypoints.mcp.mcp_server import describe_tool
from tests.contract.api.test_feedback import rated
from tests.contract.api.test_requests import FORM, PUSH, asks
from tests.contract.api.test_runs import note
from tests.support.doors import Doors, Visitor
from tests.support.world import BOT, said
from tools.tool import discover

SNAPSHOTS = Path(__file__).with_name("snapshots.json")
RANDOM = re.compile(  # ids, tokens, keys, times of messages
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\bswarm_[\w-]{43,}|(?<![\w-])(?:[\w-]{43}|[\w-]{22}|[0-9a-f]{16})(?![\w-])"
    r"|17\d{8}\.?\d{6}|[\d-]{10} [\d:]{8} UTC"
)


def agrees(part: str, found: dict[str, Any]) -> None:
    """This part of the file is so: one line for each object or answer, with its keys in order."""
    known = json.loads(SNAPSHOTS.read_text()) if SNAPSHOTS.exists() else {}
    if os.environ.get("SNAPSHOTS") == "write":
        parts = {name: [f" {json.dumps(key)}: {json.dumps(one)}" for key, one in lines.items()]
                 for name, lines in {**known, part: found}.items()}  # fmt: skip
        text = ",\n".join(f'"{name}": {{\n' + ",\n".join(lines) + "\n}" for name, lines in parts.items())
        SNAPSHOTS.write_text(f"{{\n{text}\n}}\n")
    else:
        assert [f"{key}: {json.dumps(one)}" for key, one in found.items()] == [
            f"{key}: {json.dumps(one)}" for key, one in known[part].items()
        ]


def objects(node: Any, place: str) -> Iterator[tuple[str, list[str]]]:
    """Every object that a schema describes, and its keys."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield place, list(node["properties"])
        for key, part in node.items():
            yield from objects(part, place if key in ("properties", "items") else f"{place}.{key}")
    elif isinstance(node, list):
        for part in node:
            yield from objects(part, place)


@pytest.mark.req("LOOP-05", "LOOP-17")
async def test_every_object_has_the_keys_that_are_written_down(doors: Doors) -> None:
    document = (await doors.http.get(f"{doors.base}/openapi.json")).json()
    described: dict[str, Any] = {
        path: [one["responses"].get("200") for one in each.values()] for path, each in document["paths"].items()
    }
    described |= {name: describe_tool(tool).output_schema for name, tool in discover().items()}
    described |= document["components"]["schemas"]
    agrees("keys", {place: keys for name, part in described.items() for place, keys in objects(part, name)})


async def test_whole_answers_are_as_they_are_written_down(doors: Doors, lea: Visitor) -> None:
    bodies = [body async for body in answers(doors, lea)]
    names: dict[str, str] = {}
    text = RANDOM.sub(lambda found: names.setdefault(found.group(), f"<{len(names)}>"), json.dumps(bodies))
    agrees("answers", {str(number): body for number, body in enumerate(json.loads(text), 1)})


async def answers(doors: Doors, lea: Visitor) -> AsyncIterator[Any]:
    """One story in which every kind of object is answered."""
    operator, wim = doors.operator, await doors.worker()
    yield await lea.get("/me")
    yield await operator.post("/agents", {"name": "new", "role": "worker", "capabilities": ["python"]})
    attached = File(id="F1", name="F1.txt", mimetype="text/plain", size_bytes=5)
    await doors.world.hears(replace(said(f"{BOT} count the lines"), files=(attached,)))
    yield await lea.get("/tray")
    (trigger,) = triggers = await lea.poll()
    yield triggers
    token, entry = trigger["lease"]["token"], trigger["inbox_messages"][0]
    yield await lea.post("/leases/renew", {"tokens": [token, "unknown"]})
    yield await lea.uses("read-inbox-message", inbox_message_id=entry["id"])
    yield await lea.uses("slack-read-thread", inbox_message_id=entry["id"])
    first = await lea.uses("create-task", title="First", description="Do this first.", agent="wim")
    about = {"inbox_message_id": entry["id"], "agent": "wim", "task": "Count.", "depends_on": [first["id"]]}
    yield await operator.get("/deliveries")
    yield await lea.uses("inbox-delegate", lease=token, **about)
    (work,) = await wim.poll()
    held = {"task_id": first["id"], "lease_token": work["lease"]["token"]}
    yield await wim.uses("task-progress", message="half of it", percent=50, **held)
    yield await operator.post("/tasks", {"description": "Tidy up.", "agent": "wim"})
    await wim.uses("task-complete", result="42", **held)
    await doors.world.sweep()
    yield await wim.poll()  # two tasks, one of which waited for the first
    yield await wim.post("/leases/finish", {"tokens": ["unknown"], "outcome": "failed", "reason": "no", "next": 1})
    yield await wim.post("/leases/release", {"tokens": ["unknown"]})
    yield await operator.get("/tasks")
    yield await lea.poll()  # a notice about a task
    yield await wim.uses("send-message", to="lea", text="Look, please.")
    yield await lea.uses("tray")
    yield await lea.uses("read-messages")
    yield await lea.uses("list-agents")
    yield await operator.get(f"/explain?message=C1:{entry['ts']}")
    yield await operator.get(f"/threads/{trigger['thread']['id']}")
    hidden = {"name": "pin", "secret": True, "default": "1234"}
    _, asked = await asks(doors, lea, fields=[*FORM, hidden], decisions=["answer", "reject"])
    yield asked
    yield await lea.get(f"/requests/{asked['id']}")
    answer = {"decision": "answer", "values": {"part": "code", "key": "s3"}, "as": "U1"}
    yield await operator.post(f"/requests/{asked['id']}/decide", answer)
    _, called = await asks(doors, lea, tool=PUSH, decisions=["approve", "approve_always", "reject"])
    yield await operator.get(f"/requests/{called['id']}")
    allowed = await operator.post(f"/requests/{called['id']}/decide", {"decision": "approve_always", "as": "U1"})
    yield allowed
    yield [one["requests"] for one in await lea.poll()]
    yield await operator.get("/grants")
    yield await operator.get("/audit")
    await rated(doors, lea)
    yield await operator.get("/feedback")
    yield await operator.get("/inbox")
    await note(doors, "r1")
    yield await operator.get("/runs")
    yield await operator.get("/usage")
    yield await operator.get("/usage?by=run")
    yield await operator.get("/agents")
