"""Text to and from Slack: safe text to post, and readable text from Slack's format.

Slack gives ``<…>`` a meaning (a link, a mention, a ping to everyone) and has three escapes, ``&amp; &lt; &gt;``.
Agents' text is not trusted to use them: `safe` escapes everything and restores only checked constructs. A link is
deceptive if its label names a different host from its target. `readable` replaces ids with names and entities with
characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping
from typing import Final

from swarm.domain.text.cutting import INLINE_CODE, code_blocks
from swarm_base.characters import strip_invisible
from swarm_base.secrets import without_secrets

_SUFFIXES: Final = re.compile(
    "com|org|net|edu|gov|mil|int|info|biz|name|pro|app|dev|cloud|tech|online|site|store|shop|xyz|top|club|live|news|"
    "blog|page|link|click|web|bank|finance|money|support|email|zone|world|today|example|test|invalid|localhost|local|"
    "internal|corp|home|lan|onion|xn--.*"
)
_FILES: Final = re.compile("cc|cs|db|go|hs|js|kt|md|ml|mm|nu|pl|ps|py|rb|rs|sh|so|st|tf|ts|vb")
"""Country domains that are also file suffixes: ``README.md`` in a label is a file."""

_DOTS: Final = str.maketrans(dict.fromkeys("\u3002\u00b7\u2027\u2219\u22c5\u06d4\u0701\ua4f8\u2022\u30fb", "."))
"""Characters that look like the dot of a host's name, after NFKC, which maps the others; browsers read some as dots."""

_MARKS: Final = re.compile(r"[*~`\\]|(?<!\w)_+|_+(?!\w)")  # formatting in a label, which readers do not see
_HOST: Final = re.compile(
    r"(?<![\w@./-])(?P<sure>[a-z][a-z0-9+.-]{0,20}://(?:[^\s/@]{0,200}@)?|www\.)?"
    r"(?P<host>(?:[^\W_][\w-]{0,62}\.){1,8}(?P<suffix>[^\W\d_]{2,24}|xn--[a-z0-9-]{1,60}))(?![\w-])",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"(?P<scheme>https?://)(?P<authority>[^/?#\\]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_MAIL: Final = re.compile(r"mailto:[^?]*@(?P<host>[^?@]+)", re.IGNORECASE)


def _real_target(label: str, url: str) -> str | None:
    """Returns the address to show next to a label that names a different host from the link's; None for an honest
    label.
    """
    host = _host_of(url)
    if host is None or all(_is_same(named, host) for named in _hosts_in(label)):
        return None
    return _plain_address(url, whole=True)


def _plain_address(url: str, *, whole: bool = False) -> str:
    """Returns an address without a user part that imitates a host.

    With ``whole`` the host is also written in ASCII, as browsers do for letters of similar scripts.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return url
    user, at, host = found["authority"].rpartition("@")
    host = _in_ascii(host) if whole else host
    return f"{found['scheme']}{'' if '.' in user else user + at}{host}{found['rest']}"


def _host_of(url: str) -> str | None:
    if found := _ADDRESS.fullmatch(url):
        return _bare(found["authority"].rpartition("@")[2].partition(":")[0])
    found = _MAIL.match(url)
    return _bare(found["host"]) if found else None


def _hosts_in(label: str) -> Iterator[str]:
    for found in _HOST.finditer(unicodedata.normalize("NFKC", _MARKS.sub("", label)).translate(_DOTS)):
        suffix = found["suffix"].lower()
        is_country = len(suffix) == 2 and not _FILES.fullmatch(suffix)
        if found["sure"] or is_country or _SUFFIXES.fullmatch(suffix) or not suffix.isascii():
            yield _bare(found["host"])


def _is_same(named: str, host: str) -> bool:
    """Whether the hosts are equal or one is a subdomain of the other."""
    return named == host or host.endswith(f".{named}") or named.endswith(f".{host}")


def _bare(host: str) -> str:
    return _in_ascii(host.lower()).strip(".").removeprefix("www.")


def _in_ascii(host: str) -> str:
    host = unicodedata.normalize("NFKC", host).translate(_DOTS)
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def preview(text: str, limit: int = 200) -> str:
    """Returns the first ``limit`` characters of a message, without invisible characters; ends in … if it is cut."""
    shown = strip_invisible(text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def title_of(text: str, limit: int = 60) -> str:
    """Returns the beginning of a message as one line of at most ``limit`` characters, cut between words.

    Without a leading mention, secrets and invisible characters; empty for a message without text.
    """
    line = " ".join(without_secrets(strip_invisible(without_leading_mention(text))).split())
    if len(line) <= limit:
        return line
    words = line[:limit].rsplit(" ", 1)[0] if " " in line[:limit] else line[: limit - 1]
    return words.rstrip(" ,;:.–-")[: limit - 1] + "…"


# --- Safe to post -------------------------------------------------------------------------------------------------

_WORD_JOINER = "\u2060"
# An @ before a name that pings everyone, unless it is part of an e-mail address such as bob@here.org.
_PING = re.compile(
    r"(?:(?<![a-z0-9])|(?!@[a-z]+\.[a-z0-9]))@(?=(?:channel|here|everyone|group)(?![a-z0-9]))", re.IGNORECASE
)
# A Markdown link; brackets or parentheses may contain one nested pair. Every repetition is bounded.
_LABEL = r"(?:[^\[\]\\\n]|\\[^\n]|\[[^\[\]\n]{0,200}\])"
_TARGET = r"(?:https?://|mailto:)[^\s<>()\[\]]{1,1000}(?:\([^\s<>()\[\]]{0,100}\)[^\s<>()\[\]]{0,100}){0,3}"
MARKDOWN_LINK = re.compile(
    rf"\[(?P<shown>{_LABEL}{{1,200}})\]\([ \t]{{0,8}}<?(?P<target>{_TARGET})>?(?P<title>[ \t][^\n)]{{0,200}})?\)",
    re.IGNORECASE,
)
MAY_BE_MARKDOWN_LINK = re.compile(
    rf"\[{_LABEL}{{0,200}}(?:\\|\[[^\[\]\n]{{0,200}}|\]|"
    r"\]\([ \t]{0,8}<?(?P<begun>[^\s\[\]<]{0,1700})(?P<title>[ \t][^\n)]{0,200})?)?\Z"
)
"""The beginning of a Markdown link, up to the end of the text so far."""

_HAIR_SPACE = "\u200a"
_WITHOUT_BLANKS = "\u0e00"  # from here on are the scripts that write no blanks between words or before particles

DEFINITION = re.compile(
    r"(?P<begin>^(?: {0,3}>(?: ?>)*)?[ \t]{0,8}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,8}){0,3})"
    r"(?P<reference>\[[^\[\]\n]{1,999}\]:)"
)
_PROSE = re.compile(
    rf"(?P<code>{INLINE_CODE.pattern})"
    rf"|{DEFINITION.pattern}"
    r"|(?P<quote>^ {0,3}>(?: ?>)*)"
    rf"|(?P<link>{MARKDOWN_LINK.pattern})"
    r"|<(?P<token>[^<>\n]*)>"
    r"|(?P<address>\bhttps?://\w[^\s<>`]*)"
    r"|(?P<marks>\n|(?<!\\)(?:(?<!\*)\*{1,3}(?!\*)|(?<!~)~~(?!~)))",
    re.MULTILINE | re.IGNORECASE,
)
_TARGETS = re.compile(
    rf"(?P<code>{INLINE_CODE.pattern})|(?<=<)\w[^\s<>`|]*|\b(?:[a-z][a-z0-9+.-]{{1,20}}://|mailto:|www\.)[^\s<>`]*",
    re.IGNORECASE,
)
_MENTION = re.compile(r"@(?P<user>[UW][A-Z0-9]+)(?:\|.*)?")
_CHANNEL = re.compile(r"#(?P<channel>[CG][A-Z0-9]+)(?:\|.*)?")
_LINK = re.compile(r"(?P<url>(?:https?://\w|mailto:[^\s<>|`@]+@)[^\s<>|`]+)(?:\|(?P<label>[^|`]*))?", re.IGNORECASE)


_SWAPPED = re.compile(r"(?P<label>[^<>|`@#!][^<>|`]*)\|(?P<url>https?://\w[^\s<>|`]+)", re.IGNORECASE)
"""A link in Slack's format whose label and address stand in each other's place."""


def safe(text: str, mentionable: Container[str] = frozenset()) -> str:
    """Returns an agent's text for Slack: readers see the agent's text, and nobody is pinged.

    ``&``, ``<`` and ``>`` are escaped, including existing escapes, so this must be called only once. The function
    restores http, https and mailto links, mentions of the user ids in ``mentionable``, channel links, and the ``>`` of
    quoted lines, but nothing in code. ``@channel`` and similar words get a word joiner after the ``@``, also in code,
    because Slack decides where code ends. A link whose label names a different host from its address becomes plain text
    followed by its address, and the definition of a reference (``[1]: https://…``), which Slack would hide, is text.
    Invisible characters (`strip_invisible`) and secrets (`without_secrets`) are removed.
    """
    text = without_secrets(strip_invisible(text))
    pieces: list[str] = []
    at = 0
    for block in code_blocks(text):
        pieces += [prose(text[at : block.begin], mentionable), inert(text[block.begin : block.end])]
        at = block.end
    return "".join([*pieces, prose(text[at:], mentionable)])


def escape(text: str) -> str:
    """Escapes Slack's three special characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """Reverses ``escape`` once: ``&amp;lt;`` becomes ``&lt;``."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def prose(text: str, mentionable: Container[str], marks: list[str] | None = None) -> str:
    """Makes text outside code blocks safe. It makes one pass from left to right, so escaped text is never examined
    again. ``marks`` are the marks of emphasis that are open at its beginning; they become those open at its end.
    """
    pieces, at = list[str](), 0
    marks = [] if marks is None else marks
    for found in _PROSE.finditer(text):
        shown = _emphasis(found, marks) if found["marks"] else _checked(found, mentionable)
        pieces += [inert(text[at : found.start()]), shown]
        at = found.end()
    return "".join([*pieces, inert(text[at:])])


def _emphasis(found: re.Match[str], marks: list[str]) -> str:
    """Returns marks of emphasis, with a hair space outside if punctuation stands inside and a letter outside: Markdown
    needs a blank there, and some scripts write none. ``marks`` are the open ones."""
    mark, after = found["marks"], found.string[found.end() : found.end() + 1]
    before = found.string[max(found.start() - 1, 0) : found.start()]
    if mark == "\n":
        marks.clear()
    elif mark in marks and before.strip():
        marks.remove(mark)
        return mark + _blank_between(before, after)
    elif mark not in marks and after.strip():
        marks.append(mark)
        return _blank_between(after, before) + mark
    return mark


def _blank_between(inside: str, outside: str) -> str:
    is_apart = not outside.strip() or unicodedata.category(outside)[0] == "P" or max(inside, outside) < _WITHOUT_BLANKS
    return "" if is_apart or unicodedata.category(inside)[0] not in "PS" else _HAIR_SPACE


def _checked(found: re.Match[str], mentionable: Container[str]) -> str:
    if found["quote"]:
        return found.group()
    if found["reference"]:
        return f"{found['begin']}\\{inert(found['reference'])}"
    if found["address"]:
        return escape(_plain_address(found.group()))
    if found["link"]:
        return _linked(found, mentionable)
    live = _live(found["token"], mentionable) if found["token"] else None
    return inert(found.group()) if live is None else live


def for_markdown(text: str, before: str = "") -> str:
    """Returns a safe text for a ``markdown`` block or ``markdown_text``, where Slack does not decode entities in the
    targets of links, unlike everywhere else. ``before`` is what precedes the text in its message.
    """
    pieces: list[str] = []
    text, at = before + text, len(before)
    for block in code_blocks(text):
        begin, end = max(block.begin, at), max(block.end, at)
        pieces += [_TARGETS.sub(_raw, text[at:begin]), text[begin:end]]
        at = end
    return "".join([*pieces, _TARGETS.sub(_raw, text[at:])])


def _raw(found: re.Match[str]) -> str:
    return found.group() if found["code"] else found.group().replace("&amp;", "&")


def _live(token: str, mentionable: Container[str]) -> str | None:
    """Returns the content of ``<…>`` as Slack's markup; None if it must stay plain text."""
    if mention := _MENTION.fullmatch(token):
        return f"<@{mention['user']}>" if mention["user"] in mentionable else None
    if channel := _CHANNEL.fullmatch(token):
        return f"<#{channel['channel']}>"
    # Links are often copied in Slack's format, with & escaped; both spellings mean the same address.
    link = _LINK.fullmatch(unescape(token)) or _SWAPPED.fullmatch(unescape(token))
    if link is None:
        return None
    shown, url = (link["label"] or "").strip(), escape(_plain_address(link["url"]))
    if real := _real_target(shown, link["url"]):
        return f"{inert(shown)} (<{escape(real)}>)"
    return f"<{url}|{inert(shown)}>" if shown else f"<{url}>"


def _linked(found: re.Match[str], mentionable: Container[str]) -> str:
    """Returns a Markdown link; a deceptive link becomes plain text followed by its address."""
    url = unescape(found["target"])
    before = "x("  # a label never begins a line
    label = prose(before + found["shown"], mentionable)[len(before) :]
    if real := _real_target(unescape(found["shown"]), url):
        return f"{label} ({escape(real)})"
    return f"[{label}]({escape(_plain_address(url))}{inert(found['title'] or '')})"


def inert(text: str) -> str:
    """Returns visible text without active markup, as in code."""
    return _PING.sub("@" + _WORD_JOINER, escape(text))


_TOKEN = re.compile(r"<([^<>\n]+)>")
_ADDRESSED = re.compile(r"^\s*<@[UW][A-Z0-9]*(?:\|[^>]*)?>[\s,:]*")
_USER = re.compile(r"<@([UW][A-Z0-9]*)(?:\|[^>]*)?>")
_CHANNEL_LINK = re.compile(r"<#([CDG][A-Z0-9]+)(?:\|[^>]*)?>")
_NAMED = re.compile(rf"{_USER.pattern}|{_CHANNEL_LINK.pattern}")
_QUOTATION = re.compile(r"^[ \t]*(?:&gt;|>)(?:(?:&gt;|>){2}[\s\S]*|.*)$", re.MULTILINE)
_NOT_IN_JSON = re.compile(r'["\\\x00-\x1f]')


def mentioned_ids(text: str) -> set[str]:
    """Returns the users whose names :func:`readable` requires."""
    return set(_USER.findall(text))


def mentioned_channels(text: str) -> set[str]:
    """Returns the channels that a text links to."""
    return set(_CHANNEL_LINK.findall(text))


def without_quotations(text: str) -> str:
    """Returns a text in Slack's format without the lines in which its author quotes somebody."""
    return _QUOTATION.sub("", text)


def readable(text: str, names: Mapping[str, str]) -> str:
    """Returns ``<@U1> see <https://a.b|this> &amp; <#C1|random>`` as ``@alice see this (https://a.b) & #random``.

    A channel that ``names`` contains is shown with its id, for readers that call tools: ``#random (C1)``.
    """
    return unescape(_TOKEN.sub(lambda found: _word(found.group(1), names), text))


def readable_except_mentions(text: str) -> str:
    """Like `readable`, but mentions of people stay ``<@U…>``, so that they can be erased, and links to channels stay;
    `with_names` names them.
    """
    pieces, at = [], 0
    for found in _NAMED.finditer(text):
        pieces += [readable(text[at : found.start()], {}), f"<@{found[1]}>" if found[1] else found[0]]
        at = found.end()
    return "".join([*pieces, readable(text[at:], {})])


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Returns a text with the names of mentioned people and channels, and nothing else changed. Also safe within a JSON
    string.
    """
    return _NAMED.sub(lambda found: _NOT_IN_JSON.sub("", _word(found[0][1:-1], names)), text)


def with_targets(text: str) -> str:
    """Returns a text in which every link says where it leads, beside its label."""

    def spelled(found: re.Match[str]) -> str:
        link = _LINK.fullmatch(unescape(found[1]))
        return _beside(link["label"] or "", link["url"]) if link else found[0]

    return MARKDOWN_LINK.sub(lambda found: _beside(found["shown"], found["target"]), _TOKEN.sub(spelled, text))


def _beside(label: str, url: str) -> str:
    return url if label.strip() in ("", url) else f"{label.strip()} ({url})"


def without_leading_mention(text: str) -> str:
    """Returns readable text without a leading mention; other people appear by id."""
    return readable(_ADDRESSED.sub("", text), {})


def _word(token: str, names: Mapping[str, str]) -> str:
    target, _, label = token.partition("|")
    match target[:1]:
        case "":
            return label
        case "@":
            return "@" + " ".join((names.get(target[1:]) or label or target[1:]).split())
        case "#":
            channel, name = target[1:], names.get(target[1:], "")
            name = label if name in ("", channel) else name
            return f"#{name} ({channel})" if name and channel in names else f"#{name or channel}"
        case "!":
            return label if label.startswith("@") else "@" + (label or target[1:].partition("^")[0])
        case _:
            address = target.removeprefix("mailto:")
            return f"{label} ({address})" if label and label != address else address
