"""Files: announced uploads, what was received, and where it is shared. All in memory, bounded by number of bytes.

https://docs.slack.dev/reference/methods/files.getUploadURLExternal: an app asks for an address, posts the content there
and completes the upload, which makes the file.
"""

import mimetypes
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from slack_twin.errors import SlackError

if TYPE_CHECKING:
    from slack_twin.people import Channel

FILE_CAP_BYTES = 64 * 1024 * 1024
_TOTAL_CAPS = 4  # so many files of the largest size are kept before the oldest lose their content
_MOST_UPLOADS = 1_000
_MOST_FILES = 50_000
_ID_DIGITS = 8


class TooLarge(Exception):
    """More bytes were uploaded than announced."""


@dataclass(kw_only=True)
class Content:
    """The bytes of a file; None once the file is deleted, or older files had to go."""

    data: bytes | None


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as it is shared with messages."""

    id: str
    name: str
    title: str
    user: str
    size: int  # bytes
    mimetype: str
    created: int  # seconds since 1970
    url: str  # for downloads with a bot token
    permalink: str  # for people: it opens the page where the file is shared
    stored: Content = field(repr=False, compare=False)
    alt_txt: str = ""
    is_deleted: bool = False

    @property
    def content(self) -> bytes:
        """The bytes, empty once they are gone."""
        return self.stored.data or b""


@dataclass(kw_only=True)
class Upload:
    """A file that an app announced; `data` is None until it was sent."""

    ticket: str
    file_id: str
    name: str
    size: int
    user: str
    alt_txt: str = ""
    data: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Share:
    """One message that carries a file."""

    channel: "Channel"
    ts: str


class Files:
    """The files of the workspace. The oldest lose their content when all together are more than four times the cap."""

    def __init__(self, cap_bytes: int = FILE_CAP_BYTES) -> None:
        self.cap_bytes = cap_bytes
        self._files: dict[str, File] = {}
        self._shares: dict[str, list[Share]] = {}
        self._uploads: dict[str, Upload] = {}
        self._count = 0
        self._bytes = 0

    def clear(self) -> None:
        """Forget everything; ids keep growing, so that an old address never leads to a new file."""
        self._files.clear()
        self._shares.clear()
        self._uploads.clear()
        self._bytes = 0

    def expect(self, *, name: str, size: int, user: str, alt_txt: str = "") -> Upload:
        """Take note of an upload to come. Raises `file_upload_size_restricted`."""
        if size > self.cap_bytes:
            raise SlackError("file_upload_size_restricted")
        self._count += 1
        ticket = secrets.token_urlsafe(24)
        upload = Upload(
            ticket=ticket, file_id=f"F{self._count:0{_ID_DIGITS}d}", name=name, size=size, user=user, alt_txt=alt_txt
        )
        self._uploads[ticket] = upload
        if len(self._uploads) > _MOST_UPLOADS:
            del self._uploads[next(iter(self._uploads))]
        return upload

    def upload(self, ticket: str) -> Upload | None:
        return self._uploads.get(ticket)

    def receive(self, ticket: str, data: bytes) -> Upload:
        """Keep what was sent to an address. Raises KeyError (no such upload), TooLarge (other than announced)."""
        upload = self._uploads[ticket]
        if len(data) != upload.size:
            raise TooLarge
        upload.data = data
        return upload

    def received(self, file_id: str, user: str) -> Upload:
        """The finished upload behind an id, of the app that began it. Raises `file_not_found`."""
        for upload in self._uploads.values():
            if upload.file_id == file_id and upload.user == user and upload.data is not None:
                return upload
        raise SlackError("file_not_found")

    def complete(self, upload: Upload, *, title: str, created: int, base_url: str) -> File:
        """Make a file of an upload, which is used up with that."""
        del self._uploads[upload.ticket]
        name = quote(upload.name, safe="")
        file = File(
            id=upload.file_id,
            name=upload.name,
            title=title or upload.name,
            user=upload.user,
            size=upload.size,
            mimetype=mimetypes.guess_type(upload.name)[0] or "application/octet-stream",
            created=created,
            url=f"{base_url}files/{upload.file_id}/{name}",
            permalink=f"{base_url}files/{upload.user}/{upload.file_id}/{name}",
            stored=Content(data=upload.data),
            alt_txt=upload.alt_txt,
        )
        self._files[file.id] = file
        self._bytes += file.size
        self._shrink()
        return file

    def _shrink(self) -> None:
        """Drop the oldest files until what is left fits; the newest always stays."""
        while len(self._files) > 1 and (self._bytes > _TOTAL_CAPS * self.cap_bytes or len(self._files) > _MOST_FILES):
            self._forget(next(iter(self._files)))

    def _forget(self, file_id: str) -> None:
        file = self._files.pop(file_id)
        file.stored.data = None
        self._bytes -= file.size
        self._shares.pop(file_id, None)

    def get(self, file_id: str) -> File | None:
        return self._files.get(file_id)

    def is_gone(self, file_id: str) -> bool:
        """Whether there was such a file: ids are counted, so every lower number has been given out."""
        digits = file_id.removeprefix("F")
        known = len(digits) == _ID_DIGITS and digits.isascii() and digits.isdecimal() and 0 < int(digits) <= self._count
        awaited = any(upload.file_id == file_id for upload in self._uploads.values())
        return known and file_id not in self._files and not awaited

    def all(self) -> Iterator[File]:
        """The files, oldest first."""
        yield from self._files.values()

    def share(self, file: File, channel: "Channel", ts: str) -> None:
        """Note that a message carries a file."""
        if file.id in self._files:
            self._shares.setdefault(file.id, []).append(Share(channel=channel, ts=ts))

    def shares(self, file_id: str) -> list[Share]:
        """The messages that carry a file; those that were deleted meanwhile do not count."""
        return [share for share in self._shares.get(file_id, ()) if share.channel.messages.get(share.ts)]

    def is_visible(self, file: File, bot_user: str) -> bool:
        """Whether an app may see a file: its own, and what was shared where its bot is."""
        return file.user == bot_user or any(bot_user in share.channel.members for share in self.shares(file.id))

    def delete(self, file: File) -> list[Share]:
        """Forget a file for good; returns where it was shared."""
        shares = self.shares(file.id)
        self._forget(file.id)
        return shares
