"""Built-in agents that lead and work, as the settings put them together: a scripted provider over the real services."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swarm.app.settings_mapping import streaming_agents
from swarm.clock import ManualClock
from swarm.config import load
from swarm.domain.answers.events import InputMessage, Origin, RunInput, Speaker, ToolEnded
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.language_models import Door
from swarm.domain.model.requests import HumanDecision
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import MAX_DEPTH, TaskStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.channels import ChannelPolicy, EscalationPolicy, External
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.services.ground.idempotency import Caller
from swarm.store.bridge.database import Database
from swarm_agents.app import built_in
from tests.services.test_live_questions import decide, open_requests
from tests.services.test_strangers import guest
from tests.support.conversing import press, pressed
from tests.support.live import Show, playing
from tests.support.policies import governing
from tests.support.providers import Call, Fails, Reply, Request, Say, openai_server
from tests.support.waiting import wait_until
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("AGENT-11")

TEAM = """
    model: {check_at_start: false}
    agents:
      default: lead
      builtin:
        lead: {kind: assistant, tools: [swarm], description: Leads.}
        ada: {kind: assistant, role: worker, tools: [swarm], description: Knows numbers., instructions: You are Ada.}
        wim: {kind: assistant, role: worker, tools: [swarm], description: Writes., instructions: You are Wim.}
"""

Script = Callable[[Request], Reply | Awaitable[Reply]]


@dataclass
class Models:
    """What each agent's model does: a reply for each request, by the agent's name."""

    replies: dict[str, list[Reply | Script]] = field(default_factory=dict)
    requests: dict[str, list[Request]] = field(default_factory=dict)

    async def __call__(self, request: Request) -> Reply:
        name = "ada" if "You are Ada." in request.system else "wim" if "You are Wim." in request.system else "lead"
        self.requests.setdefault(name, []).append(request)
        return await answer(self.replies[name].pop(0), request)


async def answer(reply: Reply | Script, request: Request) -> Reply:
    found = reply(request) if callable(reply) else reply
    return await found if isinstance(found, Awaitable) else found


@dataclass
class Team:
    world: World
    show: Show
    models: Models
    folder: Path

    async def is_over(self, root: SlackMessage, runs: int) -> None:
        await self.show.over(root, runs)
        await self.world.send()

    def shown(self, root: SlackMessage) -> list[tuple[str, str]]:
        """What people have seen in streams, in order: who, and what."""
        return [(one.place.agent_name, one.text) for one in self.show.live.of(root)]

    async def tasks(self) -> list[dict[str, Any]]:
        rows = await self.world.rows(
            "SELECT tasks.*, agents.name AS worker FROM tasks "
            "LEFT JOIN agents ON agents.id = agent_id ORDER BY tasks.id"
        )
        return [dict(row) for row in rows]

    def results(self, name: str) -> list[str]:
        """What the tools of an agent have answered, for the message of a test that fails."""
        return [result for request in self.models.requests[name] for result in request.results[-1:]]

    async def asked(self, name: str, times: int) -> None:
        """The model of an agent has been asked so often, and no run is under way any more."""

        async def look() -> bool:
            running = await self.world.rows("SELECT 1 FROM runs WHERE ended_at IS NULL")
            return not running and len(self.models.requests.get(name, ())) >= times

        await wait_until(look, what=f"{name} is asked {times} times")
        await self.world.send()

    async def owner(self) -> str:
        rows = await self.world.rows("SELECT name FROM threads JOIN agents ON agents.id = owner_id")
        return str(rows[0]["name"])

    async def posts(self) -> list[str]:
        rows = await self.world.rows("SELECT text FROM deliveries WHERE kind = 'post' ORDER BY id")
        return [str(row["text"]) for row in rows]


@pytest.fixture
async def world(sqlite_url: str) -> AsyncIterator[World]:
    clock = ManualClock()
    async with Database(sqlite_url, clock=clock) as database:
        yield World(database, clock)


@asynccontextmanager
async def team(
    world: World, folder: Path, settings: str = TEAM, **replies: Sequence[Reply | Script]
) -> AsyncIterator[Team]:
    """A process in office with the team, whose models reply so."""
    models = Models({name: list(script) for name, script in replies.items()})
    (folder / "swarm.yaml").write_text(settings, encoding="utf-8")
    async with openai_server(models) as server:
        given = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.base_url}
        read = load(given, folder=folder, user_home=folder / "nobody")
        async with built_in.opened(read, world.database) as agents:
            agents.connect(world.services)
            async with playing(world, *agents.hired) as show:
                yield Team(world, show, models, folder)


def test_the_team_of_the_manual_is_a_lead_and_two_workers(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[5] / "docs" / "built-in-agents.md").read_text(encoding="utf-8")
    (shown,) = [text for text in re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL) if "default: lead" in text]
    (tmp_path / "swarm.yaml").write_text(shown, encoding="utf-8")
    given = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test"}
    found = streaming_agents(load(given, folder=tmp_path, user_home=tmp_path / "nobody"))
    assert [(one.name, one.role.value, one.has_team, one.leads) for one in found] == [
        ("lead", "lead", True, True),
        ("analyst", "worker", True, False),
        ("writer", "worker", True, False),
    ]


DELEGATE = Call("inbox-delegate", {"agent": "ada", "task": "Add 2 and 3.", "title": "A sum"})


async def test_a_lead_delegates_the_worker_answers_and_the_thread_comes_back(world: World, tmp_path: Path) -> None:
    lead: list[Reply | Script] = [
        Call("list-agents"),
        [Say("I look."), DELEGATE],
        Say("Ada adds it up."),
        Say("[DEFER]"),
    ]
    async with team(world, tmp_path, lead=lead, ada=[Say("It is 5.")]) as here:
        root = await world.says(f"{BOT} what is 2 plus 3?")
        await here.is_over(root, 3)
        assert here.shown(root) == [("lead", "I look.\n\nAda adds it up."), ("ada", "It is 5.")]
        (task,) = await here.tasks()
        assert (task["worker"], task["status"], task["result"], task["requester"]) == (
            "ada",
            "completed",
            "It is 5.",
            "U1",
        )
        assert await here.owner() == "lead"
        assert (await world.inbox_message(root)).status is InboxStatus.DELEGATED
        assert await here.posts() == []
        notices = await world.rows("SELECT kind, status FROM notices")
        assert [(one["kind"], one["status"]) for one in notices] == [("task_finished", "done")]
        listed = here.models.requests["lead"][1].results[-1]
        assert "Knows numbers." in listed
        told = here.models.requests["lead"][-1].last_text
        assert "A sum" in told
        assert "It is 5." in told


async def test_a_follow_up_reaches_the_worker_between_its_steps_and_after_its_answer(
    world: World, tmp_path: Path
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def waits(request: Request) -> Reply:
        began.set()
        await go_on.wait()
        return Call("list-agents")

    async def asked_again(request: Request) -> Reply:
        await world.says("and by 4?", thread=root)
        return Say("Two by three is 6.")

    ada: list[Reply | Script] = [waits, asked_again, Say("By four it is 8.")]
    async with team(world, tmp_path, lead=[DELEGATE, Say("Ada does it."), Say("[DEFER]")], ada=ada) as here:
        root = await world.says(f"{BOT} multiply")
        await asyncio.wait_for(began.wait(), 10)
        follow_up = await world.says("I mean 2 by 3", thread=root)
        go_on.set()
        await here.is_over(root, 3)
        asked = here.models.requests["ada"]
        assert "I mean 2 by 3" in str(asked[1].json)
        assert "and by 4?" in asked[2].last_text
        assert here.shown(root)[1] == ("ada", "Two by three is 6.\n\nBy four it is 8.")
        assert (await world.inbox_message(follow_up)).status is InboxStatus.RESPONDED
        assert len(here.models.requests["lead"]) == 3, "the lead got no message"


async def test_a_follow_up_does_not_wait_for_ever_if_the_worker_then_asks_people(world: World, tmp_path: Path) -> None:
    settings = TEAM.replace("description: Knows numbers.,", "description: Knows., approve: [send-message],")
    began, go_on = asyncio.Event(), asyncio.Event()

    async def waits(request: Request) -> Reply:
        began.set()
        await go_on.wait()
        return Call("list-agents")

    ada: list[Reply | Script] = [waits, Call("send-message", {"to": "wim", "text": "Hi."}), Say("It is 6.")]
    async with team(world, tmp_path, settings, lead=[DELEGATE, Say("Ada does it."), Say("[DEFER]")], ada=ada) as here:
        root = await world.says(f"{BOT} multiply")
        await asyncio.wait_for(began.wait(), 10)
        follow_up = await world.says("I mean 2 by 3", thread=root)
        go_on.set()
        (request,) = await open_requests(world)
        await decide(world, request, HumanDecision.APPROVE)
        await here.asked("lead", 3)
        assert [task["status"] for task in await here.tasks()] == ["completed"]
        assert (await world.inbox_message(follow_up)).status is InboxStatus.RESPONDED


async def test_two_workers_work_at_once_and_the_lead_sums_up(world: World, tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    def part(text: str) -> Script:
        async def works(request: Request) -> Reply:
            async with asyncio.timeout(10):
                await both.wait()
            return Say(text)

        return works

    def summed(request: Request) -> Reply:
        return Say("Together: done.") if len(here.models.requests["lead"]) == 4 else Say("[DEFER]")

    parts = [
        Call("create-task", {"agent": "ada", "title": "Numbers", "description": "Count."}),
        Call("create-task", {"agent": "wim", "title": "Words", "description": "Write."}),
    ]
    lead: list[Reply | Script] = [parts, Say("Both are at it."), summed, summed]
    async with team(world, tmp_path, lead=lead, ada=[part("Counted.")], wim=[part("Written.")]) as here:
        root = await world.says(f"{BOT} both please")
        await here.is_over(root, 5)
        assert sorted(here.shown(root)) == [("ada", "Counted."), ("lead", "Both are at it."), ("wim", "Written.")]
        assert [text.splitlines()[0] for text in await here.posts()] == ["Together: done."]
        assert {task["requester"] for task in await here.tasks()} == {"U1"}


async def test_wrong_targets_are_results_that_name_who_can_be_asked(world: World, tmp_path: Path) -> None:
    wrong = [Call("inbox-delegate", {"agent": name, "task": "Add."}) for name in ("bob", "lead")]
    lead = [*wrong, Say("I cannot.")]
    async with team(world, tmp_path, lead=lead) as here:
        root = await world.says(f"{BOT} add")
        await here.is_over(root, 1)
        unknown, itself = here.models.requests["lead"][-1].results
        assert "There is no agent 'bob'." in unknown
        assert "ada, wim" in unknown
        assert "You cannot assign a task to yourself." in itself
        assert here.shown(root) == [("lead", "I cannot.")]
        assert (await world.inbox_message(root)).status is InboxStatus.RESPONDED


async def test_a_worker_whose_model_fails_fails_its_task_and_the_lead_is_told(world: World, tmp_path: Path) -> None:
    broken = Fails(401, {"error": {"message": "no"}})
    async with team(world, tmp_path, lead=[DELEGATE, Say("Ada does it."), Say("Ada could not.")], ada=[broken]) as here:
        root = await world.says(f"{BOT} add")
        await here.is_over(root, 3)
        (task,) = await here.tasks()
        assert task["status"] == TaskStatus.DEAD
        assert "refuses our key" in task["error"]
        assert "dead" in here.models.requests["lead"][-1].last_text
        assert any(text.startswith("Ada could not.") for text in await here.posts())


async def test_a_lead_that_delegates_without_a_word_or_breaks_after_it_says_who_does_it(
    world: World, tmp_path: Path
) -> None:
    broken = Fails(401, {"error": {"message": "no"}})
    async with team(world, tmp_path, lead=[DELEGATE, broken, Say("[DEFER]")], ada=[Say("It is 5.")]) as here:
        root = await world.says(f"{BOT} add")
        await here.is_over(root, 3)
        assert here.shown(root) == [("lead", "I have asked ada to do this."), ("ada", "It is 5.")]
        assert (await here.show.runs(root))[0].status is RunStatus.ANSWERED


async def test_a_lead_that_cannot_hear_of_a_result_calls_nobody_for_help(world: World, tmp_path: Path) -> None:
    """The work is done, and people have read the answer."""
    help_channel = ChannelPolicy(escalation=EscalationPolicy(users=("U03",), on_dead_letter=True))
    governed = world.governed_by(governing(everywhere=help_channel))
    broken = Fails(401, {"error": {"message": "no"}})
    async with team(governed, tmp_path, lead=[DELEGATE, Say("Ada does it."), broken], ada=[Say("It is 5.")]) as here:
        root = await governed.says(f"{BOT} add")
        await here.is_over(root, 3)
        assert [run.status for run in await here.show.runs(root)][-1] is RunStatus.FAILED
        assert await world.rows("SELECT 1 FROM escalations") == []


@pytest.mark.long
async def test_a_chain_of_delegations_ends(world: World, tmp_path: Path) -> None:
    """A lead that gives out another task at the end of each task gets an error in the end, and people are told."""
    create = Call("create-task", {"agent": "ada", "title": "Again", "description": "Again."})

    def lead(request: Request) -> Reply:
        if request.json["messages"][-1]["role"] != "tool":
            return create
        is_refused = "conflict" in request.results[-1]
        return Say("That is enough.") if is_refused else Say("Ada goes on.")

    async with team(world, tmp_path, lead=[lead] * 100, ada=[Say("Done.")] * 100) as here:
        await world.says(f"{BOT} go on for ever")

        async def posts() -> list[str]:
            await world.send()
            return await here.posts()

        await wait_until(posts, lambda texts: any("enough" in text for text in texts), within_seconds=20)
        assert len(await here.tasks()) == MAX_DEPTH


def hangs() -> tuple[Script, asyncio.Event]:
    """A model that never answers, and the event of its call."""
    called = asyncio.Event()

    async def script(request: Request) -> Reply:
        called.set()
        await asyncio.Event().wait()
        raise AssertionError

    return script, called


async def crash(here: Team) -> None:
    """Ends the process in office without a word, and begins the next term, as after kill -9."""
    here.show.term.end()
    await here.show.stop()
    here.show.begin()


async def test_a_lead_that_is_lost_after_its_delegation_does_not_delegate_again(world: World, tmp_path: Path) -> None:
    stuck, called = hangs()
    async with team(world, tmp_path, lead=[DELEGATE, stuck, Say("[DEFER]")], ada=[Say("It is 5.")]) as here:
        root = await world.says(f"{BOT} add")
        await asyncio.wait_for(called.wait(), 10)
        await here.show.over(root, 2)  # of ada, and of the lead that hears of it
        await crash(here)
        await here.asked("lead", 3)
        assert [task["status"] for task in await here.tasks()] == ["completed"]
        assert [text for who, text in here.shown(root) if who == "ada"] == ["It is 5."]
        assert len(here.models.requests["lead"]) == 3
        assert (await here.show.runs(root))[0].status is RunStatus.ANSWERED
        assert await here.posts() == [], "nobody reads that the answer starts again"


async def test_a_lead_that_is_lost_after_it_created_a_task_finds_it_in_the_repeated_run(
    world: World, tmp_path: Path
) -> None:
    stuck, called = hangs()
    first = Call("create-task", {"agent": "ada", "title": "A sum", "description": "Add 2 and 3."})
    again = Call("create-task", {"agent": "ada", "title": "Sum", "description": "Please add 2 and 3."})
    replies: list[Reply | Script] = [first, stuck, again, Say("Ada adds.")]

    async def lead(request: Request) -> Reply:
        if "news from the coordinator" in request.last_text:  # at the same time as the other run
            return Say("[DEFER]")
        reply = replies.pop(0)
        return await answer(reply, request)

    async with team(world, tmp_path, lead=[lead] * 5, ada=[Say("It is 5.")]) as here:
        await world.says(f"{BOT} add")
        await asyncio.wait_for(called.wait(), 10)
        await crash(here)

        async def told() -> list[Request]:
            return [one for one in here.models.requests["lead"] if "Please add" in str(one.json)]

        (repeated, *_) = await wait_until(told)
        assert [task["title"] for task in await here.tasks()] == ["A sum"]
        assert "Add 2 and 3." in repeated.results[-1]


async def test_a_worker_that_is_lost_does_its_task_again_and_reports_it_once(world: World, tmp_path: Path) -> None:
    stuck, called = hangs()
    async with team(
        world, tmp_path, lead=[DELEGATE, Say("Ada does it."), Say("[DEFER]")], ada=[stuck, Say("It is 5.")]
    ) as here:
        root = await world.says(f"{BOT} add")
        await asyncio.wait_for(called.wait(), 10)
        await here.show.over(root, 1)
        await crash(here)
        await here.asked("lead", 3)
        (task,) = await here.tasks()
        assert (task["status"], task["result"]) == ("completed", "It is 5.")
        assert len(here.models.requests["lead"]) == 3


async def test_a_lead_that_is_lost_while_it_hears_of_a_result_hears_of_it_again(world: World, tmp_path: Path) -> None:
    stuck, called = hangs()
    lead: list[Reply | Script] = [DELEGATE, Say("Ada does it."), stuck, Say("Well done.")]
    async with team(world, tmp_path, lead=lead, ada=[Say("It is 5.")]) as here:
        await world.says(f"{BOT} add")
        await asyncio.wait_for(called.wait(), 10)
        await crash(here)
        await wait_until(here.posts, lambda texts: any("Well done." in text for text in texts))
        assert [text.splitlines()[0] for text in await here.posts()] == ["Well done."]


async def test_strangers_work_is_delegated_and_stays_strangers_work_also_after_a_task(
    world: World, tmp_path: Path
) -> None:
    """Everybody on the way is told, so no tool that writes is called for people who may not assign work."""
    send = Call("send-message", {"to": "wim", "text": "Write!"})
    create = Call("create-task", {"agent": "wim", "title": "Next", "description": "Write."})
    lead: list[Reply | Script] = [[send, DELEGATE], Say("Ada does it."), create, Say("Wim goes on."), Say("[DEFER]")]
    policy = governing(channels={"C1": ChannelPolicy(external=External.ALLOW)})
    world.slack.persons["U2"] = guest()
    async with team(world.governed_by(policy), tmp_path, lead=lead, ada=[Say("It is 5.")], wim=[Say("Done.")]) as here:
        await here.world.says(f"{BOT} add", by="U2")
        await here.asked("lead", 5)
        assert [(one["worker"], one["by_strangers"]) for one in await here.tasks()] == [("ada", True), ("wim", True)]
        refused = here.models.requests["lead"][1].results
        assert any("send-message was not called" in text for text in refused)
        assert await world.rows("SELECT 1 FROM agent_messages") == []


async def test_a_task_whose_polling_worker_is_gone_goes_to_another_or_is_cancelled(
    world: World, tmp_path: Path
) -> None:
    await world.worker("gone")

    def lead(request: Request) -> Reply:
        if request.json["messages"][-1]["role"] == "tool":
            return Say("It goes on.")
        if "sum" in request.last_text:  # a word that no id of a task contains, unlike "add"
            text = "First." if "first" in request.last_text else "Second."
            return Call("inbox-delegate", {"agent": "gone", "task": text})
        if "has lost its worker" not in request.last_text or "Second" in request.last_text:
            return Say("[DEFER]")
        task_id = re.findall(r"\(([0-9a-f-]{36})\)", request.last_text)[0]
        return Call("assign-task", {"task_id": task_id, "agent": "ada"})

    async with team(world, tmp_path, lead=[lead] * 20, ada=[Say("It is 5.")]) as here:
        for text in ("first sum", "second sum"):
            await here.show.over(await world.says(f"{BOT} {text}"))
        for name in ("lead", "ada", "wim"):
            await here.show.agent(name)
        world.clock.advance(130)
        for name in ("lead", "ada", "wim"):
            await world.is_here(await here.show.agent(name))
        await world.sweep()

        async def ended() -> list[tuple[str, str]]:
            return [(one["description"], one["status"]) for one in await here.tasks() if one["ended_at"]]

        found = await wait_until(ended, lambda tasks: len(tasks) == 2, what="both tasks have ended")
        assert sorted(found) == [("First.", "completed"), ("Second.", "cancelled")], here.results("lead")


async def test_a_task_that_a_person_stops_starts_no_run_of_the_lead(world: World, tmp_path: Path) -> None:
    """It could give out the same work again, and people have read in the thread what has ended."""
    stuck, called = hangs()
    async with team(world, tmp_path, lead=[DELEGATE, Say("Ada does it."), Say("Ada goes on.")], ada=[stuck]) as here:
        root = await world.says(f"{BOT} add")
        await asyncio.wait_for(called.wait(), 10)
        await here.show.over(root, 1)
        await world.says("!stop", thread=root)

        async def heard() -> list[str]:
            rows = await world.rows("SELECT status FROM notices WHERE kind = 'task_finished'")
            return [str(row["status"]) for row in rows]

        await wait_until(heard, lambda found: found == ["done"])
        assert [task["status"] for task in await here.tasks()] == ["cancelled"]
        assert len(here.models.requests["lead"]) == 2


async def test_messages_of_agents_start_no_run_and_stay_unread(world: World, tmp_path: Path) -> None:
    bob = await world.lead("bob")
    async with team(world, tmp_path, lead=[Call("read-messages"), Say("Bob says hi.")]) as here:
        await world.services.messages.send(Caller(agent=bob), "Hi from Bob.", to="lead")

        async def heard() -> list[str]:
            rows = await world.rows("SELECT status FROM notices WHERE kind = 'agent_message'")
            return [str(row["status"]) for row in rows]

        await wait_until(heard, lambda found: found == ["done"])
        root = await world.says("swarm#lead any news?")
        await here.is_over(root, 1)
        assert "Hi from Bob." in here.models.requests["lead"][1].results[-1]
        assert len(here.models.requests["lead"]) == 2


async def test_a_run_that_cannot_wait_calls_nothing_that_people_approve(world: World, tmp_path: Path) -> None:
    settings = TEAM.replace(
        "tools: [swarm], description: Leads.", "tools: [swarm], approve: [send-message], description: L."
    )
    send = Call("send-message", {"to": "wim", "text": "Write!"})
    lead = [DELEGATE, send, Say("Ada does it."), send, Say("Ask me for it.")]
    async with team(world, tmp_path, settings, lead=lead, ada=[Say("It is 5.")]) as here:
        await world.says(f"{BOT} add")
        await here.asked("lead", 5)
        for request in (here.models.requests["lead"][2], here.models.requests["lead"][4]):
            assert "this run cannot wait" in request.results[-1]
        assert await world.rows("SELECT 1 FROM requests") == []


async def test_outside_of_slack_the_tools_reach_nobody(world: World, tmp_path: Path) -> None:
    async with team(world, tmp_path, lead=[Call("list-agents"), Say("Nobody.")]) as here:
        agent = next(one.client for one in here.show.streaming_agents._hired.values() if one.spec.name == "lead")
        asked = RunInput(
            run_id="",
            agui_run_id="r1",
            trace_id="t1",
            conversation_id="c1",
            messages=(InputMessage(id="m1", speaker=Speaker.USER, text="who is there?"),),
            origin=Origin(door=Door.AGUI, client="operator"),
        )
        events = [event async for event in agent.run(asked)]
        assert "works only while you answer in Slack" in here.models.requests["lead"][1].results[-1]
        assert any(isinstance(event, ToolEnded) and event.failed for event in events)


async def test_a_wish_to_try_again_gives_out_a_new_task(world: World, tmp_path: Path) -> None:
    """Only a run that was cut short is repeated; a person who presses Retry wants the work done anew."""
    broken = Fails(401, {"error": {"message": "no"}})
    create = Call("create-task", {"agent": "ada", "title": "A sum", "description": "Add 2 and 3."})
    replies: list[Reply | Script] = [create, broken, create, Say("Ada adds.")]

    async def lead(request: Request) -> Reply:
        return (
            Say("[DEFER]")
            if "news from the coordinator" in request.last_text
            else await answer(replies.pop(0), request)
        )

    async with team(world, tmp_path, lead=[lead] * 9, ada=[Say("It is 5."), Say("Five.")]) as here:
        root = await world.says(f"{BOT} add")
        await here.asked("lead", 3)
        failed = next(run for run in await here.show.runs(root) if run.status is RunStatus.FAILED)
        await pressed(world, press(RETRY_RUN_ACTION, failed.id))
        await here.asked("lead", 6)
        assert [one["status"] for one in await here.tasks()] == ["completed", "completed"]
