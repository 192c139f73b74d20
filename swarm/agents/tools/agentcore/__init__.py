"""Tools of Amazon Bedrock AgentCore: a browser, a memory and a code interpreter that run at AWS.

The tools need the package ``bedrock-agentcore`` (the extra "agentcore") and AWS's usual credentials. `core.AgentCore`
is the entry point; nothing of the package is imported before it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCoreOptions:
    """The operator's decisions: region and resources of AgentCore, and time limits."""

    region: str | None = None  # None: AWS_REGION, or the region in AWS's configuration
    memory_id: str | None = None  # of the memory; None: no tools for it
    actor_id: str = "swarm"  # the owner of the memory, which all users of one coordinator's agents share
    namespace_path: str = "/"  # records of the memory below this path are recalled
    browser: str = "aws.browser.v1"  # AWS's own, or the identifier of an operator's
    interpreter: str = "aws.codeinterpreter.v1"
    has_private_addresses: bool = False  # whether pages at private addresses may be opened, in a VPC of the operator's
    browse_seconds: float = 60.0  # for one page, the start of a browser included
    memory_seconds: float = 30.0
    code_seconds: float = 120.0  # for one piece of code, the start of an interpreter included
    most_characters: int = 20_000  # of a page, or of each output of code
