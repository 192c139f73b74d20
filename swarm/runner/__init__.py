"""`swarm run`: a coding CLI as an agent.

The runner is a program of its own. It speaks HTTP and MCP to the coordinator, and imports nothing of it. Start reading
at `swarm.runner.runner`; `swarm.runner.port` defines what each kind of CLI has to offer.
"""
