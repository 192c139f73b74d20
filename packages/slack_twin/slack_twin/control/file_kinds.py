"""The kinds of files that people send, as fields of Slack's file object.

https://docs.slack.dev/reference/objects/file-object; transcripts, e-mails and Slack Connect as in `files.info`.
"""

from dataclasses import replace
from email.utils import parseaddr

from slack_twin.control.body import Body
from slack_twin.errors import ControlError, Json
from slack_twin.files import File, Files

KINDS = ("file", "voice", "video", "email", "connect")
FIELDS = "kind title alt_txt transcript seconds subject from to text fields"
_PREVIEW_CHARACTERS = 150


def described(files: Files, file: File, given: Body) -> File:
    """Stores and returns a file with its `kind` and the further fields that a person gave.

    Raises ControlError 422 for an unknown kind, or a kind that lacks a field.
    """
    kind = given.optional("kind") or "file"
    if kind not in KINDS:
        raise ControlError(422, "invalid", f"no file kind {kind!r}", f"available: {', '.join(KINDS)}")
    fields = _FIELDS_OF[kind](file, given) if kind in _FIELDS_OF else {}
    fields |= {"file_access": "check_file_info"} if kind == "connect" else {}
    changed = replace(
        file,
        title=given.optional("title") or str(fields.get("subject") or file.title),
        alt_txt=given.optional("alt_txt") or file.alt_txt,
        transcript=given.optional("transcript") or "",
        fields=fields | dict(given.mapping("fields") or {}),
    )
    files.replace(changed)
    return changed


def _clip(file: File, given: Body) -> Json:
    """Returns the fields of a voice or video clip. Without a `transcript`, Slack is still working on it."""
    sort, words = "audio" if given.optional("kind") == "voice" else "video", given.optional("transcript")
    seconds = given.number("seconds", lowest=0, highest=300) or 1.0
    fields: Json = {
        "mimetype": f"{sort}/mp4",
        "filetype": "m4a" if sort == "audio" else "mp4",
        "pretty_type": "MPEG 4 Audio" if sort == "audio" else "MPEG 4 Video",
        "subtype": f"slack_{sort}",
        "media_display_type": sort,
        "duration_ms": int(seconds * 1000),
        "transcription": {"status": "processing"},
    }
    if words:
        preview = {"content": words[:_PREVIEW_CHARACTERS], "has_more": len(words) > _PREVIEW_CHARACTERS}
        fields["transcription"] = {"status": "complete", "locale": "en-US", "preview": preview}
        fields["vtt"] = f"{file.url.rpartition('/')[0]}/transcript.vtt"
    return fields | ({"mp4": file.url} if sort == "video" else {})


def vtt(file: File) -> str:
    """Returns a clip's transcript as WebVTT: a byte order mark, and one cue."""
    seconds = int(str(file.fields.get("duration_ms", 0))) // 1000
    return f"\ufeffWEBVTT \n\n00:00:00.000 --> 00:{seconds // 60:02}:{seconds % 60:02}.000\n- {file.transcript}\n\n\n"


def _email(file: File, given: Body) -> Json:
    """Returns the fields of an e-mail; its body is `text`, by default the file's content."""
    body = given.optional("text") or file.content.decode(errors="replace")
    return {
        "mode": "email",
        "mimetype": "text/html",
        "filetype": "email",
        "pretty_type": "Email",
        "subject": given.text("subject"),
        "from": [_address(given.text("from"))],
        "to": [_address(one) for one in (given.optional("to") or "").split(",") if one.strip()],
        "cc": [],
        "plain_text": body,
        "preview_plain_text": body[:_PREVIEW_CHARACTERS],
        "has_more": len(body) > _PREVIEW_CHARACTERS,
        "original_attachment_count": 0,
    }


def _address(written: str) -> Json:
    name, address = parseaddr(written)
    return {"address": address, "name": name or address, "original": written.strip()}


_FIELDS_OF = {"voice": _clip, "video": _clip, "email": _email}
