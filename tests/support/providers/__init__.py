"""Providers of language models as scripted servers on this machine, each speaking its own wire protocol.

    async with openai_server([Call("add", {"a": 1, "b": 2}), Say("The sum is 3.")]) as server:
        spec = server.spec()                       # a ModelSpec; or server.base_url for your own
        ...
        assert server.requests[0].tools == ["add"]
        assert server.requests[1].results == ["3"]

A script is a list with the reply to one request after another, or a function from the `Request` to a reply (async if
it likes). A reply is one step or several: ``[Say("Let me look."), Call("search", {"query": "x"}), Used(1200, 40)]``.
Whether it goes out in pieces or as a whole is for the client to say, as with the real ones. `Fails`, `Silent`, `Cut`
and `Raw` are what goes wrong; see `tests.support.providers.script`. `anthropic_server`, `bedrock_server` and
`ollama_server` are used alike. Bedrock takes credentials from the environment: set what `AWS_ENVIRONMENT` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from swarm.domain.model.language_models import Provider
from tests.support.providers.anthropic_wire import AnthropicWire
from tests.support.providers.bedrock_wire import AWS_ENVIRONMENT, BedrockWire
from tests.support.providers.openai_wire import OllamaWire, OpenAIWire
from tests.support.providers.request import Request
from tests.support.providers.script import (
    Call,
    Cut,
    Ends,
    EndsEarly,
    Fails,
    Raw,
    Reply,
    Say,
    Script,
    Silent,
    Step,
    Used,
    Wait,
)
from tests.support.providers.server import ProviderServer, serve

__all__ = (
    "AWS_ENVIRONMENT",
    "SERVERS",
    "Call",
    "Cut",
    "Ends",
    "EndsEarly",
    "Fails",
    "ProviderServer",
    "Raw",
    "Reply",
    "Request",
    "Say",
    "Script",
    "Silent",
    "Step",
    "Used",
    "Wait",
    "anthropic_server",
    "bedrock_server",
    "ollama_server",
    "openai_server",
)

Serving = AbstractAsyncContextManager[ProviderServer]


def openai_server(script: Script) -> Serving:
    """OpenAI's chat completions; its base_url ends in /v1."""
    return serve(OpenAIWire(), script)


def anthropic_server(script: Script) -> Serving:
    """Anthropic's messages."""
    return serve(AnthropicWire(), script)


def bedrock_server(script: Script) -> Serving:
    """Bedrock's converse and converse-stream."""
    return serve(BedrockWire(), script)


def ollama_server(script: Script) -> Serving:
    """Ollama's chat completions; its base_url is without /v1, as OLLAMA_BASE_URL is."""
    return serve(OllamaWire(), script)


SERVERS: Final[Mapping[Provider, Callable[[Script], Serving]]] = {
    Provider.OPENAI: openai_server,
    Provider.ANTHROPIC: anthropic_server,
    Provider.BEDROCK: bedrock_server,
    Provider.OLLAMA: ollama_server,
}
"""The servers of all providers."""
