"""The built-in agents as the settings put them together: a scripted provider, a real MCP server, a real database."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

import orjson
import pytest
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.mcp.conftest import plain_in
from swarm.app import settings_mapping
from swarm.config import Settings, load
from swarm.domain.answers.events import (
    AgentEvent,
    Failed,
    Finished,
    InputMessage,
    Interrupted,
    Origin,
    RunInput,
    Speaker,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.errors import ConfigurationError
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.services.builtin.sessions import BuiltInOwner, DatabaseMemory
from swarm.store.bridge.database import Database
from swarm_agents.app import built_in
from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.core import AgentCore
from swarm_agents.built_in_tools.agentcore.sessions import AgentCoreSessions as AwsSessions
from swarm_agents.mcp.servers import McpServers
from swarm_agents.mcp.status import Timeouts
from tests.support.providers import Call, Fails, Reply, Request, Say, openai_server
from tests.support.quick import quick
from tests.support.waiting import wait_until

CALCULATOR = """
    from mcp.server import MCPServer
    server = MCPServer("calculator")
    @server.tool()
    def multiply(a: float, b: float) -> float:
        "Multiplies two numbers."
        return a * b
    @server.tool()
    def wipe() -> str:
        "Deletes everything."
        return "gone"
    server.run()
"""

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Settings of a folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def settings(yaml: str = "", **environment: str) -> Settings:
        (tmp_path / "swarm.yaml").write_text(dedent(yaml), encoding="utf-8")
        given = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test", **environment}
        return load(given, folder=tmp_path, user_home=tmp_path / "nobody")

    return settings


@pytest.fixture
def work_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the tools of the host, apart from that of the settings."""
    return tmp_path_factory.mktemp("work")


def allow(folder: Path, *allowed: str, **commands: Sequence[str]) -> None:
    """Names MCP servers and their tools that are allowed."""
    servers = {
        name: {"command": command[0], "args": command[1:], "allowedTools": list(allowed)}
        for name, command in commands.items()
    }
    (folder / "servers_config.json").write_bytes(orjson.dumps({"mcpServers": servers}))


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes MCP servers with what they list, and what is allowed. A start waits for them, also on a busy machine."""
    assert McpServers.__init__.__kwdefaults__
    monkeypatch.setitem(McpServers.__init__.__kwdefaults__, "timeouts", Timeouts(start_seconds=30))

    def write(*allowed: str, **listed: list[object]) -> None:
        allow(
            tmp_path,
            *allowed,
            **{name: plain_in(tmp_path / name, tools=tools).command for name, tools in listed.items()},
        )

    return write


@pytest.fixture
def calculator(plain: Callable[..., None]) -> None:
    """An MCP server with two tools, one of them allowed."""
    plain("multiply", calculator=["multiply", "wipe"])


def run_input(text: str, number: int = 1) -> RunInput:
    return RunInput(
        run_id=f"run_input{number}",
        agui_run_id=f"run{number}",
        trace_id="trace",
        conversation_id="C1:1.0",
        messages=(InputMessage(id=f"message{number}", speaker=Speaker.USER, text=text, author="Ada"),),
        client_context={"source": "slack", "channel_name": "#general"},
        origin=Origin(channel="C1", thread_ts="1.0", user_id="U1", user_name="Ada"),
    )


async def said(agent: built_in.BuiltInAgentSet, name: str, text: str, number: int = 1) -> tuple[str, list[AgentEvent]]:
    events = [event async for event in agent.agents[name].run(run_input(text, number))]
    return "".join(event.text for event in events if isinstance(event, TextDelta)), events


def calculating(request: Request) -> Reply:
    """A model that multiplies with the tool, and words what comes of it."""
    if "Say OK" in request.last_text or not request.texts:
        return Say("OK")
    if request.results or not request.tools:
        return Say("It is 42.")
    return Call("multiply", {"a": 6, "b": 7})


@pytest.mark.req("AGENT-01", "AGENT-02", "AGENT-04", "AGENT-05", "AGENT-07")
@pytest.mark.usefixtures("calculator")
async def test_router_and_assistant_work_with_a_model_and_mcp_servers(
    read: Read, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "calculator.py").write_text(dedent(CALCULATOR))  # with the library, as people write them
    allow(tmp_path, "multiply", calculator=(sys.executable, str(tmp_path / "calculator.py")))
    async with openai_server(calculating) as server:
        settings = read(OPENAI_BASE_URL=server.base_url)
        async with built_in.opened(settings, database) as agents:
            assert list(agents.agents) == ["tools", "assistant"]
            routed, routed_events = await said(agents, "tools", "what is 6 times 7?")
            answered, answered_events = await said(agents, "assistant", "what is 6 times 7?", 2)
    assert (routed, answered) == ("It is 42.", "It is 42.")
    for events in (routed_events, answered_events):
        assert any(isinstance(event, ToolEnded) and not event.failed for event in events)
        assert isinstance(events[-1], Finished)
    offered = {name for request in server.requests for name in request.tools or ()}
    assert "wipe" not in offered, "which is not allowed"
    remembered = await DatabaseMemory(database, BuiltInOwner("assistant"), None).get_messages("slack:C1:U1")
    assert [message.role.value for message in remembered] == ["user", "tool_use", "tool_result", "assistant"]
    runs = {run.agent: run for run in await ModelUsageLog(database).latest()}
    assert (runs["tools"].usage.requests, runs["assistant"].usage.requests) == (2, 2)
    assert {run.requester for run in runs.values()} == {"U1"}


@pytest.mark.req("AGENT-07")
async def test_a_refused_key_stops_the_start_and_names_the_variable(read: Read, database: Database) -> None:
    async with openai_server(lambda request: Fails(401, {"error": {"message": "bad key sk-test"}})) as server:
        settings = read(OPENAI_BASE_URL=server.base_url)
        with pytest.raises(ConfigurationError) as raised:
            async with built_in.opened(settings, database):
                pass
    assert "OPENAI_API_KEY" in f"{raised.value.message} {raised.value.hint}"
    assert "sk-test" not in str(raised.value)


@pytest.mark.req("AGENT-07")
async def test_a_model_that_is_away_does_not_stop_the_start_and_a_run_says_so(read: Read, database: Database) -> None:
    async with openai_server(lambda request: Fails(503, {"error": {"message": "down"}})) as server:
        settings = read(OPENAI_BASE_URL=server.base_url)
        with capture_logs() as logs:
            async with built_in.opened(settings, database) as agents:
                _, events = await said(agents, "assistant", "hello")
    assert any(line["action"] == "model_check" for line in logs)
    end = events[-1]
    assert isinstance(end, Failed)
    assert "gpt-5-mini" in end.message


@pytest.mark.req("AGENT-07")
async def test_a_limit_of_requests_stops_a_runaway_with_a_clear_message(
    read: Read, database: Database, calculator: None
) -> None:
    def endless(request: Request) -> Reply:
        return Call("multiply", {"a": 1, "b": 1}) if request.tools else Say("OK")

    async with openai_server(endless) as server:
        settings = read("limits: {requests: 3}", OPENAI_BASE_URL=server.base_url)
        async with built_in.opened(settings, database) as agents:
            _, events = await said(agents, "assistant", "go on for ever")
        (run,) = await ModelUsageLog(database).latest()
    end = events[-1]
    assert isinstance(end, Failed)
    assert "limits.requests" in end.message
    assert (run.outcome.value, run.usage.requests) == ("limited", 3)


@pytest.mark.req("AGENT-12", "TOOL-03")
async def test_a_tool_of_an_mcp_server_that_is_capped_says_so_by_name_and_each_agent_has_its_own_limits(
    read: Read, database: Database, calculator: None
) -> None:
    def insists(request: Request) -> Reply:
        if not request.tools:
            return Say("OK")
        enough = any("has been called" in result for result in request.results)
        return Say("I stop.") if enough else Call("multiply", {"a": 1, "b": 1})

    yaml = """
    limits: {requests: 6, tools: {"calculator/*": {calls: 2}}}
    agents:
      builtin:
        patient: {kind: assistant}
        hasty: {kind: assistant, limits: {requests: 2, tools: {mult*: {calls: 9}}}}
    """
    async with (
        openai_server(insists) as server,
        built_in.opened(read(yaml, OPENAI_BASE_URL=server.base_url), database) as agents,
    ):
        text, patient = await said(agents, "patient", "go on")
        _, hasty = await said(agents, "hasty", "go on", 2)
    results = [event.result for event in patient if isinstance(event, ToolEnded)]
    assert results == [
        *['multiply {"a": 1, "b": 1}'] * 2,
        "multiply has been called 2 times, which is the limit for one question (limits.tools.calculator/*.calls). "
        "Go on without multiply; other tools still work.",
    ]
    assert (text, patient[-1]) == ("I stop.", Finished())
    assert hasty[-1] == Failed(
        message="This took more than 2 calls of the model, which is the limit (agents.builtin.hasty.limits.requests).",
        code="limit",
    )


@pytest.mark.req("AGENT-12")
async def test_an_agent_falls_back_to_its_own_model_and_a_conversation_has_a_limit_for_a_day(
    read: Read, database: Database
) -> None:
    def by_model(request: Request) -> Reply:
        return (
            Fails(503, {"error": {"message": "down"}})
            if orjson.loads(request.body)["model"] == "gpt-5-mini"
            else Say("Here.")
        )

    yaml = """
    limits: {thread: {requests: 1}}
    model: {check_at_start: false}
    agents: {builtin: {helper: {kind: assistant, fallbacks: [{name: gpt-5}]}, alone: {kind: assistant}}}
    """
    async with (
        openai_server(by_model) as server,
        built_in.opened(read(yaml, OPENAI_BASE_URL=server.base_url), database) as agents,
    ):
        answer, _ = await said(agents, "helper", "hello")
        _, alone = await said(agents, "alone", "hello", 2)
    assert answer == "Here."
    assert alone[-1] == Failed(
        message="This conversation would take more than 1 calls of the model today (UTC), which is the limit "
        "(limits.thread.requests).",
        code="limit",
    ), "the conversation is that of all agents"


@pytest.mark.req("AGENT-08")
async def test_an_edited_prompt_counts_from_the_next_run_and_a_broken_one_is_told_without_its_place(
    read: Read, database: Database, tmp_path: Path
) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("You serve {{ user.name }} in {{ client_context.channel_name }}{{ client_context.a.b }}.")
    yaml = "agents: {builtin: {helper: {kind: assistant, prompt: prompt.md}}}"
    async with (
        openai_server(lambda request: Say("Yes.")) as server,
        built_in.opened(read(yaml, OPENAI_BASE_URL=server.base_url), database) as agents,
    ):
        await said(agents, "helper", "hi")
        prompt.write_text("Now you are brief.")
        await said(agents, "helper", "hi", 2)
        prompt.write_text("{% for i in range(3) %}")
        with capture_logs() as logs:
            _, events = await said(agents, "helper", "hi", 3)
    first, second = server.requests[-2:]
    assert "You serve Ada in #general." in first.system
    assert "Now you are brief." in second.system
    end = events[-1]
    assert isinstance(end, Failed)
    assert str(tmp_path) not in end.message
    assert any("prompt.md" in str(line.get("reason")) for line in logs if line["action"] == "agent_broken")


@pytest.mark.req("AGENT-08")
@pytest.mark.parametrize("text", ["{% if %}", "{{ ''.__class__ "])
async def test_a_prompt_that_is_no_template_stops_the_start(
    read: Read, database: Database, tmp_path: Path, text: str
) -> None:
    (tmp_path / "prompt.md").write_text(text)
    yaml = (
        "agents: {builtin: {helper: {kind: assistant, prompt: prompt.md}}}\nmodel: {name: gpt, check_at_start: false}"
    )
    with pytest.raises(Exception, match=r"prompt\.md, line 1"):
        async with built_in.opened(read(yaml), database):
            pass


@pytest.mark.req("TOOL-02", "TOOL-04", "TOOL-05")
async def test_tools_that_cannot_be_used_here_are_absent_and_named_in_a_line(
    read: Read, database: Database, tmp_path: Path, work_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yaml = """
        model: {name: gpt, check_at_start: false}
        agents: {builtin: {helper: {kind: assistant, tools: [kiro-delegate, shell, web-browse, git, file-read]}}}
    """
    with capture_logs() as logs:
        async with built_in.opened(read(yaml, SWARM_WORK_TREE=str(work_tree)), database) as agents:
            assert list(agents.agents) == ["helper"]
    absent = [str(line["why"]) for line in logs if line["action"] == "tool_absent"]
    assert len(absent) == 3
    for name in ("kiro-delegate", "shell", "web-browse"):
        assert any(name in line for line in absent)


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        ("tools: {servers_config: nowhere.json}", "nowhere.json"),
        ("documents: {folder: nowhere}", "documents.folder is nowhere"),
        ("tools: {work_tree: nowhere}\nagents: {builtin: {a: {kind: assistant, tools: [git]}}}", "tools.work_tree"),
        ("agents: {builtin: {a: {kind: assistant, prompt: nowhere.md}}}", "nowhere.md"),
        ("tools: {prompts_config: nowhere.yaml}", "nowhere.yaml"),
    ],
)
async def test_a_file_or_folder_that_is_named_and_not_there_stops_the_start(
    read: Read, database: Database, yaml: str, problem: str
) -> None:
    settings = read(f"model: {{name: gpt, check_at_start: false}}\n{yaml}")
    with pytest.raises(ConfigurationError) as raised:
        async with built_in.opened(settings, database):
            pass
    assert problem in raised.value.message


@pytest.mark.req("TOOL-06")
async def test_documents_can_be_searched_by_the_assistant(read: Read, database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "agntcy.md").write_text("# What agntcy is\n\nAgntcy is an open collective for agents.\n")

    def reading(request: Request) -> Reply:
        if not request.results:
            return Call("search", {"query": "agntcy"})
        return Say("Found: " + request.results[-1])

    async with openai_server(reading) as server:
        settings = read("model: {check_at_start: false}\ndocuments: {folder: papers}", OPENAI_BASE_URL=server.base_url)
        async with built_in.opened(settings, database) as agents:
            numbers = itertools.count(1)

            async def answer() -> str:
                return (await said(agents, "assistant", "what is agntcy", next(numbers)))[0]

            text = await wait_until(answer, lambda text: "agntcy.md" in text, what="the documents are found")
    assert "open collective" in text


@pytest.mark.req("AGENT-08", "OPS-12")
async def test_a_prompt_that_is_gone_is_told_without_its_place(read: Read, database: Database, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("You serve {{ user.name }}.")
    yaml = f"""
        model: {{name: gpt, check_at_start: false}}
        agents: {{builtin: {{helper: {{kind: assistant, prompt: {tmp_path / "prompt.md"}}}}}}}
    """
    async with built_in.opened(read(yaml), database) as agents:
        (tmp_path / "prompt.md").unlink()
        with capture_logs() as logs:
            _, events = await said(agents, "helper", "hi")
    end = events[-1]
    assert isinstance(end, Failed)
    assert "prompt.md" not in end.message
    assert any("prompt.md" in str(line.get("reason")) for line in logs if line["action"] == "agent_broken")


@pytest.mark.req("AGENT-01")
@pytest.mark.usefixtures("calculator")
async def test_a_router_asks_no_model_for_summaries_that_it_would_not_read(read: Read, database: Database) -> None:
    yaml = """
        model: {check_at_start: false}
        runtime: {session: {compaction_threshold: 2, keep_recent_messages: 1}}
        agents: {builtin: {tools: {kind: router}}}
    """
    async with openai_server(lambda request: Call("swarm_refuse", {})) as server:
        async with built_in.opened(read(yaml, OPENAI_BASE_URL=server.base_url), database) as agents:
            for number in range(1, 5):
                await said(agents, "tools", "who won the 1998 world cup?", number)
            assert not await agents.agents["tools"]._record.memory.compact_session("slack:C1:1.0")
        assert len(server.requests) == 4


@pytest.mark.req("OPS-12")
async def test_a_mistake_of_ours_inside_a_group_is_logged_whole(read: Read, database: Database) -> None:
    assert built_in._explained((), ExceptionGroup("several", [TypeError("a mistake")])) is None


@pytest.mark.req("AGENT-02", "AGENT-07")
async def test_a_refused_key_leaves_no_mcp_server_behind(read: Read, database: Database, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(1000)")
    server_entry = {"command": sys.executable, "args": [str(tmp_path / "slow.py")], "allowedTools": ["any"]}
    (tmp_path / "servers_config.json").write_bytes(orjson.dumps({"mcpServers": {"slow": server_entry}}))
    before = asyncio.all_tasks()
    async with openai_server(lambda request: Fails(401, {"error": {"message": "no"}})) as server:
        settings = read(OPENAI_BASE_URL=server.base_url)
        with pytest.raises(ConfigurationError):
            async with built_in.opened(settings, database):
                pass
        left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not {name for name in left if name.startswith("mcp server") or "open_toolbox" in name}


@pytest.mark.req("TOOL-05")
async def test_programs_get_the_variables_that_are_named_also_from_dotenv(
    read: Read, database: Database, tmp_path: Path, work_tree: Path
) -> None:
    (tmp_path / ".env").write_text("HOUSE_KEY=from-dotenv\nOTHER_KEY=hidden\n")
    yaml = """
        model: {check_at_start: false}
        agents: {builtin: {helper: {kind: assistant, tools: [shell], approve: []}}}
        tools: {shell: {commands: [env], environment: [HOUSE_KEY]}}
    """

    def calling(request: Request) -> Reply:
        return Say("Got: " + request.results[-1]) if request.results else Call("shell", {"command": "env"})

    async with (
        openai_server(calling) as server,
        built_in.opened(
            read(yaml, OPENAI_BASE_URL=server.base_url, SWARM_WORK_TREE=str(work_tree)), database
        ) as agents,
    ):
        text, _ = await said(agents, "helper", "what is set?")
    assert "HOUSE_KEY=from-dotenv" in text
    assert "OTHER_KEY" not in text


@pytest.mark.req("TOOL-04")
async def test_nothing_is_said_of_absent_tools_that_nobody_is_allowed(
    read: Read, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def opened(options: AgentCoreOptions) -> AgentCore:
        lines = ["memory-store, memory-recall: no memory is set.", "web-browse: there is no browser."]
        return AgentCore((), lines, AwsSessions())

    monkeypatch.setattr(AgentCore, "open", opened)
    yaml = """
        model: {name: gpt, check_at_start: false}
        agents: {builtin: {helper: {kind: assistant, tools: [web-browse]}}}
    """
    with capture_logs() as logs:
        async with built_in.opened(read(yaml), database):
            pass
    assert [line["why"] for line in logs if line["action"] == "tool_absent"] == ["web-browse: there is no browser."]


@pytest.mark.req("HITL-04")
async def test_people_approve_what_the_settings_say_and_a_pattern_without_a_tool_is_logged(
    read: Read, database: Database, calculator: None
) -> None:
    yaml = "agents: {builtin: {helper: {kind: assistant, approve: [multiply, divide]}, free: {kind: assistant}}}"
    async with openai_server(calculating) as server:
        with capture_logs() as logs:
            async with built_in.opened(read(yaml, OPENAI_BASE_URL=server.base_url), database) as agents:
                _, events = await said(agents, "helper", "what is 6 times 7?")
                answered, _ = await said(agents, "free", "what is 6 times 7?", 2)
    end = events[-1]
    assert isinstance(end, Interrupted)
    assert [one.tool.arguments for one in end.asked if one.tool] == [{"a": 6, "b": 7}]
    assert answered == "It is 42."
    (line,) = [line for line in logs if line["action"] == "approve_unused"]
    assert (line["agent"], line["patterns"], line["setting"]) == ("helper", ["divide"], "agents.builtin.helper.approve")
    with pytest.raises(ConfigurationError, match="approve"):
        read("agents: {builtin: {helper: {kind: assistant, approve: ['']}}}")


@pytest.mark.req("AGENT-02")
@pytest.mark.parametrize(
    "schema",
    quick(
        [
            {"type": "object", "properties": {"a": "string"}},
            {"type": "array"},
            {"type": "object", "properties": {"a": {"type": 7}}},
            {"type": "object", "required": "a"},
            "none",
        ],
        2,
    ),
)
async def test_a_tool_with_an_odd_schema_fails_no_run_and_is_named(
    read: Read, database: Database, plain: Callable[..., None], schema: object
) -> None:
    plain("multiply", "odd", calculator=[{"name": "odd", "inputSchema": schema}, "multiply"])
    async with openai_server(calculating) as server:
        with capture_logs() as logs:
            async with built_in.opened(read(OPENAI_BASE_URL=server.base_url), database) as agents:
                answered, events = await said(agents, "assistant", "what is 6 times 7?")
                assert agents.toolbox
                assert agents.toolbox.unoffered("assistant").keys() == {"calculator/odd"}
                assert not agents.toolbox.unoffered("polling")
    assert answered == "It is 42."
    assert [event.name for event in events if isinstance(event, ToolStarted)] == ["multiply"]
    (line,) = [line for line in logs if line["action"] == "mcp_tool_refused"]
    assert (line["server"], line["tool"]) == ("calculator", "odd")


@pytest.mark.req("AGENT-13")
async def test_servers_and_tools_belong_to_the_agents_that_name_them(
    read: Read, database: Database, plain: Callable[..., None]
) -> None:
    plain("multiply", "look", "send", calculator=["multiply"], wiki=["look", "send"], mail=["look", "send"])
    yaml = """
    agents:
      builtin:
        lead: {kind: assistant, tools: [swarm], servers: [calc*, "mail/send"]}
        reader: {kind: assistant, role: worker, tools: [swarm], servers: ["*/look"]}
        other: {kind: assistant, role: worker}
        sums: {kind: router, servers: [calculator]}
        nothing: {kind: router, servers: []}
    """
    async with openai_server(lambda request: Say("OK")) as server:
        settings = read(yaml, OPENAI_BASE_URL=server.base_url)
        async with built_in.opened(settings, database) as agents:
            had = {}
            for number, name in enumerate(agents.agents):
                before = len(server.requests)
                await said(agents, name, "hello", number)
                offered = {tool for request in server.requests[before:] for tool in request.tools or ()}
                had[name] = {tool for tool in offered if tool.split("_")[-1] in ("multiply", "look", "send")}
    assert had == {
        "lead": {"calculator_multiply", "mail_send"},
        "reader": {"wiki_look", "mail_look"},
        "other": {"wiki_send"},
        "sums": {"calculator_multiply"},
        "nothing": set(),
    }
    policies = settings_mapping.caller_policies(settings)
    assert (policies["other"].reaches_host, policies["nothing"].reaches_host) == (True, False)


@pytest.mark.req("AGENT-13")
@pytest.mark.parametrize("pattern", ["calculater", "calculator/divide", "mail*/look", "multiply"])
async def test_a_server_that_is_not_there_is_refused_with_those_that_are(
    read: Read, database: Database, calculator: None, pattern: str
) -> None:
    settings = read(f"agents: {{builtin: {{helper: {{kind: assistant, servers: ['{pattern}']}}}}}}")
    with pytest.raises(ConfigurationError) as caught:
        async with built_in.opened(settings, database):
            pass
    assert caught.value.message.startswith("agents.builtin.helper.servers: ")
    assert pattern in caught.value.message
    assert caught.value.hint == "There are: calculator, calculator/multiply."


@pytest.mark.req("AGENT-02")
async def test_a_router_without_allowed_tools_names_who_can_change_that(
    read: Read, database: Database, plain: Callable[..., None]
) -> None:
    plain(calculator=["multiply"])
    async with (
        openai_server(calculating) as server,
        built_in.opened(read(OPENAI_BASE_URL=server.base_url), database) as agents,
    ):
        answered, _ = await said(agents, "tools", "what is 6 times 7?")
    assert answered == "I can't do anything: no tool is allowed. My operator lists them in allowedTools."


@pytest.mark.req("AGENT-13")
async def test_an_editors_file_works_as_it_is_with_its_variables(
    read: Read, database: Database, plain: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain("multiply", calculator=["multiply"])
    entry = orjson.loads((tmp_path / "servers_config.json").read_bytes())["mcpServers"]["calculator"]
    entry |= {"type": "stdio", "env": {"KEY": "${env:SWARM_WIKI_KEY}"}}
    text = "\ufeff{ // of an editor\n" + f'"servers": {{"calculator": {orjson.dumps(entry).decode()},}}}}'
    (tmp_path / "mcp.json").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SWARM_WIKI_KEY", "hunter2")
    async with openai_server(calculating) as server:
        given = {"SWARM_WIKI_KEY": "hunter2", "OPENAI_BASE_URL": server.base_url}
        settings = read("tools: {servers_config: mcp.json}", **given)
        async with built_in.opened(settings, database) as agents:
            answered, events = await said(agents, "assistant", "what is 6 times 7?")
    assert (answered, isinstance(events[-1], Finished)) == ("It is 42.", True)
    assert [event.name for event in events if isinstance(event, ToolStarted)] == ["multiply"]
