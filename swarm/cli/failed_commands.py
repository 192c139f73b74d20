"""The commands for what failed or was set aside: ``swarm deliveries`` and ``swarm inbox``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.cli.operator_commands import explain, operate
from swarm.cli.terminal import Terminal
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.deliveries import DeliveryStatus
from swarm.domain.model.inbox import InboxStatus
from swarm_base.characters import line_for_terminal

deliveries = App(name="deliveries", help="Show what is sent to Slack, and send again what failed.")
inbox = App(name="inbox", help="Show people's messages, and hand out again what was set aside.")

_SHOWN_CHARACTERS = 60

_out = Terminal()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Matching:
    """Which ones to act on, in place of one id: all that concern an agent (a name), a channel (an id), were created
    since a time (ISO 8601), and whose recorded reason contains a text. Without --yes they are only counted.
    """

    all_matching: Annotated[bool, Parameter(negative=())] = False
    agent: str | None = None
    channel: str | None = None
    since: str | None = None
    reason: str | None = None
    yes: Annotated[bool, Parameter(negative=())] = False


@deliveries.command(name="list")
def _list_deliveries(*, status: DeliveryStatus | None = None, limit: int = 20) -> None:
    """Show the newest deliveries, optionally of one status, and why they wait or have failed."""
    table = Table(*(Column(name, no_wrap=True) for name in ("id", "kind", "status", "channel")), "reason", "text")
    found = operate("GET", "/deliveries", params={"status": status and status.value, "limit": limit})
    for one in found["deliveries"]:
        text = line_for_terminal(one["text"] or "")[:_SHOWN_CHARACTERS]
        table.add_row(
            one["id"], one["kind"], one["status"], one["channel"], line_for_terminal(one["error"] or ""), text
        )
    _out.print_rows(table, "There is no delivery.", below={"id": "text"})


@deliveries.command(name="resend")
def _resend(
    delivery_id: str | None = None, *, status: DeliveryStatus = DeliveryStatus.FAILED, matching: Matching | None = None
) -> None:
    """Send a failed or expired delivery again, or all that match. A post that Slack has is not repeated."""
    if _is_one(delivery_id, matching):
        sent = operate("POST", f"/deliveries/{delivery_id}/resend")
        _out.print(f"The {sent['kind']} is sent again.")
    else:
        _act_on_all("/deliveries/resend", matching, {"status": status.value}, "deliveries", "sent again")


@inbox.command(name="list")
def _list_inbox(*, status: InboxStatus | None = None, limit: int = 20) -> None:
    """Show the newest messages and their agents, optionally of one status; dead means set aside."""
    table = Table(*(Column(name, no_wrap=True) for name in ("id", "status", "agent", "message", "attempts", "created")))
    found = operate("GET", "/inbox", params={"status": status and status.value, "limit": limit})
    for one in found["inbox_messages"]:
        place = f"{one['channel']}:{one['ts']}"
        table.add_row(one["id"], one["status"], one["agent"] or "-", place, str(one["attempts"]), one["created_at"])
    _out.print_rows(table, "There is no message.", below={"id": "message"})


@inbox.command(name="show")
def _show_message(inbox_message_id: str) -> None:
    """Show what happened to a message, with the reasons; like `swarm explain`."""
    explain(inbox_message_id)


@inbox.command(name="redrive")
def _redrive(inbox_message_id: str | None = None, *, matching: Matching | None = None) -> None:
    """Hand out again a message that was set aside, or all that match, with their attempts set to zero."""
    if _is_one(inbox_message_id, matching):
        message = operate("POST", f"/inbox/{inbox_message_id}/redrive")
        _out.print(f"The message is {message['status']} again.")
    else:
        _act_on_all("/inbox/redrive", matching, {}, "messages that were set aside", "handed out again")


def _is_one(one_id: str | None, matching: Matching | None) -> bool:
    """Returns whether one id is given. Raises ConfigurationError unless either that or ``--all-matching`` is."""
    if (one_id is None) is not bool(matching and matching.all_matching):
        raise ConfigurationError("Give an id, or --all-matching.")
    return one_id is not None


def _act_on_all(path: str, matching: Matching | None, where: dict[str, str], what: str, how: str) -> None:
    chosen = {name: value for name, value in asdict(matching or Matching()).items() if isinstance(value, str)}
    is_meant = bool(matching and matching.yes)
    batch = operate("POST", path, json={"where": chosen | where, "dry_run": not is_meant})
    if is_meant:
        _out.print(f"{batch['done']} of {batch['matching']} {what} are {how}.")
    else:
        _out.print(f"{batch['matching']} {what} match. Add --yes to have them {how}.")
