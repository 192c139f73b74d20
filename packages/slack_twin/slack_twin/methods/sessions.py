"""agents.sessions.*: the visible state of an agent's work in a thread, with a Stop button while it works.

https://docs.slack.dev/reference/methods/agents.sessions.setStatus
"""

from dataclasses import replace

from slack_twin.assistants import Assistance, SessionStatus
from slack_twin.changes import AssistantChanged
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.people import Channel

MAX_TITLE_CHARACTERS = 200


def set_status(call: Call) -> Json:
    """Sets the status of a session; the first status creates it. `title` and the initiator apply only to the first.

    Raises `feature_not_enabled` for an app that is no agent, `invalid_thread_ts`, and `user_not_in_channel` for an
    initiator who is not a member.
    """
    _check_agent(call)
    channel, thread_ts = session_thread(call)
    status = wanted_status(call, "status")
    shown = call.workspace.assistants.get(channel, thread_ts, call.app.id)
    if shown.session is None:
        shown = replace(shown, title=_title(call) or shown.title, initiator=_initiator(call, channel))
        call.workspace.assistants.put(shown)
    shown = set_session(call, channel, thread_ts, status)
    return {"status": status.value, "agent_status": status.value, "title": shown.title}


def rename(call: Call) -> Json:
    """Changes a session's title. Raises `feature_not_enabled`, `session_not_found`, `invalid_thread_ts`."""
    _check_agent(call)
    channel, thread_ts = session_thread(call)
    shown = call.workspace.assistants.get(channel, thread_ts, call.app.id)
    if shown.session is None:
        raise SlackError("session_not_found")
    title = call.args.text("title")
    _check_title(title)
    show(call, channel, replace(shown, title=title))
    return {"title": title}


def _check_agent(call: Call) -> None:
    """Raises `thread_ts_required`, and a refusal of apps that are no agents, whose code Slack does not document."""
    if not call.app.has_tab:
        raise SlackError("feature_not_enabled")
    if "thread_ts" not in call.args:
        raise SlackError("thread_ts_required")


def session_thread(call: Call) -> tuple[Channel, str]:
    """Returns the thread of `channel_id` and `thread_ts`. Raises `invalid_thread_ts`."""
    channel = call.joined_channel("channel_id")
    root = channel.messages.get(call.args.timestamp("thread_ts"))
    if root is None:
        raise SlackError("invalid_thread_ts")
    return channel, root.thread_ts or root.ts


def wanted_status(call: Call, name: str) -> SessionStatus:
    """Returns the status in an argument. Raises `invalid_status`, for `session_status` `invalid_arguments`."""
    try:
        return SessionStatus(call.args.text(name))
    except ValueError:
        code = "invalid_status" if name == "status" else "invalid_arguments"
        messages = [f"[ERROR] {name} must be one of {', '.join(SessionStatus)}"]
        raise SlackError(code, messages=messages) from None


def set_session(call: Call, channel: Channel, thread_ts: str, status: SessionStatus) -> Assistance:
    shown = replace(call.workspace.assistants.get(channel, thread_ts, call.app.id), session=status)
    show(call, channel, shown)
    return shown


def show(call: Call, channel: Channel, shown: Assistance) -> None:
    """Stores the app's status, title and prompts in a thread, and updates the pages."""
    call.workspace.assistants.put(shown)
    call.workspace.announce(AssistantChanged(channel=channel, thread_ts=shown.thread_ts, app_id=call.app.id))


def _title(call: Call) -> str:
    title = call.args.optional("title")
    _check_title(title)
    return title


def _check_title(title: str) -> None:
    if len(title) > MAX_TITLE_CHARACTERS:
        message = f"[ERROR] title must be at most {MAX_TITLE_CHARACTERS} characters"
        raise SlackError("invalid_arguments", messages=[message])


def _initiator(call: Call, channel: Channel) -> str | None:
    person = call.args.optional("initiator_user_id")
    if person and person not in channel.members:
        raise SlackError("user_not_in_channel")
    return person or None


METHODS = (
    Method(name="agents.sessions.setStatus", handle=set_status, tier=Tier.TIER_3, scopes=("chat:write",)),
    Method(name="agents.sessions.rename", handle=rename, tier=Tier.TIER_3, scopes=("chat:write",)),
)
