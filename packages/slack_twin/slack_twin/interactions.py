"""People's actions on messages and views of apps, for the control API and the page.

An action waits up to three seconds for the app's acknowledgement. Invalid actions raise ControlError.
"""

from slack_twin.button_actions import Presses
from slack_twin.commands import Commands
from slack_twin.delivery import Delivery
from slack_twin.modals import Modals
from slack_twin.responses import Responses
from slack_twin.workspace import Workspace


class Interactions:
    """People's actions, on their way to apps: `presses.on_message(user, channel, ts, Act(action_id=…))`, and so on.

    `presses`: buttons, menus and inputs of messages and views. `modals`: submitting and closing. `commands`: slash
    commands and shortcuts. `responses`: the apps' responses. `workspace.surfaces` has a person's open views,
    `workspace.forms` their input, and `workspace.ephemerals` their ephemeral messages. `homes.open_home` opens home
    tabs.
    """

    def __init__(self, workspace: Workspace, delivery: Delivery) -> None:
        self.responses = Responses(workspace)
        self.presses = Presses(workspace, delivery)
        self.modals = Modals(workspace, delivery)
        self.commands = Commands(workspace, delivery, self.responses)
