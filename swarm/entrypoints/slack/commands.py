"""The entry point for slash commands and for opened Home tabs.

A command is answered in its acknowledgement if the answer is ready within `ACK_SECONDS`, since Slack waits three
seconds; otherwise it is acknowledged without a text, and answered by its response URL. A Home tab is acknowledged at
once and published afterwards: Slack repeats neither a command nor a tab that was acknowledged.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import orjson
import structlog
from slack_bolt.response import BoltResponse

from swarm.domain.commands import CommandAnswer, HomeOpened, SlashCommand
from swarm.processes.background import BackgroundTasks
from swarm.slack.incoming.commands import home_opened, slash_command
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.command_answers import message_of, text_message

ACK_SECONDS: Final = 2.0

FAILED_TEXT: Final = "This did not work. Try again in a moment."

_log = structlog.get_logger(__name__)


class _Personal(Protocol):
    """Answers after the acknowledgement."""

    async def respond(self, response_url: str, message: JsonObject) -> bool: ...


class _Slack(Protocol):
    """The part of the gateway that this entry point needs."""

    @property
    def personal(self) -> _Personal: ...

    async def open_view(self, trigger_id: str, view: JsonObject) -> bool: ...


class _Commands(Protocol):
    """The use case behind slash commands (`swarm.services.intake.commands.Commands`)."""

    async def answer(self, command: SlashCommand) -> CommandAnswer: ...


class _Homes(Protocol):
    """The use case behind Home tabs (`swarm.services.intake.homes.HomeTabs`)."""

    def opened(self, opened: HomeOpened) -> None: ...


class CommandDoor:
    """Handles the payloads of slash commands and of opened Home tabs."""

    def __init__(
        self, gateway: _Slack, commands: _Commands, homes: _Homes, *, ack_seconds: float = ACK_SECONDS
    ) -> None:
        self._gateway = gateway
        self._commands = commands
        self._homes = homes
        self._ack_seconds = ack_seconds
        self._late = BackgroundTasks()

    async def handle(self, body: object) -> BoltResponse | None:
        """Returns the acknowledgement of a payload; None for another payload."""
        if command := slash_command(body):
            return await self._command(command)
        if opened := home_opened(body):
            self._homes.opened(opened)
            return BoltResponse(status=200)
        return None

    async def close(self, within_seconds: float) -> None:
        """Waits for answers that are under way, for a limited time."""
        await self._late.end(within_seconds)

    async def _command(self, command: SlashCommand) -> BoltResponse:
        answering = self._late.start(self._answer(command), name="command")
        await asyncio.wait({answering}, timeout=self._ack_seconds)
        if answering.done():
            return _json(answering.result())
        self._late.start(self._respond(command, answering), name="late answer")
        return BoltResponse(status=200)

    async def _answer(self, command: SlashCommand) -> JsonObject:
        try:
            return message_of(await self._commands.answer(command))
        except Exception:  # noqa: BLE001  the person should see any failure
            _log.exception("A command failed.", action="command_failed", command=command.text[:20])
            return text_message(FAILED_TEXT)

    async def _respond(self, command: SlashCommand, answering: asyncio.Task[JsonObject]) -> None:
        await self._gateway.personal.respond(command.response_url, await answering)


def _json(body: object) -> BoltResponse:
    return BoltResponse(status=200, body=orjson.dumps(body).decode(), headers={"content-type": "application/json"})
