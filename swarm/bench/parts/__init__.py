"""Parts of every measurement: coordinators, agents, Slack, HTTP, databases."""
