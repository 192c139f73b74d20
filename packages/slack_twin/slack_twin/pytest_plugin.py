"""The pytest plugin: provides a Slack workspace for the tests of an app, as the fixture `slack_twin`.

Every run of pytest loads the plugin if the package is installed, so it imports the twin only when a test needs it. See
docs/testing-slack-apps.md for examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from slack_twin.testing import SlackTwin, TwinServer

_SERVER, _RATES, _TIMEOUT = "slack_twin_server", "slack_twin_rates", "slack_twin_timeout_seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the fixtures to pytest's configuration."""
    parser.addini(
        _SERVER,
        "slack_twin: one server per 'test', or one per 'session' with a new workspace for each test",
        default="test",
    )
    parser.addini(_RATES, "slack_twin: enables Slack's rate limits", type="bool", default=True)
    parser.addini(_TIMEOUT, "slack_twin: how long to wait for an app, in seconds", default="5")


def _scope_of_server(fixture_name: str, config: pytest.Config) -> Literal["function", "session"]:
    match config.getini(_SERVER):
        case "test":
            return "function"
        case "session":
            return "session"
        case other:
            raise pytest.UsageError(f"{_SERVER} must be 'test' or 'session', not {other!r}")


@pytest.fixture(scope=_scope_of_server)
def slack_twin_server(pytestconfig: pytest.Config) -> Iterator[TwinServer]:
    """The server behind `slack_twin`, in its own thread."""
    from slack_twin.testing import TwinServer

    server = TwinServer(rates=pytestconfig.getini(_RATES))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def slack_twin(slack_twin_server: TwinServer, pytestconfig: pytest.Config) -> SlackTwin:
    """A Slack workspace for one test, on a free local port."""
    from slack_twin.testing import SlackTwin

    slack_twin_server.fresh()
    return SlackTwin(slack_twin_server, timeout_seconds=_timeout_seconds(pytestconfig))


def _timeout_seconds(config: pytest.Config) -> float:
    given = config.getini(_TIMEOUT)
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise pytest.UsageError(f"{_TIMEOUT} must be a number of seconds above 0, not {given!r}")
    return seconds
