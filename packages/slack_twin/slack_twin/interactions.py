"""Everything that people do with what apps show them. The control API and the page both call this.

An act waits until its app has acknowledged it, three seconds at most. What a person does wrong raises ControlError.
"""

from slack_twin.button_actions import Presses
from slack_twin.commands import Commands
from slack_twin.delivery import Delivery
from slack_twin.modals import Modals
from slack_twin.responses import Responses
from slack_twin.workspace import Workspace


class Interactions:
    """Acts of people, on their way to apps: `presses.on_message(user, channel, ts, Act(action_id=…))`, and so on.

    `presses`: buttons, menus and inputs of messages and views. `modals`: submit and close. `commands`: slash commands
    and shortcuts. `responses`: what apps answer. What a person sees open is in `workspace.surfaces`, what they have
    entered in `workspace.forms`, ephemeral messages in `workspace.ephemerals`; home tabs are opened by
    `homes.open_home`.
    """

    def __init__(self, workspace: Workspace, delivery: Delivery) -> None:
        self.responses = Responses(workspace)
        self.presses = Presses(workspace, delivery)
        self.modals = Modals(workspace, delivery)
        self.commands = Commands(workspace, delivery, self.responses)
