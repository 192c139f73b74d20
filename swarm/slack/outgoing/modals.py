"""Calls that open and change modals: once, and without waiting, since a trigger is valid for three seconds only.

https://docs.slack.dev/reference/methods/views.open
"""

from __future__ import annotations

from typing import Final

import structlog

from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.web_api import Failure, WebApi

MAX_WAIT_SECONDS: Final = 0.2

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
