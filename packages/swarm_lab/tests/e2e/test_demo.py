"""The demo as a newcomer sees it: each part a process, the real Bolt, polls and MCP tools, and a page to open."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from packages.swarm_lab.tests.e2e.demo import DEMO_LINES, FOLDERS, Demo
from swarm.slack.outgoing.pacing import METHOD_LIMITS
from swarm_lab.demo import home, run, settings_file
from swarm_lab.demo.agents.streamer import STEPS
from tests.support.processes import SWARM, Processes, free_port
from tests.support.twin_client import ANSWERED, STORED, Conversation, TwinClient
from tests.support.waiting import wait_until

END_SECONDS = 30
"""So long may its end take on a busy machine. It kills what has not ended after eight seconds."""

both_engines = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)


@pytest.mark.long
@both_engines
@pytest.mark.req("OPS-01", "OPS-03", "LOOP-01", "LOOP-08", "LOOP-10", "LOOP-14")
async def test_a_mention_is_answered_in_its_thread_and_a_follow_up_needs_no_mention(twin: TwinClient) -> None:
    ts = await twin.say("@swarm hello")
    seen = await twin.until(ts, Conversation.is_answered)
    assert seen.reactions == ((STORED, ("swarm",)), (ANSWERED, ("swarm",)))
    (answer,) = seen.answers
    assert answer.startswith("Hello Alice!")
    assert "rule-driven" in answer

    follow_up = await twin.say("and what else?", thread=ts)
    seen = await twin.until(ts, lambda seen: len(seen.answers) == 2)
    assert seen.answers[1].startswith("You said: and what else?. The thread has 3 messages now")
    await twin.until(follow_up, lambda seen: set(seen.emoji) == {STORED, ANSWERED})


@pytest.mark.long
@pytest.mark.req("SEC-06")
async def test_the_demos_home_is_for_nobody_elses_eyes(demo: Demo) -> None:
    home = demo.processes.folder / ".demo"
    kept = [home, *home.rglob("*")]
    assert home / "swarm.db" in kept
    assert [str(path) for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


@both_engines
@pytest.mark.req("OPS-01", "LOOP-09", "LOOP-10", "LOOP-16")
async def test_work_goes_to_a_worker_which_hears_follow_ups_and_gives_the_thread_back(twin: TwinClient) -> None:
    ts = await twin.say("@swarm how many lines of Python are in this repository?")
    await twin.until(ts, lambda seen: any("⏳" in answer for answer in seen.answers))
    aside = await twin.say("how far are you?", thread=ts)
    await twin.until(aside, lambda seen: set(seen.emoji) == {STORED, ANSWERED})

    def is_counted(seen: Conversation) -> bool:  # the reaction is a delivery of its own, and may be the first in Slack
        return seen.is_answered() and any("lines of Python" in answer for answer in seen.answers)

    seen = await twin.until(ts, is_counted, within_seconds=60)
    assert any(answer.startswith("I am still working") for answer in seen.answers)
    (result,) = [answer for answer in seen.answers if "lines of Python" in answer]
    assert result.startswith(f"**{DEMO_LINES} lines of Python**")
    await twin.until(ts, lambda seen: "✅ **Count the lines of code**: done" in seen.answers)

    await twin.say("thank you", thread=ts)  # the thread is the lead's again
    await twin.until(ts, lambda seen: any(answer.startswith("You said: thank you") for answer in seen.answers))


@pytest.mark.long
@pytest.mark.req("OPS-01", "LOOP-16")
async def test_stop_in_the_thread_and_the_button_under_the_progress_cancel_a_task(twin: TwinClient) -> None:
    for how in ("word", "button"):
        ts = await twin.say("@swarm find ingest")
        await twin.until(ts, lambda seen: any("⏳" in answer for answer in seen.answers))
        if how == "word":
            await twin.say("stop", thread=ts)
        else:
            await twin.press(ts, "⏳", "swarm_stop_task")
        await twin.until(ts, lambda seen: any("was cancelled" in answer for answer in seen.answers))
        seen = await twin.until(ts, lambda seen: any(answer.startswith("🛑") for answer in seen.answers))
        assert not any("I stop" in answer for answer in seen.answers)  # the end of the task says it


@pytest.mark.long
@pytest.mark.req("OPS-01", "STREAM-01", "STREAM-03", "STREAM-12")
async def test_the_writer_streams_what_it_has_counted_and_hears_a_follow_up(twin: TwinClient) -> None:
    since = await twin.now()
    ts = await twin.say("swarm#writer tell me about this repository")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=60)
    (answer,) = seen.answers
    assert f"| `.py` | {FOLDERS + 1} | {DEMO_LINES} |" in answer  # an empty one beside those that count
    (opened,) = await twin.calls("chat.startStream", since=since)
    assert opened["args"]["task_display_mode"] == "plan"
    appended = await twin.calls("chat.appendStream", since=since)
    assert len(appended) > 5
    shown = str([call["args"] for call in (opened, *appended)])
    assert all(step in shown for step in (*STEPS, "list_files", "count_lines"))

    await twin.say("and you are?", thread=ts)
    seen = await twin.until(ts, lambda seen: len(seen.answers) == 2)
    await twin.until(ts, lambda seen: "I am **writer**" in seen.answers[-1] and "mention me" in seen.answers[-1])


@pytest.mark.long
@pytest.mark.req("OPS-01", "STREAM-02", "STREAM-06")
async def test_a_long_report_goes_on_in_another_message(twin: TwinClient) -> None:
    ts = await twin.say("swarm#writer write a long report")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=60)
    assert len(seen.answers) > 1
    assert len("".join(seen.answers)) > 12_000


@pytest.mark.long
@pytest.mark.req("OPS-01", "STREAM-07", "CHAN-06", "LOOP-14")
async def test_a_run_that_fails_has_a_button_with_which_it_goes_well(twin: TwinClient) -> None:
    ts = await twin.say("swarm#writer fail")
    await twin.until(ts, lambda seen: "x" in seen.emoji)
    await twin.press(ts, "I am beginning to answer", "swarm_retry_turn")
    await twin.until(ts, lambda seen: any("This time it worked." in answer for answer in seen.answers))
    await twin.until(ts, lambda seen: set(seen.emoji) <= {STORED, ANSWERED} and ANSWERED in seen.emoji)
    assert "swarm_retry_turn" not in str(await twin.messages(thread_ts=ts))


@pytest.mark.long
@pytest.mark.req("OPS-01", "STREAM-03", "HITL-01", "HITL-02", "HITL-05")
async def test_the_writers_question_is_a_form_with_every_type_of_field(twin: TwinClient) -> None:
    ts = await twin.say("swarm#writer ask me something")
    under = await _card(twin, ts, "Which part of the repository")
    place = {"user": "alice", "channel": "general", "ts": under, "action_id": "request_form"}
    view = (await twin.ask("POST", "actions", json=place))["view"]
    inputs = {block["block_id"]: block["element"]["type"] for block in view["blocks"] if block["type"] == "input"}
    assert len(inputs) == 9
    assert len(set(inputs.values())) == 7
    filled = {
        "field:part": {"value": "tests"},
        "field:topics": {"value": ["size", "age"]},
        "field:share": {"value": "101"},
    }
    sent = {"user": "alice", "view_id": view["id"], "submit": True}
    refused = await twin.ask("POST", "actions", json=sent | {"state": filled})
    assert "field:share" in refused["errors"]
    filled["field:share"] = {"value": "12.5"}
    assert (await twin.ask("POST", "actions", json=sent | {"state": filled}))["ok"]
    seen = await twin.until(ts, Conversation.is_answered)
    assert "So it is “tests”" in seen.answers[-1]
    assert "Topics: size, age" in seen.answers[-1]
    assert "percent: 12.5" in seen.answers[-1]


@pytest.mark.req("OPS-01", "HITL-03", "HITL-04", "TOOL-03")
async def test_the_assistant_asks_before_it_writes_and_bob_may_not_decide(twin: TwinClient) -> None:
    ts = await twin.say("swarm#assistant write down: buy milk")
    under = await _card(twin, ts, "wants to write ")
    pressed = {"channel": "general", "ts": under, "action_id": "request_decide:approve"}
    since = await twin.now()
    await twin.ask("POST", "actions", json=pressed | {"user": "bob"})
    (whisper,) = await wait_until(lambda: twin.calls("chat.postEphemeral", since=since), what="bob is told")
    assert "can decide this." in whisper["args"]["text"]
    await twin.ask("POST", "actions", json=pressed | {"user": "alice"})
    seen = await twin.until(
        ts, lambda seen: any("This is what became of it" in one for one in seen.answers) and not seen.is_growing
    )
    assert "Appended 11 bytes" in seen.answers[-1]
    await twin.until(ts, lambda seen: any("Approved by" in answer for answer in seen.answers))


@pytest.mark.req("OPS-01", "AGENT-01", "AGENT-04")
async def test_the_built_in_agents_calculate_and_look_things_up_with_rules_in_place_of_a_model(
    twin: TwinClient,
) -> None:
    await _until_streams_may_begin(twin, 2)
    since = await twin.now()
    ts = await twin.say("swarm#tools what is 6 times 7?")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=60)
    assert seen.answers == ("6 times 7 is **42**.",)
    ts = await twin.say("swarm#assistant what is agntcy")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=60)
    assert "`agntcy.md`" in seen.answers[-1]
    shown = str([call["args"] for call in await twin.calls(since=since) if "Stream" in call["method"]])
    assert all(card in shown for card in ("multiply", "search", "fetch_document"))
    await twin.say("what are you?", thread=ts)
    await twin.until(ts, lambda seen: "not a language model" in seen.answers[-1])


async def _until_streams_may_begin(twin: TwinClient, count: int) -> None:
    """Until Slack's limit has room for them, whatever other tests have begun: an answer that is complete waits two
    seconds for its stream, and is posted then, without cards.
    """
    seconds = count / METHOD_LIMITS["chat.startStream"].per_second

    async def last() -> float:
        return max((float(call["at"]) for call in await twin.calls("chat.startStream")), default=0.0)

    await wait_until(last, lambda at: time.time() - at > seconds, what="the limit of streams has room")


@pytest.mark.long
@both_engines
@pytest.mark.req("OPS-01", "RUN-01", "RUN-02", "RUN-04", "RUN-05")
async def test_the_coder_fixes_a_failing_test_with_a_permission_and_goes_on_in_its_session(
    demo: Demo, twin: TwinClient
) -> None:
    shop = demo.processes.folder / ".demo" / "coder" / "shop"
    for _ in range(2):  # a second thread begins with the same mistake
        since = await twin.now()
        ts = await twin.say("@swarm fix the failing test")
        under = await _card(twin, ts, "coder wants to edit prices.py (+1 −1)")
        assert await _is_said_before(twin, since, "AssertionError: 2000 != 1800", "wants to edit prices.py")
        assert await twin.calls("files.completeUploadExternal", since=since) == []
        (card,) = [call for call in await twin.calls("chat.postMessage", since=since) if "wants to edit" in str(call)]
        assert "\\n-    if pieces > DISCOUNT_FROM:\\n+    if pieces >= DISCOUNT_FROM:" in _shown(card)
        await _decide(twin, under, "approve")
        seen = await twin.until(ts, lambda seen: seen.is_answered() and "Branch" in str(seen.answers))
        assert seen.answers[0] == "I have delegated this to **coder**."
        fixed = next(answer for answer in seen.answers if "**Fixed.** All 2 tests pass." in answer)
        card_at = next(at for at, answer in enumerate(seen.answers) if "wants to edit prices.py" in answer)
        assert card_at < seen.answers.index(fixed)  # what comes after the decision is read below it
        branch = _branch(fixed)
        assert f"Branch `{branch}`: 1 file changed, 1 insertion(+), 1 deletion(-)." in fixed
        (upload,) = await twin.calls("files.completeUploadExternal", since=since)
        assert f"{branch.removeprefix('swarm/')}.diff" in _shown(upload)
        streamed = _shown(*[call for call in await twin.calls(since=since) if "chat." in call["method"]])
        assert all(step in streamed for step in ("Run the tests", "Find the mistake", "Edit prices.py"))
        assert _tests_pass(shop, branch)
        assert not _tests_pass(shop, "main")

    since = await twin.now()
    await twin.say("also add a test for zero", thread=ts)
    under = await _card(twin, ts, "wants to edit test_prices.py")
    assert await _is_said_before(twin, since, "In this session, I have corrected", "wants to edit test_prices.py")
    await _decide(twin, under, "approve")
    seen = await twin.until(ts, lambda seen: "2 files changed" in str(seen.answers))
    assert "In this session, I have corrected `prices.py`." in str(seen.answers)  # the session knows
    assert _branch(next(answer for answer in seen.answers if "2 files changed" in answer)) == branch
    assert _tests_pass(shop, branch, count=3)


async def _is_said_before(twin: TwinClient, since: int, *words: str) -> bool:
    """Whether the first calls with these words were made in this order."""
    shown = [_shown(call) for call in await twin.calls(since=since)]
    places = [next(place for place, call in enumerate(shown) if one in call) for one in words]
    return places == sorted(places)


@pytest.mark.long
@pytest.mark.req("OPS-01", "RUN-05")
async def test_the_coder_says_that_nothing_is_fixed_without_the_permission(demo: Demo, twin: TwinClient) -> None:
    since = await twin.now()
    ts = await twin.say("@swarm fix the failing test")
    await _decide(twin, await _card(twin, ts, "wants to edit"), "reject")
    said = "**Not fixed**: I may not edit `prices.py`, so the test still fails."
    await twin.until(ts, lambda seen: "x" in seen.emoji and not seen.is_growing and said in str(seen.answers))
    assert "people refused what it needed (edit)" in str(await twin.messages(thread_ts=ts))
    assert await twin.calls("files.completeUploadExternal", since=since) == []


@pytest.mark.long
@pytest.mark.req("OPS-01")
async def test_without_git_the_demo_says_that_there_is_no_coder(processes: Processes, http: httpx2.AsyncClient) -> None:
    ports = _free_ports()
    process = processes.start("demo", SWARM, "demo", env=ports | {"PATH": str(processes.folder)})
    await process.says("^There is no coder in this demo: git is not installed.$")
    assert "@swarm fix" not in process.output
    assert "fix the failing test" not in (processes.folder / ".demo" / "swarm.yaml").read_text()
    twin = TwinClient(f"http://127.0.0.1:{ports['TWIN_PORT']}", http)
    ts = await twin.say("@swarm fix the failing test")
    seen = await twin.until(ts, Conversation.is_answered)
    assert seen.answers[0].startswith("I cannot delegate that:")


def _tests_pass(shop: Path, branch: str, count: int = 2) -> bool:
    """Whether the tests of a branch of the shop pass; there must be so many."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["git", "clone", "--quiet", "--branch", branch, shop, name], check=True)
        ran = subprocess.run([sys.executable, "-m", "unittest"], cwd=name, capture_output=True, text=True, check=False)
    assert f"Ran {count} tests" in ran.stderr
    return ran.returncode == 0


def _branch(answer: str) -> str:
    found = re.search(r"Branch `(\S+)`", answer)
    assert found, answer
    return found[1]


def _shown(*calls: dict[str, Any]) -> str:
    """What calls of the Web API send, with the quotes of texts in JSON as they are."""
    return json.dumps([call["args"] for call in calls], ensure_ascii=False).replace('\\\\"', '"').replace('\\"', '"')


async def _decide(twin: TwinClient, under: str, decision: str) -> None:
    pressed = {"user": "alice", "channel": "general", "ts": under, "action_id": f"request_decide:{decision}"}
    assert (await twin.ask("POST", "actions", json=pressed))["ok"]


@pytest.mark.long
@pytest.mark.req("OPS-01", "SEC-02", "TOOL-01")
async def test_the_assistants_git_works_in_a_repository_of_the_demos_own(twin: TwinClient) -> None:
    ts = await twin.say("swarm#assistant git status")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=60)
    assert "On branch " in seen.answers[-1]


@pytest.mark.long
@pytest.mark.req("LOOP-11")
async def test_a_direct_message_is_answered(twin: TwinClient) -> None:
    ts = await twin.say("hello", channel="@swarm", user="bob")
    seen = await twin.until(ts, Conversation.is_answered, channel="@swarm", user="bob")
    assert seen.answers[0].startswith("Hello Bob!")


@pytest.mark.long
@pytest.mark.req("LOOP-11")
async def test_what_concerns_somebody_else_is_left_alone(twin: TwinClient) -> None:
    aside = await twin.say("@bob have you seen this?")
    ts = await twin.say("@swarm what time is it?")  # whoever comes later must have passed the one before
    await twin.until(ts, Conversation.is_answered)
    seen = await twin.conversation(aside)
    assert (seen.answers, seen.reactions) == ((), ())


@pytest.mark.long
@pytest.mark.req("LOOP-02", "LOOP-08")
async def test_a_message_of_20_000_characters_comes_back_whole(twin: TwinClient) -> None:
    lines = [f"line {n}: if a < b && b > c, then «ä» & so on" for n in range(450)]
    text = "\n".join(lines)
    assert len(text) > 20_000
    ts = await twin.say(f"@swarm repeat after me: {text}")
    seen = await twin.until(ts, Conversation.is_answered, within_seconds=30)
    assert len(seen.answers) > 1  # Slack would cut it
    assert "\n".join(seen.answers).split("\n") == lines


@pytest.mark.req("OPS-01")
async def test_a_second_demo_in_the_same_home_is_refused_and_harms_nothing(demo: Demo, twin: TwinClient) -> None:
    ended = await demo.processes.command("demo", env=_free_ports())
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert f"A demo runs in {demo.processes.folder / '.demo'} already" in line
    assert "SWARM_HOME" in line
    ts = await twin.say("@swarm hello")
    await twin.until(ts, Conversation.is_answered)


@pytest.mark.long
@pytest.mark.req("OPS-01")
async def test_it_ends_with_1_when_a_part_dies_and_shows_what_that_said_last(demo: Demo) -> None:
    coordinator = demo.processes.find("up")
    demo.processes.send(coordinator, signal.SIGKILL)
    assert await demo.process.exit_code(END_SECONDS) == 1
    said = demo.process.output
    assert "coordinator ended with exit code -9. Its last lines:\n" in said
    assert demo.logs_of("coordinator").splitlines()[-1] in said  # the first ones are not shown after a long life
    assert "Traceback" not in said
    assert demo.processes.alive() == []


@pytest.mark.req("OPS-01", "OPS-12")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_it_ends_with_0_when_told_to_and_leaves_nobody_behind(demo: Demo, number: signal.Signals) -> None:
    async def parts() -> tuple[int, int]:
        return len(demo.processes.alive()), len(demo.calculators())

    # itself, twin, coordinator, lead, two workers, the coder's runner, writer, model
    await wait_until(parts, lambda seen: seen == (9, 1))
    assert (demo.processes.folder / ".demo" / "coder" / "shop" / ".git").is_dir()
    assert f"(acp:{sys.executable}" in demo.logs_of("coder")
    settings = yaml.safe_load((demo.processes.folder / ".demo" / "swarm.yaml").read_text())
    work_tree = Path(settings["tools"]["work_tree"])
    assert work_tree.is_dir()
    assert settings["channel_defaults"]["suggested_prompts"][0]["message"] == "fix the failing test"
    demo.process.send(number)
    assert await demo.process.exit_code(END_SECONDS) == 0
    assert not work_tree.exists()
    assert (demo.processes.alive(), demo.calculators()) == ([], [])
    assert "Traceback" not in demo.process.output + demo.logs_of("coordinator") + demo.logs_of("lead")


@pytest.mark.long
@pytest.mark.req("OPS-01", "OPS-12")
async def test_told_to_end_while_a_part_is_coming_up_it_leaves_nobody_behind(processes: Processes) -> None:
    process = processes.start("demo", SWARM, "demo", env=_free_ports())
    await process.says("starting the coordinator")
    process.send(signal.SIGINT)
    assert await process.exit_code(END_SECONDS) == 0
    assert processes.alive() == []
    assert "Traceback" not in process.output


@pytest.mark.long
@pytest.mark.req("OPS-01")
async def test_it_needs_no_proxy_takes_the_operator_token_it_is_given_and_leaves_a_configured_database_alone(
    processes: Processes,
) -> None:
    (processes.folder / ".env").write_text("SWARM_DATABASE_URL=sqlite:///configured.db\n")
    proxy = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), f"http://127.0.0.1:{free_port()}")
    process = processes.start(
        "demo", SWARM, "demo", env=_free_ports() | proxy | {"SWARM_OPERATOR_TOKEN": "given-by-the-test"}
    )
    await process.says("^Open ")
    assert (processes.folder / ".demo" / "swarm.db").exists()
    assert not (processes.folder / "configured.db").exists()


@pytest.mark.long
@pytest.mark.req("OPS-01")
async def test_an_operator_token_that_only_a_file_names_is_said_in_one_line(processes: Processes) -> None:
    (processes.folder / ".env").write_text("SWARM_OPERATOR_TOKEN=of-the-file-alone\n")
    ended = await processes.command("demo", env=_free_ports())
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert "SWARM_OPERATOR_TOKEN" in line
    assert str(processes.folder / ".demo" / "operator.token") in line
    await wait_until(lambda: _nobody(processes))


@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("taken", ["PORT", "TWIN_PORT"])
async def test_a_port_in_use_is_said_in_one_line(processes: Processes, taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = await processes.command("demo", env=_free_ports() | {taken: str(port)})
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert f"Port {port} is in use" in line
    assert taken in line
    await wait_until(lambda: _nobody(processes))


@pytest.mark.req("OPS-01")
async def test_a_port_that_is_none_is_said_in_one_line(processes: Processes) -> None:
    ended = await processes.command("demo", env={"PORT": "http"})
    assert ended.code != 0
    assert ended.err == "PORT is 'http'; a port from 1 to 65535 is expected\n"


@pytest.mark.req("OPS-01")
async def test_a_home_that_cannot_be_made_is_said_in_one_line(processes: Processes) -> None:
    ended = await processes.command("demo", env={"SWARM_HOME": "/proc/none"})
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert "/proc/none of the demo cannot be used" in line
    assert "SWARM_HOME" in line


@pytest.mark.req("OPS-01")
def test_a_demo_begins_anew_but_only_where_a_demo_was_before(tmp_path: Path) -> None:
    database = tmp_path / home.DATABASE
    database.write_text("somebody's")
    work = tmp_path / home.CODER_HOME / "shop"
    work.mkdir(parents=True)
    with home.held(tmp_path, begins_anew=True):
        assert database.exists()
        assert work.exists()
    with home.held(tmp_path, begins_anew=False):
        assert database.exists()
        assert work.exists()
    with home.held(tmp_path, begins_anew=True):
        assert not database.exists()
        assert not work.exists()


@pytest.mark.long
@pytest.mark.req("OPS-01")
async def test_after_a_restart_the_database_knows_the_threads_of_the_new_workspace_only(
    demo: Demo, twin: TwinClient
) -> None:
    ts = await twin.say("@swarm how many lines of Python are in this repository?")
    await twin.until(ts, lambda seen: any("⏳" in answer for answer in seen.answers))
    demo.process.send(signal.SIGINT)  # with a task under way
    assert await demo.process.exit_code(END_SECONDS) == 0
    await demo.open()
    ts = await twin.say("@swarm hello")
    await twin.until(ts, Conversation.is_answered)
    assert "thread_not_found" not in demo.logs_of("coordinator")


@pytest.mark.req("OPS-01")
async def test_a_demo_whose_agents_cannot_call_tools_is_not_ready(tmp_path: Path) -> None:
    nowhere = settings_file.plan({"PORT": str(free_port()), "SWARM_HOME": str(tmp_path)})
    with pytest.raises(run.NotReady, match="cannot use their MCP tools"):
        await run._try_tools(nowhere, "token")


async def _card(twin: TwinClient, ts: str, text: str) -> str:
    """The timestamp of a question's card, once it is there."""
    await twin.until(ts, lambda seen: any(text in answer for answer in seen.answers), within_seconds=60)
    (card,) = [one["ts"] for one in await twin.messages(thread_ts=ts) if text in one["text"] and "✋" in one["text"]]
    return str(card)


def _free_ports() -> dict[str, str]:
    return {"PORT": str(free_port()), "TWIN_PORT": str(free_port())}


async def _nobody(processes: Processes) -> bool:
    return not processes.alive()
