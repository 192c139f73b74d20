"""The JSON of views in Slack's Web API and payloads, with the person's current input."""

from slack_twin.choices import Choices
from slack_twin.directory import TEAM_ID
from slack_twin.elements import elements_of
from slack_twin.errors import Json
from slack_twin.surfaces import AppView
from slack_twin.workspace import Workspace


def view_shape(workspace: Workspace, view: AppView) -> Json:
    """Returns a view object."""
    definition = view.definition
    elements = elements_of(definition.blocks)
    choices = Choices(workspace.directory, current=view.channel_id)
    values = workspace.forms.values((view.user_id, view.id), elements, choices)
    return {
        "id": view.id,
        "team_id": TEAM_ID,
        "type": definition.kind.value,
        "blocks": list(definition.blocks),
        "private_metadata": definition.private_metadata,
        "callback_id": definition.callback_id,
        "state": {"values": values},
        "hash": view.hash,
        "title": definition.title or {"type": "plain_text", "text": "View Title", "emoji": True},
        "clear_on_close": definition.clear_on_close,
        "notify_on_close": definition.notify_on_close,
        "submit_disabled": definition.submit_disabled,
        "close": definition.close,
        "submit": definition.submit,
        "previous_view_id": view.previous_id,
        "root_view_id": view.root_id,
        "app_id": view.app_id,
        "external_id": definition.external_id,
        "app_installed_team_id": TEAM_ID,
        "bot_id": workspace.directory.apps[view.app_id].bot_id,
    }
