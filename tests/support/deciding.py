"""Decisions of people on what an agent asks, without a database: the request as it would be stored, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.domain.answers.events import Asked, Decided
from swarm.domain.answers.questions import decided_of, request_of
from swarm.domain.model.requests import (
    Asker,
    EntryPoint,
    HumanDecision,
    HumanRequest,
    RequestAnswer,
    RequestStatus,
    ResumeStatus,
)
from swarm.domain.policy.decision_rules import check_new

_STATUS = {HumanDecision.REJECT: RequestStatus.REJECTED, HumanDecision.ANSWER: RequestStatus.ANSWERED}


def decided(
    asked: Asked,
    decision: HumanDecision | None,
    *,
    values: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    status: RequestStatus | None = None,
) -> Decided:
    """What an agent is told about a decision; without one about a request that expired, if no other status is given."""
    answer = decision and RequestAnswer(
        person="U1", decision=decision, at=1, door=EntryPoint.SLACK, values=values, arguments=arguments
    )
    default = _STATUS.get(decision, RequestStatus.APPROVED) if decision else RequestStatus.EXPIRED
    return decided_of(request(asked, status or default, *([answer] if answer else [])))


def request(asked: Asked, status: RequestStatus = RequestStatus.OPEN, *answers: RequestAnswer) -> HumanRequest:
    """The request for a question as it is stored. It is one that people can answer."""
    new = request_of(asked, f"run:r1:{asked.id}")
    check_new(new)
    if answers:
        assert answers[0].decision in new.decisions
    return HumanRequest(
        id="q1",
        key=new.key,
        agent_id="a1",
        agent="ada",
        thread_id="t1",
        run_id="r1",
        work_id="w1",
        task_id=None,
        inbox_message_ids=("w1",),
        lease_token="l1",
        asker=Asker.DURABLE,
        status=status,
        resume=ResumeStatus.NONE,
        requesters=("U1",),
        title=new.title,
        prompt=new.prompt,
        fields=new.fields,
        decisions=new.decisions,
        tool=new.tool,
        policy=new.policy,
        agent_request_id=new.agent_request_id,
        raw=new.raw,
        created_at=0,
        expires_at=None,
        ended_at=None,
        reason=None,
        answers=answers,
    )
