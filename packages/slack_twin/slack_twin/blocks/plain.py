"""The visible text of blocks as plain lines, for messages without their own text."""

from slack_twin.errors import Json


def plain_text(blocks: tuple[Json, ...]) -> str:
    """Returns one line for each block that shows text."""
    return "\n".join(line for line in (_visible(block) for block in blocks) if line)


def _visible(node: object) -> str:
    if isinstance(node, list):
        return " ".join(text for text in (_visible(part) for part in node) if text)
    if not isinstance(node, dict):
        return ""
    if isinstance(node.get("text"), str):
        return str(node["text"])
    return _visible([node.get(key) for key in ("text", "fields", "elements", "title") if node.get(key)])
