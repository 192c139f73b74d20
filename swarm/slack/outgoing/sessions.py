"""The app's appearance in a thread or in its Messages tab: the status line, the title, and prompts to choose from.

There are two generations of methods. `agents.sessions.*` is for apps that are declared as agents, with Slack's own Stop
button; `assistant.threads.*` is for all others. Which of them works is tried once: a method that the workspace or the
app does not have is not tried again. Whatever Slack refuses here has no other effect.
https://docs.slack.dev/ai/agent-sessions and https://docs.slack.dev/ai/migrating-to-agent-messaging
"""

from __future__ import annotations

from typing import Final

import orjson
import stamina
import structlog

from swarm.domain.answers.calls import AnswerTarget, SessionState
from swarm.domain.answers.slack_results import is_for_good
from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.domain.model.deliveries import (
    EPHEMERAL_SECONDS,
    Answer,
    Delivery,
    DeliveryAccepted,
    DeliveryRefused,
    InDoubt,
    NotSent,
)
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.web_api import Failure, WebApi

STATUS: Final = "assistant.threads.setStatus"
SESSION_STATUS: Final = "agents.sessions.setStatus"
TITLE: Final = "assistant.threads.setTitle"
SESSION_TITLE: Final = "agents.sessions.rename"
PROMPTS: Final = "assistant.threads.setSuggestedPrompts"

_OF_SESSIONS: Final = frozenset({SESSION_STATUS, SESSION_TITLE})
"""An app has both methods or none."""

_CLEARING_ATTEMPTS: Final = 3

_OF_THE_PLACE: Final = frozenset(
    {
        "channel_not_found",
        "invalid_arguments",
        "invalid_thread_ts",
        "is_archived",
        "not_in_channel",
        "session_not_found",
        "thread_not_found",
        "user_not_in_channel",
    }
)
"""Refusals that do not concern the app: its sessions may work elsewhere."""

_log = structlog.get_logger(__name__)


class Sessions:
    """Slack's methods for the app's appearance.

    ``agent_sessions``: whether the app is declared as an agent; None: unknown, so it is tried with the first status.
    """

    def __init__(self, api: WebApi, *, agent_sessions: bool | None = False) -> None:
        self._api = api
        self._missing: set[str] = set(_OF_SESSIONS) if agent_sessions is False else set()
        self._is_agent = bool(agent_sessions)  # or a session was accepted

    @property
    def shows_stop(self) -> bool:
        """Whether Slack shows its own Stop button while a session works, as far as known."""
        return self._is_agent and SESSION_STATUS not in self._missing

    async def status(self, place: AnswerTarget, text: str, *, session: SessionState = SessionState.PROCESSING) -> bool:
        """Shows a status (``assistant.threads.setStatus``); an empty text clears the status.

        For an agent's session (``agents.sessions.setStatus``, which has no text) only ``session`` counts. Slack clears
        a status after two minutes, and shows it only in a thread. A status that has to wait longer than a minute is
        left out; clearing is tried several times. Logs Slack's failures and never raises for them. Returns False if
        Slack could not be reached, so that another attempt may help.
        """
        for method in (SESSION_STATUS, STATUS) if place.thread_ts else ():
            taken = None if method in self._missing else await self._status(method, place, text, session)
            if taken is not None:
                return taken
        return True

    async def title(self, delivery: Delivery) -> Answer:
        """Sets the title of a thread (``agents.sessions.rename``, ``assistant.threads.setTitle``).

        A session that does not exist yet is created with the title. Accepted also where Slack shows no titles.
        """
        arguments = {"channel_id": delivery.channel, "thread_ts": delivery.thread_ts, "title": delivery.text}
        answer = await self._decorate(SESSION_TITLE, arguments)
        if answer == DeliveryRefused(error="session_not_found"):
            answer = await self._decorate(SESSION_STATUS, {**arguments, "status": SessionState.ACTIVE.value})
        return answer or await self._decorate(TITLE, arguments) or DeliveryAccepted()

    async def prompts(self, delivery: Delivery) -> Answer:
        """Suggests prompts in a thread or in the Messages tab (``assistant.threads.setSuggestedPrompts``).

        Accepted also where Slack shows no prompts.
        """
        where = {"thread_ts": delivery.thread_ts} if delivery.thread_ts else {}
        arguments = {"channel_id": delivery.channel, **where, "prompts": orjson.loads(delivery.text)}
        return await self._decorate(PROMPTS, arguments) or DeliveryAccepted()

    async def _decorate(self, method: str, arguments: JsonObject) -> Answer | None:
        """Makes one idempotent call. Returns None if the workspace or the app does not have the method."""
        if method in self._missing:
            return None
        answer = await self._api.call(method, arguments)
        if isinstance(answer, DeliveryRefused) and self._is_missing(method, answer.error):
            self._give_up(method)
            _log.info(
                "Slack does not offer a method here; it is not tried again.",
                action="slack_method_missing",
                method=method,
                reason=answer.error,
            )
            return None
        return answer if isinstance(answer, Failure) else DeliveryAccepted()

    async def _status(self, method: str, place: AnswerTarget, text: str, session: SessionState) -> bool | None:
        """Returns whether another attempt is useless; None if the workspace or the app does not have the method."""
        is_shown = session is SessionState.PROCESSING if method == SESSION_STATUS else bool(text)
        try:
            await (self._show if is_shown else self._clear)(method, _status_arguments(method, place, text, session))
        except RefusedBySlack as refused:
            _not_shown(method, place, refused.slack_code)
            if self._is_missing(method, refused.slack_code):
                self._give_up(method)
                return None
        except Unavailable as error:
            _not_shown(method, place, error.message)
            return False
        else:
            self._is_agent |= method == SESSION_STATUS
        return True

    async def _show(self, method: str, arguments: JsonObject) -> None:
        if self._api.expected_wait_seconds(method) > EPHEMERAL_SECONDS:
            raise Unavailable("Slack's rate limits do not allow it now.")
        await self._api.acquire_slot(method)
        match await self._api.call(method, arguments):
            case DeliveryRefused(error=code):
                raise RefusedBySlack(code)
            case NotSent(reason=reason) | InDoubt(reason=reason):
                raise Unavailable(reason)

    async def _clear(self, method: str, arguments: JsonObject) -> None:
        """Clears the status. The call is idempotent, so it is repeated, and rate limits are waited out."""
        async for attempt in stamina.retry_context(on=Unavailable, attempts=_CLEARING_ATTEMPTS, wait_initial=0.2):
            with attempt:
                await self._api.read(method, arguments)

    def _is_missing(self, method: str, code: str) -> bool:
        """Whether a refusal is permanent. While it is unknown whether the app is an agent, most are."""
        is_probe = method in _OF_SESSIONS and not self._is_agent
        return is_for_good(code) or (is_probe and code not in _OF_THE_PLACE)

    def _give_up(self, method: str) -> None:
        self._missing |= _OF_SESSIONS if method in _OF_SESSIONS else {method}


def _status_arguments(method: str, place: AnswerTarget, text: str, session: SessionState) -> JsonObject:
    where = {"channel_id": place.channel, "thread_ts": place.thread_ts}
    if method == STATUS:
        return {**where, "status": text}
    initiator = {"initiator_user_id": place.requester} if place.requester else {}
    return {**where, "status": session.value, **initiator}


def _not_shown(method: str, place: AnswerTarget, reason: str) -> None:
    _log.warning(
        "The status of an answer could not be shown.",
        action="slack_status_not_shown",
        method=method,
        turn_id=place.run_id,
        channel=place.channel,
        reason=reason,
    )
