"""The entry point for slash commands, the form for a remark, and opened Home tabs.

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

from swarm.domain.commands import (
    CommandAnswer,
    CommandRefused,
    HomeOpened,
    RemarkStored,
    RemarkSubmitted,
    RemarkWanted,
    SlashCommand,
)
from swarm.domain.requests.button_actions import REMARK_FORM
from swarm.slack.incoming.commands import home_opened, remark_submitted, slash_command
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.command_answers import message_of, remark_form, text_message
from swarm.slack.outgoing.request_forms import message_view
from swarm_base.processes.background import BackgroundTasks

ACK_SECONDS: Final = 2.0

NOT_OPENED_TEXT: Final = "The form could not be opened. Try again, or write your feedback after the command."
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

    async def remark(self, submitted: RemarkSubmitted) -> CommandRefused | RemarkStored: ...


class _Homes(Protocol):
    """The use case behind Home tabs (`swarm.services.intake.homes.HomeTabs`)."""

    def opened(self, opened: HomeOpened) -> None: ...


class CommandDoor:
    """Handles the payloads of slash commands, remarks and opened Home tabs."""

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
        if submitted := remark_submitted(body):
            return await self._remark(submitted)
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
            message = answering.result()
            return _json(message) if message else BoltResponse(status=200)
        self._late.start(self._respond(command, answering), name="late answer")
        return BoltResponse(status=200)

    async def _answer(self, command: SlashCommand) -> JsonObject | None:
        """Returns the message for the person; None after a form was opened."""
        try:
            answer = await self._commands.answer(command)
            if isinstance(answer, RemarkWanted):
                is_open = await self._gateway.open_view(command.trigger_id, remark_form(answer))
                return None if is_open else text_message(NOT_OPENED_TEXT)
            return message_of(answer)
        except Exception:  # noqa: BLE001  the person should see any failure
            _log.exception("A command failed.", action="command_failed", command=command.text[:20])
            return text_message(FAILED_TEXT)

    async def _respond(self, command: SlashCommand, answering: asyncio.Task[JsonObject | None]) -> None:
        if message := await answering:
            await self._gateway.personal.respond(command.response_url, message)

    async def _remark(self, submitted: RemarkSubmitted) -> BoltResponse:
        try:
            message = message_of(await self._commands.remark(submitted))
        except Exception:  # noqa: BLE001  the person should see any failure, and keep what was entered
            _log.exception("A remark was not stored.", action="command_failed", command="feedback")
            return _json({"response_action": "errors", "errors": {REMARK_FORM: FAILED_TEXT}})
        return _json({"response_action": "update", "view": message_view("Feedback", message["text"])})


def _json(body: object) -> BoltResponse:
    return BoltResponse(status=200, body=orjson.dumps(body).decode(), headers={"content-type": "application/json"})
