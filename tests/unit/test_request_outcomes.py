"""What a card says after its end, as one table: how the request ended, who asked, what became of the resume."""

from __future__ import annotations

import itertools

import pytest

from swarm.clock import SECOND
from swarm.domain.model.requests import Asker, HumanDecision, HumanRequest, RequestStatus, ResumeStatus
from swarm.domain.requests.texts import card_text, decision_lines, outcome_text
from swarm.slack.outgoing.request_outcomes import outcome_blocks
from tests.support.every import every
from tests.support.human_requests import AT, answer, ended_request, human_request

pytestmark = pytest.mark.req("HITL-14")

_D, _R, _S = HumanDecision, RequestStatus, ResumeStatus
ON = "<!date^1790000060^{date_short_pretty} {time}|2026-09-21 14:14 UTC>"
ENDS = {
    _R.APPROVED: (answer("U1"),),
    _R.REJECTED: (answer("U1", _D.REJECT),),
    _R.ANSWERED: (answer("U1", _D.ANSWER, values={}),),
    _R.EXPIRED: (),
    _R.CANCELLED: (),
}
FAILED = "⚠️ The agent failed after this decision. Retry sends the same decision again."
MAY_HAVE_BEGUN = f"{FAILED} What was decided may have begun already."
NOTES = {_R.APPROVED: MAY_HAVE_BEGUN, _R.ANSWERED: MAY_HAVE_BEGUN, _R.REJECTED: FAILED, _R.EXPIRED: FAILED}
"""What a card adds to the decision while its resume counts as failed. Everything else adds nothing."""


def lines(request: HumanRequest) -> list[str]:
    texts = (block.get("text") or block["elements"][0] for block in outcome_blocks(request))
    return [text["text"] for text in texts]


@every(("status", "asker", "resume"), list(itertools.product(ENDS, Asker, _S)))
def test_a_card_says_that_the_agent_failed_only_while_a_resume_has_failed(
    status: RequestStatus, asker: Asker, resume: ResumeStatus
) -> None:
    """A call that waited has no resume. A decision that is sent once more has not failed yet."""
    _, *notes = lines(ended_request(status, *ENDS[status], asker=asker, resume=resume))
    has_failed = asker is Asker.DURABLE and resume is _S.FAILED and status in NOTES
    assert notes == ([NOTES[status]] if has_failed else [])


WITHDRAWN = [
    ("stopped by <@U1>", "🛑 Withdrawn: stopped by <@U1>", "Withdrawn: stopped by <@U1>"),
    ("dropped by <@U1>", "🛑 Withdrawn: dropped by <@U1>", "Withdrawn: dropped by <@U1>"),
    ("the message was deleted", "🛑 Withdrawn: the message was deleted", "Withdrawn: the message was deleted"),
    ("people wrote something else", "🛑 Withdrawn: people wrote something else", None),
    (None, "🛑 Withdrawn: it is no longer needed", "Withdrawn: it is no longer needed"),
    (
        "asked and rejected at 2026-09-21 14:14 UTC",
        f"🛑 Withdrawn: asked and rejected at {ON.replace('60^', '40^')}",
        None,
    ),
    ("see <@U2>", "🛑 Withdrawn: see &lt;@U2&gt;", "Withdrawn: see &lt;@U2&gt;"),
]


@every(("reason", "shown", "told"), WITHDRAWN)
def test_a_withdrawn_request_names_who_withdrew_it(reason: str | None, shown: str, told: str | None) -> None:
    """And nobody whom an agent names in its reason."""
    request = ended_request(_R.CANCELLED, reason=reason)
    assert lines(request) == [shown]
    assert card_text(request).endswith(told or "")


LATE = ended_request(_R.APPROVED, answer("U1"), created_at=AT - 60 * 3600 * SECOND)


@every(
    ("request_", "told"),
    [
        (LATE, "✋ May I deploy? Approved by <@U1> (asked 2 days ago)"),
        (human_request(title="Which one?"), "✋ Which one?"),
        (ended_request(_R.ANSWERED, *ENDS[_R.ANSWERED], title="Which one?"), "✋ Which one? Answered by <@U1>"),
        (ended_request(_R.APPROVED, *ENDS[_R.APPROVED], title="x wants y"), "✋ x wants y. Approved by <@U1>"),
        (ended_request(_R.REJECTED, *ENDS[_R.REJECTED]), "✋ May I deploy? Rejected by <@U1>"),
        (ended_request(_R.EXPIRED), "✋ May I deploy? Nobody decided in time"),
        (ended_request(_R.APPROVED, answer("operator")), "✋ May I deploy? Approved by the operator"),
        (
            ended_request(_R.APPROVED, answer("U1", _D.APPROVE_ALWAYS)),
            "✋ May I deploy? Approved by <@U1>, who always allowed it",
        ),
        (
            ended_request(_R.ANSWERED, *ENDS[_R.ANSWERED], title="Ask <@U2>"),
            "✋ Ask &lt;@U2&gt;. Answered by <@U1>",
        ),
    ],
)
def test_a_notification_says_who_decided_without_a_time(request_: HumanRequest, told: str) -> None:
    assert card_text(request_) == told


def test_who_comes_late_reads_who_decided_and_when() -> None:
    assert outcome_text(ended_request(_R.APPROVED, answer("U1"))) == "approved by <@U1> at 2026-09-21 14:14 UTC"
    assert outcome_text(LATE) == "approved by <@U1> (asked 2 days ago) at 2026-09-21 14:14 UTC"
    assert "asked: 2 days ago" in decision_lines(LATE)
    assert lines(LATE)[0].startswith("✅ Approved by <@U1> (asked 2 days ago) · <!date^")
    assert outcome_text(ended_request(_R.EXPIRED)) == "nobody decided in time"
