"""``swarm slack selftest``: holds the rules about Slack against a workspace."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from swarm.cli.terminal import Terminal
from swarm.config import BadSettings, load_part
from swarm.config.settings import SlackSettings
from swarm.domain.errors import ConfigurationError
from swarm_lab.conformance.selftest import Finding, Selftest, selftest
from swarm_lab.conformance.selftest_rules import RULES

_out = Terminal()
_INTERRUPTED = 130


def run(channel: str, report: Path | None) -> int:
    """Runs the selftest and writes its report. Returns the exit code. Raises ConfigurationError."""
    keys = [("slack", key) for key in ("bot_token", "app_token", "signing_secret", "mode", "api_base_url", "pace")]
    try:
        slack = load_part(keys)[0].slack
    except BadSettings:  # with a bot token alone, as for HTTP
        alone = {"SWARM_SLACK_MODE": "http", "SLACK_SIGNING_SECRET": "not-needed-here"}
        slack = load_part(keys, os.environ | alone)[0].slack
    if slack.bot_token is None:
        raise ConfigurationError("The selftest needs a bot token: set SLACK_BOT_TOKEN (see `swarm slack manifest`).")
    now = datetime.now(UTC)
    path = report or Path(f"selftest-{now:%Y-%m-%d-%H%M%S}.json")
    if path.exists():
        raise ConfigurationError(f"{path} exists already; name a new file with --report.")
    done = asyncio.run(_until_interrupted(slack, slack.bot_token.get_secret_value(), channel))
    versions = {name: version(name) for name in ("swarm", "slack_sdk")}
    path.write_bytes(done.report(f"{now:%Y-%m-%d %H:%M} UTC", versions))
    _out.print(_summary(done, path))
    if len(done.findings) < len(RULES):
        return _INTERRUPTED
    return int(any(one.differs for one in done.findings))


async def _until_interrupted(slack: SlackSettings, token: str, channel: str) -> Selftest:
    """Runs the selftest. After Ctrl-C or SIGTERM it deletes its posts, which cannot be interrupted."""
    stop = asyncio.Event()

    def interrupted() -> None:
        stop.set()
        _out.print("Stops after this rule; the posts are deleted then.")

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted)
    app_token = slack.app_token.get_secret_value() if slack.app_token else None
    return await selftest(
        token,
        slack.api_base_url,
        channel,
        pace=slack.pace,
        told=_tell,
        app_token=app_token,
        noted=_out.print,
        stop=stop,
    )


def _tell(finding: Finding) -> None:
    if finding.not_tried:
        _out.print(f"- {finding.rule}: not tried ({finding.not_tried})")
    elif finding.differs:
        _out.print(f"≠ {finding.rule}")
        for part in [part for part in finding.slack if finding.slack[part] != finding.twin[part]]:
            _out.print(f"    {part}\n    Slack: {finding.slack[part]}\n    twin:  {finding.twin[part]}")
    else:
        _out.print(f"✓ {finding.rule}")


def _summary(done: Selftest, path: Path) -> str:
    differing = sum(one.differs for one in done.findings)
    untried = done.not_tried(RULES)
    _out.print(f"Not tried: {', '.join(sorted(untried.keys() - RULES))}.")
    parts = [f"{differing} of {len(RULES)} rules differ", f"{len(untried.keys() & RULES)} could not be tried"]
    parts += [f"{len(done.heard.others)} events of others were left to Slack", f"the report is in {path}"]
    if done.left:
        parts.append(f"{done.left} messages could not be deleted")
    return "; ".join(parts) + "."
