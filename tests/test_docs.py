"""The documentation names what there is: variables, settings, tools, error codes, commands, demo addresses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import yaml

from swarm.cli.commands import complete
from swarm.config import CONFIG_VARIABLE, VARIABLES, Settings, describe, load
from swarm.config.importing import caipe_variables
from swarm.domain import errors
from swarm.domain.answers.agents import History
from swarm.domain.errors import SwarmError
from swarm.domain.prompts.input import OWN_KEYS
from swarm.entrypoints.http.metrics import ScrapeCollector
from swarm.services.operate.overview import Figures
from swarm.telemetry.metrics import Metrics
from swarm.telemetry.setup import GRAVE, NOTEWORTHY
from tests import house
from tools.tool import discover

pytestmark = pytest.mark.xdist_group("documents")  # the code is parsed once

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.req("OPS-02")
def test_the_example_environment_lists_every_variable_and_no_other() -> None:
    listed = re.findall(r"^([A-Z][A-Z0-9_]*)=", text(".env.example"), re.MULTILINE)
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == {CONFIG_VARIABLE, *VARIABLES, *caipe_variables.READ}


@pytest.mark.req("OPS-11")
def test_the_page_for_those_who_move_says_of_each_variable_of_caipe_what_became_of_it() -> None:
    page = text("docs/migrating.md")
    theirs = {name for name in VARIABLES if name.startswith(("SLACK_INTEGRATION_", "CAIPE_"))}
    known = {*theirs, *caipe_variables.READ, *caipe_variables.WITHOUT_COUNTERPART}
    assert sorted(name for name in known if f"`{name}`" not in page) == []
    assert not caipe_variables.WITHOUT_COUNTERPART.keys() & {*VARIABLES, *caipe_variables.READ}
    assert [reason for reason in caipe_variables.WITHOUT_COUNTERPART.values() if f"| {reason} |" not in page] == []


def test_every_variable_stands_for_a_setting_that_exists() -> None:
    known = [key for key, _ in describe(Settings)]
    named = [".".join(path) for path in VARIABLES.values()]
    assert [name for name in named if not any(fnmatchcase(name, key) for key in known)] == []


def configuration_tables() -> tuple[set[str], set[str]]:
    """What the tables of the configuration page name first in each row: settings, and keys of the client context."""
    before, _, rest = text("docs/configuration.md").partition("### Client context")
    context, _, after = rest.partition("\n## ")
    of_settings, of_context = (
        [key for row in re.findall(r"^\| (`[^|]+) \|", part, re.MULTILINE) for key in re.findall(r"`([a-z_.*]+)`", row)]
        for part in (before + after, context)
    )
    assert of_settings == list(dict.fromkeys(of_settings))
    return set(of_settings), set(of_context)


@pytest.mark.req("OPS-02", "CHAN-01")
def test_the_configuration_page_lists_every_setting_and_no_other() -> None:
    """``channel_defaults`` has the keys of a channel, which are listed once."""
    listed, _ = configuration_tables()
    assert listed == {key for key, _ in describe(Settings) if not key.startswith("channel_defaults.")}


@pytest.mark.req("CHAN-03")
def test_the_configuration_page_lists_every_key_of_the_client_context() -> None:
    assert configuration_tables()[1] == OWN_KEYS


def test_the_example_on_the_configuration_page_is_valid(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", text("docs/configuration.md"), re.DOTALL)
    assert example is not None
    (tmp_path / "swarm.yaml").write_text(example.group(1), encoding="utf-8")
    settings = load({"DOCS_AGENT_TOKEN": "hush-hush"}, folder=tmp_path, user_home=tmp_path / "nobody")
    assert settings.channels_in_full["C0123456789"].client_context == {"tone": "terse", "product": "agntcy"}
    assert settings.agents.remote["docs"].history_sent is History.ALL


def test_the_example_of_swarm_yaml_in_the_slack_guide_is_valid(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", text("docs/slack.md"), re.DOTALL)
    assert example is not None
    (tmp_path / "swarm.yaml").write_text(example.group(1), encoding="utf-8")
    settings = load(
        {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}, folder=tmp_path, user_home=tmp_path / "nobody"
    )
    assert settings.channels["C0123456789"].agent == "reviewer"
    assert settings.reactions.failed is None


def test_every_tool_is_documented() -> None:
    guide = text("docs/agents.md")
    assert [tool.name for tool in discover().values() if f"`{tool.name}" not in guide] == []


def error_codes(kind: type[SwarmError]) -> set[str]:
    return {kind.code}.union(
        *(error_codes(part) for part in kind.__subclasses__() if part.__module__ == errors.__name__)
    )


def test_every_error_code_that_an_agent_can_meet_is_documented() -> None:
    guide = text("docs/agents.md")
    assert {
        code for code in error_codes(SwarmError) - {"internal", "configuration"} if f"`{code}`" not in guide
    } == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_in_the_documents_exists(document: Path) -> None:
    commands = re.findall(r"(?:\.venv/bin/|`)swarm ((?:[a-z]+ ?)+)", document.read_text(encoding="utf-8"))
    for words in commands:
        app = group = complete()
        for word in words.split():
            if word not in group:
                assert group is not app, f"there is no command `swarm {words}`"
                break
            group = group[word]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_readme_is_short_and_names_both_commands() -> None:
    readme = text("README.md")
    assert len(readme.splitlines()) <= 90
    assert "make demo" in readme
    assert "make test" in readme


OPERATIONS = "docs/operations.md"


def metric_names() -> set[str]:
    """All metrics of our own, as Prometheus shows them."""
    figures = Figures(inbox_unread=0, oldest_unread_seconds=0, tasks={}, deliveries={}, agents={})
    page = ScrapeCollector(Metrics(version="1", database="sqlite").registry, figures, {}, {})
    suffix = {"counter": "_total", "info": "_info"}
    families = [family for family in page.collect() if family.name.startswith("swarm_")]
    return {family.name + suffix.get(family.type, "") for family in families}


@pytest.mark.req("OPS-06")
def test_the_operations_page_lists_every_metric_and_no_other() -> None:
    page = text(OPERATIONS)
    rows = re.findall(r"^\| `(swarm_[a-z_]+)` \|", page, re.MULTILINE)
    assert rows == list(dict.fromkeys(rows))
    assert set(rows) == metric_names()
    in_queries = re.findall(r"\b(swarm_[a-z_]+?)(?:_bucket|_sum|_count)?\b(?=[\[{)`])", page)
    assert set(in_queries) <= metric_names()
    assert len(in_queries) > len(rows)


@cache
def modules() -> list[house.Module]:
    with house.no_collector():
        return house.House(root=ROOT).modules


def log_actions() -> set[str]:
    """The actions of all lines that the coordinator writes, but for those of changes at debug."""
    trees = [
        module.tree
        for module in modules()
        if module.folder[:1] in (("swarm",), ("swarm_agents",), ("swarm_runner",), ("swarm_base",))
        and re.search(r"action|attempt|watch\(", module.text)
    ]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [word.value for call in calls for word in call.keywords if word.arg == "action"]
    places = {"attempt": 1, "watch": 3}
    tried = [
        call.args[places[call.func.id]] for call in calls if isinstance(call.func, ast.Name) and call.func.id in places
    ]
    constants = {node.value for node in [*named, *tried] if isinstance(node, ast.Constant)}
    return {str(value) for value in constants} | {*GRAVE, *NOTEWORTHY}


@pytest.mark.req("OPS-06")
def test_the_operations_page_explains_every_action_of_the_log_and_no_other() -> None:
    _, _, table = text(OPERATIONS).partition("| action | what happened |")
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \|[^|\n]*\|$", table.partition("\n## ")[0], re.MULTILINE)
    explained = [action for row in rows for action in re.findall(r"`([a-z_.]+)`", row)]
    assert explained == list(dict.fromkeys(explained))
    assert set(explained) == log_actions()


def test_the_example_of_a_scrape_is_yaml() -> None:
    example = re.search(r"```yaml\n(.*?)```", text(OPERATIONS), re.DOTALL)
    assert example is not None
    assert yaml.safe_load(example.group(1))["scrape_configs"][0]["job_name"] == "swarm"


def glossary() -> dict[str, str]:
    """The terms of the glossary, and the type that stands for each."""
    return dict(re.findall(r"^\| ([a-zI -]+) \| `(\w+)` \| [A-Z].*\. \|$", text("docs/glossary.md"), re.MULTILINE))


def test_the_glossary_is_short_and_in_order_and_the_readme_leads_to_it() -> None:
    rows = [line for line in text("docs/glossary.md").splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(glossary()) <= 40
    assert list(glossary()) == sorted(glossary())
    assert "docs/glossary.md" in text("README.md")


def types_of_the_core() -> Counter[str]:
    """How often each name stands for a class or an alias of types at the top of a module."""
    found: Counter[str] = Counter({"SlackTwin": 1})  # it is in the package of the twin
    for module in modules():
        if not house.CORE_APART & set(module.path.parts):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    found[node.name] += 1
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                    found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return found


def test_each_term_of_the_glossary_has_one_type_in_the_code() -> None:
    found = types_of_the_core()
    assert {term: name for term, name in glossary().items() if found[name] != 1} == {}


def test_no_class_name_means_two_things() -> None:
    assert house.class_names_found_twice(modules()) == {}
