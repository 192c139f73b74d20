"""Remote agents that are mentioned in the middle of a discussion: each knows it, in every dialect and shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from swarm.agents.remote.agui import AguiAgent
from swarm.config import RemoteAgentSettings
from swarm.domain.answers.agents import Dialect, RemoteAgent, ThreadContext
from tests.support.adviser import adviser
from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.doors import serving
from tests.support.live import Scripted, hired, playing, says
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("STREAM-13")


@dataclass
class Service:
    """A service, and what it answers when it is mentioned in the discussion, and again after bea has answered bob."""

    caipe: Caipe | None
    first: str
    again: str
    thread_context: ThreadContext = ThreadContext.CLIENT_CONTEXT

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[RemoteAgent]:
        async with serving(self.caipe.app() if self.caipe else adviser()) as url:
            if self.caipe is None:
                yield RemoteAgent(name="ada", url=f"{url}/")
                return
            yield RemoteAgent(
                name="ada", url=url, dialect=Dialect.CAIPE, agent_id=AGENT, thread_context=self.thread_context
            )


FIRST = "I am told [shall we deploy?, the tests are red], I remember [], you say: swarm#ada what do you think?"
AGAIN = (
    "I am told [swarm#bea and the tests?, They are green.], I remember [swarm#ada what do you think?], "
    "you say: swarm#ada and now?"
)
SERVICES: dict[str, Callable[[], Service]] = {
    "old caipe": lambda: Service(Caipe(Shape.OLD), FIRST, AGAIN),
    "present caipe": lambda: Service(Caipe(Shape.PRESENT), FIRST, AGAIN),
    "caipe in the message": lambda: Service(
        Caipe(Shape.PRESENT, is_prompted=False), FIRST, AGAIN, ThreadContext.MESSAGE
    ),
    "pydantic-ai": lambda: Service(
        None,
        FIRST,
        "I am told [shall we deploy?, the tests are red, swarm#ada what do you think?, "
        "swarm#bea and the tests?], I remember [], you say: swarm#ada and now?",
    ),
}


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """What differs between the agents is not the database's affair."""
    return sqlite_url


@pytest.mark.parametrize("sort", SERVICES)
async def test_an_agent_that_is_mentioned_in_a_discussion_knows_it(sort: str, world: World) -> None:
    service = SERVICES[sort]()
    async with service.agent() as remote:
        client, bea = AguiAgent(remote), Scripted(says("They are green."))
        history = RemoteAgentSettings(url=remote.url, dialect=remote.dialect).history_sent
        async with playing(world, hired("ada", client, history=history), hired("bea", bea)) as show:
            root = said("shall we deploy?", by="U2")
            before = said("the tests are red", thread_ts=root.ts)
            asked = said(f"{BOT} swarm#ada what do you think?", thread_ts=root.ts)
            world.slack.threads["C1", root.ts] = [root, before, asked]
            await world.hears(asked)
            await world.backfill.read_due()
            await show.over(asked)
            await world.says("swarm#bea and the tests?", thread=root, by="U2")
            await show.over(asked, 2)
            await world.says("swarm#ada and now?", thread=root)
            await show.over(asked, 3)
            answers = [message.text for message in show.live.of(asked)]
        await client.aclose()
    assert answers == [service.first, "They are green.", service.again]
    if service.caipe:
        assert {body["client_context"]["channel_type"] for body in service.caipe.bodies} == {"channel"}
