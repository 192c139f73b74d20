"""Grants, which people give in advance for a tool, and the audit of requests and grants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from swarm.domain.model.requests import HumanDecision
from swarm.domain.views import Hidden, JsonView, Key, Time

THREAD_GRANT_SECONDS: Final = 7 * 24 * 3600
ALWAYS_GRANT_SECONDS: Final = 90 * 24 * 3600


class GrantScope(StrEnum):
    """Where a grant applies."""

    THREAD = "thread"
    ALWAYS = "always"


class GrantCovers(StrEnum):
    """Whose work a grant applies to."""

    GIVER = "giver"  # work that the giver asked for
    EVERYBODY = "everybody"


GRANTS: Final = {
    HumanDecision.APPROVE_THREAD: (GrantScope.THREAD, THREAD_GRANT_SECONDS),
    HumanDecision.APPROVE_ALWAYS: (GrantScope.ALWAYS, ALWAYS_GRANT_SECONDS),
}
"""The scope and the duration of the grant that a decision gives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant(JsonView):
    """A permission for one tool of one agent.

    People gave it in advance.
    """

    id: str
    agent_id: Hidden[str]
    agent: str  # its name
    tool: str
    scope: GrantScope
    covers: GrantCovers
    thread_id: Annotated[str | None, Key("thread")]
    request_id: Hidden[str]  # the request whose decision gave it
    given_by: str  # a Slack user id, or `OPERATOR`
    created_at: Time
    expires_at: Time | None
    revoked_at: Hidden[int | None]
    uses: int


class AuditKind(StrEnum):
    """The kind of a line in the audit."""

    ASKED = "asked"
    REFUSED = "refused"  # an attempt to decide that was not allowed
    DECIDED = "decided"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    RESUMED = "resumed"  # the decision has reached the asker, or the asker failed
    GRANTED = "granted"
    REVOKED = "revoked"
    USED = "used"  # a grant decided


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditLine(JsonView):
    """One line of the audit. ``seq`` orders the lines; pass the last one as ``after`` to read on."""

    contract_name = "AuditShape"

    seq: int
    at: Time
    kind: AuditKind
    request_id: Annotated[str | None, Key("request")]
    person: str | None
    agent_id: Hidden[str | None]
    agent: str | None  # its name
    tool: str | None
    digest: str | None
    outcome: str  # what happened, for a decision also from where
