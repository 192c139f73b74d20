"""What CAIPE's services ask people, in both shapes, and what comes of people's decisions there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from swarm.agents.remote.resumes import form_data
from swarm.domain.answers.agents import ResumeForm
from swarm.domain.answers.events import AgentEvent, Asked, Decided, Interrupted
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, ToolRequest, options
from tests.agents.asking import CAIPE, run, run_input, text_of
from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.deciding import decided, request
from tests.support.doors import serving

pytestmark = pytest.mark.req("HITL-01", "HITL-02", "HITL-03", "HITL-04", "HITL-05")

D = HumanDecision
RESUMES = {Shape.OLD: ResumeForm.FORM, Shape.PRESENT: ResumeForm.DATA}
VALUES = {"repo": "a/b", "replicas": 3, "where": ["eu", "us"], "sure": True}


class Served:
    """A service, and an agent there."""

    def __init__(self, resume: ResumeForm, url: str, service: Caipe) -> None:
        self._settings: dict[str, Any] = {"dialect": CAIPE, "agent_id": AGENT, "resume": resume}
        self._url = url
        self.service = service

    async def run(self, text: str, *told: Decided) -> list[AgentEvent]:
        given = replace(run_input(text, decided=told), trace_id="0" * 32)
        return await run(self._url, of=given, **self._settings)

    async def asked(self, text: str) -> tuple[Asked, ...]:
        end = (await self.run(text))[-1]
        assert isinstance(end, Interrupted)
        return end.asked

    async def resumed(self, *told: Decided) -> tuple[Any, str]:
        """What the service was sent, and what its agent made of it."""
        said = text_of(await self.run("", *told))
        body = self.service.bodies[-1]
        return body.get("form_data", body.get("resume_data")), said


@contextlib.asynccontextmanager
async def _served(shape: Shape, resume: ResumeForm | None = None) -> AsyncIterator[Served]:
    service = Caipe(shape)
    async with serving(service.app()) as url:
        yield Served(resume or RESUMES[shape], url, service)


@pytest.fixture(params=Shape)
async def both(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    async with _served(request.param) as served:
        yield served


@pytest.fixture
async def present() -> AsyncIterator[Served]:
    async with _served(Shape.PRESENT) as served:
        yield served


@pytest.fixture
async def old() -> AsyncIterator[Served]:
    async with _served(Shape.OLD) as served:
        yield served


async def test_a_form_keeps_all_that_the_service_says_of_its_fields(both: Served) -> None:
    (asked,) = await both.asked("form")
    stored = request(asked)
    assert (stored.prompt, stored.decisions) == (f"Please configure:\n\nAsked by {AGENT}", (D.ANSWER, D.REJECT))
    assert stored.fields == (
        FormField(name="repo", label="Repository", required=True, placeholder="a/b"),
        FormField(name="replicas", type=FieldType.NUMBER, default=3),
        FormField(name="where", type=FieldType.MULTISELECT, options=options("eu", "us", "ap")),
        FormField(name="sure", type=FieldType.BOOLEAN, default=False),
    )


async def test_the_tool_of_the_form_takes_the_values(both: Served) -> None:
    (asked,) = await both.asked("form")
    sent, said = await both.resumed(decided(asked, D.ANSWER, values=VALUES))
    values = {"repo": "a/b", "replicas": "3", "where": "eu, us", "sure": "true"}
    assert json.loads(said) == values
    is_old = both.service.shape is Shape.OLD
    assert json.loads(sent) == (values if is_old else {"type": "form_input", "values": values})


async def test_a_dismissed_form_is_a_refusal(both: Served) -> None:
    (asked,) = await both.asked("form")
    sent, said = await both.resumed(decided(asked, D.REJECT))
    words = "User dismissed the input form without providing values."
    assert said == words
    is_old = both.service.shape is Shape.OLD
    assert sent == words if is_old else json.loads(sent) == {"type": "form_input", "dismissed": True}


async def test_an_expired_form_is_a_refusal_in_other_words(both: Served) -> None:
    (asked,) = await both.asked("form")
    sent, said = await both.resumed(decided(asked, None))
    assert said.startswith("User dismissed")
    assert "obody decided in time." in sent
    if both.service.shape is Shape.OLD:
        assert said == sent
    else:
        assert json.loads(sent) == {"type": "form_input", "dismissed": True, "reason": "Nobody decided in time."}


@pytest.mark.parametrize(
    ("decision", "arguments", "sent", "ran"),
    [
        (D.APPROVE, None, {"decision": "approve"}, [{"path": "a"}]),
        (D.APPROVE_ALWAYS, None, {"decision": "approve"}, [{"path": "a"}]),
        (D.EDIT, {"path": "b"}, {"decision": "edit", "edited_args": {"path": "b"}}, [{"path": "b"}]),
        (D.REJECT, None, {"decision": "reject"}, []),
        (None, None, {"decision": "reject", "reason": "Nobody decided in time."}, []),
    ],
)
async def test_a_call_is_decided(
    decision: HumanDecision | None, arguments: Any, sent: dict[str, Any], ran: list[Any], present: Served
) -> None:
    (asked,) = await present.asked("delete a")
    assert asked.tool == ToolRequest(name="delete", arguments={"path": "a"})
    assert asked.decisions == (D.APPROVE, D.EDIT, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)
    got, _ = await present.resumed(decided(asked, decision, arguments=arguments))
    assert json.loads(got) == {"type": "tool_approval", **sent}
    assert present.service.ran == ran


async def test_calls_of_one_turn_are_decided_one_by_one_in_their_order(present: Served) -> None:
    first, second, third = await present.asked("delete a b c")
    assert [one.tool and one.tool.arguments for one in (first, second, third)] == [{"path": path} for path in "abc"]
    told = decided(third, D.REJECT), decided(second, D.EDIT, arguments={"path": "B"}), decided(first, D.APPROVE)
    got, said = await present.resumed(*told)
    decisions = [
        {"decision": "approve"},
        {"decision": "edit", "tool_name": "delete", "edited_args": {"path": "B"}},
        {"decision": "reject"},
    ]
    assert json.loads(got) == {"type": "tool_approval", "decisions": decisions}
    assert present.service.ran == [{"path": "a"}, {"path": "B"}]
    assert said == "deleted a | deleted B | User rejected the tool call"


async def test_a_call_without_its_own_decision_is_not_made(present: Served) -> None:
    first, _ = await present.asked("delete a b")
    await present.resumed(decided(first, D.APPROVE))
    assert present.service.ran == [{"path": "a"}]


@pytest.mark.parametrize(
    ("decision", "arguments", "is_refusal"),
    [(D.APPROVE, None, False), (D.EDIT, {"path": "b"}, True), (D.REJECT, None, True), (None, None, True)],
)
async def test_an_approval_is_never_more_than_was_decided_where_only_forms_are_known(
    decision: HumanDecision | None, arguments: Any, is_refusal: bool, old: Served
) -> None:
    """A service before 0.4.9 would take any text that does not begin so for an approval of the call as it is."""
    asked = Asked(
        id="i1",
        prompt="",
        tool=ToolRequest(name="delete", arguments={"path": "a"}),
        decisions=(D.APPROVE, D.EDIT, D.REJECT),
        raw={"reason": "tool_approval"},
    )
    old.service.asked["c1"] = [{"name": "delete", "args": {"path": "a"}}]
    sent, _ = await old.resumed(decided(asked, decision, arguments=arguments))
    assert sent.startswith("User dismissed") is is_refusal
    assert old.service.ran == ([] if is_refusal else [{"path": "a"}])


@pytest.fixture
async def by_form() -> AsyncIterator[Served]:
    """A service that asks for approvals, by an agent that is set to the default, ``resume: form``."""
    async with _served(Shape.PRESENT, ResumeForm.FORM) as served:
        yield served


@pytest.mark.req("HITL-14")
async def test_where_only_forms_are_told_other_arguments_are_not_offered(by_form: Served) -> None:
    (asked,) = await by_form.asked("delete a")
    assert asked.decisions == (D.APPROVE, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)


@pytest.mark.req("HITL-14")
@pytest.mark.parametrize(("second", "is_refusal"), [(D.APPROVE, False), (D.REJECT, True), (None, True)])
async def test_where_only_forms_are_told_people_read_that_several_calls_are_made_or_none(
    second: HumanDecision | None, is_refusal: bool, by_form: Served
) -> None:
    asked = await by_form.asked("delete a b")
    says = "Asked by agent-17\n\nThe agent asks about 2 calls at once: they are made only if all of them are approved."
    assert [one.prompt for one in asked] == [says, says]
    told = form_data([decided(asked[0], D.APPROVE), decided(asked[1], second)])
    assert told.startswith("User dismissed") is is_refusal


@pytest.mark.req("HITL-14")
async def test_where_only_forms_are_told_a_form_is_asked_as_it_is(by_form: Served) -> None:
    (asked,) = await by_form.asked("form")
    assert request(asked).decisions == (D.ANSWER, D.REJECT)
