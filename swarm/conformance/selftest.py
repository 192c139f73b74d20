"""``swarm slack selftest``: the rules about Slack that this project relies on, held against a workspace.

The same calls are made in the workspace and in a new twin, and the answers, the messages read back and their events are
compared. All posts stand in one thread, within Slack's limits, and are deleted at the end, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final

import aiohttp
import orjson
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.changes import Change
from slack_twin.events import events_for
from slack_twin.seed import DEFAULT, SeedChannel
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.conformance.selftest_events import (
    COMPARED,
    Difference,
    Heard,
    comparable,
    differences,
    is_shared,
    listening,
    message_of,
)
from swarm.conformance.selftest_rules import ONLY_PEOPLE, RULES, UPLOAD, Call
from swarm.domain.errors import ConfigurationError
from swarm.slack.manifest import EVENT_SCOPES
from swarm.slack.outgoing.pacing import Pacing

ROOT_TEXT: Final = "A selftest of swarm writes into this thread and deletes what it has written."

_NOT_HERE: Final = frozenset(
    {
        "access_denied",
        "feature_not_enabled",
        "method_deprecated",
        "missing_scope",
        "not_allowed_token_type",
        "unknown_method",
    }
)
"""Refusals that say nothing about a rule, but about the app or the workspace."""

STOPPED: Final = "stopped by Ctrl-C"
NO_EVENTS: Final = "no event about the app's own posts came: it needs Socket Mode and the event message.groups"
_NOT_ALONE: Final = "another connection of the app was opened meanwhile and took some"
_IN_TWIN: Final = replace(
    DEFAULT,
    apps=(replace(DEFAULT.apps[0], events=tuple(EVENT_SCOPES)),),
    channels=(SeedChannel(name="private", is_private=True, members=("alice", "swarm")),),
)
_SHARING_SECONDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What became of one rule: a list of errors ("ok" without one) and the message, each in both workspaces."""

    rule: str
    slack: Mapping[str, Any]
    twin: Mapping[str, Any]

    @property
    def not_tried(self) -> str:
        """The reason why the rule could not be tried; empty if it was."""
        return next((error for error in self.slack["answers"] if error in _NOT_HERE), "")

    @property
    def differs(self) -> bool:
        """Whether Slack and the twin differ."""
        return not self.not_tried and self.slack != self.twin


@dataclass(kw_only=True)
class _Place:
    """A thread that is written into, and everything that was posted."""

    client: AsyncWebClient
    channel: str
    me: Mapping[str, str]
    pacing: Pacing
    root: str = ""
    posted: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    by_rule: dict[str, list[str]] = field(default_factory=dict)
    sending: asyncio.Future[Any] | None = None

    def is_own(self, event: Mapping[str, Any]) -> bool:
        """Returns whether an event is about what the app does in the channel."""
        about = message_of(dict(event))
        place = event.get("channel") or event.get("channel_id") or (event.get("item") or {}).get("channel")
        return place == self.channel and self.me["user"] in (about.get("user"), about.get("user_id"))

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Makes a call, which Ctrl-C does not cut off: nobody would know what was posted."""
        await self.pacing.acquire_slot(method, self.channel)
        self.sending = asyncio.ensure_future(self._send(method, arguments))
        answer: Mapping[str, Any] = await asyncio.shield(self.sending)
        return answer

    async def _send(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            if method == UPLOAD:
                answer = (
                    await self.client.files_upload_v2(channel=self.channel, thread_ts=self.root, **arguments)
                ).data
                self.files.append(answer["file"]["id"])
            else:
                answer = (await self.client.api_call(method, json={"channel": self.channel, **arguments})).data
        except SlackApiError as refused:
            answer = refused.response.data
        assert isinstance(answer, dict)
        if answer["ok"] and method in ("chat.postMessage", "chat.startStream"):
            self.posted.append(str(answer["ts"]))
        return answer

    async def begin(self) -> None:
        answer = await self.call("chat.postMessage", {"text": ROOT_TEXT})
        if not answer["ok"]:
            raise ConfigurationError(
                f"Slack does not let the app write there: {answer['error']}. Invite it to the channel."
            )
        self.root = str(answer["ts"])

    async def play(self, rule: str, calls: tuple[Call, ...]) -> dict[str, Any]:
        """Makes a rule's calls. Returns their errors and the message as it is read back."""
        ts, answers = "", []
        before = len(self.posted)
        for method, arguments in calls:
            where = {"thread_ts": self.root} if method in ("chat.postMessage", "chat.startStream") else {}
            if method == "chat.startStream":
                where |= {"recipient_user_id": self.me["reader"], "recipient_team_id": self.me["team"]}
            answer = await self.call(method, {**where, **self._filled(arguments, ts)})
            if answer["ok"] and where:
                ts = str(answer["ts"])
            elif answer["ok"] and method == UPLOAD:
                ts = await self._shared()
            answers.append("ok" if answer["ok"] else str(answer["error"]))
        self.by_rule[rule] = self.posted[before:]
        return {"answers": answers, "message": await self._read(ts) if ts else None}

    def _filled(self, arguments: Mapping[str, Any], ts: str) -> dict[str, Any]:
        text = orjson.dumps(arguments).decode()
        for name, value in (("$ts", ts), ("$me", self.me["user"]), ("$here", self.channel)):
            text = text.replace(name, value)
        filled: dict[str, Any] = orjson.loads(text)
        return filled

    async def _thread(self, **which: str) -> list[dict[str, Any]]:
        await self.pacing.acquire_slot("conversations.replies", self.channel)
        found = await self.client.conversations_replies(
            channel=self.channel, ts=self.root, inclusive=True, include_all_metadata=True, limit=200, **which
        )
        messages: list[dict[str, Any]] = found["messages"]
        return messages

    async def _shared(self) -> str:
        """Returns the timestamp of the message with the last file, which Slack posts a little later."""
        for _ in range(_SHARING_SECONDS):
            for message in await self._thread():
                if self.files[-1] in [one["id"] for one in message.get("files", ())]:
                    self.posted.append(str(message["ts"]))
                    return self.posted[-1]
            await asyncio.sleep(1)
        return ""

    async def _read(self, ts: str) -> object:
        found = await self._thread(oldest=ts, latest=ts)
        message = next((one for one in found if one["ts"] == ts), {})
        read = {key: message[key] for key in (*COMPARED, "files") if message.get(key)}
        return comparable(self.nameless(read)) if message else None

    def nameless(self, value: Any) -> Any:
        """Returns a value in which the app and the channel have the same names in every workspace."""
        text = orjson.dumps(value).decode()
        for name, known in (("$me", self.me["user"]), ("$here", self.channel)):
            text = text.replace(known, name)
        return orjson.loads(text)

    async def clean_up(self) -> int:
        """Deletes what was posted, the root last. Returns how many messages and files are left."""
        if self.sending:
            await asyncio.wait({self.sending})
        with contextlib.suppress(SlackApiError, aiohttp.ClientError, TimeoutError):  # also posts whose answer was lost
            own = [
                one["ts"] for one in (await self._thread() if self.root else []) if one.get("user") == self.me["user"]
            ]
            self.posted += [ts for ts in own if ts not in self.posted]
        calls = [("chat.delete", {"ts": ts}) for ts in reversed(self.posted)]
        return sum(
            [await self._is_left(*call) for call in [*(("files.delete", {"file": one}) for one in self.files), *calls]]
        )

    async def _is_left(self, method: str, arguments: Mapping[str, str]) -> bool:
        try:
            answer = await self.call(method, arguments)
        except (aiohttp.ClientError, TimeoutError):
            return True
        return not answer["ok"] and answer["error"] not in ("message_not_found", "file_not_found", "file_deleted")


@dataclass(kw_only=True)
class Selftest:
    """The outcome: what was found, in messages read back and in events, and how many posts could not be deleted."""

    findings: list[Finding] = field(default_factory=list)
    events: list[Difference] = field(default_factory=list)
    events_not_tried: str = ""
    others_events: int = 0  # left to Slack, which sends them again
    left: int = 0
    stopped: bool = False

    @property
    def differs(self) -> bool:
        """Whether Slack and the twin differ anywhere."""
        return bool(self.events) or any(one.differs for one in self.findings)

    def not_tried(self, rules: Mapping[str, object]) -> dict[str, str]:
        """Returns what was not tried, and why."""
        found = {one.rule: one.not_tried for one in self.findings if one.not_tried}
        missed = dict.fromkeys(list(rules)[len(self.findings) :], STOPPED)
        return found | missed | ({"events": self.events_not_tried} if self.events_not_tried else {}) | ONLY_PEOPLE

    def report(self, made_at: str, versions: Mapping[str, str], rules: Mapping[str, object] = RULES) -> bytes:
        """Returns a report as JSON. It has no text of people, no tokens and no ids."""
        differing = [{"rule": one.rule, "slack": one.slack, "twin": one.twin} for one in self.findings if one.differs]
        body = {
            "made_at": made_at,
            "versions": versions,
            "differs": differing,
            "events_differ": self.events,
            "not_tried": self.not_tried(rules),
            "same": [one.rule for one in self.findings if not one.differs and not one.not_tried],
        }
        return orjson.dumps(body, option=orjson.OPT_INDENT_2)


async def selftest(
    token: str,
    base_url: str,
    channel: str,
    *,
    pace: bool,
    told: Callable[[Finding], None],
    app_token: str | None = None,
    rules: Mapping[str, tuple[Call, ...]] = RULES,
    patience_seconds: float = 10.0,
) -> Selftest:
    """Tries the rules in a private channel, by name or id. Raises ConfigurationError.

    With ``app_token``, waits at the end up to ``patience_seconds`` for each missing event. When cancelled, deletes the
    posts and returns what was found until then.
    """
    client = AsyncWebClient(
        token, base_url=base_url, retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=3)]
    )
    pacing = Pacing(enforced=pace)
    done = Selftest()
    try:
        me = await _identity(client)
        there = _Place(client=client, channel=await _channel(client, channel, pacing), me=me, pacing=pacing)
        async with _twin_place() as (twin, meant), listening(client, app_token, there.is_own) as heard:
            try:
                await _try_rules(rules, there, twin, done, told)
            finally:
                done.left = await _to_its_end(there.clean_up())
            await twin.clean_up()
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError
            done.others_events = len(heard.others)
            await _compare_events((there, heard), (twin, meant), done, app_token or "", patience_seconds)
    except SlackApiError as error:
        raise ConfigurationError(f"Slack refuses {_method(error)}: {error.response['error']}.") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConfigurationError(f"{base_url} cannot be reached: {error}") from error
    except asyncio.CancelledError:
        done.stopped, done.events, done.events_not_tried = True, [], STOPPED
    return done


async def _to_its_end(deleting: Coroutine[object, object, int]) -> int:
    """Returns a result that being cancelled does not prevent; then raises CancelledError at the next chance."""
    task = asyncio.ensure_future(deleting)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


def _method(error: SlackApiError) -> str:
    return (
        "the token"
        if error.response["error"] in ("invalid_auth", "not_authed")
        else error.response.api_url.split("/")[-1]
    )


async def _try_rules(
    rules: Mapping[str, tuple[Call, ...]],
    there: _Place,
    twin: _Place,
    done: Selftest,
    told: Callable[[Finding], None],
) -> None:
    await there.begin()
    for rule, calls in rules.items():
        slack = await there.play(rule, calls)
        done.findings.append(Finding(rule=rule, slack=slack, twin=await twin.play(rule, calls)))
        told(done.findings[-1])


async def _compare_events(
    slack: tuple[_Place, Heard], twin: tuple[_Place, Heard], done: Selftest, app_token: str, patience_seconds: float
) -> None:
    """Waits for the events about each rule's messages and compares them with the twin's."""
    (there, heard), (here, meant) = slack, twin
    pairs = [
        (one.rule, *pair)
        for one in done.findings
        if not one.not_tried
        for pair in zip_longest(there.by_rule[one.rule], here.by_rule[one.rule], fillvalue="")
    ]
    expected = {ts: len(meant.about(twin_ts)) for _, ts, twin_ts in pairs}
    complete = await heard.until(expected, patience_seconds)
    if not complete and not heard.not_tried:
        shared = await is_shared(there.client, app_token)
        heard.not_tried = _NOT_ALONE if shared else "" if heard.events else NO_EVENTS
    done.events_not_tried = heard.not_tried
    found: dict[str, Difference] = {}
    for rule, ts, twin_ts in pairs if not heard.not_tried else ():
        events = [there.nameless(heard.about(ts)), here.nameless(meant.about(twin_ts))]
        for where, one, other in differences(*events):
            key = repr((where, one, other))
            found.setdefault(key, Difference(where=where, slack=one, twin=other)).rules.append(rule)
    done.events = list(found.values())


@contextlib.asynccontextmanager
async def _twin_place() -> AsyncIterator[tuple[_Place, Heard]]:
    """Yields a place in a new twin, and the events that the twin means to send."""
    twin, meant = build_twin(seed=_IN_TWIN, rates=False), Heard()
    async with running(twin) as url:
        client = AsyncWebClient(DEFAULT.apps[0].bot_token, base_url=f"{url}api/")
        pacing = Pacing(enforced=False)
        channel = await _channel(client, "#private", pacing)
        place = _Place(client=client, channel=channel, me=await _identity(client), pacing=pacing)
        (app,) = twin.workspace.directory.apps.values()

        def on_change(change: Change) -> None:
            events = events_for(app, change, twin.workspace.directory, base_url=url, now=0, own=True)
            meant.events.update({one.id: one.body for one in events})

        twin.workspace.listeners.append(on_change)
        await place.begin()
        yield place, meant


async def _identity(client: AsyncWebClient) -> dict[str, str]:
    """Returns the app's user and team, and a person who can be the reader of a stream."""
    me = await client.auth_test()
    people = (await client.users_list(limit=200))["members"]
    reader = next((one["id"] for one in people if not one.get("is_bot") and one["id"] != "USLACKBOT"), me["user_id"])
    return {"user": me["user_id"], "team": me["team_id"], "reader": reader}


async def _channel(client: AsyncWebClient, named: str, pacing: Pacing) -> str:
    cursor = ""
    while True:
        await pacing.acquire_slot("users.conversations")
        page = await client.users_conversations(types="public_channel,private_channel", limit=200, cursor=cursor)
        for one in page["channels"]:
            if named in (one["id"], f"#{one['name']}", one["name"]):
                if not one.get("is_private"):
                    raise ConfigurationError(
                        f"{named} is public, and the selftest posts some fifty messages: name a private channel."
                    )
                return str(one["id"])
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            raise ConfigurationError(f"The app is in no channel {named}: create a private one and invite it (/invite).")
