"""The clients of the package ``bedrock-agentcore``: made once, with time limits of our own."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any, Final

from swarm.agents.tools.agentcore.options import AgentCoreOptions

if TYPE_CHECKING:
    from bedrock_agentcore.memory import MemoryClient
    from bedrock_agentcore.tools.browser_client import BrowserClient
    from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 20
ATTEMPTS: Final = 2  # requests to start, to stop and to store carry a token by which AWS knows a repetition

SPARE_SECONDS: Final = 60
"""So much longer than a call a session may last, before AWS ends it by itself."""

_SERVICE: Final = "bedrock-agentcore"


class AgentCoreUnusable(Exception):
    """AgentCore cannot be used; the text says why, as a clause."""


class Clients:
    """What speaks to AgentCore in one region. Everything here blocks, and may be called in several threads.

    An object of the package for browsers or interpreters knows one session beside its connections. Making one takes
    20 ms of computing, so each session gets a copy: the connections are shared, the session is its own.
    """

    def __init__(self, options: AgentCoreOptions) -> None:
        """Raises Unusable, and botocore's BotoCoreError for a configuration of AWS's that cannot be read."""
        from bedrock_agentcore.memory import MemoryClient
        from bedrock_agentcore.tools.browser_client import BrowserClient
        from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter

        self._options = options
        session = _session()
        # The library itself reads AWS_DEFAULT_REGION, and the files, but not the variable that all others have.
        self.region: str = _region(options.region or os.environ.get("AWS_REGION") or session.region_name)
        if session.get_credentials() is None:
            raise AgentCoreUnusable(
                "there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        usual = session.client(_SERVICE, region_name=self.region)
        self._browser: BrowserClient = BrowserClient(self.region)
        self._interpreter: CodeInterpreter = CodeInterpreter(self.region, session=session)
        self._browser.data_plane_client = self._interpreter.data_plane_client = usual
        self._patient = session.client(_SERVICE, region_name=self.region, config=_for_code(options.code_seconds))
        self.memory: MemoryClient = MemoryClient(region_name=self.region, boto3_session=session)

    def start_browser(self) -> BrowserClient:
        """A browser of its own."""
        client = copy.copy(self._browser)
        client.start(self._options.browser, "swarm", _lasting(self._options.browse_seconds))
        return client

    def start_interpreter(self) -> CodeInterpreter:
        """An interpreter of its own."""
        client = copy.copy(self._interpreter)
        client.start(self._options.interpreter, "swarm", _lasting(self._options.code_seconds))
        return client

    def execute(self, interpreter: CodeInterpreter, code: str, language: str) -> Any:
        """The stream of what comes of a piece of code. It is sent once: it may do something.

        A copy runs it: `CodeInterpreter.stop` forgets the session, and a run without one starts another.
        """
        runner = copy.copy(interpreter)
        runner.data_plane_client = self._patient
        return runner.execute_code(code, language)["stream"]


def _session() -> Any:
    import boto3  # type: ignore[import-untyped]
    import botocore.session  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    core = botocore.session.get_session()
    retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
    core.set_default_client_config(
        Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries, tcp_keepalive=True)
    )
    return boto3.Session(botocore_session=core)


def _for_code(seconds: float) -> Any:
    from botocore.config import Config

    return Config(read_timeout=seconds, retries={"total_max_attempts": 1})


def _region(region: str | None) -> str:
    from bedrock_agentcore._utils.endpoints import InvalidRegionError, validate_region

    if region is None:
        raise AgentCoreUnusable("no AWS region is set; set tools.agentcore.region, or AWS_REGION")
    try:
        return validate_region(region)
    except InvalidRegionError as error:
        raise AgentCoreUnusable(f"'{region}' is no AWS region; one such as eu-central-1 is expected") from error


def _lasting(call_seconds: float) -> int:
    return round(call_seconds) + SPARE_SECONDS
