"""The card of a request: what people see of it, while it is open and afterwards, as blocks that Slack takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_twin.blocks import checked_blocks

from swarm.clock import SECOND
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.grants import ALWAYS_GRANT_SECONDS, THREAD_GRANT_SECONDS
from swarm.domain.model.requests import (
    OPERATOR,
    Asker,
    DecisionPolicy,
    FieldType,
    FileDiff,
    FormField,
    HumanDecision,
    HumanRequest,
    Option,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
    options,
)
from swarm.domain.policy.access import Me
from swarm.domain.requests.button_actions import DECIDE_ACTION, FORM_ACTION
from swarm.slack.form_fields import typed_values
from swarm.slack.outgoing.delivery_calls import content
from swarm.slack.outgoing.form_inputs import option_objects
from swarm.slack.outgoing.request_cards import (
    MAX_MESSAGE_CHARACTERS,
    request_blocks,
    request_text,
)
from tests.contract.slack.workspace import delivery
from tests.support.every import every
from tests.support.human_requests import (
    AT,
    NAUGHTY,
    REQUEST_ID,
    answer,
    any_request,
    deploy,
    ended_request,
    human_request,
    text_fields,
)

pytestmark = pytest.mark.req("HITL-01")

_D = HumanDecision
_R = RequestStatus
TOKEN = "xoxb-1234567890-abcdefABCDEF123"
SLACK_LIMIT = 13_000  # characters of a message, at which Slack was seen to refuse it


def card(request: HumanRequest) -> list[dict[str, Any]]:
    """The blocks, if Slack takes them."""
    made = request_blocks(request)
    checked_blocks(made)
    return made


def every_value(node: Any, name: str) -> Iterator[Any]:
    """All values under a name in blocks, in order."""
    if isinstance(node, list):
        for part in node:
            yield from every_value(part, name)
    elif isinstance(node, dict):
        for key, part in node.items():
            if key == name:
                yield part
            yield from every_value(part, name)


def words(blocks: list[dict[str, Any]]) -> str:
    """All text of blocks."""
    return "\n".join(text for text in every_value(blocks, "text") if isinstance(text, str))


def buttons(blocks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
    return {element["action_id"]: element for element in found}


def inputs(blocks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {block["block_id"]: block for block in blocks if block["type"] == "input"}


def test_an_open_request_says_what_is_asked_by_whom_who_may_decide_and_until_when() -> None:
    title, prompt, row, context = card(human_request(prompt="It is **Friday**."))
    [section] = title["elements"]
    assert section["elements"] == [{"type": "text", "text": "writer asks", "style": {"bold": True}}]
    [quoted] = prompt["elements"]
    assert quoted["type"] == "rich_text_quote"
    assert quoted["elements"] == [{"type": "text", "text": "May I deploy?\nIt is **Friday**."}]
    assert [element["action_id"] for element in row["elements"]] == [
        f"{DECIDE_ACTION}approve",
        f"{DECIDE_ACTION}reject",
    ]
    asked, decides = (element["text"] for element in context["elements"])
    assert asked == "asked by *writer* for <@U000ALICE>"
    until = "<!date^1790003600^{date_short_pretty} {time}|2026-09-21 15:13 UTC>"
    assert decides == f"<@U000ALICE> may decide · until {until}"


@every(
    ("policy", "requester", "expected"),
    [
        (DecisionPolicy(), "U1", "the operator may decide"),
        (DecisionPolicy(requester=True), None, "the operator may decide"),
        (DecisionPolicy(requester=True, users=("U2",)), "U1", "<@U1> or <@U2> may decide"),
        (DecisionPolicy(groups=("S1TEAM",)), "U1", "<!subteam^S1TEAM> may decide"),
        (DecisionPolicy(not_requester=True), "U1", "another member of this workspace may decide"),
        (DecisionPolicy(not_requester=True, users=("U1", "U2")), "U1", "<@U2>, but not <@U1>, may decide"),
        (DecisionPolicy(users=("<!channel>",)), None, "&lt;!channel&gt; may decide"),
        (DecisionPolicy(users=("U1",), veto=True), None, "one rejection ends it"),
        (DecisionPolicy(users=tuple(f"U{n}" for n in range(10, 40))), None, "<@U14> or 25 others may decide"),
    ],
)
@pytest.mark.req("HITL-02")
def test_the_policy_stands_there_in_words(policy: DecisionPolicy, requester: str | None, expected: str) -> None:
    assert (
        expected
        in card(human_request(policy=policy, requesters=(requester,) if requester else ()))[-1]["elements"][1]["text"]
    )


@pytest.mark.req("HITL-02")
def test_of_several_who_have_to_approve_those_who_have_are_named() -> None:
    policy = DecisionPolicy(users=("U1", "U2", "U3"), need=2)
    text = words(card(human_request(policy=policy, answers=(answer("U1"), answer("U3", _D.REJECT)))))
    assert "needs 2 approvals (1 so far: <@U1>) · rejected by <@U3>" in text
    veto = DecisionPolicy(users=("U1", "U2"), need=2, veto=True)
    assert "needs 2 approvals (0 so far); one rejection ends it" in words(card(human_request(policy=veto)))
    assert "without a time limit" in words(card(human_request(expires_at=None)))


def test_every_button_carries_the_request_and_nothing_else() -> None:
    tool, decisions = deploy(text="x" * 2_000), tuple(HumanDecision)
    found = buttons(card(human_request(tool=tool, decisions=decisions)))
    assert set(found) == {f"{DECIDE_ACTION}{one}" for one in decisions}
    assert {element["value"] for element in found.values()} == {REQUEST_ID}


def test_agents_can_neither_ping_nor_break_the_card() -> None:
    blocks = card(human_request(title=NAUGHTY[:150], prompt=NAUGHTY, agent=NAUGHTY, tool=deploy(text=NAUGHTY)))
    live = [part for part in blocks if part["type"] in ("markdown", "section", "context")]
    for text in every_value(live, "text"):
        if isinstance(text, str):
            assert "<!channel>" not in text
            assert "@here" not in text
            assert "<@U1>" not in text
    assert "*writer*" in words(card(human_request()))
    assert "asked by *b &lt;!channel&gt;" in words(blocks), "no formatting of its own"
    assert "<!channel>" not in request_text(human_request(title="<!channel>", prompt="<!here>"))
    assert "<!here>" not in request_text(human_request(title="<!channel>", prompt="<!here>"))


@pytest.mark.req("HITL-04", "HITL-10")
def test_a_tool_shows_its_name_and_arguments_without_secrets_above_the_agents_words() -> None:
    asked = human_request(tool=deploy(to="production", key=TOKEN, password="hunter2"), prompt="Read README")
    title, tool, says, said, *_ = card(asked)
    assert words([title]) == "writer wants to use the tool \ndeploy"
    [arguments] = tool["elements"]
    [shown] = arguments["elements"]
    assert arguments["type"] == "rich_text_preformatted"
    assert shown["text"].startswith('Tool: deploy\n{\n  "to": "production"')
    assert TOKEN not in shown["text"]
    assert '"password": "⟨hidden: 7 characters⟩"' in shown["text"]
    counted = words(card(human_request(tool=deploy(password=123456, passengers=3, max_tokens=9, secret=True))))
    assert '"password": "⟨hidden: 6 characters⟩"' in counted
    again = words(card(human_request(tool=deploy(password_confirmation="hunter2", password2="hunter2", token_id="x"))))
    assert again.count("⟨hidden: 7 characters⟩") == 2
    assert '"token_id": "x"' in again
    assert '"passengers": 3,\n  "max_tokens": 9,\n  "secret": true' in counted
    assert words([says]) == "*writer* says"
    assert (said["elements"][0]["type"], words([said])) == ("rich_text_quote", "May I deploy?\nRead README")


EDITED = FileDiff(path="/w/prices.py", old="a\nb\nc\nd\ne\n", new="a\nb\nc\nD\ne\n")


@pytest.mark.req("HITL-10")
@every(
    ("tool", "title"),
    [
        (ToolRequest(name="Edit", diffs=(EDITED,)), "edit prices.py (+1 −1)"),
        (ToolRequest(name="e", diffs=(EDITED, replace(EDITED, path="b.py"))), "edit 2 files (+2 −2)"),
        (ToolRequest(name="Write", diffs=(FileDiff(path="n.py", new="1\n2"),)), "create n.py (+2 −0)"),
        (ToolRequest(name="Write", diffs=(FileDiff(path="n.py", new="1\n2\n"),)), "create n.py (+2 −0)"),
        (ToolRequest(name="Write", diffs=(FileDiff(path="n.py", old="1\n", new="\n"),)), "edit n.py (+1 −1)"),
        (ToolRequest(name="Write", diffs=(FileDiff(path="x/\u202e.py", new="1"),)), "create a file (+1 −0)"),
        (ToolRequest(name="Bash", arguments={"command": "pytest -q"}), "run \npytest -q"),
        (ToolRequest(name="execute", arguments={"command": ["bash", "-lc", "pytest -q"]}), "run \npytest -q"),
        (ToolRequest(name="shell", arguments={"cmd": ["rm", "a b"]}), "run \nrm 'a b'"),
        (ToolRequest(name="Bash", arguments={"command": "ls\nrm -rf /"}), "run a command"),
        (ToolRequest(name="Bash", arguments={"command": "ls" + " " * 40 + "; rm"}), "run a command"),
        (ToolRequest(name="Bash", arguments={"command": "x" * 81}), "run a command"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": ["origin", "main"]}), "push to origin main"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": "origin main"}), "push to origin main"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": ["-f", "x"]}), "run \ngit push -f x"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": ["o", "+x"]}), "run \ngit push o +x"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": [":x"]}), "run \ngit push :x"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": []}), "run \ngit push"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": ["x", TOKEN]}), "run a command"),
        (ToolRequest(name="git", arguments={"subcommand": "push", "args": [1]}), "use the tool \ngit"),
        (ToolRequest(name="shell", arguments={"command": "rm", "args": ["-rf", "x y"]}), "run \nrm -rf 'x y'"),
        (ToolRequest(name="shell", arguments={"command": "rm", "args": {"a": 1}}), "use the tool \nshell"),
        (ToolRequest(name="execute"), "use the tool \nexecute"),
        (ToolRequest(name="edit", arguments={"filePath": "/w/prices.py"}), "edit \nprices.py"),
        (ToolRequest(name="edit", arguments={"path": "a.py", "file_path": "b.py"}), "use the tool \nedit"),
        (ToolRequest(name="delete", arguments={"path": "/"}), "delete a file"),
        (ToolRequest(name="file-write", arguments={"path": "n`o.md"}), "write a file"),
        (ToolRequest(name="WebFetch", arguments={"url": "https://a.test/x"}), "fetch \nhttps://a.test/x"),
        (ToolRequest(name="WebFetch", arguments={"url": f"https://a.test/?key={TOKEN}"}), "fetch a web page"),
        (ToolRequest(name="mcp__github__create_issue"), "use the tool create_issue of github"),
    ],
)
def test_the_title_follows_from_the_call(tool: ToolRequest, title: str) -> None:
    assert words(card(human_request(title="Read README", tool=tool))[:1]).replace(" \n", " ") == (
        f"writer wants to {title}".replace(" \n", " ")
    )


@pytest.mark.req("HITL-10")
def test_an_edit_shows_its_path_and_a_diff() -> None:
    arguments = {"file_path": "/w/prices.py", "old_string": EDITED.old, "new_string": EDITED.new + "z" * 20}
    tool = ToolRequest(name="Edit", arguments=arguments, diffs=(EDITED,), locations=("/w/prices.py:4",))
    shown = words(card(human_request(tool=tool)))
    assert "File: /w/prices.py\n@@ -1,5 +1,5 @@\n a\n b\n c\n-d\n+D\n e\nPlaces" in shown
    assert "Places: /w/prices.py:4" in shown
    assert "│ " + "z" * 20 in shown, "what the diff does not show is shown"
    assert replace(tool, locations=()).digest != tool.digest != replace(tool, diffs=()).digest


@pytest.mark.req("HITL-10")
@every(
    ("old", "new", "shown"),
    [
        ("a", "a\n", "File: p\n(now with a line break at the end)"),
        ("a\n", "b", "@@ -1,1 +1,1 @@\n-a\n+b\n(now without a line break at the end)"),
        ("a\n", "a\n\n", "@@ -1,1 +1,2 @@\n a\n+\n"),
        ("a\n", "a\n", "(no change)"),
        ("", "", "File: p\n(no change)"),
        (None, "", "File: p (new, empty file)\n"),
    ],
)
def test_a_line_break_at_the_end_is_no_line_of_its_own(old: str | None, new: str, shown: str) -> None:
    tool = ToolRequest(name="Write", diffs=(FileDiff(path="p", old=old, new=new),))
    assert shown in words(card(human_request(tool=tool))).replace(" \n", "\n") + "\n"


@pytest.mark.req("HITL-10")
@every(
    ("more", "buttons_"),
    [
        ({"tool": deploy(text="x" * 2_400)}, ["approve", "edit", "reject"]),
        ({"tool": deploy(text="x" * 2_500)}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(**{f"k{n}": n for n in range(37)})}, ["approve", "edit", "reject"]),  # 40 lines
        ({"tool": deploy(**{f"k{n}": n for n in range(38)})}, [FORM_ACTION, "reject"]),
        ({"prompt": "\n".join(["x" * 161] * 13)}, ["approve", "reject"]),  # 39 lines, as they are wrapped
        ({"prompt": "\n".join(["x" * 161] * 14)}, [FORM_ACTION, "reject"]),
        ({"prompt": "\n".join(["\u6f22" * 81] * 13)}, ["approve", "reject"]),
        ({"prompt": "\n".join(["\u6f22" * 81] * 14)}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(password="correct horse")}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(token="a;rm -rf /")}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(command=f"echo {TOKEN} && ls")}, ["approve", "edit", "reject"]),
        ({"tool": deploy(command=f"curl -H 'Authorization: Bearer {TOKEN}'")}, ["approve", "edit", "reject"]),
        ({"tool": deploy(command=f"token={TOKEN} ls")}, ["approve", "edit", "reject"]),
        ({"tool": deploy(command=f"git clone https://me:{TOKEN}@x.test")}, ["approve", "edit", "reject"]),
        ({"tool": deploy(command=f"curl -H 'Authorization: Bearer {TOKEN}/../evil'")}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(url="https://a.test/?api_key=abcdef12345&next=x")}, [FORM_ACTION, "reject"]),
        ({"tool": deploy(), "prompt": "x" * 2_600}, [FORM_ACTION, "reject"]),
        ({"prompt": "It is fine.\n" * 700 + "rm -rf /"}, [FORM_ACTION, "reject"]),
    ],
)
def test_approve_stands_on_a_card_only_beside_everything(more: dict[str, Any], buttons_: list[str]) -> None:
    decisions = (_D.APPROVE, _D.EDIT, _D.REJECT, _D.APPROVE_ALWAYS) if "tool" in more else (_D.APPROVE, _D.REJECT)
    found = buttons(card(human_request(**more, decisions=decisions)))
    expected = [*buttons_, *(["approve_always"] if "approve" in buttons_ and "tool" in more else [])]
    assert [one.removeprefix(DECIDE_ACTION) for one in found] == expected
    assert FORM_ACTION not in found or found[FORM_ACTION]["text"]["text"] == "Read and decide"


@pytest.mark.req("HITL-10")
@every("link", ["<https://evil.test/x|click>", "[click](https://evil.test/x)", "<mailto:a@evil.test|click>"])
def test_a_notification_says_where_a_link_leads(link: str) -> None:
    shown = request_text(human_request(title=f"See {link}", prompt=f"Or {link}?"))
    assert shown.count("click (") == 2
    assert shown.count("evil.test") == 2
    assert "|click" not in shown


@pytest.mark.req("HITL-10")
def test_a_long_call_says_how_much_is_left_and_can_be_read_when_it_has_ended() -> None:
    asked = human_request(tool=deploy(text="x" * 5_000))
    assert "xx\n⟨4,429 more characters, read in the form⟩" in words(card(asked))
    ended = buttons(card(ended_request(_R.APPROVED, answer(), tool=deploy(text="x" * 5_000))))
    assert {one: element["text"]["text"] for one, element in ended.items()} == {FORM_ACTION: "Read"}


@pytest.mark.req("HITL-10")
def test_who_approves_after_others_sees_what_these_have_changed() -> None:
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    changed = answer("U1", _D.EDIT, arguments={"to": "live"})
    shown = words(card(human_request(tool=deploy(to="test"), answers=(changed,), policy=policy)))
    assert '"to": "live"' in shown
    assert '"test"' not in shown


@pytest.mark.req("HITL-10")
def test_a_question_of_a_tool_server_names_it() -> None:
    raw = {"server": "mine", "tool": "ask"}
    asked = human_request(title="mine asks", prompt="Which one?", raw=raw, asker=Asker.LIVE, agent="asst")
    title, said, *_ = card(asked)
    assert words([title]) == "asst asks (for the tool server mine)"
    assert words([said]) == "Which one?"


@pytest.mark.req("HITL-04")
def test_a_permission_for_longer_is_confirmed_with_its_end() -> None:
    decisions = (_D.APPROVE, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS)
    blocks = card(human_request(tool=deploy(), decisions=decisions))
    rows = [
        [element["text"]["text"] for element in block["elements"]] for block in blocks if block["type"] == "actions"
    ]
    assert rows == [["Approve", "Reject"], ["Allow here", "Allow for my work"]]
    found = buttons(blocks)
    thread, always = (found[f"{DECIDE_ACTION}{one}"]["confirm"]["text"]["text"] for one in decisions[2:])
    asks = "days without asking, for work that you ask for."
    assert thread == f"writer may use deploy in this thread for {THREAD_GRANT_SECONDS // 86_400} {asks}"
    assert always == f"writer may use deploy everywhere for {ALWAYS_GRANT_SECONDS // 86_400} {asks}"
    assert "confirm" not in found[f"{DECIDE_ACTION}approve"]


@every(
    ("policy", "labels"),
    [
        (DecisionPolicy(requester=True), ["Allow here", "Allow for my work"]),
        (DecisionPolicy(users=("U2",)), ["Allow here", "Allow for everybody"]),
        (DecisionPolicy(users=("U2",), requester=True), ["Allow here", "Allow for my work", "Allow for everybody"]),
        (DecisionPolicy(groups=("S1",), not_requester=True), ["Allow here", "Allow for everybody"]),
        (DecisionPolicy(not_requester=True), []),
        (DecisionPolicy(), []),
    ],
)
@pytest.mark.req("HITL-11")
def test_grants_are_offered_where_somebody_may_give_them(policy: DecisionPolicy, labels: list[str]) -> None:
    decisions = (_D.APPROVE, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS)
    blocks = card(human_request(tool=deploy(), decisions=decisions, policy=policy))
    rows = [[one["text"]["text"] for one in block["elements"]] for block in blocks if block["type"] == "actions"]
    assert rows == [["Approve", "Reject"], *([labels] if labels else [])]


FIELDS = (
    FormField(
        name="who", label="Who", required=True, default="me", placeholder="a name", description="Whoever.", max=9
    ),
    FormField(name="why", type=FieldType.TEXTAREA, min=2, max=5_000),
    FormField(name="how many", type=FieldType.INTEGER, default=1_000_000, min=1),
    FormField(name="share", type=FieldType.NUMBER, default=0.5),
    FormField(name="link", type=FieldType.URL, default="https://a.test"),
    FormField(name="mail", type=FieldType.EMAIL),
    FormField(name="one", type=FieldType.SELECT, options=options("a", "b"), default="b"),
    FormField(name="some", type=FieldType.MULTISELECT, options=options("a", "b", "c"), default=["a", "c"], max=2),
    FormField(name="sure", type=FieldType.BOOLEAN, default=False),
)
ELEMENTS: dict[str, dict[str, Any]] = {
    "who": {"type": "plain_text_input", "multiline": False, "initial_value": "me", "max_length": 9},
    "why": {"type": "plain_text_input", "multiline": True, "min_length": 2},
    "how many": {"type": "number_input", "is_decimal_allowed": False, "initial_value": "1000000", "min_value": "1"},
    "share": {"type": "number_input", "is_decimal_allowed": True, "initial_value": "0.5"},
    "link": {"type": "url_text_input", "initial_value": "https://a.test"},
    "mail": {"type": "email_text_input"},
    "one": {"type": "static_select"},
    "some": {"type": "multi_static_select", "max_selected_items": 2},
    "sure": {"type": "radio_buttons"},
}


@every("field", FIELDS)
def test_each_type_of_field_has_its_input_with_default_and_limits(field: FormField) -> None:
    found = inputs(card(human_request(fields=(field,))))[f"field:{field.name}"]
    element = found["element"]
    assert element["action_id"] == "value"
    assert found["optional"] is not field.required
    assert found["label"]["text"] == field.title
    kept = element.keys() - {"action_id", "options", "initial_option", "initial_options", "placeholder"}
    assert {name: element[name] for name in kept} == ELEMENTS[field.name]
    initial = element.get("initial_options") or [element.get("initial_option")]
    chosen = {"one": ["b"], "some": ["a", "c"], "sure": ["false"]}.get(field.name)
    assert [option["value"] for option in initial if option] == (chosen or [])
    assert ("hint" in found, "placeholder" in element) == (field.name == "who", field.name == "who")


def test_a_short_form_stands_in_the_message_and_a_longer_one_behind_a_button() -> None:
    short = card(human_request(fields=text_fields(5), decisions=(_D.ANSWER, _D.REJECT)))
    assert list(inputs(short)) == [f"field:f{n}" for n in range(5)]
    assert list(buttons(short)) == [f"{DECIDE_ACTION}answer", f"{DECIDE_ACTION}reject"]
    many = FormField(name="m", type=FieldType.SELECT, options=options(*map(str, range(101))))
    large = FormField(name="m", type=FieldType.SELECT, options=options(*(f"{n:0>120}" for n in range(100))))
    for fields in (text_fields(6), (many,), (large,), text_fields(5, label="l" * 2_000)):
        long = card(human_request(fields=fields, decisions=(_D.ANSWER, _D.APPROVE, _D.REJECT)))
        assert not inputs(long)
        assert list(buttons(long)) == [FORM_ACTION, f"{DECIDE_ACTION}reject"]
        assert buttons(long)[FORM_ACTION]["text"]["text"] == "Open the form"


def test_the_first_persons_values_stand_and_the_others_approve_them() -> None:
    fields = (FormField(name="a", label="Place"), FormField(name="pin", secret=True))
    given = answer("U1", _D.ANSWER, values={"a": "Rome", "pin": "1234"})
    policy = DecisionPolicy(users=("U1", "U2"), need=2)
    blocks = card(human_request(fields=fields, answers=(given,), policy=policy, decisions=(_D.ANSWER,)))
    assert not inputs(blocks)
    assert '"Place": "Rome"' in words(blocks)
    assert "1234" not in json.dumps(blocks)


def test_a_secret_default_is_not_shown() -> None:
    assert "hidden" not in json.dumps(card(human_request(fields=(FormField(name="a", default="hidden", secret=True),))))


@every(
    "values",
    [
        ("a", "b"),
        ("x" * 151, "short"),
        ("o:1", "o:0"),
        (" padded", "b"),
        ("two\nlines", "b"),
        tuple(map(str, range(99))),
    ],
)
def test_every_option_survives_the_way_through_slack(values: tuple[str, ...]) -> None:
    field = FormField(name="a", type=FieldType.SELECT, options=tuple(Option(value=value) for value in values))
    sent = [option["value"] for option in option_objects(field)]
    assert [typed_values({"a": value}, (field,))["a"] for value in sent] == list(values)
    assert all(0 < len(value) <= 150 for value in sent)


ON = "<!date^1790000060^{date_short_pretty} {time}|2026-09-21 14:14 UTC>"


@every(
    ("request_", "expected"),
    [
        (ended_request(_R.APPROVED, answer()), f"✅ Approved by <@U1> · {ON}"),
        (ended_request(_R.APPROVED, answer(OPERATOR)), f"✅ Approved by the operator · {ON}"),
        (
            ended_request(_R.APPROVED, answer("U1", _D.REJECT), answer("U2"), answer("U3")),
            f"✅ Approved by <@U2> and <@U3> (<@U1> rejected) · {ON}",
        ),
        (
            ended_request(_R.APPROVED, answer("U1", _D.APPROVE_THREAD)),
            f"✅ Approved by <@U1>, who allowed it in this thread · {ON}",
        ),
        (
            ended_request(_R.APPROVED, answer("U1", _D.EDIT, arguments={"to": "test"}), tool=deploy(to="live")),
            f"✏️ Approved with changed arguments by <@U1> · {ON}",
        ),
        (ended_request(_R.REJECTED, answer("U1", _D.REJECT)), f"❌ Rejected by <@U1> · {ON}"),
        (ended_request(_R.ANSWERED, answer("U1", _D.ANSWER, values={})), f"✅ Answered by <@U1> · {ON}"),
        (ended_request(_R.EXPIRED), f"⌛ Nobody decided in time · {ON}"),
        (ended_request(_R.CANCELLED, reason="stopped by <!channel>"), "🛑 Withdrawn: stopped by &lt;!channel&gt;"),
        (ended_request(_R.CANCELLED), "🛑 Withdrawn: it is no longer needed"),
    ],
)
@pytest.mark.req("HITL-02")
def test_an_ended_request_says_how_it_ended_and_has_no_buttons(request_: HumanRequest, expected: str) -> None:
    blocks = card(request_)
    assert not buttons(blocks)
    assert not inputs(blocks)
    assert [block["text"]["text"] for block in blocks if block["type"] == "section"] == [expected]


@pytest.mark.req("HITL-02")
def test_given_values_are_listed_by_their_labels_and_secrets_are_not() -> None:
    fields = (
        FormField(name="a", label="Place"),
        FormField(name="b", type=FieldType.BOOLEAN),
        FormField(name="c", label="Kind", type=FieldType.MULTISELECT, options=(Option(value="x", label="Extra"),)),
        FormField(name="d", label="Pin", secret=True),
        FormField(name="e", label="Never asked"),
    )
    values = {"a": "Rome", "b": True, "c": ["x"], "d": "4711"}
    blocks = card(ended_request(_R.ANSWERED, answer("U1", _D.ANSWER, values=values), fields=fields))
    text = words(blocks).replace("\n", "")
    assert "Place: RomeB: Yes".lower() in text.lower()
    assert "Kind: Extra" in text
    assert "Pin: ••••••" in text
    assert "4711" not in json.dumps(blocks)
    assert "Never asked" not in text


@pytest.mark.req("HITL-10")
def test_a_mention_that_is_typed_or_sent_stays_text() -> None:
    typed = "<@U000BOB> &lt;@U000BOB&gt; <!channel>"
    fields, given = (FormField(name="a"),), answer("U1", _D.ANSWER, values={"a": typed})
    ended = card(ended_request(_R.ANSWERED, given, fields=fields))
    asked = card(human_request(tool=deploy(text=typed), prompt=typed))
    for blocks, times in ((ended, 1), (asked, 2)):
        plain = [part for part in every_value(blocks, "elements") for part in part if part.get("type") == "text"]
        assert sum(part["text"].count(typed) for part in plain) == times
        marked_up = [part["text"] for block in every_value(blocks, "elements") for part in block if "verbatim" in part]
        assert not any("BOB" in text or "<!channel>" in text for text in marked_up)


@pytest.mark.req("HITL-04")
def test_changed_arguments_are_shown_with_old_and_new_values_without_secrets() -> None:
    new = {"to": "test", "same": 1, "password": "hunter3hunter3", "added": True}
    tool = deploy(to="live", same=1, password="hunter2hunter2", gone=None)
    text = words(card(ended_request(_R.APPROVED, answer("U1", _D.EDIT, arguments=new), tool=tool)))
    assert 'to: "live" → "test"\n' in text
    assert "added: (none) → true" in text
    assert "gone: null → (none)" in text
    assert "same: 1 →" not in text
    assert "password: " in text
    assert "hunter" not in text
    assert '"same": 1' in text, "the tool's own arguments stay visible"


@pytest.mark.req("HITL-10")
def test_changed_arguments_keep_their_secrets_and_tell_what_is_absent() -> None:
    old = {"password": "hunter2", "login": {"user": "u", "password": "hunter2"}, "is": 1}
    new = {"login": {"user": "me", "password": "hunter22"}, "token": "hunter3", "is": True}
    edited = answer("U1", _D.EDIT, arguments=new)
    text = words(card(ended_request(RequestStatus.APPROVED, edited, tool=deploy(**old))))
    assert 'password: "⟨hidden: 7 characters⟩" → (none)\n' in text
    assert 'token: (none) → "⟨hidden: 7 characters⟩"' in text
    assert '→ { "user": "me", "password": "⟨hidden: 8 characters⟩" }\n' in text
    assert "is: 1 → true" in text
    assert "hunter" not in text


@pytest.mark.req("HITL-02")
def test_an_agent_that_failed_after_the_decision_is_mentioned() -> None:
    blocks = card(ended_request(_R.APPROVED, answer(), resume=ResumeStatus.FAILED))
    assert "Retry sends the same decision again" in words(blocks)
    assert "may have begun" in words(blocks)
    assert "Retry" not in words(card(ended_request(_R.APPROVED, answer(), resume=ResumeStatus.SENT)))
    assert "Retry" not in words(card(ended_request(_R.CANCELLED, resume=ResumeStatus.FAILED)))  # nobody has decided


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(any_request(), st.sampled_from(RequestStatus), st.data())
@pytest.mark.req("HITL-02")
def test_slack_takes_the_card_of_every_request(
    request_: HumanRequest, status: RequestStatus, data: st.DataObject
) -> None:
    values = {field.name: field.default for field in request_.fields if field.default is not None}
    arguments = data.draw(st.one_of(st.none(), st.just({"text": "new " * 500})))
    answers = (answer("U1", _D.APPROVE, values=values, arguments=arguments),) if status is not _R.OPEN else ()
    more = {"status": status, "answers": answers, "ended_at": AT + SECOND, "reason": NAUGHTY}
    blocks = card(human_request(**{name: getattr(request_, name) for name in request_.__dataclass_fields__} | more))
    assert len(blocks) <= 50
    assert len(json.dumps(blocks, ensure_ascii=False)) <= 2 * SLACK_LIMIT  # with names, quotes and escapes of JSON
    assert sum(len(text) for text in every_value(blocks, "text") if isinstance(text, str)) <= SLACK_LIMIT
    if any(block["type"] == "input" for block in blocks):
        assert len(json.dumps(inputs(blocks), ensure_ascii=False)) <= MAX_MESSAGE_CHARACTERS + 1_000
    assert len(request_text(request_)) <= 1_000


@every("kind", [DeliveryKind.POST, DeliveryKind.UPDATE])
def test_a_delivery_of_a_request_shows_its_card(kind: DeliveryKind) -> None:
    asked = human_request()
    assert content(delivery(kind, request=asked)) == {"text": request_text(asked), "blocks": request_blocks(asked)}


@pytest.mark.req("HITL-10")
def test_a_card_in_a_direct_message_names_the_channel_and_links_to_the_thread() -> None:
    me = Me(team="T", user_id="U", bot_id="B", url="https://x.slack.com/")

    def where(asked_in: tuple[str, str], known: Me | None = me) -> str:
        blocks = content(delivery(DeliveryKind.POST, request=human_request(), asked_in=asked_in), known)["blocks"]
        checked_blocks(blocks)
        return words(blocks).splitlines()[1]  # type: ignore[arg-type]

    assert where(("C1", "1.2")) == "In <#C1> · <https://x.slack.com/archives/C1/p12|open the thread>"
    assert where(("D1", "1.2")) == "In a direct message · <https://x.slack.com/archives/D1/p12|open the thread>"
    assert where(("C1", "1.2"), None) == "In <#C1>"
