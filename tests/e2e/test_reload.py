"""A coordinator that runs reads its settings again: by a signal, and by the command."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from fcntl import ioctl

import httpx2
import pytest
from slack_twin.seed import DEFAULT

from tests.support.processes import Processes
from tests.support.stage import Stage
from tests.support.waiting import wait_until

APP = {name: getattr(DEFAULT.apps[0], name) for name in ("name", "bot_token", "app_token", "signing_secret")}

pytestmark = pytest.mark.req("CHAN-01")


@pytest.fixture
async def stage(processes: Processes) -> AsyncIterator[Stage]:
    """A twin, and a coordinator whose swarm.yaml names an agent that does not exist, of which it warns."""
    stage = Stage(processes)
    stage.settings["SWARM_LOG_FORMAT"] = "text"
    write(stage, "agents: {default: ghost}")
    await stage.start_twin()
    await stage.start_coordinator()
    await stage.coordinator.says(r"There is no agent 'ghost', which agents\.default names")
    yield stage
    assert stage.coordinator.alive


def write(stage: Stage, yaml: str) -> None:
    (stage.processes.folder / "swarm.yaml").write_text(yaml, encoding="utf-8")


async def test_a_hangup_changes_who_gets_the_next_message_unless_there_is_a_mistake(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    lead = stage.visitor(http, await stage.register(http, "lead"))
    other = stage.visitor(http, await stage.register(http, "other"))
    person = stage.person(http)
    for agent in (lead, other):
        await agent.poll(wait_seconds=0)  # it is there
    first = await person.say("@swarm one")
    (trigger,) = await lead.poll(wait_seconds=30)
    assert trigger["inbox_messages"][0]["ts"] == first
    write(stage, "channel_defaults: {agent: other}")
    stage.coordinator.send(signal.SIGHUP)
    await stage.coordinator.says(r"The settings were reloaded.*channel_defaults\.agent")
    second = await person.say("@swarm two")
    (trigger,) = await other.poll(wait_seconds=30)
    assert trigger["inbox_messages"][0]["ts"] == second
    write(stage, "channels: {C123: {display: list}}")
    stage.coordinator.send(signal.SIGHUP)
    await stage.coordinator.says(r"The settings are unchanged.*channels\.C123\.display is 'list'")
    third = await person.say("@swarm three")
    (trigger,) = await other.poll(wait_seconds=30)
    assert trigger["inbox_messages"][0]["ts"] == third


@pytest.mark.req("OPS-17", "OPS-16")
async def test_what_slack_does_not_know_is_said_at_the_start_by_reload_and_by_explain(
    processes: Processes, http: httpx2.AsyncClient
) -> None:
    stage = Stage(processes)
    write(stage, "channels: {C0GENERL: {agent: lead}}")
    await stage.start_twin()
    person = stage.person(http)
    await person.ask("POST", "seed", json={"apps": [{**APP, "scopes": ["chat:write", "channels:read", "users:read"]}]})
    await stage.start_coordinator()
    wrong = r"channels\.C0GENERL: Slack shows the app no channel C0GENERL; did you mean C0GENERAL \(#general\)\?"
    await stage.coordinator.says(wrong)
    await stage.coordinator.says("lacks scopes of its manifest.*receive direct messages to the bot \\(im:history\\)")
    for command in (("reload",), ("config", "explain", "C0GENERL")):
        ended = await processes.command(*command, env=stage.environment)
        assert re.search(wrong, ended.out), (command, ended)
    ready = (await http.get(f"{stage.base}/readyz")).json()
    assert ready["last_event_seconds"] is None


@pytest.mark.long
async def test_the_command_says_what_came_of_it(stage: Stage) -> None:
    async def reload() -> tuple[int, str]:
        ended = await stage.processes.command("reload", env=stage.environment)
        return ended.code, ended.out + ended.err

    write(stage, "agents: {default: nobody, offline_after_seconds: 7}")
    assert await reload() == (
        0,
        "changed: agents.default\n"
        "needs a restart: agents.offline_after_seconds\n"
        "There is no agent 'nobody', which agents.default names. Until the agent exists, the default lead answers.\n",
    )
    write(stage, "agents: {default: [nobody]}")
    code, said = await reload()
    assert code == 1
    assert said.startswith("swarm: agents.default")
    assert "The old ones stay." in said
    assert len(said.splitlines()) == 1


@pytest.mark.req("OPS-15")
async def test_a_new_token_by_reload_is_enough(processes: Processes, http: httpx2.AsyncClient) -> None:
    """The app was installed anew, so Slack refuses the tokens that the coordinator has started with."""
    stage = Stage(processes)
    tokens = "slack: {{bot_token: {bot}, app_token: {app}}}"
    first = tokens.format(bot=stage.tokens["SLACK_BOT_TOKEN"], app=stage.tokens["SLACK_APP_TOKEN"])
    stage.settings |= {"SLACK_BOT_TOKEN": "", "SLACK_APP_TOKEN": ""}
    write(stage, first)
    await stage.start_twin()
    await stage.start_coordinator()
    lead, person = stage.visitor(http, await stage.register(http, "lead")), stage.person(http)
    await lead.poll(wait_seconds=0)
    ts = await person.say("@swarm one")
    (trigger,) = await lead.poll(wait_seconds=30)
    new = {"bot_token": "xoxb-new-token", "app_token": "xapp-new-token", "signing_secret": "a-signing-secret"}
    await person.ask("POST", "seed", json={"apps": [{"name": "swarm", **new}]})
    await lead.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=trigger["id"], message="here")

    async def is_refused() -> bool:
        return (await http.get(f"{stage.base}/readyz")).json()["checks"]["slack_token"] is False

    await wait_until(is_refused, what="Slack refuses the token")
    operator = stage.visitor(http)
    write(stage, tokens.format(bot="xoxb-wrong-token", app="xapp-new-token"))
    refused = await operator.ask("POST", "/reload")
    assert (refused.status_code, "does not accept" in refused.text) == (422, True)
    write(stage, tokens.format(bot="xoxb-new-token", app="xapp-new-token"))
    assert (await operator.post("/reload"))["changed"] == ["slack.bot_token", "slack.app_token"]
    await person.until(ts, lambda seen: seen.answers == ("here",))
    again = await person.say("@swarm two")
    (trigger,) = await lead.poll(wait_seconds=30)
    assert trigger["inbox_messages"][0]["ts"] == again


_AT_TERMINAL = """
import asyncio, sys
from swarm.app import process

async def main():
    stop = process.stop_on_signals()
    heard = process.told_by_hangup(stop)
    print("ready", flush=True)
    done = [asyncio.create_task(event.wait(), name=name) for name, event in (("stop", stop), ("reload", heard))]
    finished, _ = await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
    print(finished.pop().get_name(), flush=True)
    for task in done: task.cancel()

asyncio.run(main())
"""


class Terminal:
    """A terminal, and a program that was started in it and writes into a pipe."""

    def __init__(self, *, nohup: bool = False) -> None:
        self._master, slave = pty.openpty()

        def take_terminal() -> None:
            ioctl(slave, termios.TIOCSCTTY, 0)
            # The tests themselves may have been started with nohup, which children inherit.
            signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

        self.program = subprocess.Popen(
            [sys.executable, "-c", _AT_TERMINAL],
            stdin=slave,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(slave)

    def says(self) -> str:
        assert self.program.stdout
        return self.program.stdout.readline().strip()

    def close(self) -> None:
        os.close(self._master)


@pytest.mark.long
@pytest.mark.parametrize(
    ("nohup", "closed", "outcome"),
    [(False, True, "stop"), (False, False, "reload"), (True, True, "reload"), (True, False, "reload")],
    ids=["closed", "signalled", "nohup-closed", "nohup-signalled"],
)
async def test_only_a_terminal_that_is_closed_ends_what_was_started_in_it(
    nohup: bool, closed: bool, outcome: str
) -> None:
    terminal = Terminal(nohup=nohup)
    try:
        assert terminal.says() == "ready"
        terminal.close() if closed else terminal.program.send_signal(signal.SIGHUP)
        assert terminal.says() == outcome
    finally:
        terminal.program.kill()
        terminal.program.communicate()
        if not closed:
            terminal.close()
