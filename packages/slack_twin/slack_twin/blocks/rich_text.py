"""Rich text: sections, lists, quotes and code, with their inline elements.

https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
"""

from slack_twin.blocks.checks import Check, flag, integer, items, matching, one_of, shape, string, typed, url

_MOST_ELEMENTS = 1_000
_STYLES = ("bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink")
_STYLE: dict[str, Check] = {"style": shape({}, dict.fromkeys(_STYLES, flag))}

INLINE = typed(
    {
        "text": shape({"text": string(least=1)}, _STYLE),
        "link": shape({"url": url()}, _STYLE | {"text": string(), "unsafe": flag}),
        "user": shape({"user_id": string(least=1)}, _STYLE),
        "usergroup": shape({"usergroup_id": string(least=1)}, _STYLE),
        "channel": shape({"channel_id": string(least=1)}, _STYLE),
        "team": shape({"team_id": string(least=1)}, _STYLE),
        "emoji": shape(
            {"name": string(least=1)},
            _STYLE | {"unicode": string(), "skin_tone": integer(least=1, most=6), "url": url(), "display_url": url()},
        ),
        "broadcast": shape({"range": one_of("here", "channel", "everyone")}, _STYLE),
        "date": shape(
            {"timestamp": integer(least=0, most=99_999_999_999), "format": string(least=1)},
            _STYLE | {"url": url(), "fallback": string()},
        ),
        "color": shape({"value": matching(r"#[0-9A-Fa-f]{6}", "a color like #1264A3")}, _STYLE),
    }
)
_INLINES = items(INLINE, most=_MOST_ELEMENTS, least=0)
_SECTION = shape({"elements": _INLINES})
_BORDER: dict[str, Check] = {"border": integer(least=0, most=1)}

_PARTS = {
    "rich_text_section": _SECTION,
    "rich_text_list": shape(
        {
            "style": one_of("bullet", "ordered"),
            "elements": items(typed({"rich_text_section": _SECTION}), most=_MOST_ELEMENTS),
        },
        _BORDER | {"indent": integer(least=0, most=8), "offset": integer(least=0, most=1_000_000)},
    ),
    "rich_text_preformatted": shape({"elements": _INLINES}, _BORDER | {"language": string()}),
    "rich_text_quote": shape({"elements": _INLINES}, _BORDER),
}
ELEMENTS = items(typed(_PARTS), most=_MOST_ELEMENTS, least=0)

# A rich_text block without a block id, as in the value of an input, a table cell, or the details of a task.
RICH_TEXT = typed({"rich_text": shape({"elements": ELEMENTS}, {"block_id": string(most=255)})})
