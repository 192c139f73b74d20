"""The workspace of the fixture `slack_twin`."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from slack_twin.control.lookup import find_app, find_channel, find_user
from slack_twin.directory import SLACKBOT
from slack_twin.manifest import app_of, read_manifest
from slack_twin.people import User
from slack_twin.testing.apps import InstalledApp, installed
from slack_twin.testing.clock import TwinClock
from slack_twin.testing.faults import TwinFaults
from slack_twin.testing.journals import ApiCall, Delivery, read_calls, read_deliveries
from slack_twin.testing.line import Line
from slack_twin.testing.messages import Message, first_of_app, read_messages, with_text
from slack_twin.testing.person import Person
from slack_twin.testing.server import DEFAULT_APP, TwinServer, given, new_tokens
from slack_twin.testing.waiting import Steps, waits

__tracebackhide__ = True  # hides this module in tracebacks of failing tests

Seen = TypeVar("Seen")


class SlackTwin:
    """A workspace with the people `alice`, `bob` and `carol`, the channels `general` and `random`, and the app `app`.

    Unknown names raise Refused. Waits are limited by `timeout_seconds`, or by the option `slack_twin_timeout_seconds`.
    Asynchronous tests use `await ….aio(…)`.
    """

    def __init__(self, server: TwinServer, *, timeout_seconds: float = 5.0) -> None:
        self._server = server
        self._line = Line(server=server, timeout_seconds=timeout_seconds)
        self.faults = TwinFaults(server)
        self.clock = TwinClock(server)

    @property
    def base_url(self) -> str:
        """The base URL, like `http://127.0.0.1:8400/`; a browser shows the workspace at this address."""
        return self._server.base_url

    @property
    def web_api_url(self) -> str:
        """The `base_url` for `WebClient`."""
        return f"{self.base_url}api/"

    def app(self, name: str = DEFAULT_APP) -> InstalledApp:
        """Returns the ids and credentials of an app."""
        return self._server.do(lambda twin: installed(find_app(twin.workspace, name), twin.workspace))

    def bot_token(self, app: str = DEFAULT_APP) -> str:
        """Returns the `xoxb-` token of an app."""
        return self.app(app).bot_token

    def app_token(self, app: str = DEFAULT_APP) -> str:
        """Returns the `xapp-` token of an app, for Socket Mode."""
        return self.app(app).app_token

    def signing_secret(self, app: str = DEFAULT_APP) -> str:
        """Returns the secret that signs HTTP requests to an app."""
        return self.app(app).signing_secret

    def environment(self, app: str = DEFAULT_APP) -> dict[str, str]:
        """Returns the environment variables for an app in a separate process."""
        known = self.app(app)
        return {
            "SLACK_BOT_TOKEN": known.bot_token,
            "SLACK_APP_TOKEN": known.app_token,
            "SLACK_SIGNING_SECRET": known.signing_secret,
            "SLACK_API_BASE_URL": self.web_api_url,
            "SLACK_API_URL": self.web_api_url,
        }

    def add_app(
        self,
        name: str = "",
        *,
        manifest: str | Path | Mapping[str, object] | None = None,
        request_url: str | None = None,
        scopes: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
        channels: Iterable[str] | None = None,
        commands: Iterable[str] | None = None,
        webhooks: Iterable[str] | None = None,
    ) -> InstalledApp:
        """Installs an app, or updates the app of this name with new tokens.

        With `request_url` it receives everything over signed HTTP, otherwise over Socket Mode. By default it has all
        scopes, is a member of all public channels, subscribes to all events, and has one slash command with its own
        name. `manifest` is the path or the content of a manifest; explicit arguments override it. `webhooks` are
        channels for incoming webhooks of the app.
        """
        described = read_manifest(manifest) if manifest is not None else None
        name = name or (app_of(described).name if described else DEFAULT_APP)
        fields = given(
            name=name,
            manifest=described,
            request_url=request_url,
            scopes=_listed(scopes),
            events=_listed(events),
            channels=_listed(channels),
            commands=_listed(commands),
            webhooks=_listed(webhooks),
        )
        self._server.ask("POST", "seed", {"apps": [fields | new_tokens(name)]})
        return self.app(name)

    def add_user(self, name: str, *, real_name: str | None = None, email: str | None = None) -> Person:
        """Adds a person to the workspace and all its public channels."""
        fields = given(name=name, real_name=real_name, display_name=real_name, email=email)
        self._server.ask("POST", "seed", {"users": [fields]})
        return self.user(name)

    def add_guest(self, name: str, *, channels: Iterable[str] | None = None) -> Person:
        """Adds a guest to some channels, by default to `general`."""
        self._server.ask("POST", "seed", {"guests": [given(name=name, channels=_listed(channels))]})
        return self.user(name)

    def add_team(self, name: str, *, users: Iterable[str], channels: Iterable[str] | None = None) -> tuple[Person, ...]:
        """Shares channels, by default `general`, with another workspace. Returns its people in order."""
        people = list(users)
        self._server.ask("POST", "seed", {"teams": [given(name=name, users=people, channels=_listed(channels))]})
        return tuple(self.user(person) for person in people)

    def add_channel(
        self, name: str, *, members: Iterable[str] | None = None, is_private: bool = False, topic: str = ""
    ) -> str:
        """Creates a channel and returns its id. `members` are names of people and apps, by default everyone.

        By default, a private channel has all people and no apps.
        """
        fields = given(name=name, members=_listed(members), is_private=is_private, topic=topic)
        self._server.ask("POST", "seed", {"channels": [fields]})
        return self.channel_id(name)

    def user(self, name: str) -> Person:
        """Returns a person by name or id."""
        user_id, known_as = self._server.do(lambda twin: _named(find_user(twin.workspace, name)))
        return Person(name=known_as, id=user_id, line=self._line)

    def email(self, subject: str, text: str, *, sender: str, channel: str = "general") -> Message:
        """Sends an e-mail to a channel; Slackbot posts it there. `sender` is like `Ann <ann@example.org>`."""
        file = {"kind": "email", "subject": subject, "from": sender, "text": text}
        return self.user(SLACKBOT.id).says(channel=channel, files={subject: file})

    def channel_id(self, name: str) -> str:
        """Returns the id of a channel, as used in calls and events."""
        return self._server.do(lambda twin: find_channel(twin.workspace, name).id)

    def messages(self, channel: str = "general") -> list[Message]:
        """Returns the messages of a channel with all replies, oldest first."""
        return read_messages(self._line, self.channel_id(channel))

    def calls(self, method: str | None = None, *, app: str | None = None, ok: bool | None = None) -> list[ApiCall]:
        """Returns Web API calls, oldest first, optionally filtered by method, app and success."""
        return [
            call
            for call in read_calls(self._server)
            if method in (None, call.method) and app in (None, call.app) and ok in (None, call.ok)
        ]

    def deliveries(self, kind: str | None = None, *, app: str | None = None) -> list[Delivery]:
        """Returns delivery attempts, oldest first, optionally filtered by event type and app."""
        return [one for one in read_deliveries(self._server) if kind in (None, one.kind) and app in (None, one.app)]

    @waits
    def wait_for(
        self, look: Callable[[], Seen], *, what: str = "", timeout_seconds: float | None = None
    ) -> Steps[Seen]:
        """Calls `look` after each change until it returns a true value, and returns that value.

        Raises NotInTime, which includes `what` and lists the app's calls and deliveries instead.
        """
        return (yield from self._line.until(look, what or _name_of(look), timeout_seconds))

    @waits
    def wait_for_message(
        self,
        channel: str = "general",
        *,
        containing: str = "",
        after: Message | None = None,
        timeout_seconds: float | None = None,
    ) -> Steps[Message]:
        """Waits for an app's first finished message in a channel or its threads. Raises NotInTime.

        `after` excludes the messages that existed when `after` was posted.
        """

        def look() -> Message | None:
            return first_of_app(self.messages(channel), containing=containing, after=after)

        what = with_text(f"an app's message in {channel}", containing)
        return (yield from self._line.until(look, what, timeout_seconds))

    @waits
    def wait_for_calls(
        self,
        method: str,
        *,
        count: int = 1,
        app: str | None = None,
        ok: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Steps[list[ApiCall]]:
        """Waits until a method was called at least `count` times, and returns all its calls. Raises NotInTime."""

        def look() -> list[ApiCall]:
            found = self.calls(method, app=app, ok=ok)
            return found if len(found) >= count else []

        return (yield from self._line.until(look, f"{count} calls of {method}", timeout_seconds))

    @waits
    def wait_until_connected(self, app: str = DEFAULT_APP, *, timeout_seconds: float | None = None) -> Steps[None]:
        """Waits for an app's Socket Mode connection; earlier events may not reach the app. Raises NotInTime."""
        app_id = self.app(app).id
        yield from self._line.until(
            lambda: self._server.do(lambda twin: twin.sockets.connection_count(app_id)),
            f"a Socket Mode connection of {app!r}",
            timeout_seconds,
        )


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _named(user: User) -> tuple[str, str]:
    return user.id, user.name


def _name_of(look: object) -> str:
    name = getattr(look, "__name__", "")
    return "what was waited for" if name in ("", "<lambda>") else name.replace("_", " ")
