"""A local Slack workspace: Web API, Socket Mode, signed HTTP delivery, a control API and a page.

It knows nothing of the coordinator. `python -m swarm.twin` runs it; tests use `build_twin` and `running`.
"""

from swarm.twin.server import create_app, environment, running, serve
from swarm.twin.settings import Settings
from swarm.twin.twin import Twin, build_twin

__all__ = ["Settings", "Twin", "build_twin", "create_app", "environment", "running", "serve"]
