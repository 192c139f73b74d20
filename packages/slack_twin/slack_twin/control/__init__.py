"""The control API: acts as people, reads the journals, plans faults and advances the clock.

The README lists its calls. Errors are `{"error": {code, message, hint}}` with a 4xx status.
"""

from starlette.routing import Route

from slack_twin.answers import answering
from slack_twin.control.actions import Actions
from slack_twin.control.admin import Admin
from slack_twin.control.messages import Messages
from slack_twin.control.sessions import Sessions
from slack_twin.twin import Twin


def control_routes(twin: Twin) -> list[Route]:
    """Returns all routes below `/twin`."""
    messages, actions, sessions, admin = Messages(twin), Actions(twin), Sessions(twin), Admin(twin)
    calls = (
        ("GET", "messages", messages.read),
        ("POST", "messages", messages.post),
        ("PATCH", "messages", messages.edit),
        ("DELETE", "messages", messages.delete),
        ("POST", "reactions", messages.react),
        ("POST", "actions", actions.act),
        ("POST", "suggestions", actions.suggest),
        ("POST", "commands", actions.command),
        ("POST", "shortcuts", actions.shortcut),
        ("POST", "homes", actions.home),
        ("GET", "views", actions.views),
        ("POST", "stop", sessions.stop),
        ("GET", "assistant", sessions.read),
        ("POST", "assistant", sessions.open),
        ("GET", "calls", admin.calls),
        ("GET", "deliveries", admin.deliveries),
        ("POST", "faults", admin.plan_fault),
        ("DELETE", "faults", admin.clear_faults),
        ("POST", "clock", admin.advance_clock),
        ("POST", "installs", admin.install),
        ("POST", "seed", admin.seed),
        ("POST", "reset", admin.reset),
    )
    return [Route(f"/twin/{path}", answering(handle), methods=[verb]) for verb, path, handle in calls]
