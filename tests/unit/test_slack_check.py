"""The settings against Slack: which names are looked up, what is wrong, and what is refused without asking."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.app.slack_check import named
from swarm.config import BadSettings
from swarm.config.reading import checked_settings
from swarm.domain.slack_check import judge

pytestmark = pytest.mark.req("OPS-17")


def test_names_are_found_with_their_keys_wherever_the_settings_name_something(tmp_path: Path) -> None:
    given = checked_settings(
        {
            "channel_defaults": {"allowed_users": ["U0ADA"], "client_context": {"channel": "mine"}},
            "channels": {
                "C0ONE": {
                    "allowed_groups": ["S0OPS"],
                    "allowed_bots": ["B0BOT", "U0BOT", "*"],
                    "escalation": {"users": ["U0ADA"]},
                    "alerts": {"variables": {"users": "us"}},
                },
            },
            "agents": {"access": {"helper": {"channels": ["C0ONE", "general"], "users": ["ada"]}}},
            "decisions": [{"channel": "C0TWO", "groups": ["S0OPS"]}],
            "operators": {"users": ["U0BOB"]},
        },
        tmp_path,
    )
    assert named(given) == {
        ("channel", "C0ONE"): ["agents.access.helper.channels", "channels.C0ONE"],
        ("channel", "general"): ["agents.access.helper.channels"],
        ("user", "ada"): ["agents.access.helper.users"],
        ("user", "U0ADA"): ["channel_defaults.allowed_users", "channels.C0ONE.escalation.users"],
        ("user", "U0BOB"): ["operators.users"],
        ("user", "U0BOT"): ["channels.C0ONE.allowed_bots"],
        ("bot", "B0BOT"): ["channels.C0ONE.allowed_bots"],
        ("group", "S0OPS"): ["channels.C0ONE.allowed_groups", "decisions.0.groups"],
        ("channel", "C0TWO"): ["decisions.0.channel"],
    }
    assert ("user", "ada") not in named(given, "C0ONE")


@pytest.mark.parametrize(
    ("code", "addition", "message"),
    [
        ("channel_not_found", "; did you mean C1 (#ops)?", "Slack shows the app no channel X; did you mean C1 (#ops)?"),
        ("is_archived", " (#old)", "the channel X (#old) is archived."),
        ("not_in_channel", "", "the app is not in X, and cannot answer there."),
        ("user_not_found", "", "Slack shows the app nobody with the id X."),
        ("account_inactive", "", "X is deactivated."),
        ("no_such_subteam", "", "Slack knows no user group X."),
        ("bot_not_found", "", "Slack knows no bot X."),
    ],
)
def test_what_slack_does_not_know_is_named_with_its_keys_and_what_to_do(code: str, addition: str, message: str) -> None:
    (finding,) = judge({("kind", "X"): ["a.key", "b"]}, {("kind", "X"): (code, addition)}, {})
    assert (finding.message, finding.keys, finding.is_red) == (f"a.key, b: {message}", ("a.key", "b"), False)
    assert finding.remedy.endswith(".")


@pytest.mark.parametrize("code", ["", "missing_scope", "team_access_not_granted"])
def test_what_is_fine_or_hidden_is_no_mistake(code: str) -> None:
    assert [*judge({("user", "U1"): ["a"]}, {("user", "U1"): (code, "")}, {})] == []


def test_missing_scopes_are_named_with_what_does_not_work_and_posts_are_vital() -> None:
    (finding,) = judge({}, {}, {"files:read": "pass attachments on", "users:read": "show names"})
    assert "cannot: pass attachments on (files:read); show names (users:read)." in finding.message
    (vital,) = judge({}, {}, {"chat:write": "post"})
    assert (finding.is_red, vital.is_red) == (False, True)


@pytest.mark.parametrize("key", ["bot_token", "app_token", "signing_secret"])
@pytest.mark.parametrize(
    "value", ["xapp-1-A1", "xoxb-1", "xoxe.xoxb-1", "xoxp-1", "xoxe.xoxp-1", "xoxe-1", "xoxc-1", "5f2a" * 8, "other"]
)
def test_a_credential_in_anothers_place_is_refused_by_its_key(tmp_path: Path, key: str, value: str) -> None:
    slack = {"bot_token": "xoxb-1", "app_token": "xapp-1", key: value}
    own = {"bot_token": ("xoxb", "xoxe.xoxb"), "app_token": ("xapp",), "signing_secret": ("5f2a",)}[key]
    if value.startswith((*own, "other")):
        assert checked_settings({"slack": slack}, tmp_path)
        return
    with pytest.raises(BadSettings) as refused:
        checked_settings({"slack": slack}, tmp_path)
    assert [*refused.value.problems] == [f"slack.{key} (SLACK_{key.upper()})"]
    assert value not in refused.value.message


@pytest.mark.parametrize("emoji", ["✅", ":", "two words", ""])
def test_what_is_no_name_of_an_emoji_is_refused(tmp_path: Path, emoji: str) -> None:
    for given in ({"reactions": {"stored": emoji}}, {"channel_defaults": {"escalation": {"emoji": emoji}}}):
        with pytest.raises(BadSettings, match="name such as eyes"):
            checked_settings(given, tmp_path)
    assert checked_settings({"reactions": {"stored": ":eyes:"}}, tmp_path).reactions.stored == "eyes"
