"""Describes triggers: the thread's transcript, readable text, names, and the prompt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from swarm.domain.agents import Agent
from swarm.domain.mrkdwn import preview
from swarm.domain.ports import Directory
from swarm.domain.prompts import NewMessage, PromptInput, PromptMessage, render
from swarm.domain.readable import mentioned_ids, readable
from swarm.domain.routing import Me
from swarm.domain.threads import Thread
from swarm.domain.transcript import AuthorKind, ChannelType, ContextState, Said
from swarm.domain.triggers import EntryView, NoticeView, Place, Trigger, TriggerKind
from swarm.store import inbox, threads, transcript
from swarm.store.database import Database
from swarm.store.inbox import Entry
from swarm.store.leases import Lease
from swarm.store.notices import Notice
from swarm.store.transaction import Transaction


class Claim(Protocol):
    """What is to be described."""

    @property
    def lease(self) -> Lease: ...
    @property
    def entries(self) -> tuple[Entry, ...]: ...
    @property
    def notice(self) -> Notice | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """What the database knows of a thread up to a message, in Slack's own text."""

    thread: Thread
    said: tuple[Said, ...]
    entries: tuple[Entry, ...]
    previous_answer: str | None


class Triggers:
    """Turns what was claimed, or what is read by id, into what an agent sees."""

    def __init__(self, database: Database, directory: Directory, me: Me) -> None:
        self._database = database
        self._directory = directory
        self._me = me

    async def describe(self, agent: Agent, claims: Sequence[Claim]) -> list[Trigger | BaseException]:
        """The triggers of what an agent has just claimed; in place of one that cannot be described, the reason."""
        conversations = await self._database.read(_conversations, claims)
        described = (self._trigger(agent, claim, raw) for claim, raw in zip(claims, conversations, strict=True))
        return list(await asyncio.gather(*described, return_exceptions=True))

    async def conversation(self, conversation: Conversation) -> tuple[Place, Conversation]:
        """The same conversation in readable text, and where it takes place."""
        names = await self._names(conversation.said)
        said = tuple(_named(message, names) for message in conversation.said)
        answer = conversation.previous_answer
        channel_name = await self._directory.channel_name(conversation.thread.channel)
        place = self._place(conversation.thread, channel_name)
        return place, replace(conversation, said=said, previous_answer=readable(answer, names) if answer else None)

    async def _trigger(self, agent: Agent, claim: Claim, raw: Conversation | None) -> Trigger:
        place, conversation = await self.conversation(raw) if raw else (None, None)
        views = entry_views(conversation) if conversation else ()
        notice = await self._notice(claim.notice) if claim.notice else None
        kind = TriggerKind(claim.notice.kind.value) if claim.notice else TriggerKind.SLACK_INBOX_MESSAGE
        incomplete = bool(conversation and conversation.thread.context is not ContextState.COMPLETE)
        created_at = claim.notice.created_at if claim.notice else claim.entries[0].created_at
        prompt = PromptInput(
            role=agent.role,
            agent_name=agent.name,
            kind=kind.value,
            lease_token=claim.lease.token,
            attempt=claim.lease.attempt,
            channel_name=place.channel_name if place else "",
            permalink=place.permalink if place else None,
            new_messages=_new_messages(views, conversation),
            history=_history(conversation),
            context_incomplete=incomplete,
            previous_reply=conversation.previous_answer if conversation else None,
            notice_text=notice.text if notice else None,
        )
        return Trigger(
            id=claim.lease.trigger_id,
            kind=kind,
            created_at=created_at,
            due_at=created_at,
            attempt=claim.lease.attempt,
            lease_token=claim.lease.token,
            lease_expires_at=claim.lease.expires_at,
            prompt=render(prompt, secrets.token_hex(8)),
            place=place,
            thread_context=conversation.said if conversation else (),
            context_incomplete=incomplete,
            inbox_messages=views,
            notice=notice,
        )

    async def _notice(self, notice: Notice) -> NoticeView:
        names = await self._look_up({notice.actor} if notice.actor else set(), notice.text or "")
        return NoticeView(
            kind=notice.kind,
            inbox_message_id=notice.inbox_message_id,
            actor_id=notice.actor,
            actor_name=names.get(notice.actor) if notice.actor else None,
            text=readable(notice.text, names) if notice.text is not None else None,
        )

    async def _names(self, said: Iterable[Said]) -> Mapping[str, str]:
        """Names of everybody who speaks or is mentioned; our own agents bring theirs."""
        wanted: dict[str, AuthorKind] = {}
        for message in said:
            wanted |= dict.fromkeys(mentioned_ids(message.text), AuthorKind.USER)
            if message.kind is not AuthorKind.AGENT and message.author == message.author_id:
                wanted[message.author_id] = message.kind
        return await self._resolve(wanted)

    async def _look_up(self, ids: set[str], text: str) -> Mapping[str, str]:
        return await self._resolve(dict.fromkeys(ids | mentioned_ids(text), AuthorKind.USER))

    async def _resolve(self, wanted: Mapping[str, AuthorKind]) -> Mapping[str, str]:
        names = await asyncio.gather(*(self._directory.author_name(who, kind) for who, kind in wanted.items()))
        return dict(zip(wanted, names, strict=True))

    def _place(self, thread: Thread, channel_name: str) -> Place:
        link = f"{self._me.url.rstrip('/')}/archives/{thread.channel}/p{thread.thread_ts.replace('.', '')}"
        return Place(
            id=thread.id,
            team=thread.team,
            channel=thread.channel,
            channel_name=channel_name if thread.channel_type is ChannelType.DM else f"#{channel_name}",
            channel_type=thread.channel_type,
            thread_ts=thread.thread_ts,
            permalink=link,
        )


def read_conversation(tx: Transaction, entries: Sequence[Entry]) -> Conversation | None:
    """The thread of some entries up to the last of them."""
    if not entries:
        return None
    first, last = entries[0], max(entries, key=lambda entry: entry.ts)
    thread = threads.get(tx, first.thread_id)
    if thread is None:
        return None
    said = transcript.of_thread(tx, thread.team, thread.channel, thread.thread_ts, last.ts)
    answer = transcript.previous_answer(tx, thread.team, thread.channel, thread.thread_ts)
    return Conversation(thread=thread, said=tuple(said), entries=tuple(entries), previous_answer=answer)


def entry_views(conversation: Conversation) -> tuple[EntryView, ...]:
    """The entries of a readable conversation, each with its message whole. A deleted message has no text."""
    messages = {message.ts: message for message in conversation.said}
    return tuple(_view(entry, messages.get(entry.ts)) for entry in conversation.entries)


def _conversations(tx: Transaction, claims: Sequence[Claim]) -> list[Conversation | None]:
    return [read_conversation(tx, claim.entries or _concerned(tx, claim.notice)) for claim in claims]


def _concerned(tx: Transaction, notice: Notice | None) -> tuple[Entry, ...]:
    entry = inbox.get(tx, notice.inbox_message_id) if notice and notice.inbox_message_id else None
    return (entry,) if entry else ()


def _view(entry: Entry, message: Said | None) -> EntryView:
    text = message.text if message else ""
    return EntryView(
        id=entry.id,
        text=text,
        preview=preview(text),
        user_id=message.author_id if message else "",
        user_name=message.author if message else "",
        ts=entry.ts,
        received_at=entry.created_at,
        matched_by=entry.matched_by,
        routing_reason=entry.reason,
        status=entry.status,
        files=message.files if message else (),
    )


def _named(message: Said, names: Mapping[str, str]) -> Said:
    return replace(message, author=names.get(message.author_id, message.author), text=readable(message.text, names))


def _new_messages(views: Sequence[EntryView], conversation: Conversation | None) -> tuple[NewMessage, ...]:
    kinds = {message.ts: message.kind for message in conversation.said} if conversation else {}
    return tuple(
        NewMessage(
            inbox_message_id=view.id,
            author=view.user_name,
            author_id=view.user_id,
            ts=view.ts,
            text=view.text,
            file_names=tuple(file.name for file in view.files),
            matched_by=view.matched_by,
            reason=view.routing_reason,
            kind=kinds.get(view.ts, AuthorKind.USER),
        )
        for view in views
    )


def _history(conversation: Conversation | None) -> tuple[PromptMessage, ...]:
    return tuple(
        PromptMessage(
            ts=message.ts,
            author=message.author,
            author_id=message.author_id,
            kind=message.kind,
            text=message.text,
            edited=message.edited,
            file_names=tuple(file.name for file in message.files),
        )
        for message in (conversation.said if conversation else ())
    )
