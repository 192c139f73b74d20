"""The names of emoji, some of which have several. Slack stores and reports the first, whichever the caller used."""

import re
import unicodedata
from pathlib import Path

EMOJI = re.compile(r"[\w+'\-]{1,100}(::skin-tone-[2-6])?")
_FAMILIES = re.compile(
    r"flag-[a-z]{2,}|(man|woman|male|female|person|family|face|health|service)[-_][a-z_\-]+|clock\d+"
)

_NAMES = {
    "+1": ("thumbsup",),
    "-1": ("thumbsdown",),
    "bee": ("honeybee",),
    "boat": ("sailboat",),
    "book": ("open_book",),
    "boom": ("collision",),
    "car": ("red_car",),
    "crossed_fingers": ("hand_with_index_and_middle_fingers_crossed",),
    "dolphin": ("flipper",),
    "email": ("envelope",),
    "exclamation": ("heavy_exclamation_mark",),
    "exploding_head": ("shocked_face_with_exploding_head",),
    "face_vomiting": ("face_with_open_mouth_vomiting",),
    "face_with_hand_over_mouth": ("smiling_face_with_smiling_eyes_and_hand_covering_mouth",),
    "face_with_raised_eyebrow": ("face_with_one_eyebrow_raised",),
    "face_with_symbols_on_mouth": ("serious_face_with_symbols_covering_mouth",),
    "facepunch": ("punch",),
    "feet": ("paw_prints",),
    "hand": ("raised_hand",),
    "hankey": ("poop", "shit"),
    "hocho": ("knife",),
    "izakaya_lantern": ("lantern",),
    "laughing": ("satisfied",),
    "mans_shoe": ("shoe",),
    "memo": ("pencil",),
    "middle_finger": ("reversed_hand_with_middle_finger_extended",),
    "moon": ("waxing_gibbous_moon",),
    "phone": ("telephone",),
    "runner": ("running",),
    "shirt": ("tshirt",),
    "shushing_face": ("face_with_finger_covering_closed_lips",),
    "slightly_smiling_face": ("simple_smile",),
    "star-struck": ("grinning_face_with_star_eyes",),
    "the_horns": ("sign_of_the_horns",),
    "zany_face": ("grinning_face_with_one_large_and_one_small_eye",),
}
# Slack's own names. Other emoji are named after their Unicode character, such as `mango` and `lady_beetle`.
_OWN = frozenset((Path(__file__).parent / "emoji_names.txt").read_text(encoding="utf-8").split())
_CANONICAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases}


def canonical(name: str) -> str:
    """Returns Slack's name of an emoji; a skin tone after the name is kept."""
    bare, mark, tone = name.partition("::")
    return _CANONICAL.get(bare, bare) + mark + tone


def is_known(name: str) -> bool:
    """Returns whether Slack has an emoji of this name, with or without a skin tone."""
    bare = name.partition("::")[0]
    if bare in _OWN or bare in _NAMES or bare in _CANONICAL or _FAMILIES.fullmatch(bare):
        return True
    try:
        sign = unicodedata.lookup(bare.replace("_", " ").replace("-", " "))
    except KeyError:
        return False
    return unicodedata.category(sign[0]) == "So"
