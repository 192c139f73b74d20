"""The work tree of the demo's assistant: a small git repository that exists for as long as the demo runs.

The demo's working directory cannot be the work tree: the coordinator reads its settings there, and refuses such a
tree.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_NOTES: Final = "# Notes\n\nThe demo has made this repository, and removes it when it ends.\n"


@contextmanager
def made(*apart_from: Path) -> Iterator[Path | None]:
    """Makes the repository; None if the folder for temporary files lies in one of these folders."""
    parent = Path(tempfile.gettempdir()).resolve()
    if any(parent.is_relative_to(folder.resolve()) for folder in apart_from):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="swarm-demo-", dir=parent, ignore_cleanup_errors=True) as name:
        (Path(name) / "notes.md").write_text(_NOTES, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        with suppress(OSError):  # git is not installed, which its tool reports when called
            subprocess.run(["git", "init", "--quiet", "--template=", name], env=environment, check=False)
        yield Path(name)
