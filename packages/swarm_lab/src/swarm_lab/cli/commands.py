"""The commands ``swarm demo`` and ``swarm slack selftest``."""

from __future__ import annotations

from pathlib import Path

from swarm_base import log


def demo() -> int:
    """Run everything on this machine: a Slack twin, the coordinator, rule-driven agents, and rules instead of a model.

    PORT (8080), TWIN_PORT (8400) and SWARM_HOME (.demo/) can be set in the environment. With SLACK_BOT_TOKEN and
    SLACK_APP_TOKEN set, the real Slack is used instead of the twin; with LLM_MODEL and a key, or Ollama, a real model
    answers instead of the rules.
    """
    from swarm_lab.demo import run

    log.configure("warning")
    return run.main()


def selftest(channel: str, *, report: Path | None = None) -> int:
    """Hold what this version relies on against your Slack: some fifty messages in one thread, deleted at the end.

    Needs SLACK_BOT_TOKEN, and a private channel that the app was invited to. The same calls are made in a Slack twin;
    what differs is printed. Exits with 0 if nothing differs, and with 1 otherwise; Ctrl-C deletes the posts, too.

    With SLACK_APP_TOKEN, the events about these messages are compared as well. Stop the coordinator of the app before:
    Slack gives each event to one connection of the app, so the test takes none while there is another one. What people
    write during the test is not acknowledged; Slack sends it again for about five minutes, so start the coordinator
    soon afterwards. Buttons and commands do not work meanwhile.

    Parameters
    ----------
    channel
        The private channel, as "#name" or by its id.
    report
        A new file for the report as JSON; by default selftest-DATE.json. It has no tokens and no text of people.
    """
    from swarm_lab.cli.slack_selftest import run

    return run(channel, report)
