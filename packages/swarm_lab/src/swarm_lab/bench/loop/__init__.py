"""``swarm bench loop``: the path of a message from Slack to an agent and back, beside the plain driver."""
