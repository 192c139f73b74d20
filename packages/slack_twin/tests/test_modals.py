"""Modals and home tabs: opened, pushed, updated and published by apps, submitted and closed by people."""

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError

from tests.acting import (
    Json,
    actions,
    button,
    heard,
    modal,
    on_view,
    opened,
    options,
    plain,
    posted,
    pressing,
    strange,
    text_input,
    within,
)
from tests.world import Line, World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")
NAME = text_input("name")
VIEW_METHODS = ("views.open", "views.push")


async def refusal(world: World, method: str, **args: Any) -> Json:
    _, answer = await world.raw(method, json=args)
    assert answer["ok"] is False, answer
    return dict(answer)


async def pressed(world: World, line: Line) -> str:
    """Presses a button as alice, acknowledges it, and returns its trigger."""
    payload, _ = await heard(line, pressing(world, await posted(world, actions(button("go"))), "go"))
    return str(payload["trigger_id"])


async def stack(world: World) -> list[str]:
    """Returns the ids of alice's open modals, the front modal last."""
    return [view["id"] for view in (await world.ask("GET", "views?user=alice"))["views"]]


async def test_a_modal_opens_for_the_person_whose_press_caused_the_trigger(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, private_metadata="m", callback_id="c", notify_on_close=True))
    assert view.items() >= {"type": "modal", "private_metadata": "m", "callback_id": "c", "bot_id": "B000SWARM"}.items()
    assert view["root_view_id"] == view["id"]
    assert view["state"] == {"values": {"name": {"text": {"type": "plain_text_input", "value": None}}}}
    assert await stack(world) == [view["id"]]
    assert (await world.ask("GET", "views?user=bob"))["views"] == []


async def test_a_trigger_serves_once_and_for_three_seconds_and_only_its_own_app(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    line = await world.line()
    used = await pressed(world, line)
    _, stolen = await world.raw("views.open", token="xoxb-twin-other", json={"trigger_id": used, "view": modal()})
    assert stolen["error"] == "invalid_trigger_id"
    await world.client().views_open(trigger_id=used, view=modal())
    for method in VIEW_METHODS:
        assert (await refusal(world, method, trigger_id=used, view=modal()))["error"] == "exchanged_trigger_id"
    late = await pressed(world, line)
    await world.advance(3)
    for method in VIEW_METHODS:
        assert (await refusal(world, method, trigger_id=late, view=modal()))["error"] == "expired_trigger_id"
        assert (await refusal(world, method, trigger_id="1.2.ab", view=modal()))["error"] == "invalid_trigger_id"
        assert (await refusal(world, method, trigger_id="nonsense", view=modal()))["error"] == "invalid_trigger_id"
        missing = await refusal(world, method, view=modal())
        assert "missing required field: trigger_id" in missing["response_metadata"]["messages"][0]


async def test_a_view_that_was_refused_does_not_use_up_its_trigger(world: World) -> None:
    line = await world.line()
    trigger_id = await pressed(world, line)
    assert (await refusal(world, "views.open", trigger_id=trigger_id, view={}))["error"] == "invalid_arguments"
    await world.client().views_open(trigger_id=trigger_id, view=modal())


WRONG_VIEWS: list[tuple[Json, str]] = [
    ({"title": None}, "missing required field: title [json-pointer:/view]"),
    ({"title": plain("x" * 25)}, "must be less than 25 characters [json-pointer:/view/title/text]"),
    ({"title": {"type": "mrkdwn", "text": "x"}}, "unsupported type: mrkdwn [json-pointer:/view/title/type]"),
    ({"blocks": None}, "missing required field: blocks [json-pointer:/view]"),
    ({"blocks": [{"type": "divider"}] * 101}, "no more than 100 items allowed [json-pointer:/view/blocks]"),
    ({"blocks": [{"type": "markdown", "text": "x"}]}, "unsupported type: markdown [json-pointer:/view/blocks/0/type]"),
    ({"type": "home"}, "must be one of: modal [json-pointer:/view/type]"),
    ({"private_metadata": "x" * 3_001}, "must be less than 3001 characters [json-pointer:/view/private_metadata]"),
    ({"callback_id": "x" * 256}, "must be less than 256 characters [json-pointer:/view/callback_id]"),
    ({"notify_on_close": "perhaps"}, "must provide a boolean [json-pointer:/view/notify_on_close]"),
    ({"colour": "red"}, "invalid additional property: colour [json-pointer:/view]"),
    (
        {"submit": None, "blocks": [NAME]},
        "must define `submit` to use an `input` block in modals [json-pointer:/view/blocks/0/input]",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG_VIEWS, ids=lambda part: str(part)[:40])
async def test_a_wrong_view_is_refused_with_the_place_of_the_mistake(world: World, change: Json, message: str) -> None:
    answer = await refusal(world, "views.open", trigger_id="1.2.ab", view=modal() | change)
    assert answer["error"] == "invalid_arguments"
    assert f"[ERROR] {message}" in answer["response_metadata"]["messages"]


async def test_a_view_of_more_than_250_kilobytes_is_too_large(world: World) -> None:
    text = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_000}}
    answer = await refusal(world, "views.open", trigger_id="1.2.ab", view=modal(*[text] * 100))
    assert answer["error"] == "view_too_large"


async def test_three_modals_stack_and_a_fourth_is_refused(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(actions(button("more"))))
    pushed = [view]
    for _ in range(2):
        asking = on_view(world, pushed[-1]["id"], action_id="more")
        envelope = await line.next()
        answer = await world.client().views_push(
            trigger_id=envelope["payload"]["trigger_id"], view=modal(actions(button("more")))
        )
        pushed.append(answer["view"])
        await line.acknowledge(envelope)
        assert (await within(asking))["view"]["id"] == pushed[-1]["id"]
    assert [shown["previous_view_id"] for shown in pushed] == [None, pushed[0]["id"], pushed[1]["id"]]
    assert {shown["root_view_id"] for shown in pushed} == {view["id"]}
    payload, _ = await heard(line, on_view(world, pushed[-1]["id"], action_id="more"))
    full = await refusal(world, "views.push", trigger_id=payload["trigger_id"], view=modal())
    assert full["error"] == "push_limit_reached"


async def test_nothing_is_pushed_onto_what_is_not_open(world: World) -> None:
    line = await world.line()
    trigger_id = await pressed(world, line)
    assert (await refusal(world, "views.push", trigger_id=trigger_id, view=modal()))["error"] == "not_found"


async def test_an_act_in_a_view_tells_the_view_and_no_message(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, actions(button("check"))))
    payload, _ = await heard(line, on_view(world, view["id"], action_id="check", state={"name": "typed"}))
    assert payload["container"] == {"type": "view", "view_id": view["id"]}
    assert payload["view"]["state"]["values"]["name"]["text"]["value"] == "typed"
    assert not {"message", "channel", "response_url", "state"} & payload.keys()
    assert strange(payload, "interactive-components/BlockActionPayload") == []


async def test_an_updated_view_keeps_what_was_entered_in_the_inputs_that_stay(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, text_input("other")))
    await within(on_view(world, view["id"], action_id="text", block_id="name", value="typed"))
    client = world.client()
    updated = (await client.views_update(view_id=view["id"], view=modal(NAME), hash=view["hash"]))["view"]
    assert (updated["id"], updated["hash"] != view["hash"]) == (view["id"], True)
    assert updated["state"]["values"] == {"name": {"text": {"type": "plain_text_input", "value": "typed"}}}
    with pytest.raises(SlackApiError, match="hash_conflict"):
        await client.views_update(view_id=view["id"], view=modal(NAME), hash=view["hash"])


async def test_a_view_is_found_by_the_name_that_the_app_gave_it(world: World) -> None:
    line = await world.line()
    client = world.client()
    view = await opened(world, line, modal(external_id="mine"))
    updated = (await client.views_update(external_id="mine", view=modal(title=plain("Other"), external_id="mine")))[
        "view"
    ]
    assert (updated["id"], updated["title"]["text"], updated["external_id"]) == (view["id"], "Other", "mine")
    await client.views_publish(user_id="U00000BOB", view={"type": "home", "blocks": []})
    home = {"type": "home", "blocks": [], "external_id": "mine"}
    assert (await refusal(world, "views.publish", user_id="U00000BOB", view=home))["error"] == "duplicate_external_id"
    trigger_id = await pressed(world, line)
    taken = await refusal(world, "views.open", trigger_id=trigger_id, view=modal(external_id="mine"))
    assert taken["error"] == "duplicate_external_id"


async def test_only_an_open_view_of_the_own_app_is_updated(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    view = await opened(world, await world.line(), modal())
    wrong = {"view_id": view["id"], "view": modal()}
    assert (await world.raw("views.update", token="xoxb-twin-other", json=wrong))[1]["error"] == "not_found"
    assert (await refusal(world, "views.update", view_id="V404", view=modal()))["error"] == "not_found"
    assert (await refusal(world, "views.update", external_id="x", view=modal()))["error"] == "not_found"
    assert (await refusal(world, "views.update", view=modal()))["error"] == "invalid_arguments"
    assert (await refusal(world, "views.update", view_id=view["id"]))["error"] == "invalid_arguments"
    await within(on_view(world, view["id"], close=True))
    assert (await refusal(world, "views.update", **wrong))["error"] == "not_found"


async def test_a_submitted_form_reaches_the_app_and_closes(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, callback_id="form"))
    asking = on_view(world, view["id"], submit=True, state={"name": "typed"})
    envelope = await line.next()
    payload = envelope["payload"]
    assert (envelope["type"], envelope["accepts_response_payload"]) == ("interactive", True)
    assert (payload["type"], payload["view"]["callback_id"], payload["response_urls"]) == (
        "view_submission",
        "form",
        [],
    )
    assert payload["view"]["state"]["values"]["name"]["text"]["value"] == "typed"
    assert strange(payload, "views/ViewSubmissionPayload") == []
    await line.acknowledge(envelope)
    assert await within(asking) == {"ok": True}
    assert await stack(world) == []


async def test_a_form_with_mistakes_stays_and_names_them(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME))
    errors = {"name": "That is taken."}
    asking = on_view(world, view["id"], submit=True, state={"name": "alice"})
    _, answer = await heard(line, asking, {"response_action": "errors", "errors": errors})
    assert (answer["ok"], answer["errors"], answer["view"]["id"]) == (True, errors, view["id"])
    assert answer["view"]["state"]["values"]["name"]["text"]["value"] == "alice"


async def test_a_submission_can_be_answered_with_another_view(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME))
    update = {"response_action": "update", "view": modal(title=plain("Done"))}
    _, answer = await heard(line, on_view(world, view["id"], submit=True, state={"name": "x"}), update)
    assert (answer["view"]["id"], answer["view"]["title"]["text"]) == (view["id"], "Done")
    await within(on_view(world, view["id"], close=True))
    view = await opened(world, line, modal(NAME))
    push = {"response_action": "push", "view": modal(NAME, title=plain("Next"))}
    _, answer = await heard(line, on_view(world, view["id"], submit=True, state={"name": "x"}), push)
    following = answer["view"]
    assert (following["title"]["text"], following["previous_view_id"]) == ("Next", view["id"])
    _, answer = await heard(line, on_view(world, following["id"], submit=True, state={"name": "x"}))
    assert answer["view"]["id"] == view["id"], "the one behind it is in front again"
    await heard(line, on_view(world, view["id"], submit=True), push)
    front = (await stack(world))[-1]
    _, answer = await heard(line, on_view(world, front, submit=True, state={"name": "x"}), {"response_action": "clear"})
    assert "view" not in answer
    assert await stack(world) == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"response_action": "dance"}, "invalid_response"),
        ({"response_action": "errors", "errors": {"nowhere": "x"}}, "invalid_response"),
        ({"response_action": "errors"}, "invalid_response"),
        ({"response_action": "update"}, "invalid_arguments"),
        ({"response_action": "push", "view": {"type": "home", "blocks": []}}, "invalid_arguments"),
        (["clear"], "invalid_response"),
        ("clear", "invalid_response"),
    ],
)
async def test_an_answer_to_a_submission_that_makes_no_sense_fails_and_the_form_stays(
    world: World, answer: object, error: str
) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME))
    _, told = await heard(line, on_view(world, view["id"], submit=True, state={"name": "x"}), answer)
    assert (told["ok"], told["error"], told["view"]["id"]) == (False, error, view["id"])


async def test_a_submission_that_no_app_acknowledges_leaves_the_form_as_it_was(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME))
    asking = on_view(world, view["id"], submit=True, state={"name": "typed"})
    await line.next()
    await world.advance(3)
    told = await within(asking)
    assert (told["ok"], told["error"]) == (False, "timeout")
    assert told["view"]["state"]["values"]["name"]["text"]["value"] == "typed"


NUMBER = {"type": "number_input", "is_decimal_allowed": False, "min_value": "1", "max_value": "5"}
INCOMPLETE: list[tuple[Json, object, str | None]] = [
    ({}, None, "Please complete this required field."),
    ({"min_length": 3}, "ab", "Please enter at least 3 characters."),
    ({"max_length": 3}, "abcd", "Please enter at most 3 characters."),
    ({"min_length": 3, "max_length": 4}, "abcd", None),
    (NUMBER, "1.5", "Please enter a whole number."),
    (NUMBER, "x", "Please enter a whole number."),
    (NUMBER, "0", "Please enter a number of at least 1."),
    (NUMBER, "6", "Please enter a number of at most 5."),
    (NUMBER, "5", None),
    (NUMBER | {"is_decimal_allowed": True}, "1.5", None),
    ({"type": "email_text_input"}, "nobody", "Please enter a valid email address."),
    ({"type": "url_text_input"}, "nowhere", "Please enter a valid URL."),
    ({"type": "checkboxes", "options": options("tea")}, [], "Please complete this required field."),
    (
        {"type": "multi_static_select", "options": options("tea", "milk"), "max_selected_items": 1},
        ["tea", "milk"],
        "Please choose at most 1.",
    ),
]


@pytest.mark.parametrize(("element", "value", "problem"), INCOMPLETE, ids=lambda part: str(part)[:40])
async def test_an_incomplete_form_is_not_sent(world: World, element: Json, value: object, problem: str | None) -> None:
    line = await world.line()
    view = await opened(world, line, modal(text_input("field", **element)))
    asking = on_view(world, view["id"], submit=True, state={"field": value})
    if problem is None:
        assert (await heard(line, asking))[1] == {"ok": True}
    else:
        told = await within(asking)
        assert (told["ok"], told["error"], told["errors"]) == (False, "invalid_form", {"field": problem})


async def test_an_optional_input_may_stay_empty(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(text_input("field") | {"optional": True}))
    _, told = await heard(line, on_view(world, view["id"], submit=True))
    assert told == {"ok": True}


async def test_a_conversation_that_is_marked_for_it_comes_with_a_response_url(world: World) -> None:
    line = await world.line()
    menu = {"type": "conversations_select", "action_id": "where", "response_url_enabled": True}
    view = await opened(world, line, modal({"type": "input", "block_id": "to", "label": plain("To"), "element": menu}))
    payload, _ = await heard(line, on_view(world, view["id"], submit=True, state={"where": "random"}))
    (url,) = payload["response_urls"]
    assert (url["block_id"], url["action_id"], url["channel_id"]) == ("to", "where", "C00RANDOM")
    answer = {"text": "done", "response_type": "in_channel"}
    async with world.http.post(url["response_url"], json=answer) as response:
        assert response.status == 200
    assert [message["text"] for message in await world.seen("random")] == ["done"]


async def test_a_menu_of_conversations_can_start_at_the_one_in_which_the_form_was_opened(world: World) -> None:
    menu = {"type": "conversations_select", "action_id": "text", "default_to_current_conversation": True}
    many = menu | {"type": "multi_conversations_select"}
    view = await opened(world, await world.line(), modal(text_input("one", **menu), text_input("many", **many)))
    values = view["state"]["values"]
    assert values["one"]["text"]["selected_conversation"] == world.general
    assert values["many"]["text"]["selected_conversations"] == [world.general]


async def test_a_person_who_was_chosen_gets_the_response_in_the_direct_conversation(world: World) -> None:
    line = await world.line()
    menu = {"type": "conversations_select", "action_id": "where", "response_url_enabled": True}
    view = await opened(world, line, modal({"type": "input", "block_id": "to", "label": plain("To"), "element": menu}))
    payload, _ = await heard(line, on_view(world, view["id"], submit=True, state={"where": "bob"}))
    answer = {"text": "done", "response_type": "in_channel"}
    async with world.http.post(payload["response_urls"][0]["response_url"], json=answer) as response:
        assert response.status == 200
    assert [message["text"] for message in await world.seen("@bob", user="alice")] == ["done"]


async def test_apps_that_want_to_know_hear_of_a_closed_modal(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, notify_on_close=True))
    payload, told = await heard(line, on_view(world, view["id"], close=True))
    assert (payload["type"], payload["is_cleared"], payload["view"]["id"]) == ("view_closed", False, view["id"])
    assert strange(payload, "views/ViewClosedPayload") == []
    assert told == {"ok": True}
    quiet = await opened(world, line, modal())
    assert await within(on_view(world, quiet["id"], close=True)) == {"ok": True}
    assert [entry["kind"] for entry in await world.deliveries()].count("view_closed") == 1


@pytest.mark.parametrize("way", ["by the person", "by the view"])
async def test_all_modals_are_cleared_together(world: World, way: str) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME, notify_on_close=True))
    further = modal(clear_on_close=way == "by the view")
    _, told = await heard(
        line, on_view(world, view["id"], submit=True, state={"name": "x"}), {"response_action": "push", "view": further}
    )
    closing = on_view(world, told["view"]["id"], close=True, all=way == "by the person")
    payload, told = await heard(line, closing)
    assert (payload["is_cleared"], payload["view"]["id"], told) == (True, view["id"], {"ok": True})
    assert await stack(world) == []


async def test_people_act_only_on_views_that_they_see(world: World) -> None:
    line = await world.line()
    view = await opened(world, line, modal(NAME))
    plain_view = await opened(world, line, modal(submit=None))
    for body, expected in (
        ({"user": "bob", "view_id": plain_view["id"], "submit": True}, 404),
        ({"user": "alice", "view_id": view["id"], "submit": True}, 404),
        ({"user": "alice", "view_id": plain_view["id"], "submit": True}, 422),
        ({"user": "alice", "view_id": plain_view["id"]}, 422),
        ({"user": "alice", "view_id": plain_view["id"], "submit": True, "close": True}, 422),
        ({"user": "alice", "view_id": plain_view["id"], "submit": "yes"}, 422),
        ({"user": "alice", "view_id": 7, "submit": True}, 422),
    ):
        status, _ = await world.control("POST", "actions", body)
        assert (body, status) == (body, expected)


async def test_a_home_tab_is_published_opened_and_pressed(world: World) -> None:
    line = await world.line()
    client = world.client()
    assert await world.ask("POST", "homes", {"user": "alice", "app": "swarm"}) == {"ok": True}
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["type"], event["tab"], event["user"], "view" in event) == (
        "app_home_opened",
        "home",
        "U000ALICE",
        False,
    )
    home = {"type": "home", "blocks": [actions(button("refresh"))]}
    view = (await client.views_publish(user_id="U000ALICE", view=home))["view"]
    assert (await world.ask("POST", "homes", {"user": "alice", "app": "swarm"}))["view"]["id"] == view["id"]
    envelope = await line.next_acknowledged()
    assert envelope["payload"]["event"]["view"]["id"] == view["id"]
    assert strange(envelope["payload"], "AppHomeOpenedPayload", folder="events") == []
    payload, _ = await heard(line, on_view(world, view["id"], action_id="refresh"))
    assert payload["view"]["type"] == "home"
    again = (await client.views_publish(user_id="U000ALICE", view=home, hash=view["hash"]))["view"]
    assert again["id"] == view["id"]
    for wrong, code in (
        ({"user_id": "U404", "view": home}, "user_not_found"),
        ({"view": home}, "invalid_arguments"),
        ({"user_id": "U000ALICE", "view": modal()}, "invalid_arguments"),
        ({"user_id": "U000ALICE", "view": home, "hash": view["hash"]}, "hash_conflict"),
    ):
        assert (await refusal(world, "views.publish", **wrong))["error"] == code
    status, _ = await world.control("POST", "actions", {"user": "alice", "view_id": view["id"], "close": True})
    assert status == 422
    assert (await world.ask("GET", "views?user=alice"))["homes"]["swarm"]["id"] == view["id"]
