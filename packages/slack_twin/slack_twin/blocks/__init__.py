"""Block Kit: checks the blocks of messages, modals and home tabs as Slack does.

https://docs.slack.dev/reference/block-kit
"""

from slack_twin.blocks.plain import plain_text
from slack_twin.blocks.reading import (
    MAX_ATTACHMENTS,
    MAX_BLOCKS,
    MAX_MARKDOWN_CHARACTERS,
    block_problems,
    checked_attachments,
    checked_blocks,
)

__all__ = [
    "MAX_ATTACHMENTS",
    "MAX_BLOCKS",
    "MAX_MARKDOWN_CHARACTERS",
    "block_problems",
    "checked_attachments",
    "checked_blocks",
    "plain_text",
]
