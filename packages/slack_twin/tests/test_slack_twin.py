"""The API of the pytest plugin, with real Bolt apps and SDK clients."""

import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook import WebhookClient
from slack_twin import build_twin
from slack_twin.clock import still_clock
from slack_twin.faults import Fault, FaultKind
from slack_twin.testing import NotInTime, NotTaken, Person, Refused, SlackTwin, TwinServer, line

from tests.acting import actions, button, modal, options, plain, text_input

pytestmark = pytest.mark.req("TWIN-06")

SOON_SECONDS = 20.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwinServer]:
    """Yields a server whose clock stands still.

    No app is late on a slow machine, and no limit expires early.
    """
    monkeypatch.setattr("slack_twin.testing.server.build_twin", partial(build_twin, clock=still_clock()))
    served = TwinServer()
    served.start()
    yield served
    served.stop()


@pytest.fixture
def twin(server: TwinServer) -> SlackTwin:
    return SlackTwin(server, timeout_seconds=SOON_SECONDS)


@pytest.fixture
def alice(twin: SlackTwin) -> Person:
    return twin.user("alice")


@pytest.fixture
def client(twin: SlackTwin) -> WebClient:
    return WebClient(twin.bot_token(), base_url=twin.web_api_url, retry_handlers=[])


def post(client: WebClient, **about: Any) -> str:
    return str(client.chat_postMessage(channel="#general", **about)["ts"])


# People's actions and their visible results.


def test_people_say_change_delete_and_react(twin: SlackTwin, alice: Person) -> None:
    root = alice.says("Look, @bob: #random")
    reply = twin.user("bob").says("I see", thread=root, files={"notes.txt": "all fine"})
    alice.reacts(reply, "eyes")
    assert (root.author, root.text, root.thread_ts) == ("alice", "Look, @bob: #random", None)
    assert [(one.text, one.files[0]["name"], one.thread_ts) for one in root.replies()] == [
        ("I see", "notes.txt", root.ts)
    ]
    assert reply.reactions() == {"eyes": ["alice"]}
    alice.unreacts(reply, "eyes")
    assert reply.reactions() == {}
    assert alice.edits(root, "Look").is_edited
    twin.user("bob").deletes(reply)
    with pytest.raises(LookupError, match="is gone: 'I see'"):
        reply.current()
    assert [one.text for one in twin.messages()] == ["Look"]


def test_what_is_added_is_there(twin: SlackTwin, client: WebClient) -> None:
    dora = twin.add_user("dora", real_name="Dora Diaz")
    secret = twin.add_channel("secret", members=["dora", "app"], is_private=True)
    said = dora.says("hello", channel="secret")
    assert (said.channel, twin.channel_id("#secret")) == (secret, secret)
    with pytest.raises(Refused, match="alice is not a member of secret"):
        twin.user("alice").says("me too", channel="secret")
    with pytest.raises(SlackApiError, match="channel_not_found"):
        client.conversations_info(channel=twin.add_channel("people", is_private=True))


def test_an_app_that_is_added_has_its_own_tokens_and_scopes(twin: SlackTwin) -> None:
    quiet = twin.add_app("quiet", scopes=["users:read"], request_url="http://127.0.0.1:9/")
    own = WebClient(quiet.bot_token, base_url=twin.web_api_url)
    assert own.auth_test()["user_id"] == quiet.bot_user
    with pytest.raises(SlackApiError, match="missing_scope"):
        own.chat_postMessage(channel="#general", text="hello")
    assert quiet.request_url == "http://127.0.0.1:9/"
    assert quiet.bot_token not in repr(quiet)
    assert twin.environment("quiet")["SLACK_SIGNING_SECRET"] == quiet.signing_secret != twin.signing_secret()


def test_what_does_not_exist_is_refused_with_what_does(twin: SlackTwin, alice: Person) -> None:
    with pytest.raises(Refused, match=r"no user 'zoe' .*alice, bob, carol"):
        twin.user("zoe")
    with pytest.raises(Refused, match=r"no channel 'nowhere' .*#general, #random"):
        alice.says("hello", channel="nowhere")
    with pytest.raises(Refused, match="no app 'zoe'"):
        twin.bot_token("zoe")
    with pytest.raises(Refused, match=r"no method 'chat.shout' .*chat.postMessage"):
        twin.faults.http_500(method="chat.shout")


# The app's actions.


def test_calls_are_seen_with_how_they_ended(twin: SlackTwin, client: WebClient) -> None:
    post(client, text="hello")
    with pytest.raises(SlackApiError):
        client.chat_postMessage(channel="C0NOWHERE", text="hello")
    done, refused = twin.calls("chat.postMessage")
    assert (done.app, done.ok, done.args["text"], done.status) == ("app", True, "hello", 200)
    assert (refused.ok, refused.error) == (False, "channel_not_found")
    assert twin.calls(ok=False) == [refused]
    assert twin.calls(app="other") == []


def test_what_is_waited_for_wakes_the_test_at_once(
    twin: SlackTwin, client: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes wake waiting calls; polling alone would take a minute here. The message reaches no app."""
    twin.add_channel("secret", is_private=True)
    monkeypatch.setattr(line, "_LOOK_EVERY_SECONDS", 60.0)
    looked = threading.Event()

    def look() -> list[object]:
        found: list[object] = [*twin.messages("secret"), *twin.calls("auth.test")]
        looked.set()
        return found if len(found) == 2 else []

    def act() -> None:
        looked.wait(SOON_SECONDS)
        looked.clear()
        client.auth_test()
        looked.wait(SOON_SECONDS)
        twin.user("bob").says("now", channel="secret")

    acting = threading.Thread(target=act)
    acting.start()
    began = time.monotonic()
    assert len(twin.wait_for(look, what="a message and a call", timeout_seconds=120)) == 2
    assert time.monotonic() - began < 30
    acting.join()


def test_a_message_is_waited_for_until_it_is_finished(twin: SlackTwin, alice: Person, client: WebClient) -> None:
    question = alice.says("Well?")
    begun = client.chat_startStream(
        channel=question.channel, thread_ts=question.ts, recipient_team_id="T0TWIN", recipient_user_id=alice.id
    )
    with pytest.raises(NotInTime):
        question.wait_for_reply(timeout_seconds=0.1)
    client.chat_stopStream(channel=question.channel, ts=begun["ts"], markdown_text="Done.")
    assert question.wait_for_reply(containing="Done").text == "Done."


def test_a_reply_is_the_first_after_the_message(alice: Person, client: WebClient) -> None:
    first = alice.says("one")
    post(client, text="first answer", thread_ts=first.ts)
    second = alice.says("two", thread=first)
    with pytest.raises(NotInTime):
        second.wait_for_reply(timeout_seconds=0.1)
    post(client, text="second answer", thread_ts=first.ts)
    assert second.wait_for_reply().text == "second answer"
    assert first.wait_for_reply().text == "first answer"
    assert first.wait_for_reply(containing="second").thread_ts == first.ts


def test_messages_of_apps_and_their_changes_are_waited_for(twin: SlackTwin, client: WebClient) -> None:
    earlier = post(client, text="working")
    shown = twin.wait_for_message(containing="work")
    client.chat_update(channel=shown.channel, ts=earlier, text="done")
    assert shown.wait_until(lambda message: message.text == "done").is_from_app
    post(client, text="next")
    assert twin.wait_for_message(after=shown).text == "next"
    client.reactions_add(channel=shown.channel, timestamp=earlier, name="tada")
    assert shown.wait_for_reaction("tada", by="app") == ["app"]


def test_a_wait_that_is_in_vain_says_what_happened_instead(alice: Person, client: WebClient) -> None:
    question = alice.says("@app hello")
    with pytest.raises(SlackApiError):
        client.chat_postMessage(channel="C0NOWHERE", text="hello")
    with pytest.raises(NotInTime) as failure:
        question.wait_for_reply(containing="hi", timeout_seconds=0.2)
    said = str(failure.value)
    assert "Waited 0.2 s for an app's reply to '@app hello' containing 'hi'; last seen: None." in said
    assert re.search(r"delivery of app_mention to app \(.*, attempt 0\): no_connection - is the app connected", said)
    assert re.search(r"app called chat.postMessage \{.*C0NOWHERE.*\}: channel_not_found", said)


def test_a_wait_in_a_silent_workspace_says_so(twin: SlackTwin) -> None:
    def the_cows_come_home() -> bool:
        return False

    with pytest.raises(NotInTime, match=r"for the cows come home; .*\nNo app received a delivery"):
        twin.wait_for(the_cows_come_home, timeout_seconds=0.05)


def test_an_error_in_what_is_looked_for_comes_through(twin: SlackTwin) -> None:
    with pytest.raises(ZeroDivisionError):
        twin.wait_for(lambda: 1 / 0)


def test_what_no_app_acknowledges_fails_at_once(twin: SlackTwin, alice: Person, client: WebClient) -> None:
    post(client, text="Go?", blocks=[actions(button("go"))])
    offer = twin.wait_for_message()
    with pytest.raises(NotTaken, match="alice pressed 'go': no_connection"):
        alice.presses(offer, "go")
    with pytest.raises(NotTaken, match="alice ran /app: no_connection"):
        alice.command("/app")
    with pytest.raises(Refused, match="there is no element 'stop'"):
        alice.presses(offer, "stop")


# A real Bolt app in the event loop of the test.


FORM = modal(text_input("name"), callback_id="form")
CITIES = options("berlin", "bern")
MENU = {"type": "external_select", "action_id": "city", "min_query_length": 0}


def desk(client: AsyncWebClient) -> AsyncApp:
    """Returns an app with a button, a command that opens a form, a shortcut, a menu and a home tab."""
    app = AsyncApp(client=client)

    @app.event("app_mention")
    async def offer(event: dict[str, Any], say: Any) -> None:
        offered = actions(button("go"), MENU)
        await say(text=f"Hello <@{event['user']}>", blocks=[offered], thread_ts=event["ts"])

    @app.event("message")
    async def hear() -> None:
        """Acknowledges messages."""

    @app.action("go")
    @app.action("city")
    async def go(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        name = "wave" if body["actions"][0]["action_id"] == "go" else "cityscape"
        await client.reactions_add(channel=body["channel"]["id"], timestamp=body["message"]["ts"], name=name)

    @app.options("city")
    async def cities(ack: Any, body: dict[str, Any]) -> None:
        await ack(options=[city for city in CITIES if body["value"] in str(city["value"])])

    @app.command("/app")
    async def command(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack(f"You said {body['text']}.")
        await client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @app.shortcut("open")
    async def shortcut(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @app.view("form")
    async def submitted(ack: Any, view: dict[str, Any], client: AsyncWebClient) -> None:
        name = view["state"]["values"]["name"]["text"]["value"]
        if name == "nobody":
            await ack(response_action="errors", errors={"name": "Who?"})
            return
        await ack()
        await client.chat_postMessage(channel="#general", text=f"Welcome, {name}")

    @app.event("app_home_opened")
    async def home(event: dict[str, Any], client: AsyncWebClient) -> None:
        shown = {"type": "section", "text": plain("At home")}
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": [shown]})

    return app


@pytest_asyncio.fixture
async def desk_app(twin: SlackTwin) -> AsyncIterator[None]:
    client = AsyncWebClient(twin.bot_token(), base_url=twin.web_api_url)
    handler = AsyncSocketModeHandler(desk(client), twin.app_token())
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await twin.wait_until_connected.aio()
    yield
    await handler.close_async()  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("desk_app")
async def test_buttons_and_menus_of_an_app_in_the_loop_of_the_test(twin: SlackTwin, alice: Person) -> None:
    question = alice.says("@app hello")
    answer = await question.wait_for_reply.aio()
    await question.wait_until_delivered.aio()
    await twin.user("bob").presses.aio(answer, "go")
    assert await answer.wait_for_reaction.aio("wave") == ["app"]
    assert [one["value"] for one in await alice.suggestions.aio(answer, "city", "berl")] == ["berlin"]
    await alice.presses.aio(answer, "city", value="berlin")
    assert await answer.wait_for_reaction.aio("cityscape") == ["app"]
    assert {one.kind for one in twin.deliveries() if one.acked} >= {"app_mention", "message", "block_actions"}


@pytest.mark.usefixtures("desk_app")
async def test_commands_and_forms_of_an_app(twin: SlackTwin, alice: Person) -> None:
    await alice.command.aio("/app", "something")
    told = await alice.wait_for_message.aio(containing="You said something")
    assert told.subtype == "ephemeral"
    assert twin.user("bob").sees() == []
    form = await alice.wait_for_view.aio(callback_id="form")
    assert await alice.submits.aio(form, {"name": "nobody"}) == {"name": "Who?"}
    assert await alice.submits.aio(form, {"name": "Dora"}) == {}
    assert alice.views() == []
    assert (await twin.wait_for_message.aio(containing="Welcome")).text == "Welcome, Dora"


@pytest.mark.usefixtures("desk_app")
async def test_shortcuts_and_the_home_tab_of_an_app(alice: Person) -> None:
    await alice.shortcut.aio("open")
    form = await alice.wait_for_view.aio(title="A form")
    await alice.closes.aio(form)
    assert alice.views() == []
    assert alice.opens_home() is None
    home = await alice.wait_for_home.aio()
    assert (home.kind, home.blocks[0]["text"]["text"]) == ("home", "At home")
    assert alice.home() == home


async def test_a_wait_that_would_stop_the_loop_of_the_test_says_what_to_do(alice: Person) -> None:
    with pytest.raises(RuntimeError, match=r"use `await ….wait_for_reply.aio\(…\)`"):
        alice.says("hello").wait_for_reply()


def test_the_stop_button_and_the_pane_of_the_assistant(alice: Person, client: WebClient) -> None:
    pane = alice.opens_assistant(viewing="general")
    question = alice.says("Well?", thread=pane)
    with pytest.raises(Refused, match="nothing to stop"):
        alice.stops(question)
    client.chat_startStream(channel=pane.channel, thread_ts=pane.ts, markdown_text="It is")
    alice.stops(question)
    assert question.wait_for_reply().text == "It is"


# Faults and time.


FAULTS: dict[FaultKind, dict[str, Any]] = {
    FaultKind.HTTP_429: {"method": "chat.update", "retry_after_seconds": 7},
    FaultKind.HTTP_500: {"method": "chat.update"},
    FaultKind.ERROR: {"code": "is_archived", "method": "chat.update"},
    FaultKind.CUT_AFTER_ACCEPT: {"method": "chat.update"},
    FaultKind.EXPIRE_STREAM: {"method": "chat.appendStream"},
    FaultKind.DELAY: {"seconds": 7, "method": "chat.update"},
    FaultKind.DROP_ACK: {"event": "message"},
    FaultKind.DUPLICATE: {"event": "message"},
    FaultKind.REORDER: {"event": "message", "seconds": 7},
    FaultKind.CLOSE_SOCKET: {"event": "message", "reason": "warning"},
    FaultKind.SILENT_SOCKET: {"event": "message", "seconds": 7},
}


def planned(server: TwinServer, app_id: str, about: dict[str, Any]) -> Fault | None:
    """Returns the fault for the next matching call or event."""
    if "method" in about:
        return server.do(lambda twin: twin.faults.for_call(about["method"], app_id))
    return server.do(lambda twin: twin.faults.for_event((about["event"],), app_id))


@pytest.mark.parametrize("kind", FaultKind)
def test_each_kind_of_fault_can_be_asked_for(server: TwinServer, twin: SlackTwin, kind: FaultKind) -> None:
    about = FAULTS[kind]
    getattr(twin.faults, kind.value)(**about, app="app", times=2)
    met = [planned(server, twin.app().id, about) for _ in range(3)]
    assert [fault.kind if fault else None for fault in met] == [kind, kind, None]
    assert met[0] is not None
    assert met[0].error == about.get("code", about.get("reason"))
    assert met[0].seconds == about.get("seconds", about.get("retry_after_seconds"))


def test_faults_hit_the_calls_of_an_app_until_they_are_cleared(twin: SlackTwin, client: WebClient) -> None:
    twin.faults.error("is_archived", method="chat.postMessage", times=5)
    with pytest.raises(SlackApiError, match="is_archived"):
        post(client, text="hello")
    twin.faults.clear()
    post(client, text="hello")


def test_rate_limits_count(client: WebClient) -> None:
    for _ in range(5):
        post(client, text="hello")
    with pytest.raises(SlackApiError, match="ratelimited"):
        post(client, text="hello")


def test_the_clock_brings_what_time_brings(twin: SlackTwin, alice: Person) -> None:
    before = twin.clock.now()
    said = alice.says("hello?")
    assert twin.wait_for(lambda: len(twin.deliveries()) == 2)
    assert twin.clock.advance(60) >= before + 60
    assert twin.wait_for(lambda: len(twin.deliveries()) == 3)
    twin.clock.advance(300)
    said.wait_until_delivered()
    assert twin.deliveries("message", app="app")[-1].dropped


# The server.


def test_a_fresh_workspace_knows_nothing_of_the_one_before(server: TwinServer, twin: SlackTwin) -> None:
    twin.user("alice").says("hello")
    twin.add_user("dora")
    old = WebClient(twin.bot_token(), base_url=twin.web_api_url)
    old.auth_test()
    server.fresh()
    assert (twin.messages(), twin.calls(), twin.deliveries()) == ([], [], [])
    with pytest.raises(Refused, match="no user 'dora'"):
        twin.user("dora")
    with pytest.raises(SlackApiError, match="invalid_auth"):
        old.auth_test()


async def test_a_fresh_workspace_has_no_connections(server: TwinServer, twin: SlackTwin, desk_app: None) -> None:
    server.fresh()
    with pytest.raises(NotInTime, match="a Socket Mode connection of 'app'"):
        await twin.wait_until_connected.aio(timeout_seconds=0.1)


def test_a_workspace_whose_test_is_over_says_so(server: TwinServer, twin: SlackTwin) -> None:
    server.stop()
    server.stop()
    with pytest.raises(RuntimeError, match="its test has ended"):
        twin.messages()


def test_an_app_is_installed_by_its_manifest_and_posts_by_webhook(twin: SlackTwin) -> None:
    scopes = ["app_mentions:read", "chat:write", "incoming-webhook"]
    manifest = {
        "display_information": {"name": "Deploy Bot"},
        "oauth_config": {"scopes": {"bot": scopes}},
        "settings": {"event_subscriptions": {"bot_events": ["app_mention"]}, "socket_mode_enabled": True},
    }
    app = twin.add_app(manifest=manifest, webhooks=["random"])
    assert app.name == "deploy_bot"
    (url,) = app.webhook_urls
    assert WebhookClient(url).send(text="done").body == "ok"
    assert twin.wait_for_message("random", containing="done").text == "done"
    twin.user("alice").says("@deploy_bot and nobody else")
    twin.wait_for(lambda: twin.deliveries(app="deploy_bot"))
    assert {one.kind for one in twin.deliveries(app="deploy_bot")} == {"app_mention"}
