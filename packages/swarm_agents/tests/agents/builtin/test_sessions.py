"""Which session a run_input belongs to, and what of it is said and remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from packages.swarm_agents.tests.agents.builtin.making import run_input
from swarm.domain.answers.events import InputMessage, RunInput, Speaker
from swarm.domain.model.language_models import Door
from swarm.domain.model.sessions import MessageRole, SessionMessage, SessionScope
from swarm_agents.builtin.run import Stumbled, asked, door_of, questions, session_of, unheard

pytestmark = pytest.mark.req("AGENT-05")

USER, THREAD = SessionScope.USER, SessionScope.THREAD


@pytest.mark.parametrize(
    ("made", "scope", "expected"),
    [
        (run_input("hi"), USER, "slack:C1:U1"),
        (run_input("hi", thread="200.2"), USER, "slack:C1:U1"),
        (run_input("hi"), THREAD, "slack:C1:100.1"),
        (run_input("hi", user=""), USER, "slack:C1:100.1"),
        (run_input("hi", door=Door.CLI, conversation="cli:0b1c"), USER, "cli:0b1c"),
        (run_input("hi", door=Door.CLI, conversation="0b1c"), THREAD, "cli:0b1c"),
        (run_input("hi", door=Door.AGUI, conversation="cli:0b1c", client="web"), USER, "agui:web:cli:0b1c"),
        (run_input("hi", door=Door.AGUI, conversation="x", client="web"), THREAD, "agui:web:x"),
    ],
)
def test_a_session_is_a_person_in_a_channel_or_a_thread_or_a_terminal(
    made: RunInput, scope: SessionScope, expected: str
) -> None:
    assert session_of(made, scope) == expected


def test_a_task_without_a_thread_has_a_session_of_its_own() -> None:
    made = run_input("hi", conversation="task-7")
    made = replace(made, origin=replace(made.origin, channel="", user_id=""))
    assert session_of(made, USER) == "task:task-7"


@pytest.mark.parametrize(
    "made",
    [
        run_input("hi"),
        run_input("hi", door=Door.CLI, conversation="cli:0b1c"),
        run_input("hi", door=Door.AGUI, conversation="cli:0b1c", client="web"),
    ],
)
@pytest.mark.parametrize("scope", SessionScope)
def test_the_door_of_a_session_is_that_of_its_runs(made: RunInput, scope: SessionScope) -> None:
    assert door_of(session_of(made, scope)) is made.origin.door
    task = replace(made, origin=replace(made.origin, door=Door.SLACK, channel=""))
    assert door_of(session_of(task, scope)) is Door.SLACK


def by(author: str, text: str) -> InputMessage:
    return InputMessage(id=text, speaker=Speaker.USER, text=text, author=author)


def test_messages_of_several_are_remembered_with_who_said_each() -> None:
    made = run_input(by("Ann", "where?"), by("Bob", "and when?"), by("", "?"))
    assert [(message.author, message.text) for message in questions(made)] == [
        ("Ann", "where?"),
        ("Bob", "and when?"),
        ("Ann", "?"),  # of whom we know only who began
    ]
    assert asked(made) == "where?\n\nand when?\n\n?"
    assert asked(made, with_author=True) == "Ann: where?\n\nBob: and when?\n\n?"


def test_a_message_without_text_is_passed_over_and_nothing_but_such_is_said_to_people() -> None:
    assert asked(run_input("where?", " \n")) == "where?"
    with pytest.raises(Stumbled, match="no text"):
        asked(run_input(""))


def test_what_people_say_shortly_in_the_thread_is_told_also_where_its_letters_occur_elsewhere() -> None:
    told = [
        SessionMessage(role=MessageRole.USER, text="Do you know it?"),
        SessionMessage(role=MessageRole.ASSISTANT, text="I do *not* know it.\n\nAsk Ann: she notes everything."),
    ]
    history = [("Bob", "no"), ("Ann", "Do you know it?"), ("assistant", "I do _not_ know it."), ("Bob", "not")]
    assert unheard(run_input("?", history=history), told) == "Bob: no\nBob: not"
