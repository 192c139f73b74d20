"""Every code that Slack documents for the calls of an answer means something, and each means one thing."""

from __future__ import annotations

import pytest

from swarm.domain.answers.slack_results import Meaning, is_for_good, meaning
from tests.support.every import every

pytestmark = pytest.mark.req("STREAM-06", "STREAM-08")

MEANINGS = {
    Meaning.EXPIRED: ["message_not_in_streaming_state"],
    Meaning.TOO_LONG: ["msg_too_long", "msg_blocks_too_long", "msg_blocks_too_many"],
    Meaning.STOPPED: ["stopped_by_user"],
    Meaning.MESSAGE_GONE: ["message_not_found", "message_not_owned_by_app", "cant_update_message", "block_mismatch"],
    Meaning.NOT_HERE: [
        "channel_not_found",
        "invalid_thread_ts",
        "is_archived",
        "not_in_channel",
        "restricted_action",
        "restricted_action_thread_locked",
        "thread_not_found",
    ],
    Meaning.NO_STREAMS: [
        "channel_type_not_supported",
        "enterprise_is_restricted",
        "feature_disabled",
        "feature_not_enabled",
        "method_deprecated",
        "missing_recipient_team_id",
        "missing_recipient_user_id",
        "missing_scope",
        "not_allowed_token_type",
        "team_not_found",
        "unknown_method",
        "user_not_found",
    ],
    Meaning.OTHER: ["invalid_chunks", "no_text", "streaming_mode_mismatch", "streaming_state_conflict", "new_code", ""],
}


@every(("error", "expected"), [(error, means) for means, errors in MEANINGS.items() for error in errors])
def test_a_refusal_means_one_thing(error: str, expected: Meaning) -> None:
    assert meaning(error) is expected


def test_every_meaning_has_a_code() -> None:
    assert set(MEANINGS) == set(Meaning)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("unknown_method", True),
        ("missing_scope", True),
        ("user_not_found", False),
        ("channel_type_not_supported", False),
    ],
)
def test_only_what_concerns_everybody_is_for_good(error: str, expected: bool) -> None:
    assert is_for_good(error) is expected


@pytest.mark.parametrize("error", ["channel_not_found", "message_not_in_streaming_state", "new_code"])
def test_what_is_said_of_one_place_or_message_is_not_for_good(error: str) -> None:
    assert not is_for_good(error)
