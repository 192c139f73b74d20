"""Patterns of secrets: the openings of each kind, which are not secret, and the form of the rest.

An opening ends in a fixed character, so that it is found as soon as that character arrives; only then is the following
text examined. Every repetition is bounded, so the time is linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_CHARACTERS: Final = 256
MOST_PEM_CHARACTERS: Final = 16_384

Accepts = Callable[[str, str], bool]
"""Whether a value is a secret, given the value and the character after it (empty at the end of the text)."""

_END: Final = re.compile(r"\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretPattern:
    """A kind of secret."""

    opening: re.Pattern[str]
    body: re.Pattern[str]  # from the opening's end: blanks and quotes, then the group "value"
    accepts: Accepts
    goes_on: re.Pattern[str]  # the rest of a value longer than ``most``; matches nothing if there is none
    most: int = MOST_CHARACTERS
    undecided: re.Pattern[str] = _END  # matches after the body as long as more of it may arrive


def _is_random(value: str) -> bool:
    """Whether a value has letters and digits and differs from names and placeholders (words with a short number)."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_both and not _WORDS.fullmatch(value)


_WORDS: Final = re.compile(r"[A-Za-z]*\d{0,2}(?:[_./-][A-Za-z]*\d{0,2})*")
_PLACEHOLDERS: Final = frozenset({"password", "passwd", "pass", "pw", "secret", "pwd", "xxx", "token", "key"})
_REFERENCE: Final = re.compile(r"[$%/~<{*.]|https?:", re.IGNORECASE)  # a variable, a path, an address


def _token(opening: str, characters: str, least: int, *, is_random: bool = False, shape: str = "") -> SecretPattern:
    whole = re.compile(shape) if shape else None

    def accepts(value: str, after: str) -> bool:
        return len(value) >= least and (not is_random or _is_random(value)) and (not whole or bool(whole.match(value)))

    return _look(rf"(?<![A-Za-z0-9])(?:{opening})", "", characters, accepts)


def _look(opening: str, lead: str, characters: str, accepts: Accepts, most: int = MOST_CHARACTERS) -> SecretPattern:
    return SecretPattern(
        opening=re.compile(opening),
        body=re.compile(rf"{lead}(?P<value>[{characters}]{{0,{most}}})"),
        accepts=accepts,
        goes_on=re.compile(rf"[{characters}]*"),
        most=most,
    )


def _named(value: str, after: str) -> bool:
    """Accepts a value after a secret's name, unless it is code: a call, a variable, another name."""
    return len(value) >= 8 and after not in ("(", "[") and not _REFERENCE.match(value) and _is_random(value)


def _password(value: str, after: str) -> bool:
    """Accepts the password in the user part of an address."""
    return after == "@" and value.lower() not in _PLACEHOLDERS and not _REFERENCE.match(value)


def _sent(value: str, after: str) -> bool:
    return len(value) >= 16 and _is_random(value)


_ALNUM: Final = "A-Za-z0-9"
_WORD: Final = r"A-Za-z0-9_\-"

_TOKENS: Final = (
    _token(r"xox[a-z](?:\.xox[a-z])?-|xapp-", _WORD, 10, is_random=True),  # Slack
    _token("swarm_", _WORD, 24, is_random=True),  # our own
    _token("sk-|lin_api_|sbp_|glsa_|dop_v1_", _WORD, 20, is_random=True),  # models, and others
    _token("gh[pousr]_", _ALNUM, 20),
    _token("github_pat_|dckr_pat_|tskey-|ATATT3|atlasv1\\.|pul-|figd_", _WORD, 20, is_random=True),
    _token("gl(?:pat|ptt|dt|rt|rtr|cbt|agent|oas|soat|ft|imt|ffct)-", rf"{_WORD}.", 16, is_random=True),
    _token("A[KS]IA", "A-Z0-9", 16),  # AWS
    _token("eyJ", rf"{_WORD}.", 16, shape=r"[\w-]{6,}\.[\w-]{6,}"),  # JWT
    _token("hf_|npm_", _ALNUM, 30),
    _token("pypi-", _WORD, 32),
    _token("AIza", _WORD, 30),  # Google
    _token(r"ya29\.|GOCSPX-|hv[sbr]\.", rf"{_WORD}.", 20),
    _token("[rs]k_(?:live|test)_|whsec_", _ALNUM, 10),  # Stripe
    _token(r"SG\.", rf"{_WORD}.", 20, shape=r"[\w-]+\.[\w-]+"),
    _token("dapi|SK", "0-9a-f", 32),  # Databricks, Twilio
    _token("shp(?:at|ca|pa|ss)_", "0-9a-fA-F", 32),
    _token("AGE-SECRET-KEY-1", "A-Z0-9", 40),
    _token(r"hooks\.slack\.com/(?:services|workflows|triggers)/", rf"{_WORD}/", 16),
    _token(r"discord(?:app)?\.com/api/webhooks/", rf"{_WORD}/", 30),
)

_NAMES: Final = (
    r"(?:tokens?|secrets?|passw(?:or)?ds?|passwd|passphrase|pwd|[?&]sig|"
    r"(?:api|access|secret|private|account|auth|signing|encryption)[_-]?keys?)"
)

_OTHERS: Final = (
    _look(rf"(?i:{_NAMES})\\?[\"']?[ \t]{{0,3}}[=:]", r"[=>]?[ \t]{0,8}\\?[\"'`]?", r"^\s\"'`,;<>(){}\[\]|\\…", _named),
    _look(r"(?i:(?<![A-Za-z0-9])(?:bearer|basic))[ \t]", r"[ \t]{0,8}", "A-Za-z0-9._~+/=-", _sent),
    _look(r"://[A-Za-z0-9._~%+-]{0,100}:", "", r"^\s/?#\"'@<>`\\…", _password, most=200),
)

_PEM_NEWLINE: Final = r"(?:\r?\n|\\{1,4}n)"  # escaped in JSON, and in a repr of that
_PEM_HEADER: Final = r"[A-Z][A-Za-z-]{1,30}:[A-Za-z0-9 .,/@<>()_+=-]{0,140}"
_PEM_LINE: Final = rf"[ \t>|]{{0,8}}(?:[A-Za-z0-9+/=]{{1,100}}|{_PEM_HEADER})?[ \t]{{0,8}}{_PEM_NEWLINE}"
_PEM: Final = SecretPattern(
    opening=re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"),
    body=re.compile(
        rf"[ \t]{{0,8}}{_PEM_NEWLINE}?(?P<value>(?:{_PEM_LINE}){{0,400}}[ \t>|]{{0,8}}[A-Za-z0-9+/=]{{0,5000}}"
        r"(?:-----END [A-Z0-9 ]{0,60}-----)?)"
    ),
    accepts=lambda value, after: bool(re.search(r"[A-Za-z0-9+/=]{32}", value)),
    goes_on=re.compile(""),
    most=MOST_PEM_CHARACTERS,
    undecided=re.compile(r"[A-Za-z0-9+/=:,. \t<>|\r\\()@_-]{0,200}\Z"),
)

SECRET_PATTERNS: Final = (*_TOKENS, *_OTHERS, _PEM)
LONGEST_OPENING: Final = 128

MAY_END_OPENING: Final = re.compile(
    r"[-_=:/]|(?:SG|ya29|hv[sbr]|atlasv1)\.|(?i:bearer|basic)[ \t]|A[KS]IA|eyJ|AIza|dapi|SK|TT3"
)
"""The possible ends of an opening; most text has none of them and needs no further search."""

LONGEST_END: Final = 8
