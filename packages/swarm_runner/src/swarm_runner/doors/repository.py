"""What a CLI takes from the repository that it works in.

Settings of a repository can run programs before anybody is asked: hooks, plugins, key helpers, servers. The doors start
each CLI so that it leaves them alone, and pass on the texts with instructions, which the CLI then leaves alone as well.
"""

from __future__ import annotations

from typing import Final

from swarm_runner.files import beginning_of
from swarm_runner.port import SessionWanted

_MOST_BYTES: Final = 60_000
_INSTRUCTIONS: Final = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "CONTEXT.md")

OWN_TOOLS: Final = frozenset(
    {
        "accept-task", "assign-task", "cancel-task", "create-task", "decline-task", "dismiss-message", "escalate",
        "get-task", "inbox-delegate", "list-agents", "list-tasks", "read-inbox-message", "read-messages",
        "request-human-input", "send-message", "slack-download-file", "slack-read-thread", "slack-reply",
        "slack-stream", "slack-upload-file", "task-complete", "task-fail", "task-progress", "tray",
    }
)  # fmt: skip
"""The swarm's own tools, which need no permission, since the coordinator checks each call."""

ALL_TOOLS: Final = {"ENABLE_TOOL_SEARCH": "false"}
"""Variables of claude. Otherwise its model sees none of the swarm's tools until it searches for them."""

OWN_NAMES: Final = frozenset(f"mcp__swarm__{tool}" for tool in OWN_TOOLS)
"""Their names as claude has them. Another name that begins so is that of somebody else's tool."""


def system_prompt(wanted: SessionWanted) -> str:
    """Returns the system prompt of a session, with the instructions of its repository if the CLI does not read them."""
    if wanted.trusts_repository:
        return wanted.system_prompt
    found: dict[str, str] = {}
    for name in _INSTRUCTIONS:
        text = (
            (beginning_of(wanted.cwd / name, wanted.cwd, _MOST_BYTES) or b"").decode(errors="replace").replace("\0", "")
        )
        if text.strip() and text not in found.values():
            found[name] = text
    return "\n\n".join(
        (wanted.system_prompt, *(f"# From {name} of the repository\n\n{text}" for name, text in found.items()))
    )
