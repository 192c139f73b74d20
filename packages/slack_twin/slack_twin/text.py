"""Text between a reader and Slack: `@name` and `#channel` stand for `<@U…>` and `<#C…>`, `&`, `<`, `>` are escaped.

Slack's rules: https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Callable

# A name as a reader writes it -> the id, or None when nobody has that name.
Lookup = Callable[[str], str | None]
# An id -> the name a reader sees, or None when it is unknown.
Naming = Callable[[str], str | None]

_TYPED = re.compile(
    r"(?P<code>```.*?```|`[^`\n]+`)"
    r"|(?P<url>\bhttps?://[^\s<>|`]*[^\s<>|`.,;:!?\"')\]])"
    r"|(?<![\w@#.])@(?P<person>[\w][\w.\-]*)"
    r"|(?<![\w@#&])#(?P<channel>[\w][\w\-]*)",
    re.DOTALL,
)
_STORED = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
# What an app writes that Slack takes as it is: mentions and commands, links of any scheme, escaped characters.
_MARKED = re.compile(r"<(?:[@#!][^<>]+|[A-Za-z][\w+.\-]*:[^<>\s][^<>]*)>|&(?:amp|lt|gt);|[&<>]")
_LOOSE_AND = re.compile(r"&(?!(?:amp|lt|gt);)")
_EVERYBODY = {"here": "<!here>", "channel": "<!channel>", "everyone": "<!everyone>"}


def escape(text: str) -> str:
    """The three characters that Slack escapes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def from_app(text: str) -> str:
    """What Slack stores when an app sends `text`: its mentions and links stay, any other `&`, `<`, `>` is escaped."""

    def stored(found: re.Match[str]) -> str:
        return escape(found[0]) if len(found[0]) == 1 else _LOOSE_AND.sub("&amp;", found[0])

    return _MARKED.sub(stored, text)


def from_reader(text: str, people: Lookup, channels: Lookup) -> str:
    """What Slack stores when a person types `text`: mentions, channels and links marked, the rest escaped.

    Code stays as it was typed, and so does a name that nobody has.
    """
    parts, end = [], 0
    for found in _TYPED.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(_stored(found, people, channels))
        end = found.end()
    return "".join(parts) + escape(text[end:])


def _stored(found: re.Match[str], people: Lookup, channels: Lookup) -> str:
    if found["url"]:
        return f"<{escape(found['url'])}>"
    if found["person"]:
        return _mention(found["person"], people) or escape(found[0])
    if found["channel"]:
        channel = channels(found["channel"])
        return f"<#{channel}>" if channel else escape(found[0])
    return escape(found[0])


def _mention(name: str, people: Lookup) -> str | None:
    """The mention of the longest known name that `name` starts with; a full stop after it is not part of it."""
    bare = name.rstrip(".-")
    if bare in _EVERYBODY:
        return _EVERYBODY[bare] + name[len(bare) :]
    for candidate in (name, bare):
        person = people(candidate)
        if person:
            return f"<@{person}>" + escape(name[len(candidate) :])
    return None


def for_reader(text: str, people: Naming, channels: Naming) -> str:
    """What a reader sees of stored `text`: names instead of ids, labels instead of links, entities undone."""

    def shown(found: re.Match[str]) -> str:
        sign, target, label = found[1], found[2], found[3]
        if sign == "@":
            return "@" + (people(target) or label or target)
        if sign == "#":
            return "#" + (channels(target) or label or target)
        if sign == "!":
            return label or "@" + target.split("^")[0]
        return label or target

    return unescape(_STORED.sub(shown, text))


def mentioned(text: str) -> set[str]:
    """The ids of everybody whom stored `text` mentions by `<@U…>`."""
    return {found[2] for found in _STORED.finditer(text) if found[1] == "@"}
