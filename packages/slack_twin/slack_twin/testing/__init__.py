"""A Slack workspace for the tests of an app: acts as people, waits for the app's reactions, and injects faults.

The fixture `slack_twin` of `slack_twin.pytest_plugin` provides a `SlackTwin`. See docs/testing-slack-apps.md.
"""

from slack_twin.testing.apps import InstalledApp
from slack_twin.testing.errors import NotInTime, NotTaken, Refused
from slack_twin.testing.journals import ApiCall, Delivery
from slack_twin.testing.messages import Message
from slack_twin.testing.person import Person
from slack_twin.testing.server import TwinServer
from slack_twin.testing.slack_twin import SlackTwin
from slack_twin.testing.views import View

__all__ = [
    "ApiCall",
    "Delivery",
    "InstalledApp",
    "Message",
    "NotInTime",
    "NotTaken",
    "Person",
    "Refused",
    "SlackTwin",
    "TwinServer",
    "View",
]
