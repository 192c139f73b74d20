"""All prompts of the built-in agents, as an operator and we have written them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swarm.agents.prompts.template import Template


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalWords:
    """What surrounds the tools' descriptions in a refusal; no model is asked for it."""

    intro: str  # before the list of what can be done
    outro: str  # after it
    no_tools: str  # instead of all that, while there is no tool


@dataclass(frozen=True, kw_only=True, slots=True)
class RouterPrompts:
    """The tool router's."""

    decide: Template  # the system prompt of the call that decides
    result: str  # how the result of a tool is worded, where its server has no text of its own
    refuse: RefusalWords
    ask: str  # the question, if the model wants to ask and does not say what
    stopped: str  # the answer to somebody who no longer wants it


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """What built-in agents are told. Templates are rendered for each run; everything else stays as it is."""

    assistant: Template  # the assistant's system prompt
    router: RouterPrompts
    server_prompts: Mapping[str, str]  # how results are worded, by the name of the MCP server
    summary: str  # how the older part of a conversation is put into a few words

    def result_of(self, server: str) -> str:
        """How to word what a tool of this MCP server has answered; an empty name is for tools without one."""
        return self.server_prompts.get(server, self.router.result)
