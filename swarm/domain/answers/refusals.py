"""What Slack's error codes for the calls of a live answer mean for the answer: a closed set.

The codes are those of https://docs.slack.dev/reference/methods/chat.startStream, chat.appendStream, chat.stopStream,
chat.postMessage and chat.update, and some that Slack gives without documenting them (streams refused to a recipient,
a message that may not be changed).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Meaning(StrEnum):
    """What a refusal says about the answer that is being shown."""

    EXPIRED = "expired"  # Slack has ended the stream: its message stays and can be changed with chat.update
    TOO_LONG = "too_long"  # the message is full: the rest belongs into another one
    STOPPED = "stopped"  # a person pressed Slack's own Stop: the stream may be closed, and nothing more
    MESSAGE_GONE = "message_gone"  # deleted, or no longer ours to change: whatever is left belongs into another one
    PLACE_GONE = "place_gone"  # nothing of ours can be written in this thread
    NO_STREAMS = "no_streams"  # no streams here, or not for this person: posts may still work
    OTHER = "other"  # a mistake in the call, or a code that is new


_TOO_LONG: Final = frozenset({"msg_blocks_too_long", "msg_blocks_too_many", "msg_too_long"})

_MESSAGE_GONE: Final = frozenset(
    {
        "block_mismatch",  # chat.update on what was written as a stream, sometimes
        "cant_update_message",
        "edit_window_closed",
        "message_not_found",
        "message_not_owned_by_app",
    }
)

_PLACE_GONE: Final = frozenset(
    {
        "access_denied",
        "accesslimited",
        "account_inactive",
        "cannot_reply_to_message",
        "channel_not_found",
        "ekm_access_denied",
        "external_channel_migrating",
        "invalid_auth",
        "invalid_thread_ts",
        "is_archived",
        "is_inactive",
        "message_limit_exceeded",
        "messages_tab_disabled",
        "no_permission",
        "not_authed",
        "not_authorized",
        "not_in_channel",
        "org_login_required",
        "restricted_action",
        "restricted_action_non_threadable_channel",
        "restricted_action_read_only_channel",
        "restricted_action_thread_locked",
        "restricted_action_thread_only_channel",
        "team_access_not_granted",
        "thread_not_found",
        "token_expired",
        "token_revoked",
        "two_factor_setup_required",
    }
)

_NO_SUCH_METHOD: Final = frozenset(
    {
        "deprecated_endpoint",
        "enterprise_is_restricted",
        "feature_disabled",
        "feature_not_enabled",
        "is_bot",
        "method_deprecated",
        "missing_scope",
        "not_allowed_token_type",
        "unknown_method",
    }
)
"""The workspace or our app does not have the method at all, whoever and whatever is concerned."""

_NOT_FOR_THIS_ONE: Final = frozenset(
    {
        "channel_type_not_supported",
        "method_not_supported_for_channel_type",
        "missing_recipient_team_id",
        "missing_recipient_user_id",
        "team_not_found",
        "user_not_found",
        "user_not_in_channel",
        "user_not_visible",
    }
)
"""The recipient is a bot, a guest from elsewhere or unknown, or the kind of conversation has no streams."""

_MEANINGS: Final = {
    "message_not_in_streaming_state": Meaning.EXPIRED,
    "stopped_by_user": Meaning.STOPPED,
    **dict.fromkeys(_TOO_LONG, Meaning.TOO_LONG),
    **dict.fromkeys(_MESSAGE_GONE, Meaning.MESSAGE_GONE),
    **dict.fromkeys(_PLACE_GONE, Meaning.PLACE_GONE),
    **dict.fromkeys(_NO_SUCH_METHOD | _NOT_FOR_THIS_ONE, Meaning.NO_STREAMS),
}


def meaning(error: str) -> Meaning:
    """What Slack's code, as in ``Refused.error``, means for a live answer. A code that is not known is OTHER."""
    return _MEANINGS.get(error, Meaning.OTHER)


def is_for_good(error: str) -> bool:
    """Whether the same method would be refused the same way for everybody, so that asking again is no use."""
    return error in _NO_SUCH_METHOD
