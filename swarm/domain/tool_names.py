"""The names of tools in requests, rules and grants: which names askers may give, and when two names are the same.

A rule for ``deploy`` must bind whatever looks like ``deploy``. So a name that looks like another one is refused to the
asker: invisible characters, letters of two scripts, and letters that only look like ASCII. Case makes no difference,
nor do blanks at the ends or several in a row.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from swarm_base.characters import strip_invisible

MAX_TOOL_NAME_CHARACTERS: Final = 100

_LATIN: Final = "LATIN"
_DOUBLES: Final = frozenset("ıĸ")  # Latin letters without a mark that look like ASCII's
_LATIN_EXTENDED_B: Final = "\u0180"  # from here, Latin letters count only as an ASCII letter with marks
_NO_SCRIPTS: Final = frozenset(
    {"COMBINING", "VARIATION", "MODIFIER", "FULLWIDTH"}
    | {"CHEROKEE", "LISU", "COPTIC", "CANADIAN", "DESERET", "OLD", "TIFINAGH"}  # look like Latin
)
_KINDS: Final = frozenset({"Lu", "Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
_LOOK_LIKE_LATIN: Final = frozenset(
    "аԁеһіјӏкоԛрсѕтуԝхьвгмнпѵɡꙅ"  # Cyrillic
    "αβγεηικνορτυχωϲϳ"  # Greek
    "օսոհցյաք"  # Armenian
)
"""Letters of other scripts, in lower case. A name of nothing else looks like a Latin one."""


def tool_key(name: str) -> str:
    """Returns the form in which names and patterns of tools are compared."""
    return " ".join(name.split()).casefold()


def tool_name_problem(name: str) -> str | None:
    """Returns why people cannot be asked about a tool of this name, as a phrase; None if they can."""
    if not name.strip():
        return "a name that is not empty"
    if len(name) > MAX_TOOL_NAME_CHARACTERS:
        return f"a name of at most {MAX_TOOL_NAME_CHARACTERS} characters (not {len(name)})"
    if not name.isprintable() or strip_invisible(name) != name:
        return "a name without invisible characters and line breaks"
    if unicodedata.normalize("NFKC", name) != name:
        return "a name in Unicode's normal form NFKC"
    if strange := next((one for one in name if not one.isascii() and not _is_letter(one)), None):
        return f"a name of letters, digits and the signs of ASCII (not {unicodedata.name(strange, 'U+FFFD').lower()})"
    scripts = {_script(one) for one in name if one.isalpha() or not one.isascii()}
    if len(scripts) > 1:
        return f"a name in one script (not {' and '.join(sorted(scripts)).lower()})"
    if scripts - {_LATIN} and all(one in _LOOK_LIKE_LATIN for one in tool_key(name) if one.isalpha()):
        return f"a name that does not look like a Latin one (its letters are {min(scripts).lower()})"
    return None


def _is_letter(one: str) -> bool:
    """Whether a character beyond ASCII is a letter, mark or digit of a script, and not another letter's double."""
    script, category = _script(one), unicodedata.category(one)
    if script == _LATIN:
        has_ascii_base = unicodedata.normalize("NFKD", one)[0].isascii()
        return one not in _DOUBLES and (has_ascii_base or one < _LATIN_EXTENDED_B)
    return category in _KINDS and script not in _NO_SCRIPTS


def _script(one: str) -> str:
    """Returns a letter's script: the first word of its name in Unicode."""
    return re.split("[ -]", unicodedata.name(one, "UNKNOWN"), maxsplit=1)[0]
