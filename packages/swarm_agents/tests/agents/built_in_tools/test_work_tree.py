"""The work tree of the tools of the host: named by the operator, and apart from everything of the coordinator's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from swarm.app import preflight
from swarm.config import LocalTool, checked_work_tree, load
from swarm.config.work_tree import HOST_TOOLS
from swarm.domain.errors import ConfigurationError
from swarm.store.bridge.database import Database
from swarm_agents.app.built_in import opened
from swarm_agents.built_in_tools.work_tree import ToolRefused, WorkTree

CODE = Path(__file__).parents[5]


@dataclass(kw_only=True)
class Machine:
    """A machine on which a coordinator is started in ``/here``, by somebody whose home is ``/user``."""

    root: Path
    patch: pytest.MonkeyPatch
    settings: dict[str, object] = field(default_factory=dict)
    tools: tuple[str, ...] = (LocalTool.FILE_READ,)

    def folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def link(self, name: str, target: str) -> None:
        self.folder(str(Path(name).parent))
        (self.root / name).symlink_to(self.root / target)

    def write_settings(self, tree: str | None) -> None:
        model = {"name": "qwen3:8b", "check_at_start": False}
        helper = {"kind": "assistant", "tools": [str(tool) for tool in self.tools], **self._section("agents")}
        slack = {"bot_token": "xoxb-1", "app_token": "xapp-1"}
        tools = {**self._section("tools"), **({"work_tree": tree} if tree is not None else {})}
        more = {key: value for key, value in self.settings.items() if key not in ("agents", "tools")}
        document = {"model": model, "agents": {"builtin": {"helper": helper}}, "slack": slack, "tools": tools, **more}
        (self.root / "here" / "swarm.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")

    def _section(self, key: str) -> Mapping[str, object]:
        section = self.settings.get(key, {})
        assert isinstance(section, dict)
        return section

    def tree(self, named: str) -> str:
        """What is written down: ``{root}`` stands for where the machine is."""
        return named.format(root=self.root, code=CODE)

    def refused(self, tree: str | None) -> str:
        """Why a start does not get further."""
        self.write_settings(None if tree is None else self.tree(tree))
        with pytest.raises(ConfigurationError) as raised:
            preflight.check(load())
        assert not (self.root / "state").exists(), "nothing is made by a start that is refused"
        return f"{raised.value.message} {raised.value.hint}"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("here", "user/.swarm", "trees/website"):
        (tmp_path / name).mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith(("SWARM_", "SLACK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path / "here")
    return Machine(root=tmp_path, patch=monkeypatch)


def _nothing(machine: Machine) -> None:
    """The machine as it is."""


def _set(**variables: str) -> Callable[[Machine], None]:
    def prepare(machine: Machine) -> None:
        for name, value in variables.items():
            machine.patch.setenv(name, value.format(root=machine.root))

    return prepare


def _say(**settings: object) -> Callable[[Machine], None]:
    return lambda machine: machine.settings.update(settings)


def _allow(tool: LocalTool) -> Callable[[Machine], None]:
    def prepare(machine: Machine) -> None:
        machine.folder("user/.local")
        machine.tools = (tool,)

    return prepare


def _named_settings(machine: Machine) -> None:
    machine.folder("conf")
    machine.patch.setenv("SWARM_CONFIG", str(machine.root / "conf" / "team.yaml"))
    (machine.root / "conf" / "team.yaml").symlink_to(machine.root / "here" / "swarm.yaml")


def _home_exists(machine: Machine) -> None:
    machine.folder("state-of-others/inner")
    machine.patch.setenv("SWARM_HOME", str(machine.root / "state-of-others"))


def _started_below(machine: Machine) -> None:
    machine.folder("here/inner")


def _own_prompts_elsewhere(machine: Machine) -> None:
    machine.folder("trees/prompts")
    machine.folder("state-of-others")
    machine.link("state-of-others/prompts", "trees/prompts")
    machine.patch.setenv("SWARM_HOME", str(machine.root / "state-of-others"))


def _linked_wording(machine: Machine) -> None:
    (machine.root / "trees/website/decide.md").write_text("Decide.")
    machine.link("here/prompts/decide.md", "trees/website/decide.md")


def _link_on_the_way(machine: Machine) -> None:
    """The servers' list is reached by a link that lies in the tree."""
    machine.folder("elsewhere")
    machine.link("trees/website/link", "elsewhere")
    machine.settings["tools"] = {"servers_config": str(machine.root / "trees/website/link/servers.json")}
    (machine.root / "elsewhere/servers.json").write_text('{"mcpServers": {}}')


def _python_imports(machine: Machine) -> None:
    machine.patch.syspath_prepend(machine.root / "trees" / "website")


def _tree_by_link(machine: Machine) -> None:
    machine.link("trees/nice-name", "here")


def _file(machine: Machine) -> None:
    (machine.root / "trees/file").write_text("")


REFUSED: dict[str, tuple[Callable[[Machine], None], str | None, tuple[str, ...]]] = {
    "none": (_nothing, None, ("tools.work_tree (SWARM_WORK_TREE) is not set", "helper has file-read", "/srv/agents")),
    "a missing one": (_nothing, "{root}/nowhere", ("there is no such folder", "Create the folder")),
    "a file": (_file, "{root}/trees/file", ("is not a folder",)),
    "below a file": (_file, "{root}/trees/file/below", ("Not a directory",)),
    "of somebody who does not exist": (_nothing, "~nobody-of-that-name/x", ("home directory",)),
    "the machine": (_nothing, "/", ("which is the complete machine",)),
    "the machine by dots": (_nothing, "{root}/../../../../../../../../../..", ("which is the complete machine",)),
    "the home folder": (
        _nothing,
        "~",
        ("contains your home folder with your keys, {root}/user;", "a file of variables"),
    ),
    "the home folder's parent": (
        _nothing,
        "{root}",
        (
            "contains your home folder",
            "a file of variables, {root}/user/.swarm/.env",
        ),
    ),
    "an empty text": (_nothing, "", ("contains the folder where swarm is started, {root}/here",)),
    "the current folder": (
        _nothing,
        ".",
        (
            "contains the folder where swarm is started, {root}/here;",
            "contains the settings file, {root}/here/swarm.yaml;",
            "contains a file of variables, {root}/here/.env;",
            "contains the list of MCP servers, {root}/here/servers_config.json;",
            "contains the wordings (prompts_config), {root}/here/prompts/prompts_config.yaml",
        ),
    ),
    "the current folder by dots": (_nothing, "../trees/../here/.", ("the settings file",)),
    "the current folder by a link": (_tree_by_link, "{root}/trees/nice-name", ("the settings file",)),
    "below the current folder": (_started_below, "inner", ("it lies in the folder where swarm is started", "Or start")),
    "with the settings file": (_named_settings, "{root}/conf", ("contains the settings file, {root}/conf/team.yaml",)),
    "with ~/.swarm/.env": (_nothing, "~/.swarm", ("a file of variables, {root}/user/.swarm/.env",)),
    "with the home of the state": (
        _set(SWARM_HOME="{root}/trees/website/.state/not/there"),
        "{root}/trees/website",
        ("contains swarm's home (SWARM_HOME)", "the operator's token", "the database", "the prompts of SWARM_HOME"),
    ),
    "the home of the state": (_home_exists, "{root}/state-of-others", ("contains swarm's home",)),
    "in the home of the state": (_home_exists, "{root}/state-of-others/inner", ("lies in swarm's home",)),
    "with the database": (
        _set(SWARM_DATABASE_URL="sqlite:///{root}/trees/website/data/swarm.db"),
        "{root}/trees/website",
        ("contains the database, {root}/trees/website/data/swarm.db",),
    ),
    "with a database by a relative path": (
        _set(SWARM_DATABASE_URL="sqlite:///../trees/website/swarm.db"),
        "{root}/trees",
        ("contains the database",),
    ),
    "where $SWARM_HOME/prompts leads": (_own_prompts_elsewhere, "{root}/trees/prompts", ("prompts of SWARM_HOME",)),
    "with the wordings": (
        _say(tools={"prompts_config": "../trees/website/w.yaml"}),
        "{root}/trees/website",
        ("the wordings (prompts_config)",),
    ),
    "with the file of a wording": (_linked_wording, "{root}/trees", ("contains a prompt, {root}/here/prompts/decide",)),
    "with an agent's prompt": (
        _say(agents={"prompt": "../trees/website/../helper.md"}),
        "{root}/trees",
        ("contains the prompt of helper",),
    ),
    "with the servers": (
        _set(SWARM_SERVERS_CONFIG="{root}/trees/website/not/there.json"),
        "{root}/trees/website",
        ("contains the list of MCP servers, {root}/trees/website/not/there.json",),
    ),
    "with a link to the servers": (_link_on_the_way, "{root}/trees", ("the list of MCP servers",)),
    "with a coding program": (
        _allow(LocalTool.KIRO_DELEGATE),
        "~/.local",
        ("contains the program of kiro-delegate, {root}/user/.local/bin/kiro-cli",),
    ),
    "with the code": (_nothing, "{code}/..", ("contains the program's code, {code}",)),
    "the code": (_nothing, "{code}/swarm", ("lies in the program's code, {code}",)),
    "the tools": (_nothing, "{code}/tools", ("lies in the program's code",)),
    "the migrations": (_nothing, "{code}/db/migrations", ("lies in the program's code",)),
    "the environment": (_nothing, sys.prefix, ("lies in the program's code",)),
    "Python itself": (_nothing, str(Path(os.__file__).parent), ("lies in the program's code, " + sys.base_prefix,)),
    "what Python imports": (_python_imports, "{root}/trees", ("the program's code, {root}/trees/website",)),
}


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_work_tree_among_what_decides_stops_the_start_and_names_all_of_it(
    machine: Machine, case: tuple[Callable[[Machine], None], str | None, tuple[str, ...]]
) -> None:
    prepare, tree, words = case
    prepare(machine)
    said = machine.refused(tree)
    for word in words:
        assert machine.tree(word) in said


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize("tool", sorted(HOST_TOOLS))
def test_each_tool_of_the_host_needs_a_work_tree(machine: Machine, tool: LocalTool) -> None:
    machine.tools = (tool,)
    assert f"helper has {tool}" in machine.refused(None)


@pytest.mark.req("SEC-02")
def test_an_agent_without_tools_of_the_host_needs_none(machine: Machine) -> None:
    machine.tools = tuple(sorted(set(LocalTool) - HOST_TOOLS))
    machine.write_settings(None)
    preflight.check(load())
    assert checked_work_tree(load()) is None


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize("tree", ["../trees/website", "~/../trees/website", "{root}/trees/website"])
def test_a_work_tree_apart_from_all_is_taken_by_its_real_path(machine: Machine, tree: str) -> None:
    machine.write_settings(machine.tree(tree))
    preflight.check(load())
    assert checked_work_tree(load()) == machine.root / "trees" / "website"


@pytest.mark.req("SEC-02")
async def test_agents_that_are_put_together_without_a_start_are_held_to_it_too(
    machine: Machine, sqlite_url: str
) -> None:
    """As ``swarm chat`` has them where no coordinator runs."""
    machine.write_settings(".")
    async with Database(sqlite_url) as database:
        with pytest.raises(ConfigurationError, match="the folder where swarm is started"):
            async with opened(load(), database):
                pass


@pytest.mark.req("SEC-02")
def test_a_link_that_takes_the_place_of_the_work_tree_after_the_start_leads_nowhere(machine: Machine) -> None:
    machine.write_settings("../trees/website")
    root = checked_work_tree(load())
    assert root
    tree = WorkTree(root=root)
    with tree.place("swarm.yaml") as place:
        assert place.found is None
    (machine.root / "trees").rename(machine.root / "before")
    machine.folder("trees")
    machine.link("trees/website", "here")
    with pytest.raises(ToolRefused, match="leads elsewhere"), tree.place("swarm.yaml"):
        pass
