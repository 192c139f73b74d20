"""`swarm bench stream`: answers that are streamed, measured from the agent to Slack."""
