"""The rules in place of a model: what they decide, say and remember; and the settings that bring them in."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from swarm.config import load
from swarm_agents.builtin.messages import fenced
from swarm_agents.router import decision, router
from swarm_agents.router.decision import PlannedCall as RouterCall
from swarm_agents.system_prompts.files import PromptFiles
from swarm_agents.toolbox.tool import Tool, ToolAnswer
from swarm_lab.demo import home, settings_file
from swarm_lab.demo.calculator import calculator
from swarm_lab.demo.rules import router_rules
from swarm_lab.demo.rules.asked import Asked, Call, Calls, Said, Text
from swarm_lab.demo.rules.assistant_rules import WHAT_I_AM
from swarm_lab.demo.rules.model_server import reply
from swarm_lab.demo.serving import pieces
from tests.support.every import every

pytestmark = pytest.mark.req("OPS-01")

TWO = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
SUMS = dict.fromkeys(("add", "subtract", "multiply", "divide"), TWO)
ROUTER = {**SUMS, decision.ASK: {}, decision.REFUSE: {}, decision.STOP: {}}
ASSISTANT = {**SUMS, "search": {}, "fetch_document": {}, "git": {}}


def said(*texts: str, tools: object = ROUTER) -> Text | Calls:
    """The answer to the last of some texts, which a person and the model have said in turn."""
    roles = ("user", "assistant") * len(texts)
    told = tuple(Said(role=role, text=text) for role, text in zip(roles, texts, strict=False))
    return reply(Asked(messages=(Said(role="system", text="You decide."), *told), tools=tools))  # type: ignore[arg-type]


def calls(answer: Text | Calls) -> list[tuple[str, dict[str, object]]]:
    assert isinstance(answer, Calls), answer
    return [(call.tool, dict(call.arguments)) for call in answer.calls]


def text(*texts: str) -> str:
    answer = said(*texts, tools=ASSISTANT)
    assert isinstance(answer, Text), answer
    return answer.text


@every(
    ("asked", "tool", "a", "b"),
    [
        ("what is 6 times 7?", "multiply", 6, 7),
        ("swarm#tools what is six times seven", "multiply", 6, 7),
        ("6 × 7", "multiply", 6, 7),
        ("multiply 1.5 by -2", "multiply", 1.5, -2),
        ("add 2 and 3", "add", 2, 3),
        ("subtract 3 from 10", "subtract", 10, 3),
        ("what is 10 divided by 4", "divide", 10, 4),
    ],
)
@every("tools", [ROUTER, ASSISTANT], ids=["router", "assistant"])
def test_a_sum_is_a_call_of_the_tool_that_fits(asked: str, tool: str, a: float, b: float, tools: object) -> None:
    assert calls(said(asked, tools=tools)) == [(tool, {"a": a, "b": b})]


def test_two_sums_are_two_calls_in_one_turn_and_arguments_have_the_names_of_the_schema() -> None:
    both = said("what is 6 times 7 and 2 plus 3?")
    assert calls(both) == [("multiply", {"a": 6, "b": 7}), ("add", {"a": 2, "b": 3})]
    named = {**ROUTER, "multiply": {"required": ["x", "y"]}}
    assert calls(said("6 times 7", tools=named)) == [("multiply", {"x": 6, "y": 7})]


def test_what_is_missing_is_asked_for_and_the_answer_goes_on_with_the_sum() -> None:
    [(tool, arguments)] = calls(said("multiply 6"))
    assert tool == decision.ASK
    question = str(arguments["question"])
    assert "6" in question
    assert question.endswith("?")
    assert calls(said("multiply 6", question, "7")) == [("multiply", {"a": 6, "b": 7})]
    assert calls(said("multiply 6", question, "7", "6 times 7 is **42**.", "7")) == [(decision.REFUSE, {})]


@pytest.mark.parametrize("asked", ["who won the 1998 world cup?", "tell me a joke", "hello", ""])
def test_a_router_refuses_what_no_tool_does(asked: str) -> None:
    assert calls(said(asked)) == [(decision.REFUSE, {})]
    assert calls(said("6 times 7", tools={decision.REFUSE: {}, decision.STOP: {}})) == [(decision.REFUSE, {})]


@pytest.mark.parametrize("asked", ["never mind", "Cancel that, please"])
def test_a_router_hears_that_nobody_wants_it_any_more(asked: str) -> None:
    assert calls(said("multiply 6", "What is the other number?", asked)) == [(decision.STOP, {})]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("what is 6 times 7?", "6 times 7 is **42**."),
        ("7", "6 times 7 is **42**."),
    ],
)
def test_results_are_worded_from_what_the_router_really_sends(asked: str, told: str) -> None:
    async def never(arguments: object) -> ToolAnswer:
        raise AssertionError

    tool = Tool(name="multiply", description="", parameters=TWO, call=never)
    call = RouterCall(id="1", tool=tool, arguments={"a": 6, "b": 7})
    sent = f"{asked}\n\n{fenced(router_rules.RESULTS, router.for_model([(call, ToolAnswer(text='42'))]))}"
    assert reply(Asked(messages=(Said(role="user", text=sent),))) == Text(text=told)
    assert f'"{router_rules.RESULTS}"' in Path(router.__file__).read_text(encoding="utf-8")


def test_several_results_and_failed_ones_are_told_each() -> None:
    async def never(arguments: object) -> ToolAnswer:
        raise AssertionError

    tools = [Tool(name=name, description="", parameters=TWO, call=never) for name in ("multiply", "divide", "weather")]
    told = [
        ToolAnswer(text="42"),
        ToolAnswer(text="division by 0 is not possible", failed=True),
        ToolAnswer(text="sunny"),
    ]
    made = [RouterCall(id="1", tool=tool, arguments={"a": 6, "b": 7}) for tool in tools[:2]]
    made.append(RouterCall(id="3", tool=tools[2], arguments={}))
    sent = f"go\n\n{fenced(router_rules.RESULTS, router.for_model(list(zip(made, told, strict=True))))}"
    assert reply(Asked(messages=(Said(role="user", text=sent),))) == Text(
        text="6 times 7 is **42**.\n`divide` did not work: division by 0 is not possible\nThe result is **sunny**."
    )


def test_the_names_of_decisions_are_those_of_the_router() -> None:
    assert {router_rules.ASK, router_rules.REFUSE, router_rules.STOP} == decision.OWN


def test_it_remembers_what_it_is_sent_and_nothing_else() -> None:
    assert "**Ada**" in text("my name is Ada")
    assert "**Ada**" in text("my name is Ada", "Hello Ada", "tell me a joke", "Ha", "what is my name?")
    assert "not told me" in text("what is my name?")
    assert "**Bo**" in text("my name is Ada", "Hello", "my name is Bo", "Hello", "what is my name?")
    everything = text(
        "my favourite colour is green. Remember: the door code changes on Monday", "Yes", "what do you know?"
    )
    assert text("my favourite colour is green", "Yes", "what do you know about me?").endswith(
        "- my favourite colour is green"
    )
    assert "language model" in everything or "green" in everything


def test_a_summary_keeps_what_was_told_also_over_a_second_one() -> None:
    instructions = Said(role="system", text=" ".join(PromptFiles(None).current().summary.split()))

    def summary_of(conversation: str) -> str:
        told = Said(role="user", text=fenced("The conversation", conversation))
        answer = reply(Asked(messages=(instructions, told)))
        assert isinstance(answer, Text)
        return answer.text

    first = summary_of("Alice: my name is Ada\n\nassistant: Hello\n\nAlice: remember: tea at four\n\nAlice: a joke?")
    second = summary_of(f"system: {first}\n\nAlice: my favourite colour is green")
    for fact in ("my name is Ada", "tea at four", "my favourite colour is green"):
        assert fact in second
    told = (
        Said(role="system", text="You help."),
        Said(role="system", text=second),
        Said(role="user", text="what is my name?"),
    )
    answer = reply(Asked(messages=told, tools=ASSISTANT))
    assert isinstance(answer, Text)
    assert "**Ada**" in answer.text


@pytest.mark.parametrize("asked", ["what are you?", "are you a real model?", "which model is this?"])
def test_asked_what_it_is_it_says_that_it_is_no_model(asked: str) -> None:
    assert text(asked) == WHAT_I_AM
    assert "not a language model" in WHAT_I_AM


def test_what_it_does_not_understand_it_says_with_what_it_can_do_with_these_tools() -> None:
    everything = text("flabbergast")
    assert "not a language model" in everything
    assert all(word in everything for word in ("joke", "remember", "calculate", "look things up", "git status"))
    nothing = said("flabbergast", tools={})
    assert isinstance(nothing, Text)
    assert not any(word in nothing.text for word in ("calculate", "look things up", "git status"))


def test_it_searches_reads_the_best_documents_and_tells_what_stands_there_and_where() -> None:
    asked = [Said(role="user", text="compare agntcy and caipe onboarding")]

    def go_on(answers: dict[str, str]) -> Text | Calls:
        return reply(Asked(messages=tuple(asked), tools=ASSISTANT))

    searches = go_on({})
    assert calls(searches) == [("search", {"query": "agntcy onboarding"}), ("search", {"query": "caipe onboarding"})]
    found = [json.dumps({"documents": [{"id": f"{name}.md", "title": name}]}) for name in ("a", "c")]
    asked += answered(searches, found)
    fetches = go_on({})
    assert calls(fetches) == [("fetch_document", {"id": "a.md"}), ("fetch_document", {"id": "c.md"})]
    asked += answered(fetches, [f'{{"id": "{n}.md", "title": "{n}"}}\n\n# {n}\n\nOf {n}.\n\nMore.' for n in ("a", "c")])
    told = go_on({})
    assert isinstance(told, Text)
    assert all(part in told.text for part in ("Of a.", "Of c.", "`a.md`", "`c.md`"))
    assert "# a" not in told.text


def test_where_nothing_is_found_it_says_so() -> None:
    search = said("what is a snark?", tools=ASSISTANT)
    messages = [Said(role="user", text="what is a snark?"), *answered(search, ["No document has any of these words."])]
    answer = reply(Asked(messages=tuple(messages), tools=ASSISTANT))
    assert isinstance(answer, Text)
    assert "found nothing" in answer.text


def answered(answer: Text | Calls, texts: list[str]) -> list[Said]:
    """The calls of an answer, and what the tools say."""
    assert isinstance(answer, Calls)
    named = tuple(Call(tool=c.tool, arguments=c.arguments, id=str(n)) for n, c in enumerate(answer.calls))
    results = [Said(role="tool", text=text, call_id=str(n)) for n, text in enumerate(texts)]
    return [Said(role="assistant", calls=named), *results]


def test_pieces_of_a_text_are_the_text() -> None:
    for told in ("", "word", "  two\n\nlines and more ", "many words " * 1_000, "one\n\n```\n  two three\n```\n"):
        assert "".join(pieces(told, 0.04, 6)) == told
    assert len(list(pieces("many words " * 1_000, 0.04, 6))) < 250


async def test_the_settings_of_the_demo_bring_a_router_an_assistant_documents_and_a_calculator(tmp_path: Path) -> None:
    settings = made(tmp_path, is_scripted=True)
    assert set(settings.agents.builtin) == {"tools", "assistant"}
    assistant = settings.agents.builtin["assistant"]
    assert (assistant.tools, assistant.approve) == (["git", "file-write", "write-plan"], ["git push", "file-write"])
    assert settings.tools.work_tree == Path("/made")
    assert not made(tmp_path, is_scripted=True, work_tree=None).agents.builtin["assistant"].tools
    assert settings.documents.folder is not None
    assert len(list(settings.documents.folder.glob("*.md"))) >= 4
    servers = json.loads(settings.tools.servers_config.read_text())["mcpServers"]
    tools = [tool.name for tool in await calculator().list_tools()]
    assert servers["calculator"]["allowedTools"] == tools
    assert not made(tmp_path, is_scripted=False).agents.builtin["assistant"].tools  # a real model might do more


@pytest.mark.req("SEC-02")
def test_the_demos_work_tree_lies_apart_from_where_it_is_started_or_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "here" / ".git"))
    with home.work_tree(tmp_path / "here") as tree:
        assert tree
        assert tree.parent == tmp_path / "temporary"
        assert (tree / ".git").is_dir()
    assert not tree.exists()
    assert list((tmp_path / "here").iterdir()) == []
    with home.work_tree(tmp_path / "here", tmp_path) as tree:
        assert tree is None


def test_what_the_folder_itself_configures_stays(tmp_path: Path) -> None:
    (tmp_path / "swarm.yaml").write_text(
        yaml.safe_dump(
            {
                "agents": {
                    "builtin": {"assistant": {"kind": "assistant", "role": "lead"}},
                    "remote": {"tools": {"url": "http://t/"}},
                },
                "documents": {"folder": "mine"},
            }
        )
    )
    (tmp_path / "own.json").write_text(json.dumps({"mcpServers": {"mine": {"command": "x", "cwd": "here"}}}))
    settings = made(tmp_path, is_scripted=True)
    assert settings.agents.builtin["assistant"].role == "lead"
    assert set(settings.agents.builtin) == {"assistant"}
    assert settings.documents.folder == Path("mine")
    servers = json.loads(settings.tools.servers_config.read_text())["mcpServers"]
    assert servers["mine"] == {"command": "x", "cwd": str(tmp_path / "here")}
    assert "calculator" in servers


@pytest.mark.parametrize("servers", ["{", "[]", '{"mcpServers": []}'])
def test_a_file_with_servers_that_nothing_can_be_added_to_is_named(tmp_path: Path, servers: str) -> None:
    (tmp_path / "own.json").write_text(servers)
    with pytest.raises(settings_file.Unusable, match=r"own\.json"):
        made(tmp_path, is_scripted=True)


def test_a_model_that_the_folder_names_is_used(tmp_path: Path) -> None:
    own = tmp_path / "swarm.yaml"
    assert not settings_file.names_model(own)
    own.write_text("model: {name: gpt-5-mini}\n")
    assert settings_file.names_model(own)


def made(folder: Path, *, is_scripted: bool, work_tree: Path | None = Path("/made")):  # type: ignore[no-untyped-def]
    """The settings that the coordinator of the demo reads."""
    home, own = folder / "home", {"SWARM_CONFIG": "swarm.yaml", "SWARM_SERVERS_CONFIG": "own.json"}
    demo = settings_file.plan({"SWARM_HOME": str(home), **{name: str(folder / file) for name, file in own.items()}})
    settings_file.write(replace(demo, work_tree=work_tree), is_scripted=is_scripted)
    environment = {"SWARM_CONFIG": str(home / "swarm.yaml"), "LLM_MODEL": "demo-rules"}
    return load(environment, folder=folder, user_home=folder / "nobody")
