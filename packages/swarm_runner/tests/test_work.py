"""The kinds of work that a runner gets beside a lead's task in a thread."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest

from packages.swarm_runner.tests.conftest import Office, fake
from packages.swarm_runner.tests.scripted import ScriptedDoor, ScriptedSession, saying
from swarm.domain.model.agents import Role
from swarm_runner.port import CliEvent, TextAdded
from tests.support.waiting import wait_until


async def be_a_lead(office: Office) -> None:
    """From now on the runner of this office is a lead, which people can address."""
    office.name = office.name.replace("wim", "lio")
    added = await office.stage.visitor(office.http).post("/agents", {"name": office.name, "role": Role.LEAD.value})
    office.token = added["token"]


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_message_is_answered_and_a_follow_up_continues_its_session(office: Office) -> None:
    await be_a_lead(office)
    prompts: list[str] = []

    async def counts(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        prompts.append(prompt)
        yield TextAdded(text=f"Answer {len(prompts)}.")

    door = ScriptedDoor(counts)
    await office.start("claude", door)
    ts = await office.twin.say(f"swarm#{office.name} hello")
    await office.says(ts, "Answer 1.")
    await office.twin.say("and now?", thread=ts)
    await office.says(ts, "Answer 2.")
    assert "and now?" in prompts[1]
    assert [wanted.resume for wanted in door.opened] == [None, "session-1"]
    seen = await office.twin.until(ts, lambda seen: "white_check_mark" in seen.emoji)
    assert [sum(f"Answer {number}." in text for text in seen.answers) for number in (1, 2)] == [1, 1]


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_message_that_changes_meanwhile_is_a_turn_more_and_a_deleted_one_ends_the_run(office: Office) -> None:
    await be_a_lead(office)

    async def waits(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield TextAdded(text="Begun. ")
        if "edited" not in prompt:
            await wait_until(changed, what="the change is known", within_seconds=40)
        yield TextAdded(text=f"Blue: {'blue' in prompt}.")

    async def changed() -> bool:
        return any(run.pending for run in office.runner.runs)

    door = ScriptedDoor(waits)
    await office.start("claude", door, max_concurrent=2)
    ts = await office.twin.say(f"swarm#{office.name} paint it red")
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    edit = {"user": "alice", "channel": "general", "ts": ts, "text": f"swarm#{office.name} paint it blue"}
    await office.twin.ask("PATCH", "messages", json=edit)
    await office.says(ts, "Blue: True.", within_seconds=60)
    await office.idle()
    assert len(door.opened) == 1
    ts = await office.twin.say(f"swarm#{office.name} paint it red again")
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    await office.twin.ask("DELETE", "messages", json={"user": "alice", "channel": "general", "ts": ts})
    await office.idle()


@pytest.mark.req("RUN-01", "RUN-04")
async def test_a_task_without_a_thread_ends_with_its_text(office: Office) -> None:
    await office.start(fake("normal"))
    made = await office.lead.uses("create-task", title="count", description="count", agent=office.name)
    task = await office.ended(made["id"], "completed")
    assert "You said" in task["result"]


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_task_without_a_thread_that_fails_says_why(office: Office) -> None:
    await office.start(fake("fails"))
    made = await office.lead.uses("create-task", title="count", description="count", agent=office.name)
    task = await office.ended(made["id"], "failed")
    assert task["error"] == "the command ended with exit code 3"


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_an_offer_is_accepted_and_done(office: Office) -> None:
    await office.start(fake("normal"))
    ts, task_id = await office.delegate(offer=True)
    await office.ended(task_id, "completed")
    await office.says(ts, "You said")


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_message_of_another_agent_is_a_turn_of_its_own(office: Office) -> None:
    door = ScriptedDoor(saying("Noted."))
    await office.start("claude", door)
    await office.lead.uses("send-message", text="The tests are slow today.", to=office.name)

    async def look() -> int:
        return door.closed

    await wait_until(look, what="the turn is over")
    await office.idle()
    worker = office.stage.visitor(office.http, office.token)
    assert (await worker.get("/tray"))["unread"] == 0


@pytest.mark.long
@pytest.mark.req("SEC-08")
@pytest.mark.parametrize("sandbox", [False, True])
async def test_a_cli_has_the_key_of_its_lease_and_cannot_decide_with_it(office: Office, *, sandbox: bool) -> None:
    if sandbox and not shutil.which("bwrap"):
        pytest.skip("NOT TESTED HERE: bubblewrap is not installed")
    await office.start(fake("decides"), sandbox=sandbox)
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.says(ts, "Doors: [403, 403, 200, 403, 403, 403, 200].")
