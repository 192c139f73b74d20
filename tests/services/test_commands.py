"""The slash command: what each subcommand answers and does, for whom, and once."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import orjson
import pytest

from swarm.clock import to_iso
from swarm.domain.commands import (
    AgentList,
    CommandAnswer,
    CommandHelp,
    CommandRefused,
    Explanation,
    RemarkStored,
    RemarkSubmitted,
    RemarkWanted,
    SlashCommand,
    StopChoice,
    SwarmCondition,
    WorkList,
    WorkState,
    WorkStopped,
)
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import ChannelType, SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.model.webhooks import WebhookEndpoint, WebhookKind
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.domain.policy.operating import OperatingPolicy, Policies, PolicyBook
from swarm.domain.requests.button_actions import STOP_OWN_ACTION, STOP_TASK_ACTION, ButtonPressed
from swarm.services.intake.commands import (
    ELSEWHERE_TEXT,
    NO_LINK_TEXT,
    NO_MESSAGE_TEXT,
    UNKNOWN_MESSAGE_TEXT,
    Commands,
)
from swarm.services.runs.run_control import ENDED_TEXT, STOPPED_TEXT
from swarm.services.speaking.participants import LIMITED_TEXT, UNVERIFIED_TEXT
from swarm.services.tasks.tasks import brief
from swarm.store.runs import remarks
from tests.services.test_requests import APPROVAL, Asking
from tests.support.live import Scripted, ends, hired, playing
from tests.support.policies import governing
from tests.support.runs import asked, begun, now
from tests.support.tasks import is_work
from tests.support.world import BOT, ME, World, holding, said

pytestmark = pytest.mark.req("CHAN-08")

_numbers = count(1)


def commanded(text: str, *, by: str = "U1", channel: str = "C1", key: str | None = None) -> SlashCommand:
    return SlashCommand(
        key=key or f"command:{next(_numbers)}",
        command="/swarm",
        text=text,
        user_id=by,
        channel=channel,
        response_url="https://hooks.slack.com/commands/1",
        trigger_id="1.2",
    )


async def answered(world: World, text: str, **more: str) -> CommandAnswer:
    return await commands(world).answer(commanded(text, **more))


def commands(world: World) -> Commands:
    return Commands(world.database, world.operating_policy, ME, world.standings, world.slack)


async def explained(world: World, text: str, **more: str) -> tuple[str, ...]:
    answer = await answered(world, text, **more)
    assert isinstance(answer, Explanation)
    return answer.lines


async def task_of(world: World, lead: Agent, worker: Agent, *, by: str = "U1", text: str = "count") -> str:
    """A message of somebody that the lead has delegated; the task's id."""
    await world.says(f"{BOT} {text}", by=by)
    (trigger,) = [one for one in await world.poll(lead) if is_work(one)]
    run = holding(trigger, lead)
    handed = await world.services.delegations.delegate(
        run, trigger.inbox_messages[0].id, worker.name, brief(f"Do {text}.", title=f"Do {text}")
    )
    return str(handed["task_id"])


async def given_to(world: World, agent: Agent, root: SlackMessage) -> Trigger:
    """What an agent gets that a person has asked in a thread."""
    await world.says(f"swarm#{agent.name} go", thread=root)
    return await world.only(agent, hold=True)


async def status_of(world: World, task_id: str) -> TaskStatus:
    return (await world.services.tasks.get(None, task_id)).status


def pressed(action_id: str, value: str, *, by: str = "U1", channel: str = "C1") -> ButtonPressed:
    return ButtonPressed(
        key=f"press:{next(_numbers)}",
        action_id=action_id,
        value=value,
        user_id=by,
        channel=channel,
        message_ts="1700000000.000900",
        thread_ts=None,
        is_ephemeral=True,
    )


# --- help, status, agents


@pytest.mark.parametrize(("text", "unknown"), [("", ""), ("help", ""), ("  HELP me", ""), ("dance", "dance")])
async def test_help_is_the_answer_to_help_to_nothing_and_to_what_is_unknown(
    world: World, text: str, unknown: str
) -> None:
    assert await answered(world, text) == CommandHelp(command="/swarm", unknown=unknown)


async def test_status_says_who_is_there_what_waits_and_who_answers_here(world: World) -> None:
    lead, _ = await world.lead(), await world.worker(online=False)
    await world.says(f"{BOT} hello")
    world.clock.advance(90)
    await world.is_here(lead)
    status = await answered(world, "status")
    assert isinstance(status, SwarmCondition)
    assert [(agent.name, agent.online) for agent in status.agents] == [("lead", True), ("worker", False)]
    assert (status.inbox_unread, status.oldest_unread_seconds, status.tasks_open) == (1, 90, 0)
    assert (status.here.agent, status.here.online, status.here.listen) == ("lead", True, Listen.MENTION)
    assert (status.here.is_visible, status.here.is_direct) == (True, False)


async def test_status_names_the_channels_own_agent_and_what_it_hears(world: World) -> None:
    await world.lead()
    await world.worker("reviewer")
    policy = governing(channels={"C1": ChannelPolicy(agent="reviewer", listen=Listen.ALL)})
    status = await answered(world.governed_by(policy), "status")
    assert isinstance(status, SwarmCondition)
    assert (status.here.agent, status.here.listen) == ("reviewer", Listen.ALL)


async def test_a_conversation_that_slack_does_not_show_is_not_claimed_to_be_heard(world: World) -> None:
    await world.lead()
    status = await answered(world, "status", channel="D9STRANGE")
    assert isinstance(status, SwarmCondition)
    assert not status.here.is_visible


async def test_agents_are_listed_with_what_they_do_now(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.services.agents.describe("worker", "Counts.", None)
    await task_of(world, lead, worker)
    await world.only(worker)
    listed = await answered(world, "agents")
    assert isinstance(listed, AgentList)
    assert [(agent.name, agent.role, agent.description) for agent in listed.agents] == [
        ("lead", "lead", ""),
        ("worker", "worker", "Counts."),
    ]
    assert (listed.agents[1].load.open_tasks, listed.agents[1].load.running) == (1, 1)


# --- tasks


@pytest.mark.both_engines
async def test_tasks_are_the_persons_own_and_those_of_the_conversation(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    own = await task_of(world, lead, worker, text="one")
    other = await task_of(world, lead, worker, by="U2", text="two")
    here, elsewhere = await answered(world, "tasks"), await answered(world, "tasks", channel="C2")
    assert isinstance(here, WorkList)
    assert isinstance(elsewhere, WorkList)
    assert [(work.task_id, work.state, work.agent) for work in here.own] == [(own, WorkState.QUEUED, "worker")]
    assert [work.task_id for work in here.others] == [other]
    assert here.own[0].link.startswith("https://team.slack.example/archives/C1/p17")
    assert ([work.task_id for work in elsewhere.own], elsewhere.others) == ([own], ())


@pytest.mark.req("HITL-09")
async def test_messages_that_wait_for_a_decision_or_behind_it_are_listed_too(world: World) -> None:
    ada = Scripted()
    ada.scripts += [ends(APPROVAL)] * 2
    async with playing(world, hired("ada", ada)) as show:
        roots = [await world.says(f"{BOT} push {number}") for number in (1, 2)]
        for root in roots:
            await show.over(root)
        await world.says("faster", thread=roots[0], by="U2")
        found = await answered(world, "tasks")
    assert isinstance(found, WorkList)
    assert [(work.title, work.state) for work in found.own] == [
        ("push 1", WorkState.ASKING), ("push 2", WorkState.ASKING),
    ]  # fmt: skip


async def test_the_button_of_a_listed_task_stops_it_and_says_so(world: World) -> None:
    task = await task_of(world, await world.lead(), await world.worker())
    assert await world.buttons.press(pressed(STOP_TASK_ACTION, task)) == STOPPED_TEXT
    assert await status_of(world, task) is TaskStatus.CANCELLED


# --- stop


@pytest.mark.both_engines
async def test_stop_stops_the_persons_own_task_and_nobody_elses(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    own = await task_of(world, lead, worker, text="one")
    other = await task_of(world, lead, worker, by="U2", text="two")
    assert await answered(world, "stop", channel="C2") == WorkStopped(stopped=0)
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    assert (await status_of(world, own), await status_of(world, other)) == (TaskStatus.CANCELLED, TaskStatus.PENDING)
    assert await answered(world, "stop") == WorkStopped(stopped=0)


@pytest.mark.both_engines
async def test_stop_stops_a_running_answer(world: World) -> None:
    _, run = await asked(world, await world.lead())
    assert await answered(world, "stop", by="U2") == WorkStopped(stopped=0)
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    stopped = await now(world, run)
    assert (stopped.status, stopped.stop_requested_by) == (RunStatus.RUNNING, "U1")


async def test_stop_withdraws_what_the_persons_work_waits_for_and_leaves_other_peoples_alone(world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    request = await asking.ask()
    assert await answered(world, "stop", by="U2") == WorkStopped(stopped=0)
    assert (await asking.now(request)).is_open
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    assert (await asking.now(request)).status is RequestStatus.CANCELLED


async def test_other_peoples_work_in_the_same_thread_goes_on(world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    request = await asking.ask()
    running = {}
    for person in ("U1", "U2"):
        agent = await world.worker(f"for-{person.lower()}")
        await world.says(f"swarm#{agent.name} go", thread=asking.root, by=person)
        running[person] = await begun(world, agent, await world.only(agent), requester=person)
    assert await answered(world, "stop", by="U2") == WorkStopped(stopped=1)
    assert [(await now(world, running[person])).stop_requested_by for person in ("U1", "U2")] == [None, "U2"]
    assert (await asking.now(request)).is_open


async def test_a_repeated_stop_stops_nothing_else_and_says_the_same(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await task_of(world, lead, worker, text="one")
    command = commanded("stop")
    first = await commands(world).answer(command)
    later = await task_of(world, lead, worker, text="two")
    assert await commands(world).answer(command) == first == WorkStopped(stopped=1)
    assert await status_of(world, later) is TaskStatus.PENDING


async def test_several_things_are_offered_and_a_button_stops_one(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    tasks = [await task_of(world, lead, worker, text=text) for text in ("one", "two")]
    choice = await answered(world, "stop")
    assert isinstance(choice, StopChoice)
    assert [work.title for work in choice.work] == ["Do one", "Do two"]
    first = pressed(STOP_OWN_ACTION, choice.work[0].thread_id)
    assert await world.buttons.press(first) == STOPPED_TEXT
    assert [await status_of(world, task) for task in tasks] == [TaskStatus.CANCELLED, TaskStatus.PENDING]
    assert await world.buttons.press(replace(first, key="press:again")) == ENDED_TEXT


@pytest.mark.parametrize("wrong", [{"by": "U2"}, {"channel": "C2"}])
async def test_nobody_else_and_no_other_channel_stops_it_with_this_button(world: World, wrong: dict[str, str]) -> None:
    lead, worker = await world.lead(), await world.worker()
    tasks = [await task_of(world, lead, worker, text=text) for text in ("one", "two")]
    choice = await answered(world, "stop")
    assert isinstance(choice, StopChoice)
    assert await world.buttons.press(pressed(STOP_OWN_ACTION, choice.work[0].thread_id, **wrong)) == ENDED_TEXT
    assert [await status_of(world, task) for task in tasks] == [TaskStatus.PENDING, TaskStatus.PENDING]


async def test_what_waits_is_stopped_and_what_cannot_be_stopped_is_said(world: World) -> None:
    await world.lead()
    waiting = await world.says(f"{BOT} hello")
    assert await answered(world, "stop", channel="C2") == WorkStopped(stopped=0)
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    assert (await world.inbox_message(waiting)).status is InboxStatus.DISMISSED
    assert await answered(world, "stop") == WorkStopped(stopped=0)


# --- explain


def link(message: SlackMessage) -> str:
    return ME.link(message.channel, message.ts, message.thread_ts)


async def test_explain_says_who_got_a_message_and_what_became_of_it(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    assert await explained(world, f"explain {link(message)}") == (
        "Routing: it mentions the bot; the default lead gets it.",
        "lead has not read it yet (it mentions the bot; the default lead gets it).",
        "Later messages in the thread go to lead.",
    )
    await world.answers(lead, await world.only(lead), "hi")
    lines = await explained(world, f"explain <{link(message)}|this>", by="U2")
    assert lines[1].startswith("lead has answered")
    chat = await world.says("no mention", by="U2")
    assert (await explained(world, f"explain {link(chat)}"))[-1] == "No agent got it."


async def test_without_a_link_the_persons_last_message_here_is_explained(world: World) -> None:
    lead = await world.lead()
    assert await explained(world, "explain") == (NO_MESSAGE_TEXT,)
    first = await world.says(f"{BOT} one")
    await world.answers(lead, await world.only(lead), "hi")
    second = await world.says("two", thread=first)
    await world.says("not theirs", thread=first, by="U2")
    answer = await answered(world, "explain")
    assert isinstance(answer, Explanation)
    assert answer.link == ME.link("C1", second.ts)


async def test_messages_of_other_conversations_are_not_explained(world: World) -> None:
    await world.lead()
    message = await world.says(f"{BOT} hello")
    assert await explained(world, f"explain {link(message)}", channel="C2") == (ELSEWHERE_TEXT,)
    direct = await world.hears(said("hello", channel="D1", channel_type=ChannelType.DM))
    assert await explained(world, f"explain {link(direct)}", by="U2") == (ELSEWHERE_TEXT,)
    assert (await explained(world, f"explain {link(direct)}"))[0].startswith("Routing: it is a direct message")


@pytest.mark.parametrize("text", ["nonsense", "https://team.slack.example/archives/C1"])
async def test_what_is_no_link_is_said(world: World, text: str) -> None:
    assert await explained(world, f"explain {text}") == (NO_LINK_TEXT.format(text=text),)


async def test_neither_an_inbox_message_nor_a_task_is_explained_by_its_id(world: World) -> None:
    task = await task_of(world, await world.lead(), await world.worker())
    assert await explained(world, f"explain {task}", channel="C2") == (NO_LINK_TEXT.format(text=task),)


async def test_an_unknown_message_is_said(world: World) -> None:
    assert await explained(world, f"explain {ME.link('C1', '1600000000.000100')}") == (UNKNOWN_MESSAGE_TEXT,)


# --- silent work


def overthinking(world: World) -> World:
    return world.governed_by(governing(channels={"C1": ChannelPolicy(listen=Listen.ALL, overthink=True)}))


@pytest.mark.both_engines
@pytest.mark.req("CHAN-02")
async def test_what_nobody_has_asked_for_is_neither_listed_nor_stopped(world: World) -> None:
    world = overthinking(world)
    lead, worker = await world.lead(), await world.worker()
    waiting = await world.says("How do I get a token?")
    assert await answered(world, "stop") == WorkStopped(stopped=0)
    run = await begun(world, lead, await world.only(lead, hold=True))
    await task_of(world, lead, worker, text="asked for")
    listed = await answered(world, "tasks")
    assert isinstance(listed, WorkList)
    assert [work.title for work in listed.own] == ["Do asked for"]
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    assert (await now(world, run)).stop_requested_by is None
    await world.says(f"{BOT} please", thread=waiting)
    await task_of(world, lead, worker, text="also asked for")
    choice = await answered(world, "stop")
    assert isinstance(choice, StopChoice), "what was asked for waits in the other thread"
    of_task = next(work for work in choice.work if work.title == "Do also asked for")
    await world.buttons.press(pressed(STOP_OWN_ACTION, of_task.thread_id))
    helper = await world.worker("helper")
    later = await begun(world, helper, await given_to(world, helper, waiting))
    assert await answered(world, "stop") == WorkStopped(stopped=1)
    assert [(await now(world, one)).stop_requested_by for one in (run, later)] == [None, "U1"]


@pytest.mark.req("CHAN-02")
async def test_a_task_for_which_nobody_has_asked_is_listed_to_nobody(world: World) -> None:
    world = overthinking(world)
    lead, worker = await world.lead(), await world.worker()
    await world.says("count the lines")
    trigger = await world.only(lead)
    run = holding(trigger, lead)
    task = await world.services.delegations.delegate(run, trigger.inbox_messages[0].id, worker.name, brief("Count."))
    assert await status_of(world, str(task["task_id"])) is TaskStatus.PENDING
    for person in ("U1", "U2"):
        assert await answered(world, "tasks", by=person) == WorkList(own=(), others=(), channel="C1")
    assert await answered(world, "stop") == WorkStopped(stopped=0)


@pytest.mark.both_engines
@pytest.mark.req("CHAN-02")
async def test_totals_count_what_nobody_has_asked_for_only_for_operators(world: World) -> None:
    world = overthinking(world)
    lead, worker = await world.lead(), await world.worker()

    async def seen() -> list[int]:
        status, listed = await answered(world, "status"), await answered(world, "agents")
        assert isinstance(status, SwarmCondition)
        assert isinstance(listed, AgentList)
        loads = [(agent.load.running, agent.load.open_tasks) for agent in listed.agents]
        assert [(one.load.running, one.load.open_tasks) for one in status.agents] == loads
        return [
            status.inbox_unread,
            status.oldest_unread_seconds,
            status.tasks_open,
            *(n for load in loads for n in load),
        ]

    async def told_operators() -> list[int]:
        backlog = await world.services.overview.backlog()
        loads = [member.load for member in await world.services.team.members()]
        return [
            backlog.inbox_unread,
            backlog.tasks_open,
            *(n for load in loads for n in (load.running, load.open_tasks)),
        ]

    await world.says("count the lines")
    world.clock.advance(90)
    nothing = [0, 0, 0, 0, 0, 0, 0]
    assert (await seen(), (await told_operators())[:2]) == (nothing, [1, 0])
    trigger = await world.only(lead, hold=True)
    assert await seen() == nothing
    run = holding(trigger, lead)
    await world.services.delegations.delegate(run, trigger.inbox_messages[0].id, worker.name, brief("Count."))
    await world.only(worker)
    assert await seen() == nothing
    assert await told_operators() == [0, 1, 1, 0, 1, 1]
    await world.says(f"{BOT} and you?")
    await world.says(f"{BOT} and again?")
    await world.poll(lead, limit=1)
    world.clock.advance(30)
    assert await seen() == [1, 30, 0, 1, 0, 0, 0]
    other = await world.says("and the words")
    await world.poll(lead)
    await world.says(f"{BOT} please", thread=other)  # behind the silent run
    assert await seen() == [1, 0, 0, 2, 0, 0, 0]


@pytest.mark.req("CHAN-02")
async def test_explain_does_not_reveal_an_answer_that_is_withheld(world: World) -> None:
    world = overthinking(world)
    lead = await world.lead()
    message = await world.says("How do I get a token?")
    before = await explained(world, f"explain {link(message)}")
    await world.answers(lead, await world.only(lead), "[DEFER] Ask Bob.")
    assert await explained(world, f"explain {link(message)}") == before
    assert len(before) == 1
    assert before[0].startswith("Routing: ")


# --- feedback


async def test_a_remark_is_stored_once(world: World) -> None:
    assert await answered(world, "feedback") == RemarkWanted(channel="C1")
    command = commanded("feedback  Good\u200b work, <@U2>!")
    assert [await commands(world).answer(command) for _ in range(2)] == [RemarkStored(), RemarkStored()]
    form = RemarkSubmitted(key="remark:V1", user_id="U2", channel="D1", text="Slow.")
    assert [await commands(world).remark(form) for _ in range(2)] == [RemarkStored(), RemarkStored()]
    found = await world.database.read(remarks.latest, 0, 10)
    assert [(one.channel, one.user_id, one.text) for one in found] == [
        ("D1", "U2", "Slow."),
        ("C1", "U1", "Good work, <@U2>!"),
    ]


@pytest.mark.req("SEC-06")
async def test_a_remark_is_sent_to_the_operators_own_service_once_and_not_after_forgetting(world: World) -> None:
    hook = WebhookEndpoint(url="http://127.0.0.1:1/")
    policies = Policies(webhooks={(WebhookKind.FEEDBACK, ""): hook, (WebhookKind.CAIPE, ""): hook})
    world = world.governed_by(OperatingPolicy(book=PolicyBook(policies)))
    for person in ("U1", "U2"):
        command = commanded("feedback Good.", by=person)
        assert [await commands(world).answer(command) for _ in range(2)] == [RemarkStored(), RemarkStored()]
    rows = await world.rows("SELECT kind, person, body FROM webhooks ORDER BY person")
    assert [(row["kind"], row["person"]) for row in rows] == [("feedback", "U1"), ("feedback", "U2")]
    (_, stored) = await world.database.read(remarks.latest, 0, 10)
    assert orjson.loads(rows[0]["body"]) == {
        "type": "remark",
        "id": stored.id,
        "text": "Good.",
        "user_id": "U1",
        "team": ME.team,
        "channel": "C1",
        "created_at": to_iso(stored.created_at),
    }
    await world.services.people.forget("U1")
    assert [row["person"] for row in await world.rows("SELECT person FROM webhooks")] == ["U2"]


async def test_a_remark_is_deleted_with_its_person_and_after_its_time(world: World) -> None:
    for person in ("U1", "U2"):
        await answered(world, "feedback Good.", by=person)
    await world.services.people.forget("U1")
    assert [one.user_id for one in await world.database.read(remarks.latest, 0, 10)] == ["U2"]
    world.clock.advance(91 * 86_400)
    await world.sweeper._tidier.tidy()
    assert await world.database.read(remarks.latest, 0, 10) == []


# --- Who may


ONLY_U2 = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U2"})))


@pytest.mark.parametrize("text", ["", "status", "agents", "tasks", "stop", "explain", "feedback", "feedback Bad!"])
@pytest.mark.req("CHAN-09")
async def test_who_may_not_use_the_swarm_here_is_refused_every_command(world: World, text: str) -> None:
    task = await task_of(world, await world.lead(), await world.worker())
    refused = await answered(world.governed_by(ONLY_U2), text)
    assert isinstance(refused, CommandRefused)
    assert refused.reason.startswith("You may not do that here")
    assert await status_of(world, task) is TaskStatus.PENDING
    assert await world.database.read(remarks.latest, 0, 10) == []


@pytest.mark.req("CHAN-09")
async def test_a_form_of_somebody_who_may_not_any_more_stores_nothing(world: World) -> None:
    form = RemarkSubmitted(key="remark:V1", user_id="U1", channel="C1", text="Slow.")
    assert isinstance(await commands(world.governed_by(ONLY_U2)).remark(form), CommandRefused)
    assert await world.database.read(remarks.latest, 0, 10) == []


@pytest.mark.req("CHAN-11")
async def test_whom_slack_does_not_identify_in_time_is_asked_to_try_again(world: World) -> None:
    world.slack.persons["U4"] = None
    assert await answered(world, "status", by="U4") == CommandRefused(reason=UNVERIFIED_TEXT)


@pytest.mark.req("CHAN-09")
async def test_commands_count_towards_the_limit_and_repeated_deliveries_do_not(world: World) -> None:
    limited = world.governed_by(governing(messages_per_minute=2))
    command = commanded("help")
    for _ in range(3):
        assert isinstance(await commands(limited).answer(command), CommandHelp)
    assert isinstance(await answered(limited, "help"), CommandHelp)
    assert await answered(limited, "help") == CommandRefused(reason=LIMITED_TEXT)
    assert isinstance(await answered(limited, "help", by="U2"), CommandHelp)
    world.clock.advance(61)
    assert isinstance(await answered(limited, "help"), CommandHelp)
