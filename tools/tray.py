"""tray: summarises an agent's unread messages, tasks and threads."""

from __future__ import annotations

from swarm.domain.model.triggers import Tray
from tools.tool import Arguments, CallContext, McpTool


class _Nothing(Arguments):
    pass


async def _tray(call: CallContext, said: _Nothing) -> Tray:
    """See what is waiting for you: how many inbox messages and messages from other agents are unread, with the
    beginning of each; your open tasks by status; and how many threads you own. Previews are truncated; get the full
    text with read-inbox-message or read-messages.
    """
    return await call.services.trays.of(call.agent, call.bound_to)


TOOL = McpTool(name="tray", arguments=_Nothing, result=Tray, run=_tray)
