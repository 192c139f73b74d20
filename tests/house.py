"""Figures of the house, counted the same way every time: how much there is, how it is named, and what depends on what.

``python -m tests.house`` counts this checkout, ``python -m tests.house ../old`` another one. ``--json`` is for
machines, ``--names`` lists the things behind the numbers, ``--quick`` leaves out the paths, which need a coordinator
(`tests.house_paths`), and ``--gate FILE`` adds the seconds of the tests from a file that ``pytest --junitxml`` wrote.
``--hold`` compares each room with its budget (`tests.house_budget`), and fails where one is exceeded or missing.

Lines are all lines, blank ones included. The twin is counted apart: `swarm/twin`, or a package of its own. Imports are
read from the code: circles are told apart by when the imports run, and arrows between floors are all imports, as
import-linter counts them.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import gc
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from xml.etree import ElementTree

from tests import house_budget, house_paths

ROOT: Final = Path(__file__).parent.parent
CORE_APART: Final = {"swarm_runner", "swarm_lab"}
KINDS: Final = {"Table": "tables", "Protocol": "Protocols"} | dict.fromkeys(("Enum", "StrEnum", "IntEnum"), "enums")
LATE_CIRCLES: Final = "imports inside functions that make circles"
AWAY: Final = "functions that run in a transaction away from their method"
LONG_FILE_LINES: Final = 500
LONG_FUNCTION_LINES: Final = 60
RUN_LINES: Final = 6

When = Literal["loaded", "typing", "called"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Graph = Mapping[str, set[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One file of the product."""

    path: Path  # below the checkout
    text: str
    tree: ast.Module

    @property
    def folder(self) -> tuple[str, ...]:
        """The names of the packages that it lies in, from the outermost."""
        parts = self.path.parent.parts
        return tuple(part for part in (parts[2:] if parts[0] == "packages" else parts) if part != "src")

    @property
    def name(self) -> str:
        return ".".join(self.folder if self.path.stem == "__init__" else (*self.folder, self.path.stem))

    @property
    def room(self) -> str:
        """A package of its own, `tools`, or a folder of `swarm`; `swarm` for what lies loose in it."""
        parts = self.path.parts
        return parts[0] if parts[0] == "tools" or len(parts) == 2 else parts[1]

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@dataclass(kw_only=True, slots=True)
class House:
    """The product of a checkout."""

    root: Path
    modules: list[Module] = field(init=False)
    twin: list[Module] = field(init=False)

    def __post_init__(self) -> None:
        found = [self._module(path) for folder in ("swarm", "tools") for path in (self.root / folder).rglob("*.py")]
        packaged = (self.root / "packages").rglob("*.py")
        found += [self._module(path) for path in packaged if not _is_apart(path.relative_to(self.root))]
        self.modules = sorted((m for m in found if not _is_of_twin(m.path)), key=lambda module: module.path)
        self.twin = [m for m in found if _is_of_twin(m.path)]

    def _module(self, path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        return Module(path=path.relative_to(self.root), text=text, tree=ast.parse(text))


@contextmanager
def no_collector() -> Iterator[None]:
    """Looks for no garbage meanwhile: it takes two thirds of the time, and finds nothing in syntax trees."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_apart(path: Path) -> bool:
    """Tests, and what an environment or a build has left there."""
    return any(part in ("tests", "build", "dist") or part.startswith(".") for part in path.parts)


def _is_of_twin(path: Path) -> bool:
    return bool({"twin", "slack_twin"} & set(path.parts))


def standing(root: Path) -> tuple[house_budget.Numbers, dict[str, list[str]]]:
    """What has a budget, counted; and the largest files of each room."""
    house = House(root=root)
    modules = house.modules + house.twin
    lines, nodes, kinds = Counter[str](), Counter[str](), Counter[str]()
    files: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for module in modules:
        walked = list(ast.walk(module.tree))
        lines[module.room] += module.lines
        nodes[module.room] += len(walked)
        files[module.room].append((module.lines, str(module.path)))
        if not _is_of_twin(module.path):
            kinds.update(kind for node in walked if (kind := _kind(node, module)))
    functions = sorted(_function_lengths(modules))  # of two with one name in a file, the longer one counts
    found: dict[str, Mapping[str, int]] = {
        "lines": dict(lines.most_common()),
        "nodes": dict(nodes.most_common()),
        "counts": {kind: kinds[kind] for kind in KINDS.values()} | {"lines of tests": _lines_of_tests(root)},
        f"files over {LONG_FILE_LINES} lines": {str(m.path): m.lines for m in modules if m.lines > LONG_FILE_LINES},
        f"functions over {LONG_FUNCTION_LINES} lines": {at: n for n, at in functions if n > LONG_FUNCTION_LINES},
        LATE_CIRCLES: dict.fromkeys(circles_when_called(house.modules), 1),
        AWAY: dict.fromkeys(away_from_their_method(house.modules), 1),
    }
    stands = {(section, name): number for section, values in found.items() for name, number in values.items()}
    return stands, {room: [f"{path} ({n})" for n, path in sorted(some)[:-4:-1]] for room, some in files.items()}


def _kind(node: ast.AST, module: Module) -> str | None:
    """Which of the things that have a budget of their own the node defines."""
    if isinstance(node, ast.ClassDef):
        bases = (ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases)
        return next((KINDS[base] for base in bases if base in KINDS), None)
    is_table = isinstance(node, ast.Call) and module.room == "store" and getattr(node.func, "id", "") == "Table"
    return "tables" if is_table else None


def _lines_of_tests(root: Path) -> int:
    paths = [*(root / "tests").rglob("*.py"), *(root / "packages").rglob("tests/**/*.py")]
    return sum(len(path.read_bytes().splitlines()) for path in paths if not _is_of_twin(path.relative_to(root)))


def figures(root: Path) -> dict[str, Any]:
    """What is read from the code. Lists are what ``--names`` shows."""
    house = House(root=root)
    loaded, typing = imports(house.modules, {"loaded"}), imports(house.modules, {"loaded", "typing"})
    every = imports(house.modules, {"loaded", "typing", "called"})
    lengths = sorted(_function_lengths(house.modules), reverse=True)
    contracts = floor_layers(root)
    return {
        "modules, without the twin": len(house.modules),
        "lines, without the twin": sum(module.lines for module in house.modules),
        "public names": sum(1 for module in house.modules for _ in _public(module)),
        "class names that mean two things in the core": class_names_found_twice(house.modules),
        "lines of a function, median": statistics.median(length for length, _ in lengths) if lengths else 0,
        "lines of a function, longest": {name: length for length, name in lengths[:1]},
        "circles of imports": circles(loaded),
        "circles of imports, with those for types": circles(typing),
        LATE_CIRCLES: circles_when_called(house.modules),
        AWAY: away_from_their_method(house.modules),
        "upward arrows between floors": upward(every, contracts),
        "rooms of swarm/services/ without an order": rooms_without_order(root, contracts),
        f"lines that stand in two places, in runs of {RUN_LINES}": repeated_lines(house.modules),
    }


def _public(module: Module) -> Iterator[ast.ClassDef | Function]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield node


def class_names_found_twice(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Public classes of one name in several modules of the core, and where."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        if not CORE_APART & set(module.path.parts):
            for node in _public(module):
                if isinstance(node, ast.ClassDef):
                    found[node.name].add(str(module.path))
    return {name: sorted(where) for name, where in sorted(found.items()) if len(where) > 1}


def _function_lengths(modules: Iterable[Module]) -> Iterator[tuple[int, str]]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                yield (node.end_lineno or 0) - node.lineno + 1, f"{module.path}:{node.name}"


def imports(modules: Iterable[Module], when: set[When]) -> Graph:
    """Which of the modules each of them imports; ``from package import module`` is an import of the module."""
    by_name = {module.name: module for module in modules}
    graph: dict[str, set[str]] = {}
    for name, module in by_name.items():
        graph[name] = {
            target
            for happens, node in imports_in(module.tree.body, "loaded")
            if happens in when
            for wanted in wanted_by(node, module)
            if (target := wanted if wanted in by_name else wanted.rpartition(".")[0]) in by_name and target != name
        }
    return graph


def imports_in(body: Iterable[ast.AST], when: When) -> Iterator[tuple[When, ast.Import | ast.ImportFrom]]:
    """All imports, and when they happen."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield when, node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_in(node.body, "typing")
            yield from imports_in(node.orelse, when)
        elif not isinstance(node, ast.expr):
            yield from imports_in(ast.iter_child_nodes(node), "called" if isinstance(node, Function) else when)


def wanted_by(node: ast.Import | ast.ImportFrom, module: Module) -> Iterator[str]:
    """The full names of what is imported, of each a module or something in one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        here = module.folder
        base = ".".join([*here[: len(here) - node.level + 1], *([node.module] if node.module else [])])
    yield from (f"{base}.{alias.name}" for alias in node.names)


def circles(graph: Graph) -> list[list[str]]:
    """The modules that import each other, whatever the way: strongly connected components of more than one."""
    reached = {name: _reached(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph}
    return [list(group) for group in sorted(groups) if len(group) > 1]


def circles_when_called(modules: Iterable[Module]) -> list[str]:
    """The imports inside functions of a module that leads back, whatever the way and whenever it is imported."""
    found = list(modules)
    every, loaded = imports(found, {"loaded", "called"}), imports(found, {"loaded"})
    late = ((name, target) for name in every for target in every[name] - loaded[name])
    return sorted(f"{name} -> {target}" for name, target in late if name in _reached(every, target))


def away_from_their_method(modules: Iterable[Module]) -> list[str]:
    """The private functions that one function alone hands to the database, and that do not stand directly below it."""
    found: list[str] = []
    for module in modules:
        everywhere = Counter(map(_named, ast.walk(module.tree)))
        loose = set(_defined(module.tree.body))
        scopes: list[ast.Module | ast.ClassDef] = [module.tree]
        for scope in scopes + [node for node in module.tree.body if isinstance(node, ast.ClassDef)]:
            around = list(_defined(scope.body, "self." if isinstance(scope, ast.ClassDef) else ""))
            for at, function in enumerate(scope.body):
                if isinstance(function, Function) and function.name != "__init__":
                    here = Counter(map(_named, ast.walk(function)))
                    handed = {name for name in _handed(function) if name in {*around, *loose}}
                    own = {name for name in handed if here[name] == everywhere[name]}
                    away = own.difference(around[at + 1 : at + 1 + len(own)])
                    found += [f"{module.path}:{name.removeprefix('self.')}" for name in away]
    return sorted(found)


def _defined(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[str]:
    """The names of what is defined there, one for each statement; empty for what is no function."""
    return (prefix + node.name if isinstance(node, Function) else "" for node in body)


def _handed(function: Function) -> Iterator[str]:
    """The private names that a function hands to `Database.read` and `Database.write`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and (name := _named(node.args[0])).removeprefix("self.")[:1] == "_":
            called, _, how = ast.unparse(node.func).rpartition(".")
            if called.endswith("database") and how in ("read", "write", "write_together"):
                yield name


def _named(node: ast.AST) -> str:
    """A name as it is written, or of an attribute of a name; otherwise nothing."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _reached(graph: Graph, start: str) -> set[str]:
    """All that a module leads to; itself only if there is a way back."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def floor_layers(root: Path) -> list[list[list[str]]]:
    """Every contract of ``.importlinter`` about layers: from the top down, the packages of each layer."""
    settings = configparser.ConfigParser()
    settings.read(root / ".importlinter", encoding="utf-8")
    found = []
    for section in settings.values():
        if section.get("type") == "layers":
            layers = section.get("layers", "").split("\n")
            for container in section.get("containers", "").split() or [""]:
                found.append([_packages(layer, container) for layer in layers if layer.strip()])
    return found


def _packages(layer: str, container: str) -> list[str]:
    names = layer.replace("|", ":").split(":")
    return [f"{container}.{name}".lstrip(".") for name in (name.strip(" ()") for name in names)]


def rooms_without_order(root: Path, contracts: Iterable[list[list[str]]]) -> list[str]:
    """The packages of `swarm/services` that no contract knows, so that they may import whatever they like."""
    rooms = {f"swarm.services.{path.parent.name}" for path in (root / "swarm" / "services").glob("*/__init__.py")}
    return sorted(rooms - {package for layers in contracts for layer in layers for package in layer})


def upward(graph: Graph, contracts: Iterable[list[list[str]]]) -> list[str]:
    """The imports of a module from a layer above its own."""
    found = set()
    for layers in contracts:
        level = {package: number for number, packages in enumerate(layers) for package in packages}
        levels = {name: _level(name, level) for name in graph}
        for name, targets in graph.items():
            for target in targets:
                ours, theirs = levels[name], levels[target]
                if ours is not None and theirs is not None and ours > theirs:
                    found.add(f"{name} -> {target}")
    return sorted(found)


def _level(name: str, level: Mapping[str, int]) -> int | None:
    while name and name not in level:
        name = name.rpartition(".")[0]
    return level.get(name)


def repeated_lines(modules: Iterable[Module]) -> int:
    """How many lines belong to a run of lines that stands somewhere else too; but for imports, blanks and comments."""
    where: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for module in modules:
        imported = {
            line
            for _, node in imports_in(module.tree.body, "loaded")
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = [text.strip() for number, text in enumerate(module.text.splitlines(), 1) if number not in imported]
        lines = [line for line in lines if line and not line.startswith("#")]
        for first in range(len(lines) - RUN_LINES + 1):
            where[tuple(lines[first : first + RUN_LINES])].append((module.path, first))
    places = (place for found in where.values() if len(found) > 1 for place in found)
    return len({(path, first + further) for path, first in places for further in range(RUN_LINES)})


def paths(root: Path) -> dict[str, Any]:
    """How many files and functions a payload, a poll and a reply enter."""
    counted: dict[str, Any] = {}
    for request, places in house_paths.measure(root).items():
        counted[f"files that one {request} enters"] = sorted({where for where, _ in places})
        counted[f"functions that one {request} enters"] = [f"{where}: {name}" for where, name in places]
    return counted


def gate_seconds(report: Path) -> dict[str, float]:
    """The seconds of all tests by part: the folder below ``tests/``, or the package that has them."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        first, *rest = case.get("classname", "").split(".")
        part = rest[0] if rest and not (first == "tests" and rest[0].startswith("test_")) else first
        seconds[part] += float(case.get("time", 0))  # type: ignore[assignment]  # a Counter may hold any number
    return {f"seconds of tests, {part}": round(total, 1) for part, total in sorted(seconds.items())}


def _counted(value: Any) -> Any:
    """A number for a list, and for a dictionary what it says."""
    if isinstance(value, dict) and all(isinstance(some, int) for some in value.values()):
        return ", ".join(f"{name} {number}" for name, number in value.items()) or 0
    return len(value) if isinstance(value, list | dict) else value


def _listed(value: Any) -> list[str]:
    """One line for each thing that was counted."""
    if isinstance(value, dict):
        return [f"{name}: {', '.join(where)}" for name, where in value.items() if isinstance(where, list)]
    return (
        [", ".join(some) if isinstance(some, list) else str(some) for some in value] if isinstance(value, list) else []
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.house", description="Count the house.")
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--names", action="store_true", help="list what was counted")
    parser.add_argument("--quick", action="store_true", help="start nothing")
    parser.add_argument("--hold", action="store_true", help="only the budgets; fail where one is exceeded")
    parser.add_argument("--set", action="store_true", help="set the budgets by what stands")
    parser.add_argument("--reason", metavar="FILE", help="with --set: the file in thoughts/plans/ for what is raised")
    parser.add_argument("--gate", type=Path, metavar="FILE", help="what pytest --junitxml wrote")
    options = parser.parse_args(arguments)
    if options.hold or options.set:
        return _budgets(options.checkout, options.reason, sets=options.set)
    found = figures(options.checkout)
    found |= {} if options.quick else paths(options.checkout)
    found |= gate_seconds(options.gate) if options.gate else {}
    if options.json:
        shown = found if options.names else {name: _counted(value) for name, value in found.items()}
        sys.stdout.write(f"{json.dumps(shown, indent=1)}\n")
        return 0
    sys.stdout.write("| figure | count |\n|---|---|\n")
    for name, value in found.items():
        sys.stdout.write(f"| {name} | {_counted(value)} |\n")
    for name, value in found.items():
        if options.names and (lines := _listed(value)):
            sys.stdout.write("\n".join([f"\n{name}:", *(f"  {line}" for line in lines)]) + "\n")
    sys.stdout.write(house_budget.table(options.checkout, standing(options.checkout)[0]))
    return 0


def _budgets(root: Path, reason: str | None, *, sets: bool) -> int:
    stands, largest = standing(root)
    if sets:
        house_budget.write(root, stands, reason)
    wrong = [f"{room} needs a place in .importlinter." for room in rooms_without_order(root, floor_layers(root))]
    wrong += house_budget.complaints(root, stands, largest)
    sys.stdout.write("\n".join([house_budget.table(root, stands), *wrong, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    with no_collector():
        sys.exit(main(sys.argv[1:]))
