"""The command ``swarm``."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.app import home, preflight
from swarm.cli.backup import backup, restore
from swarm.cli.bench import bench
from swarm.cli.chat import chat
from swarm.cli.client import CoordinatorClient, NoServer, in_one_line
from swarm.cli.conformance import conformance
from swarm.cli.eval import evaluation
from swarm.cli.terminal import Terminal
from swarm.config import LogFormat, SlackMode, load, secrets
from swarm.domain.errors import ConfigurationError, SwarmError
from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.operating_policy import SETTINGS_KEPT
from swarm.domain.text.characters import for_terminal, line_for_terminal
from swarm.entrypoints.web import loading
from swarm.telemetry import log

app = App(
    name="swarm",
    help="A team of AI agents behind one Slack app.\n\nTry it without Slack and without a model: `swarm demo`.",
)
agents = App(name="agents", help="Register agents and see who is there.")
db = App(name="db", help="The database's schema.")
tasks = App(name="tasks", help="See and stop what the agents work on.")
slack = App(name="slack", help="Set up the Slack app.")
for group in (agents, tasks, db, slack, bench, evaluation):
    app.command(group)
app.command(conformance)
app.command(chat)
app.command(backup)
app.command(restore)

_out = Terminal()

NO_TWIN = (
    "This command needs the local Slack workspace, the package slack-twin, which is not installed. "
    "Install its wheel (`make dist`), or in a checkout `pip install ./packages/slack_twin`."
)


@app.command
def up() -> None:
    """Run the coordinator. Needs SLACK_BOT_TOKEN and SLACK_APP_TOKEN (see `swarm slack manifest`)."""
    settings = load()
    preflight.check(settings)
    with loading.uncollected():
        from swarm.app import bootstrap  # heavy, so errors in the settings are reported before

    as_json = None if settings.log.format is LogFormat.AUTO else settings.log.format is LogFormat.JSON
    log.configure(settings.log.level, as_json=as_json, secrets=secrets(settings))
    bootstrap.run(settings)


@app.command
def reload() -> None:
    """Reload the settings of the coordinator that runs here; SIGHUP does the same.

    Channels, channel_defaults, agents.default, agents.dm and reactions change at once. Everything else needs a restart.
    """
    try:
        done = _operate("POST", "/reload")
    except ConfigurationError as error:  # the settings are read here as well, to find the coordinator
        raise ConfigurationError(error.message, hint=error.hint or SETTINGS_KEPT) from error
    _out.print(f"changed: {', '.join(done['changed']) or 'nothing'}", soft_wrap=True)
    if done["needs_restart"]:
        _out.print(f"needs a restart: {', '.join(done['needs_restart'])}", soft_wrap=True)
    for doubt in done["doubts"]:
        _out.print(doubt, soft_wrap=True)


@app.command
def demo() -> int:
    """Run everything on this machine: a Slack twin, the coordinator, rule-driven agents, and rules in place of a model.

    PORT (8080), TWIN_PORT (8400) and SWARM_HOME (.demo/) can be set in the environment. With SLACK_BOT_TOKEN and
    SLACK_APP_TOKEN set, the real Slack takes the twin's place; with LLM_MODEL and a key, or Ollama, a real model
    answers in the place of the rules.
    """
    from swarm.demo import run

    log.configure("warning")
    return run.main()


@app.command
def twin(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(env_var="TWIN_PORT")] = 8400,
    rates: Annotated[str, Parameter(env_var="TWIN_RATES")] = "on",
    allow_host: tuple[str, ...] = (),
    allow_origin: tuple[str, ...] = (),
) -> int:
    """Run the Slack twin: a local workspace with Slack's API, Socket Mode and a page. The same as `slack-twin`.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port of the page, the control API and the Web API (under /api/).
    rates
        `on` or `off`: whether Slack's rate limits count; off is for load tests.
    allow_host
        A further name of this machine that is answered, such as twin.example.org; may be given several times.
    allow_origin
        Another web page that may call the twin, such as http://localhost:3000; may be given several times.
    """
    from slack_twin.__main__ import run_twin

    return run_twin(host, port, rates=rates, hosts=allow_host, origins=allow_origin)


@agents.command(name="add")
def add_agent(
    name: str,
    *,
    role: Role = Role.WORKER,
    description: str = "",
    capability: Annotated[list[str] | None, Parameter(negative=())] = None,
) -> None:
    """Register an agent and show its token, this once.

    Parameters
    ----------
    name
        1 to 32 of a-z, 0-9 and '-'.
    role
        A lead reads, answers and delegates; a worker works on tasks.
    description
        What it is good at, for the agents that delegate.
    capability
        A word for what it can do; may be given several times.
    """
    added = _operate(
        "POST",
        "/agents",
        json={"name": name, "role": role.value, "description": description, "capabilities": capability or []},
    )
    _out.print(f"{added['name']} ({added['role']}) is registered. Its token, which is not shown again:")
    print(for_terminal(added["token"]))


@agents.command(name="list")
def list_agents() -> None:
    """Show all agents and whether they are online."""
    table = Table("name", "role", "reached by", "status", "description", "id")
    for agent in _operate("GET", "/agents")["agents"]:
        description = line_for_terminal(agent["description"])
        table.add_row(agent["name"], agent["role"], agent["reach"], agent["status"], description, agent["id"])
    _out.print(table)


@agents.command(name="rotate")
def rotate_agent(name: str) -> None:
    """Replace an agent's token; the old one ends now."""
    print(for_terminal(_operate("POST", f"/agents/{name}/rotate")["token"]))


@agents.command(name="revoke")
def revoke_agent(name: str) -> None:
    """Remove an agent: its token ends now, and its work goes to the default lead."""
    answer = _operate("DELETE", f"/agents/{name}")
    _out.print(f"{name} is removed.")
    for warning in (answer or {}).get("warnings", ()):
        _out.print(line_for_terminal(warning))


@app.command
def explain(message: str) -> None:
    """Explain why a message was routed to its agent, and what became of it.

    Parameters
    ----------
    message
        A message's link, CHANNEL:TS, or the id of an inbox message or of a task.
    """
    found = _operate("GET", "/explain", params={"message": message})
    owner = f", thread of {found['owner']}" if found["owner"] else ""
    _out.print(f"{found['channel']}:{found['ts']}{owner}", style="bold")
    _print_steps(found["routing"])
    for entry in found["entries"]:
        _out.print(
            f"\ninbox message {entry['inbox_message_id']} for {entry['agent'] or 'nobody yet'}: {entry['status']}"
        )
        _print_steps(entry["timeline"])
        for delivery in entry["deliveries"]:
            _out.print(f"  {line_for_terminal(delivery)}")
    for task in found["tasks"]:
        title = line_for_terminal(task["title"])
        _out.print(f"\ntask {task['task_id']} “{title}” of {task['agent'] or 'nobody'}: {task['status']}")
        _print_steps(task["timeline"])
        for delivery in task["deliveries"]:
            _out.print(f"  {line_for_terminal(delivery)}")


@tasks.command(name="list")
def list_tasks(*, status: TaskStatus | None = None, limit: int = 20) -> None:
    """Show the newest tasks: who does what.

    Parameters
    ----------
    status
        Only tasks in this state.
    limit
        The most tasks to show.
    """
    query = {"limit": limit} | ({"status": status.value} if status else {})
    table = Table(Column("id", no_wrap=True), "title", Column("status", no_wrap=True), "worker", "from", "progress")
    for task in _operate("GET", "/tasks", params=query)["tasks"]:
        share = f" ({task['percent']} %)" if task["percent"] is not None else ""
        table.add_row(
            task["id"],
            line_for_terminal(task["title"]),
            task["status"],
            task["agent"] or "-",
            task["created_by"] or "operator",
            line_for_terminal(task["progress"] or "") + share,
        )
    _out.print(table)


@tasks.command(name="show")
def show_task(task_id: str) -> None:
    """Show one task: what is to be done, and what came of it."""
    task = _operate("GET", f"/tasks/{task_id}")
    _out.print(f"{line_for_terminal(task['title'])}: {task['status']}", style="bold")
    for name in (
        "id", "agent", "created_by", "requester", "priority", "attempts", "parent_id", "created_at", "ended_at",
    ):  # fmt: skip
        if task[name] not in (None, ""):
            _out.print(f"  {name}: {task[name]}")
    for other in task["dependencies"]:
        _out.print(f"  depends on {other['id']} “{line_for_terminal(other['title'])}”: {other['status']}")
    for name in ("description", "progress", "result", "error"):
        if task[name]:
            _out.print(f"\n{name}:\n{task[name]}", soft_wrap=True)


@tasks.command(name="cancel")
def cancel_task(task_id: str, *, reason: str = "") -> None:
    """Stop a task that is not over; its agent and its thread are told."""
    task = _operate("POST", f"/tasks/{task_id}/cancel", json={"reason": reason})
    _out.print(f"“{task['title']}” is cancelled.")


@tasks.command(name="redrive")
def redrive_task(task_id: str) -> None:
    """Bring a dead task back, with its attempts set to zero."""
    task = _operate("POST", f"/tasks/{task_id}/redrive")
    _out.print(f"“{task['title']}” is {task['status']} again.")


@app.command
def tray(
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet_when_empty: Annotated[bool, Parameter(negative=())] = False,
    hook: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show what waits for an agent: unread messages, mentions, its tasks, its threads.

    For a person at the agent's side, and for the hooks of coding CLIs. SWARM_AGENT_TOKEN names the agent, SWARM_URL
    the coordinator (http://127.0.0.1:8080).

    Parameters
    ----------
    as_json
        Print the data of GET /tray.
    quiet_when_empty
        Print nothing if nothing waits.
    hook
        End with exit code 0 in any case, so that a coding CLI goes on; errors are still printed.
    """
    from swarm.cli import tray as tray_command

    return tray_command.run(os.environ, _out, as_json=as_json, quiet_when_empty=quiet_when_empty, hook=hook)


@app.command
def forget(
    person: str,
    *,
    dry_run: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), show_default=False)] = False,
) -> int:
    """Remove what a person wrote and what names them, for good; their open work is withdrawn.

    What they wrote in Slack stays in Slack, and is not stored again when it is read there. Without a coordinator that
    runs, the database is changed directly. Backups keep what they have.

    Parameters
    ----------
    person
        A Slack user's id, U0123456789, or @name.
    dry_run
        Only count what there is.
    yes
        Do not ask.
    """
    from swarm.cli import forget as forget_command

    return forget_command.run(load(), _out, person, dry_run=dry_run, yes=yes)


@app.command
def prompt(role: Role) -> None:
    """Print the base prompt for a role: what to give to a model before any trigger.

    A file of your own, $SWARM_HOME/prompts/lead.md or worker.md, takes the place of the built-in one.
    """
    from swarm.services.operate.base_prompts import BasePrompts

    print(BasePrompts(home.prompts(load())).text(role))


@db.command
def upgrade() -> None:
    """Bring the database's schema to this version."""
    from swarm.store.admin import migrations

    settings = load()
    home.prepare(settings)
    done = migrations.upgrade(settings.database_url)
    _out.print("\n".join(f"applied {name}" for name in done) or "Nothing to do: the schema is current.")


@slack.command
def manifest(
    *,
    mode: SlackMode = SlackMode.SOCKET,
    url: str = "https://example.com/slack/events",
    agent: Annotated[bool, Parameter(negative=())] = False,
    emails: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Print the Slack app's manifest, with exactly the scopes and events that are used.

    Create the app at https://api.slack.com/apps ("From a manifest"), install it, and put its tokens into ./.env.

    Parameters
    ----------
    mode
        How Slack reaches the coordinator: socket needs no public address.
    url
        Where Slack sends events in http mode.
    agent
        Declare the app as an agent: with Slack's own Stop button (slack.agent_sessions). Not every plan has that.
    emails
        Ask for people's e-mail addresses, for channels that share them with agents (share_email).
    """
    from swarm.slack.manifest import EventTransport
    from swarm.slack.manifest import manifest as make

    print(json.dumps(make(EventTransport(mode.value), request_url=url, agent=agent, emails=emails), indent=2))


def _print_steps(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        who = f" {step['agent']}" if step["agent"] else ""
        why = f": {line_for_terminal(step['reason'])}" if step["reason"] else ""
        _out.print(f"  {step['at']}  {step['change']}{who}{why}", soft_wrap=True)


def _operate(method: str, path: str, **options: Any) -> Any:
    """Send a request to the running coordinator. Commands never change a database behind its back."""
    settings = load()
    with CoordinatorClient(settings.http.address, home.operator_token(settings)) as coordinator:
        return coordinator.call(method, path, **options)


def main() -> None:
    """Run a command. An error the user can fix is one line on standard error and exit code 1."""
    try:
        result = app(result_action="return_value")
    except (SwarmError, NoServer) as error:
        print(f"swarm: {in_one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name != "slack_twin":
            raise
        print(f"swarm: {NO_TWIN}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
