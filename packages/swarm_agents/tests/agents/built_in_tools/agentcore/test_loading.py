"""What a coordinator without AgentCore pays for it: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.req("TOOL-04")
def test_nothing_of_it_is_loaded_before_it_is_opened() -> None:
    code = (
        "import sys; import swarm_agents.built_in_tools.agentcore.core; "
        "import swarm_agents.built_in_tools.agentcore.sessions; "
        "print([name for name in ('boto3', 'botocore', 'bedrock_agentcore', 'websockets') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
