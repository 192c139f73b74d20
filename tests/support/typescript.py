"""Clients on npm packages, whose sources and lock are in ``tests/typescript``; ``make test`` installs the packages."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "typescript"
PATIENCE_SECONDS = 60.0


async def run(program: str, said: object) -> Any:
    """The data that a program of the folder prints when it reads ``said``. Without Node.js the test is skipped."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules").is_dir():
        why = "NOT TESTED WITH CLIENTS FROM NPM: needs Node.js 18 or later, npm, and `make test` or `npm ci`"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    process = await asyncio.create_subprocess_exec(
        node,
        program,
        cwd=FOLDER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, problems = await asyncio.wait_for(process.communicate(json.dumps(said).encode()), PATIENCE_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, problems.decode()
    return json.loads(out)
