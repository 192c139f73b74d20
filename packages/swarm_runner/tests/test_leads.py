"""A CLI as a lead: it answers people, delegates to workers, and gets what comes of it into the same session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from packages.swarm_runner.tests.conftest import Office, fake, lead_beside
from packages.swarm_runner.tests.scripted import ScriptedDoor, ScriptedSession
from swarm_runner.port import CliEvent, TextAdded, TurnEnded, TurnOutcome
from tests.support.doors import Visitor
from tests.support.waiting import wait_until

Uses = Callable[..., Awaitable[dict[str, Any]]]
"""Calls a tool of the swarm with the key that the CLI has got."""
Act = Callable[[str, Uses], AsyncIterator[str]]
"""What a lead does in a turn: by its prompt and the tools. Yields its text."""


def about(prompt: str, name: str) -> str:
    """An id that a prompt gives, and empty if it gives none."""
    found = re.search(rf"^- {name}: (\S+?),?(?: |$)", prompt, re.MULTILINE)
    return found[1] if found else ""


LATER = "and later?"


async def says_later(prompt: str, uses: Uses) -> AsyncIterator[str]:
    yield "Later, then."


async def all_shown(lead: Office, ts: str) -> str:
    """What the app has said in a thread once it has also answered a message there, before which all else is shown."""
    await lead.idle()
    await lead.twin.say(f"swarm#{lead.name} {LATER}", thread=ts)
    return "\n".join(await lead.says(ts, "Later, then."))


class Leading(ScriptedDoor):
    """A CLI that leads: each turn is an act. ``turns`` are the triggers that it got, by the session."""

    def __init__(self, office: Office, act: Act) -> None:
        super().__init__(self._turn)
        self.turns: list[tuple[str, str]] = []
        self.prompts: list[str] = []
        self._office, self._act = office, act

    async def _turn(self, session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        self.turns.append((session.id, about(prompt, "trigger")))
        self.prompts.append(prompt)
        act = says_later if LATER in prompt.partition("<thread_context")[0] else self._act
        async for text in act(prompt, self.uses):
            yield TurnEnded(outcome=TurnOutcome.FAILED, reason=text[1:]) if text[:1] == "!" else TextAdded(text=text)

    async def uses(self, tool: str, **arguments: Any) -> dict[str, Any]:
        headers = self.opened[-1].mcp.headers
        visitor = Visitor(self._office.stage.base, headers["Authorization"].removeprefix("Bearer "), self._office.http)
        return await visitor.uses(tool, headers["X-Swarm-Lease"], **arguments)


def delegates(worker: str, *, then: str = "Ada counts.", news: str = "All counted.") -> Act:
    """Delegates each message, and says something about what comes of it."""

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if message_id := about(prompt, "inbox_message_id"):
            await uses("inbox-delegate", inbox_message_id=message_id, agent=worker, task="count the letters")
            yield then
        else:
            yield news

    return act


@pytest.mark.req("RUN-10", "RUN-01")
async def test_a_lead_delegates_to_a_second_runner_and_gets_the_result_into_the_same_session(office: Office) -> None:
    lead = await lead_beside(office)
    door = Leading(lead, delegates(office.name))
    await lead.start("claude", door, role="lead")
    await office.start(fake("normal"))
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    seen = await office.says(ts, "Ada counts.", "You said", "All counted.", within_seconds=60)
    assert [sum(words in text for text in seen) for words in ("Ada counts.", "You said", "All counted.")] == [1, 1, 1]
    assert door.turns == [("session-1", "slack_inbox_message"), ("session-1", "task_finished")]
    assert "You said" in door.prompts[1]
    assert [wanted.resume for wanted in door.opened] == [None, "session-1"]
    assert door.opened[0].cwd == door.opened[1].cwd
    assert list(door.opened[0].cwd.iterdir()) == []
    await lead.idle()
    assert (await lead.lead.get("/tray"))["unread"] == 0


REPLY = "Forty-two, says the tool."


def replies(*, wait: bool = False) -> Act:
    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        yield "Let me see. "
        await uses("slack-reply", inbox_message_id=about(prompt, "inbox_message_id"), message=REPLY, wait=wait)
        yield f"I have answered: {REPLY}"

    return act


def announces(worker: str) -> Act:
    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        message_id = about(prompt, "inbox_message_id")
        await uses("inbox-delegate", inbox_message_id=message_id, agent=worker, task="count the letters")
        await uses("slack-reply", inbox_message_id=message_id, message=REPLY)
        yield f"I have announced it: {REPLY}"

    return act


async def dismisses(prompt: str, uses: Uses) -> AsyncIterator[str]:
    await uses("dismiss-message", inbox_message_id=about(prompt, "inbox_message_id"), reason="thanks")
    yield "No answer is needed."


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-04")
@pytest.mark.parametrize("how", ["replies", "asks", "announces", "dismisses"])
async def test_what_a_lead_answers_with_a_tool_is_not_said_twice(office: Office, how: str) -> None:
    lead = await lead_beside(office)
    acts = {"replies": replies(), "asks": replies(wait=True), "announces": announces(office.name)}
    door = Leading(lead, acts.get(how, dismisses))
    await lead.start("claude", door, role="lead")
    await office.online_once()
    ts = await office.twin.say(f"swarm#{lead.name} what is it?")
    if how != "dismisses":
        await office.says(ts, REPLY)
    await wait_until(told(door, 1), what="the lead has a turn")
    shown = await all_shown(lead, ts)
    assert shown.count(REPLY) == (how != "dismisses")
    assert not any(words in shown for words in ("I have", "No answer", "There is no answer"))


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-04")
@pytest.mark.parametrize("how", ["replies", "defers"])
async def test_what_a_lead_says_about_a_result_is_posted_once_and_a_mark_not_at_all(office: Office, how: str) -> None:
    lead, worker = await lead_beside(office), await office.online_once()

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if task_id := about(prompt, "task_id"):
            if how == "replies":
                await uses("slack-reply", task_id=task_id, message=REPLY)
            yield f"I have told them: {REPLY}" if how == "replies" else "Nothing to add. [DEFER]"
        else:
            async for text in delegates(office.name)(prompt, uses):
                yield text

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    await complete(worker, "Twelve.", reply="It is twelve.")
    await wait_until(told(door, 2), what="the lead knows of the result")
    shown = await all_shown(lead, ts)
    assert "It is twelve." in shown
    assert (shown.count(REPLY), "I have told" in shown, "Nothing to add" in shown) == (how == "replies", False, False)


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-04")
async def test_a_lead_that_fails_on_a_result_does_not_keep_it_from_people(office: Office) -> None:
    lead, worker = await lead_beside(office), await office.online_once()

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if about(prompt, "task_id"):
            yield "!the model is gone"
        else:
            async for text in delegates(office.name)(prompt, uses):
                yield text

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead", pause_seconds=0.1)
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    await complete(worker, "Twelve, says the result.")
    await office.says(ts, "Twelve, says the result.", within_seconds=60)
    assert door.turns == [("session-1", "slack_inbox_message"), *[("session-1", "task_finished")] * 5]


@pytest.mark.long
@pytest.mark.req("RUN-10")
async def test_a_lead_that_says_and_does_nothing_is_said_to_have_no_answer(office: Office) -> None:
    lead = await lead_beside(office)

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if not prompt:
            yield "never"

    await lead.start("claude", Leading(lead, act), role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} hello?")
    await office.says(ts, "the agent ended without an answer", "Retry")


@pytest.mark.long
@pytest.mark.req("RUN-10")
async def test_a_task_that_lost_its_worker_comes_to_its_lead_and_is_given_to_another(office: Office) -> None:
    lead, worker = await lead_beside(office), await office.online_once()

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if about(prompt, "trigger") == "task_returned":
            await uses("cancel-task", task_id=about(prompt, "task_id"), reason="its worker is gone")
            yield "Nobody can count today."
        else:
            async for text in delegates(office.name)(prompt, uses):
                yield text

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    await wait_until(told(door, 1), what="the lead has a turn")
    assert (await worker.poll(wait_seconds=20))[0]["kind"] == "task_assigned"
    await office.stage.visitor(office.http).ask("DELETE", f"/agents/{office.name}")
    await office.says(ts, "Ada counts.", "Nobody can count today.", within_seconds=60)
    assert door.turns[1] == ("session-1", "task_returned")


@pytest.mark.long
@pytest.mark.req("RUN-10")
async def test_a_task_that_a_person_has_stopped_is_no_turn_of_its_lead(office: Office) -> None:
    lead, worker = await lead_beside(office), await office.online_once()
    door = Leading(lead, delegates(office.name))
    await lead.start("claude", door, role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    assert (await worker.poll(wait_seconds=20))[0]["kind"] == "task_assigned"
    await lead.idle()
    await office.twin.say("!stop", thread=ts)
    await office.says(ts, "Stopped by")
    await office.twin.say(f"swarm#{lead.name} never mind", thread=ts)
    await wait_until(told(door, 2), what="the lead has the later message")
    assert [kind for _, kind in door.turns] == ["slack_inbox_message"] * 2


@pytest.mark.long
@pytest.mark.req("RUN-10", "SEC-08")
async def test_the_key_of_a_lead_reaches_its_thread_and_tasks_and_no_others(office: Office) -> None:
    lead, worker = await lead_beside(office), await office.online_once()
    found: dict[str, str] = {}
    _, task_id = await office.delegate("another thread's task")
    (other,) = await worker.poll(wait_seconds=20)

    async def tried(uses: Uses, tool: str, **arguments: Any) -> str:
        try:
            await uses(tool, **arguments)
        except AssertionError as error:
            return next((code for code in ("forbidden", "not_found", "conflict") if code in str(error)), str(error))
        return "ok"

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        kind = about(prompt, "trigger")
        if kind == "slack_inbox_message":
            made = await uses("create-task", title="a part", description="a part")
            found["own"] = await tried(uses, "get-task", task_id=made["id"])
            found["own cancelled"] = await tried(uses, "cancel-task", task_id=made["id"])
        for tool, arguments in {
            "get-task": {"task_id": task_id},
            "cancel-task": {"task_id": task_id},
            "create-task": {"title": "x", "description": "x", "parent_id": task_id},
            "slack-read-thread": {"thread_id": other["thread"]["id"]},
            "inbox-delegate": {
                "inbox_message_id": other["task"]["inbox_message_id"], "agent": office.name, "task": "steal it"
            },
        }.items():  # fmt: skip
            found[f"{kind} {tool}"] = await tried(uses, tool, **arguments)
        async for text in delegates(office.name)(prompt, uses):
            yield text

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead")
    await office.twin.say(f"swarm#{lead.name} please count")
    await complete(worker, "Twelve.")
    await wait_until(told(door, 2), what="the lead knows of the result")
    await lead.idle()
    allowed = {name for name, answer in found.items() if answer == "ok"}
    assert allowed == {"own", "own cancelled"}
    assert len(found) == 12
    await office.lead.uses("cancel-task", task_id=task_id, reason="its test is over")


async def complete(worker: Visitor, result: str, **more: str) -> None:
    """The worker, whom the test plays, completes the task that it gets next."""
    while True:
        for trigger in await worker.poll(wait_seconds=20, limit=1):
            if trigger["kind"] == "task_assigned" and trigger["task"]["status"] == "in_progress":
                token = trigger["lease"]["token"]
                await worker.uses("task-complete", token, task_id=trigger["task"]["id"], result=result, **more)
                return
            await worker.post("/leases/finish", {"tokens": [trigger["lease"]["token"]], "outcome": "done"})


def told(door: Leading, turns: int) -> Callable[[], Awaitable[bool]]:
    """Whether a lead has had so many turns."""

    async def look() -> bool:
        return len(door.turns) >= turns

    return look


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-02")
async def test_news_about_a_task_waits_while_as_many_turns_go_on_as_may(office: Office) -> None:
    lead, worker, go = await lead_beside(office), await office.online_once(), asyncio.Event()

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if "please wait" in prompt:
            yield "I wait."
            await go.wait()
        async for text in delegates(office.name)(prompt, uses):
            yield text

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead")
    await office.twin.say(f"swarm#{lead.name} please count")
    await wait_until(told(door, 1), what="the lead has a turn")
    await lead.idle()
    ts = await office.twin.say(f"swarm#{lead.name} please wait")
    await office.twin.until(ts, lambda seen: any("I wait." in text for text in seen.answers))
    await complete(worker, "Twelve.")

    async def waits() -> bool:
        return len(lead.runner.runs) == 2

    await wait_until(waits, what="the news have come")
    assert (door.at_once, len(door.turns)) == (1, 2)
    go.set()
    await wait_until(told(door, 3), what="the news have a turn")
    await lead.idle()
    assert (door.most_at_once, door.turns[2]) == (1, ("session-1", "task_finished"))


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-01")
async def test_stop_ends_a_leads_turn_and_the_next_message_goes_on_at_once_in_its_session(office: Office) -> None:
    lead = await lead_beside(office)

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if "go on" in prompt.partition("<thread_context")[0]:
            yield "I go on."
            return
        for number in range(1000):
            yield f"{number} "
            await asyncio.sleep(0.05)

    door = Leading(lead, act)
    await lead.start("claude", door, role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} talk for ever")
    await office.twin.until(ts, lambda seen: any("0 1" in text for text in seen.answers))
    await office.twin.say("!stop", thread=ts)
    await lead.idle()
    await office.twin.say("please go on", thread=ts)
    await office.says(ts, "I go on.")
    assert [session for session, _ in door.turns] == ["session-1"] * 2
