"""The stage of an upload, stored under the idempotency key of its call: the steps of `swarm.domain.model.files`, one
transaction each.

Every change of the stage holds the thread's lock, so of two equal calls only one shares the file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final

import orjson

from swarm.clock import SECOND
from swarm.domain.errors import Conflict, Invalid
from swarm.domain.model.files import SHARE_DOUBT_SECONDS, NewFile, Shared, Sharing, Stage
from swarm.domain.model.threads import Author, AuthorKind, File, SlackMessage, Thread
from swarm.domain.text.mrkdwn import safe
from swarm.domain.text.secrets import without_secrets
from swarm.services.rules.fencing import ThreadReference, authorize_message, authorize_task
from swarm.services.rules.idempotency import Caller, IdempotentCall
from swarm.store import history, idempotency_keys, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads, transcript

_TOOL: Final = "slack-upload-file"
_STAGES: Final = {"sharing": Sharing, "shared": Shared}
_NOTHING: Final = "null"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """One call: caller, thread and file."""

    caller: Caller
    about: ThreadReference
    file: NewFile


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadClaim:
    """A call in progress. ``ours``: this run alone may share the file now."""

    key: str
    thread: Thread
    sharing: Sharing
    ours: bool
    is_repeat: bool  # the file may be in the thread already


def claim(tx: Transaction, upload: Upload, file_id: str | None) -> UploadClaim | Shared | None:
    """Returns the right to share the file uploaded as ``file_id``, or the result of an earlier equal call.

    None without an earlier call and without an uploaded file. Raises the errors of `authorize_message` and
    `authorize_task`, Invalid for a call with only a thread id or about a task without a thread, and Conflict if the
    thread's root is deleted. A repeated call with a stored result needs no lease any more.
    """
    key = _key(tx, upload)
    done = _stage(tx, key)
    if isinstance(done, Shared):
        return done
    thread = _held(tx, upload)
    stage = _stage(tx, key)  # read again under the thread's lock
    if not isinstance(stage, Sharing):
        return stage or (_begin(tx, upload, key, thread, file_id) if key and file_id else None)
    assert key is not None  # a stage implies a key
    # A doubt beyond its maximum means that the clock has been set back since.
    ours = stage.until <= tx.now or stage.until > _doubt_ends(tx)
    if ours:
        stage = replace(stage, until=_doubt_ends(tx))
        _save(tx, key, stage)
    return UploadClaim(key=key, thread=thread, sharing=stage, ours=ours, is_repeat=True)


def settle(tx: Transaction, upload: Upload, claim: UploadClaim, ts: str | None) -> Shared:
    """Stores the result of the call, and adds the message to the transcript. Without its ``ts`` the thread is stale."""
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
    threads.touch(tx, claim.thread.id)
    shared = Shared(file_id=sharing.file_id, name=sharing.name, size_bytes=sharing.size_bytes, ts=ts)
    _save(tx, claim.key, shared)
    history.record(tx, "file.confirm", shared.file_id, thread_id=claim.thread.id, agent_id=agent.id)
    return shared


def drop(tx: Transaction, upload: Upload, claim: UploadClaim, reason: str) -> None:
    """Drops a call that Slack certainly did not execute: it may be repeated as if never made."""
    threads.locked(tx, claim.thread.id)
    if _stage(tx, claim.key) == claim.sharing:
        idempotency_keys.complete(tx, claim.key, _NOTHING)
        _record(tx, "file.fail", upload, claim.thread, claim.sharing.file_id, reason)


def _begin(tx: Transaction, upload: Upload, key: str, thread: Thread, file_id: str) -> UploadClaim:
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
    return UploadClaim(key=key, thread=thread, sharing=sharing, ours=True, is_repeat=False)


def _held(tx: Transaction, upload: Upload) -> Thread:
    """Returns the thread, locked, for a run that may act in it."""
    caller, about = upload.caller, upload.about
    if about.inbox_message_id is not None:
        thread: Thread | None = authorize_message(tx, caller.agent, about.inbox_message_id, caller.lease_token).thread
    elif about.task_id is not None:
        thread = authorize_task(tx, caller.agent, about.task_id, caller.lease_token).thread
    else:
        raise Invalid(
            "A file is put into a thread on account of a message or a task.",
            fields={"inbox_message_id": "this or task_id", "task_id": "this or inbox_message_id"},
        )
    if thread is None:
        raise Invalid("This task has no thread in Slack.", fields={"task_id": "a task with a thread"})
    root = transcript.find(tx, thread.team, thread.channel, thread.thread_ts)
    if root is not None and root["deleted_at"] is not None:
        raise Conflict("The message that the thread began with was deleted, so nothing is posted there any more.")
    return thread


def _key(tx: Transaction, upload: Upload) -> str | None:
    """Returns the idempotency key of the call; None as long as it depends on unread content."""
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


def _record(tx: Transaction, change: str, upload: Upload, thread: Thread, file_id: str, reason: str) -> None:
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
