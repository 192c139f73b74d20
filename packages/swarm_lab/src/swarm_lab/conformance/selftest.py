"""``swarm slack selftest``: the rules about Slack that this project relies on, held against a workspace.

The same calls are made in the workspace and in a new twin, and the answers, the messages read back and their events are
compared. All posts stand in one thread, within Slack's limits, and are deleted at the end, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
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

from swarm.domain.errors import ConfigurationError
from swarm.slack.manifest import EVENT_SCOPES
from swarm.slack.outgoing.pacing import Pacing
from swarm_lab.conformance.selftest_events import Heard, is_shared, listening, message_of
from swarm_lab.conformance.selftest_rules import ONLY_PEOPLE, RULES, UPLOAD, Call

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

STOPPED: Final = "stopped"
NO_EVENTS: Final = "none came about the app's own posts; it needs Socket Mode and the event message.groups"
NOT_ALONE: Final = "another connection of the app was opened meanwhile"
_TAKEN: Final = "Takes the app's events until the end. Those of others are left to Slack, which sends them again."
_IN_TWIN: Final = replace(
    DEFAULT,
    apps=(replace(DEFAULT.apps[0], events=tuple(EVENT_SCOPES)),),
    channels=(SeedChannel(name="private", is_private=True, members=("alice", "swarm")),),
)
_COMPARED: Final = ("text", "blocks", "attachments", "metadata", "subtype", "type", "channel_type")
"""What is compared by its value; other fields are compared by their kinds."""
_OF_ONE_WORKSPACE: Final = frozenset({"block_id", "id", "ts", "user", "bot_id", "app_id", "team"})


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What became of one rule in both workspaces: the errors ("ok" without one), the message and its events."""

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
    heard: Heard = field(default_factory=Heard)
    root: str = ""
    posted: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.pacing.acquire_slot(method, self.channel)
        try:
            if method == UPLOAD:
                answer = (await self.client.files_upload_v2(channel=self.channel, **arguments)).data
            else:
                answer = (await self.client.api_call(method, json={"channel": self.channel, **arguments})).data
        except SlackApiError as refused:
            answer = refused.response.data
        assert isinstance(answer, dict)
        return answer

    async def begin(self) -> None:
        answer = await self.call("chat.postMessage", {"text": ROOT_TEXT})
        if not answer["ok"]:
            raise ConfigurationError(
                f"Slack does not let the app write there: {answer['error']}. Invite it to the channel."
            )
        self.root = str(answer["ts"])
        self.posted.append(self.root)
        if not await self.heard.about(self.root, 1):
            self.heard.not_tried = self.heard.not_tried or NO_EVENTS

    async def play(self, calls: tuple[Call, ...], events: int = 0) -> dict[str, Any]:
        """Makes a rule's calls. Returns their errors, the message as it is read back, and its events."""
        ts, answers = "", []
        for method, arguments in calls:
            where = {"thread_ts": self.root} if method in ("chat.postMessage", "chat.startStream", UPLOAD) else {}
            if method == "chat.startStream":
                where |= {"recipient_user_id": self.me["reader"], "recipient_team_id": self.me["team"]}
            answer = await self.call(method, {**where, **self._filled(arguments, ts)})
            if answer["ok"] and where:
                ts = await self._shared(answer["file"]["id"]) if method == UPLOAD else str(answer["ts"])
                self.posted.append(ts)
            answers.append("ok" if answer["ok"] else str(answer["error"]))
        message = next((one for one in (await self._thread() if ts else ()) if one["ts"] == ts), {})
        read = {key: message[key] for key in (*_COMPARED, "files") if message.get(key)}
        heard = await self.heard.about(ts, events)
        return {"answers": answers, "message": self._comparable(read), "events": self._comparable(heard)}

    def _filled(self, arguments: Mapping[str, Any], ts: str) -> dict[str, Any]:
        text = orjson.dumps(arguments).decode()
        for name, value in (("$ts", ts), ("$me", self.me["user"]), ("$here", self.channel)):
            text = text.replace(name, value)
        filled: dict[str, Any] = orjson.loads(text)
        return filled

    async def _thread(self) -> list[dict[str, Any]]:
        await self.pacing.acquire_slot("conversations.replies", self.channel)
        found = await self.client.conversations_replies(
            channel=self.channel, ts=self.root, include_all_metadata=True, limit=200
        )
        return list(found["messages"])

    async def _shared(self, file: str) -> str:
        """Returns the timestamp of the message with a file, which Slack posts a little later than it answers."""
        self.files.append(file)
        for _ in range(5):
            if (last := (await self._thread())[-1]).get("files"):
                return str(last["ts"])
            await asyncio.sleep(1)
        return ""

    def _comparable(self, value: object) -> object:
        text = orjson.dumps(value).decode()
        text = text.replace(self.me["user"], "$me").replace(self.channel, "$here")
        return _anywhere(orjson.loads(text))

    def is_own(self, event: Mapping[str, Any]) -> bool:
        """Returns whether an event is about what the app does in the channel."""
        place = event.get("channel") or event.get("channel_id") or (event.get("item") or {}).get("channel")
        about = message_of(dict(event))
        return place == self.channel and self.me["user"] in (about.get("user"), about.get("user_id"))

    async def clean_up(self) -> int:
        """Deletes what was posted, the root last, also posts whose answer was lost. Returns how much is left."""
        with contextlib.suppress(SlackApiError, aiohttp.ClientError, TimeoutError):
            found = [one["ts"] for one in await self._thread() if one.get("user") == self.me["user"]]
            self.posted += [ts for ts in found if ts not in self.posted]
        left, calls = 0, [("files.delete", {"file": file}) for file in self.files]
        for method, arguments in [*calls, *(("chat.delete", {"ts": ts}) for ts in reversed(self.posted))]:
            try:
                left += (await self.call(method, arguments)).get("error", "message_not_found") != "message_not_found"
            except (aiohttp.ClientError, TimeoutError):
                left += 1
        return left


def _anywhere(value: object, *, is_kept: bool = False) -> object:
    """Returns a value without what differs between any two workspaces: other fields than these show their kind."""
    if isinstance(value, dict):
        found = {key: one for key, one in value.items() if not (is_kept and key in _OF_ONE_WORKSPACE)}
        return {key: _anywhere(one, is_kept=is_kept or key in _COMPARED) for key, one in found.items()}
    if isinstance(value, list):
        return [_anywhere(one, is_kept=is_kept) for one in value]
    return value if is_kept or isinstance(value, bool | None) else type(value).__name__


@dataclass(frozen=True, kw_only=True)
class Selftest:
    """The outcome: what was found, and how many of the posts could not be deleted."""

    findings: list[Finding]
    left: int
    heard: Heard

    def not_tried(self, rules: Mapping[str, object]) -> dict[str, str]:
        """Returns what was not tried, and why."""
        found = {one.rule: one.not_tried for one in self.findings if one.not_tried}
        found |= dict.fromkeys(list(rules)[len(self.findings) :], STOPPED)
        return found | ({"events": self.heard.not_tried} if self.heard.not_tried else {}) | ONLY_PEOPLE

    def report(self, made_at: str, versions: Mapping[str, str]) -> bytes:
        """Returns a report as JSON. It has no text of people, no tokens and no ids."""
        differing = [{"rule": one.rule, "slack": one.slack, "twin": one.twin} for one in self.findings if one.differs]
        body = {
            "made_at": made_at,
            "versions": versions,
            "differs": differing,
            "not_tried": self.not_tried(RULES),
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
    rules: Mapping[str, tuple[Call, ...]] = RULES,
    app_token: str | None = None,
    noted: Callable[[str], None] = lambda note: None,
    stop: asyncio.Event | None = None,
    patience_seconds: float = 5.0,
) -> Selftest:
    """Tries the rules in a private channel, by name or id, until ``stop`` is set. Raises ConfigurationError.

    With ``app_token``, waits up to ``patience_seconds`` for the events of each rule.
    """
    client = AsyncWebClient(
        token, base_url=base_url, retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=3)]
    )
    findings: list[Finding] = []
    try:
        there = await _place(client, channel, Pacing(enforced=pace))
        there.heard.patience_seconds = patience_seconds
        async with _twin_place() as twin, listening(client, app_token, there.is_own, there.heard):
            try:
                await there.begin()
                noted(f"Events are not tried: {there.heard.not_tried}." if there.heard.not_tried else _TAKEN)
                for rule, calls in rules.items():
                    if stop and stop.is_set():
                        break
                    meant = await twin.play(calls)
                    slack = await there.play(calls, len(meant["events"]))
                    if len(slack["events"]) < len(meant["events"]) and not there.heard.not_tried:
                        there.heard.not_tried = NOT_ALONE if await is_shared(client, app_token or "") else ""
                    if there.heard.not_tried:
                        slack["events"] = meant["events"] = None
                    findings.append(Finding(rule=rule, slack=slack, twin=meant))
                    told(findings[-1])
            finally:
                left = await asyncio.shield(asyncio.ensure_future(there.clean_up()))
    except SlackApiError as error:
        raise ConfigurationError(f"Slack refuses a call of the selftest: {error.response['error']}.") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConfigurationError(f"{base_url} cannot be reached: {error}") from error
    return Selftest(findings=findings, left=left, heard=there.heard)


async def _place(client: AsyncWebClient, channel: str, pacing: Pacing) -> _Place:
    me = await _identity(client)
    return _Place(client=client, channel=await _channel(client, channel, pacing), me=me, pacing=pacing)


@contextlib.asynccontextmanager
async def _twin_place() -> AsyncIterator[_Place]:
    """Yields a place in a new twin. It has heard every event that the twin sends an app with our manifest."""
    twin = build_twin(seed=_IN_TWIN, rates=False)
    async with running(twin) as url:
        client = AsyncWebClient(DEFAULT.apps[0].bot_token, base_url=f"{url}api/")
        place = await _place(client, "#private", Pacing(enforced=False))
        (app,) = twin.workspace.directory.apps.values()

        def on_change(change: Change) -> None:
            events = events_for(app, change, twin.workspace.directory, base_url=url, now=0, own=True)
            place.heard.events.update({one.id: one.body for one in events})

        twin.workspace.listeners.append(on_change)
        await place.begin()
        yield place


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
