"""A Slack workspace for the tests of an app: speak as people, wait for what the app does, let things go wrong.

The fixture `slack_twin` of `swarm.twin.pytest_plugin` gives a `SlackTwin`. See docs/testing-slack-apps.md.
"""

from swarm.twin.testing.apps import InstalledApp
from swarm.twin.testing.errors import NotInTime, NotTaken, Refused
from swarm.twin.testing.journals import ApiCall, Delivery
from swarm.twin.testing.messages import Message
from swarm.twin.testing.person import Person
from swarm.twin.testing.server import TwinServer
from swarm.twin.testing.slack_twin import SlackTwin
from swarm.twin.testing.views import View

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
