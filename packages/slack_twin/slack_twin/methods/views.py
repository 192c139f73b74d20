"""views.* and blocks.validate: modals and home tabs. https://docs.slack.dev/surfaces/modals"""

from slack_twin.blocks import block_problems
from slack_twin.blocks.layout import Where
from slack_twin.blocks.views import read_view, view_problems
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.surfaces import AppView, ViewKind
from slack_twin.triggers import Trigger
from slack_twin.view_shapes import view_shape


def open_view(call: Call) -> Json:
    """Opens a modal for the person behind a trigger.

    Raises `invalid_arguments`, `view_too_large`, `duplicate_external_id`, `invalid_trigger_id`, `expired_trigger_id`,
    `exchanged_trigger_id`.
    """
    definition = read_view(_view(call), ViewKind.MODAL)
    trigger = _trigger(call)
    view = call.workspace.surfaces.open(
        definition, app_id=call.app.id, user_id=trigger.user_id, channel_id=trigger.channel_id
    )
    return _opened(call, view, trigger)


def push_view(call: Call) -> Json:
    """Pushes a modal on top of the modal in which the person acted.

    Raises the errors of `open_view`, `not_found` if that modal is closed, and `push_limit_reached`.
    """
    definition = read_view(_view(call), ViewKind.MODAL)
    trigger = _trigger(call)
    onto = call.workspace.surfaces.shown(trigger.view_id) if trigger.view_id else None
    if onto is None:
        raise SlackError("not_found")
    return _opened(call, call.workspace.surfaces.push(definition, onto), trigger)


def update_view(call: Call) -> Json:
    """Updates a view.

    Raises `invalid_arguments`, `view_too_large`, `not_found`, `hash_conflict`, `duplicate_external_id`.
    """
    view_id, external_id = call.args.optional("view_id"), call.args.optional("external_id")
    if not view_id and not external_id:
        raise _missing("view_id")
    value = _view(call)
    view = call.workspace.surfaces.find(call.app.id, view_id=view_id, external_id=external_id)
    definition = read_view(value, view.definition.kind)
    call.workspace.surfaces.update(view, definition, expected_hash=call.args.optional("hash"))
    return {"view": view_shape(call.workspace, view)}


def publish_view(call: Call) -> Json:
    """Publishes the app's home tab for one person.

    Raises `invalid_arguments`, `view_too_large`, `user_not_found`, `hash_conflict`, `duplicate_external_id`.
    """
    user_id = call.args.text("user_id")
    definition = read_view(_view(call), ViewKind.HOME)
    user = call.directory.users.get(user_id)
    if user is None or user.is_bot:
        raise SlackError("user_not_found")
    view = call.workspace.surfaces.publish(
        definition, app_id=call.app.id, user_id=user_id, expected_hash=call.args.optional("hash")
    )
    return {"view": view_shape(call.workspace, view)}


def _view(call: Call) -> object:
    view = call.args.json("view")
    if view is None:
        raise _missing("view")
    return view


def _trigger(call: Call) -> Trigger:
    """Returns the trigger of a call, from a trigger id or an interactivity pointer."""
    name = "interactivity_pointer" if "interactivity_pointer" in call.args else "trigger_id"
    return call.workspace.triggers.check(call.args.text(name), app_id=call.app.id)


def _opened(call: Call, view: AppView, trigger: Trigger) -> Json:
    trigger.exchanged.set()
    return {"view": view_shape(call.workspace, view)}


def _missing(name: str) -> SlackError:
    return SlackError("invalid_arguments", messages=[f"[ERROR] missing required field: {name}"])


def validate(call: Call) -> Json:
    """Checks `blocks`, a `message` or a `view`.

    Raises `invalid_blocks`, `invalid_message` or `invalid_view` with the errors, and `invalid_arguments`.
    """
    given = [name for name in ("blocks", "message", "view") if name in call.args]
    if len(given) != 1:
        raise SlackError("invalid_arguments", messages=["[ERROR] provide exactly one of blocks, view, or message"])
    value = call.args.json(given[0])
    match given[0]:
        case "view":
            problems = view_problems(value)
        case "message" if isinstance(value, dict):
            problems = block_problems(value.get("blocks", []), Where.MESSAGE, "/blocks")
        case _:
            problems = block_problems(value, Where.MESSAGE, "")
    if problems:
        parts = [problem.removesuffix("]").rpartition(" [json-pointer:") for problem in problems]
        errors = [{"pointer": pointer, "code": "failed_constraint", "message": text} for text, _, pointer in parts]
        raise SlackError(f"invalid_{given[0]}", errors=errors)
    return {}


METHODS = (
    Method(name="blocks.validate", handle=validate, tier=Tier.SPECIAL),
    Method(name="views.open", handle=open_view, tier=Tier.TIER_4),
    Method(name="views.push", handle=push_view, tier=Tier.TIER_4),
    Method(name="views.update", handle=update_view, tier=Tier.TIER_4),
    Method(name="views.publish", handle=publish_view, tier=Tier.TIER_4),
)
