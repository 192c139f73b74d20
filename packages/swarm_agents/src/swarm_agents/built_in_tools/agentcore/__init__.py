"""Tools of Amazon Bedrock AgentCore: a browser, a memory and a code interpreter that run at AWS.

The tools need the package ``bedrock-agentcore`` (the extra "agentcore") and AWS credentials in one of the usual places.
`core.AgentCore` is the entry point; the package is not imported before AgentCore is opened.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCoreOptions:
    """The operator's settings: AgentCore's region and resources, and time limits."""

    region: str | None = None  # None for AWS_REGION, or the region in AWS's configuration
    memory_id: str | None = None  # id of the memory; None for no memory tools
    actor_id: str = "swarm"  # the owner of the memory, shared by all users of one coordinator's agents
    namespace_path: str = "/"  # memory records below this path are recalled
    browser: str = "aws.browser.v1"  # AWS's own browser, or the identifier of the operator's browser
    interpreter: str = "aws.codeinterpreter.v1"
    has_private_addresses: bool = False  # whether pages at private addresses may be opened, in the operator's VPC
    browse_seconds: float = 60.0  # for one page, including the start of a browser
    memory_seconds: float = 30.0
    code_seconds: float = 120.0  # for one piece of code, including the start of an interpreter
    most_characters: int = 20_000  # for a page, or for each output of code
