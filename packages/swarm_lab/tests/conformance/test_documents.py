"""The pages about streaming agents, the editor's rule and the code say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ag_ui.core import EventType

from swarm.app.settings_mapping import remote_agents
from swarm.config import load
from swarm.domain.answers.agents import Dialect
from swarm_lab.conformance.checks import FIRST_SIGN_SECONDS
from swarm_lab.conformance.scenarios import SCENARIOS, Check

pytestmark = pytest.mark.req("CONF-03")

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "tests" / "STREAMING_CONFORMANCE.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "agui-agents.md").read_text(encoding="utf-8")
RULE = (ROOT / ".cursor" / "rules" / "streaming-conformance.mdc").read_text(encoding="utf-8")

PIPELINE = [
    "swarm/agents",
    "packages/swarm_agents/src/swarm_agents/builtin",
    "swarm/agents/remote",
    "swarm/agents/remote/translation",
    "swarm/domain/answers",
    "packages/swarm_lab/src/swarm_lab/conformance",
    "swarm/slack/outgoing/live.py",
    "swarm/slack/outgoing/streams.py",
]


def section(title: str) -> str:
    """What stands under a heading of the page."""
    [found] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def listed_scenarios() -> Iterator[tuple[str, str, list[tuple[int, str, str]]]]:
    """Name, prompt and rows of each scenario on the page."""
    parts = re.split(r"^### ", section("Scenarios"), flags=re.MULTILINE)[1:]
    for part in parts:
        named = re.match(r"`([a-z-]+)`: “(.*)”\n", part)
        assert named is not None
        rows = re.findall(r"^\| (\d+) \| ([a-z ]+) \| (.*) \|$", part, re.MULTILINE)
        yield named[1], named[2], [(int(number), check, meaning) for number, check, meaning in rows]


def test_the_page_lists_the_scenarios_and_all_22_checks() -> None:
    listed = list(listed_scenarios())
    assert [(name, prompt, [row[1] for row in rows]) for name, prompt, rows in listed] == [
        (scenario.name, scenario.prompt, [check.value for check in scenario.checks]) for scenario in SCENARIOS
    ]
    assert [row[0] for _, _, rows in listed for row in rows] == list(range(1, 23))


def test_the_page_tells_how_much_content_and_how_soon_is_asked_for() -> None:
    for scenario, (_, _, rows) in zip(SCENARIOS, listed_scenarios(), strict=True):
        [meaning] = [row[2] for row in rows if row[1] == Check.CONTENT.value]
        assert f"more than {scenario.longer_than_characters} characters" in meaning
    assert f"within {FIRST_SIGN_SECONDS:g} s" in section("Scenarios")


def test_the_page_lists_the_invariants() -> None:
    assert re.findall(r"^\| (INV-\d) \|", section("Invariants"), re.MULTILINE) == [f"INV-{n}" for n in range(1, 7)]


def test_the_event_contract_tells_of_every_event_of_the_protocol() -> None:
    told = set(re.findall(r"`([A-Z_]+)`", section("Event contract")))
    assert {kind.value for kind in EventType} - told == set()


def rule_globs() -> list[str]:
    head = yaml.safe_load(RULE.split("---")[1])
    assert head["description"]
    return [glob.strip() for glob in head["globs"].split(",")]


@pytest.mark.parametrize("glob", rule_globs())
def test_every_glob_of_the_editors_rule_finds_files(glob: str) -> None:
    assert [path for path in ROOT.glob(glob) if path.is_file()], glob


def test_the_editors_rule_covers_the_pipeline_and_names_files_that_exist() -> None:
    covered = {path for glob in rule_globs() for path in ROOT.glob(glob)}
    files = [file for name in PIPELINE for file in ((ROOT / name).glob("*.py") if "." not in name else [ROOT / name])]
    assert [str(file) for file in files if file not in covered] == []
    for name in re.findall(r"(?:packages|swarm|tests)/[\w/.*]+", RULE.split("---", 2)[2]):
        assert list(ROOT.glob(name)), name


def test_the_example_of_the_guide_is_valid(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert example is not None
    (tmp_path / "swarm.yaml").write_text(example.group(1), encoding="utf-8")
    settings = load({"CAIPE_CLIENT_SECRET": "hush-hush"}, folder=tmp_path, user_home=tmp_path / "nobody")
    assert [(remote.name, remote.dialect) for remote in remote_agents(settings)] == [
        ("docs", Dialect.AGUI),
        ("caipe", Dialect.CAIPE),
    ]


def test_what_the_guide_says_that_people_read_is_what_they_read() -> None:
    rows = re.findall(r"^\| (it|there|we) (.*?) \| ", GUIDE.partition("## Error messages")[2], re.MULTILINE)
    sources = [*(ROOT / "swarm" / "agents").rglob("*.py"), *(ROOT / "swarm" / "domain" / "answers").glob("*.py")]
    code = re.sub(r"\{\w+(:[\w,]+)?\}", "", " ".join(path.read_text(encoding="utf-8") for path in sources))
    assert len(rows) == 9  # the token server has words of its own
    for row in rows:
        words = re.sub(r"[\d,]+| \(HTTP.*", "", " ".join(row))
        assert all(part.strip() in code for part in words.split("  ")), words
