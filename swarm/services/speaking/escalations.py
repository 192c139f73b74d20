"""Escalates a thread to a human, once, with everything that the channel's settings name.

What is guaranteed: one escalation per thread, whoever asks and however. Its row, the post with the mentions, the
reaction, the call of the paging service and the question to the on-call agent are stored in one transaction. The
answer of the on-call agent is awaited by the sweep (`swarm.services.operate.on_call`).

Lock order: the thread is locked first, as everywhere; the on-call agent's task has a lane of its own.
"""

from __future__ import annotations

from typing import Final

from swarm.domain.errors import Conflict
from swarm.domain.model.deliveries import DeliveryKind, Mark
from swarm.domain.model.tasks import MAX_TITLE_CHARACTERS, TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.webhooks import Webhook, WebhookKind
from swarm.domain.policy.channels import EscalationPolicy
from swarm.domain.policy.escalations import (
    ON_CALL_SECONDS,
    Escalation,
    EscalationAsker,
    EscalationCall,
    EscalationDoor,
    OnCall,
    call_text,
    cleaned_reason,
    not_found_text,
    on_call_question,
    service_failed_text,
    webhook_body,
)
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.watchers import Escalated
from swarm.services.speaking.participants import read_roster
from swarm.store import deliveries, escalations, tasks, webhooks
from swarm.store.bridge.transaction import Transaction
from swarm.store.reactions import react
from swarm.store.threads import threads

NO_HELP: Final = "Nobody can be asked for help in this channel."

_PRIORITY: Final = 90


def escalate(
    tx: Transaction, thread: Thread, asker: EscalationAsker, reason: str, operating_policy: OperatingPolicy
) -> tuple[Escalation, bool]:
    """Asks for a human in a thread, which must be locked. Returns the escalation, and whether it is new.

    Raises Conflict if the channel's settings name nobody who could help.
    """
    before = escalations.of_thread(tx, thread.id)
    policy = operating_policy.policy(thread.channel).escalation
    if before is None and not policy:
        raise Conflict(NO_HELP, hint=f"An operator can set channels.{thread.channel}.escalation, or a default for it.")
    reason = cleaned_reason(reason)
    new = None if before else escalations.add(tx, thread.id, asker, reason, emoji=policy.emoji, team=policy.team)
    tx.note(Escalated(door=asker.door.value, outcome="asked" if new else "asked_before"))
    if new is None:
        found = before or escalations.of_thread(tx, thread.id)
        assert found is not None  # it has just stopped this one
        return found, False
    _post(tx, thread, call_text(policy, asker, reason), post_key(new))
    emoji = None if thread.is_flat else policy.emoji  # a flat direct message has no first message
    react(tx, thread, thread.thread_ts, emoji, Mark.END, lasting=True)
    _call_service(tx, thread, asker, new, policy, operating_policy.workspace_url)
    if policy.agent:
        _ask_on_call(tx, thread, new, policy, operating_policy)
    return new, True


def escalate_dead_letter(
    tx: Transaction, thread: Thread, reason: str, operating_policy: OperatingPolicy, agent_id: str | None = None
) -> None:
    """Asks for a human because work in a locked thread was set aside, if the channel's settings say so and somebody has
    asked there.
    """
    policy = operating_policy.policy(thread.channel).escalation
    if policy and policy.on_dead_letter and not thread.is_silent:
        asker = EscalationAsker(door=EscalationDoor.DEAD_LETTER, agent_id=agent_id)
        escalate(tx, thread, asker, reason, operating_policy)


def tell_failed_call(tx: Transaction, webhook: Webhook, reason: str, operating_policy: OperatingPolicy) -> None:
    """Posts in the thread that its paging service could not be told."""
    thread = threads.get(tx, webhook.thread_id) if webhook.thread_id else None
    if thread and webhook.kind is WebhookKind.ESCALATION:
        service = operating_policy.policy(webhook.target).escalation.webhook
        _post(
            tx,
            thread,
            service_failed_text(service.format if service else None, reason),
            f"escalation-service:{webhook.id}",
        )


def tell_on_call(tx: Transaction, thread: Thread, escalation: Escalation, text: str) -> None:
    """Posts the outcome of the question who is on call."""
    _post(tx, thread, text, f"escalation-on-call:{escalation.id}")


def post_key(escalation: Escalation) -> str:
    """Returns the idempotency key of the post that calls for help."""
    return f"escalation:{escalation.id}"


def _post(tx: Transaction, thread: Thread, text: str, key: str) -> None:
    deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=key)


def _call_service(
    tx: Transaction,
    thread: Thread,
    asker: EscalationAsker,
    escalation: Escalation,
    policy: EscalationPolicy,
    workspace_url: str,
) -> None:
    if policy.webhook is None:
        return
    call = EscalationCall(
        escalation_id=escalation.id,
        at=escalation.created_at,
        thread=thread,
        asker=asker,
        reason=escalation.reason,
        workspace_url=workspace_url,
    )
    webhooks.add(
        tx,
        WebhookKind.ESCALATION,
        webhook_body(call, policy.webhook.format),
        idempotency_key=post_key(escalation),
        target=thread.channel,
        thread_id=thread.id,
        person=asker.person,
    )


def _ask_on_call(
    tx: Transaction, thread: Thread, escalation: Escalation, policy: EscalationPolicy, operating_policy: OperatingPolicy
) -> None:
    """Gives the on-call agent its question as a task outside the thread, or says that the agent is not there."""
    agent = read_roster(tx, operating_policy).by_name(policy.agent)
    if agent is None or not agent.online:
        why = f"{policy.agent} is offline" if agent else f"there is no agent {policy.agent}"
        escalations.on_call_ended(tx, escalation, OnCall.NOT_FOUND, why)
        tell_on_call(tx, thread, escalation, not_found_text(policy.team, why))
        return
    question = on_call_question(policy.team)
    task = tasks.add(
        tx,
        thread_id=None,
        title=question[:MAX_TITLE_CHARACTERS],
        description=question,
        status=TaskStatus.PENDING,
        priority=_PRIORITY,
        agent_id=agent.id,
        created_by=None,
        reason=f"asked for escalation {escalation.id}",
    )
    escalations.on_call_asked(tx, escalation, task.id, agent.id, ON_CALL_SECONDS)
