"""Built-in agents that do what a test says, served by a coordinator over real HTTP, and clients that ask them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import httpx2
from ag_ui.core import Event
from pydantic import TypeAdapter

from swarm.agents.remote.agui import AguiAgent
from swarm.agents.remote.translation.translator import collected
from swarm.clock import ManualClock
from swarm.domain.answers.agents import AgentClient, Dialect, Health, RemoteAgent, RunEnd
from swarm.domain.answers.events import AgentEvent, Finished, InputMessage, RunInput, Speaker, TextDelta
from swarm.domain.model.agents import Role
from swarm.domain.policy.access import CallerPolicy
from swarm.entrypoints.http.http_api import create_app
from swarm.entrypoints.web.identity import Identities
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.store.bridge.database import Database
from swarm_agents.agui.agui_api import AguiEntryPoint
from tests.support.doors import ENROLMENT_KEY, OPERATOR_TOKEN, Visitor, serving
from tests.support.http import client as http_client
from tests.support.world import World

START = "/api/v1/chat/stream/start"
RESUME = "/api/v1/chat/stream/resume"
CANCEL = "/api/v1/chat/stream/cancel"
INVOKE = "/api/v1/chat/invoke"
PATIENCE_SECONDS = 20.0

EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class Rest(Enum):
    """What an agent waits for that never comes."""

    FOREVER = "forever"


FOREVER = Rest.FOREVER

EVERYBODY = CallerPolicy(callers=frozenset({"leads", "workers"}), reaches_host=False)

Step = AgentEvent | asyncio.Event | Rest | Exception | float
"""What an agent does; or what it waits for; or what it stumbles over; or how many seconds it takes its time."""

Script = Callable[[RunInput], Sequence[Step]]

HELLO = (TextDelta(text="Hello ", message_id="m"), TextDelta(text="you.", message_id="m"), Finished())


@dataclass
class Ran:
    """A run, as its agent has seen it."""

    input: RunInput
    told: int = 0  # so many events were taken
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Scripted(AgentClient):
    """An agent with a script; ``clears_up`` is what its runs wait for when they are ended."""

    def __init__(self, *steps: Step, script: Script | None = None, clears_up: asyncio.Event | None = None) -> None:
        self.script: Script = script or (lambda run_input: steps)
        self.clears_up = clears_up
        self.ran: list[Ran] = []
        self.is_well = Health(reachable=True, detail="it is well")
        self._changed = asyncio.Condition()

    async def began(self, count: int = 1) -> Ran:
        """Wait for so many runs; the last of them."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(self.ran) >= count)
        return self.ran[count - 1]

    async def run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        ran = Ran(run_input)
        self.ran.append(ran)
        async with self._changed:
            self._changed.notify_all()
        task = asyncio.current_task()
        try:
            for step in self.script(run_input):
                match step:
                    case asyncio.Event():
                        await step.wait()
                    case Rest():
                        await asyncio.Event().wait()
                    case float():
                        await asyncio.sleep(step)
                    case Exception():
                        raise step
                    case _:
                        yield step
                        ran.told += 1
        finally:
            assert asyncio.current_task() is task, "a run begins and ends in one task: libraries insist on it"
            if self.clears_up:
                await self.clears_up.wait()
            ran.over.set()

    async def invoke(self, run_input: RunInput) -> RunEnd:
        async with contextlib.aclosing(self.run(run_input)) as events:
            return await collected(events)

    async def health(self) -> Health:
        return self.is_well

    async def aclose(self) -> None:
        pass


@dataclass
class Client:
    """Somebody with a token, and all the ways to ask."""

    base: str
    token: str
    http: httpx2.AsyncClient
    name: str
    id: str = "operator"

    @contextlib.asynccontextmanager
    async def stream(self, path: str, body: object) -> AsyncIterator[httpx2.Response]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.stream("POST", self.base + path, json=body, headers=headers) as response:
            yield response

    async def ask(self, method: str, path: str, body: object = None) -> httpx2.Response:
        return await Visitor(self.base, self.token, self.http).ask(method, path, json=body)

    async def refusal(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        """Status and error of a request that is refused."""
        answer = await self.ask("POST", path, body)
        return answer.status_code, answer.json()["error"]

    async def said(self, path: str, body: object) -> list[Any]:
        """All events of a run that goes to its end."""
        async with self.stream(path, body) as response:
            assert response.status_code == 200, await response.aread()
            return [event async for event in events_of(response)]

    async def cancels(self, **body: object) -> bool:
        answer = await self.ask("POST", CANCEL, body)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["cancelled"])

    @contextlib.asynccontextmanager
    async def agent(self, name: str, dialect: Dialect, **settings: Any) -> AsyncIterator[AguiAgent]:
        """A built-in agent as another coordinator sees it."""
        url = f"{self.base}/agui/{name}" if dialect is Dialect.AGUI else self.base
        given = {"token": self.token, "timeout_seconds": PATIENCE_SECONDS, **settings}
        agent = AguiAgent(
            RemoteAgent(name=name, url=url, dialect=dialect, agent_id=name, **given), connect_patience_seconds=0.5
        )
        try:
            yield agent
        finally:
            await agent.aclose()


async def events_of(response: httpx2.Response) -> AsyncGenerator[Any, None]:
    """The events of a stream, each valid, as JSON."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            EVENT.validate_json(line.removeprefix("data: "))
            yield json.loads(line.removeprefix("data: "))


@dataclass
class Place:
    """A coordinator with built-in agents."""

    base: str
    agents: Mapping[str, Scripted]
    runs: AgentRuns
    world: World
    http: httpx2.AsyncClient

    @property
    def operator(self) -> Client:
        return Client(self.base, OPERATOR_TOKEN, self.http, "operator")

    @property
    def enroller(self) -> Client:
        return Client(self.base, ENROLMENT_KEY, self.http, "")

    @contextlib.contextmanager
    def impatient(self) -> Iterator[None]:
        """Meanwhile it hardly waits for the end of another run."""
        self.runs._patience_seconds = 0.2
        yield
        self.runs._patience_seconds = PATIENCE_SECONDS

    async def client(self, name: str = "wim") -> Client:
        registered = await self.world.services.agents.register(name, Role.WORKER)
        return Client(self.base, registered.token, self.http, name, registered.agent.id)


@contextlib.asynccontextmanager
async def place(
    url: str,
    agents: Mapping[str, Scripted],
    *,
    door: Mapping[str, float] | None = None,
    locks: Mapping[str, Any] | None = None,
    clock: ManualClock | None = None,
    callers: CallerPolicy = EVERYBODY,
    **limits: Any,
) -> AsyncIterator[Place]:
    """A coordinator that serves these agents.

    ``callers`` may call them; ``door``, ``locks`` and ``limits`` are for the door, for `ConversationLocks` and for
    `AgentRuns`; ``clock`` is the database's.
    """
    async with Database(url, clock=clock or ManualClock()) as database:
        policies = dict.fromkeys(agents, callers)
        runs = AgentRuns(
            agents,
            ConversationLocks(database, **(locks or {})),
            policies,
            **{"patience_seconds": PATIENCE_SECONDS, **limits},
        )
        world = World(database, ManualClock())
        identities = Identities(world.services.agents, OPERATOR_TOKEN, ENROLMENT_KEY)
        routes = AguiEntryPoint(runs, identities, **(door or {})).routes()
        app = create_app(world.services, identities, dict, routes=routes)
        async with serving(app) as base, http_client(timeout=PATIENCE_SECONDS) as http:
            try:
                yield Place(base, agents, runs, world, http)
            finally:
                await runs.close()  # as at every shutdown: before the server waits for its requests


def start(message: str = "hi", conversation: str = "c1", **more: object) -> dict[str, object]:
    """The body of a start or an invoke."""
    return {"message": message, "conversation_id": conversation, **more}


def agui_input(text: str = "hi", thread: str = "c1", run: str = "r1", **more: object) -> dict[str, object]:
    """The smallest RunAgentInput."""
    return {"threadId": thread, "runId": run, "messages": [{"id": "u1", "role": "user", "content": text}], **more}


def run_input(text: str = "hi", conversation: str = "c1", **more: Any) -> RunInput:
    """A run_input for our own client."""
    message = InputMessage(id="u1", speaker=Speaker.USER, text=text, author="Ada")
    given = {"messages": (message,), "client_context": {"source": "slack"}, **more}
    return RunInput(run_id="t1", agui_run_id="r1", trace_id="trace1", conversation_id=conversation, **given)


def kinds(events: Sequence[Any]) -> list[str]:
    return [event["type"] for event in events]
