"""Reports the findings, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Column, Table

from swarm.cli.terminal import Terminal
from swarm_lab.conformance.checks import Verdict
from swarm_lab.conformance.run import Result
from swarm_lab.conformance.scenarios import Scenario

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
        tally = _tally(result.verdicts) if result.verdicts else _tally_beyond(result.beyond)
        self._console.print(f"{result.scenario.name}: {tally} in {result.seconds:.1f} s")


def _tally(verdicts: Sequence[Verdict]) -> str:
    """Counts the passed checks."""
    return f"{sum(verdict.passed for verdict in verdicts)} of {len(verdicts)} checks passed"


def _tally_beyond(verdicts: Sequence[Verdict]) -> str:
    return f"beyond the 22: {_tally(verdicts)}"


def show(agent: str, results: Sequence[Result]) -> None:
    """Prints the table of the 22 checks, that of the checks beyond them, and advice for each failed check."""
    console = Terminal(width=None if sys.stdout.isatty() else _WIDTH)
    found, beyond = _of_22(results), _beyond(results)
    tables = [(agent, found), (f"{agent}, beyond the 22", beyond)]
    for title, rows in tables:
        if rows:
            console.print(_table(title, rows))
    for result, verdicts in (*found, *beyond):
        for verdict in verdicts:
            if not verdict.passed:
                _explain(console, result.scenario, verdict)
    if beyond:
        console.print(_tally_beyond([verdict for _, verdicts in beyond for verdict in verdicts]), style="bold")
    if found:
        console.print(_tally([verdict for _, verdicts in found for verdict in verdicts]), style="bold")


_Rows = Sequence[tuple[Result, Sequence[Verdict]]]


def _of_22(results: Sequence[Result]) -> _Rows:
    return [(result, result.verdicts) for result in results if result.verdicts]


def _beyond(results: Sequence[Result]) -> _Rows:
    return [(result, result.beyond) for result in results if result.beyond]


def as_json(agent: str, results: Sequence[Result]) -> str:
    """Returns as JSON the content of `show` and the texts of the answers."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    beyond = [verdict for result in results for verdict in result.beyond]
    document = {
        "agent": agent,
        "checks": len(verdicts),
        "passed": sum(verdict.passed for verdict in verdicts),
        "beyond": {"checks": len(beyond), "passed": sum(verdict.passed for verdict in beyond)},
        "scenarios": [_scenario(result) for result in results],
    }
    return json.dumps(document, indent=2)


def _table(title: str, rows: _Rows) -> Table:
    table = Table(Column("scenario", no_wrap=True), Column("check", no_wrap=True), "", "seen", title=title)
    for result, verdicts in rows:
        name = result.scenario.name
        for verdict in verdicts:
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
        "beyond": [_check(verdict) for verdict in result.beyond],
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
