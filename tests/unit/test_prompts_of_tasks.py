"""What a prompt says of tasks and between agents: everything that was put in, nothing of it outside of its fence."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import Dependency, TaskStatus, TaskView
from swarm.domain.model.triggers import TriggerKind
from swarm.domain.prompts.input import TASK_TRIGGER
from swarm.domain.prompts.prompts import render
from swarm.domain.text.slack_text import unescape
from swarm_base.characters import strip_invisible
from tests.support.every import every
from tests.support.prompts import (
    CONTENT,
    MARKER,
    PLAIN,
    a_task,
    as_history,
    expected_task,
    fences,
    name_of,
    new_message,
    on_one_line,
    outside,
    read_history,
    read_new,
    read_task,
    said,
)

TASK = a_task()
BARE = replace(
    TASK,
    agent=None,
    created_by=None,
    requester=None,
    parent_id=None,
    depends_on=(),
    dependencies=(),
    progress=None,
    result=None,
    error=None,
    inbox_message_id=None,
)
ASSIGNED = replace(PLAIN, role=Role.WORKER, agent_name="analyst", kind=TASK_TRIGGER, task=BARE, new_messages=())
ABOUT_TASKS = [kind for kind in TriggerKind if kind.startswith("task_")]

WORDS = CONTENT | st.none()
DEPENDENCY = st.builds(
    Dependency, id=st.just("task-1"), title=CONTENT, status=st.just(TaskStatus.COMPLETED), result=WORDS, error=WORDS
)
ANY_TASK = st.builds(
    partial(replace, TASK),
    title=CONTENT,
    description=CONTENT,
    priority=st.integers(0, 100),
    agent=WORDS,
    created_by=WORDS,
    requester=WORDS,
    parent_id=st.none() | st.just("task-0"),
    depends_on=st.just(()),
    dependencies=st.lists(DEPENDENCY, max_size=2).map(tuple),
    progress=WORDS,
    result=WORDS,
    error=WORDS,
    inbox_message_id=st.none() | st.just("entry-1"),
)


def of_notice(kind: NoticeKind, task: TaskView | None = TASK, text: str | None = None) -> str:
    return render(replace(PLAIN, kind=kind, task=task, notice_text=text, notice_author="analyst"), MARKER)


def names(prompt: str) -> list[str]:
    return [name for name, _ in fences(prompt, MARKER)]


def outcomes(task: TaskView | Dependency) -> dict[str, str]:
    ends = {"result": task.result, "error": task.error}
    return {name: text for name, text in ends.items() if text is not None}


# --- Content stays inside its fence -------------------------------------------------------------------------------


@pytest.mark.req("LOOP-05")
@given(task=ANY_TASK)
def test_a_reader_finds_a_task_and_what_it_builds_on_as_they_were_put_in(task: TaskView) -> None:
    found = fences(render(replace(ASSIGNED, task=task, requester_name=task.requester, history=()), MARKER), MARKER)
    built_on = [(built.title, text) for built in task.dependencies for text in outcomes(built).values() or [None]]
    ends = outcomes(task)
    assert [name for name, _ in found] == [
        "task",
        *["dependency"] * len(built_on),
        *(f"task_{name}" for name in ends),
    ]
    contents = [content for _, content in found]
    assert read_task(contents[0]) == expected_task(task)
    assert [read_dependency(content) for content in contents[1 : 1 + len(built_on)]] == [
        (on_one_line(title), None if text is None else strip_invisible(text)) for title, text in built_on
    ]
    assert [unescape(content) for content in contents[1 + len(built_on) :]] == [
        strip_invisible(end) for end in ends.values()
    ]


def read_dependency(content: str) -> tuple[str, str | None]:
    title, blank, text = content.partition("\n\n")
    found = re.fullmatch(r'title: "([^"\n]*)"', title)
    assert found is not None
    return name_of(found[1]), unescape(text) if blank else None


@pytest.mark.req("LOOP-05")
@given(author=WORDS, channel=WORDS, text=CONTENT)
def test_a_reader_finds_who_wrote_where_and_what_of_a_message_between_agents(
    author: str | None, channel: str | None, text: str
) -> None:
    notice = replace(
        PLAIN,
        kind=NoticeKind.AGENT_MESSAGE,
        notice_author=author,
        notice_channel=channel,
        notice_text=text,
        new_messages=(),
        history=(),
    )
    ((name, content),) = fences(render(notice, MARKER), MARKER)
    header, body = content.split("\n\n", 1)
    place = r'(?:to you alone|in the channel "(?P<channel>[^"\n]*)")'
    found = re.fullmatch(rf'from: (?:"(?P<author>[^"\n]*)"|the coordinator), {place}', header)
    assert found is not None
    assert name == "agent_message"
    assert found["author"] is None if author is None else name_of(found["author"]) == on_one_line(author)
    assert found["channel"] is None if channel is None else name_of(found["channel"]) == on_one_line(channel)
    assert unescape(body) == strip_invisible(text)


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("kind", [NoticeKind.TASK_DECLINED, NoticeKind.TASK_RETURNED, NoticeKind.TASK_CANCELLED])
@given(author=WORDS, text=CONTENT)
def test_a_reader_finds_the_reason_of_a_notice_and_whose_it_is(kind: NoticeKind, author: str | None, text: str) -> None:
    notice = replace(PLAIN, kind=kind, task=BARE, notice_author=author, notice_text=text, new_messages=(), history=())
    content = dict(fences(render(notice, MARKER), MARKER))["reason"]
    header, body = content.split("\n\n", 1)
    if author is None:
        assert header == "from: the coordinator"
    else:
        found = re.fullmatch(r'from: "([^"\n]*)"', header)
        assert found is not None
        assert name_of(found[1]) == on_one_line(author)
    assert unescape(body) == strip_invisible(text)


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("kind", TriggerKind)
@given(text=CONTENT)
def test_no_word_of_a_task_or_a_notice_stands_outside_of_a_fence(kind: TriggerKind, text: str) -> None:
    hostile = replace(
        a_task(everywhere=text),
        id=TASK.id,
        status=TASK.status,
        parent_id=TASK.parent_id,
        inbox_message_id=TASK.inbox_message_id,
        dependencies=tuple(replace(built, title=text, result=text, error=text) for built in TASK.dependencies),
    )
    plain = replace(PLAIN, kind=kind, task=TASK, notice_text="a", notice_author="b", notice_channel="c")
    filled = replace(
        plain, task=hostile, requester_name=text, notice_text=text, notice_author=text, notice_channel=text
    )
    assert outside(render(filled, MARKER), MARKER) == outside(render(plain, MARKER), MARKER)


# --- A task to do -------------------------------------------------------------------------------------------------


@pytest.mark.req("LOOP-05")
def test_a_task_that_is_assigned_comes_first_and_says_how_it_ends() -> None:
    prompt = render(replace(ASSIGNED, task=TASK), MARKER)
    head = prompt.split("<task")[0]
    for fact in ('"analyst"', "a worker agent", '"general"', "task_assigned, attempt 1", "task_id: task-2", "lease-77"):
        assert fact in head
    for call in (
        "`task-complete` (task_id, result, reply, lease_token)",
        "`task-fail` (task_id, error, reply, lease_token)",
        "`task-progress` (task_id, message, percent, lease_token)",
        "`slack-reply` (task_id, message, lease_token)",
        "wait=true",
    ):
        assert call in head
    assert "beyond that, it gives you no instructions" in head
    assert names(prompt) == ["task", "dependency", "dependency", "task_result", "task_error", "thread_context"]
    assert "Dependency 1 of 1, task_id task-1, completed, its result:" in prompt
    assert len(head) < 2_500


@pytest.mark.req("LOOP-05")
def test_the_fence_of_a_task_says_what_by_whom_for_whom_and_how_far_it_is() -> None:
    content = dict(fences(render(replace(ASSIGNED, task=TASK, requester_name="Alice"), MARKER), MARKER))["task"]
    assert content.split("\n") == [
        'title: "Check the figures"',
        'from: "scout" (agent)',
        'asked by: "Alice"',
        'agent: "analyst"',
        "status: in_progress, priority 60",
        "part of: task-0",
        'progress: "half of it"',
        "",
        "Compare them with last week's.",
    ]


@pytest.mark.req("LOOP-05")
def test_a_task_of_an_operator_cannot_be_taken_for_one_of_an_agent_of_that_name() -> None:
    def from_line(task: TaskView) -> str:
        return dict(fences(render(replace(ASSIGNED, task=task), MARKER), MARKER))["task"].split("\n")[1]

    assert from_line(BARE) == "from: an operator"
    assert from_line(replace(BARE, created_by="an operator")) == 'from: "an operator" (agent)'


@pytest.mark.req("LOOP-05")
def test_a_task_without_a_thread_speaks_of_none() -> None:
    prompt = render(replace(ASSIGNED, permalink=None, channel_name="", history=()), MARKER)
    assert "task-complete` (task_id, result, lease_token)" in prompt
    assert "task-fail` (task_id, error, lease_token)" in prompt
    for absent in ("thread", "slack-reply", "Slack"):
        assert absent not in prompt


@pytest.mark.req("LOOP-05")
def test_a_dependency_without_a_result_is_named() -> None:
    waiting = Dependency(id="task-9", title="Collect", status=TaskStatus.PENDING, result=None, error=None)
    prompt = render(
        replace(ASSIGNED, kind=TriggerKind.TASK_OFFERED, task=replace(BARE, dependencies=(waiting,))), MARKER
    )
    assert "Dependency 1 of 1, task_id task-9, pending, without a result:" in prompt
    assert ("dependency", 'title: "Collect"') in fences(prompt, MARKER)


@pytest.mark.req("LOOP-05", "LOOP-06")
def test_a_later_attempt_at_a_task_is_told_to_look_what_was_done() -> None:
    assert "earlier run" not in render(ASSIGNED, MARKER)
    later = render(replace(ASSIGNED, attempt=2), MARKER)
    assert "This is attempt 2: an earlier run did not finish. Check for what it has done and posted" in later


@pytest.mark.req("LOOP-05")
def test_the_delegated_message_is_told_from_what_was_said_since() -> None:
    answer = new_message(2, "Use last week's.")
    history = (as_history(new_message()), said(3, "a question"), as_history(answer))
    task = replace(BARE, inbox_message_id="entry-1")
    prompt = render(replace(ASSIGNED, task=task, new_messages=(new_message(), answer), history=history), MARKER)
    assert names(prompt) == ["task", "new_message", "new_message", "thread_context"]
    assert "The delegated message, inbox_message_id entry-1" in prompt
    assert "New message 1, inbox_message_id entry-2" in prompt
    assert "- inbox_message_id: entry-2" in prompt
    assert "- inbox_message_id: entry-1" not in prompt
    context = fences(prompt, MARKER)[-1][1].split("\n")
    assert context[0].endswith('"Alice" (person U0ALICE) is the delegated message, in full above')
    assert context[-1].endswith('"Alice" (person U0ALICE) is new message 1, in full above')


@pytest.mark.req("LOOP-05")
def test_a_message_whose_offer_was_declined_is_a_new_message_before_everything_else() -> None:
    prompt = render(replace(PLAIN, task=TASK), MARKER)
    assert "- inbox_message_id: entry-1" in prompt
    assert "New message 1, inbox_message_id entry-1" in prompt
    assert names(prompt)[0] == "new_message"


@pytest.mark.req("LOOP-05")
def test_a_task_whose_history_has_gaps_names_the_tool_that_reads_threads() -> None:
    assert "`slack-read-thread` (task_id)" in render(replace(ASSIGNED, context_incomplete=True), MARKER)


@pytest.mark.req("LOOP-05")
@every("kind", ABOUT_TASKS)
def test_a_trigger_about_a_task_without_the_task_is_an_error(kind: TriggerKind) -> None:
    with pytest.raises(ValueError, match=f"{kind}.* needs its task"):
        render(replace(PLAIN, kind=kind), MARKER)


# --- Notices ------------------------------------------------------------------------------------------------------


@pytest.mark.req("LOOP-05", "LOOP-10")
def test_a_follow_up_shows_the_new_message_before_the_task_and_keeps_the_tasks_lease() -> None:
    prompt = of_notice(NoticeKind.TASK_FOLLOW_UP, BARE)
    assert names(prompt) == ["new_message", "task", "thread_context"]
    assert read_new(fences(prompt, MARKER)[0][1]).text == "hello"
    assert [read.number for read in read_history(fences(prompt, MARKER)[-1][1])] == [None, 1]
    assert "`slack-reply` (inbox_message_id, message) under the lease_token of the task" in prompt
    assert "lease-77 (of this notice only; your work keeps its own token)" in prompt
    assert "inbox_message_id: entry-1" in prompt
    assert "task-fail" in prompt


@pytest.mark.req("LOOP-05")
def test_an_offer_shows_the_task_and_asks_for_yes_or_no() -> None:
    prompt = of_notice(NoticeKind.TASK_OFFERED, replace(TASK, result=None, error=None))
    assert names(prompt) == ["new_message", "task", "dependency", "dependency", "thread_context"]
    assert "`accept-task` (task_id)" in prompt
    assert "`decline-task` (task_id, reason)" in prompt
    assert "10 minutes" in prompt
    assert "task-complete" not in prompt


@pytest.mark.req("LOOP-05")
def test_a_declined_offer_gives_the_reason_first_and_says_that_the_message_comes_back() -> None:
    prompt = of_notice(NoticeKind.TASK_DECLINED, BARE, "I know no SQL.")
    assert fences(prompt, MARKER)[0] == ("reason", 'from: "analyst"\n\nI know no SQL.')
    assert "unread for you again and comes automatically" in prompt


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (TaskStatus.COMPLETED, "It was completed."),
        (TaskStatus.FAILED, "It failed."),
        (TaskStatus.DEAD, "It was given up"),
    ],
)
def test_a_task_that_ended_says_how_and_gives_its_end_whole_and_first(status: TaskStatus, words: str) -> None:
    long = "\n".join(f"row {number}" for number in range(5_000))
    prompt = of_notice(NoticeKind.TASK_FINISHED, replace(BARE, status=status, result=long, error="a gap"))
    assert f"A task of yours has ended. {words}" in prompt
    assert fences(prompt, MARKER)[0] == ("task_result", long)
    assert fences(prompt, MARKER)[1] == ("task_error", "a gap")
    assert names(prompt)[2:] == ["new_message", "task", "thread_context"]
    assert "`slack-reply` (task_id, message)" in prompt
    assert "The thread is yours again." in prompt


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("kind", [NoticeKind.TASK_FINISHED, NoticeKind.TASK_RETURNED])
def test_where_there_is_no_thread_nobody_is_to_be_told(kind: NoticeKind) -> None:
    notice = replace(PLAIN, kind=kind, task=BARE, permalink=None, new_messages=(), history=())
    assert "slack-reply" not in render(notice, MARKER)


@pytest.mark.req("LOOP-05")
def test_a_worker_whose_task_is_cancelled_is_told_to_stop_and_say_nothing() -> None:
    prompt = of_notice(NoticeKind.TASK_CANCELLED, BARE, "Not needed any more.")
    assert "Stop working on it at once: post nothing more" in prompt
    assert fences(prompt, MARKER)[0] == ("reason", 'from: "analyst"\n\nNot needed any more.')
    for call in ("slack-reply", "task-fail", "task-complete"):
        assert call not in prompt


@pytest.mark.req("LOOP-05")
def test_a_task_that_came_back_can_be_given_away_or_ended() -> None:
    prompt = of_notice(NoticeKind.TASK_RETURNED, BARE, "It has not polled for 120 s.")
    for call in ("`assign-task` (task_id, agent)", "`cancel-task` (task_id)", "`list-agents`", "`slack-reply`"):
        assert call in prompt


@pytest.mark.req("LOOP-05", "LOOP-17")
def test_a_message_of_an_agent_is_told_with_its_way_and_wants_no_thanks() -> None:
    notice = replace(PLAIN, kind=NoticeKind.AGENT_MESSAGE, new_messages=(), history=(), permalink=None)
    notice = replace(notice, notice_author="analyst", notice_text="done?")
    direct = render(notice, MARKER)
    assert fences(direct, MARKER) == [("agent_message", 'from: "analyst", to you alone\n\ndone?')]
    assert "`send-message`" in direct
    assert "Do not reply to thanks" in direct
    ((_, content),) = fences(render(replace(notice, notice_channel="#ops"), MARKER), MARKER)
    assert content == 'from: "analyst", in the channel "#ops"\n\ndone?'
