"""assistant.threads.*: an app's status while it works, the title of a thread, suggested prompts."""

from dataclasses import replace

from slack_twin.assistants import Prompt
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.methods.sessions import session_thread, show

_MOST_LOADING_MESSAGES = 10
_MOST_PROMPTS = 4


def set_status(call: Call) -> Json:
    """Shows a status in a thread for at most two minutes; an empty status clears it. Raises `invalid_thread_ts`."""
    channel, thread_ts = session_thread(call)
    if "status" not in call.args:
        raise _wrong("missing required field: status")
    status, loading = call.args.optional("status"), _loading_messages(call)
    call.workspace.set_status(channel, thread_ts, app=call.app, text=status, loading_messages=loading)
    return {}


def _loading_messages(call: Call) -> tuple[str, ...]:
    """Returns the messages that are shown in rotation instead of the status."""
    given = call.args.json("loading_messages")
    if given is None:
        return ()
    is_list = isinstance(given, list) and len(given) <= _MOST_LOADING_MESSAGES
    if not is_list or not isinstance(given, list) or not all(isinstance(message, str) for message in given):
        raise _wrong(f"loading_messages must be a list of at most {_MOST_LOADING_MESSAGES} strings")
    return tuple(given)


def set_title(call: Call) -> Json:
    """Sets the title of a thread. Raises `invalid_thread_ts`."""
    channel, thread_ts = session_thread(call)
    shown = call.workspace.assistants.get(channel, thread_ts, call.app.id)
    show(call, channel, replace(shown, title=call.args.text("title")))
    return {}


def set_suggested_prompts(call: Call) -> Json:
    """Offers up to four prompts: in a pane with `thread_ts`, in an agent's Messages tab without.

    For an agent, a call with `thread_ts` has no effect; a pane without `thread_ts` means the latest message. Raises
    `invalid_thread_ts`, `message_not_found`.
    """
    prompts = _prompts(call)
    if "thread_ts" in call.args:
        channel, thread_ts = session_thread(call)
        if not call.app.has_pane:
            return {}
    elif call.app.has_tab:
        channel, thread_ts = call.joined_channel("channel_id"), ""
    else:
        channel = call.joined_channel("channel_id")
        latest = channel.messages.shown()
        if not latest:
            raise SlackError("message_not_found")
        thread_ts = latest[-1]
    shown = call.workspace.assistants.get(channel, thread_ts, call.app.id)
    shown = replace(shown, prompts=prompts, prompts_title=call.args.optional("title"))
    show(call, channel, shown)
    return {}


def _prompts(call: Call) -> tuple[Prompt, ...]:
    given = call.args.json("prompts")
    if not isinstance(given, list) or len(given) > _MOST_PROMPTS:
        raise _wrong(f"prompts must be a list of at most {_MOST_PROMPTS} prompts")
    return tuple(_prompt(item) for item in given)


def _prompt(item: object) -> Prompt:
    fields = item if isinstance(item, dict) else {}
    title, message = fields.get("title"), fields.get("message")
    if not (isinstance(title, str) and title and isinstance(message, str) and message):
        raise _wrong("each prompt needs a title and a message")
    return Prompt(title=title, message=message)


def _wrong(message: str) -> SlackError:
    return SlackError("invalid_arguments", messages=[f"[ERROR] {message}"])


METHODS = (
    Method(
        name="assistant.threads.setStatus",
        handle=set_status,
        tier=Tier.SPECIAL,
        scopes=("assistant:write", "chat:write"),
    ),
    Method(name="assistant.threads.setTitle", handle=set_title, tier=Tier.TIER_4, scopes=("assistant:write",)),
    Method(
        name="assistant.threads.setSuggestedPrompts",
        handle=set_suggested_prompts,
        tier=Tier.TIER_4,
        scopes=("assistant:write",),
    ),
)
