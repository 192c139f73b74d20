"""Files: pending uploads, contents and shares. All are in memory, with a limit on the total number of bytes.

https://docs.slack.dev/reference/methods/files.getUploadURLExternal: an app requests an address, posts the content there
and completes the upload, which creates the file.
"""

import mimetypes
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from slack_twin.errors import SlackError

if TYPE_CHECKING:
    from slack_twin.people import Channel

FILE_CAP_BYTES = 64 * 1024 * 1024
_TOTAL_CAPS = 4  # number of maximum-size files that are kept before the oldest lose their content
_MOST_UPLOADS = 1_000
_MOST_FILES = 50_000
_ID_DIGITS = 8


class TooLarge(Exception):
    """The upload has more bytes than announced."""


@dataclass(kw_only=True)
class Content:
    """The bytes of a file; None after the file was deleted or its content was dropped."""

    data: bytes | None


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that messages can share."""

    id: str
    name: str
    title: str
    user: str
    size: int  # in bytes
    mimetype: str
    created: int  # in seconds since 1970
    url: str  # for downloads with a bot token
    permalink: str  # for people: opens the page where the file is shared
    stored: Content = field(repr=False, compare=False)
    alt_txt: str = ""
    transcript: str = ""  # the words of a clip
    fields: Mapping[str, object] = field(default_factory=dict)  # further fields of its kind, as in Slack's file object
    is_deleted: bool = False

    @property
    def content(self) -> bytes:
        """Returns the bytes, empty if they were dropped."""
        return self.stored.data or b""


@dataclass(kw_only=True)
class Upload:
    """A file announced by an app; `data` is None until it is uploaded."""

    ticket: str
    file_id: str
    name: str
    size: int
    user: str
    alt_txt: str = ""
    data: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Share:
    """A message that contains a file."""

    channel: "Channel"
    ts: str


class Files:
    """The files of the workspace.

    When the total size exceeds four times the size limit, the oldest lose their content.
    """

    def __init__(self, cap_bytes: int = FILE_CAP_BYTES) -> None:
        self.cap_bytes = cap_bytes
        self._files: dict[str, File] = {}
        self._shares: dict[str, list[Share]] = {}
        self._uploads: dict[str, Upload] = {}
        self._count = 0
        self._bytes = 0

    def clear(self) -> None:
        """Removes all files. Ids keep increasing, so that an old address never refers to a new file."""
        self._files.clear()
        self._shares.clear()
        self._uploads.clear()
        self._bytes = 0

    def expect(self, *, name: str, size: int, user: str, alt_txt: str = "") -> Upload:
        """Announces an upload. Raises `file_upload_size_restricted`."""
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
        """Stores uploaded data. Raises KeyError (no such upload), TooLarge (more data than announced)."""
        upload = self._uploads[ticket]
        if len(data) != upload.size:
            raise TooLarge
        upload.data = data
        return upload

    def received(self, file_id: str, user: str) -> Upload:
        """Returns the app's finished upload with this id. Raises `file_not_found`."""
        for upload in self._uploads.values():
            if upload.file_id == file_id and upload.user == user and upload.data is not None:
                return upload
        raise SlackError("file_not_found")

    def complete(self, upload: Upload, *, title: str, created: int, base_url: str) -> File:
        """Creates a file from an upload, which cannot be used again."""
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
        """Drops the oldest contents until the total size fits; the newest file always stays."""
        while len(self._files) > 1 and (self._bytes > _TOTAL_CAPS * self.cap_bytes or len(self._files) > _MOST_FILES):
            self._forget(next(iter(self._files)))

    def _forget(self, file_id: str) -> None:
        file = self._files.pop(file_id)
        file.stored.data = None
        self._bytes -= file.size
        self._shares.pop(file_id, None)

    def get(self, file_id: str) -> File | None:
        return self._files.get(file_id)

    def replace(self, file: File) -> None:
        """Replaces a file with a changed version."""
        self._files[file.id] = file

    def is_gone(self, file_id: str) -> bool:
        """Returns whether the file existed. Ids are sequential, so every lower number was assigned."""
        digits = file_id.removeprefix("F")
        known = len(digits) == _ID_DIGITS and digits.isascii() and digits.isdecimal() and 0 < int(digits) <= self._count
        awaited = any(upload.file_id == file_id for upload in self._uploads.values())
        return known and file_id not in self._files and not awaited

    def all(self) -> Iterator[File]:
        """Yields the files, oldest first."""
        yield from self._files.values()

    def share(self, file: File, channel: "Channel", ts: str) -> None:
        """Records that a message contains a file."""
        if file.id in self._files:
            self._shares.setdefault(file.id, []).append(Share(channel=channel, ts=ts))

    def shares(self, file_id: str) -> list[Share]:
        """Returns the existing messages that contain a file."""
        return [share for share in self._shares.get(file_id, ()) if share.channel.messages.get(share.ts)]

    def is_visible(self, file: File, bot_user: str) -> bool:
        """Returns whether an app may see a file: its own files, and files shared in its bot's conversations."""
        return file.user == bot_user or any(bot_user in share.channel.members for share in self.shares(file.id))

    def delete(self, file: File) -> list[Share]:
        """Deletes a file permanently; returns its shares."""
        shares = self.shares(file.id)
        self._forget(file.id)
        return shares
