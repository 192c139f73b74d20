"""Who is a colleague, by what Slack says of a user."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.domain.model.threads import Author, AuthorKind, Standing
from swarm.domain.policy.access import Me, standing_by_event, standing_of
from swarm.slack.incoming.payloads import person_of, slack_event
from tests.support.every import every

pytestmark = pytest.mark.req("CHAN-11")

ALONE = Me(team="T1", user_id="UBOT", bot_id="BBOT")
IN_AN_ORGANISATION = Me(team="T1", user_id="UBOT", bot_id="BBOT", enterprise="E1")
WHOLE_ORGANISATION = Me(team="E1", user_id="UBOT", bot_id="BBOT", enterprise="E1")


@every(
    ("me", "user", "standing"),
    [
        (ALONE, {"team_id": "T1"}, Standing.MEMBER),
        (ALONE, {"team_id": "T1", "is_restricted": True}, Standing.GUEST),
        (ALONE, {"team_id": "T1", "is_restricted": True, "is_ultra_restricted": True}, Standing.GUEST),
        (ALONE, {"team_id": "T1", "is_ultra_restricted": True}, Standing.GUEST),
        (ALONE, {"team_id": "T1", "is_stranger": True}, Standing.EXTERNAL),
        (ALONE, {"team_id": "T9"}, Standing.EXTERNAL),
        (ALONE, {"team_id": "T9", "is_restricted": True}, Standing.EXTERNAL),
        (ALONE, {"team_id": "T1", "deleted": True}, Standing.UNVERIFIED),
        (ALONE, {}, Standing.UNVERIFIED),
        (ALONE, {"team_id": ["T1"]}, Standing.UNVERIFIED),
        (IN_AN_ORGANISATION, {"team_id": "T2", "enterprise_user": {"enterprise_id": "E1"}}, Standing.MEMBER),
        (IN_AN_ORGANISATION, {"team_id": "E1", "enterprise_user": {"teams": ["T1", "T2"]}}, Standing.MEMBER),
        (IN_AN_ORGANISATION, {"team_id": "T2", "enterprise_user": {"enterprise_id": "E2"}}, Standing.EXTERNAL),
        (WHOLE_ORGANISATION, {"team_id": "T2", "enterprise_user": {"enterprise_id": "E1"}}, Standing.MEMBER),
        (WHOLE_ORGANISATION, {"team_id": "T2"}, Standing.EXTERNAL),
        (
            IN_AN_ORGANISATION,
            {"team_id": "T2", "enterprise_user": {"enterprise_id": "E1"}, "is_restricted": True},
            Standing.GUEST,
        ),
    ],
)
def test_only_a_full_member_of_the_workspace_or_its_organisation_is_one(
    me: Me, user: dict[str, Any], standing: Standing
) -> None:
    assert standing_of(person_of("U1", user), me) is standing


@every(
    ("fields", "alone", "in_an_organisation"),
    [
        ({}, None, None),
        ({"user_team": "T1", "source_team": "T1"}, None, None),
        ({"user_team": "T9"}, Standing.EXTERNAL, None),
        ({"user_team": "T1", "source_team": "T9"}, Standing.EXTERNAL, None),
        ({"user_profile": {"team": "T9"}}, Standing.EXTERNAL, None),
        ({"team": "T9"}, None, None),  # it may be the channel's
        ({"bot_id": "B1", "user_team": "T9"}, Standing.MEMBER, Standing.MEMBER),  # judged by the list of bots
    ],
)
def test_an_event_shows_people_of_other_workspaces_and_nobody_to_be_a_member(
    fields: dict[str, Any], alone: Standing | None, in_an_organisation: Standing | None
) -> None:
    event = {"type": "message", "channel": "C1", "user": "U1", "text": "hi", "ts": "1700000000.000100", **fields}
    message = slack_event({"event": event})
    author = message.author  # type: ignore[union-attr]
    assert standing_by_event(author, ALONE) is alone
    assert standing_by_event(author, IN_AN_ORGANISATION) is in_an_organisation


def test_an_edit_shows_its_authors_workspace_as_well() -> None:
    inner = {"user": "U1", "text": "hi", "ts": "1700000000.000100", "user_team": "T9", "edited": {"ts": "1.0"}}
    event = {"type": "message", "subtype": "message_changed", "channel": "C1", "message": inner}
    edited = slack_event({"event": event})
    assert edited.message.author == Author(id="U1", kind=AuthorKind.USER, teams=("T9",))  # type: ignore[union-attr]
