"""Who may come in, and as whom."""

from __future__ import annotations

import pytest

from swarm.clock import ManualClock
from swarm.domain.model.agents import Reach, Role
from swarm.domain.policy.operating import OperatingPolicy
from swarm.store.bridge.database import Database
from tests.support.doors import ENROLMENT_KEY, Doors, Visitor, WatchedWakeups, open_doors
from tests.support.world import BOT, World

OPERATOR_CALLS = [
    ("GET", "/agents"),
    ("POST", "/agents"),
    ("PATCH", "/agents/x"),
    ("DELETE", "/agents/x"),
    ("POST", "/agents/x/rotate"),
    ("GET", "/inbox"),
    ("GET", "/deliveries"),
    ("GET", "/threads/x"),
    ("POST", "/inbox/x/redrive"),
    ("GET", "/explain?message=C1:1.2"),
]
AGENT_CALLS = [
    ("GET", "/me"),
    ("GET", "/tray"),
    ("GET", "/poll"),
    ("POST", "/leases/renew"),
    ("POST", "/leases/release"),
    ("POST", "/leases/finish"),
    ("POST", "/mcp"),
]


@pytest.mark.req("OPS-04")
async def test_a_registered_agent_gets_its_token_once_and_is_known_by_it(doors: Doors) -> None:
    body = {"name": "lea", "role": "lead", "description": "leads", "capabilities": ["python"]}
    registered = await doors.operator.post("/agents", body)
    me = await doors.visitor(registered["token"]).get("/me")
    assert me == me | {"id": registered["id"], "name": "lea", "role": "lead", "description": "leads"}
    assert me["capabilities"] == ["python"]
    stored = await doors.everything()
    for shown in (me, await doors.operator.get("/agents"), stored):
        assert registered["token"] not in str(shown)


@pytest.mark.req("OPS-04")
@pytest.mark.req("HITL-11")
@pytest.mark.parametrize("name", ["operator", "system", "slack", "coordinator", "swarm", "---", "-", "-operator-"])
async def test_a_name_that_means_somebody_else_is_refused_with_the_remedy(name: str, doors: Doors) -> None:
    answer = await doors.operator.ask("POST", "/agents", json={"name": name, "role": "worker"})
    assert answer.status_code == 422
    assert "Choose another one" in answer.json()["error"]["message"]


async def test_a_name_is_taken_once(doors: Doors, lea: Visitor) -> None:
    answer = await doors.operator.ask("POST", "/agents", json={"name": "lea", "role": "worker"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.req("OPS-04")
async def test_an_enrolment_key_registers_workers_and_nothing_else(doors: Doors) -> None:
    enroller = doors.visitor(ENROLMENT_KEY)
    assert (await enroller.post("/agents", {"name": "wim", "role": "worker"}))["role"] == "worker"
    lead = await enroller.ask("POST", "/agents", json={"name": "lea", "role": "lead"})
    assert (lead.status_code, lead.json()["error"]["code"]) == (403, "forbidden")
    for method, path in [*OPERATOR_CALLS, *AGENT_CALLS]:
        if (method, path) != ("POST", "/agents"):
            assert (await enroller.ask(method, path)).status_code == 403, path


@pytest.mark.req("OPS-04")
async def test_without_a_valid_token_every_route_is_closed(doors: Doors) -> None:
    for header in (None, "Bearer", "Bearer wrong", "Basic b3A6", "Bearer \xfc\xe9", "Bearer " + "x" * 5000):
        headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
        for method, path in [*OPERATOR_CALLS, *AGENT_CALLS]:
            answer = await doors.http.request(method, doors.base + path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), (path, header)
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.req("OPS-04")
async def test_an_agents_token_does_not_open_the_operators_routes(doors: Doors, lea: Visitor) -> None:
    for method, path in OPERATOR_CALLS:
        answer = await lea.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), path


@pytest.mark.req("OPS-04")
async def test_the_operators_token_does_not_open_the_agents_routes(doors: Doors) -> None:
    for method, path in AGENT_CALLS:
        answer = await doors.operator.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), path


@pytest.mark.req("OPS-04")
async def test_after_a_rotation_only_the_new_token_works(doors: Doors, lea: Visitor) -> None:
    await lea.get("/me")
    rotated = await doors.operator.post(f"/agents/{lea.id}/rotate")
    assert (await lea.ask("GET", "/me")).status_code == 401
    assert (await doors.visitor(rotated["token"]).get("/me"))["id"] == lea.id


@pytest.mark.req("STREAM-01", "OPS-04")
async def test_it_is_told_how_each_agent_is_reached_and_one_without_a_token_gets_none(doors: Doors) -> None:
    await doors.lead("lea")
    await doors.world.services.agents.ensure("router", Role.LEAD, Reach.AGUI)
    listed = (await doors.operator.get("/agents"))["agents"]
    assert [(row["name"], row["reach"]) for row in listed] == [("lea", "polling"), ("router", "agui")]
    refused = await doors.operator.ask("POST", "/agents/router/rotate")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.req("OPS-04")
async def test_after_a_removal_the_token_ends_and_the_work_goes_to_the_other_lead(doors: Doors, lea: Visitor) -> None:
    leo = await doors.lead("leo")
    await doors.world.says(f"{BOT} hello")
    await lea.only()
    assert (await doors.operator.ask("DELETE", "/agents/lea")).status_code == 204
    assert (await lea.ask("GET", "/poll")).status_code == 401
    assert (await leo.only())["inbox_messages"][0]["matched_by"] == "readdressed"
    assert (await doors.operator.ask("DELETE", "/agents/lea")).status_code == 404


@pytest.mark.req("OPS-04")
async def test_an_operator_changes_what_an_agent_says_of_itself(doors: Doors, lea: Visitor) -> None:
    answer = await doors.operator.ask("PATCH", f"/agents/{lea.id}", json={"description": "leads well"})
    assert answer.json()["description"] == "leads well"
    await doors.operator.ask("PATCH", "/agents/lea", json={"capabilities": ["go"]})
    (listed,) = (await doors.operator.get("/agents"))["agents"]
    assert (listed["description"], listed["capabilities"]) == ("leads well", ["go"])
    assert listed["status"] == "online"
    assert "token" not in listed


@pytest.mark.req("OPS-04")
async def test_an_agent_is_offline_when_it_was_not_heard_of_for_two_minutes(doors: Doors, lea: Visitor) -> None:
    doors.world.clock.advance(121)
    assert (await lea.get("/me"))["status"] == "offline"


@pytest.mark.req("OPS-04")
async def test_two_agents_see_only_their_own_work(doors: Doors, lea: Visitor) -> None:
    leo = await doors.lead("leo")
    await doors.world.says("swarm#lea for you alone")
    assert await leo.poll() == []
    mine = await lea.only()
    inbox_message_id = mine["inbox_messages"][0]["id"]
    for tool, arguments in {
        "read-inbox-message": {},
        "slack-reply": {"message": "hi", "lease_token": mine["lease"]["token"]},
        "dismiss-message": {"reason": "not mine", "lease_token": mine["lease"]["token"]},
    }.items():
        foreign = await leo.tool(tool, inbox_message_id=inbox_message_id, **arguments)
        unknown = await leo.tool(tool, inbox_message_id="unknown", **arguments)
        assert str(foreign.content[0]).replace(inbox_message_id, "unknown") == str(unknown.content[0])
        assert "not_found" in str(foreign.content[0])
    assert (await leo.get("/tray"))["unread"] == 0


@pytest.mark.req("SEC-05")
async def test_an_enrolment_key_fills_no_more_than_its_room(sqlite_url: str) -> None:
    clock = ManualClock()
    wakeups = WatchedWakeups()
    async with Database(sqlite_url, clock=clock, wakeups=wakeups) as database:
        world = World(database, clock).governed_by(OperatingPolicy(most_agents=3, most_enrolled=1))
        async with open_doors(world, wakeups) as doors:
            key = doors.visitor(ENROLMENT_KEY)
            assert (await key.ask("POST", "/agents", json={"name": "w1", "role": "worker"})).status_code == 201
            full = await key.ask("POST", "/agents", json={"name": "w2", "role": "worker"})
            assert (full.status_code, full.json()["error"]["code"]) == (409, "conflict")
            assert "agents.most_enrolled" in full.json()["error"]["hint"]
            for name in ("w2", "w3"):
                await doors.operator.post("/agents", {"name": name, "role": "worker"})
            full = await doors.operator.ask("POST", "/agents", json={"name": "w4", "role": "worker"})
            assert (full.status_code, full.json()["error"]["code"]) == (409, "conflict")
            assert "agents.most" in full.json()["error"]["hint"]
            await doors.operator.ask("DELETE", "/agents/w3")
            await doors.operator.post("/agents", {"name": "w4", "role": "worker"})
