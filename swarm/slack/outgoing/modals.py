"""Calls whose effect only one person sees: modals, the Home tab, and later answers to a slash command.

Modals are opened and changed once, and without waiting, since a trigger is valid for three seconds only.

https://docs.slack.dev/reference/methods/views.open
https://docs.slack.dev/reference/methods/views.publish
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from swarm.domain.commands import HomeContent
from swarm.domain.model.deliveries import NotSent
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.command_answers import home_view
from swarm.slack.outgoing.web_api import Failure, WebApi

MAX_WAIT_SECONDS: Final = 0.2
RESPONSE_ATTEMPTS: Final = 3
RESPONSE_PAUSE_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


async def change_view(api: WebApi, method: str, arguments: JsonObject) -> bool:
    """Makes the call, and returns whether Slack accepted it. A failure is logged.

    The call waits for a rate slot only if one is almost free; otherwise Slack may refuse it.
    """
    if api.expected_wait_seconds(method) <= MAX_WAIT_SECONDS:
        await api.acquire_slot(method)
    answer = await api.call(method, arguments)
    if isinstance(answer, Failure):
        _log.warning("A form was not shown.", action="slack_view_failed", method=method, why=repr(answer))
        return False
    return True


class PersonalSurfaces:
    """The Home tabs, and answers to slash commands after their acknowledgement. Methods never fail."""

    def __init__(self, api: WebApi) -> None:
        self._api = api

    async def publish_home(self, user_id: str, content: HomeContent) -> bool:
        """Shows a person's Home tab (``views.publish``). Returns whether Slack accepted it; repeating does no harm."""
        await self._api.acquire_slot("views.publish")
        answer = await self._api.call("views.publish", {"user_id": user_id, "view": home_view(content)})
        if isinstance(answer, Failure):
            _log.warning("A Home tab was not shown.", action="home_failed", user=user_id, why=repr(answer))
            return False
        return True

    async def respond(self, response_url: str, message: JsonObject) -> bool:
        """Answers a slash command by its response URL. Returns whether Slack accepted it.

        Repeats only what certainly had no effect, so that no answer is shown twice.
        """
        answer = await self._api.respond(response_url, message)
        for _ in range(RESPONSE_ATTEMPTS - 1):
            if not isinstance(answer, NotSent):
                break
            await asyncio.sleep(RESPONSE_PAUSE_SECONDS)
            answer = await self._api.respond(response_url, message)
        if answer is not None:
            _log.warning("A command was not answered.", action="command_unanswered", why=repr(answer))
        return answer is None
