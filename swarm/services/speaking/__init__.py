"""What the coordinator says of itself in Slack, to whom, and when it stays silent."""
