"""Uploads a file into a thread, once.

Who may act: a run with a valid lease, both when the upload begins and when the file is shared. What is guaranteed:
transferring the content to Slack is invisible and may be repeated; sharing happens once per call, despite repetitions
and crashes. Once the stage is `Sharing`, this call's file is not shared again until Slack has been asked for the file
and the call in doubt can no longer arrive. What happens on failure: a call that Slack certainly did not execute is
dropped and may be repeated; a call in doubt stays in doubt until its repetition, which searches for the file first.

The stage of an upload is stored under the idempotency key of its call. Its changes are the steps of
`swarm.domain.model.files`, each in its own transaction. Every change holds the thread's lock, so only one of two equal
calls shares the file.
"""

from __future__ import annotations

import asyncio
import hashlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import asdict, dataclass, replace
from typing import Final, assert_never

import orjson
import structlog

from swarm.clock import SECOND
from swarm.domain.errors import Conflict, Invalid, OutcomeUnknown, RateLimited, SwarmError, TooLarge
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.files import (
    INLINE_BYTES,
    SHARE_DOUBT_SECONDS,
    Counted,
    NewFile,
    Share,
    Shared,
    Sharing,
    Stage,
    new_file,
)
from swarm.domain.model.threads import Author, AuthorKind, File, SlackMessage, Thread
from swarm.domain.ports import SlackFiles
from swarm.domain.text.slack_text import safe
from swarm.services.ground.idempotency import Caller, IdempotentCall
from swarm.services.speaking.silence import check_may_show
from swarm.services.work.fencing import ThreadReference, authorize_message, authorize_task
from swarm.store import history, idempotency_keys, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads, transcript
from swarm_base.secrets import SecretSearch, without_secrets

_TOOL: Final = "slack-upload-file"
_STAGES: Final = {"sharing": Sharing, "shared": Shared}
_NOTHING: Final = "null"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Upload:
    """One upload call: caller, thread and file."""

    caller: Caller
    about: ThreadReference
    file: NewFile


@dataclass(frozen=True, kw_only=True, slots=True)
class _UploadClaim:
    """A call in progress. ``ours``: only this run may share the file now."""

    key: str
    thread: Thread
    sharing: Sharing
    ours: bool
    is_repeat: bool  # the file may already be in the thread


def _settle(tx: Transaction, upload: _Upload, claim: _UploadClaim, ts: str | None) -> Shared:
    """Stores the result of the call, and adds the message to the transcript. If its ``ts`` is unknown, the thread
    becomes stale.
    """
    threads.locked(tx, claim.thread.id)
    stage = _stage(tx, claim.key)
    if isinstance(stage, Shared):
        return stage
    agent, sharing = upload.caller.agent, claim.sharing
    if ts is None:
        threads.doubt(tx, claim.thread.id)
    else:
        author = Author(id=agent.id, kind=AuthorKind.AGENT, name=agent.name)
        transcript.store_own_post(tx, claim.thread.team, _message(claim.thread, sharing, ts, author))
    threads.touch(tx, [claim.thread.id])
    shared = Shared(file_id=sharing.file_id, name=sharing.name, size_bytes=sharing.size_bytes, ts=ts)
    _save(tx, claim.key, shared)
    history.record(tx, "file.confirm", shared.file_id, thread_id=claim.thread.id, agent_id=agent.id)
    return shared


def _begin(tx: Transaction, upload: _Upload, key: str, thread: Thread, file_id: str) -> _UploadClaim:
    file = upload.file
    sharing = Sharing(
        file_id=file_id,
        name=file.name,
        size_bytes=file.size_bytes,
        title=without_secrets(file.title or file.name),
        comment=safe(file.comment) if file.comment else None,
        until=_doubt_ends(tx),
    )
    idempotency_keys.record(tx, key)
    _save(tx, key, sharing)
    _record(tx, "file.share", upload, thread, file_id, f"{file.name}, {file.size_bytes} bytes")
    return _UploadClaim(key=key, thread=thread, sharing=sharing, ours=True, is_repeat=False)


def _held(tx: Transaction, upload: _Upload) -> Thread:
    """Locks and returns the thread for a run that may act in it."""
    caller, about = upload.caller, upload.about
    if about.inbox_message_id is not None:
        thread: Thread | None = authorize_message(tx, caller.agent, about.inbox_message_id, caller.lease_token).thread
    elif about.task_id is not None:
        thread = authorize_task(tx, caller.agent, about.task_id, caller.lease_token).thread
    else:
        raise Invalid(
            "A file can only be uploaded for a message or a task.",
            fields={"inbox_message_id": "this or task_id", "task_id": "this or inbox_message_id"},
        )
    if thread is None:
        raise Invalid("This task has no thread in Slack.", fields={"task_id": "a task with a thread"})
    check_may_show(thread, "a file cannot be the first thing that people see")
    root = transcript.find(tx, thread.team, thread.channel, thread.thread_ts)
    if root is not None and root["deleted_at"] is not None:
        raise Conflict("The thread's first message was deleted in Slack, so no file can be posted there.")
    return thread


def _key(tx: Transaction, upload: _Upload) -> str | None:
    """Returns the idempotency key of the call; None while it depends on unread content."""
    caller, about, file = upload.caller, upload.about, upload.file
    if caller.request_id is None and file.sha256 is None:
        return None
    said = {"name": file.name, "title": file.title, "comment": file.comment, "sha256": file.sha256}
    return IdempotentCall(
        agent_id=caller.agent.id,
        tool=_TOOL,
        about=about.inbox_message_id or about.task_id or "",
        lease_token=caller.lease_token if caller.lease_token is not None else _last_lease(tx, about),
        arguments=said,
        request_id=caller.request_id,
    ).key


def _last_lease(tx: Transaction, about: ThreadReference) -> str | None:
    if about.inbox_message_id is not None:
        inbox_message = inbox.get(tx, about.inbox_message_id)
        return inbox_message.lease_token if inbox_message else None
    task = tasks.get(tx, about.task_id) if about.task_id is not None else None
    return task.lease_token if task else None


def _stage(tx: Transaction, key: str | None) -> Stage | None:
    kept = orjson.loads((idempotency_keys.result(tx, key) if key else None) or _NOTHING)
    return _STAGES[kept.pop("stage")](**kept) if kept else None


def _save(tx: Transaction, key: str, stage: Stage) -> None:
    name = "sharing" if isinstance(stage, Sharing) else "shared"
    idempotency_keys.complete(tx, key, orjson.dumps({"stage": name, **asdict(stage)}).decode())


def _record(tx: Transaction, change: str, upload: _Upload, thread: Thread, file_id: str, reason: str) -> None:
    history.record(tx, change, file_id, thread_id=thread.id, agent_id=upload.caller.agent.id, reason=reason)


def _message(thread: Thread, sharing: Sharing, ts: str, author: Author) -> SlackMessage:
    """Returns the message with the file, for the transcript."""
    return SlackMessage(
        channel=thread.channel,
        ts=ts,
        thread_ts=thread.thread_ts,
        author=author,
        text=sharing.comment or "",
        files=(File(id=sharing.file_id, name=sharing.name, size_bytes=sharing.size_bytes),),
    )


def _doubt_ends(tx: Transaction) -> int:
    return tx.now + SHARE_DOUBT_SECONDS * SECOND


async def _searched(chunks: AsyncIterable[bytes], name: str) -> AsyncIterator[bytes]:
    """Yields the chunks of a file. Raises Invalid in place of the one with a secret: what was yielded stays invisible,
    because Slack shows no file that has not come as a whole."""
    search, decoder = SecretSearch(), None
    async for chunk in chunks:
        if decoder is None:
            decoder = getincrementaldecoder("utf-16" if chunk[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8")(
                "replace"
            )
        search.feed(decoder.decode(chunk))
        _refuse_secret(search, f"Line {{}} of {name}")
        yield chunk
    search.feed("", is_end=True)
    _refuse_secret(search, f"Line {{}} of {name}")


def _refuse_secret(search: SecretSearch, place: str) -> None:
    if search.found:
        line, kind = search.found
        raise Invalid(
            f"{place.replace('{}', str(line), 1)} holds what looks like {kind}, so the file was not uploaded.",
            hint="Remove it from the file, and upload that.",
        )


LOOKS_SECONDS: Final = (0.0, 0.5, 1.5)
"""The pauses before each search for a file that Slack has accepted, because it appears slightly later."""

_log = structlog.get_logger(__name__)


class Uploads:
    """Uploads of agents' files into threads. No file larger than ``cap_bytes`` is transferred."""

    def __init__(self, database: Database, slack: SlackFiles, *, cap_bytes: int) -> None:
        self._database = database
        self._slack = slack
        self._cap_bytes = cap_bytes

    async def upload_content(
        self,
        caller: Caller,
        about: ThreadReference,
        name: str,
        content: bytes,
        *,
        title: str | None = None,
        comment: str | None = None,
    ) -> Shared:
        """Uploads a small file into a thread.

        Raises TooLarge above `INLINE_BYTES`, and the errors of :meth:`upload`.
        """
        if len(content) > INLINE_BYTES:
            raise TooLarge(
                f"The file has {len(content)} bytes; a tool call carries at most {INLINE_BYTES}.",
                hint="Send it as the body of POST /files.",
            )
        file = new_file(name, len(content), title=title, comment=comment, cap_bytes=self._cap_bytes)
        file = replace(file, sha256=hashlib.sha256(content).hexdigest())
        return await self._upload(_Upload(caller=caller, about=about, file=file), _one(content))

    async def upload(
        self,
        caller: Caller,
        about: ThreadReference,
        name: str,
        size_bytes: int,
        chunks: AsyncIterable[bytes],
        *,
        title: str | None = None,
        comment: str | None = None,
    ) -> Shared:
        """Uploads a file into the thread of an inbox message or a task; ``chunks`` contain its ``size_bytes`` bytes.

        A repeated call returns the first result; without a request id, calls are equal only if their content is equal.
        Raises Invalid and TooLarge for a file that may not be uploaded, BadRequest for a different number of bytes, the
        errors of `authorize_message`, Conflict if Slack refuses, RateLimited and Unavailable if Slack does not accept
        the file now, and OutcomeUnknown if the outcome is in doubt.
        """
        file = new_file(name, size_bytes, title=title, comment=comment, cap_bytes=self._cap_bytes)
        return await self._upload(_Upload(caller=caller, about=about, file=file), chunks)

    async def _upload(self, upload: _Upload, chunks: AsyncIterable[bytes]) -> Shared:
        in_name = SecretSearch()
        in_name.feed(upload.file.name, is_end=True)
        _refuse_secret(in_name, "The file's name")
        chunks = _searched(chunks, upload.file.name)
        reached = await self._database.write(self._claim, upload, None)
        if reached is None:
            counted = Counted(chunks, upload.file.size_bytes)
            file_id = await self._slack.place(upload.file.name, upload.file.size_bytes, counted)
            upload = replace(upload, file=replace(upload.file, sha256=counted.sha256))
            await self._slack.ready_to_share()
            reached = await self._database.write(self._claim, upload, file_id)
        match reached:
            case Shared():
                return reached
            case _UploadClaim(is_repeat=True):
                return await self._repeat(upload, reached)
            case _UploadClaim():
                return await self._share(upload, reached)
            case None:
                raise AssertionError("a placed file has a stage")

    @staticmethod
    def _claim(tx: Transaction, upload: _Upload, file_id: str | None) -> _UploadClaim | Shared | None:
        """Returns the right to share the file uploaded as ``file_id``, or the result of an earlier equal call.

        None if there is no earlier call and no uploaded file. Raises the errors of `authorize_message` and
        `authorize_task`, Invalid for a call with only a thread id or about a task without a thread, and Conflict if the
        thread's root is deleted. A repeated call with a stored result no longer needs a lease.
        """
        key = _key(tx, upload)
        done = _stage(tx, key)
        if isinstance(done, Shared):
            return done
        thread = _held(tx, upload)
        stage = _stage(tx, key)  # read again under the thread's lock
        if not isinstance(stage, Sharing):
            return stage or (_begin(tx, upload, key, thread, file_id) if key and file_id else None)
        assert key is not None  # a stage requires a key
        # A doubt beyond its maximum means that the clock has been set back in the meantime.
        ours = stage.until <= tx.now or stage.until > _doubt_ends(tx)
        if ours:
            stage = replace(stage, until=_doubt_ends(tx))
            _save(tx, key, stage)
        return _UploadClaim(key=key, thread=thread, sharing=stage, ours=ours, is_repeat=True)

    async def _repeat(self, upload: _Upload, claim: _UploadClaim) -> Shared:
        """Shares the file only if Slack does not have it and the previous call can no longer arrive."""
        ts = await self._look(claim)
        if ts is not None:
            return await self._database.write(_settle, upload, claim, ts)
        if not claim.ours:
            raise _unknown(upload)
        await self._slack.ready_to_share()
        return await self._share(upload, claim)

    async def _share(self, upload: _Upload, claim: _UploadClaim) -> Shared:
        answer = await self._slack.share(_share(claim))
        match answer:
            case DeliveryAccepted():
                return await self._database.write(_settle, upload, claim, await self._message_of(claim))
            case DeliveryRefused(error=code):
                return await self._give_up(
                    upload, claim, code, Conflict(f"Slack refuses to share the file in the thread: {code}.")
                )
            case NotSent(reason=reason, retry_after_seconds=seconds):
                error = RateLimited(f"Slack does not accept the file now: {reason}.", retry_after_seconds=seconds)
                return await self._give_up(upload, claim, reason, error)
            case InDoubt():
                ts = await self._look(claim)
                if ts is None:
                    raise _unknown(upload)
                return await self._database.write(_settle, upload, claim, ts)
            case _:
                assert_never(answer)

    async def _give_up(self, upload: _Upload, claim: _UploadClaim, reason: str, error: SwarmError) -> Shared:
        """Drops the call and raises ``error``. A refusal of a repeated call may mean that the file is already in the
        thread.
        """
        ts = await self._look(claim) if claim.is_repeat else None
        if ts is not None:
            return await self._database.write(_settle, upload, claim, ts)
        await self._database.write(self._drop, upload, claim, reason)
        raise error

    @staticmethod
    def _drop(tx: Transaction, upload: _Upload, claim: _UploadClaim, reason: str) -> None:
        """Drops a call that Slack certainly did not execute. It may be repeated as if it had never been made."""
        threads.locked(tx, claim.thread.id)
        if _stage(tx, claim.key) == claim.sharing:
            idempotency_keys.complete(tx, claim.key, _NOTHING)
            _record(tx, "file.fail", upload, claim.thread, claim.sharing.file_id, reason)

    async def _message_of(self, claim: _UploadClaim) -> str | None:
        """Returns the message with the file, which Slack creates shortly after accepting it; None if it is late."""
        for pause_seconds in LOOKS_SECONDS:
            await asyncio.sleep(pause_seconds)
            try:
                ts = await self._look(claim)
            except SwarmError as error:
                _log.warning(
                    "Cannot look for a file.", action="file_look", file=claim.sharing.file_id, why=error.message
                )
                return None
            if ts is not None:
                return ts
        _log.warning("Slack accepted a file but does not show it yet.", action="file_late", file=claim.sharing.file_id)
        return None

    async def _look(self, claim: _UploadClaim) -> str | None:
        return await self._slack.shared_as(claim.sharing.file_id, claim.thread.channel, claim.thread.thread_ts)


def _share(claim: _UploadClaim) -> Share:
    return Share(
        file_id=claim.sharing.file_id,
        channel=claim.thread.channel,
        thread_ts=claim.thread.thread_ts,
        title=claim.sharing.title,
        comment=claim.sharing.comment,
    )


def _unknown(upload: _Upload) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"It is not known yet whether '{upload.file.name}' is in the thread.",
        hint=f"Repeat exactly the same call after {SHARE_DOUBT_SECONDS} seconds. It first checks for the file.",
    )


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content
