"""``swarm slack selftest``: holds the rules about Slack against a workspace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from swarm.cli.terminal import Terminal
from swarm.config import load_part
from swarm.conformance.selftest import Finding, Selftest, selftest
from swarm.conformance.selftest_rules import RULES
from swarm.domain.errors import ConfigurationError

_out = Terminal()
_INTERRUPTED = 130
_SHOWN_CHARACTERS = 200


def run(channel: str, report: Path | None) -> int:
    """Runs the selftest and writes its report. Returns the exit code. Raises ConfigurationError."""
    slack = load_part([("slack", key) for key in ("bot_token", "app_token", "api_base_url", "pace")])[0].slack
    if slack.bot_token is None:
        raise ConfigurationError("The selftest needs a bot token: set SLACK_BOT_TOKEN (see `swarm slack manifest`).")
    now = datetime.now(UTC)
    path = report or Path(f"selftest-{now:%Y-%m-%d-%H%M%S}.json")
    if path.exists():
        raise ConfigurationError(f"{path} exists already; name a new file with --report.")
    token = slack.bot_token.get_secret_value()
    app_token = slack.app_token.get_secret_value() if slack.app_token else None
    trying = selftest(token, slack.api_base_url, channel, pace=slack.pace, told=_tell, app_token=app_token)
    done = asyncio.run(_until_interrupted(trying))
    versions = {name: version(name) for name in ("swarm", "slack_sdk")}
    path.write_bytes(done.report(f"{now:%Y-%m-%d %H:%M} UTC", versions))
    _out.print(_summary(done, path))
    return _INTERRUPTED if done.stopped else int(done.differs)


async def _until_interrupted(trying: Coroutine[object, object, Selftest]) -> Selftest:
    """Runs the selftest. Ctrl-C or SIGTERM stops it once; after that, the deletion of its posts is not interrupted."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(trying)

    def stop() -> None:
        again = task.cancelling() > 0
        _out.print("The posts are still being deleted." if again else "Stopped; the posts are being deleted.")
        again or task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    return await task


def _tell(finding: Finding) -> None:
    if finding.not_tried:
        _out.print(f"- {finding.rule}: not tried ({finding.not_tried})")
    elif finding.differs:
        _out.print(f"≠ {finding.rule}\n    Slack: {finding.slack}\n    twin:  {finding.twin}")
    else:
        _out.print(f"✓ {finding.rule}")


def _summary(done: Selftest, path: Path) -> str:
    lines = [
        f"≠ events, {one.where}, in {len(one.rules)} rules ({one.rules[0]}, …)\n"
        f"    Slack: {repr(one.slack)[:_SHOWN_CHARACTERS]}\n    twin:  {repr(one.twin)[:_SHOWN_CHARACTERS]}"
        for one in done.events
    ]
    untried = done.not_tried(RULES)
    lines += [f"- {name}: not tried ({why})" for name, why in untried.items() if name not in RULES]
    if done.others_events:
        lines.append(f"{done.others_events} other events were left to Slack, which sends them again.")
    differing, left = sum(one.differs for one in done.findings), sum(name in RULES for name in untried)
    parts = [f"{differing} of {len(RULES)} rules differ", f"{left} were not tried"]
    parts += [] if "events" in untried else [f"{len(done.events)} differences in events"]
    parts.append(f"the report is in {path}")
    if done.left:
        parts.append(f"{done.left} posts could not be deleted")
    return "\n".join([*lines, "; ".join(parts) + "."])
