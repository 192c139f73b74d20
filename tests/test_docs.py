"""The documentation names what there is: variables, settings, tools, error codes, commands, demo addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swarm.cli import app
from swarm.config import VARIABLES, Settings, describe, load
from swarm.domain import errors
from swarm.domain.errors import SwarmError
from tools.tool import discover

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.req("OPS-02")
def test_the_example_environment_lists_every_variable_and_no_other() -> None:
    listed = re.findall(r"^([A-Z][A-Z0-9_]*)=", text(".env.example"), re.MULTILINE)
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == set(VARIABLES)


def test_every_variable_stands_for_a_setting_that_exists() -> None:
    known = {key for key, _ in describe(Settings)}
    assert {".".join(path) for path in VARIABLES.values()} <= known


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
        group = app
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
    assert len(readme.splitlines()) < 150
    assert "make demo" in readme
    assert "make test" in readme
