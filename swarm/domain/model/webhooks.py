"""Webhooks: calls of other services, stored in the transaction of their cause and made afterwards.

A call is repeated until the service accepts it, so the service may get it more than once. Each repetition has the same
id (the header ``webhook-id``), and each body names what it is about, so that a repetition changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

WHSEC: Final = "whsec_"
"""The prefix of a secret in base64, as the receivers' libraries write it."""


class WebhookKind(StrEnum):
    """What a call is about, and the service that gets it."""

    LANGFUSE = "langfuse"  # feedback as a score
    CAIPE = "caipe"  # feedback for CAIPE's web interface
    FEEDBACK = "feedback"  # feedback for the operator's own service
    ESCALATION = "escalation"  # a person asked for a human


class WebhookStatus(StrEnum):
    """The state of a call.

    ::

        open → sent | failed
    """

    OPEN = "open"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    """One call of a service."""

    id: str
    kind: WebhookKind
    target: str  # the channel's id for an escalation; otherwise empty
    body: str = field(repr=False)  # JSON; empty once the call is over
    thread_id: str | None
    person: str | None  # the user id of the person whose words the body contains
    status: WebhookStatus
    attempts: int
    error: str | None  # of the last attempt
    created_at: int
    ended_at: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookEndpoint:
    """The address of a service, and its secrets. These come from the settings and are never stored."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)  # added to the body, such as a routing key
    secret: str | None = field(default=None, repr=False)  # signs the body


WebhookEndpoints = Mapping[tuple[WebhookKind, str], WebhookEndpoint]
"""The endpoints by kind and target. The target "" applies to targets without an endpoint of their own."""


def endpoint_of(endpoints: WebhookEndpoints, kind: WebhookKind, target: str) -> WebhookEndpoint | None:
    """Returns the endpoint of a call; None if the settings have none."""
    return endpoints.get((kind, target)) or endpoints.get((kind, ""))


def signature_headers(secret: str, webhook_id: str, timestamp_seconds: int, body: bytes) -> dict[str, str]:
    """Returns the headers that prove the sender, as the specification Standard Webhooks defines them.

    ``secret`` is used as it is; with the prefix ``whsec_``, the rest is read as base64.
    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    key = base64.b64decode(secret.removeprefix(WHSEC)) if secret.startswith(WHSEC) else secret.encode()
    signed = f"{webhook_id}.{timestamp_seconds}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp_seconds),
        "webhook-signature": f"v1,{signature}",
    }


# The results of one call, as a closed set that is matched exhaustively.


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookAccepted:
    """The service answered with a status of 200 to 299."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookRefused:
    """The service will never accept this call."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookPostponed:
    """The service may accept the call later: it was unreachable, busy, or failed."""

    reason: str
    retry_after_seconds: float = 0.0  # as the service asks


WebhookAnswer = WebhookAccepted | WebhookRefused | WebhookPostponed
