"""``swarm forget``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console
from rich.prompt import Confirm

from swarm.app import home, settings_mapping
from swarm.cli.client import CoordinatorClient, NoServer
from swarm.config import Settings
from swarm.domain.errors import ConfigurationError, Invalid
from swarm.services.operate.people import PersonalData
from swarm.store.admin import preparation
from swarm.store.bridge.database import Database

SECONDS: Final = 600.0
"""How long the coordinator may take: a person may have written a lot."""


def run(settings: Settings, out: Console, person: str, *, dry_run: bool, yes: bool) -> int:
    """Forget a person, after showing the amount of data. Returns the exit code."""
    found = _forget(settings, person, dry_run=True)
    _print(out, found)
    if dry_run or not found["removed"]:
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Nobody is there to be asked.", hint="Say --yes.")
        if not Confirm.ask(f"Forget {found['person']}? It cannot be undone", console=out, default=False):
            return 1
    _print(out, _forget(settings, found["person"], dry_run=False))
    return 0


def _forget(settings: Settings, person: str, *, dry_run: bool) -> Mapping[str, Any]:
    """Forget by the running coordinator; without one, in the database."""
    try:
        token = home.operator_token(settings)
        with CoordinatorClient(settings.http.address, token, timeout_seconds=SECONDS) as coordinator:
            path = f"/people/{quote(person, safe='@')}/forget"
            found: Mapping[str, Any] = coordinator.call("POST", path, json={"dry_run": dry_run})
            return found
    except (NoServer, ConfigurationError):  # without a token, none has ever run in this home
        if settings.http.url:  # the settings mean another coordinator than one on the database here
            raise
        return asyncio.run(_forget_directly(settings, person, dry_run=dry_run))


async def _forget_directly(settings: Settings, person: str, *, dry_run: bool) -> Mapping[str, Any]:
    preparation.prepare(settings.database_url)
    async with Database(settings.database_url) as database:
        return asdict(
            await PersonalData(database, settings_mapping.operating_policy(settings)).forget(person, dry_run=dry_run)
        )


def _print(out: Console, found: Mapping[str, Any]) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in found["removed"].items())
    verb = "There are" if found["dry_run"] else "Removed:"
    sentence = f"{verb} {kinds} of {found['person']}." if kinds else f"There is nothing of {found['person']}."
    out.print(sentence, soft_wrap=True, markup=False)
