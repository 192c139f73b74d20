"""Reports the findings, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Column, Table

from swarm.cli.terminal import Terminal
from swarm.conformance.checks import Verdict
from swarm.conformance.run import Result
from swarm.conformance.scenarios import Scenario

_WIDTH: Final = 120
"""The width of the table if there is no terminal."""


class Progress:
    """Shows the progress of the suite on standard error."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._console = Terminal(stderr=True)
        self._left = len(scenarios)
        self._spinner = self._console.status("")

    def __enter__(self) -> Progress:
        self._spinner.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._spinner.stop()

    def begun(self, scenario: Scenario) -> None:
        """Shows the start of a scenario."""
        self._spinner.update(f"{scenario.name}: “{scenario.prompt}” ({self._left} to go)")

    def done(self, result: Result) -> None:
        """Shows the end of a scenario."""
        self._left -= 1
        self._console.print(f"{result.scenario.name}: {_tally(result.verdicts)} in {result.seconds:.1f} s")


def _tally(verdicts: Sequence[Verdict]) -> str:
    """Counts the passed checks."""
    return f"{sum(verdict.passed for verdict in verdicts)} of {len(verdicts)} checks passed"


def show(agent: str, results: Sequence[Result]) -> None:
    """Prints the table, and advice for each failed check."""
    console = Terminal(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(_table(agent, results))
    for result in results:
        for verdict in result.verdicts:
            if not verdict.passed:
                _explain(console, result.scenario, verdict)
    console.print(_tally([verdict for result in results for verdict in result.verdicts]), style="bold")


def as_json(agent: str, results: Sequence[Result]) -> str:
    """Returns as JSON the content of `show` and the texts of the answers."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    document = {
        "agent": agent,
        "checks": len(verdicts),
        "passed": sum(verdict.passed for verdict in verdicts),
        "scenarios": [_scenario(result) for result in results],
    }
    return json.dumps(document, indent=2)


def _table(agent: str, results: Sequence[Result]) -> Table:
    table = Table(Column("scenario", no_wrap=True), Column("check", no_wrap=True), "", "seen", title=agent)
    for result in results:
        name = result.scenario.name
        for verdict in result.verdicts:
            table.add_row(
                name, verdict.check.value, "ok" if verdict.passed else "FAILED", verdict.found.seen,
                style="" if verdict.passed else "red",
            )  # fmt: skip
            name = ""
        table.add_section()
    return table


def _explain(console: Console, scenario: Scenario, verdict: Verdict) -> None:
    console.print(f"\n{scenario.name}, {verdict.check.value}: failed", style="bold red")
    for name, text in (
        ("asked", scenario.prompt),
        ("expected", verdict.found.expected),
        ("seen", verdict.found.seen),
        ("to do", verdict.found.hint),
    ):
        console.print(f"  {name + ':':<10}{text}", soft_wrap=True)


def _scenario(result: Result) -> dict[str, Any]:
    return {
        "name": result.scenario.name,
        "prompt": result.scenario.prompt,
        "passed": result.passed,
        "seconds": round(result.seconds, 3),
        "text": result.record.text,
        "tools": list(result.record.tools),
        "checks": [_check(verdict) for verdict in result.verdicts],
    }


def _check(verdict: Verdict) -> dict[str, Any]:
    found = verdict.found
    return {
        "check": verdict.check.value,
        "passed": verdict.passed,
        "expected": found.expected,
        "seen": found.seen,
        "hint": found.hint,
    }
