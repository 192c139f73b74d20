"""``swarm logs``: what the programs of workers have written."""

from __future__ import annotations

import os
import sys
import time
from typing import Final
from urllib.parse import quote

from swarm.app import home
from swarm.cli import NoServer
from swarm.cli.operator_commands import CoordinatorAway, CoordinatorClient, CoordinatorRefused, coordinator_settings
from swarm.cli.terminal import Terminal
from swarm_base.characters import for_terminal

_err = Terminal(stderr=True)
_FOLLOW_SECONDS: Final = 50
_PAUSE_SECONDS: Final = 1.0


def logs(work: str, *, run: int | None = None, follow: bool = False) -> None:
    """Show the log of a run: what the program of a worker has written while it worked (see `swarm run`).

    The log goes to standard output, without colours and other escape sequences; which run it is, to standard error.
    Logs are kept for 14 days (retention.run_logs_days).

    Examples:

        swarm tasks list

        swarm logs 01a20cd1-… --follow

        swarm logs 01a20cd1-… --run 1 | less

    Parameters
    ----------
    work
        The id of a task, for its latest run; or of a run, which is the turn_id of an answer.
    run
        Another run on the task: 1 is the first.
    follow
        Go on until the run ends, or until Ctrl-C. Waits for a run that has not begun, and for a coordinator that starts
        again.
    """
    settings = coordinator_settings()
    client = CoordinatorClient(
        settings.http.address, home.operator_token(settings), timeout_seconds=_FOLLOW_SECONDS + 10
    )
    with client as coordinator:
        run_id = _run_of(coordinator, work, run, follow=follow)
        if run_id is None:
            _err.print("No agent has worked on this task yet.")
            return
        try:
            _show_log(coordinator, run_id, follow=follow)
        except BrokenPipeError:  # such as that of `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_of(coordinator: CoordinatorClient, work: str, number: int | None, *, follow: bool) -> str | None:
    """Returns the id of a run: one on a task, or ``work`` itself; None for no run. By default it is the latest run with
    a log, or to follow the latest one, which is waited for while the task is open."""
    place, is_told = f"/tasks/{quote(work, safe='')}", False
    while True:
        try:
            found = coordinator.call("GET", f"{place}/runs")["runs"]
        except CoordinatorAway:
            raise
        except CoordinatorRefused:
            return work  # asked for as a run, which is refused if there is none
        if found or not follow or coordinator.call("GET", place)["ended_at"]:
            break
        if not is_told:
            _err.print("No agent has worked on this task yet. This waits for one; Ctrl-C stops.", style="dim")
        is_told = True
        time.sleep(_PAUSE_SECONDS)
    runs = found[::-1]
    if number is not None and not 1 <= number <= len(runs):
        raise CoordinatorRefused(f"There is no run {number}: the task has {len(runs)}.")
    if not runs:
        return None
    logged = [at for at, one in enumerate(runs) if one["log_bytes"] and not follow] or [len(runs) - 1]
    at = logged[-1] if number is None else number - 1
    one = runs[at]
    _err.print(f"Run {at + 1} of {len(runs)}, by {one['agent']}, since {one['started_at']}:", style="dim")
    return str(one["id"])


def _show_log(coordinator: CoordinatorClient, run_id: str, *, follow: bool) -> None:
    after, wait, is_away = 0, _FOLLOW_SECONDS if follow else 0, False
    while True:
        query = {"after": after, "wait_seconds": wait}
        try:
            part = coordinator.call("GET", f"/runs/{quote(run_id, safe='')}/log", params=query)
        except (NoServer, CoordinatorAway):
            if not follow:
                raise
            if not is_away:
                _err.print("The coordinator does not answer. This waits for it; Ctrl-C stops.", style="dim")
            is_away = True
            time.sleep(_PAUSE_SECONDS)
            continue
        is_away = False
        if part["start"] > after:
            _err.print("(What was before is no longer kept.)", style="dim")
        sys.stdout.write(for_terminal(part["text"]))
        sys.stdout.flush()
        if part["over"] or (part["next"] == after and not follow):
            break
        after = part["next"]
    if part["next"] == 0:
        _err.print("This run has no log." if part["over"] else "This run has no log yet.")
