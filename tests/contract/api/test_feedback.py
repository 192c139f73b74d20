"""How an operator reads what people think of answers: over HTTP, and with ``swarm feedback``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm.clock import to_iso
from swarm.domain.model.feedback import Reason
from swarm.domain.requests.button_actions import (
    FEEDBACK_ACTION,
    FEEDBACK_FORM,
    REASON_ACTION,
    ButtonPressed,
    Feedback,
    feedback_value,
)
from swarm.store.runs import remarks
from tests.support.doors import OPERATOR_TOKEN, Doors, Visitor
from tests.support.processes import Ended, Processes, processes_in
from tests.support.world import BOT

pytestmark = [pytest.mark.req("CHAN-05"), pytest.mark.xdist_group("processes")]

ESCAPES = "\x1b[31mred\x1b[0m and <b>43</b>"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


async def answered(doors: Doors, agent: Visitor, name: str) -> str:
    """The answer of an agent, whose buttons have this value."""
    await doors.world.says(f"swarm#{name} how many? {BOT}")
    trigger = await agent.only()
    message_id = trigger["inbox_messages"][0]["id"]
    token = trigger["lease"]["token"]
    sent = await agent.uses("slack-reply", lease=token, inbox_message_id=message_id, message="42")
    await doors.world.send()
    return str(sent["delivery_ids"][-1])


async def press(doors: Doors, action: str, value: str, *, key: str, by: str = "U1", text: str = "") -> None:
    about = {"channel": "C1", "message_ts": "9.000100", "thread_ts": None}
    await doors.world.buttons.press(
        ButtonPressed(key=key, action_id=action, value=value, user_id=by, text=text, **about)  # type: ignore[arg-type]
    )


async def rated(doors: Doors, lea: Visitor) -> str:
    """Two agents, three people: the first answer of two is called wrong, and commented on, the second good."""
    ada = await doors.lead("ada")
    first, second = await answered(doors, lea, "lea"), await answered(doors, ada, "ada")
    for person in ("U1", "U2"):
        down = feedback_value(Feedback(answer_id=first, is_good=False))
        await press(doors, FEEDBACK_ACTION, down, key=f"down {person}", by=person)
    await press(doors, REASON_ACTION + Reason.WRONG_ANSWER, first, key="wrong")
    await press(doors, FEEDBACK_FORM, first, key="form", by="U2", text=ESCAPES)
    doors.world.clock.advance(60)
    up = feedback_value(Feedback(answer_id=second, is_good=True))
    await press(doors, FEEDBACK_ACTION, up, key="up", by="U3")
    return first


async def test_opinions_are_counted_and_chosen_by_time_and_agent(doors: Doors, lea: Visitor) -> None:
    first = await rated(doors, lea)
    found = await doors.operator.get("/feedback")
    assert found["counts"] == [
        {"agent": "ada", "value": "up", "reason": None, "count": 1},
        {"agent": "lea", "value": "down", "reason": "other", "count": 1},
        {"agent": "lea", "value": "down", "reason": "wrong_answer", "count": 1},
    ]
    newest, *older = found["feedback"]
    assert (newest["agent"], newest["value"], newest["user_id"]) == ("ada", "up", "U3")
    (worded,) = [one for one in older if one["reason"] == "other"]
    assert (worded["answer_id"], worded["comment"], worded["channel"]) == (first, "[31mred[0m and <b>43</b>", "C1")
    since = await doors.operator.get(f"/feedback?since={newest['created_at']}")
    assert [one["id"] for one in since["feedback"]] == [newest["id"]]
    of_lea = await doors.operator.get("/feedback?agent=lea&limit=1")
    assert (len(of_lea["feedback"]), sum(row["count"] for row in of_lea["counts"])) == (1, 2)
    assert (await doors.operator.get("/feedback?agent=nobody")) == {"counts": [], "feedback": []}


async def remarked(doors: Doors) -> list[dict[str, Any]]:
    """Two remarks, a minute apart; as they are listed, the newest first."""
    stored: list[dict[str, Any]] = []
    for person, text in (("U1", "Slow."), ("U2", ESCAPES)):
        doors.world.clock.advance(60)
        remark = await doors.world.database.write(remarks.add, "C1", person, text)
        about = {"id": remark.id, "channel": "C1", "user_id": person, "text": text.replace("\x1b", "")}
        stored.insert(0, about | {"at": to_iso(remark.created_at)})
    return stored


@pytest.mark.req("CHAN-08")
async def test_remarks_are_listed_by_time_and_not_with_one_agents_opinions(doors: Doors) -> None:
    newest, oldest = await remarked(doors)
    assert await doors.operator.get("/feedback") == {"counts": [], "feedback": [], "remarks": [newest, oldest]}
    assert (await doors.operator.get("/feedback?limit=1"))["remarks"] == [newest]
    assert (await doors.operator.get(f"/feedback?since={newest['at']}"))["remarks"] == [newest]
    assert "remarks" not in await doors.operator.get("/feedback?agent=lea")


@pytest.mark.parametrize("query", ["since=yesterday", "limit=0", "until=now"])
async def test_nonsense_is_refused_with_the_name_of_the_field(doors: Doors, query: str) -> None:
    answer = await doors.operator.ask("GET", f"/feedback?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.text


async def test_only_the_operator_reads_it(doors: Doors, lea: Visitor) -> None:
    assert (await lea.ask("GET", "/feedback")).status_code == 403
    assert (await doors.visitor("nonsense").ask("GET", "/feedback")).status_code == 401


async def command(doors: Doors, processes: Processes, *arguments: str) -> Ended:
    env: dict[str, Any] = {"SWARM_URL": doors.base, "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN, "COLUMNS": "120"}
    return await processes.command("feedback", *arguments, env=env)


async def test_the_command_shows_counts_and_comments_without_what_a_terminal_would_obey(
    doors: Doors, lea: Visitor, processes: Processes
) -> None:
    await rated(doors, lea)
    newest, oldest = await remarked(doors)
    shown = await command(doors, processes)
    assert f"{oldest['at']}  remark by U1 in C1  Slow." in shown.out
    data = [json.loads(line) for line in (await command(doors, processes, "--json")).out.splitlines()]
    assert data[-2:] == [newest, oldest]
    assert (shown.code, shown.err) == (0, "")
    assert "\x1b[31m" not in shown.out
    assert "other: " in shown.out
    assert "<b>43</b>" in shown.out
    rows = [line for line in shown.out.splitlines() if "lea" in line and "wrong answer" in line]
    assert rows[0].rstrip(" │┃|").endswith("1")
    as_data = await command(doors, processes, "--json", "--agent", "ada")
    (one,) = [json.loads(line) for line in as_data.out.splitlines()]
    assert (one["agent"], one["value"]) == ("ada", "up")
    wrong = await command(doors, processes, "--since", "yesterday")
    assert wrong.code != 0
    assert "ISO 8601" in wrong.err
