"""Files: allowed names and sizes, Slack's description of a file, and the stages of an upload.

An upload has one visible effect: sharing the file in its thread. Only this step is recorded (as the result of the
call's idempotency key)::

    nothing → sharing            claim: from now on the file may be in the thread
    sharing → sharing            look again, once the call in doubt can no longer take effect
    sharing → shared             settle: Slack has it
    sharing → nothing            drop: Slack certainly does not have it
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Final

from swarm.domain.errors import BadRequest, Invalid, TooLarge
from swarm.domain.model.threads import File
from swarm.domain.views import JsonView
from swarm_base.characters import strip_invisible

DEFAULT_CAP_BYTES: Final = 100 * 1024 * 1024
NAME_BYTES: Final = 255
"""The limit of common file systems."""

TEXT_BYTES: Final = 200_000
"""Text files up to this size are shown as text; larger files would fill most of a model's context."""

INLINE_BYTES: Final = 700_000
"""The maximum content of a tool call. Its body may have 1 MiB, and base64 encodes three bytes as four."""

TITLE_CHARACTERS: Final = 255
COMMENT_CHARACTERS: Final = 3_000

SHARE_DOUBT_SECONDS: Final = 90
"""After this time a call to share a file has timed out (at most 60 s), and any effect is visible in Slack."""

_SEPARATORS: Final = frozenset("/\\")
_CONTROL: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})  # Unicode's categories; Cs are halves of surrogate pairs
_NEVER_TEXT: Final = ("image/", "audio/", "video/", "font/", "application/zip", "application/pdf")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileInfo(File):
    """Slack's description of a file."""

    url: str | None  # the URL of its content; None: only linked, not stored in Slack


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A validated file before its upload. ``sha256`` (hex) is None until its content has been read."""

    name: str
    size_bytes: int
    title: str | None = None
    comment: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A request to share an uploaded file in a thread. ``comment`` is already safe for Slack."""

    file_id: str
    channel: str
    thread_ts: str
    title: str
    comment: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """A file that may be in the thread, or may appear there until ``until`` (microseconds)."""

    file_id: str
    name: str
    size_bytes: int
    title: str
    comment: str | None  # already safe for Slack
    until: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared(JsonView):
    """A file shared in a thread. ``ts`` is the timestamp of its message, null if Slack did not report it."""

    contract_name = "SharedFileShape"

    file_id: str
    name: str
    size_bytes: int
    ts: str | None


Stage = Sharing | Shared


def new_file(
    name: str, size_bytes: int, *, title: str | None = None, comment: str | None = None, cap_bytes: int
) -> NewFile:
    """Validates a file for upload. Raises Invalid (name, title, comment, empty file) and TooLarge."""
    check_name(name)
    check_size(size_bytes, cap_bytes)
    if size_bytes == 0:
        raise Invalid(
            "The file is empty, and Slack does not accept empty files.", fields={"content": "at least one byte"}
        )
    return NewFile(
        name=name,
        size_bytes=size_bytes,
        title=_short(title, TITLE_CHARACTERS, "title"),
        comment=_short(comment, COMMENT_CHARACTERS, "comment"),
    )


def check_name(name: str) -> None:
    """Raises Invalid for a name with a special meaning in a file system, or a name that imitates another name."""
    broken = _broken_rule(name)
    if broken:
        raise Invalid(
            f"The file's name {broken}.",
            hint="Use a plain name such as 'report.csv'.",
            fields={"name": f"1 to {NAME_BYTES} bytes, no path separators or control characters, no leading dot"},
        )


def check_size(size_bytes: int, cap_bytes: int) -> None:
    """Raises TooLarge if the file exceeds the cap."""
    if size_bytes > cap_bytes:
        raise TooLarge(
            f"The file has {size_bytes} bytes; at most {cap_bytes} can be transferred.",
            hint="The operator sets the limit (SWARM_FILE_CAP_BYTES).",
        )


def may_be_text(mimetype: str | None) -> bool:
    """Whether the content may be text, according to its type. An SVG is both an image and text."""
    return mimetype == "image/svg+xml" or not (mimetype or "").startswith(_NEVER_TEXT)


def as_text(content: bytes) -> str | None:
    """Returns the content as text; None if it is not UTF-8 or contains NUL."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


class Counted:
    """A stream of chunks, counted and hashed. Raises BadRequest if the total differs from ``size_bytes``."""

    def __init__(self, chunks: AsyncIterable[bytes], size_bytes: int) -> None:
        self._chunks = chunks
        self._missing = size_bytes
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of the chunks so far, in hex."""
        return self._hash.hexdigest()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            self._missing -= len(chunk)
            if self._missing < 0:
                raise BadRequest("The file has more bytes than announced.")
            self._hash.update(chunk)
            if chunk:
                yield chunk
        if self._missing:
            raise BadRequest(f"The file ends {self._missing} bytes before its announced size.")


def _broken_rule(name: str) -> str | None:
    if not name.strip():
        return "is empty"
    if _SEPARATORS & set(name):
        return "contains a path separator (slash or backslash)"
    if name.startswith("."):
        return "begins with a dot"
    if any(unicodedata.category(character) in _CONTROL for character in name) or strip_invisible(name) != name:
        return "contains control characters or invisible characters"
    if len(name.encode()) > NAME_BYTES:
        return f"is longer than {NAME_BYTES} bytes"
    return None


def _short(text: str | None, most: int, field: str) -> str | None:
    """Returns the text without invisible characters; None if nothing is left."""
    cleaned = strip_invisible(text or "").strip()
    if len(cleaned) > most:
        raise Invalid(
            f"The {field} has {len(cleaned)} characters.",
            hint="Post the rest with slack-reply.",
            fields={field: f"at most {most} characters"},
        )
    return cleaned or None
