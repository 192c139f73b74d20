"""The modals of requests: pages, values, problems, changed arguments, and everything that is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_twin.blocks.views import read_view
from slack_twin.surfaces import ViewKind

from swarm.domain.model.requests import (
    DecisionPolicy,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    Option,
    options,
)
from swarm.domain.requests.button_actions import FORM_ACTION
from swarm.domain.requests.edited_arguments import changed_arguments
from swarm.domain.requests.shown import has_read, reading_pages, version, with_page_read
from swarm.slack.form_fields import BACK_ACTION, EDIT_ACTION
from swarm.slack.outgoing.form_inputs import suggestions
from swarm.slack.outgoing.request_forms import (
    MAX_FIELDS_PER_PAGE,
    form_decision,
    form_fields,
    form_pages,
    form_view,
    message_view,
    pages,
    split_values,
    unchangeable,
)
from tests.support.every import every
from tests.support.human_requests import (
    NAUGHTY,
    REQUEST_ID,
    answer,
    any_request,
    deploy,
    human_request,
    many_fields,
    text_fields,
    texts,
)

pytestmark = pytest.mark.req("HITL-05")

_D = HumanDecision
TOKEN = "xoxb-1234567890-abcdefABCDEF123"
LONG = human_request(fields=text_fields(45), decisions=(_D.ANSWER, _D.REJECT))


def view(made: dict[str, Any]) -> dict[str, Any]:
    """The view, if Slack takes it."""
    read_view(made, ViewKind.MODAL)
    return made


def names(made: dict[str, Any]) -> list[str]:
    return [block["block_id"] for block in made["blocks"] if block["type"] == "input"]


def element(made: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [block["element"] for block in made["blocks"] if block.get("block_id") == f"field:{name}"]
    return dict(found)


def actions(made: dict[str, Any]) -> list[str]:
    rows = [block["elements"] for block in made["blocks"] if block["type"] == "actions"]
    return [button["action_id"] for row in rows for button in row]


def test_a_long_form_has_pages_of_twenty_fields_that_know_their_request() -> None:
    first, second, third = (view(form_view(LONG, page, {})) for page in (1, 2, 3))
    assert [len(names(page)) for page in (first, second, third)] == [20, 20, 5]
    assert names(third) == [f"field:f{n}" for n in range(40, 45)]
    assert [page["title"]["text"] for page in (first, second, third)] == [f"Page {n} of 3" for n in (1, 2, 3)]
    assert [page["submit"]["text"] for page in (first, second, third)] == ["Next", "Next", "Send"]
    assert [actions(page) for page in (first, second, third)] == [[], [BACK_ACTION], [BACK_ACTION]]
    assert {page["callback_id"] for page in (first, second, third)} == {FORM_ACTION}
    metadata = {"request": REQUEST_ID, "page": 2, "decision": "answer", "seen": version(LONG)}
    assert json.loads(second["private_metadata"]) == metadata


def test_one_page_has_a_title_of_ours_and_an_approval_approves() -> None:
    made = view(form_view(human_request(title="t" * 30, fields=text_fields(1)), 1, {}))
    assert (made["title"]["text"], made["submit"]["text"]) == ("Your decision", "Approve")
    assert json.loads(made["private_metadata"])["decision"] == "approve"


@every(("page", "shown"), [(-3, 1), (0, 1), (4, 3), (99, 3)])
def test_a_page_that_does_not_exist_is_the_nearest_one(page: int, shown: int) -> None:
    assert form_view(LONG, page, {})["title"]["text"] == f"Page {shown} of 3"


def test_what_was_entered_stands_there_again_and_what_was_cleared_stays_empty() -> None:
    fields = (
        FormField(name="a", default="first"),
        FormField(name="b", default="second"),
        FormField(name="c", type=FieldType.MULTISELECT, options=options("x", "y")),
        FormField(name="d", type=FieldType.BOOLEAN),
        FormField(name="e", type=FieldType.NUMBER, default=1),
        FormField(name="f", max=3),
    )
    values = {"a": "mine", "b": None, "c": ["y"], "d": False, "e": "not a number", "f": "too long"}
    made = view(form_view(human_request(fields=fields), 1, values))
    assert element(made, "a")["initial_value"] == "mine"
    assert "initial_value" not in element(made, "b")
    assert [one["value"] for one in element(made, "c")["initial_options"]] == ["y"]
    assert element(made, "d")["initial_option"]["value"] == "false"
    assert "initial_value" not in element(made, "e")
    assert element(made, "f")["initial_value"] == "too long", "people can correct their text"
    assert "max_length" not in element(made, "f")


def test_a_secret_value_is_never_shown_again_but_need_not_be_entered_twice() -> None:
    asked = human_request(fields=(FormField(name="pin", secret=True, required=True),))
    empty, kept = view(form_view(asked, 1, {})), view(form_view(asked, 1, {"pin": "4711"}))
    assert "4711" not in json.dumps(kept)
    assert [made["blocks"][-1]["optional"] for made in (empty, kept)] == [False, True]
    assert "hint" in kept["blocks"][-1]


def test_problems_stand_below_their_fields() -> None:
    made = view(form_view(LONG, 2, {}, {"f21": "Enter *a* <!channel>", "f1": "on another page"}))
    shown = [block["elements"][0]["text"] for block in made["blocks"] if block["type"] == "context"]
    assert shown == ["⚠️ Enter a &lt;!channel&gt;"]
    assert [block.get("block_id") for block in made["blocks"]].index("field:f21") == made["blocks"].index(
        next(block for block in made["blocks"] if block["type"] == "context")
    ) - 1


def test_values_that_are_there_already_are_shown_and_not_asked_again() -> None:
    fields = (FormField(name="a", label="Place"),)
    asked = human_request(fields=fields, answers=(answer("U1", _D.ANSWER, values={"a": "Rome"}),))
    assert form_fields(asked, _D.ANSWER) == ()
    assert "Rome" in json.dumps(view(form_view(asked, 1, {})))


EDIT = (_D.APPROVE, _D.EDIT, _D.REJECT)


def edit(**arguments: Any) -> HumanRequest:
    return human_request(tool=deploy(**arguments), decisions=EDIT)


@pytest.mark.req("HITL-04")
def test_the_arguments_of_a_tool_can_be_changed_in_a_form() -> None:
    asked = edit(to="live", count=3, parts={"a": 1})
    made = view(form_view(asked, 1, {}, decision=_D.EDIT))
    assert names(made) == ["field:to", "field:count", "field:parts"]
    assert element(made, "to")["initial_value"] == "live"
    assert element(made, "count")["initial_value"] == "3"
    assert json.loads(element(made, "parts")["initial_value"]) == {"a": 1}
    assert made["submit"]["text"] == "Approve"
    assert json.loads(made["private_metadata"])["decision"] == "edit"


@pytest.mark.req("HITL-04")
def test_long_and_secret_arguments_are_not_in_the_form_and_stay_as_they_are() -> None:
    inner = {"name": "db", "password": "hunter2"}
    asked = edit(to="live", text="x" * 3_001, key=TOKEN, password="hunter2hunter2", inner=inner, all=[inner])
    assert unchangeable(asked) == ("text", "key", "password", "inner", "all")
    read = len(reading_pages(asked))
    made = view(form_view(asked, read + 1, {}, decision=_D.EDIT))
    assert (read, names(made)) == (1, ["field:to"])
    assert "stay as they are: text, key, password, inner, all" in json.dumps(made)
    assert TOKEN not in json.dumps(made)
    assert "hunter2" not in json.dumps(made)
    assert asked.tool is not None
    _, given = split_values(asked, {"to": "test"})
    assert changed_arguments(asked.tool, given)[0] == {**asked.tool.arguments, "to": "test"}


@pytest.mark.req("HITL-04")
@every(
    ("before", "entered", "after"),
    [
        ("", None, ""),
        (None, None, None),
        ("live", None, ""),
        ("live", "test", "test"),
        ({"a": [1]}, '{"a": [2]}', {"a": [2]}),
    ],
)
def test_an_argument_that_was_empty_stays_so_and_another_can_be_cleared(before: Any, entered: Any, after: Any) -> None:
    asked = edit(a=before)
    assert asked.tool is not None
    _, given = split_values(asked, {"a": entered})
    assert changed_arguments(asked.tool, given)[0] == {"a": after}


@pytest.mark.req("HITL-04")
def test_a_form_with_fields_and_arguments_of_the_same_name_keeps_them_apart() -> None:
    asked = human_request(fields=(FormField(name="to"),), tool=deploy(to="live"), decisions=EDIT)
    assert names(view(form_view(asked, 1, {}, decision=_D.EDIT))) == ["field:to", "field:argument:to"]
    assert split_values(asked, {"to": "me", "argument:to": "test"}) == ({"to": "me"}, {"to": "test"})


def words(made: dict[str, Any]) -> str:
    """What a modal shows in its rich text."""
    parts = [part for block in made["blocks"] if block["type"] == "rich_text" for part in block["elements"]]
    return "\n".join(element["text"] for part in parts for element in part["elements"])


def read_by(asked: HumanRequest) -> list[dict[str, Any]]:
    return [view(form_view(asked, page, {})) for page in range(1, len(reading_pages(asked)) + 1)]


@pytest.mark.req("HITL-10")
def test_what_does_not_fit_on_a_card_is_read_in_pages_and_only_the_last_one_decides() -> None:
    tool = deploy(to="live", text="\n".join(f"line {n}" for n in range(12_000)), password="hunter2")
    made = read_by(human_request(prompt="p" * 7_000, tool=tool, decisions=EDIT))
    assert [page["title"]["text"] for page in made] == [f"Page {n} of 4" for n in (1, 2, 3, 4)]
    assert [page["submit"]["text"] for page in made] == ["Next", "Next", "Next", "Approve"]
    assert [actions(page) for page in made] == [[], [BACK_ACTION], [BACK_ACTION], [BACK_ACTION, EDIT_ACTION]]
    shown = "\n".join(map(words, made))
    assert [line.strip() for line in shown.splitlines() if "line " in line] == [f"│ line {n}" for n in range(12_000)]
    assert shown.replace("\n", "").count("p" * 100) >= 70
    assert "hunter2" not in shown
    for page in made:
        texts = [len(element["text"]) for element in _elements(page)]
        assert (max(texts) <= 2_900, sum(texts) <= 60_100) == (True, True)


def _elements(made: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [part for block in made["blocks"] if block["type"] == "rich_text" for part in block["elements"]]
    return [element for part in parts for element in part["elements"]]


@pytest.mark.req("HITL-10")
@every("text", ["a" * 260_000, '"' * 120_000, "é" * 120_000, "😀" * 60_000, "\u202e\u200b" * 4_000, "\n" * 9_000])
def test_slack_takes_every_page_of_the_longest_calls(text: str) -> None:
    for page in read_by(human_request(prompt=NAUGHTY * 100, tool=deploy(text=text))):
        assert len(page["blocks"]) <= 100


@pytest.mark.req("HITL-10")
def test_who_may_not_decide_reads_without_an_end_that_decides_and_without_secrets() -> None:
    asked = human_request(tool=deploy(text="x" * 3_000, password="two words"), fields=text_fields(2), decisions=EDIT)
    (page,) = [view(form_view(asked, page, {}, may_decide=False)) for page in (1,)]
    assert ("submit" in page, actions(page), names(page)) == (False, [], [])
    assert "x" * 1_000 in words(page)
    assert "two words" not in words(page)
    assert "⟨hidden: 9 characters, read in the form⟩" in words(page)
    assert "two words" in words(view(form_view(asked, 1, {})))
    assert view(form_view(asked, 1, {}))["submit"]["text"] == "Next"
    assert names(view(form_view(asked, 2, {}))) == ["field:f0", "field:f1"], "the fields come last"


@pytest.mark.req("HITL-10")
def test_an_approval_counts_only_after_all_pages_in_order_and_for_what_was_shown() -> None:
    asked = human_request(tool=deploy(text="x" * 130_000), decisions=EDIT, policy=DecisionPolicy(users=("U1",)))
    last = len(reading_pages(asked))
    assert last == 3
    assert not has_read(asked, {})
    assert not has_read(asked, with_page_read(asked, {}, last)), "the last page alone"
    drafts: dict[str, Any] = {"f": 1}
    for page in (1, 2, 1, 3):
        drafts = json.loads(json.dumps(with_page_read(asked, drafts, page)))
    assert (drafts["f"], has_read(asked, drafts)) == (1, True)
    edited = replace(asked, answers=(answer("U9", _D.EDIT, arguments={"text": "y" * 130_000}),))
    assert not has_read(edited, drafts), "somebody else has changed what is approved"
    assert "yyy" in words(view(form_view(edited, 1, {})))
    assert has_read(human_request(tool=deploy()), {}), "it stands on the card"


def test_a_message_shows_people_and_pings_nobody() -> None:
    made = view(message_view("Decided already", "Approved by <@U1>. <!channel>"))
    assert made["blocks"][0]["text"]["text"] == "Approved by <@U1>. &lt;!channel&gt;"
    assert "submit" not in made
    view(message_view("", ""))
    view(message_view("t" * 100, "<" * 9_000))


@every(
    ("query", "found"),
    [("", 100), ("choice 7", 11), ("CHOICE 199", 1), (" choice 199 ", 1), ("nothing", 0)],
)
def test_a_menu_with_many_options_offers_those_that_match(query: str, found: int) -> None:
    many = tuple(Option(value=f"v{n}", label=f"Choice {n}") for n in range(200))
    fields = (FormField(name="a"), FormField(name="b", type=FieldType.SELECT, options=many, default="v150"))
    shown = element(view(form_view(human_request(fields=fields), 1, {})), "b")
    assert (shown["type"], shown["min_query_length"]) == ("external_select", 0)
    assert shown["initial_option"] == {"text": {"type": "plain_text", "text": "Choice 150"}, "value": "v150"}
    assert len(suggestions(fields, "b", query)["options"]) == found
    assert suggestions(fields, "a", query) == suggestions(fields, "other", query) == {"options": []}


def test_many_menus_in_which_everything_is_chosen_are_divided_among_pages() -> None:
    large = tuple(Option(value=f"{n}" * 200, label="l" * 200) for n in range(200))
    fields = tuple(FormField(name=f"f{n}", type=FieldType.MULTISELECT, options=large) for n in range(20))
    found = pages(fields)
    assert 1 < len(found) < 5
    for page in range(1, len(found) + 1):
        view(form_view(human_request(fields=fields), page, entered(fields, "")))


def entered(fields: Sequence[FormField], text: str) -> dict[str, Any]:
    """The longest values that people can enter."""
    return {field.name: text if not field.options else [one.value for one in field.options] for field in fields}


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(any_request(), st.sampled_from([_D.ANSWER, _D.APPROVE, _D.EDIT]), texts(3_000), st.integers(1, 3))
def test_slack_takes_every_form(request_: HumanRequest, decision: HumanDecision, text: str, page: int) -> None:
    fields = form_fields(request_, decision)
    problems = {field.name: text for field in fields}
    view(form_view(request_, page, entered(fields, text), problems, decision=decision))
    view(form_view(request_, page, {}, decision=decision))
    view(form_view(request_, page, {}, decision=decision, may_decide=not reading_pages(request_)))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=8)  # which are large, and take a fifth of a second each
@given(any_request(fields=many_fields()), st.text(max_size=1).map(lambda part: part * 2_000))
def test_slack_takes_the_longest_forms(request_: HumanRequest, text: str) -> None:
    found = pages(form_fields(request_, form_decision(request_)))
    assert sum(map(len, found)) == len(form_fields(request_, form_decision(request_)))
    assert max(map(len, found)) <= MAX_FIELDS_PER_PAGE
    for page in range(1, len(form_pages(request_, form_decision(request_))) + 1):
        view(form_view(request_, page, entered(request_.fields, text), {"f1": NAUGHTY}))
