"""The entry point for presses of the swarm's own buttons, and for the form for feedback.

Who may act: the handler of the presses decides that. A press is acknowledged after it is stored; a form is opened
before, because its trigger is valid for three seconds. The result is shown only to the person: it replaces the
ephemeral message with the pressed button, or is a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import orjson
import structlog
from slack_bolt.response import BoltResponse

from swarm.domain.requests.button_actions import (
    FEEDBACK_FORM,
    STOP_OWN_ACTION,
    STOP_RUN_ACTION,
    STOP_TASK_ACTION,
    ButtonPressed,
    FeedbackChoice,
    FeedbackForm,
    PressResult,
)
from swarm.slack.form_fields import COMMENT_BLOCK
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.incoming.payloads import button_pressed, feedback_entered
from swarm.slack.outgoing.feedback_blocks import choice_blocks, form_view

CHOICE_TEXT: Final = "Thank you. What should be better?"
NOT_OPENED_TEXT: Final = "The form could not be opened. Press again."
NOT_STORED_TEXT: Final = "This could not be stored. Send it again."

_SHOW_SECONDS: Final = 1.5

_log = structlog.get_logger(__name__)

Press = Callable[[ButtonPressed], Awaitable[PressResult]]
"""Handles a button press. The result is shown only to the person who pressed the button."""


class _Slack(Protocol):
    """The part of the gateway that this entry point needs."""

    async def whisper(
        self, channel: str, user_id: str, text: str, thread_ts: str | None = None, blocks: Sequence[JsonObject] = ()
    ) -> None: ...

    async def replace_ephemeral(self, response_url: str, text: str) -> bool: ...

    async def open_view(self, trigger_id: str, view: JsonObject) -> bool: ...


class ButtonDoor:
    """Handles presses of buttons, whatever their action."""

    def __init__(self, gateway: _Slack, press: Press) -> None:
        self._gateway = gateway
        self._press = press

    async def handle(self, body: object) -> BoltResponse | None:
        """Returns the acknowledgement of a press, or of a form; None for other payloads.

        Slack sends a press only once, and shows the person a warning if it is not acknowledged.
        """
        press = button_pressed(body) or feedback_entered(body)
        if press is None:
            return None
        try:
            result = await self._press(press)
        except Exception:  # noqa: BLE001  the person should see any failure
            _log.exception("A button press was not handled.", action="slack_press_failed", button=press.action_id)
            return _form_not_stored() if press.action_id == FEEDBACK_FORM else BoltResponse(status=500)
        with contextlib.suppress(TimeoutError):  # the acknowledgement is more important
            async with asyncio.timeout(_SHOW_SECONDS):
                await self._show(press, result)
        return BoltResponse(status=200)

    async def _show(self, press: ButtonPressed, result: PressResult) -> None:
        match result:
            case None:
                return
            case str(text):
                url = press.response_url if _is_choice(press) else None
                if not (url and await self._gateway.replace_ephemeral(url, text)):
                    await self._gateway.whisper(press.channel, press.user_id, text, press.thread_ts)
            case FeedbackChoice():
                blocks = choice_blocks(CHOICE_TEXT, result)
                await self._gateway.whisper(press.channel, press.user_id, CHOICE_TEXT, press.thread_ts, blocks)
            case FeedbackForm():
                if not await self._gateway.open_view(press.trigger_id, form_view(press, result)):
                    await self._gateway.whisper(press.channel, press.user_id, NOT_OPENED_TEXT, press.thread_ts)


def _is_choice(press: ButtonPressed) -> bool:
    """Whether the result takes the place of the message with the button. A list of work to stop stays."""
    return press.action_id not in (STOP_OWN_ACTION, STOP_RUN_ACTION, STOP_TASK_ACTION)


def _form_not_stored() -> BoltResponse:
    """Shows the failure below the input, because another view would lose what was entered."""
    body = {"response_action": "errors", "errors": {COMMENT_BLOCK: NOT_STORED_TEXT}}
    return BoltResponse(status=200, body=orjson.dumps(body).decode(), headers={"content-type": "application/json"})
