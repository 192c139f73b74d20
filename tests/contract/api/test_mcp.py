"""The MCP tools through a real client, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import pkgutil
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import mcp_types as types
import pytest
from mcp_types import CallToolResult

import tools
from swarm.entrypoints.mcp.mcp_server import McpEntryPoint, run_tool
from swarm.entrypoints.web.identity import Identities
from tests.support.doors import Doors, Mode, Visitor, error_of, structured
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, delete, said
from tools.tool import Arguments, CallContext, McpTool, discover

OF_LEADS = {"inbox-delegate"}
OF_WORKERS = {"accept-task", "decline-task", "task-complete", "task-fail", "task-progress"}

both_generations = pytest.mark.parametrize("mode", ["auto", "legacy"])


@both_generations
@pytest.mark.req("LOOP-07", "LOOP-08")
async def test_the_whole_conversation_passes_through_the_tools(doors: Doors, lea: Visitor, mode: Mode) -> None:
    root = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    inbox_message_id, token = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
    async with lea.mcp(mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(discover()) - OF_WORKERS
        read = structured(await client.call_tool("read-inbox-message", {"inbox_message_id": inbox_message_id}))
        assert read["text"].endswith("hello")
        said: dict[str, Any] = {"inbox_message_id": inbox_message_id, "message": "hi there", "lease_token": token}
        replied = structured(await client.call_tool("slack-reply", said))
    assert replied["status"] == "responded"
    assert len(replied["delivery_ids"]) == 1
    await doors.world.send()
    assert doors.world.slack.posts == ["hi there"]
    assert (root.ts, "white_check_mark") in doors.world.slack.reactions
    assert await lea.poll() == []


@pytest.mark.req("LOOP-07")
async def test_a_whole_inbox_message_has_its_thread_its_reason_and_our_last_answer(doors: Doors, lea: Visitor) -> None:
    root = await doors.world.says(f"{BOT} hello")
    first = await lea.only()
    inbox_message_id, token = first["inbox_messages"][0]["id"], first["lease"]["token"]
    await lea.uses("slack-reply", inbox_message_id=inbox_message_id, message="hi there", lease_token=token)
    await doors.world.send()
    await doors.world.says("and now?", thread=root, by="U2")
    second = await lea.only()
    whole = await lea.uses("read-inbox-message", inbox_message_id=second["inbox_messages"][0]["id"])
    assert whole["user"] == {"id": "U2", "name": "bob"}
    assert whole["thread"]["channel_name"] == "#general"
    assert [message["text"] for message in whole["thread_context"]][-2:] == ["hi there", "and now?"]
    assert whole["previous_reply"] == "hi there"
    assert whole["matched_by"] == "thread_owner"
    assert whole["routing_reason"]
    assert whole["status"] == "claimed"
    assert whole["task"] is None


@pytest.mark.req("LOOP-02", "LOOP-05")
async def test_what_the_prompt_leaves_out_of_a_long_thread_is_read_page_by_page(doors: Doors, lea: Visitor) -> None:
    root = said("the first of many")
    many = [said(f"remark {number}: " + "word " * 100, thread_ts=root.ts) for number in range(600)]
    asked = said(f"{BOT} well?", thread_ts=root.ts)
    doors.world.slack.threads["C1", root.ts] = [root, *many, asked]
    await doors.world.hears(asked)
    await doors.world.backfill.read_due()
    trigger = await lea.only()
    assert len(trigger["thread_context"]) == 602
    assert len(trigger["prompt"]) < 110_000
    sentence = re.search(r"([0-9]+) messages are left out here.*\((\w+), after_ts=([0-9.]+)\)", trigger["prompt"])
    assert sentence
    count, about, after_ts = sentence.groups()
    read: list[str] = []
    while len(read) < int(count):
        where = {about: trigger["inbox_messages"][0]["id"], "after_ts": after_ts, "limit": 200}
        page = await lea.uses("slack-read-thread", **where)
        read += [message["text"] for message in page["messages"]]
        after_ts = page["next_after_ts"]
    left_out, shown = read[: int(count)], [message.text for message in many[int(count) :]]
    assert left_out == [message.text for message in many[: int(count)]]
    assert not any(text in trigger["prompt"] for text in left_out)
    assert all(text in trigger["prompt"] for text in ["the first of many", *shown])


@pytest.mark.req("LOOP-07")
async def test_reading_needs_no_lease(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    inbox_message = await doors.world.inbox_message(message)
    assert (await lea.uses("read-inbox-message", inbox_message_id=inbox_message.id))["status"] == "unread"


@pytest.mark.req("LOOP-08")
async def test_the_same_reply_again_returns_the_first_result_and_posts_nothing(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    results = await asyncio.gather(*(lea.uses("slack-reply", message="hi", **said) for _ in range(3)))
    assert results[0] == results[1] == results[2]
    await lea.uses("slack-reply", message="and more", **said)
    await doors.world.send()
    await doors.world.send()
    assert sorted(doors.world.slack.posts) == ["and more", "hi"]


@pytest.mark.req("LOOP-08")
async def test_a_request_id_makes_a_call_happen_once_whatever_it_says(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    first = await lea.uses("slack-reply", message="hi", request_id="r1", **said)
    assert await lea.uses("slack-reply", message="hi again", request_id="r1", **said) == first


@pytest.mark.req("LOOP-06")
async def test_a_run_that_comes_back_late_cannot_act_under_its_successors_lease(doors: Doors, lea: Visitor) -> None:
    """Two runs of one agent: the first fell silent, the second has the work now."""
    message = await doors.world.says(f"{BOT} hello")
    first = await lea.only()
    await doors.world.later(61)
    second = await lea.only()
    inbox_message_id = first["inbox_messages"][0]["id"]
    before = await doors.everything()
    for lease in (first["lease"]["token"], None):  # with its own stale lease, and without naming any
        for tool, words in {"slack-reply": {"message": "too late"}, "dismiss-message": {"reason": "too late"}}.items():
            by_argument = {"lease_token": lease} if lease else {}
            assert error_of(await lea.tool(tool, inbox_message_id=inbox_message_id, **words, **by_argument))[
                "code"
            ] == ("lease_lost")
            assert (
                error_of(await lea.tool(tool, lease, inbox_message_id=inbox_message_id, **words))["code"]
                == "lease_lost"
            )
    assert await doors.everything() == before
    await lea.uses("slack-reply", second["lease"]["token"], inbox_message_id=inbox_message_id, message="in time")
    assert (await doors.world.inbox_message(message)).status == "responded"


@pytest.mark.req("LOOP-06")
async def test_the_argument_goes_before_the_header(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "message": "hi"}
    result = await lea.tool("slack-reply", trigger["lease"]["token"], lease_token="stale", **said)
    assert error_of(result)["code"] == "lease_lost"
    await lea.uses("slack-reply", "stale", lease_token=trigger["lease"]["token"], **said)


@pytest.mark.req("LOOP-06")
async def test_the_first_run_ever_may_leave_its_lease_unnamed(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    inbox_message_id = trigger["inbox_messages"][0]["id"]
    assert (await lea.uses("slack-reply", inbox_message_id=inbox_message_id, message="hi"))["status"] == "responded"


@pytest.mark.req("LOOP-15")
async def test_an_answer_to_a_deleted_message_is_refused_and_says_so(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    await doors.world.ingest.handle(delete(message))
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    error = error_of(await lea.tool("slack-reply", message="hi", **said))
    assert error["code"] == "withdrawn"
    assert "deleted" in error["message"]


async def test_only_answers_one_message_of_a_bundle(doors: Doors, lea: Visitor) -> None:
    root = await doors.world.says(f"{BOT} hello")
    second = await doors.world.says("and more", thread=root)
    trigger = await lea.only()
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    await lea.uses("slack-reply", message="hi", only=True, **said)
    assert (await doors.world.inbox_message(root)).status == "responded"
    assert (await doors.world.inbox_message(second)).status == "claimed"


async def test_a_dismissed_message_shows_a_tick_and_says_nothing(doors: Doors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} thanks")
    trigger = await lea.only()
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    assert await lea.uses("dismiss-message", reason="only thanks", **said) == {"status": "dismissed"}
    await doors.world.send()
    assert doors.world.slack.posts == []
    assert (message.ts, "white_check_mark") in doors.world.slack.reactions


async def test_the_tray_is_the_same_as_tool_and_over_http_and_previews_the_new_message(
    doors: Doors, lea: Visitor
) -> None:
    root = await doors.world.says(f"{BOT} an old question")
    await doors.world.says("the new message", thread=root, by="U2")
    tray = await lea.uses("tray")
    assert tray == await lea.get("/tray")
    assert (tray["unread"], tray["threads_owned"]) == (2, 1)
    assert tray["previews"][1] == tray["previews"][1] | {
        "from": "bob", "channel": "#general", "preview": "the new message",
    }  # fmt: skip


async def test_list_agents_shows_who_is_there(doors: Doors, lea: Visitor) -> None:
    await doors.world.worker("wim", online=False)
    team = (await lea.uses("list-agents"))["agents"]
    assert [(agent["name"], agent["role"], agent["status"]) for agent in team] == [
        ("lea", "lead", "online"),
        ("wim", "worker", "offline"),
    ]


@both_generations
async def test_each_role_is_shown_the_tools_that_it_has_a_use_for(doors: Doors, lea: Visitor, mode: Mode) -> None:
    """What is not listed is refused as it is where it is listed: by the rules of the use case."""
    for visitor, others in ((lea, OF_WORKERS), (await doors.worker(), OF_LEADS)):
        async with visitor.mcp(mode) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert set(listed) == set(discover()) - others
            assert structured(await client.call_tool("list-tasks", {"status": None})) == {"tasks": []}
            refused = error_of(await client.call_tool("no-such-tool", {}))
            assert refused["hint"] == f"The tools are: {', '.join(listed)}."
    for caller, tool, given in (
        (lea, "task-complete", {"task_id": "unknown", "result": "x"}),
        (await doors.worker("wanda"), "inbox-delegate", {"inbox_message_id": "unknown", "agent": "wim", "task": "x"}),
    ):
        assert error_of(await caller.tool(tool, **given))["code"] == "not_found"


async def test_what_models_read_of_the_tools_stays_short(doors: Doors, lea: Visitor) -> None:
    """Every run of an agent pays for it: 24,200 characters are about 5,450 tokens (diffs of a call cost 500)."""
    for visitor in (lea, await doors.worker()):
        async with visitor.mcp() as client:
            tools = (await client.list_tools()).tools
        shown = [{"name": one.name, "description": one.description, "parameters": one.input_schema} for one in tools]
        assert len(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) < 24_200
        whole = [one.model_dump(by_alias=True, exclude_none=True) for one in tools]
        assert len(json.dumps(whole, ensure_ascii=False, separators=(",", ":"))) < 52_000


def test_every_module_of_the_folder_but_the_frame_is_one_tool() -> None:
    modules = {module.name for module in pkgutil.iter_modules(tools.__path__)} - {"tool"}
    assert {name.replace("-", "_") for name in discover()} == modules


def test_every_tool_and_every_argument_explains_itself() -> None:
    for tool in discover().values():
        assert len(tool.description) > 60, tool.name
        for name, field in tool.arguments.model_fields.items():
            assert field.description, f"{tool.name}: {name}"


def test_every_writing_tool_takes_a_lease_and_a_request_id() -> None:
    for tool in discover().values():
        if tool.writes:
            assert {"lease_token", "request_id"} <= set(tool.arguments.model_fields)
    writing = {tool.name for tool in discover().values() if tool.writes}
    assert {"slack-reply", "dismiss-message", "send-message"} <= writing
    assert writing.isdisjoint({"read-inbox-message", "list-agents", "tray", "read-messages"})


BAD_CALLS: list[tuple[str, dict[str, Any], str, set[str]]] = [
    ("no-such-tool", {}, "invalid", {"name"}),
    ("tray", {"colour": "red"}, "invalid", {"colour"}),
    ("slack-reply", {}, "invalid", {"message"}),
    ("slack-reply", {"message": "hi"}, "invalid", {"inbox_message_id", "task_id"}),
    ("slack-reply", {"inbox_message_id": 5, "message": ["hi"]}, "invalid", {"inbox_message_id", "message"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": "hi", "only": "yes"}, "invalid", {"only"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": "hi", "Message": "ho"}, "invalid", {"Message"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": " \n"}, "invalid", {"message"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": "a\0b"}, "invalid", {"message"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": "hi", "request_id": ""}, "invalid", {"request_id"}),
    ("slack-reply", {"inbox_message_id": "ENTRY", "message": "hi", "lease_token": "stale"}, "lease_lost", set()),
    ("slack-reply", {"inbox_message_id": "unknown", "message": "hi"}, "not_found", set()),
    ("dismiss-message", {"inbox_message_id": "ENTRY", "reason": ""}, "invalid", {"reason"}),
    ("read-inbox-message", {"inbox_message_id": "x" * 10_000}, "not_found", set()),
    ("read-inbox-message", {"inbox_message_id": None}, "invalid", {"inbox_message_id"}),
]


async def test_a_bad_call_says_what_is_wrong_and_changes_nothing(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    inbox_message_id = (await lea.only())["inbox_messages"][0]["id"]
    before = await doors.everything()
    async with lea.mcp() as client:
        for name, given, code, fields in BAD_CALLS:
            arguments = {key: inbox_message_id if value == "ENTRY" else value for key, value in given.items()}
            error = error_of(await client.call_tool(name, arguments))
            assert (error["code"], set(error.get("fields", {}))) == (code, fields), (name, given)
            assert error["message"]
            assert "Traceback" not in str(error)
    assert await doors.everything() == before


class NoArguments(Arguments):
    pass


async def test_a_crash_is_logged_whole_and_told_as_internal(lea: Visitor, capsys: pytest.CaptureFixture[str]) -> None:
    async def crash(call: CallContext, said: NoArguments) -> dict[str, str]:
        raise RuntimeError("a secret of ours")

    class Nobody:
        name = "nobody"

    tool: McpTool[NoArguments, dict[str, str]] = McpTool(
        name="crash", arguments=NoArguments, result=dict[str, str], run=crash
    )
    call = CallContext(agent=Nobody(), lease_token=None, services=None)  # type: ignore[arg-type]
    result: CallToolResult = await run_tool({"crash": tool}, call, "crash", {})
    assert error_of(result)["code"] == "internal"
    assert "secret" not in str(result)
    logged = capsys.readouterr()
    assert "RuntimeError: a secret of ours" in logged.out + logged.err


NO_CALLS: Final = (
    (b"", 400),
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"jsonrpc": "2.0"}', 400),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 5}', 400),
    (b'{"a": "' + b"x" * (1024 * 1024) + b'"}', 413),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [' + b"{}," * 10_000 + b"{}]}", 413),
)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_what_is_no_call_is_refused(lea: Visitor, version: str, subtests: pytest.Subtests) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for body, status in NO_CALLS:
        with subtests.test(body=body[:60]):
            answer = await lea.ask("POST", "/mcp", content=body, headers=headers | {"MCP-Protocol-Version": version})
            assert answer.status_code == status, answer.text
            assert "error" in answer.json()


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", "2026-07-28"])
async def test_a_batch_is_told_what_it_is(lea: Visitor, version: str) -> None:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    batch = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(2)]
    answer = await lea.ask("POST", "/mcp", json=batch, headers=headers)
    assert answer.status_code == 400
    refusal = types.JSONRPCError.model_validate(answer.json())
    assert refusal.error.code == types.INVALID_REQUEST
    assert "batch" in refusal.error.message
    assert "a separate request" in refusal.error.message


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_lone_surrogate_is_refused(lea: Visitor, version: str) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for name, argument in (("slack-reply", "\\ud800"), ("\\ud800", "x")):
        params = f'{{"name": "{name}", "arguments": {{"inbox_message_id": "x", "message": "{argument}"}}}}'
        body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'
        answer = await lea.ask("POST", "/mcp", content=body, headers=headers | {"MCP-Protocol-Version": version})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")


async def test_sessions_are_neither_listened_to_nor_ended(lea: Visitor) -> None:
    for method in ("GET", "DELETE"):
        answer = await lea.ask(method, "/mcp", headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_the_log_set_up_is_left_alone(doors: Doors, lea: Visitor) -> None:
    handlers = list(logging.getLogger().handlers)
    await lea.uses("tray")
    assert logging.getLogger().handlers == handlers
    assert not any("rich" in type(handler).__module__ for handler in handlers)


async def test_an_endpoint_that_cannot_start_says_why(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    services = doors.world.services
    endpoint = McpEntryPoint(services, Identities(services.agents, "operator-of-the-tests"))

    @asynccontextmanager
    async def fails() -> AsyncIterator[None]:
        if services:
            raise ArithmeticError("it fails")
        yield

    monkeypatch.setattr(endpoint._manager, "run", fails)
    with pytest.raises(ArithmeticError):
        async with asyncio.timeout(PATIENCE_SECONDS), endpoint.running():
            pass


@pytest.mark.req("LOOP-13")
async def test_a_run_that_does_not_stop_replying_is_refused_after_twenty(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only(hold="true")
    said = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "lease_token": trigger["lease"]["token"]}
    for count in range(20):
        await lea.uses("slack-reply", message=f"answer {count}", only=True, **said)
    assert await lea.uses("slack-reply", message="answer 3", only=True, **said)  # a repeated call is no new reply
    refused = error_of(await lea.tool("slack-reply", message="one more", only=True, **said))
    assert (refused["code"], refused["message"]) == (
        "rate_limited", "You have replied 20 times to this message or task, which is the most for one run.",
    )  # fmt: skip
    assert len(await doors.world.rows("SELECT id FROM deliveries WHERE kind = 'post'")) == 20
    await doors.world.says(f"{BOT} something else")  # another message and run
    other = await lea.only(hold="true")
    await lea.uses(
        "slack-reply", other["lease"]["token"], inbox_message_id=other["inbox_messages"][0]["id"], message="x"
    )


@pytest.mark.req("LOOP-13")
async def test_a_task_gets_no_more_than_twenty_replies_of_one_run(doors: Doors, lea: Visitor) -> None:
    wim = await doors.worker()
    await doors.world.says(f"{BOT} count")
    asked = await lea.only(hold="true")
    await lea.uses(
        "inbox-delegate", asked["lease"]["token"], inbox_message_id=asked["inbox_messages"][0]["id"],
        agent=wim.name, task="Count.",
    )  # fmt: skip
    trigger = await wim.only(hold="true")
    said = {"task_id": trigger["task"]["id"], "lease_token": trigger["lease"]["token"]}
    for count in range(20):
        await wim.uses("slack-reply", message=f"step {count}", **said)
    assert error_of(await wim.tool("slack-reply", message="one more", **said))["code"] == "rate_limited"
    await wim.uses("task-complete", result="7", **said)
