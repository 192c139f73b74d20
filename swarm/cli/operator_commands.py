"""The commands for a running coordinator (``swarm agents``, ``tasks``, ``explain``, ``feedback``, ``usage``,
``reload``) and their client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Annotated, Any, Self

import httpx2
from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.app import home
from swarm.cli import NoServer, fields_hint
from swarm.cli.terminal import Terminal, write_json_lines
from swarm.config import Settings, load_part
from swarm.config.reading import where_set
from swarm.domain.errors import ConfigurationError, SwarmError
from swarm.domain.model.agents import Role
from swarm.domain.model.budgets import dollars_text
from swarm.domain.model.language_models import UsageGrouping
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.policy.operating import SETTINGS_KEPT
from swarm_base.characters import for_terminal, line_for_terminal

agents = App(name="agents", help="Register and list agents.")
tasks = App(name="tasks", help="Show and cancel the agents' tasks.")

_out = Terminal()


class CoordinatorRefused(SwarmError):
    """The coordinator refused a request."""

    code = "refused"


class CoordinatorAway(CoordinatorRefused):
    """The coordinator broke off an answer, or cannot answer now."""


class CoordinatorClient:
    """A client for a running coordinator, which authenticates with the operator's token or an agent's."""

    def __init__(self, base_url: str, token: str, *, timeout_seconds: float = 10, of: str = "") -> None:
        self._of = of  # where the token is from; empty: it is the operator's
        self._http = httpx2.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_seconds,
            trust_env=False,  # a proxy cannot reach this machine
            verify=base_url.startswith("https:"),  # loading certificates takes a tenth of a second
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Makes one call. Returns the decoded answer, None for HTTP 204. Raises NoServer or CoordinatorRefused."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.ConnectError as error:
            address = str(self._http.base_url).rstrip("/")
            raise NoServer(
                f"No coordinator answers at {address}. SWARM_URL, or PORT on this machine, gives its address; `swarm "
                f"up` starts one."
            ) from error
        except httpx2.HTTPError as error:
            raise CoordinatorAway(f"The coordinator did not answer properly: {error}") from error
        if answer.status_code == HTTPStatus.NO_CONTENT:
            return None
        content = _content(answer)
        if answer.is_success and content is not None:
            return content
        if answer.status_code == HTTPStatus.UNAUTHORIZED and content is not None:
            is_set = not self._of and coordinator_settings().operator_token
            own = where_set("operator_token") if is_set else "The operator token in the home folder (SWARM_HOME)"
            raise CoordinatorRefused(f"{self._of or own} is not a token of the coordinator at {self._http.base_url}.")
        match content:
            case {"error": {"message": str(message), "fields": {**fields}}} if fields:
                raise CoordinatorRefused(message, hint=fields_hint({str(name): str(fields[name]) for name in fields}))
            case {"error": {"message": str(message), "hint": hint}}:
                is_away = answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
                raise (CoordinatorAway if is_away else CoordinatorRefused)(message, hint=hint)
            case _:
                raise CoordinatorRefused(
                    f"The server at {self._http.base_url} is not a coordinator: HTTP {answer.status_code}."
                )


def _content(answer: httpx2.Response) -> Any:
    """Returns the decoded JSON, or None for other content."""
    try:
        return answer.json()
    except ValueError:
        return None


def reload() -> None:
    """Reload the settings of the coordinator on this machine; SIGHUP does the same.

    Channels, channel_defaults, agents.access, agents.default, agents.dm, budgets, operators and reactions change at
    once. Everything else needs a restart.
    """
    try:
        done = operate("POST", "/reload")
    except ConfigurationError as error:  # the settings are also read here, to find the coordinator
        raise ConfigurationError(error.message, hint=error.hint or SETTINGS_KEPT) from error
    _out.print(f"changed: {', '.join(done['changed']) or 'nothing'}", soft_wrap=True)
    if done["needs_restart"]:
        _out.print(f"needs a restart: {', '.join(done['needs_restart'])}", soft_wrap=True)
    for doubt in done["doubts"]:
        _out.print(doubt, soft_wrap=True)


@agents.command(name="add")
def _add_agent(
    name: str,
    *,
    role: Role = Role.WORKER,
    description: str = "",
    capability: Annotated[list[str] | None, Parameter(negative=())] = None,
) -> None:
    """Register an agent and show its token, which is not shown again.

    Parameters
    ----------
    name
        1 to 32 of a-z, 0-9 and '-'.
    role
        A lead reads, answers and delegates; a worker works on tasks.
    description
        What the agent is good at, for agents that delegate.
    capability
        A capability in one word; may be given several times.
    """
    added = operate(
        "POST",
        "/agents",
        json={"name": name, "role": role.value, "description": description, "capabilities": capability or []},
    )
    _out.print(f"{added['name']} ({added['role']}) is registered. Its token, which is not shown again:")
    sys.stdout.write(for_terminal(added["token"]) + "\n")


@agents.command(name="list")
def _list_agents() -> None:
    """Show all agents and whether they are online."""
    table = Table("name", "role", "reached by", "status", "description", "id")
    found = operate("GET", "/agents")["agents"]
    for agent in found:
        description = line_for_terminal(agent["description"])
        status = agent["status"] + (f", limit reached until {until}" if (until := agent.get("parked_until")) else "")
        table.add_row(agent["name"], agent["role"], agent["reach"], status, description, agent["id"])
    _out.print_rows(table, "No agent is registered.", below={"id": "description"})
    for agent in found:
        for tool, why in agent.get("unoffered", {}).items():
            _out.print(line_for_terminal(f"{agent['name']} is not offered the tool {tool}: {why}"), soft_wrap=True)


@agents.command(name="rotate")
def _rotate_agent(name: str) -> None:
    """Replace an agent's token; the old token becomes invalid at once."""
    sys.stdout.write(for_terminal(operate("POST", f"/agents/{name}/rotate")["token"]) + "\n")


@agents.command(name="revoke")
def _revoke_agent(name: str) -> None:
    """Remove an agent. Its token becomes invalid at once, and its work goes to the default lead."""
    answer = operate("DELETE", f"/agents/{name}")
    _out.print(f"{name} is removed.")
    for warning in (answer or {}).get("warnings", ()):
        _out.print(line_for_terminal(warning))


def explain(message: str) -> None:
    """Explain why a message was routed to its agent, and show what happened to it.

    Parameters
    ----------
    message
        A message's link, CHANNEL:TS, or the id of an inbox message or of a task.
    """
    found = operate("GET", "/explain", params={"message": message})
    owner = f", thread of {found['owner']}" if found["owner"] else ""
    _out.print(f"{found['channel']}:{found['ts']}{owner}", style="bold")
    _print_steps(found["routing"])
    if escalation := found["escalation"]:
        reason = f": {line_for_terminal(escalation['reason'])}" if escalation["reason"] else ""
        by = f"{escalation['by']} by {escalation['door']}, {escalation['at']}"
        _out.print(f"\nescalated by {by}{reason}")
        _print_indented(escalation["effects"])
    for entry in found["entries"]:
        agent = entry["agent"] or "nobody yet"
        _out.print(f"\ninbox message {entry['inbox_message_id']} for {agent}: {entry['status']}{_waits(entry)}")
        _print_steps(entry["timeline"])
        _print_indented(entry["deliveries"])
    for task in found["tasks"]:
        title = line_for_terminal(task["title"])
        _out.print(f"\ntask {task['task_id']} “{title}” of {task['agent'] or 'nobody'}: {task['status']}{_waits(task)}")
        _print_steps(task["timeline"])
        _print_indented(task["deliveries"])


def _waits(explained: dict[str, Any]) -> str:
    return f", waits for {line_for_terminal(explained['waits_for'])}" if explained["waits_for"] else ""


def feedback(
    *,
    since: str | None = None,
    agent: str | None = None,
    limit: int = 20,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Show what people think of answers: all opinions counted by agent and reason, and the newest ones; and the newest
    remarks about the swarm.

    Parameters
    ----------
    since
        A time in ISO 8601; by default everything that is kept.
    agent
        Only answers of this agent, and no remarks.
    limit
        The maximum number of opinions, and of remarks, to show, at most 500.
    as_json
        Write the opinions and then the remarks, which have a ``text``, as JSON lines, for other programs.
    """
    found = operate("GET", "/feedback", params={"since": since, "agent": agent, "limit": limit})
    if as_json:
        write_json_lines([*found["feedback"], *found.get("remarks", ())])
        return
    counts = Table("agent", "opinion", "reason", Column("count", justify="right"))
    for row in found["counts"]:
        counts.add_row(row["agent"], row["value"], _in_words(row["reason"]), str(row["count"]))
    _out.print_rows(counts, "Nobody has rated an answer.")
    for one in found["feedback"]:
        why = ": ".join(filter(None, (_in_words(one["reason"]), line_for_terminal(one["comment"] or ""))))
        place = f"{one['channel']}:{one['message_ts']}"
        _out.print(
            f"{one['created_at']}  {one['value']} by {one['user_id']} for {one['agent']} at {place}  {why}".rstrip(),
            soft_wrap=True,
        )
    for one in found.get("remarks", ()):
        remark = line_for_terminal(one["text"])
        _out.print(f"{one['at']}  remark by {one['user_id']} in {one['channel']}  {remark}", soft_wrap=True)


def usage(
    *,
    by: UsageGrouping = UsageGrouping.DAY,
    days: int = 7,
    agent: str | None = None,
    thread: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Show what agents have used of models: tokens, and cost as far as it is known.

    Parameters
    ----------
    by
        What is added up: day (by agent and model), agent, thread, or run.
    days
        The number of days in UTC, including today, at most 90.
    agent
        Only runs of this agent.
    thread
        Only runs in the thread with this id.
    as_json
        Write JSON lines, for other programs.
    """
    found = operate("GET", "/usage", params={"by": by.value, "days": days, "agent": agent, "thread_id": thread})
    if as_json:
        write_json_lines(found["usage"])
        return
    names = [name for name in ("day", "agent", "model", "thread_id", "run_id") if any(r[name] for r in found["usage"])]
    figures = [Column(name, justify="right") for name in ("runs", "input", "output", "cost")]
    table = Table(*(name.removesuffix("_id") for name in names), *figures)
    for row in found["usage"]:
        tokens = (f"{row[name]:,}" for name in ("runs", "input_tokens", "output_tokens"))
        table.add_row(*(line_for_terminal(row[name] or "") for name in names), *tokens, _cost(row))
    below = dict.fromkeys(("model", "thread", "run"), "agent")
    _out.print_rows(table, "No usage in this period.", below=below)


def _cost(row: dict[str, Any]) -> str:
    """Returns the cost of runs, with a mark if it is not known of all."""
    if row["cost_microdollars"] is None:
        return "unknown"
    return dollars_text(row["cost_microdollars"]) + ("+" if row["runs_of_unknown_cost"] else "")


def _in_words(reason: str | None) -> str:
    return (reason or "").replace("_", " ")


@tasks.command(name="list")
def _list_tasks(*, status: TaskStatus | None = None, limit: int = 20) -> None:
    """Show the newest tasks and their agents.

    Parameters
    ----------
    status
        Only tasks in this state.
    limit
        The maximum number of tasks to show.
    """
    query = {"limit": limit, "status": status and status.value}
    table = Table(
        Column("id", no_wrap=True),
        "title",
        Column("status", no_wrap=True),
        Column("worker", no_wrap=True),
        "from",
        "progress",
    )
    for task in operate("GET", "/tasks", params=query)["tasks"]:
        share = f" ({task['percent']} %)" if task["percent"] is not None else ""
        table.add_row(
            task["id"],
            line_for_terminal(task["title"]),
            task["status"],
            task["agent"] or "-",
            task["created_by"] or "operator",
            line_for_terminal(task["progress"] or "") + share,
        )
    _out.print_rows(table, "There is no task.", below={"id": "title"})


@tasks.command(name="show")
def _show_task(task_id: str) -> None:
    """Show one task with its description and result, and whether its runs have logs."""
    task = operate("GET", f"/tasks/{task_id}")
    logged = sum(bool(run["log_bytes"]) for run in operate("GET", f"/tasks/{task_id}/runs")["runs"])
    _out.print(f"{line_for_terminal(task['title'])}: {task['status']}", style="bold")
    for name in (
        "id", "agent", "created_by", "requester", "priority", "attempts", "parent_id", "created_at", "ended_at",
    ):  # fmt: skip
        if task[name] not in (None, ""):
            _out.print(f"  {name}: {task[name]}")
    if logged:
        _out.print(f"  logs: of {logged} run(s), see `swarm logs {task_id}`", soft_wrap=True)
    for other in task["dependencies"]:
        _out.print(f"  depends on {other['id']} “{line_for_terminal(other['title'])}”: {other['status']}")
    for name in ("description", "progress", "result", "error"):
        if task[name]:
            _out.print(f"\n{name}:\n{task[name]}", soft_wrap=True)


@tasks.command(name="cancel")
def _cancel_task(task_id: str, *, reason: str = "") -> None:
    """Cancel a task that has not ended; its agent and its thread are notified."""
    task = operate("POST", f"/tasks/{task_id}/cancel", json={"reason": reason})
    _out.print(f"“{task['title']}” is cancelled.")


@tasks.command(name="redrive")
def _redrive_task(task_id: str) -> None:
    """Bring back a dead task, with its attempts set to zero."""
    task = operate("POST", f"/tasks/{task_id}/redrive")
    _out.print(f"“{task['title']}” is {task['status']} again.")


def _print_steps(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        who = f" {step['agent']}" if step["agent"] else ""
        why = f": {line_for_terminal(step['reason'])}" if step["reason"] else ""
        _out.print(f"  {step['at']}  {step['change']}{who}{why}", soft_wrap=True)


def _print_indented(lines: Iterable[str]) -> None:
    for line in lines:
        _out.print(f"  {line_for_terminal(line)}")


def coordinator_settings() -> Settings:
    """Returns the settings by which a running coordinator is found, and no others: a settings file beside may be for
    something else. Raises ConfigurationError."""
    settings, problem = load_part((("home",), ("http", "host"), ("http", "port"), ("http", "url"), ("operator_token",)))
    if problem:
        raise ConfigurationError(problem)
    return settings


def operate(method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None) -> Any:
    """Sends a request to the running coordinator, with the ``params`` that are not None. Commands never bypass it to
    change the database.
    """
    query = {name: value for name, value in (params or {}).items() if value is not None}
    settings = coordinator_settings()
    with CoordinatorClient(settings.http.address, home.operator_token(settings)) as coordinator:
        return coordinator.call(method, path, params=query, json=json)
