"""The rules that the twin and the writing of answers rely on, as calls to Slack in one thread.

A call is a method with its arguments; ``channel`` and ``thread_ts`` are added, and ``$ts`` is the timestamp of the
rule's last message, ``$me`` the app's user id, ``$here`` the channel. https://docs.slack.dev/reference/methods
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Call = tuple[str, Mapping[str, Any]]

_TARGET: Final = "https://example.com/?a=1&b=2"
_ESCAPED: Final = "https://example.com/?a=1&amp;b=2"
_TABLE: Final = "| a | b |\n|---|---|\n| 1 | 2 |"
_CELL: Final = {"type": "raw_text", "text": "x"}
_CARD: Final = {"type": "task_update", "id": "t1", "title": "Look it up", "status": "in_progress"}
_DONE: Final = {"type": "task_update", "id": "t1", "title": "Look it up", "status": "complete"}


def _text(text: str, **more: object) -> tuple[Call, ...]:
    return (("chat.postMessage", {"text": text, **more}),)


def _blocks(*blocks: Mapping[str, Any], text: str = "text") -> tuple[Call, ...]:
    return (("chat.postMessage", {"text": text, "blocks": list(blocks)}),)


def _markdown(text: str) -> tuple[Call, ...]:
    return _blocks({"type": "markdown", "text": text})


def _section(text: str) -> tuple[Call, ...]:
    return _blocks({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})


def _stream(*calls: Call) -> tuple[Call, ...]:
    return (("chat.startStream", {"markdown_text": "Begun. "}), *calls)


def _append(**more: object) -> Call:
    return ("chat.appendStream", {"ts": "$ts", **more})


_STOP: Final[Call] = ("chat.stopStream", {"ts": "$ts"})

UPLOAD: Final = "files.completeUploadExternal"
"""Made with the calls before it; its arguments are those of ``files_upload_v2``."""

RULES: Final[Mapping[str, tuple[Call, ...]]] = {
    "text: entities": _text("a &amp; b &lt;c&gt; & d < e"),
    "text: entities twice": _text("&amp;lt;!channel&amp;gt;"),
    "text: a link with an escaped target": _text(f"<{_ESCAPED}|label>"),
    "text: a link with a raw target": _text(f"<{_TARGET}|label>"),
    "text: a bare address": _text(f"see {_ESCAPED} and {_TARGET}"),
    "text: mentions of the app and of a channel": _text("<@$me> <#$here> <@U000000000> <#C000000000>"),
    "text: an escaped mention of everybody": _text("&lt;!channel&gt; @\u2060channel"),
    "text: a date": _text("<!date^1700000000^{date_short_pretty} {time}|then>"),
    "text: emoji and tildes": _text(":tada: ~gone~ ~~twice~~ ~5 to ~6"),
    "text: 4,001 characters": _text("x" * 4_001),
    "text: 40,001 characters": _text("x" * 40_001),
    "text: empty": _text(""),
    "section: a link with an escaped target": _section(f"<{_ESCAPED}|label> &amp;"),
    "section: 3,001 characters": _section("x" * 3_001),
    "blocks: 51 of them": _blocks(*[{"type": "divider"}] * 51),
    "blocks: an unknown type": _blocks({"type": "nothing_known"}),
    "blocks: rich text with a raw ampersand": _blocks(
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "a & <b>"}]}],
        }
    ),
    "blocks: two tables": _blocks(*[{"type": "table", "rows": [[_CELL]]}] * 2),
    "blocks: a table of 101 rows": _blocks({"type": "table", "rows": [[_CELL]] * 101}),
    "blocks: a table of 21 columns": _blocks({"type": "table", "rows": [[_CELL] * 21]}),
    "attachment: a named colour": _text("a", attachments=[{"color": "good", "text": "b", "fallback": "c"}]),
    "metadata": _text("a", metadata={"event_type": "selftest", "event_payload": {"key": "1"}}),
    "markdown: a link with a raw target": _markdown(f"[label]({_TARGET}) a &amp; b"),
    "markdown: a link with an escaped target": _markdown(f"[label]({_ESCAPED})"),
    "markdown: angle, image, bare and reference": _markdown(
        f"<{_TARGET}> ![i]({_TARGET}) {_TARGET} [x][1]\n\n[1]: {_TARGET}"
    ),
    "markdown: an escaped mention of everybody": _markdown("&lt;!channel&gt; &lt;@$me&gt;"),
    "markdown: a mention of the app": _markdown("<@$me> <#$here>"),
    "markdown: tildes": _markdown("~one~ ~~two~~ ~5 to ~6"),
    "markdown: emphasis beside wide characters": _markdown("これは**「太字」**です これは\u200a**「太字」**\u200aです"),
    "markdown: a fence with entities": _markdown("```py\na &amp; b &lt; c\n```"),
    "markdown: a table": _markdown(_TABLE),
    "markdown: two tables": _markdown(f"{_TABLE}\n\nand\n\n{_TABLE}"),
    "markdown: a table of 101 rows": _markdown("|a|b|\n|-|-|\n" + "|1|2|\n" * 101),
    "markdown: a table of 21 columns": _markdown("|a" * 21 + "|\n" + "|-" * 21 + "|\n" + "|1" * 21 + "|"),
    "markdown: 12,001 characters": _markdown("word " * 2_400 + "x"),
    "file: with a comment": ((UPLOAD, {"filename": "a & b.md", "content": "a & b", "initial_comment": "a &amp; b"}),),
    "update: of text and blocks": (*_text("before"), ("chat.update", {"ts": "$ts", "text": "a &amp; b", "blocks": []})),
    "update: of a message that does not exist": (("chat.update", {"ts": "1000000000.000001", "text": "a"}),),
    "reaction: an unknown name": (*_text("a"), ("reactions.add", {"timestamp": "$ts", "name": "no_such_emoji_here"})),
    "reaction: twice": (*_text("a"), *[("reactions.add", {"timestamp": "$ts", "name": "eyes"})] * 2),
    "delete: twice": (*_text("a"), *[("chat.delete", {"ts": "$ts"})] * 2),
    "stream: text in pieces": _stream(
        _append(markdown_text=f"[label]({_TARGET}) &amp; "), _append(markdown_text="end"), _STOP
    ),
    "stream: text and cards": _stream(_append(chunks=[_CARD, {"type": "markdown_text", "text": "a"}, _DONE]), _STOP),
    "stream: both kinds of content": _stream(_append(markdown_text="a", chunks=[_CARD]), _STOP),
    "stream: 12,001 characters": _stream(_append(markdown_text="word " * 2_400 + "x"), _STOP),
    "stream: two tables": _stream(
        _append(markdown_text=f"\n\n{_TABLE}\n\n"), _append(markdown_text=f"{_TABLE}\n"), _STOP
    ),
    "stream: after its end": _stream(_STOP, _append(markdown_text="late")),
    "stream: updated while it grows": _stream(("chat.update", {"ts": "$ts", "text": "new"}), _STOP),
    "stream: updated after its end": _stream(_STOP, ("chat.update", {"ts": "$ts", "text": "new"})),
}
"""By name: what is tried."""

ONLY_PEOPLE: Final = dict.fromkeys(
    ("forwarded messages", "pasted tables", "voice and video clips", "e-mails to a channel"),
    "only people can post this",
)
"""What no app can try."""
