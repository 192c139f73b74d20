"""Whether a package, and all of ours that it stands on, is file by file what it was when all of its tests were green.

``make proof`` notes a hash in each package (`note_of`), which is tracked; as long as the hash is the same, the gate
leaves the tests of that package out. Files count as they lie there: changes that are not committed, and new files, too;
what git ignores, times and the notes do not. What is hashed (`Checkout.parts`):

- the folder of the package, and the locks, without which no test says anything;
- each module of ours that its code and its tests import, at whatever time, and what those import in their turn. What a
  text names as a module counts as imported: programs are started, and commands found, by such names. A module that
  looks for modules while it runs may find all of its folder;
- the files beside these modules that are no modules (templates, samples, tables), and a file that a text names, if no
  other has that name;
- where the root's pytest runs the tests of the package: `conftest.py` with what it imports, settings, and migrations.

What is found by entry points (`swarm.extensions`) does not count: the core's tests, which always run, load all of them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests import house

TWIN: Final = "slack_twin"  # its tests run in its own folder, where its `tests` are at the top
LOCKS: Final = ("requirements*.lock", "tests/*/package-lock.json")
OF_ROOT: Final = ("conftest.py", "pyproject.toml", "db/*")
LOOKS_FOR_MODULES: Final = re.compile(r"\b(?:import_module|iter_modules)\(")
MODULE_IN_TEXT: Final = re.compile(r"""["'](\w+(?:\.\w+)+)(?::\w+)?["']|["']-m["'], ["'](\w+)["']""")
FILE_IN_TEXT: Final = re.compile(r"""["'/]([\w.-]+\.\w+)["']""")


def note_of(package: str) -> str:
    return f"packages/{package}/.proven"


def packages(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / "packages").glob("*/pyproject.toml"))


def hashes(root: Path, wanted: Iterable[str]) -> dict[str, str]:
    """The hash of each package as it lies in the checkout ``root`` now; none where git does not know that."""
    with house.no_collector(), suppress(OSError, subprocess.CalledProcessError):
        checkout = Checkout(root=root)
        return {package: checkout.hash(package) for package in wanted}
    return {}


def found_proven(root: Path) -> list[str]:
    """The packages that are what their notes say."""
    notes = {package: root / note_of(package) for package in packages(root)}
    noted = {package: note.read_text(encoding="utf-8").split()[:1] for package, note in notes.items() if note.exists()}
    return [package for package, now in hashes(root, noted).items() if noted[package] == [now]]


def note(root: Path, package: str, tested: str, seconds: float) -> None:
    """Note that the package was found well when it had the hash ``tested``."""
    text = f"{tested} proved {datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s\n"
    (root / note_of(package)).write_text(text, encoding="utf-8")


@dataclass(kw_only=True, slots=True)
class Checkout:
    """The files of a checkout that git does not ignore, and what they lead to: read once for all packages.

    Raises CalledProcessError or OSError where git cannot be asked.
    """

    root: Path
    contents: dict[str, bytes] = field(init=False)  # by the path below the root, in order
    modules: dict[str, str] = field(init=False)  # the path of each, by its name for ``import``
    called: dict[str, set[str]] = field(init=False)  # paths, by the last part
    led_to: dict[str, set[str]] = field(default_factory=dict)  # paths, by that of the module that leads there

    def __post_init__(self) -> None:
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
        files = ((name, self.root / name) for name in sorted(set(listed)))
        self.contents = {name: file.read_bytes() for name, file in files if file.is_file()}
        self.modules = {_module_name(name): name for name in self.contents if name.endswith(".py")}
        self.called = defaultdict(set)
        for name in self.contents:
            if not name.endswith(".py") or "tests/" in name:  # nobody opens modules of the product
                self.called[name.rpartition("/")[2]].add(name)

    def hash(self, package: str) -> str:
        """One hash for the names and contents of all that the package stands on."""
        parts = (f"{hashlib.sha256(self.contents[name]).hexdigest()} {name}" for name in sorted(self.parts(package)))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def parts(self, package: str) -> set[str]:
        """The files that say whether the package is what it was."""
        folder, patterns = f"packages/{package}/", LOCKS if package == TWIN else LOCKS + OF_ROOT
        own = {name for name in self.contents if name.startswith(folder)} - {note_of(package)}
        own |= {name for name in self.contents if any(fnmatchcase(name, pattern) for pattern in patterns)}
        reached = self._reached(own)
        return reached | set(self._beside({_folder(name) for name in reached if name.endswith(".py")}))

    def _reached(self, start: set[str]) -> set[str]:
        found, waiting = set(start), list(start)
        while waiting:
            name = waiting.pop()
            if name.endswith(".py"):
                if name not in self.led_to:
                    self.led_to[name] = set(self._leads_to(name))
                new = self.led_to[name] - found
                found |= new
                waiting += new
        return found

    def _leads_to(self, name: str) -> Iterator[str]:
        text = self.contents[name].decode()
        module = house.Module(path=Path(name), text=text, tree=ast.parse(text))
        for _, node in house.imports_in(module.tree.body, "loaded"):
            for wanted in house.wanted_by(node, module):
                yield from self._on_the_way_to(wanted, name)
        for dotted, program in MODULE_IN_TEXT.findall(text):
            yield from self._on_the_way_to(f"{dotted or program}.__main__", name)
        for last in FILE_IN_TEXT.findall(text):
            if len(self.called[last]) == 1 and not _is_of_twin(name):  # which opens nothing of ours
                yield from self.called[last]
        if LOOKS_FOR_MODULES.search(text):
            yield from (other for other in self.modules.values() if other.startswith(f"{_folder(name)}/"))

    def _on_the_way_to(self, wanted: str, asking: str) -> Iterator[str]:
        """A module and the packages that it lies in; what is ``wanted`` may also be a name in that module."""
        if _is_of_twin(asking) and wanted.startswith("tests."):
            wanted = f"packages.{TWIN}.{wanted}"
        parts = wanted.split(".")
        names = (".".join(parts[: end + 1]) for end in range(len(parts)))
        yield from (self.modules[name] for name in names if name in self.modules)

    def _beside(self, folders: set[str]) -> Iterator[str]:
        """What is no module, and has one of the folders as the closest one above it that has modules."""
        with_modules = {_folder(name) for name in self.modules.values()}
        for name in self.contents:
            above = _folder(name)
            while above and above not in with_modules:
                above = _folder(above)
            is_of_gate = _folder(name) == "tests"  # budgets, requirements, mutants
            if above and above in folders and not is_of_gate and not name.endswith(".py"):
                yield name


def _is_of_twin(name: str) -> bool:
    return name.startswith(f"packages/{TWIN}/")


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _module_name(path: str) -> str:
    """What ``import`` calls it: modules of packages by their own names, tests by their place in the checkout."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return re.sub(rf"^packages\.\w+\.src\.|^packages\.{TWIN}\.(?={TWIN}\b)", "", name)
