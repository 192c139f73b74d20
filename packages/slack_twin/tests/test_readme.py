"""The README lists all methods, events, faults, calls of the control API, variables and modules."""

import ast
import re
from pathlib import Path

import pytest
from slack_twin import build_twin
from slack_twin.__main__ import _parser
from slack_twin.control import control_routes
from slack_twin.faults import FaultKind
from slack_twin.methods import METHODS
from slack_twin.subscriptions import SCOPES
from starlette.routing import Route

PACKAGE = Path(__file__).parent.parent
TWIN = PACKAGE / "slack_twin"
README = (PACKAGE / "README.md").read_text(encoding="utf-8")

# Modules that create events, or payloads of people's actions, for apps.
WRITERS = ("events.py", "sessions.py", "homes.py", "methods/files.py", "button_actions.py", "modals.py", "commands.py")
# Types that are not events: the envelope, and parts of other events.
ENVELOPES = {"event_callback"}
# Functions with an argument for the kind, and its position.
KIND_PLACES = {"payloads.common": 0, "payloads.shortcut": 0, "_reaction": 0, "_tell": 1}


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of all tables below a heading, without the header rows."""
    _, _, rest = README.partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    lines = [line.strip("|") for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return [row for row in cells if "`" in "".join(row[:2])]


def names(heading: str) -> list[str]:
    """Returns the names in the first cells below a heading, in order."""
    return [name for row in rows(heading) for name in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.req("TWIN-02")
def test_the_readme_lists_every_method_and_says_of_others_that_they_are_not_there() -> None:
    listed = names("Methods")
    assert listed == list(dict.fromkeys(listed))
    absent = {name for row in rows("Methods") if row[1] == "no" for name in re.findall(r"`([^`]+)`", row[0])}
    assert set(listed) - absent == set(METHODS)
    assert absent.isdisjoint(METHODS)
    assert {row[1] for row in rows("Methods")} <= {"supported", "partly", "no"}


def test_what_is_partly_supported_says_how() -> None:
    tables = [*rows("Methods"), *rows("Events")]
    assert [row[0] for row in tables if row[1] == "partly" and not row[2]] == []


def constants(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def written(path: Path) -> set[str]:
    """Returns the types of events and payloads in a module: `"type": …` in a dict, or the kind passed to a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            found |= {ast.unparse(value) for key, value in pairs if key and ast.unparse(key) == "'type'"}
        if isinstance(node, ast.Call) and (place := KIND_PLACES.get(ast.unparse(node.func))) is not None:
            found.add(ast.unparse(node.args[place]))
    return {name.strip("'") for name in found if name.startswith("'")}


@pytest.mark.req("TWIN-01")
def test_the_readme_lists_every_event_and_payload() -> None:
    listed = names("Events")
    assert listed == list(dict.fromkeys(listed))
    sent = set().union(*(written(TWIN / name) for name in WRITERS)) - ENVELOPES
    assert sent - set(listed) == set()
    known = set().union(*(constants(path) for path in TWIN.rglob("*.py")))
    assert set(listed) - known == set()


def test_the_readme_lists_every_event_to_subscribe_to() -> None:
    assert {name for name in SCOPES if not name.startswith("message.")} <= set(names("Events"))


@pytest.mark.req("TWIN-04")
def test_the_readme_lists_every_fault() -> None:
    assert sorted(names("Faults")) == sorted(FaultKind)


def test_the_readme_lists_every_call_of_the_control_api() -> None:
    there = {
        f"{verb} {route.path}"
        for route in control_routes(build_twin())
        if isinstance(route, Route)
        for verb in (route.methods or set()) - {"HEAD"}
    }
    listed = names("Control API")
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == there


def test_the_readme_lists_every_option_of_the_command_and_every_variable() -> None:
    options = {name for row in rows("Install and run") for name in re.findall(r"`(--[a-z-]+)`", row[0])}
    assert options == {name for action in _parser()._actions for name in action.option_strings if name[1] == "-"} - {
        "--help"
    }
    listed = {name for row in rows("Install and run") for name in re.findall(r"`([A-Z_]+)`", row[1])}
    known = {name for path in TWIN.rglob("*.py") for name in constants(path) if re.fullmatch("TWIN_[A-Z_]+", name)}
    assert listed == known


def test_links_to_files_lead_somewhere() -> None:
    for document in (PACKAGE / "README.md", PACKAGE / "CHANGELOG.md", *(PACKAGE / "docs").glob("*.md")):
        links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))
        assert [link for link in links if not (document.parent / link).exists()] == [], document


def test_the_readme_names_every_module() -> None:
    files = {path.stem for path in TWIN.glob("*.py") if not path.stem.startswith("__")}
    folders = {f"{path.name}/" for path in TWIN.iterdir() if path.is_dir() and not path.name.startswith("__")}
    listed = names("Modules")
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == files | folders
