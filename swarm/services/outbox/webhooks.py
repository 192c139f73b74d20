"""Calls other services: feedback and escalations, each until the service has accepted it.

Who may act: the elected process. What is guaranteed: a call is stored with its cause, survives restarts, and is
repeated until the service accepts or refuses it, or a day (for an escalation, an hour) has passed. A service may get a
call more than once, each time with the same id. Calls of one service are made one after another, so a slow service
delays only its own.

What happens on failure: the call is repeated after a growing pause, or when the service asks for it. A call that fails
for good is recorded, logged and counted; ``on_failure`` may tell people in the same transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, assert_never

import orjson
import structlog

from swarm.clock import SECOND
from swarm.domain.model.webhooks import (
    Webhook,
    WebhookAccepted,
    WebhookAnswer,
    WebhookEndpoint,
    WebhookEndpoints,
    WebhookKind,
    WebhookPostponed,
    WebhookRefused,
    WebhookStatus,
    endpoint_of,
    signature_headers,
)
from swarm.domain.ports import WebhookClient
from swarm.services.ground.guarded import attempt
from swarm.store import webhooks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

GIVE_UP_SECONDS: Final = 24 * 3600
"""A service that does not answer is called for this long."""

ESCALATION_SECONDS: Final = 3600
"""The same for escalations: people who wait for help must hear that nobody was told."""

CALL_SECONDS: Final = 30.0
"""The time for one call, after which another process may repeat it; longer than the client's own limit."""

_AT_ONCE: Final = 100
_LONGEST_SLEEP_SECONDS: Final = 60.0
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_BACKOFF_SECONDS: Final = (1, 5, 15, 60, 300, 900)
_ASKED_FOR_PAUSE: Final = "its service asked for a pause"
_NOT_CONFIGURED: Final = "the settings have no address for it any more"

OnFailure = Callable[[Transaction, Webhook, str], None]
"""Acts on a call that has failed for good, in the transaction that records it. The text is the reason."""

_log = structlog.get_logger(__name__)


def ignore_failure(tx: Transaction, webhook: Webhook, reason: str) -> None:
    """Tells nobody of a failed call: the default."""


class WebhookSender:
    """The background task that makes the stored calls.

    ``endpoints`` returns the endpoints in force, so that a reload counts for calls that wait.
    """

    def __init__(
        self,
        database: Database,
        client: WebhookClient,
        endpoints: Callable[[], WebhookEndpoints],
        *,
        on_failure: OnFailure = ignore_failure,
    ) -> None:
        self._database = database
        self._client = client
        self._endpoints = endpoints
        self._on_failure = on_failure

    async def run(self) -> None:
        """Makes calls until cancelled or shut down. Errors are logged."""
        wakeups = self._database.wakeups
        while not wakeups.closed:
            seen = wakeups.generation(webhooks.WEBHOOKS)
            await attempt(self.send_due(), "webhook")
            pause: list[float] = []
            await attempt(self._look_ahead(pause), "webhook")
            await wakeups.wait(webhooks.WEBHOOKS, seen, min([_LONGEST_SLEEP_SECONDS, *pause]))

    async def send_due(self) -> None:
        """Makes all calls that are due, then returns. Different services are called at the same time."""
        while due := await self._database.read(webhooks.due, _AT_ONCE):
            services: dict[tuple[WebhookKind, str], list[Webhook]] = {}
            for webhook in due:
                services.setdefault((webhook.kind, webhook.target), []).append(webhook)
            await asyncio.gather(*(self._send_in_order(calls) for calls in services.values()))

    async def _look_ahead(self, pause: list[float]) -> None:
        seconds = await self._database.read(webhooks.seconds_to_next)
        if seconds is not None:
            pause.append(max(seconds, 0.1))

    async def _send_in_order(self, calls: Sequence[Webhook]) -> None:
        """Makes the calls of one service. If it asks for a pause, the calls behind wait as long."""
        pause_seconds = 0.0
        for webhook in calls:
            if pause_seconds:
                await self._database.write(webhooks.postpone, webhook, pause_seconds, _ASKED_FOR_PAUSE)
            elif await self._database.write(webhooks.take, webhook.id, CALL_SECONDS):
                answer = await self._call(webhook)
                await self._database.write(self._settle, webhook, answer)
                pause_seconds = answer.retry_after_seconds if isinstance(answer, WebhookPostponed) else 0.0

    def _settle(self, tx: Transaction, webhook: Webhook, answer: WebhookAnswer) -> None:
        match answer:
            case WebhookAccepted():
                webhooks.end(tx, webhook, WebhookStatus.SENT)
            case WebhookRefused(reason=reason):
                self._give_up(tx, webhook, reason)
            case WebhookPostponed(reason=reason):
                seconds = ESCALATION_SECONDS if webhook.kind is WebhookKind.ESCALATION else GIVE_UP_SECONDS
                if tx.now - webhook.created_at >= seconds * SECOND:
                    hours = seconds // 3600
                    self._give_up(tx, webhook, f"{reason}, for {hours} hour{'s' if hours > 1 else ''}")
                else:
                    webhooks.postpone(tx, webhook, _pause(webhook, answer), reason)
                    _log.info(
                        "A service could not be called yet.",
                        action="webhook_later", webhook=webhook.id, kind=webhook.kind.value, reason=reason,
                    )  # fmt: skip
            case _:
                assert_never(answer)

    async def _call(self, webhook: Webhook) -> WebhookAnswer:
        endpoint = endpoint_of(self._endpoints(), webhook.kind, webhook.target)
        if endpoint is None:
            return WebhookRefused(reason=_NOT_CONFIGURED)
        body = _body(webhook, endpoint)
        signed: Mapping[str, str] = {"webhook-id": webhook.id}
        if endpoint.secret:
            # Receivers compare it with the time of day, also where a test moves our clock.
            signed = signature_headers(endpoint.secret, webhook.id, int(time.time()), body)
        return await self._client.post(endpoint.url, body, {**endpoint.headers, **signed})

    def _give_up(self, tx: Transaction, webhook: Webhook, reason: str) -> None:
        if webhooks.end(tx, webhook, WebhookStatus.FAILED, reason):
            self._on_failure(tx, webhook, reason)


def _body(webhook: Webhook, endpoint: WebhookEndpoint) -> bytes:
    if not endpoint.fields:
        return webhook.body.encode()
    return orjson.dumps({**orjson.loads(webhook.body), **endpoint.fields})


def _pause(webhook: Webhook, answer: WebhookPostponed) -> float:
    wanted = max(answer.retry_after_seconds, _BACKOFF_SECONDS[min(webhook.attempts, len(_BACKOFF_SECONDS) - 1)])
    return min(wanted, _LONGEST_PAUSE_SECONDS)
