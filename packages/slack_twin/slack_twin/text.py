"""Converts text between readers and Slack: `@name` and `#channel` become `<@U…>` and `<#C…>`.

`&`, `<` and `>` are escaped. Slack's rules: https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Callable

# Returns the id of a typed name, or None if it is unknown.
Lookup = Callable[[str], str | None]
# Returns the displayed name of an id, or None if it is unknown.
Naming = Callable[[str], str | None]

_TYPED = re.compile(
    r"(?P<code>```.*?```|`[^`\n]+`)"
    r"|(?P<url>\bhttps?://[^\s<>|`]*[^\s<>|`.,;:!?\"')\]])"
    r"|(?<![\w@#.])@(?P<person>[\w][\w.\-]*)"
    r"|(?<![\w@#&])#(?P<channel>[\w][\w\-]*)",
    re.DOTALL,
)
_STORED = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
# Markup in an app's text that Slack keeps: mentions and commands, links of any scheme, escaped characters.
_MARKED = re.compile(r"<(?:[@#!][^<>]+|[A-Za-z][\w+.\-]*:[^<>\s][^<>]*)>|&(?:amp|lt|gt);|[&<>]")
_LOOSE_AND = re.compile(r"&(?!(?:amp|lt|gt);)")
LINKS = re.compile(r"https?://[^\s<>|]+")
_EVERYBODY = {"here": "<!here>", "channel": "<!channel>", "everyone": "<!everyone>"}


def escape(text: str) -> str:
    """Escapes the three characters that Slack escapes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def from_app(text: str) -> str:
    """Returns an app's text in Slack's stored format: mentions and links stay, any other `&`, `<`, `>` is escaped."""

    def stored(found: re.Match[str]) -> str:
        return escape(found[0]) if len(found[0]) == 1 else _LOOSE_AND.sub("&amp;", found[0])

    return _MARKED.sub(stored, text)


def from_reader(text: str, people: Lookup, channels: Lookup) -> str:
    """Returns a person's text in Slack's stored format: marks mentions, channels and links, and escapes the rest.

    Code and unknown names stay unchanged.
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
    """Returns the mention of the longest known name at the start of `name`, without a following full stop."""
    bare = name.rstrip(".-")
    if bare in _EVERYBODY:
        return _EVERYBODY[bare] + name[len(bare) :]
    for candidate in (name, bare):
        person = people(candidate)
        if person:
            return f"<@{person}>" + escape(name[len(candidate) :])
    return None


def for_reader(text: str, people: Naming, channels: Naming) -> str:
    """Returns the displayed form of stored `text`: names replace ids, labels replace links, entities are unescaped."""

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
    """Returns the ids of all users that stored `text` mentions with `<@U…>`."""
    return {found[2] for found in _STORED.finditer(text) if found[1] == "@"}
