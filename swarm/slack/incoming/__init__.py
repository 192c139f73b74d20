"""What Slack sends, as values of the domain."""
