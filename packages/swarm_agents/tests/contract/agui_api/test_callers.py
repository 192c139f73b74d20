"""Who may call which built-in agent, and what a worker that an enrolment key registered never reaches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import (
    CANCEL,
    HELLO,
    INVOKE,
    RESUME,
    START,
    Scripted,
    agui_input,
    start,
)
from swarm.app import settings_mapping
from swarm.config import BadSettings, load
from swarm.domain.answers.events import Asked, Interrupted
from swarm.domain.model.agents import Agent, Reach, Role
from swarm.domain.model.sessions import SessionScope
from swarm.domain.policy.access import CallerPolicy
from swarm_agents.builtin.run import session_of
from tests.support.doors import ENROLMENT_KEY, Visitor, error_of
from tests.support.whole import Whole, whole
from tests.support.world import BOT

pytestmark = pytest.mark.req("SEC-03")

POLICIES = {
    "closed": CallerPolicy(reaches_host=False),
    "host": CallerPolicy(callers=frozenset({"workers", "wim", "enrolled"})),
    "open": CallerPolicy(callers=frozenset({"workers"}), reaches_host=False),
    "leads": CallerPolicy(callers=frozenset({"leads"})),
}


@pytest.fixture
async def here(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Whole]:
    agents = {name: Scripted(*HELLO) for name in POLICIES}
    async with whole(sqlite_url, tmp_path, dict(agents), POLICIES) as opened:
        yield opened


async def registered(here: Whole, name: str, *, role: str = "worker", by: str | None = None) -> Visitor:
    registrar = here.visitor(by) if by else here.operator
    answer = await registrar.ask("POST", "/agents", json={"name": name, "role": role})
    assert answer.status_code == 201, answer.text
    visitor = here.visitor(answer.json()["token"])
    visitor.id, visitor.name = answer.json()["id"], name
    await visitor.poll()
    return visitor


async def called(visitor: Visitor, agent: str) -> dict[str, int]:
    """What each way to call an agent answers."""
    ways: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", START, start(agent_id=agent)),
        ("POST", INVOKE, start(agent_id=agent)),
        ("POST", CANCEL, {"conversation_id": "c1", "agent_id": agent}),
        ("POST", f"/agui/{agent}", agui_input()),
        ("GET", f"/agui/{agent}", None),
    ]
    return {f"{method} {path}": (await visitor.ask(method, path, json=body)).status_code for method, path, body in ways}


async def test_an_agent_exists_for_those_whom_its_list_names_and_for_the_operator(here: Whole) -> None:
    wim, lea = await registered(here, "wim"), await registered(here, "lea", role="lead")
    enrolled = await registered(here, "enrolled", by=ENROLMENT_KEY)
    for caller, may in (
        (here.operator, ["closed", "host", "open", "leads"]),
        (lea, ["leads"]),
        (wim, ["host", "open"]),
        (enrolled, ["open"]),
    ):
        assert [agent["name"] for agent in (await caller.get("/api/v1/agents"))["agents"]] == may
        for agent in POLICIES:
            answers = await called(caller, agent)
            assert set(answers.values()) == {200 if agent in may else 404}, (caller.name, agent, answers)
    refusal = (await enrolled.ask("POST", INVOKE, json=start(agent_id="host"))).json()["error"]
    assert (refusal["message"], refusal["hint"]) == ("There is no built-in agent 'host'.", "Available agents: open.")


async def test_whoever_has_the_key_cannot_take_a_listed_name_over(here: Whole) -> None:
    wim = await registered(here, "wim")
    assert (await here.operator.ask("DELETE", f"/agents/{wim.id}")).status_code == 204
    thief = await registered(here, "wim", by=ENROLMENT_KEY)
    assert set((await called(thief, "host")).values()) == {404}


@pytest.mark.req("AGENT-12")
async def test_a_new_agent_of_an_old_name_finds_nothing_of_the_old_ones_conversations(here: Whole) -> None:
    scripted = here.runs._agents["open"]
    assert isinstance(scripted, Scripted)
    scripted.script = lambda run_input: [Interrupted(asked=(Asked(id="q", prompt="Sure?"),))]
    wim = await registered(here, "wim")
    assert (await wim.ask("POST", INVOKE, json=start(agent_id="open"))).json()["code"] == "interrupt"
    answer = {"conversation_id": "c1", "agent_id": "open", "form_data": "yes"}
    assert (await here.operator.ask("DELETE", f"/agents/{wim.id}")).status_code == 204
    new = await registered(here, "wim")
    assert (await new.ask("POST", RESUME, json=answer)).status_code == 409
    assert (await new.ask("POST", INVOKE, json=start(agent_id="open"))).status_code == 200
    of_old, of_new = (session_of(ran.input, SessionScope.USER) for ran in scripted.ran)
    assert (of_old, of_new) == (f"agui:{wim.id}:c1", f"agui:{new.id}:c1")
    assert (await new.ask("POST", RESUME, json=answer)).status_code == 200


async def test_the_default_is_the_first_agent_that_the_caller_may_call(here: Whole) -> None:
    lea = await registered(here, "lea", role="lead")
    whole_answer = (await lea.ask("POST", INVOKE, json=start())).json()
    assert (whole_answer["agent_id"], whole_answer["success"]) == ("leads", True)


async def built_in(here: Whole, name: str) -> Agent:
    agent = await here.world.services.agents.ensure(name, Role.WORKER, Reach.BUILTIN)
    await here.world.is_here(agent)
    return agent


async def test_no_task_of_an_enrolled_worker_reaches_an_agent_with_tools(here: Whole) -> None:
    """Its own task it has from a lead: of that it may give parts to others."""
    for name in ("host", "open"):
        await built_in(here, name)
    lea = await registered(here, "lea", role="lead")
    enrolled = await registered(here, "enrolled", by=ENROLMENT_KEY)
    task = await lea.post("/tasks", {"description": "look", "agent": "enrolled"})
    trigger = await enrolled.only()
    mine: dict[str, Any] = {"title": "x", "description": "x", "parent_id": task["id"]}
    lease = trigger["lease"]["token"]

    refused = error_of(await enrolled.tool("create-task", lease, agent="host", **mine))
    assert (refused["code"], refused["message"][:19]) == ("forbidden", "host has tools of t")
    await enrolled.uses("create-task", lease, agent="open", **mine)
    part = await enrolled.uses("create-task", lease, **mine)
    assert error_of(await enrolled.tool("assign-task", lease, task_id=part["id"], agent="host"))["code"] == "forbidden"
    laundered = await lea.ask("POST", f"/tasks/{part['id']}/assign", json={"agent": "host"})
    assert (laundered.status_code, laundered.json()["error"]["code"]) == (403, "forbidden")
    assert await here.world.rows("SELECT 1 FROM tasks t JOIN agents a ON a.id = t.agent_id WHERE a.name = 'host'") == []
    await here.operator.post(f"/tasks/{part['id']}/assign", {"agent": "host"})
    await lea.post("/tasks", {"description": "look", "agent": "host"})


async def test_no_message_is_delegated_by_an_enrolled_worker_to_an_agent_with_tools(here: Whole) -> None:
    await built_in(here, "host")
    enrolled = await registered(here, "enrolled", by=ENROLMENT_KEY)
    await here.world.says(f"{BOT} swarm#enrolled do it")
    trigger = await enrolled.only()
    inbox_message, lease = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
    for offer in (False, True):
        given = {"inbox_message_id": inbox_message, "agent": "host", "task": "x", "title": "x", "offer": offer}
        assert error_of(await enrolled.tool("inbox-delegate", lease, **given))["code"] == "forbidden"
    assert await here.world.rows("SELECT 1 FROM tasks") == []


def settings(folder: Path, agent: str) -> str:
    (folder / "swarm.yaml").write_text(f"model: {{name: m, provider: openai}}\nagents: {{builtin: {{a: {agent}}}}}\n")
    return agent


@pytest.mark.parametrize("callers", ["['*']", "[Leads]", "['agent:wim']", "[all]", "['']", "everybody"])
def test_a_list_of_callers_that_means_nothing_stops_the_start(callers: str, tmp_path: Path) -> None:
    settings(tmp_path, f"{{kind: assistant, callers: {callers}}}")
    with pytest.raises(BadSettings, match=r"agents\.builtin\.a\.callers"):
        load({}, folder=tmp_path, user_home=tmp_path)


@pytest.mark.parametrize(
    ("agent", "more", "policy"),
    [
        ("{kind: assistant}", "", CallerPolicy(reaches_host=False)),
        (
            "{kind: assistant, tools: [git], callers: [leads, wim], tool_details: true}",
            "",
            CallerPolicy(callers=frozenset({"leads", "wim"}), tool_details=True),
        ),
        ("{kind: assistant}", "documents: {folder: .}\n", CallerPolicy()),
        ("{kind: router}", "tools: {servers_config: mine.json}\n", CallerPolicy()),
    ],
)
def test_whatever_has_tools_documents_or_servers_reaches_the_host(
    agent: str, more: str, policy: CallerPolicy, tmp_path: Path
) -> None:
    settings(tmp_path, agent)
    with (tmp_path / "swarm.yaml").open("a") as file:
        file.write(more)
    read = load({}, folder=tmp_path, user_home=tmp_path)
    assert settings_mapping.caller_policies(read) == {"a": policy}
    assert settings_mapping.operating_policy(read).guarded_agents == ({"a"} if policy.reaches_host else set())
