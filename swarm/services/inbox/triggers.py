"""Describes triggers: the thread's transcript, readable text, names, and the prompt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from swarm.domain.access import Me
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import AuthorKind, ChannelType, ContextState, Standing, Thread, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView, NoticeView, StartedBy, ThreadView, Trigger
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.domain.prompts.input import PromptInput
from swarm.domain.prompts.prompts import render
from swarm.domain.text.mrkdwn import mentioned_ids, preview, readable
from swarm.services.inbox.claimed import ClaimContents, ThreadTranscript
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.notices import Notice

_OF_SLACK: Final = frozenset({NoticeKind.MESSAGE_CHANGED})
"""Notices whose text is Slack's own markup; the text of other notices is plain text of an agent."""


class Triggers:
    """Turns claims and messages read by id into the agent's view."""

    def __init__(self, directory: Directory, me: Me, conduct: OperatingPolicy) -> None:
        self._directory = directory
        self._me = me
        self._conduct = conduct

    async def describe(self, agent: Agent, claims: Sequence[ClaimContents]) -> list[Trigger | BaseException]:
        """Returns the triggers of new claims; in place of a trigger that cannot be described, the exception."""
        described = (self._trigger(agent, claim) for claim in claims)
        return list(await asyncio.gather(*described, return_exceptions=True))

    async def conversation(self, conversation: ThreadTranscript) -> tuple[ThreadView, ThreadTranscript]:
        """Returns the place of a conversation, and the conversation in readable text."""
        names = await self._names(conversation.said)
        said = tuple(_named(message, names) for message in conversation.said)
        answer = conversation.previous_answer
        channel_name = await self._directory.channel_name(conversation.thread.channel)
        place = self._place(conversation.thread, channel_name)
        return place, replace(conversation, said=said, previous_answer=readable(answer, names) if answer else None)

    async def _trigger(self, agent: Agent, whole: ClaimContents) -> Trigger:
        claim = whole.claimed
        place, conversation = await self.conversation(whole.conversation) if whole.conversation else (None, None)
        views = inbox_message_views(conversation) if conversation else ()
        notice = await self._notice(claim.notice, whole) if claim.notice else None
        incomplete = bool(conversation and conversation.thread.context is not ContextState.COMPLETE)
        prompt = PromptInput(
            role=agent.role,
            agent_name=agent.name,
            kind=claim.kind.value,
            lease_token=claim.lease.token,
            attempt=claim.lease.attempt,
            channel_name=place.channel_name if place else "",
            permalink=place.permalink if place else None,
            new_messages=views,
            history=conversation.said if conversation else (),
            history_characters=self._conduct.history_characters,
            context_incomplete=incomplete,
            by_strangers=whole.started_by is StartedBy.STRANGERS,
            previous_reply=conversation.previous_answer if conversation else None,
            notice_text=notice.text if notice else None,
            notice_author=notice.actor_name if notice else None,
            notice_channel=notice.channel if notice else None,
            task=whole.task,
            requester_name=await self._requester_name(whole.task),
        )
        return Trigger(
            id=claim.lease.trigger_id,
            kind=claim.kind,
            created_at=claim.created_at,
            due_at=claim.created_at,
            attempt=claim.lease.attempt,
            lease_token=claim.lease.token,
            lease_expires_at=claim.lease.expires_at,
            prompt=render(prompt, secrets.token_hex(8)),
            thread=place,
            thread_context=conversation.said if conversation else (),
            context_incomplete=incomplete,
            inbox_messages=views,
            notice=notice,
            task=whole.task,
            started_by=whole.started_by,
        )

    async def _notice(self, notice: Notice, whole: ClaimContents) -> NoticeView:
        person = notice.actor if notice.actor and whole.actor is None else None
        names = await self._look_up({person} if person else set(), notice.text or "")
        return NoticeView(
            kind=notice.kind,
            inbox_message_id=notice.inbox_message_id,
            task_id=notice.task_id,
            agent_message_id=notice.agent_message_id,
            channel=whole.channel,
            actor_id=notice.actor,
            actor_name=whole.actor or (names.get(person) if person else None),
            text=readable(notice.text, names) if notice.text and notice.kind in _OF_SLACK else notice.text,
        )

    async def _requester_name(self, task: TaskView | None) -> str | None:
        if task is None or not task.requester:
            return None
        return (await self._look_up({task.requester}, ""))[task.requester]

    async def _names(self, said: Iterable[TranscriptMessage]) -> Mapping[str, str]:
        """Returns the names of all authors and mentioned people; agents' messages have their names already."""
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

    def _place(self, thread: Thread, channel_name: str) -> ThreadView:
        link = f"{self._me.url.rstrip('/')}/archives/{thread.channel}/p{thread.thread_ts.replace('.', '')}"
        return ThreadView(
            id=thread.id,
            team=thread.team,
            channel=thread.channel,
            channel_name=channel_name if thread.channel_type is ChannelType.DM else f"#{channel_name}",
            channel_type=thread.channel_type,
            thread_ts=thread.thread_ts,
            permalink=link,
        )


def inbox_message_views(conversation: ThreadTranscript) -> tuple[InboxMessageView, ...]:
    """Returns the inbox messages of a readable conversation, each with its whole text.

    A deleted message has no text.
    """
    messages = {message.ts: message for message in conversation.said}
    return tuple(_view(entry, messages.get(entry.ts)) for entry in conversation.entries)


def _view(entry: InboxMessage, message: TranscriptMessage | None) -> InboxMessageView:
    text = message.text if message else ""
    return InboxMessageView(
        id=entry.id,
        text=text,
        preview=preview(text),
        user_id=message.author_id if message else "",
        user_name=message.author if message else "",
        kind=message.kind if message else AuthorKind.USER,
        ts=entry.ts,
        received_at=entry.created_at,
        matched_by=entry.matched_by,
        routing_reason=entry.reason,
        status=entry.status,
        files=message.files if message else (),
        standing=message.standing if message else Standing.UNVERIFIED,
        task_id=entry.task_id,
    )


def _named(message: TranscriptMessage, names: Mapping[str, str]) -> TranscriptMessage:
    return replace(message, author=names.get(message.author_id, message.author), text=readable(message.text, names))
