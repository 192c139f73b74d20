"""The settings against Slack: the names in them that mean nothing there, and what the app may not do. A judgement about
facts, which `swarm.app.slack_check` gathers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class NameKind(StrEnum):
    """What a name in the settings stands for."""

    CHANNEL = "channel"
    PERSON = "person"
    GROUP = "group"
    BOT = "bot"
    EMOJI = "emoji"


class State(StrEnum):
    """What Slack says about a name."""

    FINE = "fine"
    UNKNOWN = "unknown"  # nonexistent, or a private channel without the app
    CLOSED = "closed"  # archived, deactivated, disabled
    OUTSIDE = "outside"  # a public channel without the app
    UNSEEN = "unseen"  # Slack does not tell


Name = tuple[NameKind, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What Slack says about one name."""

    state: State
    shown: str = ""  # the name for people; empty: unknown
    near: str = ""  # for an unknown name: what may be meant


class Level(StrEnum):
    """How bad a finding is."""

    WARNING = "warning"
    RED = "red"  # the swarm cannot work


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One mistake: where it is in the settings, what is wrong, and what to do."""

    keys: tuple[str, ...]
    subject: str = ""  # the name; empty for what concerns the whole app
    level: Level = Level.WARNING
    message: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The finding as text."""
        return f"{self.message} {self.remedy}"

    def concerns(self, channel: str) -> bool:
        """Whether messages in a channel may suffer."""
        return self.subject in ("", channel) or any(key.startswith(f"channels.{channel}.") for key in self.keys)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What the settings name, and what Slack says."""

    named: Mapping[Name, Sequence[str]] = field(default_factory=dict)  # with the keys that name it
    switched_off: frozenset[str] = frozenset()  # channels in which agents hear nothing anyway
    known: Mapping[Name, Known] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)  # missing scopes, with what each is for
    apps: tuple[str, str] = ("", "")  # the app's id by the bot token, and by the app-level token; empty: unknown


NOT_LOOKED: Final = "Not looked at yet: Slack has not answered whether it knows what the settings name."

_VITAL: Final = "chat:write"

_TEXTS: Final = {
    (NameKind.CHANNEL, State.UNKNOWN): (
        "Slack shows the app no channel {name}",
        "Correct the id; into a private channel, invite the app first.",
    ),
    (NameKind.CHANNEL, State.CLOSED): ("{name} is archived", "Unarchive it, or remove it from the settings."),
    (NameKind.CHANNEL, State.OUTSIDE): ("the app is not in {name}, and cannot answer there", "/invite it there."),
    (NameKind.PERSON, State.UNKNOWN): ("Slack shows the app nobody with the id {name}", "Copy the ID from a profile."),
    (NameKind.PERSON, State.CLOSED): ("{name} is deactivated", "Name somebody else."),
    (NameKind.GROUP, State.UNKNOWN): ("Slack knows no user group {name}", "Correct the id (S…)."),
    (NameKind.GROUP, State.CLOSED): ("the user group {name} is disabled", "Enable it, or name another one."),
    (NameKind.BOT, State.UNKNOWN): ("Slack knows no bot {name}", "Correct the id (B… or U…)."),
    (NameKind.EMOJI, State.UNKNOWN): ("Slack refuses the emoji {name}", "Name one that this workspace has."),
}
"""What is wrong, and what to do."""

_MOST_KEYS: Final = 3


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Returns what is wrong, the worst first."""
    return (*_of_app(facts), *_of_names(facts))


def _of_app(facts: Facts) -> Iterator[Finding]:
    by_bot, by_app = facts.apps
    if by_bot and by_app and by_bot != by_app:
        message = f"The bot token belongs to the app {by_bot}, and the app-level token to {by_app}."
        keys = ("slack.bot_token", "slack.app_token")
        yield Finding(keys=keys, level=Level.RED, message=message, remedy="Take both from one app.")
    if facts.lacking:
        lost = "; ".join(f"{use} ({scope})" for scope, use in facts.lacking.items())
        yield Finding(
            keys=("slack.bot_token",),
            level=Level.RED if _VITAL in facts.lacking else Level.WARNING,
            message=f"The Slack app lacks scopes of its manifest, so it cannot: {lost}.",
            remedy="Add them to the app (`swarm slack manifest` lists all) and install it again.",
        )


def _of_names(facts: Facts) -> Iterator[Finding]:
    for (kind, name), keys in facts.named.items():
        known = facts.known[kind, name]
        texts = _TEXTS.get((kind, known.state))
        if texts is None or (name in facts.switched_off and known.state is not State.UNKNOWN):
            continue
        shown = f"{known.shown} ({name})" if known.shown else name
        message = texts[0].format(name=shown) + (f"; did you mean {known.near}?" if known.near else ".")
        more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
        place = f"{', '.join(keys[:_MOST_KEYS])}{more}: " if keys else ""
        yield Finding(keys=tuple(keys), subject=name, message=place + message, remedy=texts[1])
