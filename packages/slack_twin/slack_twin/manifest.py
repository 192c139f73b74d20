"""Creates apps from their manifests, the JSON that Slack exports: names, scopes, events and URLs.

https://docs.slack.dev/reference/app-manifest
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from slack_twin.arguments import loads
from slack_twin.people import Command, Experience, Shortcut
from slack_twin.seed import DEFAULT, Seed, SeedApp
from slack_twin.subscriptions import checked_events

WEBHOOK_SCOPE = "incoming-webhook"


class _Part:
    """An object within a manifest. A value of the wrong type raises ValueError with its path."""

    def __init__(self, value: object, place: str = "") -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{place or 'a manifest'} must be an object")
        self._values = value
        self._place = place

    @property
    def is_given(self) -> bool:
        """Whether the object has any value."""
        return bool(self._values)

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def part(self, name: str) -> "_Part":
        """Returns a nested object, empty if it is absent."""
        return _Part(self._values.get(name) or {}, self._at(name))

    def text(self, name: str) -> str:
        value = self._values.get(name) or ""
        if not isinstance(value, str):
            raise ValueError(f"{self._at(name)} must be a string")
        return value

    def required(self, name: str) -> str:
        if not self.text(name):
            raise ValueError(f"{self._at(name)} is missing")
        return self.text(name)

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise ValueError(f"{self._at(name)} must be true or false")
        return value

    def items(self, name: str) -> list[object]:
        value = self._values.get(name) or []
        if not isinstance(value, list):
            raise ValueError(f"{self._at(name)} must be a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise ValueError(f"{self._at(name)} must be a list of strings")
        return tuple(str(item) for item in items)

    def parts(self, name: str) -> "list[_Part]":
        return [_Part(item, f"{self._at(name)}[{number}]") for number, item in enumerate(self.items(name))]


def app_of(manifest: object) -> SeedApp:
    """Returns the app that a manifest describes; its credentials are derived from its name.

    Raises ValueError for a missing value, a wrong type, or a missing scope or URL that another value needs.
    """
    root = _Part(manifest)
    title = root.part("display_information").required("name")
    features, settings = root.part("features"), root.part("settings")
    subscriptions, interactivity = settings.part("event_subscriptions"), settings.part("interactivity")
    scopes = root.part("oauth_config").part("scopes").texts("bot")
    shown = features.part("bot_user").text("display_name") or title
    events = checked_events(subscriptions.texts("bot_events"), scopes)
    is_http = not settings.flag("socket_mode_enabled")
    request_url = subscriptions.text("request_url") if is_http else ""
    if is_http and events and not request_url:
        raise ValueError("settings.event_subscriptions.request_url is missing, or settings.socket_mode_enabled")
    name = re.sub(r"[^\w.\-]+", "_", shown.lower()).strip("_") or "app"
    return SeedApp(
        name=name,
        display_name=shown,
        **credentials(name),
        scopes=scopes,
        events=tuple(sorted(events)),
        request_url=request_url or None,
        interactivity_url=(interactivity.text("request_url") if is_http else "") or None,
        options_url=(interactivity.text("message_menu_options_url") if is_http else "") or None,
        commands=tuple(_command(part, is_http=is_http) for part in features.parts("slash_commands")),
        shortcuts=tuple(_shortcut(part) for part in features.parts("shortcuts")),
        webhooks=("general",) if WEBHOOK_SCOPE in scopes else (),
        experience=_experience(features),
    )


def _experience(features: _Part) -> Experience:
    """Returns the declared experience. Raises ValueError for both, since an app cannot have both."""
    is_agent, is_assistant = features.part("agent_view").is_given, features.part("assistant_view").is_given
    if is_agent and is_assistant:
        raise ValueError("features.agent_view and features.assistant_view exclude each other")
    return Experience.AGENT if is_agent else Experience.ASSISTANT if is_assistant else Experience.PLAIN


class Credentials(TypedDict):
    """The credentials of an app."""

    bot_token: str
    app_token: str
    signing_secret: str


def credentials(name: str) -> Credentials:
    """Returns the default credentials for an app's name."""
    return {
        "bot_token": f"xoxb-twin-{name}",
        "app_token": f"xapp-twin-{name}",
        "signing_secret": f"twin-signing-secret-{name}",
    }


def _command(part: _Part, *, is_http: bool) -> Command:
    return Command(
        name=part.required("command"),
        description=part.text("description"),
        usage_hint=part.text("usage_hint"),
        url=(part.text("url") if is_http else "") or None,
    )


def _shortcut(part: _Part) -> Shortcut:
    kind = part.required("type")
    if kind not in ("global", "message"):
        raise ValueError(f"a shortcut's type is 'global' or 'message', not {kind!r}")
    return Shortcut(callback_id=part.required("callback_id"), name=part.text("name"), is_global=kind == "global")


def seed_from_manifests(paths: Sequence[str | Path]) -> Seed:
    """Returns a seed with the default people and channels, and the apps of these files instead of the default app.

    Raises OSError for an unreadable file, and ValueError with the file's name for an invalid manifest.
    """
    return Seed(users=DEFAULT.users, channels=DEFAULT.channels, apps=tuple(_app_in(Path(path)) for path in paths))


def _app_in(path: Path) -> SeedApp:
    try:
        return app_of(read_manifest(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_manifest(given: str | Path | Mapping[str, object]) -> object:
    """Returns the content of a JSON file, or `given` itself if it is not a path."""
    return loads(Path(given).read_bytes()) if isinstance(given, str | Path) else given
