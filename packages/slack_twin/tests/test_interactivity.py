"""People's actions on buttons, menus and inputs of messages, and the payloads to the messages' apps."""

from typing import Any

import orjson
import pytest

from tests.acting import (
    Json,
    actions,
    button,
    heard,
    options,
    plain,
    posted,
    pressing,
    strange,
    text_input,
    within,
)
from tests.receiver import receiving
from tests.world import World

pytestmark = pytest.mark.req("TWIN-01")
CANCEL = button("cancel", value="task-7", style="danger")


async def test_a_pressed_button_reaches_the_app_over_its_socket(world: World) -> None:
    line = await world.line()
    ts = await posted(world, actions(CANCEL))
    asking = pressing(world, ts, "cancel")
    envelope = await line.next()
    payload = envelope["payload"]
    assert (envelope["type"], envelope["accepts_response_payload"]) == ("interactive", False)
    assert not {"retry_attempt", "retry_reason"} & envelope.keys()
    assert (payload["type"], payload["api_app_id"]) == ("block_actions", "A000SWARM")
    assert payload["user"] == {"id": "U000ALICE", "username": "alice", "name": "alice", "team_id": "T0TWIN"}
    (action,) = payload["actions"]
    assert action.items() >= {"action_id": "cancel", "block_id": "row", "value": "task-7", "type": "button"}.items()
    place = {"type": "message", "message_ts": ts, "channel_id": world.general, "is_ephemeral": False}
    assert payload["container"] == place
    assert (payload["channel"], payload["message"]["ts"]) == ({"id": world.general, "name": "general"}, ts)
    assert payload["response_url"].startswith(f"{world.base}actions/")
    assert strange(payload, "interactive-components/BlockActionPayload") == []
    await line.acknowledge(envelope)
    assert await within(asking) == {"ok": True}
    (entry,) = await world.deliveries()
    assert (entry["kind"], entry["channel"], entry["ts"], entry["acked"]) == ("block_actions", world.general, ts, True)


async def test_a_pressed_button_reaches_the_app_as_a_signed_form(world: World) -> None:
    async with receiving(world) as receiver:
        ts = await posted(world, actions(CANCEL))
        asking = pressing(world, ts, "cancel")
        headers, form = await receiver.next()
        assert await within(asking) == {"ok": True}
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert "X-Slack-Retry-Num" not in headers
    payload = orjson.loads(form["payload"])
    assert (payload["type"], payload["actions"][0]["value"]) == ("block_actions", "task-7")


async def test_a_press_that_no_app_acknowledges_fails_after_three_seconds_and_is_not_sent_again(world: World) -> None:
    line = await world.line()
    asking = pressing(world, await posted(world, actions(CANCEL)), "cancel")
    await line.next()
    await world.advance(3)
    assert await within(asking) == {"ok": False, "error": "timeout"}
    await world.advance(1_000)
    (entry,) = await world.deliveries()
    assert (entry["acked"], entry["error"], entry["dropped"]) == (False, "timeout", True)


async def test_without_a_connection_a_press_fails_at_once(world: World) -> None:
    ts = await posted(world, actions(CANCEL))
    assert await within(pressing(world, ts, "cancel")) == {"ok": False, "error": "no_connection"}


async def test_a_press_answered_with_an_error_status_fails(world: World) -> None:
    async with receiving(world, status=500):
        ts = await posted(world, actions(CANCEL))
        assert await within(pressing(world, ts, "cancel")) == {"ok": False, "error": "http_500"}


async def test_a_press_meets_the_faults_that_were_planned_for_it(world: World) -> None:
    line = await world.line()
    await world.ask("POST", "faults", {"kind": "drop_ack", "event": "block_actions"})
    asking = pressing(world, await posted(world, actions(CANCEL)), "cancel")
    await line.next_acknowledged()
    await world.advance(3)
    assert (await within(asking))["error"] == "timeout"


MENU = options("tea", "coffee")
TEA, COFFEE = MENU
# The element, the person's input, and the app's payload.
CHOICES: list[tuple[Json, object, Json]] = [
    ({"type": "static_select", "options": MENU}, "tea", {"selected_option": TEA}),
    ({"type": "static_select", "options": MENU}, "Coffee", {"selected_option": COFFEE}),
    (
        {"type": "static_select", "options": MENU},
        {"type": "static_select", "selected_option": TEA},
        {"selected_option": TEA},
    ),
    (
        {"type": "static_select", "option_groups": [{"label": plain("Hot"), "options": MENU}]},
        "tea",
        {"selected_option": TEA},
    ),
    ({"type": "static_select", "options": MENU, "initial_option": TEA}, None, {"selected_option": None}),
    ({"type": "multi_static_select", "options": MENU}, ["coffee", "tea"], {"selected_options": [COFFEE, TEA]}),
    ({"type": "overflow", "options": MENU}, "tea", {"selected_option": TEA}),
    ({"type": "radio_buttons", "options": MENU}, "coffee", {"selected_option": COFFEE}),
    ({"type": "checkboxes", "options": MENU}, ["tea"], {"selected_options": [TEA]}),
    ({"type": "checkboxes", "options": MENU}, [], {"selected_options": []}),
    ({"type": "users_select"}, "bob", {"selected_user": "U00000BOB"}),
    ({"type": "users_select"}, "@bob", {"selected_user": "U00000BOB"}),
    ({"type": "multi_users_select"}, ["bob", "U000CAROL"], {"selected_users": ["U00000BOB", "U000CAROL"]}),
    ({"type": "channels_select"}, "#random", {"selected_channel": "C00RANDOM"}),
    ({"type": "multi_channels_select"}, ["general"], {"selected_channels": ["C0GENERAL"]}),
    ({"type": "conversations_select"}, "general", {"selected_conversation": "C0GENERAL"}),
    ({"type": "conversations_select"}, "carol", {"selected_conversation": "U000CAROL"}),
    ({"type": "multi_conversations_select"}, ["random"], {"selected_conversations": ["C00RANDOM"]}),
    ({"type": "datepicker"}, "2026-11-21", {"selected_date": "2026-11-21"}),
    ({"type": "timepicker"}, "09:30", {"selected_time": "09:30"}),
    ({"type": "datetimepicker"}, 1_795_000_000, {"selected_date_time": 1_795_000_000}),
    (button("press", value="x"), None, {"value": "x", "text": plain("Press")}),
]


@pytest.mark.parametrize(("element", "given", "told"), CHOICES, ids=lambda part: str(part)[:40])
async def test_a_choice_is_told_in_the_form_of_its_element(
    world: World, element: Json, given: object, told: Json
) -> None:
    line = await world.line()
    ts = await posted(world, actions(element | {"action_id": "it"}))
    payload, answer = await heard(line, pressing(world, ts, "it", value=given))
    (action,) = payload["actions"]
    assert answer == {"ok": True}
    assert (action["type"], action["action_id"], action["block_id"]) == (element["type"], "it", "row")
    assert action.items() >= told.items()
    held = payload["state"]["values"].get("row", {}).get("it")
    if element["type"] in ("button", "overflow"):
        assert held is None
    else:
        assert held == {"type": element["type"], **told}


@pytest.mark.parametrize(
    ("element", "given", "told"),
    [
        ("plain_text_input", "hello", {"value": "hello"}),
        ("plain_text_input", "", {"value": None}),
        ("email_text_input", "a@b.test", {"value": "a@b.test"}),
        ("url_text_input", "https://b.test/", {"value": "https://b.test/"}),
        ("number_input", 7, {"value": "7"}),
    ],
)
async def test_an_input_tells_its_app_when_it_is_to_dispatch(
    world: World, element: str, given: object, told: Json
) -> None:
    line = await world.line()
    further = {"is_decimal_allowed": False} if element == "number_input" else {}
    ts = await posted(world, text_input("name", type=element, **further) | {"dispatch_action": True})
    payload, answer = await heard(line, pressing(world, ts, "text", value=given))
    assert answer == {"ok": True}
    assert payload["actions"][0].items() >= told.items()


async def test_an_input_that_does_not_dispatch_keeps_what_was_typed_for_the_next_act(world: World) -> None:
    line = await world.line()
    ts = await posted(world, text_input("name"), actions(CANCEL))
    assert await within(pressing(world, ts, "text", value="typed")) == {"ok": True}
    payload, _ = await heard(line, pressing(world, ts, "cancel"))
    assert payload["state"]["values"] == {"name": {"text": {"type": "plain_text_input", "value": "typed"}}}


@pytest.mark.parametrize(
    "state",
    [
        {"text": "typed", "menu": "tea"},
        {"name": "typed", "menu": "tea"},
        {"name": {"text": "typed"}, "row": {"menu": "tea"}},
        {
            "values": {
                "name": {"text": {"type": "plain_text_input", "value": "typed"}},
                "row": {"menu": {"selected_option": TEA}},
            }
        },
    ],
    ids=["by action", "by block", "by block and action", "as Slack writes it"],
)
async def test_what_was_entered_elsewhere_comes_with_a_press(world: World, state: Json) -> None:
    line = await world.line()
    menu = {"type": "static_select", "action_id": "menu", "options": MENU}
    ts = await posted(world, text_input("name"), actions(menu, CANCEL))
    payload, _ = await heard(line, pressing(world, ts, "cancel", state=state))
    assert payload["state"]["values"] == {
        "name": {"text": {"type": "plain_text_input", "value": "typed"}},
        "row": {"menu": {"type": "static_select", "selected_option": TEA}},
    }


async def test_untouched_elements_hold_their_initial_value(world: World) -> None:
    line = await world.line()
    menu = {"type": "static_select", "action_id": "menu", "options": MENU, "initial_option": TEA}
    ts = await posted(world, text_input("name", initial_value="there"), actions(menu, CANCEL))
    payload, _ = await heard(line, pressing(world, ts, "cancel"))
    assert payload["state"]["values"]["name"]["text"]["value"] == "there"
    assert payload["state"]["values"]["row"]["menu"]["selected_option"] == TEA


async def test_what_one_person_entered_is_not_told_for_another(world: World) -> None:
    line = await world.line()
    ts = await posted(world, text_input("name"), actions(CANCEL))
    await within(pressing(world, ts, "text", value="secret"))
    payload, _ = await heard(line, pressing(world, ts, "cancel", user="bob"))
    assert payload["user"]["name"] == "bob"
    assert payload["state"]["values"]["name"]["text"]["value"] is None


async def test_feedback_says_which_button_and_an_icon_button_its_icon(world: World) -> None:
    line = await world.line()
    feedback = {
        "type": "feedback_buttons",
        "action_id": "rate",
        "positive_button": {"text": plain("Good"), "value": "+1"},
        "negative_button": {"text": plain("Bad"), "value": "-1"},
    }
    trash = {"type": "icon_button", "action_id": "bin", "icon": "trash", "text": plain("Delete"), "value": "7"}
    ts = await posted(world, {"type": "context_actions", "elements": [feedback, trash]})
    rated, _ = await heard(line, pressing(world, ts, "rate", value="-1"))
    assert rated["actions"][0].items() >= {"type": "feedback_buttons", "value": "-1", "text": plain("Bad")}.items()
    binned, _ = await heard(line, pressing(world, ts, "bin"))
    assert binned["actions"][0].items() >= {"type": "icon_button", "value": "7", "icon": "trash"}.items()


async def test_an_act_in_a_thread_of_a_private_channel_tells_the_thread_and_hides_the_name(world: World) -> None:
    members = ["alice", "swarm"]
    await world.ask("POST", "seed", {"channels": [{"name": "secret", "members": members, "is_private": True}]})
    line = await world.line()
    root = (await world.client().chat_postMessage(channel="C00SECRET", text="root"))["ts"]
    reply = await world.client().chat_postMessage(
        channel="C00SECRET", text="x", thread_ts=root, blocks=[actions(CANCEL)]
    )
    payload, _ = await heard(line, pressing(world, reply["ts"], "cancel", channel="secret"))
    assert (payload["container"]["thread_ts"], payload["message"]["thread_ts"]) == (root, root)
    assert payload["channel"] == {"id": "C00SECRET", "name": "privategroup"}


async def test_elements_in_sections_cards_and_attachments_can_be_pressed(world: World) -> None:
    line = await world.line()
    section = {"type": "section", "text": plain("x"), "accessory": button("aside")}
    card = {"type": "card", "title": plain("x"), "actions": [button("deal")]}
    ts = await posted(
        world, section, {"type": "carousel", "elements": [card]}, attachments=[{"blocks": [actions(button("below"))]}]
    )
    for action_id in ("aside", "deal", "below"):
        payload, answer = await heard(line, pressing(world, ts, action_id))
        assert (payload["actions"][0]["action_id"], answer) == (action_id, {"ok": True})


async def test_the_app_is_asked_for_the_options_of_an_external_menu(world: World) -> None:
    line = await world.line()
    ts = await posted(world, actions({"type": "external_select", "action_id": "city", "min_query_length": 0}))
    body = {"user": "alice", "channel": "general", "ts": ts, "action_id": "city", "value": "ber"}
    asking = pressing(world, ts, "city", value="berlin")
    envelope = await line.next()
    assert (envelope["payload"]["type"], envelope["accepts_response_payload"]) == ("block_suggestion", True)
    assert envelope["payload"].items() >= {"action_id": "city", "block_id": "row", "value": "berlin"}.items()
    await line.acknowledge(envelope, {"options": options("berlin", "bern")})
    payload, answer = await heard(line, asking)
    assert (payload["actions"][0]["selected_option"]["value"], answer) == ("berlin", {"ok": True})
    asking = pressing(world, ts, "city", value="bern")
    payload, _ = await heard(line, asking)
    assert payload["type"] == "block_actions", "bern was offered already"
    status, refusal = await world.control("POST", "suggestions", body | {"action_id": "nowhere"})
    assert (status, refusal["error"]["code"]) == (404, "not_found")


async def test_suggestions_that_make_no_sense_offer_nothing(world: World) -> None:
    async with receiving(world, answer={"options": [{"text": "berlin"}]}):
        ts = await posted(world, actions({"type": "external_select", "action_id": "city"}))
        body = {"user": "alice", "channel": "general", "ts": ts, "action_id": "city", "value": "ber"}
        assert await world.ask("POST", "suggestions", body) == {"options": []}


async def test_grouped_suggestions_can_be_chosen_from(world: World) -> None:
    groups = [
        {"label": plain("Here"), "options": options("berlin")},
        {"label": plain("There"), "options": options("rome")},
    ]
    async with receiving(world, answer={"option_groups": groups}):
        ts = await posted(world, actions({"type": "multi_external_select", "action_id": "city"}))
        body = {"user": "alice", "channel": "general", "ts": ts, "action_id": "city", "value": "r"}
        answer = await world.ask("POST", "suggestions", body)
        assert [option["value"] for option in answer["options"]] == ["berlin", "rome"]


async def test_an_ephemeral_message_can_be_pressed_by_the_one_who_sees_it(world: World) -> None:
    line = await world.line()
    shown = await world.client().chat_postEphemeral(
        channel=world.general, user="U000ALICE", text="psst", blocks=[actions(CANCEL)]
    )
    ts = shown["message_ts"]
    payload, _ = await heard(line, pressing(world, ts, "cancel"))
    assert payload["container"]["is_ephemeral"] is True
    assert "message" not in payload
    status, answer = await world.control(
        "POST", "actions", {"user": "bob", "channel": "general", "ts": ts, "action_id": "cancel"}
    )
    assert (status, answer["error"]["code"]) == (404, "message_not_found")
    (seen,) = await world.seen(user="alice")
    assert (seen["subtype"], seen["ts"]) == ("ephemeral", ts)
    assert await world.seen() == await world.seen(user="bob") == []


async def test_an_element_without_an_action_id_gets_one_that_can_be_pressed(world: World) -> None:
    line = await world.line()
    await posted(world, {"type": "actions", "elements": [{"type": "button", "text": plain("Go")}]})
    ((shown,),) = [message["blocks"] for message in await world.seen()]
    action_id = shown["elements"][0]["action_id"]
    ts = (await world.seen())[0]["ts"]
    payload, _ = await heard(line, pressing(world, ts, action_id))
    assert payload["actions"][0]["block_id"] == shown["block_id"]


WRONG_ACTS: list[tuple[Json, int, str]] = [
    ({"action_id": "nowhere"}, 404, "row/cancel (button)"),
    ({"action_id": "twice"}, 422, "give 'block_id' too"),
    ({"action_id": "menu", "value": "milk"}, 422, ""),
    ({"action_id": "menu", "value": 7}, 422, ""),
    ({"action_id": "who", "value": "nobody"}, 422, ""),
    ({"action_id": "who", "value": ["bob"]}, 422, ""),
    ({"action_id": "day", "value": "tomorrow"}, 422, ""),
    ({"action_id": "hour", "value": "25:00"}, 422, ""),
    ({"action_id": "moment", "value": "soon"}, 422, ""),
    ({"action_id": "many", "value": "tea"}, 422, ""),
    ({"action_id": "over"}, 422, ""),
    ({"action_id": "cancel", "state": {"nowhere": "x"}}, 422, "available (as block/action): row/menu"),
    ({"action_id": "cancel", "state": []}, 422, ""),
    ({"action_id": 7}, 422, ""),
    ({"action_id": "cancel", "unknown": 1}, 422, ""),
    ({"action_id": "cancel", "channel": "nowhere"}, 404, ""),
    ({"action_id": "cancel", "user": "nobody"}, 404, ""),
    ({"action_id": "cancel", "ts": "1.2"}, 404, ""),
]


async def test_an_act_that_does_not_fit_is_refused_with_what_would(world: World) -> None:
    elements: list[dict[str, Any]] = [
        CANCEL,
        button("twice"),
        {"type": "static_select", "action_id": "menu", "options": MENU},
        {"type": "users_select", "action_id": "who"},
        {"type": "datepicker", "action_id": "day"},
        {"type": "timepicker", "action_id": "hour"},
        {"type": "datetimepicker", "action_id": "moment"},
        {"type": "checkboxes", "action_id": "many", "options": MENU},
        {"type": "overflow", "action_id": "over", "options": MENU},
    ]
    ts = await posted(world, actions(*elements), actions(button("twice"), block_id="other"))
    for act, expected, hint in WRONG_ACTS:
        body = {"user": "alice", "channel": "general", "ts": ts} | act
        status, answer = await world.control("POST", "actions", body)
        assert (act, status) == (act, expected)
        assert hint in answer["error"]["hint"]
    said = await world.say("alice", "no buttons here")
    body = {"user": "alice", "channel": "general", "ts": said, "action_id": "x"}
    status, answer = await world.control("POST", "actions", body)
    assert (status, answer["error"]["message"]) == (422, "a person's message has no interactive elements")
    assert {entry["kind"] for entry in await world.deliveries()} <= {"message"}
