"""The settings against Slack: a judgement about facts, which `swarm.app.slack_check` gathers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Name = tuple[str, str]
"""What the settings name: the kind (channel, user, group, bot), and the id."""

NOT_LOOKED: Final = "Not looked at yet: Slack has not answered whether it knows what the settings name."


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One mistake: the keys of the settings, what is wrong, and what to do."""

    keys: tuple[str, ...]
    is_red: bool = False  # the swarm cannot work; otherwise a warning
    message: str
    remedy: str


def sentences(findings: Sequence[Finding] | None) -> tuple[str, ...]:
    """Returns findings as text. None: nobody has looked yet."""
    return (NOT_LOOKED,) if findings is None else tuple(f"{one.message} {one.remedy}" for one in findings)


_TEXTS: Final = {
    "account_inactive": ("{} is deactivated", "Name somebody else."),
    "bot_not_found": ("Slack knows no bot {}", "Correct the id (B… or U…)."),
    "channel_not_found": ("Slack shows the app no channel {}", "Correct the id, or invite the app if it is private."),
    "is_archived": ("the channel {} is archived", "Unarchive it, or remove it from the settings."),
    "no_such_subteam": ("Slack knows no user group {}", "Correct the id (S…), or enable the group."),
    "not_in_channel": ("the app is not in {}, and cannot answer there", "Invite it there (/invite)."),
    "user_not_found": ("Slack shows the app nobody with the id {}", "Copy the member ID from a profile."),
}
"""What is wrong and what to do, by Slack's code. Other codes, such as of a missing scope, say nothing about a name."""


def judge(
    named: Mapping[Name, Sequence[str]], said: Mapping[Name, tuple[str, str]], lacking: Mapping[str, str]
) -> Iterator[Finding]:
    """Yields what is wrong. ``named`` has the keys of each name, ``said`` Slack's code and what to add to the name,
    ``lacking`` the missing scopes with their purposes.
    """
    if lacking:
        uses = "; ".join(f"{use} ({scope})" for scope, use in lacking.items())
        message = f"The Slack app lacks scopes of its manifest, so it cannot: {uses}."
        remedy = "Add them to the app (`swarm slack manifest` lists all) and install it again."
        yield Finding(keys=("slack.bot_token",), is_red="chat:write" in lacking, message=message, remedy=remedy)
    for name, keys in named.items():
        code, addition = said[name]
        if code in _TEXTS:
            wrong, remedy = _TEXTS[code]
            place = f"{', '.join(keys[:3])}{', …' if len(keys) > 3 else ''}: " if keys else ""
            message = f"{place}{wrong.format(name[1] + addition)}.".replace("?.", "?")
            yield Finding(keys=tuple(keys), message=message, remedy=remedy)
