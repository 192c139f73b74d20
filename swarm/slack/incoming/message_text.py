"""The readable text of a message: its text, blocks and attachments, each content once.

People write texts; their blocks have the same content. Bots put a fallback for notifications into ``text`` and the
content into blocks and attachments, in any mixture. So the content of a bot's blocks and attachments is added unless
the text has it already, and a text that is only the beginning or a part of them is left out.

A forwarded message is an attachment, too. Its author is another person, so it is marked as a quotation, and its
mentions address nobody. Previews of links are left out: they hold a page's words, come later than the message, and the
link is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.threads import AuthorKind
from swarm.slack.incoming.block_text import block_pieces, label, moment, titled
from swarm.slack.incoming.fields import JsonObject, object_at, objects_at, text_at

MAX_ADDED_CHARACTERS: Final = 40_000
"""How many characters of blocks and attachments are added to a text: Slack's limit for a text."""

_MOST_ATTACHMENTS: Final = 200  # Slack takes a hundred
_NO_PREVIEW: Final = "[no preview available]"
_MOST_PIECES: Final = 500  # fifty blocks and a hundred attachments have fewer
_MARKUP = re.compile(r"[*_~`•\s]|&gt;|\[(?:image|button|choice|video|file): |\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageText:
    """The text of a message. ``quoted`` is the forwarded end of ``text``; it may be empty."""

    text: str
    quoted: str = ""


def message_words(message: JsonObject, kind: AuthorKind) -> MessageText:
    """The text of a message object. Of our own posts only ``text`` counts: their blocks add buttons and footers."""
    text = text_at(message, "text")
    if kind is AuthorKind.AGENT and text.strip():
        return MessageText(text=text)
    attachments = objects_at(message, "attachments")[:_MOST_ATTACHMENTS]
    pieces = [] if kind is AuthorKind.USER and text.strip() else block_pieces(message)
    pieces += [piece for one in attachments if not _is_others(one) for piece in _attachment(one)]
    own = _joined(text, pieces)
    forwarded = [one for one in attachments if _is_others(one) and (one.get("is_share") is True or not own.strip())]
    quoted = _bounded([_quotation(one) for one in forwarded])
    return MessageText(text="\n".join(filter(None, (own, quoted))), quoted=quoted)


def _is_others(attachment: JsonObject) -> bool:
    """Whether the attachment shows foreign content: a forwarded message, or the preview of a link."""
    return attachment.get("is_share") is True or bool(
        text_at(attachment, "from_url") or text_at(attachment, "original_url")
    )


def _joined(text: str, pieces: list[str]) -> str:
    """The text, with missing pieces below; the pieces alone, if they contain the text."""
    below = _bounded(pieces)
    if not text.strip() or not below:
        return text if text.strip() else below
    said = _bare(text[:MAX_ADDED_CHARACTERS])
    if text.rstrip().endswith(("…", "...")):
        said = said[: said.rstrip().rfind(" ") + 1]  # the last word may be cut
    if said in _bare(below):
        return below
    new = _bounded([piece for piece in pieces[:_MOST_PIECES] if _bare(piece) not in said])
    return "\n".join(filter(None, (text, new)))


def _bare(text: str) -> str:
    """The words alone, without markup and punctuation, between spaces, to compare texts word by word."""
    words = (word.strip(".,:;!?…") for word in _MARKUP.sub(" ", text).split())
    return f" {' '.join(filter(None, words))} ".casefold()


def _bounded(pieces: list[str]) -> str:
    text = "\n".join(piece for piece in pieces if piece.strip())
    if len(text) <= MAX_ADDED_CHARACTERS:
        return text
    left_out = len(text) - MAX_ADDED_CHARACTERS
    return f"{text[:MAX_ADDED_CHARACTERS]}…\n[{left_out} more characters of blocks and attachments are left out]"


def _attachment(attachment: JsonObject) -> list[str]:
    """https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments"""
    fields = (
        ": ".join(filter(None, (text_at(field, "title"), text_at(field, "value"))))
        for field in objects_at(attachment, "fields")
    )
    told = [
        text_at(attachment, "pretext"),
        text_at(attachment, "author_name"),
        titled(text_at(attachment, "title"), text_at(attachment, "title_link")),
        text_at(attachment, "text"),
        *fields,
        *block_pieces(attachment),
    ]
    if not any(piece.strip() for piece in told):
        told = [fallback for fallback in (text_at(attachment, "fallback"),) if fallback != _NO_PREVIEW]
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
    pieces = [*told, file, label("image", text_at(attachment, "image_url")), *buttons]
    if not any(piece.strip() for piece in (*pieces, footer)):
        return []
    return [*pieces, " · ".join(filter(None, (footer, _time(attachment))))]


def _time(attachment: JsonObject) -> str:
    """The time in an attachment, a number or a timestamp."""
    ts = attachment.get("ts")
    return moment(ts) if isinstance(ts, str | int | float) and not isinstance(ts, bool) else ""


def _quotation(attachment: JsonObject) -> str:
    """A forwarded message with its author and time, each line marked as a quotation in Slack's way."""
    origin = ", ".join(filter(None, (text_at(attachment, "author_name"), _time(attachment))))
    head = titled(f"[forwarded: {origin}]" if origin else "[forwarded]", text_at(attachment, "from_url"))
    body = text_at(attachment, "text")
    if not body.strip():
        inner = [object_at(holder, "message") for holder in objects_at(attachment, "message_blocks")]
        body = "\n".join(piece for message in inner for piece in block_pieces(message))
    body = body if body.strip() else text_at(attachment, "fallback")
    files = [label("file", text_at(file, "name")) for file in objects_at(attachment, "files")]
    lines = [*body.splitlines(), *filter(None, files)]
    return "\n".join([head, *(f"&gt; {line}" for line in lines)])
