"""People's actions on elements of messages and views: sends them to the app, and returns the options of menus."""

from collections.abc import Mapping

from slack_twin import payloads
from slack_twin.acts import Act, Outcome, find_element
from slack_twin.blocks.checks import items, shape
from slack_twin.blocks.objects import MENU_OPTION, OPTION_GROUP
from slack_twin.delivery import Delivery
from slack_twin.elements import Element
from slack_twin.errors import ControlError, Json
from slack_twin.forms import read_state
from slack_twin.people import Channel, User
from slack_twin.targets import Target, message_target, view_target
from slack_twin.workspace import Workspace

_EXTERNAL = ("external_select", "multi_external_select")
_OPTIONS = shape({}, {"options": items(MENU_OPTION, most=100, least=0), "option_groups": items(OPTION_GROUP, most=100)})


class Presses:
    """Sends `block_actions` and `block_suggestion`."""

    def __init__(self, workspace: Workspace, delivery: Delivery) -> None:
        self._workspace = workspace
        self._delivery = delivery

    async def on_message(self, user: User, channel: Channel, ts: str, act: Act) -> Outcome:
        """Presses a button or selects an option in a message.

        Returns after the app's acknowledgement, or after three seconds.

        Raises SlackError `message_not_found`, and ControlError 404 or 422 for an invalid element or value.
        """
        return await self._act(message_target(self._workspace, user, channel, ts), act)

    async def on_view(self, user: User, view_id: str, act: Act) -> Outcome:
        """Acts in a modal or a home tab. An input that does not notify its app only stores its value."""
        return await self._act(view_target(self._workspace, user, view_id), act)

    async def options_on_message(self, user: User, channel: Channel, ts: str, act: Act) -> list[Json]:
        """Returns an app's options of an external menu for the text `act.value`, empty after an invalid response."""
        return await self._suggest(message_target(self._workspace, user, channel, ts), act)

    async def options_on_view(self, user: User, view_id: str, act: Act) -> list[Json]:
        """Returns an app's options of an external menu in a view."""
        return await self._suggest(view_target(self._workspace, user, view_id), act)

    async def _act(self, target: Target, act: Act) -> Outcome:
        element = find_element(target.elements, act)
        if element.type in _EXTERNAL:
            await self._look_up(target, element, act)
        chosen = self._enter(target, element, act)
        if not element.tells_app:
            return Outcome()
        return await self._send(target, element, chosen)

    async def _look_up(self, target: Target, element: Element, act: Act) -> None:
        """Requests options first if the person selects an option that the app has not offered yet."""
        names = act.value if isinstance(act.value, list) else [act.value]
        for name in names:
            known = self._workspace.forms.offered(target.surface).get((element.block_id, element.action_id), [])
            if isinstance(name, str) and all(name != option["value"] for option in known):
                found = await self._suggest(target, Act(action_id=act.action_id, block_id=element.block_id, value=name))
                place = (element.block_id, element.action_id)
                self._workspace.forms.offer(target.surface, place, [*known, *found])

    def _enter(self, target: Target, element: Element, act: Act) -> Mapping[str, object]:
        """Stores the input; returns the payload's fields of the element."""
        forms, choices = self._workspace.forms, target.choices
        entered = read_state(act.state or {}, target.elements, choices)
        if element.state_field is None:
            forms.enter(target.surface, entered)
            return choices.pressed(element, act.value)
        place = (element.block_id, element.action_id)
        if act.value is not None or place not in entered:
            entered[place] = choices.state(element, act.value)
        forms.enter(target.surface, entered)
        return entered[place]

    async def _send(self, target: Target, element: Element, chosen: Mapping[str, object]) -> Outcome:
        workspace = self._workspace
        channel_id = target.channel.id if target.channel else None
        trigger = workspace.triggers.issue(
            app_id=target.app.id, user_id=target.user.id, view_id=target.view_id, channel_id=channel_id
        )
        values = workspace.forms.values(target.surface, target.elements, target.choices)
        payload = {
            **payloads.common("block_actions", target.app, target.user),
            **target.place(),
            **target.state(values),
            **self._response_url(target),
            "trigger_id": trigger.id,
            "actions": [payloads.action(element, chosen, ts=workspace.next_ts())],
        }
        sent = payloads.interaction(payload, accepts_response=False, channel=channel_id, ts=target.ts)
        reply = await self._delivery.ask(target.app, sent)
        return Outcome(error=reply.error, trigger=trigger)

    def _response_url(self, target: Target) -> Json:
        """Returns a response URL for a message. Views have none."""
        if target.channel is None:
            return {}
        url = self._workspace.response_urls.issue(
            "actions",
            app_id=target.app.id,
            user_id=target.user.id,
            channel_id=target.channel.id,
            message_ts=target.ts,
        )
        return {"response_url": self._workspace.base_url + url.path}

    async def _suggest(self, target: Target, act: Act) -> list[Json]:
        element = find_element(target.elements, act)
        if element.type not in _EXTERNAL:
            raise ControlError(422, "invalid", f"{element.type} {element.action_id!r} has static options")
        payload = {
            **payloads.common("block_suggestion", target.app, target.user),
            **target.place(),
            "action_id": element.action_id,
            "block_id": element.block_id,
            "value": act.value if isinstance(act.value, str) else "",
        }
        channel_id = target.channel.id if target.channel else None
        sent = payloads.interaction(payload, accepts_response=True, channel=channel_id, ts=target.ts)
        reply = await self._delivery.ask(target.app, sent)
        options = _options_in(reply.body)
        self._workspace.forms.offer(target.surface, (element.block_id, element.action_id), options)
        return options


def _options_in(body: object) -> list[Json]:
    """Returns the options of a response, including those in groups; empty if the response is invalid."""
    if not isinstance(body, dict) or any(_OPTIONS(body, "")):
        return []
    grouped = [option for group in body.get("option_groups") or () for option in group["options"]]
    return [*(body.get("options") or ()), *grouped]
