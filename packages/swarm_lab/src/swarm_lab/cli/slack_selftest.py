"""``swarm slack selftest``: holds the rules about Slack against a workspace."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from swarm.cli.terminal import Terminal
from swarm.config import load_part
from swarm.domain.errors import ConfigurationError
from swarm_lab.conformance.selftest import Finding, Selftest, selftest
from swarm_lab.conformance.selftest_rules import RULES

_out = Terminal()


def run(channel: str, report: Path | None) -> int:
    """Runs the selftest and writes its report. Returns the exit code. Raises ConfigurationError."""
    slack = load_part([("slack",)])[0].slack
    if slack.bot_token is None:
        raise ConfigurationError("The selftest needs a bot token: set SLACK_BOT_TOKEN (see `swarm slack manifest`).")
    now = datetime.now(UTC)
    path = report or Path(f"selftest-{now:%Y-%m-%d-%H%M%S}.json")
    if path.exists():
        raise ConfigurationError(f"{path} exists already; name a new file with --report.")
    token = slack.bot_token.get_secret_value()
    done = asyncio.run(selftest(token, slack.api_base_url, channel, pace=slack.pace, told=_tell))
    versions = {name: version(name) for name in ("swarm", "slack_sdk")}
    path.write_bytes(done.report(f"{now:%Y-%m-%d %H:%M} UTC", versions))
    _out.print(_summary(done, path))
    return int(any(one.differs for one in done.findings))


def _tell(finding: Finding) -> None:
    if finding.not_tried:
        _out.print(f"- {finding.rule}: not tried ({finding.not_tried})")
    elif finding.differs:
        _out.print(f"≠ {finding.rule}\n    Slack: {finding.slack}\n    twin:  {finding.twin}")
    else:
        _out.print(f"✓ {finding.rule}")


def _summary(done: Selftest, path: Path) -> str:
    differing = sum(one.differs for one in done.findings)
    untried = sum(bool(one.not_tried) for one in done.findings)
    parts = [f"{differing} of {len(RULES)} rules differ", f"{untried} could not be tried", f"the report is in {path}"]
    if done.left:
        parts.append(f"{done.left} messages could not be deleted")
    return "; ".join(parts) + "."
