"""Submitting and closing of modals, and the apps' responses.

https://docs.slack.dev/surfaces/modals
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slack_twin import payloads
from slack_twin.acts import Outcome
from slack_twin.blocks.views import read_view
from slack_twin.delivery import Delivery
from slack_twin.elements import Element
from slack_twin.errors import ControlError, Json, SlackError
from slack_twin.form_checks import form_problems
from slack_twin.forms import Values, read_state
from slack_twin.people import User
from slack_twin.surfaces import Surfaces, ViewKind
from slack_twin.targets import ViewTarget, view_target
from slack_twin.workspace import Workspace

INVALID_RESPONSE = "invalid_response"  # the app's acknowledgement is invalid


class Modals:
    """Sends `view_submission` and `view_closed`."""

    def __init__(self, workspace: Workspace, delivery: Delivery) -> None:
        self._workspace = workspace
        self._delivery = delivery

    @property
    def _surfaces(self) -> Surfaces:
        return self._workspace.surfaces

    async def submit(self, user: User, view_id: str, state: Mapping[str, object] | None = None) -> Outcome:
        """Submits the front form. `errors` of the outcome are those of the client or of the app.

        Raises ControlError 404 if the modal is not visible to the person, 422 if it has no submit button or an input is
        invalid.
        """
        target = self._modal(user, view_id)
        definition = target.view.definition
        if definition.submit is None and not any(element.is_input for element in target.elements):
            raise ControlError(422, "invalid", f"view {view_id!r} has no submit button")
        self._workspace.forms.enter(target.surface, read_state(state or {}, target.elements, target.choices))
        problems = form_problems(target.elements, self._values(target))
        if problems:
            return Outcome(error="invalid_form", errors=problems)
        trigger = self._workspace.triggers.issue(app_id=target.app.id, user_id=user.id, view_id=view_id)
        payload = {
            **payloads.common("view_submission", target.app, user),
            "trigger_id": trigger.id,
            "view": target.place()["view"],
            "response_urls": self._response_urls(target),
        }
        reply = await self._delivery.ask(target.app, payloads.interaction(payload, accepts_response=True))
        if reply.error is not None:
            return Outcome(error=reply.error, trigger=trigger)
        outcome = self._follow(target, reply.body)
        return Outcome(error=outcome.error, errors=outcome.errors, trigger=trigger)

    async def close(self, user: User, view_id: str, *, everything: bool = False) -> Outcome:
        """Closes the modal, or all of them with `everything`; apps that have requested it are notified.

        Raises ControlError 404 if the modal is not visible to the person.
        """
        target = self._modal(user, view_id)
        is_cleared = everything or target.view.definition.clear_on_close
        closed = self._surfaces.close_all(user.id) if is_cleared else [target.view]
        self._surfaces.close(target.view)
        outcome = Outcome()
        for view in closed:
            if view.definition.notify_on_close:
                error = await self._tell_closed(replace(target, view=view), is_cleared=is_cleared)
                outcome = Outcome(error=outcome.error or error)
            self._workspace.forms.forget((user.id, view.id))
        return outcome

    async def _tell_closed(self, target: ViewTarget, *, is_cleared: bool) -> str | None:
        payload = {
            **payloads.common("view_closed", target.app, target.user),
            "view": target.place()["view"],
            "is_cleared": is_cleared,
        }
        reply = await self._delivery.ask(target.app, payloads.interaction(payload, accepts_response=False))
        return reply.error

    def _modal(self, user: User, view_id: str) -> ViewTarget:
        target = view_target(self._workspace, user, view_id)
        if target.view.definition.kind is not ViewKind.MODAL:
            raise ControlError(422, "invalid", f"view {view_id!r} is a home tab, which cannot be submitted or closed")
        return target

    def _values(self, target: ViewTarget) -> Values:
        return self._workspace.forms.values(target.surface, target.elements, target.choices)

    def _follow(self, target: ViewTarget, answer: object) -> Outcome:
        """Applies the app's response to a submission; without a `response_action`, the modal closes."""
        if answer in (None, "", {}):
            self._surfaces.close(target.view)
            self._workspace.forms.forget(target.surface)
            return Outcome()
        if not isinstance(answer, dict):
            return Outcome(error=INVALID_RESPONSE)
        try:
            return self._act_on(target, answer)
        except SlackError as refusal:
            return Outcome(error=refusal.code)

    def _act_on(self, target: ViewTarget, answer: Json) -> Outcome:
        """Applies a response action. Raises SlackError if its view is invalid."""
        match answer.get("response_action"):
            case "errors":
                return _errors(target.elements, answer.get("errors"))
            case "update":
                self._surfaces.update(target.view, read_view(answer.get("view"), ViewKind.MODAL))
            case "push":
                self._surfaces.push(read_view(answer.get("view"), ViewKind.MODAL), target.view)
            case "clear":
                self._surfaces.close_all(target.user.id)
            case _:
                return Outcome(error=INVALID_RESPONSE)
        return Outcome()

    def _response_urls(self, target: ViewTarget) -> list[Json]:
        """Returns a response URL for each conversation selected in a menu with response URLs enabled."""
        urls: list[Json] = []
        for element in target.elements:
            if element.is_input and element.shape.get("response_url_enabled") is True:
                held = self._values(target)[element.block_id][element.action_id].get(element.state_field or "")
                if isinstance(held, str):
                    urls.append(self._response_url(target, element, held))
        return urls

    def _response_url(self, target: ViewTarget, element: Element, chosen: str) -> Json:
        """Returns the response URL of a selection; a selected person stands for the direct conversation."""
        is_person = chosen in self._workspace.directory.users
        channel_id = self._workspace.direct_channel(target.user.id, chosen).id if is_person else chosen
        url = self._workspace.response_urls.issue(
            "app", app_id=target.app.id, user_id=target.user.id, channel_id=channel_id
        )
        return {
            "block_id": element.block_id,
            "action_id": element.action_id,
            "channel_id": channel_id,
            "response_url": self._workspace.base_url + url.path,
        }


def _errors(elements: Sequence[Element], given: object) -> Outcome:
    """Returns the app's errors, which must refer to inputs of the form."""
    blocks = {element.block_id for element in elements if element.is_input}
    if not isinstance(given, dict) or not given or not given.keys() <= blocks:
        return Outcome(error=INVALID_RESPONSE)
    return Outcome(errors={block_id: str(message) for block_id, message in given.items()})
