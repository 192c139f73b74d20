"""Answers in words: a person's message in the thread instead of the form.

A text answers an open request if it is routed to the asker, if its author may decide, and if the form asks for exactly
one text. Other messages take their usual way; the first of each person is told where the form is, visibly only to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from swarm.domain.decision_rules import eligible_people, step_of, why_not
from swarm.domain.forms import fill
from swarm.domain.model.grants import AuditKind
from swarm.domain.model.requests import EntryPoint, FieldType, FormField, HumanDecision, HumanRequest, RequestAnswer
from swarm.domain.model.threads import SlackMessage, Thread
from swarm.domain.text.slack_text import safe, without_leading_mention
from swarm.services.requests.asking import ended, lock_work, refresh_cards
from swarm.services.rules.system_messages import post_ephemeral
from swarm.store import grants, requests
from swarm.store.bridge.transaction import Transaction

WHERE_TEXT: Final = (
    "✋ A form is open in this thread: “{title}”. Your message goes to the agent as usual; to answer the form, use its "
    "buttons."
)

_TEXTS: Final = frozenset({FieldType.TEXT, FieldType.TEXTAREA, FieldType.URL, FieldType.EMAIL})

KnownMembers = Callable[[str], frozenset[str] | None]
"""Returns the members of a user group as far as this process knows them; None if it does not."""


def answer_in_words(
    tx: Transaction, thread: Thread, message: SlackMessage, agent_ids: Collection[str], known: KnownMembers
) -> HumanRequest | None:
    """Takes a message as the answer to the open request of one of these agents, if it is one.

    Returns the answered request; None: the message takes its usual way. The thread is locked.
    """
    found = [one for one in requests.open_in_thread(tx, thread.id) if one.agent_id in agent_ids]
    if not found:
        return None
    request = lock_work(tx, found[0].id) if len(found) == 1 else None
    field = _only_text(request) if request else None
    if request and field and _takes(tx, request, field, message, known):
        return request
    if found[0].holds:  # the message waits, and its author is told so
        return None
    key = f"request-where:{found[0].id}:{message.author.id}"
    post_ephemeral(tx, thread, message, WHERE_TEXT.format(title=safe(found[0].title)), key)
    return None


def _only_text(request: HumanRequest) -> FormField | None:
    """Returns the field that a text can fill: the form's only text, if nothing else is required."""
    if any(answer.values is not None for answer in request.answers):
        return None  # the first person's values stand, and approving them takes a button
    texts = [field for field in request.fields if field.type in _TEXTS]
    needed = [field for field in request.fields if field.required and field not in texts]
    if len(texts) != 1 or needed or HumanDecision.ANSWER not in request.decisions or texts[0].secret:
        return None
    return texts[0]


def _takes(
    tx: Transaction, request: HumanRequest, field: FormField, message: SlackMessage, known: KnownMembers
) -> bool:
    """Stores a message as an answer. Returns False if it is none."""
    members = {group: known(group) for group in request.policy.groups}
    person = message.author.id
    if request.is_late(tx.now) or why_not(request.policy, request.requesters, person, members):
        return False
    filled = fill(request.fields, {field.name: without_leading_mention(message.own_text)})
    if filled.problems:
        return False
    answer = RequestAnswer(
        person=person, decision=HumanDecision.ANSWER, at=tx.now, door=EntryPoint.SLACK, values=filled.values
    )
    if not requests.answer(tx, request.id, answer):
        return False
    grants.note(tx, AuditKind.DECIDED, "answer in words", request, person=person)
    eligible = eligible_people(request.policy, request.requesters, members)
    step = step_of(request.policy, (*request.answers, answer), eligible)
    if step and requests.move(tx, step, request, f"answered in words by <@{person}>"):
        ended(tx, request.id)
    elif now := requests.get(tx, request.id):
        refresh_cards(tx, now)
    return True
