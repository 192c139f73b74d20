"""Removes secrets from user-facing text, in full or in pieces.

Two kinds are removed: values that look like a secret (`SECRET_PATTERNS`), and this process's own secrets (`hide`). A
pattern consists of openings, which are not secret, and the form of the value that follows them. An opening is output at
once; only the value is held back until it is decided. The outputs for a text's pieces equal the output for the complete
text.

An opening ends in a fixed character, so that it is found as soon as that character arrives; only then is the following
text examined. Every repetition is bounded, so the time is linear in the text's length.

The process's own secrets are kept here, once per process, so that every output path removes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

MOST_CHARACTERS: Final = 256
MOST_PEM_CHARACTERS: Final = 16_384

Accepts = Callable[[str, str], bool]
"""Whether a value is a secret, given the value and the character after it (empty at the end of the text)."""

_END: Final = re.compile(r"\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class _SecretPattern:
    opening: re.Pattern[str]
    body: re.Pattern[str]  # from the opening's end: blanks and quotes, then the group "value"
    accepts: Accepts
    goes_on: re.Pattern[str]  # the rest of a value longer than ``most``; matches nothing if there is none
    most: int = MOST_CHARACTERS
    undecided: re.Pattern[str] = _END  # matches after the body if more of the value may follow


def _is_random(value: str) -> bool:
    """Whether a value has letters and digits and differs from names and placeholders (words with a short number)."""
    return bool(_DIGIT.search(value) and _LETTER.search(value)) and not _WORDS.fullmatch(value)


_DIGIT: Final = re.compile(r"[\d¹²³⁰⁴-⁹₀-₉]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORDS: Final = re.compile(r"[A-Za-z]*\d{0,2}(?:[_./-][A-Za-z]*\d{0,2})*")
_PLACEHOLDERS: Final = frozenset({"password", "passwd", "pass", "pw", "secret", "pwd", "xxx", "token", "key"})
_REFERENCE: Final = re.compile(r"[$%/~<{*.]|https?:", re.IGNORECASE)  # a variable, a path, an address


def _token(opening: str, characters: str, least: int, *, is_random: bool = False, shape: str = "") -> _SecretPattern:
    whole = re.compile(shape) if shape else None

    def accepts(value: str, after: str) -> bool:
        return len(value) >= least and (not is_random or _is_random(value)) and (not whole or bool(whole.match(value)))

    return _look(rf"(?<![A-Za-z0-9])(?:{opening})", "", characters, accepts)


def _look(opening: str, lead: str, characters: str, accepts: Accepts, most: int = MOST_CHARACTERS) -> _SecretPattern:
    return _SecretPattern(
        opening=re.compile(opening),
        body=re.compile(rf"{lead}(?P<value>[{characters}]{{0,{most}}})"),
        accepts=accepts,
        goes_on=re.compile(rf"[{characters}]*"),
        most=most,
    )


def _named(value: str, after: str) -> bool:
    """Accepts a value after a secret's name, unless the value is code: a call, a variable, another name."""
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
    _token("swarm_", _WORD, 24, is_random=True),  # the swarm's own
    _token("sk-|lin_api_|sbp_|glsa_|dop_v1_", _WORD, 20, is_random=True),  # models and others
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
    _look(
        rf"(?i:{_NAMES})\\?[\"']?[ \t]{{0,3}}[=:]", r"[=>]?[ \t]{0,8}\\?[\"'`]?", r"^\s\"'`,;&<>(){}\[\]|\\…", _named
    ),
    _look(r"(?i:(?<![A-Za-z0-9])(?:bearer|basic))[ \t]", r"[ \t]{0,8}", "A-Za-z0-9._~+/=-", _sent),
    _look(r"://[A-Za-z0-9._~%+-]{0,100}:", "", r"^\s/?#\"'@<>`\\…", _password, most=200),
)

_PEM_NEWLINE: Final = r"(?:\r?\n|\\{1,4}n)"  # escaped in JSON, or in a repr of JSON
_PEM_HEADER: Final = r"[A-Z][A-Za-z-]{1,30}:[A-Za-z0-9 .,/@<>()_+=-]{0,140}"
_PEM_LINE: Final = rf"[ \t>|]{{0,8}}(?:[A-Za-z0-9+/=]{{1,100}}|{_PEM_HEADER})?[ \t]{{0,8}}{_PEM_NEWLINE}"
_PEM: Final = _SecretPattern(
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
"""The possible ends of an opening. Most text has none of them and needs no further search."""

LONGEST_END: Final = 8


REMOVED: Final = "[secret removed]"

MIN_SECRET_CHARACTERS: Final = 6
"""Shorter secrets are not removed, because this would remove words that happen to contain them."""


class _OwnSecrets:
    """The secrets of this process, and whether removal is enabled."""

    def __init__(self) -> None:
        self.is_on = True
        self.values: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.beginnings: frozenset[str] = frozenset()
        self.longest = 0

    def learn(self, secrets: Iterable[str]) -> None:
        self.values |= {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS}
        longest_first = sorted(self.values, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.beginnings = frozenset(value[:end] for value in self.values for end in range(1, len(value)))
        self.longest = len(longest_first[0]) if longest_first else 0


_own = _OwnSecrets()


def hide(secrets: Iterable[str]) -> None:
    """Adds secrets of this process, which are removed from all later user-facing text."""
    _own.learn(secrets)


def switch(*, on: bool) -> None:
    """Enables or disables the removal of secrets from agents' text; enabled by default."""
    _own.is_on = on


def is_hiding() -> bool:
    """Whether the removal of secrets is enabled."""
    return _own.is_on


def without_secrets(text: str) -> str:
    """Returns a complete text in which `REMOVED` replaces each secret. Idempotent."""
    if not _own.is_on:
        return text
    return without_patterns(_without_own(text))


def without_patterns(text: str, mark: str = REMOVED) -> str:
    """Returns a complete text in which ``mark`` replaces each value that looks like a secret."""
    state, shown = _PatternRemover(mark=mark).feed(text)
    return shown + state.end()[1]


class HiddenPart(NamedTuple):
    """A secret in a text. ``is_plain``: it can be nothing but a secret, so that nothing to decide on is hidden."""

    begin: int
    end: int
    is_plain: bool


def hidden_parts(text: str) -> list[HiddenPart]:
    """Returns the secrets of a complete text, in order. A plain one is a token of a known form, or one of ours."""
    if not _own.is_on:
        return []
    scan = _Scan(_PatternRemover(), text, is_end=True)
    scan.run()
    parts = [HiddenPart(begin, end, _is_plain(text[begin:end], kind)) for begin, end, kind in scan.spans]
    parts += (HiddenPart(*ours.span(), is_plain=True) for ours in (_own.pattern.finditer(text) if _own.pattern else ()))
    found: list[HiddenPart] = []
    for part in sorted(parts):
        if found and part.begin < found[-1].end:
            last = found.pop()
            part = HiddenPart(last.begin, max(part.end, last.end), last.is_plain and part.is_plain)
        found.append(part)
    return found


def _is_plain(value: str, kind: _SecretPattern) -> bool:
    """Whether a secret is the value of a token, or a whole token after a name: "Bearer ghp_…"."""
    is_token = bool(_PLAIN.fullmatch(value)) and not _HOST.search(value)
    return is_token and (kind in _TOKENS or any(_is_whole(value, token) for token in _TOKENS))


def _is_whole(value: str, token: _SecretPattern) -> bool:
    opened = token.opening.match(value)
    body = token.body.fullmatch(value, opened.end()) if opened else None
    return body is not None and token.accepts(body["value"], "")


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.+=-]{1,256}")
_HOST: Final = re.compile(r"\.(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]+)\Z")  # ends like the name of a host


@dataclass(frozen=True, kw_only=True, slots=True)
class _PatternRemover:
    """The removal of values that look like a secret from a text in pieces."""

    mark: str = REMOVED
    seen: str = ""  # the end of the output, in which an opening may have begun
    floor: int = 0  # openings begin at or after this position in ``seen``
    pattern: _SecretPattern | None = None  # its opening was output, and the following value is undecided
    held: str = ""  # the value so far
    drops: _SecretPattern | None = None  # the rest of a removed secret of this kind may follow

    def feed(self, text: str) -> tuple[_PatternRemover, str]:
        """Processes a piece. Returns the text that is definitely not secret."""
        return _Scan(self, text, is_end=False).run()

    def end(self) -> tuple[_PatternRemover, str]:
        """Ends the text. Returns the decided rest."""
        return _Scan(self, "", is_end=True).run() if self.held or self.pattern or self.drops else (self, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Secrets:
    """`without_secrets` for a text in pieces: the joined outputs equal the output for the complete text."""

    mark: str = REMOVED
    pending: str = ""  # possibly the beginning of one of the process's secrets
    patterns: _PatternRemover = field(default_factory=_PatternRemover)

    def feed(self, text: str) -> tuple[Secrets, str]:
        """Processes a piece. Returns the text that is definitely not secret."""
        if not _own.is_on:
            return self, text
        text = self.pending + text
        end = _may_begin(text)
        state, shown = self.patterns.feed(_without_own(text[:end], self.mark))
        return replace(self, pending=text[end:], patterns=state), shown

    def end(self) -> tuple[Secrets, str]:
        """Ends the text. Returns the rest."""
        state, shown = self.patterns.feed(_without_own(self.pending, self.mark))
        state, rest = state.end()
        return replace(self, pending="", patterns=state), shown + rest


_FOUND: Final = "\0\0secret\0\0"
_KINDS: Final = (
    (re.compile(r"A[KS]IA\Z"), "an AWS key"),
    (re.compile(r"(?:xox[a-z](?:\.xox[a-z])?-|xapp-|slack\.com/\S*/)\Z"), "a Slack token"),
    (re.compile(r"(?:gh[pousr]_|github_pat_)\Z"), "a GitHub token"),
    (re.compile(r"swarm_\Z"), "a token of the swarm"),
    (re.compile(r"PRIVATE KEY(?: BLOCK)?-----\s*\Z"), "a private key"),
    (re.compile(r"(?i)(?:passw|pwd|://\S*:)[^\n]*\Z"), "a password"),
    (re.compile(r"(?i)tokens?\W*\Z"), "a token"),
    (re.compile(r"(?i)keys?\W*\Z"), "a key"),
)


class SecretSearch:
    """A search for the first secret in a text in pieces. ``found`` is its line and its kind, for people."""

    def __init__(self) -> None:
        self.found: tuple[int, str] | None = None
        self._secrets = Secrets(mark=_FOUND, patterns=_PatternRemover(mark=_FOUND))
        self._line = 1
        self._before = ""  # the end of the text so far

    def feed(self, text: str, *, is_end: bool = False) -> None:
        """Searches the next piece."""
        if self.found or not _own.is_on:
            return
        self._secrets, safe = self._secrets.feed(text)
        if is_end:
            safe += self._secrets.end()[1]
        before, mark, _ = safe.partition(_FOUND)
        self._line += before.count("\n")
        self._before = (self._before + before)[-LONGEST_OPENING:]
        if mark:
            kind = next((kind for opening, kind in _KINDS if opening.search(self._before)), "a secret")
            self.found = self._line, kind


def _without_own(text: str, mark: str = REMOVED) -> str:
    return _own.pattern.sub(lambda _: mark, text) if _own.pattern else text


def _may_begin(text: str) -> int:
    """Returns the start of a possible unfinished secret of the process; the text's length if there is none."""
    if _own.pattern is None:
        return len(text)
    window = range(max(0, len(text) - _own.longest + 1), len(text))
    begins = [at for at in window if text[at:] in _own.beginnings]
    whole = [found.span() for found in _own.pattern.finditer(text)] if begins else []
    free = (at for at in begins if not any(start < at < end for start, end in whole))
    return next(free, len(text))


class _Scan:
    """A scan of one piece of text from left to right."""

    def __init__(self, state: _PatternRemover, text: str, *, is_end: bool) -> None:
        self._state = state
        self._is_end = is_end
        self._buffer = state.seen + state.held + text
        self._given = len(state.seen)  # everything before this position was output
        self._floor = state.floor
        self._out: list[str] = []
        self._next: list[tuple[int, int, int]] = []  # a heap: the end, place and begin of each pattern's next opening
        self.spans: list[tuple[int, int, _SecretPattern]] = []  # the secrets of this piece

    def run(self) -> tuple[_PatternRemover, str]:
        pattern, drops = self._state.pattern, self._state.drops
        while True:
            if drops and not self._dropped(drops):
                return self._held(drops=drops)
            drops = None
            pattern = pattern or self._opened()
            if pattern is None:
                self._give(len(self._buffer))
                return self._held()
            body = pattern.body.match(self._buffer, self._given)
            assert body is not None  # the pattern matches the empty text
            is_long = len(body["value"]) >= pattern.most
            if not is_long and not self._is_end and pattern.undecided.match(self._buffer, body.end()):
                return self._held(pattern=pattern)
            drops = self._decided(pattern, body)
            pattern = None

    def _decided(self, pattern: _SecretPattern, body: re.Match[str]) -> _SecretPattern | None:
        """Outputs the mark for a secret. Returns the pattern of a secret that may continue, otherwise None."""
        value = body["value"].rstrip(".")
        end = body.start("value") + len(value)
        is_long = len(body["value"]) >= pattern.most  # the following character may be unknown
        after = "" if is_long else self._buffer[body.end() : body.end() + 1]
        self._floor = self._given
        if not pattern.accepts(value, after):
            return None
        self._give(body.start("value"))
        self._out.append(self._state.mark)
        self.spans.append((body.start("value"), end, pattern))
        self._given = self._floor = end
        return pattern if len(value) >= pattern.most else None

    def _dropped(self, pattern: _SecretPattern) -> bool:
        """Drops the rest of a long secret. Returns whether its end was reached."""
        rest = pattern.goes_on.match(self._buffer, self._given)
        self._given = self._floor = rest.end() if rest else self._given
        if self.spans:
            self.spans[-1] = (self.spans[-1][0], self._given, pattern)
        return self._is_end or self._given < len(self._buffer)

    def _opened(self) -> _SecretPattern | None:
        """Outputs the text up to the end of the first opening. Returns its pattern; None without an opening."""
        if not self._next:
            if not MAY_END_OPENING.search(self._buffer, max(self._floor, self._given - LONGEST_END)):
                return None
            for place in range(len(SECRET_PATTERNS)):
                self._look_for(place)
        while self._next:
            end, place, begin = self._next[0]
            if begin >= self._floor:
                self._give(end)
                self._floor = end
                return SECRET_PATTERNS[place]
            heappop(self._next)
            self._look_for(place)
        return None

    def _look_for(self, place: int) -> None:
        if found := SECRET_PATTERNS[place].opening.search(self._buffer, self._floor):
            heappush(self._next, (found.end(), place, found.start()))

    def _give(self, end: int) -> None:
        self._out.append(self._buffer[self._given : end])
        self._given = end

    def _held(
        self, *, pattern: _SecretPattern | None = None, drops: _SecretPattern | None = None
    ) -> tuple[_PatternRemover, str]:
        """Returns the state after this piece, and the output."""
        cut = max(0, self._given - LONGEST_OPENING - 1)  # includes the character that an opening looks behind at
        state = replace(
            self._state,
            seen=self._buffer[cut : self._given],
            floor=max(int(cut > 0), self._floor - cut),
            pattern=pattern,
            held=self._buffer[self._given :] if pattern else "",
            drops=drops,
        )
        return state, "".join(self._out)
