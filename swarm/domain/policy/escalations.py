"""Escalations: somebody asks for a human in a thread, once. Their texts in Slack, and the bodies for paging services.

A text from an agent or a person is untrusted. Only ids from the settings, and the ids that Slack has confirmed, become
mentions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from swarm.clock import SECOND, to_iso
from swarm.domain.model.threads import Thread, permalink
from swarm.domain.policy.channels import EscalationPolicy, WebhookFormat
from swarm.domain.text.slack_text import safe
from swarm_base.characters import strip_invisible
from swarm_base.secrets import without_secrets

MAX_REASON_CHARACTERS: Final = 500
"""A longer reason is cut: the thread shows it in one sentence, and services limit their texts."""

ON_CALL_SECONDS: Final = 300
"""How long the on-call agent has for its answer."""

MAX_SUMMARY_CHARACTERS: Final = 1_024
"""PagerDuty's limit for a summary, and ours for VictorOps' display name."""


class EscalationDoor(StrEnum):
    """How help was asked for."""

    BUTTON = "button"
    TOOL = "tool"
    DEAD_LETTER = "dead_letter"  # by the coordinator: a message was set aside


class OnCall(StrEnum):
    """The state of the question who is on call."""

    ASKED = "asked"
    FOUND = "found"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, kw_only=True, slots=True)
class EscalationAsker:
    """The one who asks for help: a person, an agent, or the coordinator."""

    door: EscalationDoor
    person: str | None = None  # a Slack user id
    agent_id: str | None = None  # of the agent that asks, or whose work was set aside
    name: str = ""  # of the person or the agent; empty if unknown
    channel_name: str = ""  # of the place, without #; empty if unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Escalation:
    """The one escalation of a thread."""

    id: str
    thread_id: str
    door: EscalationDoor
    person: str | None  # a Slack user id; None: an agent or the coordinator, or the person's data were erased
    agent_id: str | None  # of the agent that asked, or whose work was set aside
    agent: str | None  # the agent's name
    reason: str
    emoji: str | None  # added to the thread's first message
    created_at: int
    on_call: OnCall | None  # None: no agent was asked
    on_call_task_id: str | None  # the question; None if the agent was not there
    on_call_team: str
    on_call_person: str | None  # a Slack user id
    on_call_note: str | None  # why nobody was found
    on_call_ends_at: int | None  # when the agent's time to answer ends


def cleaned_reason(reason: str) -> str:
    """Returns a reason on one line, without secrets and invisible characters, and cut to MAX_REASON_CHARACTERS."""
    return _cut(" ".join(without_secrets(strip_invisible(reason)).split()), MAX_REASON_CHARACTERS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


# --- In Slack


def call_text(policy: EscalationPolicy, asker: EscalationAsker, reason: str) -> str:
    """Returns the post that calls for help, safe for Slack: mentions of the settings, the asker, and the reason."""
    called = [f"<@{user}>" for user in policy.users] + [f"<!subteam^{group}>" for group in policy.groups]
    why = f": {safe(reason)}" if reason and asker.door is not EscalationDoor.DEAD_LETTER else ""
    sentence = f"{_who_asks(asker)}{why}"
    if called:
        return f"{' '.join(called)}: {sentence}{_stop(sentence)}"
    return f"{sentence[0].upper()}{sentence[1:]}{_stop(sentence)}"


def _who_asks(asker: EscalationAsker) -> str:
    if asker.door is EscalationDoor.DEAD_LETTER:
        return "I could not answer a message here, and need a human"
    return f"{f'<@{asker.person}>' if asker.person else f'the agent {asker.name}'} needs a human here"


def _stop(sentence: str) -> str:
    return "" if sentence.endswith((".", "!", "?", "…")) else "."


def asked_by(escalation: Escalation) -> str:
    """Returns who asked, for programs: a user id, an agent's name, or ``swarm``."""
    if escalation.door is EscalationDoor.DEAD_LETTER:
        return "swarm"
    return escalation.person or escalation.agent or "unknown"


def asked_before_text(escalation: Escalation) -> str:
    """Returns who has asked for help, and when, in the reader's time zone."""
    return f"{_asker_of(escalation)} already asked for help here, {_when(escalation.created_at)}."


def _asker_of(escalation: Escalation) -> str:
    if escalation.door is EscalationDoor.DEAD_LETTER:
        return "I"
    if escalation.person:
        return f"<@{escalation.person}>"
    return f"the agent {escalation.agent}" if escalation.agent else "somebody"


def _when(moment_us: int) -> str:
    moment = datetime.fromtimestamp(moment_us // SECOND, UTC)
    return f"<!date^{moment_us // SECOND}^{{date_short_pretty}} at {{time}}|on {moment:%Y-%m-%d at %H:%M} UTC>"


def on_call_text(team: str, person: str) -> str:
    """Returns the post that calls the person on call."""
    return f"<@{person}> is on call{_for(team)}: please look at this thread."


def not_found_text(team: str, why: str) -> str:
    """Returns the post without a person on call. ``why`` is a clause."""
    return f"I could not find who is on call{_for(team)}: {safe(why)}."


def service_failed_text(service: WebhookFormat | None, why: str) -> str:
    """Returns the post after the last attempt to tell a service. ``why`` is a clause."""
    return f"I could not tell {SERVICE_NAMES.get(service, SERVICE_NAMES[None])}: {safe(why)}{_stop(why)}"


SERVICE_NAMES: Final[Mapping[WebhookFormat | None, str]] = {
    WebhookFormat.PAGERDUTY: "PagerDuty",
    WebhookFormat.VICTOROPS: "VictorOps",
    WebhookFormat.JSON: "the on-call service",
    None: "the on-call service",
}


def _for(team: str) -> str:
    return f" for {safe(team)}" if team else ""


# --- The on-call agent


def on_call_question(team: str) -> str:
    """Returns the task of the on-call agent. It contains nothing from people or other agents."""
    return (
        f"Who is on call{f' for {team}' if team else ''} now? "
        "Answer with one e-mail address or one Slack user id, and nothing else."
    )


_EMAIL: Final = re.compile(r"[\w.+'-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}")
_USER_ID: Final = re.compile(
    r"(?<![\w@.-])(?=[A-Z]*[0-9])[UW][A-Z0-9]{5,20}(?![\w@-])|(?<=<@)[UW][A-Z0-9]{1,20}(?=[|>])"
)


def email_in(answer: str) -> str | None:
    """Returns the last e-mail address in an agent's answer."""
    return next(reversed(_EMAIL.findall(answer)), None)


def user_id_in(answer: str) -> str | None:
    """Returns the last Slack user id in an agent's answer."""
    return next(reversed(_USER_ID.findall(answer)), None)


# --- Paging services


@dataclass(frozen=True, kw_only=True, slots=True)
class EscalationCall:
    """The facts for a paging service."""

    escalation_id: str
    at: int
    thread: Thread
    asker: EscalationAsker
    reason: str
    workspace_url: str = ""  # for the link; empty if unknown

    @property
    def key(self) -> str:
        """The same for all calls about a thread: services open one incident for it."""
        return f"swarm:{self.thread.team}:{self.thread.channel}:{self.thread.thread_ts}"

    @property
    def link(self) -> str:
        """The thread's address."""
        return permalink(self.workspace_url, self.thread.channel, self.thread.thread_ts) if self.workspace_url else ""

    @property
    def place(self) -> str:
        """The channel for readers."""
        name = self.asker.channel_name
        return f"#{name}" if name and self.thread.channel.startswith(("C", "G")) else name or self.thread.channel

    @property
    def asked_by(self) -> str:
        """The asker for readers."""
        return self.asker.name or self.asker.person or "swarm"

    @property
    def summary(self) -> str:
        """The call in one line."""
        if self.asker.door is EscalationDoor.DEAD_LETTER:
            return _cut(f"The swarm could not answer a message in {self.place}: {self.reason}", MAX_SUMMARY_CHARACTERS)
        why = f": {self.reason}" if self.reason else ""
        return _cut(f"{self.asked_by} asks for help in {self.place}{why}", MAX_SUMMARY_CHARACTERS)


def webhook_body(call: EscalationCall, format: WebhookFormat) -> dict[str, JsonValue]:
    """Returns the body for a service, without its secrets."""
    return _BODIES[format](call)


def _own(call: EscalationCall) -> dict[str, JsonValue]:
    asker, thread = call.asker, call.thread
    return {
        "event": "escalation",
        "id": call.escalation_id,
        "at": to_iso(call.at),
        "door": asker.door.value,
        "summary": call.summary,
        "reason": call.reason,
        "person": {"id": asker.person, "name": asker.name} if asker.person else None,
        "agent": (asker.name or None) if asker.agent_id else None,
        "channel": {"id": thread.channel, "name": asker.channel_name},
        "thread": {"team": thread.team, "ts": thread.thread_ts, "url": call.link, "key": call.key},
    }


def _pagerduty(call: EscalationCall) -> dict[str, JsonValue]:
    """https://developer.pagerduty.com/docs/events-api-v2/trigger-events/"""
    body: dict[str, JsonValue] = {
        "event_action": "trigger",
        "dedup_key": call.key,
        "client": "swarm",
        "payload": {
            "summary": call.summary,
            "source": call.place,
            "severity": "critical",
            "timestamp": to_iso(call.at),
            "component": "swarm",
            "custom_details": _details(call),
        },
    }
    if call.link:
        body |= {"client_url": call.link, "links": [{"href": call.link, "text": "The thread in Slack"}]}
    return body


def _victorops(call: EscalationCall) -> dict[str, JsonValue]:
    """https://help.splunk.com/en/splunk-observability-cloud/splunk-on-call/alerts/incident-fields-glossary"""
    lines = [call.summary, *([f"Thread: {call.link}"] if call.link else [])]
    return {
        "message_type": "CRITICAL",
        "entity_id": call.key,
        "entity_display_name": call.summary,
        "state_message": "\n".join(lines),
        "state_start_time": call.at // SECOND,
        "monitoring_tool": "swarm",
        **_details(call),
    }


def _details(call: EscalationCall) -> dict[str, JsonValue]:
    return {
        "asked_by": call.asked_by,
        "door": call.asker.door.value,
        "reason": call.reason,
        "channel": call.place,
        "thread": call.link,
        "escalation": call.escalation_id,
    }


_BODIES: Final = {
    WebhookFormat.JSON: _own,
    WebhookFormat.PAGERDUTY: _pagerduty,
    WebhookFormat.VICTOROPS: _victorops,
}
