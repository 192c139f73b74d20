"""The commands of ``swarm``. `swarm.cli.main` starts them."""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from typing import Annotated

from cyclopts import App, Parameter

from swarm import extensions
from swarm.app import home
from swarm.cli.main import up
from swarm.cli.terminal import Terminal
from swarm.config import SlackMode, load, load_part
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role
from swarm_base.prompts import base_prompt

app = App(
    name="swarm",
    help="A team of AI agents behind one Slack app.\n\nTry it without Slack and without a model: `swarm demo`.",
)
db = App(name="db", help="The database's schema.")
slack = App(name="slack", help="Set up the Slack app.")
app.command(up)
app.command(db)
app.command(slack)
for command in (
    "operator_commands:agents",
    "operator_commands:tasks",
    "failed_commands:inbox",
    "failed_commands:deliveries",
    "request_commands:requests",
    "request_commands:grants",
    "request_commands:audit",
    "data:backup",
    "data:restore",
    "operator_commands:reload",
    "operator_commands:explain",
    "logs:logs",
    "operator_commands:feedback",
    "operator_commands:usage",
    "tray:tray",
    "data:forget",
    "settings_commands:config",
):
    app.command(f"swarm.cli.{command}")  # loaded when it is used
app.command("swarm.cli.settings_commands:imports", name="import")


@cache
def complete() -> App:
    """Returns the app with the commands of other packages, and in place of those of our own packages that are not
    installed, what to install. Raises ConfigurationError for a name that is taken."""
    added = {name: command for one in extensions.installed().values() for name, command in one.commands.items()}
    for name, command in added.items():
        *group, last = name.split()
        place = app[group[0]] if group else app
        if last in place:
            raise ConfigurationError(f"An extension has a command `{name}`, which swarm has itself: {command.target}.")
        place.command(command.target, name=last, **({"usage": command.usage} if command.usage else {}))
    for name in extensions.OURS.keys() - added:
        *group, last = name.split()
        place = app[group[0]] if group else app
        if last not in place:
            place.command(partial(_missing, name), name=last, help=f"Needs the package {extensions.OURS[name]}.")
    return app


def _missing(name: str, *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> None:
    raise extensions.missing(f"`swarm {name}`", extensions.OURS[name])


_out = Terminal()


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
        `on` or `off`: whether Slack's rate limits apply; off is for load tests.
    allow_host
        An additional host name that the twin accepts, such as twin.example.org; may be given several times.
    allow_origin
        The origin of a web page that may call the twin, such as http://localhost:3000; may be given several times.
    """
    from slack_twin.__main__ import run_twin

    return run_twin(host, port, rates=rates, hosts=allow_host, origins=allow_origin)


@app.command
def prompt(role: Role) -> None:
    """Print the base prompt for a role, which a model gets before any trigger.

    Your own file, $SWARM_HOME/prompts/lead.md or worker.md, replaces the built-in prompt.
    """
    print(base_prompt(role, home.prompts(load_part([("home",)])[0]) / f"{role}.md"))


@db.command
def upgrade() -> None:
    """Migrate the database's schema to this version."""
    from swarm.store.admin import migrations

    settings = load()
    home.prepare(settings)
    done = migrations.upgrade(settings.database_url)
    _out.print("\n".join(f"applied {name}" for name in done) or "Nothing to do: the schema is current.")


@slack.command
def manifest(
    *,
    mode: SlackMode = SlackMode.SOCKET,
    url: str | None = None,
    assistant_view: Annotated[bool, Parameter(negative=())] = False,
    plain: Annotated[bool, Parameter(negative=())] = False,
    emails: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Print the Slack app's manifest, with exactly the scopes and events that are used.

    Create the app at https://api.slack.com/apps ("From a manifest"), install it, and put its tokens into ./.env.

    Parameters
    ----------
    mode
        How Slack reaches the coordinator: socket needs no public address.
    url
        Where Slack sends events in http mode, such as https://swarm.example.org/slack/events.
    assistant_view
        Declare the app as an assistant with a pane, as before 2026, instead of an agent. Slack ends such panes in 2027.
    plain
        Declare neither, for plans of Slack that do not allow agents: people use mentions and direct messages.
    emails
        Request access to people's e-mail addresses, for channels that share them with agents (share_email), and to find
        a person on call by address (escalation.agent).
    """
    from swarm.slack.manifest import PLACEHOLDER_URL, EventTransport, View
    from swarm.slack.manifest import manifest as make

    if assistant_view and plain:
        raise ConfigurationError("--assistant-view and --plain are both given; one of them is expected")
    view = View.ASSISTANT if assistant_view else View.PLAIN if plain else View.AGENT
    if mode is SlackMode.HTTP and url is None:
        print(
            f"swarm: {PLACEHOLDER_URL} is a placeholder: --url names your coordinator's public address.",
            file=sys.stderr,
        )
    made = make(EventTransport(mode.value), request_url=url or PLACEHOLDER_URL, view=view, emails=emails)
    print(json.dumps(made, indent=2))


def run(arguments: list[str]) -> int | None:
    """Runs a command. Returns its exit code, if it has one."""
    is_help = arguments in ([], ["--help"], ["-h"])
    for extension in extensions.installed().values():
        for name, command in extension.commands.items():
            if is_help or name.split()[0] == arguments[0]:
                extension.load(command.target)  # its errors name the package, those of cyclopts do not
    complete()
    asked_about = [one for one in arguments if one not in ("--help", "-h")]
    if asked_about in ([], ["slack"]):  # the help describes every command
        (slack if asked_about else app).resolved_commands()
    result = app(arguments, result_action="return_value")
    return result if isinstance(result, int) else None
