"""What the commands tell people: errors with advice for a terminal, help, and warnings beside the output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.cli import COMMANDS, commands, in_one_line
from swarm.domain.errors import ConfigurationError, Invalid, NotFound

pytestmark = pytest.mark.req("OPS-01")

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("GET /agents lists them.", "`swarm agents list` lists them."),
        ("list-tasks shows all tasks.", "`swarm tasks list` shows all tasks."),
        ("Use the id that request-human-input returned.", "`swarm requests list` shows all."),
        (
            "GET /tasks lists the tasks; GET /tasks/{id}/runs lists the runs on one.",
            "`swarm tasks list` lists the tasks.",
        ),
        ("Use an agent's token, from POST /agents.", "Use an agent's token, from `swarm agents add`."),
    ],
)
def test_an_error_names_commands_where_programs_are_told_routes_and_tools(hint: str, shown: str) -> None:
    sources = [
        path.read_text() for part in ("services", "entrypoints") for path in (ROOT / "swarm" / part).rglob("*.py")
    ]
    assert any(f'hint="{hint}"' in source for source in sources), "no error has this hint any more"
    assert in_one_line(NotFound("There is no such one.", hint=hint)) == f"There is no such one. {shown}"
    assert any(name in hint for name in COMMANDS)


def test_an_error_about_fields_says_what_they_must_be() -> None:
    error = Invalid("'nobody' is no Slack user.", fields={"person": "an id such as U0123456789"})
    assert in_one_line(error) == "'nobody' is no Slack user. person: an id such as U0123456789."


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--provider is missing: expected claude, codex, opencode, acp:COMMAND or command:COMMAND"),
        (["--provider", "cloud"], "--provider is 'cloud': expected claude,"),
    ],
)
def test_a_worker_without_a_provider_is_told_which_there_are(arguments: list[str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        commands.run(["run", "wim", *arguments])
    assert raised.value.message.startswith(problem)
    assert "--provider claude" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("chat", "Usage: swarm chat [OPTIONS] [WORDS...]"),
        ("run", "Usage: swarm run NAME --provider PROVIDER [OPTIONS]"),
    ],
)
def test_the_help_names_an_argument_as_its_description_does(
    command: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.run([command, "--help"])
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == first
    for name in ("WORDS " if command == "chat" else "NAME ", "--"):
        assert name in shown.partition("\n")[2]


@pytest.mark.parametrize(
    ("arguments", "url", "is_warned"),
    [
        (["--mode", "http"], "https://example.com/slack/events", True),
        (["--mode", "http", "--url", "https://a.example/slack/events"], "https://a.example/slack/events", False),
        ([], None, False),
    ],
)
def test_a_manifest_with_a_placeholder_says_so_beside_the_manifest(
    arguments: list[str], url: str | None, is_warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.run(["slack", "manifest", *arguments])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["settings"]["event_subscriptions"].get("request_url") == url
    assert ("--url names your coordinator's public address" in shown.err) is is_warned
