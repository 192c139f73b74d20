"""Usage that agents report, budgets that are used up, and the people who approve more.

Who may act: an agent reports the usage of its own runs, and asks about their budgets; the coordinator writes the
question, so an approval is always about the budget that the card names. Guarantee: an approval raises the limit in the
transaction that stores the decision, once, to the amount on the card; several approvals of the same amount raise it
once. What several runs use at the same moment may exceed a budget by what is under way.

Lock order: the thread, the lease, the run, then the request. A rejection locks the lease after the request, which the
thread's lock allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import structlog

from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Agent, Reach
from swarm.domain.model.budgets import BudgetRaise, BudgetScope, BudgetUnit, UsedBudget
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.model.requests import (
    BY_REQUESTER,
    OPERATOR,
    DecisionPolicy,
    HumanRequest,
    NewRequest,
    RequestStatus,
)
from swarm.domain.policy.budgets import Budget, Budgets
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.texts import person_text
from swarm.services.requests.asking import ask_live
from swarm.services.requests.human_requests import HumanRequests
from swarm.services.speaking.system_messages import post_message
from swarm.services.work import task_ends
from swarm.services.work.leases import claimed_members, end_notice, lose, stop
from swarm.store import agents, history, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import budget_raises, model_usage
from swarm.store.inbox import leases
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

RULE: Final = "budget-{scope}"
"""The name under which the operator's ``decisions`` find the requests about a budget, such as ``budget-day``."""

REFUSED: Final = "The agent's report of its usage was not valid, so the budget of this run counts as used up."

_START_SECONDS: Final = 1800.0
"""How long a run of a built-in agent waits for more of a budget before it starts."""

_log = structlog.get_logger(__name__)


class RunUsage:
    """The usage of the runs of polling agents, and the budgets of all runs."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy, requests: HumanRequests) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._requests = requests

    async def report(self, agent: Agent, run_id: str, total: ModelUsage, model: str = "") -> list[UsedBudget]:
        """Stores the total usage of an agent's run so far, and returns the budgets that are used up.

        Reports may be repeated; a total that is lower than before is ignored. Raises NotFound for another agent's run.
        """
        return await self._database.write(_report, agent, run_id, total, model, self._operating_policy.budgets)

    async def refuse(self, agent: Agent, run_id: str) -> None:
        """Uses up the budget of a run, and no other, because its report is not valid. Raises NotFound for another
        agent's run."""
        nothing = ModelUsage(cost_microdollars=None)
        await self._database.write(_report, agent, run_id, nothing, "", self._operating_policy.budgets, REFUSED)

    async def ask(self, agent: Agent, run_id: str, scope: BudgetScope, unit: BudgetUnit) -> HumanRequest | None:
        """Asks people for more of a budget. The caller keeps its lease and waits for the decision.

        A repeated call returns the same request. Returns None if the budget is not used up (any more). Raises NotFound
        for another agent's run, and Conflict if the run is over or if people cannot be asked.
        """
        return await self._database.write(self._ask, agent, run_id, scope, unit)

    def _ask(
        self, tx: Transaction, agent: Agent, run_id: str, scope: BudgetScope, unit: BudgetUnit
    ) -> HumanRequest | None:
        run = runs.owned(tx, run_id, agent.id)
        found = used_up(tx, self._operating_policy.budgets, agent=agent.name, run_id=run.id, thread_id=run.thread_id)
        budget = next((one for one in found if (one.scope, one.unit) == (scope, unit)), None)
        return ask_for_more(tx, run, budget, self._operating_policy) if budget else None

    async def why_not_start(self, agent: str, run_id: str | None = None, thread_id: str | None = None) -> str:
        """Returns why a run of a built-in agent may not start, as a sentence; empty if it may.

        If a budget is used up, the people of the run ``run_id`` are asked for more, and this waits for their decision.
        Without a run, nobody is asked. Raises Unavailable.
        """
        while True:
            budgets = self._operating_policy.budgets
            found = await self._database.read(used_up, budgets, agent=agent, thread_id=thread_id)
            if not found:
                return ""
            _log.info("A budget is used up.", action="budget_used_up", agent=agent, budget=found[0].sentence)
            if run_id is None or not await self._is_raised(run_id, found[0]):
                return f"{found[0].sentence}."

    async def _is_raised(self, run_id: str, budget: UsedBudget) -> bool:
        new = replace(_question(budget), expires_seconds=_START_SECONDS)
        try:
            request = await self._requests.ask_during_run(run_id, RULE.format(scope=budget.scope), new)
        except Conflict:  # nobody can be asked
            return False
        return request.status is RequestStatus.APPROVED


def used_up(
    tx: Transaction, budgets: Budgets, *, agent: str, run_id: str | None = None, thread_id: str | None = None
) -> list[UsedBudget]:
    """Returns the budgets that the runs of an agent have used up, from the narrowest scope on.

    Only budgets with a limit are looked up.
    """
    of = {BudgetScope.RUN: run_id, BudgetScope.THREAD: thread_id, BudgetScope.AGENT: agent, BudgetScope.DAY: "all"}
    return [
        budget
        for scope, limits in budgets.of(agent).items()
        for budget in _used_up(tx, scope, of[scope] or "", limits, budgets)
    ]


def _used_up(tx: Transaction, scope: BudgetScope, of: str, budget: Budget, budgets: Budgets) -> Iterator[UsedBudget]:
    """Yields the limits of a budget that are used up. ``of`` is empty for work without such a subject."""
    is_refused = scope is BudgetScope.RUN and bool(of) and model_usage.was_refused(tx, of)
    limits = list(budget.limits) or list(budgets.reported.limits if is_refused else ())
    if not limits or not of:
        return
    amounts = model_usage.counted(tx, scope, of, budgets)
    subject = _subject(tx, scope, of)
    for unit, step in limits:
        used = amounts[unit]
        is_raised = is_refused or used >= step
        limit = max(step, (is_raised and budget_raises.approved_limit(tx, scope, unit, subject)) or 0)
        if used >= limit or is_refused:
            yield UsedBudget(
                scope=scope, unit=unit, subject=subject, step=step, limit=limit, used=max(used, limit * is_refused)
            )


def ask_for_more(tx: Transaction, run: Run, budget: UsedBudget, operating_policy: OperatingPolicy) -> HumanRequest:
    """Asks the people of a run for more of a budget, once for each amount. Without a thread, the operator decides.

    Raises Conflict if the run is over, or if people cannot be asked.
    """
    key = f"budget:{run.id}:{budget.scope}:{budget.unit}:{budget.next_limit}"
    new = replace(_question(budget), key=key)
    return ask_live(tx, run, RULE.format(scope=budget.scope), new, operating_policy, after_answer=True)


def _question(budget: UsedBudget) -> NewRequest:
    """Returns the question about a budget. A shared one is the operator's: one person does not spend for everybody."""
    wanted = BudgetRaise(scope=budget.scope, unit=budget.unit, subject=budget.subject, limit=budget.next_limit)
    go_on = "go on, up to" if wanted.limit > budget.used else "be asked again, for more than"
    return NewRequest(
        key="",
        title=budget.sentence,
        prompt=f"Approve to {go_on} {budget.shown(wanted.limit)}. Reject to stop the work.",
        budget=wanted,
        policy=DecisionPolicy() if budget.scope.is_shared else BY_REQUESTER,
    )


def settle_budget(tx: Transaction, request: HumanRequest, operating_policy: OperatingPolicy) -> None:
    """Does what people have decided about a budget: an approval raises it, and otherwise a polling agent's work stops.

    A run of a built-in agent has not started, and ends by itself. The thread, the task and the request must be locked.
    """
    if request.budget is None:
        return
    if request.status is RequestStatus.APPROVED:
        _raise(tx, request, request.budget)
    elif request.status in (RequestStatus.REJECTED, RequestStatus.EXPIRED):
        agent = agents.by_id(tx, request.agent_id)
        if agent and agent.reach is Reach.POLLING:
            _stop(tx, request, operating_policy)


def _raise(tx: Transaction, request: HumanRequest, wanted: BudgetRaise) -> None:
    if budget_raises.add(tx, wanted, request.id):
        if wanted.scope is BudgetScope.RUN:
            model_usage.accept(tx, wanted.subject)
        unit = "millionths of a dollar" if wanted.unit is BudgetUnit.DOLLARS else wanted.unit
        reason = f"budget of the {wanted.scope} up to {wanted.limit} {unit}"
        history.record(
            tx, "budget.raise", request.id, thread_id=request.thread_id, agent_id=request.agent_id, reason=reason
        )


def _stop(tx: Transaction, request: HumanRequest, operating_policy: OperatingPolicy) -> None:
    """Stops the work of a request, and tells the thread why. Work that another run has by now goes on."""
    decided = request.deciding
    person = decided.person if decided and decided.person != OPERATOR else None
    refusal = f"{person_text(decided.person)} did not approve" if decided else "nobody approved"
    why = f"because {request.title[:1].lower()}{request.title[1:]}, and {refusal} more"
    task = tasks.locked(tx, request.task_id) if request.task_id else None
    if task:
        if task.lease_token == request.lease_token:
            task_ends.cancel(tx, task, why, operating_policy, person=person)
    elif request.thread_id and _stop_answer(tx, request, request.thread_id, why, operating_policy):
        mentioned = frozenset({person} if person else ())
        thread = threads.locked(tx, request.thread_id)
        text = f"I stopped the work {why}."
        post_message(tx, thread, text, agent_id=request.agent_id, mentionable=mentioned)


def _stop_answer(
    tx: Transaction,
    request: HumanRequest,
    thread_id: str,
    why: str,
    operating_policy: OperatingPolicy,
) -> bool:
    """Ends the lease of work on messages, and its stream. Returns whether people may be told: not of work for which
    nobody has asked, nor if the run has the work no longer.

    The lease also ends if its messages are answered already, because the run could post more under it.
    """
    thread = threads.locked(tx, thread_id)
    lease = leases.by_token(tx, request.lease_token or "")
    if lease is None or not leases.holds(lease):
        return False
    if lease.kind is LeaseKind.NOTICE:  # of a lead, who would get it again: people learn of the result in its place
        end_notice(tx, lease, operating_policy, is_heard=False)
        return True
    reason = f"stopped {why}"
    is_unasked = bool(claimed_members(tx, lease)) and not stop(tx, thread, [lease.token], reason, operating_policy)
    lose(tx, lease.token, LeaseEnd.CANCELLED, why, operating_policy)  # if its messages were answered already
    # Without a person, whom the post about the budget names.
    is_streaming = request.run_id is not None and runs.request_stop(tx, None, run_id=request.run_id) > 0
    return is_streaming or not is_unasked


def _report(
    tx: Transaction, agent: Agent, run_id: str, total: ModelUsage, model: str, budgets: Budgets, refusal: str = ""
) -> list[UsedBudget]:
    runs.owned(tx, run_id, agent.id)
    run = runs.locked(tx, run_id)
    assert run is not None  # found just now
    model_usage.report(tx, run, agent.name, total, model, refusal)
    return used_up(tx, budgets, agent=agent.name, run_id=run.id, thread_id=run.thread_id)


def _subject(tx: Transaction, scope: BudgetScope, of: str) -> str:
    today = model_usage.day_of(tx.now)
    match scope:
        case BudgetScope.AGENT:
            return f"{of} {today}"
        case BudgetScope.DAY:
            return today
    return of
