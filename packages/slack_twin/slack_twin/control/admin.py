"""Administration by tests: reads the journals, plans faults, advances the clock, seeds and resets the workspace."""

from dataclasses import replace

from starlette.requests import Request

from slack_twin.control.body import Body, as_body, query_number, read_body
from slack_twin.control.lookup import find_app, find_user
from slack_twin.errors import ControlError, Json
from slack_twin.faults import CALL_KINDS, EVENT_KINDS, SOCKET_KINDS, STREAM_METHODS, Fault, FaultKind
from slack_twin.manifest import app_of, credentials
from slack_twin.methods import METHODS
from slack_twin.people import App, Command
from slack_twin.seed import SCOPES, Seed, SeedApp, SeedChannel, SeedGuest, SeedTeam, SeedUser, SeedUserGroup
from slack_twin.subscriptions import checked_events
from slack_twin.twin import Twin

_MOST_SECONDS = 10 * 365 * 86_400.0
_MOST_TIMES = 1_000_000
_USER = "name real_name display_name email"
_APP = "name manifest bot_token app_token signing_secret scopes events request_url channels commands webhooks"


class Admin:
    """Handlers for journals, faults, the clock, seeding and resetting."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def calls(self, request: Request) -> Json:
        return {"calls": self._twin.web_api.journal.since(query_number(request, "since"))}

    async def deliveries(self, request: Request) -> Json:
        return {"deliveries": self._twin.delivery.journal.since(query_number(request, "since"))}

    async def advance_clock(self, request: Request) -> Json:
        """Advances the clock; without `advance_seconds`, only returns the time."""
        body = await read_body(request, known="advance_seconds")
        seconds = body.number("advance_seconds", lowest=0, highest=_MOST_SECONDS)
        return {"now": self._twin.clock.advance(seconds or 0.0)}

    async def plan_fault(self, request: Request) -> Json:
        """Plans a fault.

        Without an event or method, a fault of connections or streams affects the open ones immediately.
        """
        body = await read_body(request, known="method event app kind error seconds times")
        kind = _kind(body)
        app = find_app(self._twin.workspace, name) if (name := body.optional("app")) else None
        method, event = body.optional("method"), body.optional("event")
        _check_target(kind, method, event)
        fault = self._twin.faults.plan(
            kind,
            method=method,
            event=event,
            app=app.id if app else None,
            error=body.optional("error"),
            seconds=body.number("seconds", lowest=0, highest=_MOST_SECONDS),
            times=int(body.number("times", lowest=1, highest=_MOST_TIMES) or 1),
        )
        if self._act_now(fault, app):
            self._twin.faults.cancel(fault)
        return {"id": fault.id}

    def _act_now(self, fault: Fault, app: App | None) -> bool:
        """Applies a fault that needs no call or event. Returns False if the fault must wait for one."""
        if fault.kind is FaultKind.EXPIRE_STREAM and fault.method is None:
            return self._twin.workspace.streams.expire_all(fault.app)
        if fault.kind not in SOCKET_KINDS or fault.event is not None:
            return False
        apps = [app.id] if app else list(self._twin.workspace.directory.apps)
        if fault.kind is FaultKind.CLOSE_SOCKET:
            self._twin.sockets.close(apps, reason=fault.error)
            return True
        for app_id in apps:
            self._twin.sockets.silence(app_id, fault.seconds)
        return True

    async def clear_faults(self, request: Request) -> Json:
        """Removes planned faults and ends the silence of connections."""
        self._twin.faults.clear()
        self._twin.sockets.unsilence()
        return {"ok": True}

    async def seed(self, request: Request) -> Json:
        """Adds people, channels and apps, or updates those of the same name. People and channels may be plain names."""
        body = await read_body(request, known="users channels apps user_groups guests teams emoji")
        seed = Seed(
            users=body.items("users", _user),
            channels=body.items("channels", _channel),
            apps=body.items("apps", _app),
            user_groups=body.items("user_groups", _user_group),
            guests=body.items("guests", _guest),
            teams=body.items("teams", _team),
            emoji={name: str(address) for name, address in (body.mapping("emoji") or {}).items()},
        )
        try:
            self._twin.plant(seed)
        except KeyError as unknown:
            raise ControlError(404, "not_found", f"the seed names {unknown}, which does not exist") from None
        self._twin.feed.reload()
        self._verify(seed)
        directory = self._twin.workspace.directory
        return {
            "ok": True,
            "users": {user.name: user.id for user in directory.users.values()},
            "channels": {channel.name: channel.id for channel in directory.channels.values() if channel.name},
            "apps": {app.name: app.id for app in directory.apps.values()},
            "webhooks": {app.name: self._webhook_urls(app) for app in directory.apps.values()},
        }

    def _webhook_urls(self, app: App) -> list[str]:
        workspace = self._twin.workspace
        return [workspace.base_url + webhook.path for webhook in workspace.webhooks.of(app.id)]

    async def install(self, request: Request) -> Json:
        """Installs an app as a person. Returns a code for its token (`oauth.v2.access`)."""
        body = await read_body(request, known="app user redirect_uri")
        workspace = self._twin.workspace
        app, user = find_app(workspace, body.text("app")), find_user(workspace, body.text("user"))
        redirect_uri = body.optional("redirect_uri") or ""
        grant = workspace.grants.issue(app_id=app.id, user_id=user.id, redirect_uri=redirect_uri)
        return {"code": grant.code, "client_id": app.client_id, "client_secret": app.client_secret}

    def _verify(self, seed: Seed) -> None:
        """Verifies the request URLs that the seed sets."""
        for named in seed.apps:
            app = self._twin.workspace.directory.app(named.name)
            if app is not None and named.request_url:
                self._twin.delivery.verify(app)

    async def reset(self, request: Request) -> Json:
        """Restores the seed; with `{"seed": "default"}`, restores the state at the twin's start."""
        body = await read_body(request, known="seed")
        if body.optional("seed") not in (None, "default"):
            raise ControlError(422, "invalid", "'seed' can only be \"default\"")
        await self._twin.reset(to_default=body.optional("seed") == "default")
        return {"ok": True}


def _kind(body: Body) -> FaultKind:
    name = body.text("kind")
    try:
        return FaultKind(name)
    except ValueError:
        raise ControlError(422, "invalid", f"no fault {name!r}", f"available: {', '.join(FaultKind)}") from None


def _check_target(kind: FaultKind, method: str | None, event: str | None) -> None:
    """Raises an error for a fault that can never occur, so that no test waits for it."""
    if method is not None and method not in METHODS:
        raise ControlError(404, "not_found", f"no method {method!r}", f"available: {', '.join(sorted(METHODS))}")
    if method is not None and kind not in CALL_KINDS:
        raise ControlError(422, "invalid", f"{kind} applies to events, not methods")
    if method is not None and kind is FaultKind.EXPIRE_STREAM and method not in STREAM_METHODS:
        raise ControlError(422, "invalid", f"{kind} applies to {' and '.join(sorted(STREAM_METHODS))} only")
    if event is not None and kind not in EVENT_KINDS:
        raise ControlError(422, "invalid", f"{kind} applies to methods, not events")
    if method is not None and event is not None:
        raise ControlError(422, "invalid", "a fault applies to a method or an event, not both")


def _user(item: object) -> SeedUser:
    return _seed_user(as_body(item, known=_USER))


def _guest(item: object) -> SeedGuest:
    given = as_body(item, known=f"{_USER} channels single_channel")
    return SeedGuest(
        user=_seed_user(given),
        channels=given.texts("channels") or ("general",),
        is_single_channel=given.flag("single_channel"),
    )


def _team(item: object) -> SeedTeam:
    given = as_body(item, known="name users channels")
    return SeedTeam(
        name=given.text("name"), users=given.items("users", _user), channels=given.texts("channels") or ("general",)
    )


def _seed_user(given: Body) -> SeedUser:
    return SeedUser(
        name=given.text("name"),
        real_name=given.optional("real_name") or "",
        display_name=given.optional("display_name") or "",
        email=given.optional("email") or "",
    )


def _channel(item: object) -> SeedChannel:
    given = as_body(item, known="name members is_private topic")
    return SeedChannel(
        name=given.text("name").removeprefix("#"),
        members=given.texts("members"),
        is_private=given.flag("is_private"),
        topic=given.optional("topic") or "",
    )


def _user_group(item: object) -> SeedUserGroup:
    given = as_body(item, known="handle name description members")
    return SeedUserGroup(
        handle=given.text("handle").removeprefix("@"),
        members=given.texts("members") or (),
        name=given.optional("name") or "",
        description=given.optional("description") or "",
    )


def _app(item: object) -> SeedApp:
    """Reads an app from its fields, or from its manifest and the fields that override it."""
    given = as_body(item, known=_APP)
    app = _by_manifest(given) if "manifest" in given else _by_name(given.text("name"))
    events, channels, webhooks = given.texts("events"), given.texts("channels"), given.texts("webhooks")
    app = replace(
        app,
        bot_token=given.optional("bot_token") or app.bot_token,
        app_token=given.optional("app_token") or app.app_token,
        signing_secret=given.optional("signing_secret") or app.signing_secret,
        request_url=given.optional("request_url") or app.request_url,
        scopes=given.texts("scopes") or app.scopes,
        events=app.events if events is None else events,
        channels=app.channels if channels is None else channels,
        webhooks=app.webhooks if webhooks is None else webhooks,
        commands=given.items("commands", _command) if "commands" in given else app.commands,
    )
    try:
        checked_events(app.events or (), app.scopes)
    except ValueError as error:
        raise ControlError(422, "invalid", f"{app.name}: {error}") from None
    return app


def _by_name(name: str) -> SeedApp:
    return SeedApp(name=name, **credentials(name), scopes=SCOPES)


def _by_manifest(given: Body) -> SeedApp:
    try:
        app = app_of(given.mapping("manifest"))
    except ValueError as error:
        raise ControlError(422, "invalid", f"the manifest: {error}") from None
    name = given.optional("name") or app.name
    return replace(app, name=name, **credentials(name))


def _command(item: object) -> Command:
    """Reads a command from its name, or from an object with a description and a hint about its arguments."""
    given = as_body(item, known="name description usage_hint")
    name = given.text("name")
    return Command(
        name=name if name.startswith("/") else f"/{name}",
        description=given.optional("description") or "",
        usage_hint=given.optional("usage_hint") or "",
    )
