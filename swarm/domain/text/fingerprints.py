"""Fingerprints of alerts, which are equal only for the same alert, and the resolved state of edited alerts.

Two alerts are the same if they are equal, letter by letter, after times, durations, percentages, measured figures and
ids of the moment are removed. A bare integer, money, a version and a part of a path or a name are never removed: a
build, a tenant or a port is what the alert is about. In doubt it is a new alert, because a repeat reaches no agent.

`_TOKEN` therefore lists first what is kept whole although it looks like a figure, then what is removed, and last the
words: a figure inside a word, such as that of ``last_5m`` or ``i-0a1b2c3d4e5f60718``, belongs to a name.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import orjson

MOST_CHARACTERS: Final = 20_000
"""A longer text equals no other: what is read of a message may be cut."""

_START: Final = r"(?<![^\W_])(?<![^\W_]_)(?<![-./@\\])"  # not inside a word, a name or a path; italics begin with "_"
_END: Final = r"(?![^\W_]|_\w|[-./@\\:]\w)"
_NUMBER: Final = r"[-+±]?\d{1,20}(?:,\d{3}){0,5}(?:[.,]\d{1,20})?(?:e[-+]?\d{1,3})?"
_DECIMAL: Final = r"[-+]?\d{1,20}(?:(?:,\d{3}){0,5}\.\d{1,20}(?:e[-+]?\d{1,3})?|e[-+]\d{1,3})"
_CURRENCY: Final = r"(?:[$€£¥₹]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|BRL|cents?|dollars?|euros?)(?![A-Za-z]))"
_KEY: Final = r"""["'`*_]{0,3}\s?[:=]?\s?["'`*_]{0,3}"""

_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DAY: Final = rf"""(?:
      (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},?\s)?
      (?:\d{{4}}-\d\d-\d\d|\d{{4}}/\d\d/\d\d|\d\d?[/.]\d\d?[/.]\d{{4}}
        |\d\d?[/](?:{_MONTH}|\d\d)[/]\d\d(?:\d\d)?(?=[:\s]\d\d?:)
        |{_MONTH}\s+\d\d?(?:st|nd|rd|th)?(?:,?\s\d{{4}})?|\d\d?(?:st|nd|rd|th)?\s{_MONTH}(?:,?\s\d{{4}})?)
    )"""
_CLOCK: Final = (
    r"(?:(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:\s?[APap]\.?[Mm]\b)?|\d\d?\s?[APap][Mm]\b)"
    r"(?:\s?(?:Z|UTC|GMT|[-+]\d\d:?\d\d)\b)?"
)
_MOMENT: Final = rf"(?:{_DAY}(?:(?:T|,?\sat\s|,?\s+|:){_CLOCK}|\s{_CLOCK}\s\d{{4}})?|(?<!\w:){_CLOCK})"
_IN_SECONDS: Final = r"[12]\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d{1,9})?"
_HEX: Final = r"(?:0x)?(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{16,}"
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_LONG_TIME: Final = r"(?:[mµun]s|(?:milli)?sec(?:ond)?s?|mins?|minutes?|hrs?|hours?|days?|weeks?)"
_BYTES: Final = r"(?:(?:[kKMGTPE]i?|)(?:[bB]its?|[bB]ytes?)|[kKMGTPE]i?[Bb]|[KMGTPE]i)"
_PER: Final = r"(?:\s?/\s?|\s?per\s)(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)"
_RATE: Final = rf"[kKM]?\s?(?:[rqtpbfi]ps|[KMGTk]i?bps|iops|IOPS|rpm|bpm|{_BYTES}{_PER}|(?:[A-Za-z]{{1,15}})?{_PER})"
_HEAT: Final = r"(?:°\s?[CFK]?|℃|℉|(?i:degrees?(?:\s(?:C|F|celsius|fahrenheit))?|celsius|fahrenheit))"
_OTHERS: Final = (
    r"(?:[KMGTB]|x|v?cores?|v?CPUs?|[mk]?[VWA]|[kM]Wh?|dBm?|[kM]?Hz|ppm|bar|[hk]?Pa|psi|[mck]?m|[mk]?g|m?l)"
)
_UNIT: Final = rf"(?:\s?(?:%|‰|percent\b|pct\b|{_HEAT}|{_RATE}|{_BYTES}|{_LONG_TIME}|[sh])|[mdw])"
_FIGURE: Final = rf"""(?:
      (?![1-5]\d\d\s?(?:errors?|responses?)\b)(?:\d{{1,20}}\s?[-–]\s?)?{_NUMBER}{_UNIT}(?![^\W_])
    | {_DECIMAL}\s?{_OTHERS}(?![^\W_])
    | (?:\d{{1,6}}(?:ms|[wdhms])){{2,6}}
    | P(?:\d{{1,6}}D)?T(?:\d{{1,6}}(?:\.\d{{1,9}})?[HMS]){{1,3}}
    )"""
_VERSIONS: Final = (
    r"versions?|release|revision|tag|commit|sha\d{0,3}|digest|image|build|http|status|code|port|line|partition|dt|ds"
    "|python|php|node|java|ruby|kernel|schema|api"
)
_PRICES: Final = "amount|price|cost|total|balance|fee|spend|budget|credit|charge"

_TOKEN: Final = re.compile(
    rf"""
      (?P<link>https?://[^\s<>|"]+)
    | (?P<kept>
        \b[\w.-]{{0,40}}(?:(?i:{_VERSIONS}){_KEY}(?!{_NUMBER}\s?(?:%|{_BYTES}(?!\w)))|(?i:{_PRICES}){_KEY}(?!{_FIGURE}))
            (?:v?\d|[0-9a-f]{{16}})[\w.,:-]*
      | (?i:for|of)\s\d{{4}}-\d\d-\d\d(?!T|\s+\d\d?:)
      | [\w.-]{{1,40}}:\d{{4}}-\d\d-\d\d(?!T|\s+\d\d?:)
      | {_CURRENCY}\s?[-+]?\d[\d.,]*\s?[kKmMbB]?n?
      | [-+]?\d[\d.,]{{0,30}}\s?[kKmMbB]?n?\s?{_CURRENCY}
      | \[\d{{1,4}}[smhdw](?::\d{{0,4}}[smhdw]?)?\]
      )
    | (?P<removed>
        <!date\^[^>]*>
      | {_START}(?:
            {_MOMENT}(?:\s?[-–]\s?{_MOMENT})?
          | \d{{8}}T\d{{4,6}}Z?
          | 1[5-9]\d{{8}}\.\d{{3,9}}
          | {_FIGURE}(?:\s?[-–/]\s?{_FIGURE}|\s{_FIGURE}){{0,6}}
          | (?i:(?:(?:req|request|trace|span|event|session|correlation|msg|txn?)[-_])?(?:{_UUID}|{_HEX}))
        ){_END}
      )
    | (?P<key>
          (?i:\b(?:values?|current(?:ly)?)\b(?:\s(?:value|of|is|was|now|at)\b){{0,3}}{_KEY}\(?|=\s?["'`*]?)
          (?={_DECIMAL}(?!\s?{_CURRENCY}){_END})
        | (?:\b(?i:ts|time|timestamp|epoch|at|since)|\w{{0,40}}(?:[a-z](?:At|Time|Timestamp)|_(?i:at|ts|time)))
          {_KEY}(?={_IN_SECONDS}{_END})
      )(?:{_DECIMAL}|{_IN_SECONDS})
    | (?P<word>(?:[~.]{{0,2}}/)?[^\W_]\w*(?:[-./@\\]+\w+)*)
    """,
    re.VERBOSE,
)
_COLOUR: Final = re.compile(r'"color":"(#?\w+)"')
_OVER: Final = "resolved|recovered|recovery|solved|closed|cleared|ok|normal|healthy|fixed|up"
_ON: Final = r"firing|alerting|alarm|triggered|problem|critical|warning|warn|error|down|open|opened|reopened|no\sdata"
_UNSAID: Final = re.compile(r"~[^~\n]+~|<[^<>|\n]*\|")  # struck out, or the address of a link with a label
_HEAD: Final = re.compile(
    rf"""
    ^(?::[\w+-]{{1,40}}:|[^\w\n]){{0,20}}?(?:
      (?:(?P<over>{_OVER})|(?:{_ON}))\b
        (?!\s{{0,5}}(?:\?|:\s*(?:no|not|none|false|never|0)\b|:\s+\d))
        (?=[ \t]{{0,5}}(?:$|[^\w\s]|(?:by|at|in|on|after)\b))
    | (?P<green>🟢|:large_green_circle:)
    )""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_STATUS: Final = re.compile(
    rf"""
    (?:^|[|,;·]|[ ][ ])[^\w\n|]{{0,20}}
    (?:(?P<status>(?:\w{{1,20}}[ ])?(?:status|state)(?:[ ]change)?)|alert|incident|monitor)[*_`]*[ ]?[:=\n]
    [^\w\n]{{0,20}}(?:\w{{1,20}}[ ]?(?:->|→|=>|-&gt;|=&gt;)[^\w\n]{{0,20}})?
    (?:(?P<over>(?:{_OVER}|done))|(?(status)\w+|(?:{_ON})))\b
    (?=[^\w\n]{{0,20}}(?:$|[|,;·(]|[ ][ ]|(?:by|at|in|on|after|since)\b))
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_PREVIEW: Final = frozenset({"from_url", "original_url", "is_share"})
_RGB: Final = re.compile(r"#?([0-9a-f]{1,2})([0-9a-f]{1,2})([0-9a-f]{1,2})", re.IGNORECASE)
_CLEARLY: Final = 1.2


def fingerprint(bot: str, text: str, attachments: str = "") -> str | None:
    """Returns the fingerprint of a bot's alert; None if nothing names what it is about, or if it may be cut.
    ``attachments`` are JSON text.
    """
    kept = " ".join(_TOKEN.sub(_kept, text).split()) if len(text) <= MOST_CHARACTERS else ""
    if not any(map(str.isalnum, kept)):
        return None
    colours = _COLOUR.findall(attachments)
    return hashlib.sha256("\n".join([bot, kept, *colours]).encode("utf-8", "replace")).hexdigest()


def _kept(found: re.Match[str]) -> str:
    """Returns the part of a token that is the same in each repeat."""
    if found["link"]:
        address, hash_mark, fragment = found["link"].partition("#")
        return address.partition("?")[0] + hash_mark + fragment
    return "" if found["removed"] else found["key"] or found.group()


def turned_resolved(previous_text: str | None, text: str, attachments: str = "") -> bool:
    """Whether an edit says that an alert is over: by a state that was not there before, or by the colour green.

    ``attachments`` are JSON text. Previews of links have colours of their own, which say nothing.
    """
    return (_is_over(text) and not _is_over(previous_text or "")) or _is_green(_own_colours(attachments))


def _is_over(text: str) -> bool:
    """Whether an alert's status fields, or without any its first state word at the head of a line, say that it is over.
    A word within a sentence says nothing: "not resolved", "0 resolved", "connections closed".
    """
    shown = _UNSAID.sub("", text[:MOST_CHARACTERS])
    fields = [bool(found["over"]) for found in _STATUS.finditer(shown)]
    head = _HEAD.search(shown)
    return all(fields) if fields else bool(head and (head["over"] or head["green"]))


def _own_colours(attachments: str) -> list[str]:
    try:
        found = orjson.loads(attachments)
    except orjson.JSONDecodeError:  # none, or cut
        return []
    objects = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [str(one.get("color")) for one in objects if not _PREVIEW & one.keys()]


def _is_green(colours: list[str]) -> bool:
    """Whether a message is green: a part of it is ``good`` or clearly green, and no part is red or yellow."""
    hues = {_hue(colour) for colour in colours}
    return "green" in hues and "red" not in hues


def _hue(colour: str) -> str:
    if not (found := _RGB.fullmatch(colour)):
        return {"good": "green", "warning": "red", "danger": "red"}.get(colour, "")
    red, green, blue = (int(part * (3 - len(part)), 16) for part in found.groups())
    return "green" if green > _CLEARLY * max(red, blue) else "red" if red > _CLEARLY * blue else ""
