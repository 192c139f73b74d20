"""Everybody at every door: each route, tool and AG-UI door, with every kind of caller, and what each may get.

The routes are the application's own and the tools those of the registry: one without an entry here fails. An answer is
wrong if its status is another than the table says, or if it holds what belongs to another caller.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

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
from swarm.domain.model.agents import Role
from swarm.domain.model.requests import NewRequest
from swarm.domain.model.threads import File
from swarm.domain.policy.access import CallerPolicy
from swarm.services.ground.idempotency import Caller
from swarm.services.requests.human_requests import AskedWork
from tests.support.doors import ENROLMENT_KEY, Visitor, error_of
from tests.support.whole import Whole, whole
from tests.support.world import BOT, said
from tools.tool import discover

pytestmark = pytest.mark.req("SEC-01", "SEC-03")

SECRET: Final = "what-only-olga-knows"
NOBODY: Final = ("none", "wrong", "rotated", "revoked")
AGENTS: Final = ("other", "lead", "owner")
GUEST: Final = "guest"
"""Has the key of a lease of olga's, for other work than what is asked for here."""

CALLERS: Final = (*NOBODY, *AGENTS, GUEST, "operator", "key")

Statuses = dict[str, int]


def statuses(*, key: int = 403, operator: int = 403, **agents: int) -> Statuses:
    """What each caller gets; agents that are not named are forbidden."""
    others = {"operator": operator, "key": key, GUEST: 403}
    return others | dict.fromkeys(NOBODY, 401) | dict.fromkeys(AGENTS, 403) | agents


def all_agents(status: int, **others: int) -> Statuses:
    return statuses(**dict.fromkeys(AGENTS, status), **others)


OPEN: Final = dict.fromkeys(CALLERS, 200)
UNSIGNED: Final = dict.fromkeys(CALLERS, 401)


@dataclass
class Scene:
    """A coordinator, the callers, and what belongs to olga, the owner."""

    here: Whole
    callers: dict[str, Visitor]
    ids: dict[str, str]
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, caller: str, method: str, path: str, **request: Any) -> httpx2.Response:
        headers = {"Accept": "application/json, text/event-stream"} | request.pop("headers", {})
        token = self.callers[caller].token
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        return await self.here.http.request(method, self.here.base + path, headers=headers, **request)

    async def call(self, caller: str, tool: str, arguments: Mapping[str, object]) -> httpx2.Response:
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return await self.ask(caller, "POST", "/mcp", json=body)

    def new_name(self) -> str:
        return f"new-{next(self.numbers)}"

    async def new_agent(self) -> str:
        return (await self.here.world.worker(self.new_name(), online=False)).id


Body = Mapping[str, object] | bytes | None
Ask = Callable[[Scene], Body]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A route: what each caller gets, and what is asked. ``sees`` may read what is olga's, beside herself."""

    gets: Statuses
    body: Body | Ask = None
    query: str = ""
    sees: frozenset[str] = frozenset()
    owner_gets: str = ""  # what the owner's answer holds, after all others have tried
    agent: str = "new"  # which one stands in the path: a new one, or a built-in one


def held(scene: Scene) -> dict[str, object]:
    return {"tokens": [scene.ids["lease"]]}


OPERATORS: Final = statuses(operator=200)
OWNED: Final = statuses(other=404, lead=404)
LEADS: Final = statuses(operator=200, lead=200)
CALLED: Final = statuses(operator=200, owner=200, other=404, lead=404)
WORDS: Final[dict[str, object]] = {"title": "t", "description": "d"}
OPERATOR: Final = frozenset({"operator"})

ROUTES: Final[Mapping[str, Entry]] = {
    "GET /healthz": Entry(gets=OPEN),
    "GET /readyz": Entry(gets=dict.fromkeys(CALLERS, 503)),  # Slack has not answered yet
    "GET /metrics": Entry(gets=OPERATORS),
    "POST /slack/events": Entry(gets=UNSIGNED, body={}),
    # Agents
    "GET /me": Entry(gets=all_agents(200)),
    "GET /tray": Entry(gets=all_agents(200, guest=200), sees=frozenset({GUEST})),  # messages between agents
    "GET /poll": Entry(gets=all_agents(200), query="wait_seconds=0"),
    "GET /files/{file_id}": Entry(gets=OWNED | {"owner": 200}, query="inbox_message_id={message}"),
    "POST /files": Entry(gets=OWNED | {"owner": 201}, query="inbox_message_id={message}&name=a.txt", body=b"x"),
    "POST /leases/renew": Entry(gets=all_agents(200), body=held, owner_gets="{lease}"),
    "POST /leases/release": Entry(gets=all_agents(200), body=held, owner_gets='"released":["{lease}"]'),
    "POST /leases/finish": Entry(gets=all_agents(200), body=lambda scene: held(scene) | {"outcome": "failed"}),
    "POST /runs": Entry(
        gets=all_agents(409) | {"other": 404, "lead": 404},
        body=lambda scene: {"inbox_message_id": scene.ids["message"]},
    ),
    "POST /runs/{run_id}/usage": Entry(gets=OWNED | {"owner": 200}, body={}),
    "POST /runs/{run_id}/budget": Entry(gets=OWNED | {"owner": 200}, body={"scope": "run", "unit": "tokens"}),
    "POST /runs/{run_id}/log": Entry(gets=OWNED | {"owner": 200}, body=SECRET.encode()),
    "GET /runs/{run_id}/log": Entry(gets=OWNED | {"owner": 200, "operator": 200}, owner_gets=SECRET, sees=OPERATOR),
    "DELETE /me/instance": Entry(gets=all_agents(204)),
    "GET /tasks/{task_id}/runs": Entry(gets=OPERATORS),
    "POST /mcp": Entry(gets=all_agents(200, guest=200), body={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    "GET /mcp": Entry(gets=all_agents(405, guest=405)),
    "DELETE /mcp": Entry(gets=all_agents(405, guest=405)),
    "POST /mcp/": Entry(gets=all_agents(200, guest=200), body={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    "GET /mcp/": Entry(gets=all_agents(405, guest=405)),
    "DELETE /mcp/": Entry(gets=all_agents(405, guest=405)),
    # The operator, leads, and who may register
    "GET /agents": Entry(gets=OPERATORS),
    "POST /agents": Entry(
        gets=statuses(operator=201, key=201), body=lambda scene: {"name": scene.new_name(), "role": "worker"}
    ),
    "PATCH /agents/{agent}": Entry(gets=OPERATORS, body={"description": "x"}),
    "DELETE /agents/{agent}": Entry(gets=statuses(operator=204)),
    "POST /agents/{agent}/rotate": Entry(gets=OPERATORS),
    "GET /inbox": Entry(gets=OPERATORS, sees=OPERATOR),
    "POST /inbox/{inbox_message_id}/redrive": Entry(gets=statuses(operator=409)),
    "POST /inbox/redrive": Entry(gets=OPERATORS, body={"where": {}, "dry_run": True}),
    "POST /deliveries/resend": Entry(gets=OPERATORS, body={"where": {}, "dry_run": True}),
    "POST /deliveries/{delivery_id}/resend": Entry(gets=statuses(operator=404)),
    "GET /threads/{thread_id}": Entry(gets=OPERATORS, sees=OPERATOR),
    "GET /deliveries": Entry(gets=OPERATORS, sees=OPERATOR),
    "GET /feedback": Entry(gets=OPERATORS, sees=OPERATOR),
    "GET /explain": Entry(gets=OPERATORS, query="message=C1:{ts}", sees=OPERATOR),
    "POST /people/{person}/forget": Entry(gets=OPERATORS, body={}),
    "POST /reload": Entry(gets=OPERATORS),
    "GET /runs": Entry(gets=OPERATORS),
    "GET /usage": Entry(gets=OPERATORS),
    "GET /tasks": Entry(gets=LEADS, sees=frozenset({"operator", "lead"})),
    "POST /tasks": Entry(gets=statuses(operator=201, lead=201), body=WORDS),
    "GET /tasks/{task_id}": Entry(gets=LEADS, sees=frozenset({"operator", "lead"})),
    "POST /tasks/{task_id}/assign": Entry(gets=statuses(operator=409, lead=409), body={"agent": "other"}),
    "POST /tasks/{task_id}/redrive": Entry(gets=statuses(operator=409)),
    "POST /tasks/redrive": Entry(gets=OPERATORS, body={"where": {}, "dry_run": True}),
    "POST /tasks/{task_id}/cancel": Entry(gets=statuses(lead=200, operator=409), sees=frozenset({"operator", "lead"})),
    "GET /requests": Entry(gets=OPERATORS, sees=frozenset({"operator"})),
    "GET /requests/{request_id}": Entry(
        gets=all_agents(404) | {"operator": 200, "owner": 200}, owner_gets=SECRET, sees=frozenset({"operator"})
    ),
    "POST /requests/{request_id}/decide": Entry(gets=statuses(operator=422), body={"decision": "answer"}),
    "POST /requests/{request_id}/cancel": Entry(  # the operator is asked last
        gets=all_agents(404) | {"operator": 409, "owner": 200}, sees=frozenset({"operator"})
    ),
    "GET /grants": Entry(gets=OPERATORS),
    "DELETE /grants/{grant_id}": Entry(gets=statuses(operator=404)),
    "GET /audit": Entry(gets=OPERATORS, sees=frozenset({"operator"})),
    # AG-UI: olga may call the assistant
    f"POST {START}": Entry(gets=CALLED, body=start(agent_id="assistant")),
    f"POST {INVOKE}": Entry(gets=CALLED, body=start(agent_id="assistant")),
    f"POST {CANCEL}": Entry(gets=CALLED, body={"conversation_id": "c1", "agent_id": "assistant"}),
    f"POST {RESUME}": Entry(
        gets=CALLED | {"operator": 409, "owner": 409},
        body={"conversation_id": "c1", "form_data": "x", "agent_id": "assistant"},
    ),
    "POST /agui/{agent}": Entry(gets=CALLED, body=agui_input(), agent="assistant"),
    "GET /agui/{agent}": Entry(gets=CALLED, agent="assistant"),
    "GET /api/v1/agents": Entry(gets=all_agents(200) | {"operator": 200}),
}

PAGES: Final = {"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"}
"""Of the framework, for everybody: they say what there is, and hold nothing."""

NOT_FOUND: Final = ("not_found", "not_found")
FINE: Final = ("ok", "ok")

TOOLS: Final[Mapping[str, tuple[tuple[str, str], dict[str, object]]]] = {
    "accept-task": (NOT_FOUND, {"task_id": "{task}"}),
    "assign-task": (("not_found", "conflict"), {"task_id": "{task}", "agent": "other"}),
    "create-task": (("not_found", "ok"), WORDS | {"parent_id": "{task}"}),
    "decline-task": (NOT_FOUND, {"task_id": "{task}", "reason": "x"}),
    "dismiss-message": (NOT_FOUND, {"inbox_message_id": "{message}", "reason": "x"}),
    "escalate": (NOT_FOUND, {"inbox_message_id": "{message}", "reason": "x"}),
    "get-task": (("not_found", "ok"), {"task_id": "{task}"}),
    "inbox-delegate": (NOT_FOUND, {"inbox_message_id": "{message}", "agent": "other", "task": "x"}),
    "list-agents": (FINE, {}),
    "list-tasks": (FINE, {}),
    "read-inbox-message": (NOT_FOUND, {"inbox_message_id": "{message}"}),
    "read-messages": (FINE, {"agent": "owner"}),
    "request-human-input": (NOT_FOUND, {"inbox_message_id": "{message}", "title": "x"}),
    "send-message": (FINE, {"to": "rotated", "text": "hello"}),
    "slack-download-file": (NOT_FOUND, {"file_id": "F1", "thread_id": "{thread}"}),
    "slack-read-thread": (NOT_FOUND, {"thread_id": "{thread}"}),
    "slack-reply": (NOT_FOUND, {"inbox_message_id": "{message}", "message": "x"}),
    "slack-stream": (NOT_FOUND, {"action": "open", "inbox_message_id": "{message}"}),
    "slack-upload-file": (NOT_FOUND, {"inbox_message_id": "{message}", "name": "a.txt", "text": "x"}),
    "task-complete": (NOT_FOUND, {"task_id": "{task}", "result": "x"}),
    "task-fail": (NOT_FOUND, {"task_id": "{task}", "error": "x"}),
    "task-progress": (NOT_FOUND, {"task_id": "{task}", "message": "x"}),
    "tray": (FINE, {}),
    "cancel-task": (("not_found", "ok"), {"task_id": "{task}"}),  # the last, for it ends the task
}
"""What another worker and a lead get from each tool about what is olga's: a code, or "ok"."""

SEEN_BY_LEADS: Final = {"get-task", "list-tasks", "cancel-task"}
BETWEEN_AGENTS: Final = {"read-messages", "tray"}


@pytest.fixture
async def scene(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    policies = {"assistant": CallerPolicy(callers=frozenset({"owner"}), reaches_host=False)}
    async with whole(sqlite_url, tmp_path, {"assistant": Scripted(*HELLO)}, policies) as here:
        callers = {name: await agent(here, name) for name in (*AGENTS, "rotated", "revoked")}
        await here.world.services.agents.rotate("rotated")
        await here.world.services.agents.revoke("revoked")
        callers |= {"none": here.visitor(""), "wrong": here.visitor("wrong"), "operator": here.operator}
        callers["key"] = here.visitor(ENROLMENT_KEY)
        await here.world.hears(said(f"{BOT} swarm#owner something else"))
        callers[GUEST] = here.visitor((await callers["owner"].only(hold="true"))["lease"]["key"])
        yield Scene(here, callers, await belongings(here, callers["owner"]))


async def agent(here: Whole, name: str) -> Visitor:
    role = Role.LEAD if name == "lead" else Role.WORKER
    registered = await here.world.services.agents.register(name, role)
    await here.world.is_here(registered.agent)
    visitor = here.visitor(registered.token)
    visitor.id, visitor.name = registered.agent.id, name
    return visitor


async def belongings(here: Whole, owner: Visitor) -> dict[str, str]:
    """A message with a file, a task, a letter and a notice, each with the secret in it."""
    here.world.files.keep("F1", SECRET.encode())
    attached = File(id="F1", name="F1.txt", mimetype="text/plain", size_bytes=len(SECRET))
    message = await here.world.hears(replace(said(f"{BOT} swarm#owner {SECRET}"), files=(attached,)))
    trigger = await owner.only(hold="true")
    task = await here.operator.post("/tasks", {"title": SECRET, "description": SECRET, "agent": "owner"})
    await here.world.services.messages.send(
        Caller(agent=await here.world.lead("scribe")), f"for you alone: {SECRET}", to="owner"
    )
    owned = await here.world.services.agents.credentials.identify(owner.token)
    about = {"inbox_message_id": trigger["inbox_messages"][0]["id"]}
    run = await here.world.services.run_logs.start(
        Caller(agent=owned, lease_token=trigger["lease"]["token"]), **about, task_id=None
    )
    request = await here.world.services.requests.ask(
        Caller(agent=owned, lease_token=trigger["lease"]["token"]),
        AskedWork(inbox_message_id=trigger["inbox_messages"][0]["id"]),
        NewRequest(key="q", title=SECRET),
        wait=True,
    )
    return {
        "request": request.id,
        "message": trigger["inbox_messages"][0]["id"],
        "thread": trigger["thread"]["id"],
        "lease": trigger["lease"]["token"],
        "task": task["id"],
        "run": run,
        "ts": message.ts,
    }


def there_are(here: Whole) -> set[str]:
    """Every method and path that the application serves, but for the framework's pages."""
    listed = {f"{method.upper()} {path}" for path, item in here.app.openapi()["paths"].items() for method in item}
    routes = [route for route in here.app.routes if isinstance(route, Route | APIRoute) and route.path not in PAGES]
    served = {f"{method} {route.path}" for route in routes for method in (route.methods or ())}
    return {one for one in listed | served if not one.startswith(("HEAD ", "OPTIONS "))}


async def asked(scene: Scene, route: str, entry: Entry, caller: str) -> httpx2.Response:
    method, path = route.split(" ")
    stands = {
        "agent": await scene.new_agent() if entry.agent == "new" and "{agent}" in path else entry.agent,
        "file_id": "F1",
        **{f"{name}_id": scene.ids[name] for name in ("run", "task", "thread")},
        "inbox_message_id": scene.ids["message"],
        "request_id": scene.ids["request"],
        "grant_id": "01a20a5e-c3ce-703e-a2ab-ea2e47e3e2d6",
        "delivery_id": "01a20a5e-c3ce-703e-a2ab-ea2e47e3e2d6",
        "person": "UNOBODY1",
    }
    url = path.format(**stands) + ("?" + entry.query.format(**scene.ids) if entry.query else "")
    body = entry.body(scene) if callable(entry.body) else entry.body
    given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"X-Swarm-Lease": scene.ids["lease"]} if path == "/files" else {}
    headers |= {"X-Swarm-Log-Offset": "0", "X-Swarm-Instance": "01a20a5e-c3ce-703e-a2ab-ea2e47e3e2d6"}
    return await scene.ask(caller, method, url, headers=headers, **given)


def leaks(answer: httpx2.Response, caller: str, sees: frozenset[str], scene: Scene) -> bool:
    """Whether an answer holds what belongs to others: the secret, the lease, or anybody's token."""
    tokens = {visitor.token for name, visitor in scene.callers.items() if name != caller and visitor.token}
    if any(token in answer.text for token in tokens - {"wrong"}):
        return True
    return caller not in {"owner", *sees} and SECRET in answer.text


async def test_every_route_gives_every_caller_what_is_theirs_and_nothing_else(scene: Scene) -> None:
    assert there_are(scene.here) ^ ROUTES.keys() == set()
    wrong = []
    for route, entry in ROUTES.items():
        for caller in CALLERS:  # the owner after other agents
            answer = await asked(scene, route, entry, caller)
            if answer.status_code != entry.gets[caller]:
                wrong.append(f"{caller}: {route}: {answer.status_code}, not {entry.gets[caller]}: {answer.text[:200]}")
            if caller == "owner" and entry.owner_gets.format(**scene.ids) not in answer.text:
                wrong.append(f"{route}: the owner got {answer.text[:200]}")
            if leaks(answer, caller, entry.sees, scene):
                wrong.append(f"{caller}: {route} tells what is not theirs: {answer.text[:400]}")
    assert wrong == []


async def test_every_tool_gives_every_caller_what_is_theirs_and_nothing_else(scene: Scene) -> None:
    assert discover().keys() ^ TOOLS.keys() == set()
    wrong = []
    for tool, ((other, lead), arguments) in TOOLS.items():
        filled = {name: str(value).format(**scene.ids) for name, value in arguments.items()}
        for caller, gets in [*dict.fromkeys((*NOBODY,), 401).items(), ("operator", 403), ("key", 403)]:
            answer = await scene.call(caller, tool, filled)
            wrong += [f"{caller}: {tool}: {answer.status_code}"] if answer.status_code != gets else []
        guests = "ok" if other == "ok" else "forbidden"
        for caller, code in (("other", other), ("lead", lead), (GUEST, guests)):
            answer = await scene.call(caller, tool, filled)
            result = answer.json()["result"]
            got = result["_meta"]["swarm/error"]["code"] if result.get("isError") else "ok"
            if got != code:
                wrong.append(f"{caller}: {tool}: {got}, not {code}: {answer.text[:300]}")
            sees = {"lead"} if tool in SEEN_BY_LEADS else {GUEST} if tool in BETWEEN_AGENTS else set()
            if leaks(answer, caller, frozenset(sees), scene):
                wrong.append(f"{caller}: {tool} tells what is not theirs: {answer.text[:400]}")
    assert wrong == []


async def test_the_owner_of_a_message_is_told_that_nobody_is_named_and_a_wrong_lease_is_refused(scene: Scene) -> None:
    owner, arguments = scene.callers["owner"], {"inbox_message_id": scene.ids["message"], "reason": "x"}
    wrong = error_of(await owner.tool("escalate", "another", **arguments))
    assert wrong["code"] == "lease_lost"
    for lease in (scene.ids["lease"], None):  # a message that was handed out once needs no lease to be named
        refused = error_of(await owner.tool("escalate", lease, **arguments))
        assert (refused["code"], "channels.C1.escalation" in refused["hint"]) == ("conflict", True)
