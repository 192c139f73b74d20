"""``swarm slack selftest``: the rules about Slack that this project relies on, held against a workspace.

The same calls are made in the workspace and in a new twin, and the answers and the messages read back are compared.
All posts stand in one thread, within Slack's limits, and are deleted at the end, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.seed import DEFAULT
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.domain.errors import ConfigurationError
from swarm.slack.outgoing.pacing import Pacing
from swarm_lab.conformance.selftest_rules import RULES, Call

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

_COMPARED: Final = ("text", "blocks", "attachments", "metadata", "subtype")
_OF_ONE_WORKSPACE: Final = frozenset({"block_id", "id", "ts", "user", "bot_id", "app_id", "team"})


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

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.pacing.acquire_slot(method, self.channel)
        try:
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

    async def play(self, calls: tuple[Call, ...]) -> dict[str, Any]:
        """Makes a rule's calls. Returns their errors and the message as it is read back."""
        ts, answers = "", []
        for method, arguments in calls:
            where = {"thread_ts": self.root} if method in ("chat.postMessage", "chat.startStream") else {}
            if method == "chat.startStream":
                where |= {"recipient_user_id": self.me["reader"], "recipient_team_id": self.me["team"]}
            answer = await self.call(method, {**where, **self._filled(arguments, ts)})
            if answer["ok"] and where:
                ts = str(answer["ts"])
                self.posted.append(ts)
            answers.append("ok" if answer["ok"] else str(answer["error"]))
        return {"answers": answers, "message": await self._read(ts) if ts else None}

    def _filled(self, arguments: Mapping[str, Any], ts: str) -> dict[str, Any]:
        text = orjson.dumps(arguments).decode()
        for name, value in (("$ts", ts), ("$me", self.me["user"]), ("$here", self.channel)):
            text = text.replace(name, value)
        filled: dict[str, Any] = orjson.loads(text)
        return filled

    async def _read(self, ts: str) -> object:
        await self.pacing.acquire_slot("conversations.replies", self.channel)
        found = await self.client.conversations_replies(
            channel=self.channel, ts=self.root, oldest=ts, latest=ts, inclusive=True, include_all_metadata=True
        )
        message = next((one for one in found["messages"] if one["ts"] == ts), None)
        if message is None:
            return None
        text = orjson.dumps({key: message[key] for key in _COMPARED if message.get(key)}).decode()
        for name, value in (("$me", self.me["user"]), ("$here", self.channel)):
            text = text.replace(value, name)
        return _anywhere(orjson.loads(text))

    async def clean_up(self) -> int:
        """Deletes what was posted, the root last. Returns how many messages are left."""
        left = 0
        for ts in reversed(self.posted):
            answer = await self.call("chat.delete", {"ts": ts})
            left += not answer["ok"] and answer["error"] != "message_not_found"
        return left


def _anywhere(value: object) -> object:
    """Returns a value without what differs between any two workspaces."""
    if isinstance(value, dict):
        return {key: _anywhere(one) for key, one in value.items() if key not in _OF_ONE_WORKSPACE}
    return [_anywhere(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class Selftest:
    """The outcome: what was found, and how many of the posts could not be deleted."""

    findings: list[Finding]
    left: int

    def report(self, made_at: str, versions: Mapping[str, str]) -> bytes:
        """Returns a report as JSON. It has no text of people, no tokens and no ids."""
        differing = [{"rule": one.rule, "slack": one.slack, "twin": one.twin} for one in self.findings if one.differs]
        body = {
            "made_at": made_at,
            "versions": versions,
            "differs": differing,
            "not_tried": {one.rule: one.not_tried for one in self.findings if one.not_tried},
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
) -> Selftest:
    """Tries the rules in a private channel, by name or id. Raises ConfigurationError."""
    client = AsyncWebClient(
        token, base_url=base_url, retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=3)]
    )
    pacing = Pacing(enforced=pace)
    findings: list[Finding] = []
    try:
        me = await _identity(client)
        there = _Place(client=client, channel=await _channel(client, channel, pacing), me=me, pacing=pacing)
    except SlackApiError as error:
        raise ConfigurationError(f"Slack refuses the token: {error.response['error']}.") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConfigurationError(f"{base_url} cannot be reached: {error}") from error
    async with _twin_place() as twin:
        try:
            await there.begin()
            for rule, calls in rules.items():
                slack = await there.play(calls)
                findings.append(Finding(rule=rule, slack=slack, twin=await twin.play(calls)))
                told(findings[-1])
        finally:
            left = await asyncio.shield(asyncio.ensure_future(there.clean_up()))
    return Selftest(findings=findings, left=left)


@contextlib.asynccontextmanager
async def _twin_place() -> AsyncIterator[_Place]:
    async with running(build_twin(rates=False)) as url:
        client = AsyncWebClient(DEFAULT.apps[0].bot_token, base_url=f"{url}api/")
        pacing = Pacing(enforced=False)
        channel = await _channel(client, f"#{DEFAULT.channels[0].name}", pacing, must_be_private=False)
        place = _Place(client=client, channel=channel, me=await _identity(client), pacing=pacing)
        await place.begin()
        yield place


async def _identity(client: AsyncWebClient) -> dict[str, str]:
    """Returns the app's user and team, and a person who can be the reader of a stream."""
    me = await client.auth_test()
    people = (await client.users_list(limit=200))["members"]
    reader = next((one["id"] for one in people if not one.get("is_bot") and one["id"] != "USLACKBOT"), me["user_id"])
    return {"user": me["user_id"], "team": me["team_id"], "reader": reader}


async def _channel(client: AsyncWebClient, named: str, pacing: Pacing, *, must_be_private: bool = True) -> str:
    cursor = ""
    while True:
        await pacing.acquire_slot("users.conversations")
        page = await client.users_conversations(types="public_channel,private_channel", limit=200, cursor=cursor)
        for one in page["channels"]:
            if named in (one["id"], f"#{one['name']}", one["name"]):
                if must_be_private and not one.get("is_private"):
                    raise ConfigurationError(
                        f"{named} is public, and the selftest posts some fifty messages: name a private channel."
                    )
                return str(one["id"])
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            raise ConfigurationError(f"The app is in no channel {named}: create a private one and invite it (/invite).")
