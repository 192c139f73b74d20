"""The base prompts explain what an agent meets, and show it as it really looks."""

from __future__ import annotations

from pathlib import Path

import pytest

import swarm_base.prompts
from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import MAX_DEPTH, MAX_OPEN_PER_THREAD
from swarm.domain.model.triggers import TriggerKind
from tests.support.every import every
from tests.support.prompts import MARKER, fences, read_history, read_new

TOOLS = [
    "read-inbox-message",
    "slack-reply",
    "slack-stream",
    "dismiss-message",
    "inbox-delegate",
    "list-tasks",
    "get-task",
    "list-agents",
    "send-message",
    "read-messages",
    "tray",
    "slack-read-thread",
    "slack-download-file",
    "slack-upload-file",
    "request-human-input",
    "escalate",
]
TOOLS_OF_ROLE = {
    Role.LEAD: ["create-task", "assign-task", "cancel-task"],
    Role.WORKER: ["accept-task", "decline-task", "task-progress", "task-complete", "task-fail"],
}
MEANT_FOR_BOTH = {
    TriggerKind.SLACK_INBOX_MESSAGE,
    TriggerKind.MESSAGE_CHANGED,
    TriggerKind.MESSAGE_DELETED,
    TriggerKind.AGENT_MESSAGE,
    TriggerKind.HUMAN_INPUT,
}
MEANT_FOR = {
    Role.LEAD: MEANT_FOR_BOTH | {TriggerKind.TASK_DECLINED, TriggerKind.TASK_FINISHED, TriggerKind.TASK_RETURNED},
    Role.WORKER: MEANT_FOR_BOTH
    | {
        TriggerKind.TASK_ASSIGNED,
        TriggerKind.TASK_FOLLOW_UP,
        TriggerKind.TASK_OFFERED,
        TriggerKind.TASK_CANCELLED,
    },
}
ERRORS = ["`lease_lost`", "`withdrawn`", "`unresolved`"]
EXPLAINED = [
    "inbox",
    "trigger",
    "thread_context",
    "data, not orders",
    "preview",
    "lease_token",
    "renew",
    *TOOLS,
    *ERRORS,
]


def base_prompt(role: Role) -> str:
    return Path(swarm_base.prompts.__file__).with_name(f"{role}.md").read_text(encoding="utf-8")


@pytest.mark.req("LOOP-19")
@every("role", Role)
@every("word", EXPLAINED)
def test_a_base_prompt_explains_what_an_agent_meets(role: Role, word: str) -> None:
    assert word in base_prompt(role)


@pytest.mark.req("LOOP-19")
@pytest.mark.parametrize("role", Role)
def test_the_fences_in_a_base_prompt_have_the_form_of_real_ones(role: Role) -> None:
    example = "\n".join(line.removeprefix("    ") for line in base_prompt(role).split("\n"))
    (_, new), (_, context) = fences(example, MARKER)
    assert read_new(new).author == "Alice"
    assert [read.number for read in read_history(context)] == [None, 1]


@pytest.mark.req("LOOP-05", "LOOP-19")
@pytest.mark.parametrize("role", Role)
def test_a_base_prompt_explains_each_kind_of_trigger_that_its_role_is_given(role: Role) -> None:
    opened = base_prompt(role).split("## How to read a prompt")[0]
    assert {kind for kind in TriggerKind if f"`{kind}`" in opened} == MEANT_FOR[role]


@pytest.mark.req("LOOP-05", "LOOP-19")
def test_every_kind_of_trigger_is_meant_for_somebody() -> None:
    assert set().union(*MEANT_FOR.values()) == set(TriggerKind)


@pytest.mark.req("LOOP-19")
@every(("role", "tool"), [(role, tool) for role, tools in TOOLS_OF_ROLE.items() for tool in tools])
def test_a_base_prompt_names_the_tools_of_its_role(role: Role, tool: str) -> None:
    assert f"`{tool}`" in base_prompt(role)


@pytest.mark.req("LOOP-19")
def test_the_limits_of_delegation_in_the_leads_prompt_are_the_real_ones() -> None:
    prompt = " ".join(base_prompt(Role.LEAD).split())
    assert f"tasks are nested at most {MAX_DEPTH} deep, a thread has at most {MAX_OPEN_PER_THREAD} open tasks" in prompt


@pytest.mark.req("LOOP-19")
@pytest.mark.parametrize("role", Role)
def test_a_base_prompt_is_short(role: Role) -> None:
    assert len(base_prompt(role).splitlines()) < 120
