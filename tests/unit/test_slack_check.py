"""The settings against Slack: which names are looked up, and what is wrong."""

from __future__ import annotations

import pytest

from swarm.app.slack_check import named
from swarm.config import BadSettings, Settings
from swarm.config.reading import checked_settings
from swarm.domain.slack_check import Facts, Finding, NameKind, Known, Level, Name, State, judge

pytestmark = pytest.mark.req("OPS-17")

SIGNED = "5f2a" * 8


def settings(tmp_path_factory: pytest.TempPathFactory, **values: object) -> Settings:
    return checked_settings(values, tmp_path_factory.getbasetemp())


def test_names_are_found_with_their_keys_wherever_the_settings_name_something(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    given = settings(
        tmp_path_factory,
        channel_defaults={"allowed_users": ["U0ADA", "U0BOB"], "client_context": {"channel": "mine"}},
        channels={
            "C0ONE": {
                "allowed_groups": ["S0OPS"],
                "allowed_bots": ["B0BOT", "U0BOT", "*"],
                "escalation": {"users": ["U0ADA"], "emoji": ":sos:"},
                "alerts": {"variables": {"users": "us"}},
            },
        },
        agents={"access": {"helper": {"channels": ["C0ONE", "general"], "users": ["ada"]}}},
        decisions=[{"channel": "C0TWO", "users": ["U0ADA"], "groups": ["S0OPS"]}],
        reactions={"stored": "eyes", "failed": None},
        operators={"users": ["U0BOB"]},
    )
    assert named(given) == {
        (NameKind.CHANNEL, "C0ONE"): ["agents.access.helper.channels", "channels.C0ONE"],
        (NameKind.CHANNEL, "general"): ["agents.access.helper.channels"],
        (NameKind.PERSON, "ada"): ["agents.access.helper.users"],
        (NameKind.PERSON, "U0ADA"): [
            "channel_defaults.allowed_users",
            "channels.C0ONE.escalation.users",
            "decisions.0.users",
        ],
        (NameKind.PERSON, "U0BOB"): ["channel_defaults.allowed_users", "operators.users"],
        (NameKind.PERSON, "U0BOT"): ["channels.C0ONE.allowed_bots"],
        (NameKind.BOT, "B0BOT"): ["channels.C0ONE.allowed_bots"],
        (NameKind.GROUP, "S0OPS"): ["channels.C0ONE.allowed_groups", "decisions.0.groups"],
        (NameKind.EMOJI, "sos"): ["channels.C0ONE.escalation.emoji"],
        (NameKind.EMOJI, "eyes"): ["reactions.stored"],
        (NameKind.CHANNEL, "C0TWO"): ["decisions.0.channel"],
    }
    assert (NameKind.PERSON, "ada") not in named(given, "C0ONE")
    assert (NameKind.CHANNEL, "C0ONE") in named(given, "C0ONE")


def of(kind: NameKind, state: State, name: str, **more: str) -> tuple[Finding, ...]:
    known: dict[Name, Known] = {(kind, name): Known(state=state, **more)}
    return judge(Facts(named={(kind, name): ["a.key", "b"]}, known=known))


@pytest.mark.parametrize(
    ("kind", "state", "more", "message"),
    [
        (NameKind.CHANNEL, State.UNKNOWN, {}, "Slack shows the app no channel X."),
        (
            NameKind.CHANNEL,
            State.UNKNOWN,
            {"near": "C1 (ops)"},
            "Slack shows the app no channel X; did you mean C1 (ops)?",
        ),
        (NameKind.CHANNEL, State.CLOSED, {"shown": "#old"}, "#old (X) is archived."),
        (NameKind.CHANNEL, State.OUTSIDE, {"shown": "#new"}, "the app is not in #new (X), and cannot answer there."),
        (NameKind.PERSON, State.UNKNOWN, {}, "Slack shows the app nobody with the id X."),
        (NameKind.PERSON, State.CLOSED, {"shown": "Ada"}, "Ada (X) is deactivated."),
        (NameKind.GROUP, State.UNKNOWN, {"near": "S1 (ops)"}, "Slack knows no user group X; did you mean S1 (ops)?"),
        (NameKind.GROUP, State.CLOSED, {"shown": "@ops"}, "the user group @ops (X) is disabled."),
        (NameKind.BOT, State.UNKNOWN, {}, "Slack knows no bot X."),
        (NameKind.EMOJI, State.UNKNOWN, {}, "Slack refuses the emoji X."),
    ],
)
def test_what_slack_does_not_know_is_named_with_its_keys_and_what_to_do(
    kind: NameKind, state: State, more: dict[str, str], message: str
) -> None:
    (finding,) = of(kind, state, "X", **more)
    assert (finding.message, finding.keys, finding.level) == (f"a.key, b: {message}", ("a.key", "b"), Level.WARNING)
    assert finding.remedy.endswith(".")


@pytest.mark.parametrize("state", [State.FINE, State.UNSEEN])
@pytest.mark.parametrize("kind", NameKind)
def test_what_is_fine_or_hidden_is_no_mistake(kind: NameKind, state: State) -> None:
    assert of(kind, state, "X") == ()


@pytest.mark.parametrize(("state", "count"), [(State.OUTSIDE, 0), (State.CLOSED, 0), (State.UNKNOWN, 1)])
def test_a_channel_that_is_switched_off_need_only_exist(state: State, count: int) -> None:
    name = (NameKind.CHANNEL, "C1")
    facts = Facts(named={name: ["channels.C1"]}, switched_off=frozenset({"C1"}), known={name: Known(state=state)})
    assert len(judge(facts)) == count


def test_missing_scopes_are_named_with_what_does_not_work_and_posts_are_vital() -> None:
    (finding,) = judge(Facts(lacking={"files:read": "pass attachments on", "users:read": "show names"}))
    assert "cannot: pass attachments on (files:read); show names (users:read)." in finding.message
    assert finding.level is Level.WARNING
    (vital,) = judge(Facts(lacking={"chat:write": "post"}))
    assert vital.level is Level.RED


def test_tokens_of_two_apps_are_told_apart() -> None:
    (finding,) = judge(Facts(apps=("A1", "A2")))
    assert (finding.level, "A1" in finding.message, "A2" in finding.message) == (Level.RED, True, True)
    assert judge(Facts(apps=("A1", "A1"))) == judge(Facts(apps=("A1", ""))) == ()


def test_a_finding_concerns_its_channel_and_one_about_the_app_all() -> None:
    (of_list,) = judge(
        Facts(
            named={(NameKind.PERSON, "U1"): ["channels.C1.allowed_users"]},
            known={(NameKind.PERSON, "U1"): Known(state=State.UNKNOWN)},
        )
    )
    (of_app,) = judge(Facts(lacking={"chat:write": "post"}))
    assert [one.concerns(channel) for one in (of_list, of_app) for channel in ("C1", "C2")] == [True, False, True, True]


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("bot_token", "xapp-1-A1-1-a", "app-level token"),
        ("bot_token", "xoxp-1", "user token"),
        ("bot_token", "xoxe.xoxp-1", "app configurations"),
        ("bot_token", "xoxe-1", "refresh token"),
        ("bot_token", "xoxc-1", "legacy token"),
        ("bot_token", SIGNED, "signing secret"),
        ("app_token", "xoxb-1", "bot token"),
        ("app_token", "xoxe.xoxb-1", "bot token"),
        ("app_token", SIGNED, "signing secret"),
        ("signing_secret", "xoxb-1", "bot token"),
    ],
)
def test_a_credential_in_anothers_place_is_refused_by_its_key_and_kind(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: str, kind: str
) -> None:
    good = {"bot_token": "xoxb-1", "app_token": "xapp-1"}
    with pytest.raises(BadSettings) as refused:
        settings(tmp_path_factory, slack={**good, key: value})
    (problem,) = refused.value.problems.items()
    assert problem[0].startswith(f"slack.{key} (SLACK_{key.upper()})")
    assert kind in problem[1]
    assert value not in refused.value.message


@pytest.mark.parametrize("token", ["xoxb-1", "xoxe.xoxb-1", "of-another-server"])
def test_a_bot_token_may_be_rotated_or_of_an_unknown_kind(tmp_path_factory: pytest.TempPathFactory, token: str) -> None:
    assert settings(tmp_path_factory, slack={"bot_token": token, "app_token": "xapp-1"}).slack.bot_token


@pytest.mark.parametrize("emoji", ["✅", ":", "two words", "Eyes"])
@pytest.mark.parametrize("at", ["reactions", "escalation"])
def test_what_is_no_name_of_an_emoji_is_refused(tmp_path_factory: pytest.TempPathFactory, at: str, emoji: str) -> None:
    given = {"stored": emoji} if at == "reactions" else {"escalation": {"emoji": emoji}}
    with pytest.raises(BadSettings, match="name such as eyes"):
        settings(tmp_path_factory, **{at if at == "reactions" else "channel_defaults": given})
