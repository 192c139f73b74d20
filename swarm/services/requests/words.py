"""Decisions in words: a person's message in the thread instead of a button or a form.

A label decides like the card's button: the whole message, from a member, where exactly one request of the thread is
open that the member may decide, and its card shows *Approve*. A text answers the form that has exactly one text and
whose card shows everything, if it is routed to the asker: from a requester as it is, from others who may decide after
"answer:". Other messages take their usual way; each person is told once where the question is, visibly only to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.requests import (
    Decide,
    EntryPoint,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
)
from swarm.domain.model.threads import SlackMessage, Standing, Thread
from swarm.domain.policy.decision_rules import GroupMembers, deciders_text
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.shown import fits_card, notified_title
from swarm.domain.text.slack_text import safe, without_leading_mention
from swarm.services.requests.asking import lock_work
from swarm.services.requests.deciding import decide_in_words, why_refused
from swarm.services.requests.held import hold
from swarm.services.speaking.system_messages import post_ephemeral
from swarm.store import requests
from swarm.store.bridge.transaction import Transaction

WHERE_TEXT: Final = "✋ “{title}” still waits for you: use its buttons. I passed your message on as a new one."
NOT_YOURS_TEXT: Final = (
    "✋ “{title}” still waits: only {deciders} can decide it. I passed your message on as a new one."
)

LABELS: Final[Mapping[str, HumanDecision]] = {"approve": HumanDecision.APPROVE, "reject": HumanDecision.REJECT}
"""The labels of a card's buttons that decide as words, in lower case. Labels that give a grant need the button."""

_ANSWER: Final = "answer:"
_TEXTS: Final = frozenset({FieldType.TEXT, FieldType.TEXTAREA, FieldType.URL, FieldType.EMAIL})


def answer_in_words(
    tx: Transaction,
    thread: Thread,
    message: SlackMessage,
    agent_ids: Collection[str],
    members: GroupMembers,
    operating_policy: OperatingPolicy,
) -> HumanRequest | None:
    """Takes a message to these agents as the decision on an open request of the thread, if it is one.

    Returns the decided request; None: the message takes its usual way, as `hold` says. The thread is locked.
    """
    opened = requests.open_in_thread(tx, thread.id) if agent_ids else []
    own = [one for one in opened if one.agent_id in agent_ids]
    mine = [
        one
        for one in opened
        if _has_seen(message, one)
        and why_refused(tx, one, message.author, message.channel, members, operating_policy) is None
    ]
    wish = _label_on(mine, message) or _answer_to(own, mine, message)
    if wish and (decided := decide_in_words(tx, lock_work(tx, wish.request_id), wish, members, operating_policy)):
        return decided
    if own and not own[0].holds:  # otherwise the message waits, and its author is told so
        text = WHERE_TEXT if own[0] in mine else NOT_YOURS_TEXT
        deciders = deciders_text(own[0].policy, own[0].requesters)
        key = f"request-where:{own[0].id}:{message.author.id}"
        post_ephemeral(tx, thread, message, text.format(title=safe(notified_title(own[0])), deciders=deciders), key)
    hold(tx, thread, message, agent_ids, members, operating_policy)
    return None


def _has_seen(message: SlackMessage, request: HumanRequest) -> bool:
    """Whether nobody has changed what the card shows since the message was written."""
    changes = (one for one in request.answers if one.arguments is not None or one.values is not None)
    return all(one.at <= float(message.ts) * SECOND for one in changes)


def _label_on(mine: list[HumanRequest], message: SlackMessage) -> Decide | None:
    """Returns the decision that a label is; None for other texts, edits, forwarded messages and strangers."""
    decision = LABELS.get(without_leading_mention(message.text).strip().casefold())
    is_plain = not message.quoted and not message.files and message.edited_ts is None
    if decision is None or not is_plain or message.author.standing is not Standing.MEMBER or len(mine) != 1:
        return None
    (request,) = mine
    if request.entered is None and any(field.required for field in request.fields):
        return None
    is_sent = request.entered is not None and HumanDecision.APPROVE not in request.decisions
    approves = HumanDecision.ANSWER if is_sent else HumanDecision.APPROVE
    decision = approves if decision is HumanDecision.APPROVE else decision
    if not {approves, decision} <= set(request.decisions) or not fits_card(request):
        return None
    return Decide(request_id=request.id, decision=decision, door=EntryPoint.SLACK, person=message.author.id)


def _answer_to(own: list[HumanRequest], mine: list[HumanRequest], message: SlackMessage) -> Decide | None:
    """Returns the answer to the only text of the only open request of the asker, if the message is one."""
    field = _only_text(own[0]) if len(own) == 1 and own[0] in mine else None
    text = without_leading_mention(message.text.removesuffix(message.quoted))
    is_marked = text.strip().casefold().startswith(_ANSWER)
    if field is None or not text.strip() or not (is_marked or message.author.id in own[0].requesters):
        return None
    return Decide(
        request_id=own[0].id,
        decision=HumanDecision.ANSWER,
        door=EntryPoint.SLACK,
        person=message.author.id,
        values={field.name: text.strip()[len(_ANSWER) :].strip() if is_marked else text},
    )


def _only_text(request: HumanRequest) -> FormField | None:
    """Returns the field that a text can fill: the form's only text, if nothing else is required."""
    if request.entered is not None or not fits_card(request):
        return None  # the first person's values stand, and approving them takes a button; so does reading
    texts = [field for field in request.fields if field.type in _TEXTS]
    needed = [field for field in request.fields if field.required and field not in texts]
    if len(texts) != 1 or needed or HumanDecision.ANSWER not in request.decisions or texts[0].secret:
        return None
    return texts[0]
