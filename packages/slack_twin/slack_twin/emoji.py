"""Emoji with several names. Slack stores and reports the first name, regardless of the caller's name."""

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
_CANONICAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases}


def canonical(name: str) -> str:
    """Returns Slack's name of an emoji; a skin tone after the name is kept."""
    bare, mark, tone = name.partition("::")
    return _CANONICAL.get(bare, bare) + mark + tone
