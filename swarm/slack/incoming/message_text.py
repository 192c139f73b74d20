"""Extracts the readable text of a message from its text, blocks, attachments and files, without duplicates.

The result is in Slack's stored form, which contains ``<@U…>``, ``<https://…|label>`` and ``&amp;``. It is the same for
an event and for the message in a history.

``text`` is often only a part: a fallback for notifications, or a sentence above a table. The content of blocks and
attachments is therefore added unless the text already contains it, and a text that only repeats their beginning or
their lines is left out.

What others said is quoted below the author's own words: forwarded messages with their files, e-mails, and what Slack's
transcripts say was spoken. Each begins with a line that says what it is, and every line of it has Slack's quotation
mark, so no content can end its quotation. Its mentions address nobody. Link previews are left out: they contain the
text of a web page, arrive later than the message, and the message already contains the link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.threads import AuthorKind
from swarm.domain.text.slack_text import escape
from swarm.slack.incoming.blocks import block_pieces, label, moment, one_line, quote_lines, spoken, with_link
from swarm.slack.incoming.fields import JsonObject, object_at, objects_at, text_at

MAX_ADDED_CHARACTERS: Final = 40_000
"""The maximum number of characters that blocks and attachments add to a text: Slack's limit for a text."""

_DEEPEST: Final = 4
"""How often a forwarded message may itself contain one."""

_MOST_ATTACHMENTS: Final = 200  # Slack accepts a hundred
_MOST_PIECES: Final = 500  # fifty blocks and a hundred attachments have fewer
_PLACEHOLDER: Final = re.compile(
    r"\s*(\[no (preview available|text)\]|This (content can't be displayed|message contains interactive elements)\.)\s*"
)
"""Texts that Slack shows in place of content."""

_OF_FORWARDS: Final = ("pretext", "title", "title_link", "fields", "image_url", "thumb_url", "actions", "filename")
"""Fields of a forwarded message beside its text, as those of an attachment."""

_LABELLED: Final = re.compile(r"<(?P<target>[@#!][^|<>\n]+)\|[^<>\n]+>")
_MENTION: Final = re.compile(r"<[@#!][^|<>\n]+>")
_DATE: Final = re.compile(r"<!date\^[^|<>\n]*\|([^<>\n]*)>")
_LIST_MARK: Final = re.compile(r"^\s*(?:\d{1,4}|[a-z]{1,4})\.\s", re.MULTILINE)
_CUE_END: Final = re.compile(r"\n[ \t]*\n")
_MARKUP: Final = re.compile(r"[*_~`•◦▪▫‣\ufe0e\ufe0f\s]|\[(?:image|button|choice|video|file): |\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class _MessageText:
    """The text of a message. ``quoted`` is what others said, at the end of ``text``; it may be empty."""

    text: str
    quoted: str = ""


def message_words(message: JsonObject, kind: AuthorKind) -> _MessageText:
    """Returns the text of a message object. For Swarm's own posts only ``text`` counts, because their blocks add
    buttons and footers.
    """
    text = text_at(message, "text")
    return _MessageText(text=text) if kind is AuthorKind.AGENT and text.strip() else _read(message, _DEEPEST)


def files_of(message: JsonObject, depth: int = _DEEPEST) -> Iterator[JsonObject]:
    """Yields the files of a message and of the messages that it forwards."""
    yield from objects_at(message, "files")
    if depth:
        for forward in _forwards(message):
            yield from files_of(forward, depth - 1)


def _read(message: JsonObject, depth: int) -> _MessageText:
    text, attachments = text_at(message, "text"), objects_at(message, "attachments")[:_MOST_ATTACHMENTS]
    pieces = block_pieces(message)
    pieces += [piece for one in attachments if not _is_others(one) for piece in _attachment(one)]
    forwards = _forwards(message) if depth else []
    own = _joined("" if (pieces or forwards) and _PLACEHOLDER.fullmatch(text) else text, pieces)
    of_files = (words for file in objects_at(message, "files") for words in (_speech(file), _mail(file), _pasted(file)))
    quoted = _bounded([*of_files, *(_quotation(one, depth) for one in forwards)])
    return _MessageText(text="\n".join(filter(None, (own, quoted))), quoted=quoted)


def _forwards(message: JsonObject) -> list[JsonObject]:
    """Returns the forwarded messages. In a message with content of its own, others' content is a link preview unless
    Slack marks it as shared.
    """
    attachments = objects_at(message, "attachments")[:_MOST_ATTACHMENTS]
    others = [one for one in attachments if _is_others(one)]
    is_bare = others == attachments and not text_at(message, "text").strip() and not objects_at(message, "blocks")
    return [one for one in others if is_bare or one.get("is_share") is True]


def _is_others(attachment: JsonObject) -> bool:
    """Returns whether the attachment shows content by others: a forwarded message or a link preview."""
    return attachment.get("is_share") is True or bool(
        text_at(attachment, "from_url") or text_at(attachment, "original_url") or text_at(attachment, "app_unfurl_url")
    )


def _joined(text: str, pieces: list[str]) -> str:
    """Returns the text if it contains all pieces; the pieces if they contain the text; or both, without what the text
    contains already.
    """
    below = _labelled(_bounded(pieces), text)
    if not text.strip() or not below:
        return text if text.strip() else below
    said = text[:MAX_ADDED_CHARACTERS]
    words = _bare(said)
    missing = [piece for piece in pieces[:_MOST_PIECES] if _bare(piece) not in words]
    if text.rstrip().endswith(("…", "...")):
        said = said[: said.rstrip().rfind(" ") + 1]  # the last word may be cut off
    words = _unmarked(below)
    if missing and all(_unmarked(line) in words for line in {*spoken(said.splitlines())}):
        return below
    return "\n".join(filter(None, (text, _bounded(missing))))


def _content(attachment: JsonObject, key: str) -> str:
    """Returns a text, unless it, or what it says after its author, only stands for content."""
    text = text_at(attachment, key)
    return "" if _PLACEHOLDER.fullmatch(text.rpartition(": ")[2] if key == "fallback" else text) else text


def _labelled(below: str, text: str) -> str:
    """Returns the text of blocks with the names of channels and user groups, which only ``text`` has."""
    names = {f"<{found['target']}>": found.group() for found in _LABELLED.finditer(text)}
    return _MENTION.sub(lambda found: names.get(found.group(), found.group()), below)


def _bare(text: str) -> str:
    """Returns only the words, separated by spaces, without markup and punctuation, to compare texts word by word."""
    text = _LABELLED.sub(r"<\g<target>>", _DATE.sub(r"\1", text)).replace("|>", ">")
    words = (word.strip(".,:;!?…") for word in _MARKUP.sub(" ", text).split())
    return f" {' '.join(filter(None, words))} ".casefold()


def _unmarked(text: str) -> str:
    """Returns the words as `_bare`, also without the marks of lists and quotations."""
    return _bare(_LIST_MARK.sub(" ", text).replace("&gt;", " "))


def _bounded(pieces: list[str]) -> str:
    text = "\n".join(spoken(pieces))
    if len(text) <= MAX_ADDED_CHARACTERS:
        return text
    left_out = len(text) - MAX_ADDED_CHARACTERS
    return f"{text[:MAX_ADDED_CHARACTERS]}…\n[{left_out} more characters of blocks and attachments are left out]"


def _attachment(attachment: JsonObject) -> list[str]:
    """Returns the texts of an attachment.

    https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
    """
    fields = (
        ": ".join(filter(None, (text_at(field, "title"), text_at(field, "value"))))
        for field in objects_at(attachment, "fields")
    )
    author = text_at(attachment, "author_name")
    told = [
        text_at(attachment, "pretext"),
        with_link(author, text_at(attachment, "author_link")) if author else "",
        with_link(text_at(attachment, "title"), text_at(attachment, "title_link")),
        text_at(attachment, "text"),
        *fields,
        *block_pieces(attachment),
    ]
    if not any(piece.strip() for piece in told):
        told = [_content(attachment, "fallback")]
    buttons = (
        label(
            "button" if text_at(action, "type") == "button" else "choice",
            text_at(action, "text"),
            text_at(action, "url"),
        )
        for action in objects_at(attachment, "actions")
    )
    footer = text_at(attachment, "footer")
    file = label("file", text_at(attachment, "filename"))
    image = label("image", text_at(attachment, "image_url") or text_at(attachment, "thumb_url"))
    pieces = [*told, file, image, *buttons]
    if not any(piece.strip() for piece in (*pieces, footer)):
        return []
    return [*pieces, " · ".join(filter(None, (footer, _time(attachment))))]


def _time(attachment: JsonObject) -> str:
    """Returns the time of an attachment, given as a number or a timestamp."""
    ts = attachment.get("ts")
    return moment(ts) if isinstance(ts, str | int | float) and not isinstance(ts, bool) else ""


def _quotation(attachment: JsonObject, depth: int) -> str:
    """Returns a forwarded message with its author and time."""
    inner = [object_at(holder, "message") for holder in objects_at(attachment, "message_blocks")]
    said = _read(
        {
            "text": _content(attachment, "text"),
            "blocks": [block for one in (attachment, *inner) for block in objects_at(one, "blocks")],
            "attachments": [
                {key: attachment[key] for key in _OF_FORWARDS if key in attachment},
                *(nested for one in (attachment, *inner) for nested in objects_at(one, "attachments")),
            ],
            "files": attachment.get("files"),
        },
        depth - 1,
    )
    names = (label("file", file_name(file)) for file in objects_at(attachment, "files"))
    own = said.text.removesuffix(said.quoted).rstrip("\n")
    body = "\n".join(spoken([own, *names, said.quoted])) or _content(attachment, "fallback")
    named = next(filter(None, (text_at(attachment, f"author_{key}") for key in ("name", "subname", "id"))), "")
    origin = ", ".join(filter(None, (one_line(named), _time(attachment))))
    head = with_link(f"[forwarded: {origin}]" if origin else "[forwarded]", text_at(attachment, "from_url"))
    return "\n".join(filter(None, (head, quote_lines(body))))


_NAMES: Final[Mapping[str, str]] = {
    "tombstone": "a deleted file",
    "hidden_by_limit": "a file that the workspace's limits hide",
    "file_access": "a file of another workspace that Slack does not show",
}
"""The names of files, by mode, of which Slack tells no name."""


def file_name(file: JsonObject) -> str:
    """Returns the name of a file."""
    named = text_at(file, "name") or text_at(file, "title") or _NAMES.get(text_at(file, "mode"))
    return named or text_at(file, "id")


def transcript(file: JsonObject) -> JsonObject:
    """Returns Slack's transcript of a clip as far as Slack shows it: its ``content``, and whether it ``has_more``."""
    return object_at(object_at(file, "transcription"), "preview")


def cue_texts(vtt: str) -> str:
    """Returns the texts of a transcript in the format WebVTT, one cue a line."""
    cues = (cue.partition("-->")[2].partition("\n")[2] for cue in _CUE_END.split(vtt.replace("\r\n", "\n")))
    return "\n".join(cue.strip().removeprefix("- ") for cue in spoken(cues))


def _speech(file: JsonObject) -> str:
    """Returns Slack's transcript of a voice or video clip, which may come later than the clip."""
    if "transcription" not in file and text_at(file, "subtype") not in ("slack_audio", "slack_video"):
        return ""
    words, name = escape(text_at(transcript(file), "content")), one_line(file_name(file))
    if not words.strip():
        return f"[spoken: {name}, without a transcript by Slack so far]"
    return _said_in(f"spoken: {name}, as transcribed by Slack", words, is_cut=transcript(file).get("has_more") is True)


def _mail(file: JsonObject) -> str:
    """Returns an e-mail to a channel. https://slack.com/help/articles/206819278-Send-emails-to-Slack"""
    if "email" not in (text_at(file, "mode"), text_at(file, "filetype")):
        return ""
    whole, most = text_at(file, "plain_text"), text_at(file, "preview_plain_text")
    senders = ", ".join(filter(None, map(_address, objects_at(file, "from")))) or "an unknown sender"
    head = one_line(f"e-mail from {senders}, subject: {text_at(file, 'subject') or file_name(file)}")
    return _said_in(head, escape(whole or most), is_cut=not whole and file.get("has_more") is True)


def _pasted(file: JsonObject) -> str:
    """Returns the beginning of a pasted text (snippet), as people see it in Slack."""
    words, rest = escape(text_at(file, "preview")), file.get("lines_more") or file.get("preview_is_truncated")
    is_shown = words.strip() and text_at(file, "mode") == "snippet"
    return _said_in(f"pasted: {one_line(file_name(file))}", words, is_cut=bool(rest)) if is_shown else ""


def _address(one: JsonObject) -> str:
    name, address = text_at(one, "name"), text_at(one, "address")
    return f"{name} ({address})" if name and address else name or address or text_at(one, "original")


def _said_in(head: str, words: str, *, is_cut: bool) -> str:
    rest = "[the rest is in the file]" if is_cut else ""
    return "\n".join(filter(None, (f"[{head}]", quote_lines(words), rest)))
