"""People's actions on buttons, menus, forms, commands and home tabs."""

import asyncio

from starlette.requests import Request

from slack_twin.acts import Act, Outcome
from slack_twin.control.body import Body, read_body
from slack_twin.control.lookup import find_app, find_channel, find_user
from slack_twin.errors import ControlError, Json
from slack_twin.homes import open_home, open_messages
from slack_twin.people import User
from slack_twin.triggers import Trigger
from slack_twin.twin import Twin
from slack_twin.view_shapes import view_shape
from slack_twin.workspace import Workspace

_FIELDS = "user channel ts view_id action_id block_id value state submit close all wait_seconds"
# Most apps acknowledge an action first and open a view right after. By default, a response waits this long for the
# view.
_VIEW_WAIT_SECONDS = 0.3
_MOST_WAIT_SECONDS = 10.0


class Actions:
    """Handlers of the routes for actions, suggestions, commands, shortcuts, views and home tabs below `/twin`."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    @property
    def _workspace(self) -> Workspace:
        return self._twin.workspace

    async def act(self, request: Request) -> Json:
        """Presses a button, selects an option, or submits or closes a modal.

        `ok` is false, with `error`, if no app acknowledged the action within three seconds or its response is invalid;
        `errors` contains the errors of a form by block. `view` is the modal in front afterwards; the response waits
        `wait_seconds` for it.
        """
        body = await read_body(request, known=_FIELDS)
        user = find_user(self._workspace, body.text("user"))
        return await self._told(body, user, await self._act(body, user))

    async def _act(self, body: Body, user: User) -> Outcome:
        presses, modals = self._twin.interactions.presses, self._twin.interactions.modals
        if "view_id" not in body:
            channel = find_channel(self._workspace, body.text("channel"), user)
            return await presses.on_message(user, channel, body.text("ts"), _act_of(body))
        view_id = body.text("view_id")
        if "action_id" in body:
            return await presses.on_view(user, view_id, _act_of(body))
        if body.flag("submit") == body.flag("close"):
            raise ControlError(422, "invalid", "give 'action_id', or one of 'submit' and 'close' as true")
        if body.flag("submit"):
            return await modals.submit(user, view_id, body.mapping("state"))
        return await modals.close(user, view_id, everything=body.flag("all"))

    async def _told(self, body: Body, user: User, outcome: Outcome) -> Json:
        wait_seconds = body.number("wait_seconds", lowest=0, highest=_MOST_WAIT_SECONDS)
        if outcome.error is None and outcome.trigger is not None:
            await _exchanged(outcome.trigger, _VIEW_WAIT_SECONDS if wait_seconds is None else wait_seconds)
        stack = self._workspace.surfaces.stack(user.id)
        return outcome.told() | ({"view": view_shape(self._workspace, stack[-1])} if stack else {})

    async def suggest(self, request: Request) -> Json:
        """Returns an app's options in an external menu for the text `value`."""
        body = await read_body(request, known="user channel ts view_id action_id block_id value")
        user, act = find_user(self._workspace, body.text("user")), _act_of(body)
        presses = self._twin.interactions.presses
        if "view_id" in body:
            return {"options": await presses.options_on_view(user, body.text("view_id"), act)}
        channel = find_channel(self._workspace, body.text("channel"), user)
        return {"options": await presses.options_on_message(user, channel, body.text("ts"), act)}

    async def command(self, request: Request) -> Json:
        """Runs a slash command. The text may mention people with `@`."""
        body = await read_body(request, known="user channel command text wait_seconds")
        user = find_user(self._workspace, body.text("user"))
        channel = find_channel(self._workspace, body.text("channel"), user)
        name = body.text("command")
        command = name if name.startswith("/") else f"/{name}"
        outcome = await self._twin.interactions.commands.run(user, channel, command, body.optional("text") or "")
        return await self._told(body, user, outcome)

    async def shortcut(self, request: Request) -> Json:
        """Runs an app's shortcut: a message shortcut if `channel` and `ts` are given, otherwise a global one."""
        body = await read_body(request, known="user app callback_id channel ts wait_seconds")
        user, app = find_user(self._workspace, body.text("user")), find_app(self._workspace, body.text("app"))
        commands, callback_id = self._twin.interactions.commands, body.text("callback_id")
        if "ts" not in body:
            return await self._told(body, user, await commands.shortcut(user, app, callback_id))
        channel = find_channel(self._workspace, body.text("channel"), user)
        message = self._workspace.message(channel, body.text("ts"))
        return await self._told(body, user, await commands.message_shortcut(user, app, callback_id, channel, message))

    async def views(self, request: Request) -> Json:
        """Returns a person's open modals, the front modal last, and the home tabs of the apps."""
        user = find_user(self._workspace, request.query_params.get("user", ""))
        surfaces, apps = self._workspace.surfaces, self._workspace.directory.apps.values()
        homes = {app.name: view for app in apps if (view := surfaces.home(app.id, user.id))}
        return {
            "views": [view_shape(self._workspace, view) for view in surfaces.stack(user.id)],
            "homes": {name: view_shape(self._workspace, view) for name, view in homes.items()},
        }

    async def home(self, request: Request) -> Json:
        """Opens an app's Home tab, or with `tab` its Messages tab next to `channel`, which sends `app_home_opened`."""
        body = await read_body(request, known="user app tab channel")
        user, app = find_user(self._workspace, body.text("user")), find_app(self._workspace, body.text("app"))
        tab, name = body.optional("tab") or "home", body.optional("channel")
        if tab not in ("home", "messages"):
            raise ControlError(422, "invalid", f"'tab' is 'home' or 'messages', not {tab!r}")
        if tab == "messages":
            open_messages(self._workspace, user, app, find_channel(self._workspace, name, user) if name else None)
            return {"ok": True}
        view = open_home(self._workspace, user, app)
        return {"ok": True} | ({"view": view_shape(self._workspace, view)} if view else {})


def _act_of(body: Body) -> Act:
    return Act(
        action_id=body.text("action_id"),
        block_id=body.optional("block_id"),
        value=body.anything("value"),
        state=body.mapping("state"),
    )


async def _exchanged(trigger: Trigger, seconds: float) -> None:
    """Waits up to `seconds` for the app to open a view."""
    try:
        await asyncio.wait_for(trigger.exchanged.wait(), seconds)
    except TimeoutError:
        return
