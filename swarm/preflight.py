"""What can be found wrong before the heavy parts are loaded, so that it is said in one line and within a second."""

from __future__ import annotations

from swarm import home
from swarm.config import Settings, checked_work_tree
from swarm.domain.errors import ConfigurationError


def check(settings: Settings) -> None:
    """Make the home folder. Raises ConfigurationError for what no coordinator can start with."""
    checked_work_tree(settings)
    home.prepare(settings)
    home.check_kept_token(settings)
    bot_token(settings)


def bot_token(settings: Settings) -> str:
    """What we speak to Slack with. Raises ConfigurationError where there is none."""
    if settings.slack.bot_token is None:
        raise ConfigurationError(
            "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set. `swarm slack manifest` helps to create the Slack app; "
            "`swarm demo` runs everything against a local twin of Slack."
        )
    return settings.slack.bot_token.get_secret_value()
